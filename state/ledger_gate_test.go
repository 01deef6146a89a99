package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// begunWith is a ledger of a session with so many turns.
func begunWith(t *testing.T, s Ledgers, session string, at time.Time, turns int) {
	t.Helper()
	if err := s.Update(session, func(l *Ledger, _ bool) error { l.StartedAt, l.Turns = at, turns; return nil }); err != nil {
		t.Fatal(err)
	}
}

func stopped(t *testing.T, s Ledgers, session string, at time.Time) bool {
	t.Helper()
	is, err := s.StopAtGate(session, at, func(l *Ledger) { l.Reason = "stopped" })
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func TestStopAtGateOnceForEachStart(t *testing.T) {
	s, at := LedgersIn(t.TempDir()), time.Date(2026, 2, 21, 10, 30, 0, 0, time.UTC)
	if _, err := s.StopAtGate("s", at, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a ledger: %v", err)
	}
	begunWith(t, s, "s", at, 1)
	if !stopped(t, s, "s", at.Add(time.Hour)) || stopped(t, s, "s", at.Add(2*time.Hour)) {
		t.Error("not once")
	}
	ended, bad := s.Ended()
	if len(ended) != 1 || len(bad) > 0 || !ended[0].AtGate || ended[0].Reason != "stopped" || !ended[0].EndedAt.Equal(at.Add(time.Hour)) {
		t.Fatalf("waiting: %+v, %v", ended, bad)
	}
	running, err := s.Load("s")
	if err != nil || running.AtGate || !running.EndedAt.IsZero() || running.Reason != "" {
		t.Errorf("running: %+v, %v", running, err)
	}
	if told, waiting := s.AtGate(running); !told || !waiting {
		t.Errorf("told %v, waiting %v", told, waiting)
	}
	if err := s.Reported(ended[0]); err != nil {
		t.Fatal(err)
	}
	if running, err = s.Load("s"); err != nil { // a real end takes it away
		t.Fatal(err)
	}
	if told, waiting := s.AtGate(running); !told || waiting || stopped(t, s, "s", at.Add(3*time.Hour)) {
		t.Errorf("after the report: told %v, waiting %v", told, waiting)
	}
	s.Sweep(time.Now().Add(29 * 24 * time.Hour))
	if told, _ := s.AtGate(running); !told {
		t.Error("forgotten within a month")
	}
	begunWith(t, s, "s", at.Add(5*time.Hour), 1)
	if !stopped(t, s, "s", at.Add(6*time.Hour)) {
		t.Error("a resumed session is not told of")
	}
}

func TestEndAfterStopAtGate(t *testing.T) {
	at := time.Date(2026, 2, 21, 10, 30, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		turns    int // at the end
		reported bool
		want     bool
	}{"nothing since": {2, true, false}, "nothing since, and it waits": {2, false, false}, "a turn since": {3, true, true}, "a turn since, and it waits": {3, false, true}} {
		t.Run(name, func(t *testing.T) {
			s := LedgersIn(t.TempDir())
			begunWith(t, s, "s", at, 2)
			stopped(t, s, "s", at.Add(time.Minute))
			if c.reported {
				ended, _ := s.Ended()
				if err := s.Reported(ended[0]); err != nil {
					t.Fatal(err)
				}
			}
			begunWith(t, s, "s", at, c.turns)
			waiting, _ := s.Ended()
			for range 2 { // two installs
				ended, err := s.End("s", at.Add(time.Hour), func(l *Ledger, known bool) {
					if !known {
						t.Error("told of once more")
					}
				})
				if ended != c.want || err != nil {
					t.Errorf("ended %v, %v", ended, err)
				}
				c.want = false
				if _, err := s.Load("s"); err == nil {
					t.Error("the running ledger is left")
				}
			}
			now, bad := s.Ended()
			if more := len(now) - len(waiting); len(bad) > 0 || more != c.turns-2 {
				t.Errorf("%d more wait, %v", more, bad)
			}
			for _, l := range now {
				if err := s.Reported(l); err != nil {
					t.Error(err)
				}
			}
			if ended, _ := s.Ended(); len(ended) != 0 {
				t.Errorf("left: %v", ended)
			}
		})
	}
}

// A copy that does not parse is set aside, like any ledger, and the end is told then.
func TestEndAfterABrokenCopyOfTheGate(t *testing.T) {
	s, at := LedgersIn(t.TempDir()), time.Now()
	begunWith(t, s, "s", at, 1)
	stopped(t, s, "s", at)
	files, _ := filepath.Glob(filepath.Join(s.Dir, "s.ended-gate-*"))
	if len(files) != 1 || strings.Count(filepath.Base(files[0]), ".") != 2 {
		t.Fatalf("files: %v", files)
	}
	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ended, err := s.End("s", at, func(*Ledger, bool) {}); !ended || err != nil {
		t.Errorf("%v, %v", ended, err)
	}
}
