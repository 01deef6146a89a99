package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// envOf is the environment of a person with a home folder of their own.
func envOf(t testing.TB, pairs ...string) Getenv {
	home := t.TempDir()
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		if name == "HOME" {
			return home
		}
		return ""
	}
}

func TestRecords_OneWaiter(t *testing.T) {
	env := envOf(t)
	lock, err := LockWaiter(env, "/q.json")
	if err != nil || !HasWaiter(env, "/q.json") {
		t.Fatal(err)
	}
	if _, err := LockWaiter(env, "/q.json"); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	lock.Unlock()
	if HasWaiter(env, "/q.json") {
		t.Error("still waited for")
	}
}

func TestRecords_ClosingOwesOneNote(t *testing.T) {
	q := record(t, QuestionsIn(t.TempDir()), question("s"))
	for _, want := range []bool{true, false} {
		ended, err := CloseQuestion(q.Path, Cancelled, "signal", nil)
		if err != nil || ended != want {
			t.Errorf("ended %v, %v; want %v", ended, err, want)
		}
	}
	q, err := LoadQuestion(q.Path)
	if err != nil || !slices.Equal(q.OwedNotes, []OwedNote{{About: NoteClosed}}) || q.ResolvedBy != "signal" {
		t.Errorf("%+v, %v", q, err)
	}
}

func message(key, text string) *Message {
	return &Message{ID: "client-" + key, Key: key, Type: MessageReport, Report: &Report{Type: ReportPlain, Text: text}}
}

func TestRecords_SessionIsKept(t *testing.T) {
	s := SessionsIn(t.TempDir())
	kit.NoError(t, errors.Join(s.AddNotice("s.1", "it failed"), s.AddNotice("s.1", "it failed"), s.AddNotice("s_1", "another")))
	kit.Equalf(t, s.TakeNotices("s.1"), "it failed", "first")
	kit.Equalf(t, s.TakeNotices("s.1"), "", "second")
	now := time.Now()
	for n, want := range []bool{true, true, false} {
		if ok, err := s.CountGateBlock("s.1", now.Add(time.Duration(n)*time.Second), 2, time.Minute); ok != want || err != nil {
			t.Errorf("block %d: %v, %v", n, ok, err)
		}
	}
	if ok, err := s.CountGateBlock("s.1", now.Add(2*time.Minute), 2, time.Minute); !ok || err != nil {
		t.Errorf("later: %v, %v", ok, err)
	}
}

func TestRecords_Pace(t *testing.T) {
	s, now := &Space{}, time.Now()
	for n := range 10 {
		if wait := s.TakeWrite(now, time.Second, 10); wait != 0 {
			t.Fatalf("write %d waits %s", n, wait)
		}
	}
	kit.Equalf(t, s.TakeWrite(now, time.Second, 10), time.Second, "the eleventh waits")
	kit.Equalf(t, s.TakeWrite(now.Add(time.Second), time.Second, 10), 0, "a second later")
	kit.Equalf(t, s.TakeWrite(now.Add(-time.Hour), time.Second, 10), 0, "after the clock was set back")
	s.NotBefore = now.Add(2 * time.Hour)
	if s.WriteDelay(now) != 0 || s.WriteDelay(now.Add(90*time.Minute)) != 30*time.Minute {
		t.Error("a pause that no server asks for counts")
	}
}

// A read that failed for want of a descriptor is tried again, though the file does not
// change.
func TestRecords_FailedReadIsRepeated(t *testing.T) {
	dir := t.TempDir()
	f := Folder[Session]{Dir: dir}
	kit.NoError(t, f.Create("s", &Session{ID: "s"}))
	var was syscall.Rlimit
	kit.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	var c Cache[Session]
	low := was
	low.Cur = 3
	kit.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	_, err := c.Load(filepath.Join(dir, "s.json"), false)
	kit.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was))
	if err == nil {
		t.Skip("no error to be had")
	}
	if s, err := c.Load(filepath.Join(dir, "s.json"), false); s == nil {
		t.Errorf("afterwards it is %v, %v", s, err)
	}
}

// A waiting process takes its record into its own environment when the poller of another
// one that served it is dead.
func TestRecords_WaiterTakesItsRecordAlong(t *testing.T) {
	dir := t.TempDir()
	vars := map[string]string{"HOME": dir}
	env := func(name string) string { return vars[name] }
	q := &Question{QuestionID: "q", SessionID: "s", Status: Pending, Mode: ModeDeny, AskedAt: time.Now()}
	kit.NoError(t, MarkersIn(filepath.Join(dir, "p")).Create("q", q))
	kit.NoError(t, AddQuestionToIndex(env, q))
	other, err := LockPoller(env) // A's poller
	kit.NoError(t, err)
	vars["GCHAT_ALLOWED_USERS"] = "users/1" // B: the session is resumed
	kit.NoError(t, AddQuestionToIndex(env, q))
	other.Unlock() // A's poller is killed
	self := filepath.Join(dir, "self")
	kit.NoError(t, os.WriteFile(self, []byte("#!/bin/sh\nexit 0\n"), 0o700))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, _ = Await(ctx, env, self, q.Path, func(q *Question) bool { return q.Status != Pending })
	o, err := ReadIndexEntry(IndexFile(env, q.Path))
	if err != nil || o.Environment != Environment(env) {
		t.Errorf("the record is still %s's, whose poller is dead; ours is %s: %v", o.Environment, Environment(env), err)
	}
}

// What was emptied in a copy of a record does not come back with the members that the
// copy was read with.
func TestRecords_CopyHasNoEmptiedMember(t *testing.T) {
	folder := QuestionsIn(t.TempDir())
	q, end := question("s"), time.Now().UTC()
	q.Mode, q.IsDenied, q.TimesOutAt, q.TimeoutPolicy = ModeDeny, true, &end, TimeoutRecommended
	kit.NoError(t, folder.Create("marker", q))
	read, err := folder.Load("marker")
	kit.NoError(t, err)
	there := *read
	there.Mode, there.IsDenied, there.TimesOutAt, there.TimeoutPolicy = ModeNative, false, nil, ""
	kit.NoError(t, folder.Create("terminal", &there))
	is, err := folder.Load("terminal")
	if err != nil || is.IsDenied || is.TimesOutAt != nil || is.TimeoutPolicy != "" || is.Mode != ModeNative {
		t.Errorf("it is %+v, %v", is, err)
	}
}

// With what a hub adds, an id that names its machine is as long as Chat takes.
func TestRecords_NamedIDFits(t *testing.T) {
	const fromHub = len("0123456789ab-")
	if id := MachineMessageID("report"); len(id)+fromHub > 63 || !strings.HasPrefix(id, OwnIDPrefix()) || id == MachineMessageID("another") {
		t.Error(id)
	}
}
