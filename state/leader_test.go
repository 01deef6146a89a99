package state

import (
	"errors"
	"os"
	"testing"
	"time"
)

const spaceA = "chat.googleapis.com/spaces/A"

// silence has the leader in a seat show nothing for so long, as a process that is stopped.
func silence(t *testing.T, dir string, seat int, since time.Duration) {
	t.Helper()
	at := time.Now().Add(-since)
	if err := os.Chtimes(leaderPath(dir, spaceA, seat), at, at); err != nil {
		t.Fatal(err)
	}
}

func lead(t *testing.T, dir string) *Leader {
	t.Helper()
	l, err := LockLeader(dir, spaceA)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Unlock)
	return l
}

// One leads; beside one that is stopped one more does, until the first goes on.
func TestOneStandsInForAStoppedLeader(t *testing.T) {
	dir := t.TempDir()
	first := lead(t, dir)
	if _, err := LockLeader(dir, spaceA); !errors.Is(err, ErrLocked) {
		t.Fatalf("two lead: %v", err)
	}
	if !HasLeader(dir, spaceA) || StoppedLeader(dir, spaceA) != 0 {
		t.Error("the leader is taken for stopped")
	}

	silence(t, dir, 0, time.Hour)
	if HasLeader(dir, spaceA) || StoppedLeader(dir, spaceA).Round(time.Minute) != time.Hour {
		t.Errorf("the leader is not taken for stopped: %s", StoppedLeader(dir, spaceA))
	}
	second := lead(t, dir)
	if !second.StandsIn() || !second.Needed() || !HasLeader(dir, spaceA) {
		t.Error("nobody stands in")
	}
	if _, err := LockLeader(dir, spaceA); !errors.Is(err, ErrLocked) {
		t.Errorf("a third leads: %v", err)
	}
	silence(t, dir, 1, time.Hour)
	if third := lead(t, dir); !third.StandsIn() || !third.Needed() {
		t.Error("nobody stands in for both")
	}

	first.Beat()
	if second.Needed() || !first.Needed() || StoppedLeader(dir, spaceA) != 0 {
		t.Error("one stands in for a leader that goes on")
	}
}

// One that stands in makes way where the first seat is free: it would keep nobody from leading.
func TestStandingInEndsWithTheStoppedLeader(t *testing.T) {
	dir := t.TempDir()
	first := lead(t, dir)
	silence(t, dir, 0, time.Hour)
	second := lead(t, dir)
	first.Unlock()
	if second.Needed() {
		t.Error("it stands in for nobody")
	}
	if next := lead(t, dir); next.StandsIn() {
		t.Error("the first seat is not free")
	}
}
