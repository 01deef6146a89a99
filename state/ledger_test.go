package state

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// begun begins a session's ledger.
func begun(t *testing.T, s Ledgers, id string, at time.Time) {
	t.Helper()
	if err := s.Update(id, func(l *Ledger, _ bool) error {
		*l = Ledger{SessionID: id, StartedAt: at, Source: "startup"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func end(t *testing.T, s Ledgers, id string, at time.Time) (ended bool) {
	t.Helper()
	ended, err := s.End(id, at, func(l *Ledger, known bool) { l.Reason = "other" })
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

func endedIDs(t *testing.T, s Ledgers) (ids []string) {
	t.Helper()
	ls, bad := s.Ended()
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	for _, l := range ls {
		ids = append(ids, l.SessionID)
	}
	return ids
}

func TestLedgerKeepsWhatItDoesNotKnow(t *testing.T) {
	s := LedgersIn(t.TempDir())
	if err := mkdir(s.Dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Dir, "s.json")
	if err := os.WriteFile(path, []byte(`{"session_id":"s","turns":3,"of_tomorrow":{"a":[1,2]},"started_at":"2026-11-21T07:00:00Z"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Update("s", func(l *Ledger, known bool) error {
		if !known {
			t.Error("not known")
		}
		l.Turns++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !end(t, s, "s", time.Now()) {
		t.Fatal("did not end")
	}
	b, err := os.ReadFile(filepath.Join(s.Dir, "s.ended.json"))
	if err != nil || !json.Valid(b) || !strings.Contains(string(b), `"of_tomorrow":{"a":[1,2]}`) || !strings.Contains(string(b), `"turns":4`) {
		t.Errorf("on disk: %s, %v", b, err)
	}
	if strings.Count(string(b), `"turns"`) != 1 {
		t.Errorf("a known member stands twice: %s", b)
	}
	if exists(path) {
		t.Error("the running ledger is still there")
	}
}

func TestLedgerUnchangedOrRefusedIsNotWritten(t *testing.T) {
	s := LedgersIn(t.TempDir())
	if err := s.Update("s", func(*Ledger, bool) error { return ErrUnchanged }); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	if err := s.Update("s", func(*Ledger, bool) error { return refused }); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if exists(s.path("s", "")) {
		t.Error("it was written")
	}
}

func TestLedgerThatDoesNotParseIsMovedAside(t *testing.T) {
	for name, content := range map[string]string{"half": `{"session_id":"s","tur`, "empty": "", "null": "null", "list": "[]", "nobody's": `{"turns":1}`} {
		t.Run(name, func(t *testing.T) {
			s := LedgersIn(t.TempDir())
			_ = mkdir(s.Dir)
			for _, kind := range []string{"", ".ended"} {
				if err := os.WriteFile(s.path("s", kind), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := s.Update("s", func(l *Ledger, known bool) error {
				if known {
					t.Error("known")
				}
				l.StartedAt = time.Now()
				return nil
			})
			if !errors.As(err, new(*Corrupt)) {
				t.Errorf("error %v", err)
			}
			if l, err := s.Load("s"); err != nil || l.SessionID != "s" {
				t.Errorf("not begun anew: %v, %v", l, err)
			}
			if _, bad := s.Ended(); len(bad) != 1 {
				t.Errorf("ended ones that did not parse: %v", bad)
			}
			for _, kind := range []string{"", ".ended"} {
				if b, err := os.ReadFile(s.path("s", kind) + ".corrupt-1"); err != nil || string(b) != content {
					t.Errorf("aside: %q, %v", b, err)
				}
			}
		})
	}
}

func TestEndToldTwiceIsOne(t *testing.T) {
	now := time.Now()
	t.Run("before it was reported", func(t *testing.T) {
		s := LedgersIn(t.TempDir())
		begun(t, s, "s", now.Add(-time.Hour))
		if !end(t, s, "s", now) || end(t, s, "s", now.Add(time.Second)) {
			t.Error("want one end")
		}
		if ids := endedIDs(t, s); len(ids) != 1 {
			t.Errorf("ended: %v", ids)
		}
	})
	t.Run("after it was reported", func(t *testing.T) {
		s := LedgersIn(t.TempDir())
		end(t, s, "s", now) // nothing was known of this one
		ls, _ := s.Ended()
		if err := s.Reported(ls[0]); err != nil {
			t.Fatal(err)
		}
		if end(t, s, "s", now.Add(time.Second)) || len(endedIDs(t, s)) != 0 {
			t.Error("it ended again")
		}
		if !end(t, s, "s", now.Add(time.Hour)) {
			t.Error("an end of an hour later is another one")
		}
	})
	t.Run("at the same moment", func(t *testing.T) {
		s := LedgersIn(t.TempDir())
		begun(t, s, "s", now.Add(-time.Hour))
		var wg sync.WaitGroup
		var ends atomic.Int32
		for range 16 {
			wg.Go(func() {
				if ended, err := s.End("s", time.Now(), func(*Ledger, bool) {}); err != nil {
					t.Error(err)
				} else if ended {
					ends.Add(1)
				}
			})
		}
		wg.Wait()
		if n := ends.Load(); n != 1 || len(endedIDs(t, s)) != 1 {
			t.Errorf("%d ends, on disk %v", n, endedIDs(t, s))
		}
	})
}

// A process that is killed between the two steps of an end leaves both files.
func TestEndThatWasCutShort(t *testing.T) {
	now := time.Now()
	cut := func(t *testing.T) (Ledgers, *Ledger) {
		s := LedgersIn(t.TempDir())
		begun(t, s, "s", now.Add(-time.Hour))
		b, err := os.ReadFile(s.path("s", ""))
		if err != nil {
			t.Fatal(err)
		}
		end(t, s, "s", now)
		if err := os.WriteFile(s.path("s", ""), b, 0o600); err != nil {
			t.Fatal(err)
		}
		ls, _ := s.Ended()
		return s, ls[0]
	}
	t.Run("told again", func(t *testing.T) {
		s, _ := cut(t)
		if end(t, s, "s", now.Add(time.Hour)) || exists(s.path("s", "")) || len(endedIDs(t, s)) != 1 {
			t.Error("want the running one gone and one end")
		}
	})
	t.Run("reported", func(t *testing.T) {
		s, l := cut(t)
		if err := s.Reported(l); err != nil {
			t.Fatal(err)
		}
		if exists(s.path("s", "")) || len(endedIDs(t, s)) != 0 {
			t.Error("want both gone")
		}
	})
	t.Run("resumed", func(t *testing.T) {
		s, l := cut(t)
		begun(t, s, "s", now.Add(time.Minute))
		if err := s.Reported(l); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load("s"); err != nil {
			t.Errorf("the resumed session's ledger is gone: %v", err)
		}
	})
}

func TestTwoLivesOfASessionEndTwice(t *testing.T) {
	s, now := LedgersIn(t.TempDir()), time.Now()
	for i := range 3 {
		begun(t, s, "s", now.Add(time.Duration(i)*time.Minute))
		if !end(t, s, "s", now.Add(time.Duration(i)*time.Minute+time.Second)) {
			t.Fatalf("life %d did not end", i)
		}
	}
	ls, _ := s.Ended()
	if len(ls) != 3 || !ls[0].EndedAt.Before(ls[1].EndedAt) || !ls[1].EndedAt.Before(ls[2].EndedAt) {
		t.Fatalf("ended: %v", ls)
	}
	// A reporter that was slow does not take another life's end out.
	stale := *ls[0]
	if err := s.Reported(ls[0]); err != nil {
		t.Fatal(err)
	}
	begun(t, s, "s", now.Add(time.Hour))
	end(t, s, "s", now.Add(2*time.Hour)) // in the free place of the first
	if err := s.Reported(&stale); err != nil || len(endedIDs(t, s)) != 3 {
		t.Errorf("%v, ended: %v", err, endedIDs(t, s))
	}
}

func TestLedgersOfOddNamesDoNotMeet(t *testing.T) {
	s, now := LedgersIn(t.TempDir()), time.Now()
	ids := []string{"x", "x.ended", "x.ended-2", "x.reported", "x.json", "../x", "x/../../y", ".", "..", strings.Repeat("x", 300)}
	for _, id := range ids {
		begun(t, s, id, now)
	}
	if got := endedIDs(t, s); len(got) != 0 {
		t.Errorf("ended: %v", got)
	}
	for _, id := range ids {
		if !end(t, s, id, now) {
			t.Errorf("%q did not end", id)
		}
	}
	if got := endedIDs(t, s); len(got) != len(ids) {
		t.Errorf("ended: %q", got)
	}
	if entries, _ := os.ReadDir(filepath.Dir(s.Dir)); len(entries) != 1 {
		t.Errorf("something was written outside: %v", entries)
	}
}

func TestLedgersAreSwept(t *testing.T) {
	s, now := LedgersIn(t.TempDir()), time.Now()
	begun(t, s, "kept", now)
	begun(t, s, "old", now)
	end(t, s, "told", now)
	ls, _ := s.Ended()
	if err := s.Reported(ls[0]); err != nil {
		t.Fatal(err)
	}
	age := func(name string, by time.Duration) {
		if err := os.Chtimes(filepath.Join(s.Dir, name), now.Add(-by), now.Add(-by)); err != nil {
			t.Fatal(err)
		}
	}
	age("old.json", 31*24*time.Hour)
	age("told.reported.json", 25*time.Hour)
	age(".lock", 99*24*time.Hour)
	s.Sweep(now)
	entries, _ := os.ReadDir(s.Dir)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got := strings.Join(left, " "); got != ".lock kept.json" {
		t.Errorf("left: %s", got)
	}
}
