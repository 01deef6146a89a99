package state

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestWaiterOf(t *testing.T) {
	q, err := QuestionsIn(t.TempDir()).Record("s", func([]*Question) *Question {
		return &Question{QuestionID: "12345678", SessionID: "s", AskedAt: time.Now(), Status: Pending}
	})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, pid int, name string, waits bool) {
		t.Helper()
		if p, n, w := WaiterOf(q); p != pid || n != name || w != waits {
			t.Errorf("%s: pid %d %q, waits: %v", what, p, n, w)
		}
	}
	expect("nobody ever waited", 0, "", false)
	l, err := LockWaiter(q)
	if err != nil {
		t.Fatal(err)
	}
	expect("it did not say who it is", 0, "", true)
	SignWaiter(q, "gchat-wait")
	expect("it did", os.Getpid(), "gchat-wait", true)
	l.Unlock()
	expect("it let go", 0, "", false)

	// The next one does not pass for it, nor for one that is gone, whose pid cannot be: the kernel's largest is 4 million.
	if l, err = LockWaiter(q); err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	expect("the next one", 0, "", true)
	if err := os.WriteFile(waiterPath(q), []byte(strconv.Itoa(1<<30)+" gchat-wait\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("a signature of a process that is gone", 0, "", true)
}

// Who only looks leaves what it cannot read where it is, and says so each time.
func TestScanLeavesAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(QuestionsIn(dir).Dir, "s-1.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"question_id": nonsense}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Scan{LeaveAlone: true}
	for range 2 {
		if qs, bad := s.Questions([]string{dir}); len(qs) > 0 || len(bad) != 1 {
			t.Errorf("%d questions, %v", len(qs), bad)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestLedgersRunning(t *testing.T) {
	box := LedgersIn(t.TempDir())
	if running, bad := box.Running(); len(running)+len(bad) > 0 {
		t.Errorf("of no folder: %v %v", running, bad)
	}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for i, id := range []string{"old", "new", "over"} {
		if err := box.Update(id, func(l *Ledger, _ bool) error { l.LastSeen = at.Add(time.Duration(i) * time.Hour); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := box.End("over", at, func(*Ledger, bool) {}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(box.Dir, "broken.json"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	running, bad := box.Running()
	if len(running) != 2 || running[0].SessionID != "new" || running[1].SessionID != "old" || len(bad) != 1 {
		t.Errorf("running: %+v, %v", running, bad)
	}
}
