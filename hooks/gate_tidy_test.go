package hooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// left are the names in the folder of markers, without locks.
func (w *world) left() (names []string) {
	w.Helper()
	entries, err := os.ReadDir(filepath.Dir(w.markerPath("x")))
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestGateRemovesOldMarkers(t *testing.T) {
	const day = 24 * time.Hour
	const id = "ask-sess-2-0a1b2c3d"
	for name, c := range map[string]struct {
		status         string
		asked, written time.Duration // ago
		kv             []any
		file           string // "" as the question is called
		removed, said  bool
	}{
		"resolved":                      {"resolved", 25 * time.Hour, 25 * time.Hour, nil, "", true, false},
		"timeout":                       {"timeout", 25 * time.Hour, 25 * time.Hour, nil, "", true, false},
		"cancelled":                     {"cancelled", 25 * time.Hour, 25 * time.Hour, nil, "", true, false},
		"pending":                       {"pending", 25 * time.Hour, 25 * time.Hour, nil, "", true, false},
		"answered":                      {"answered", 25 * time.Hour, 25 * time.Hour, nil, "", true, false},
		"pending, as we write it":       {"pending", 25 * time.Hour, 25 * time.Hour, []any{"mode", "deny", "gchat_thread_name", "spaces/S/threads/T"}, "", true, false},
		"of today":                      {"resolved", 23 * time.Hour, 23 * time.Hour, nil, "", false, false},
		"written today":                 {"resolved", 3 * day, time.Hour, nil, "", false, false},
		"asked today":                   {"resolved", time.Hour, 3 * day, nil, "", false, true},
		"from the future":               {"pending", -day, 3 * day, nil, "", false, true},
		"under another name":            {"resolved", 3 * day, 3 * day, nil, "ask-sess-2-0a1b2c3e", false, true},
		"a question of another form":    {"resolved", 3 * day, 3 * day, []any{"question_id", "q-1"}, "q-1", false, true},
		"without a thread":              {"resolved", 3 * day, 3 * day, []any{"gchat_thread_key", nil}, "", false, true},
		"another version":               {"pondering", 3 * day, 3 * day, nil, "", false, true},
		"another shape":                 {"resolved", 3 * day, 3 * day, []any{"asked_at", 7}, "", false, true},
		"pending, and not ours to read": {"pending", 3 * day, 3 * day, []any{"questions", "what?"}, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := gateWorld(t)
			path := w.marker(id, "sess-2", c.status, time.Now().Add(-c.asked), c.kv...)
			if c.file != "" {
				if err := os.Rename(path, w.markerPath(c.file)); err != nil {
					t.Fatal(err)
				}
				path = w.markerPath(c.file)
			}
			age(t, path, c.written)
			w.stop()
			_, err := os.Lstat(path)
			if (err != nil) != c.removed {
				t.Errorf("removed: %v", err != nil)
			}
			if n := strings.Count(w.log(), "\n"); n != map[bool]int{true: 1}[c.said] {
				t.Errorf("%d lines in the log: %s", n, w.log())
			}
			if locks, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".locks", "ask-*")); c.removed && len(locks) > 0 {
				t.Errorf("locks are left: %v", locks)
			}
		})
	}
}

// What is no marker at all stays however old it is, and is spoken of.
func TestGateRemovesNothingElse(t *testing.T) {
	t.Parallel()
	w := gateWorld(t)
	for name, content := range map[string]string{"ask-sess-2-00000001": "", "ask-sess-2-00000002": `{"question_id":"ask-sess-2-00000002",`, "ask-sess-2-00000003": "{}", "notes": "[]"} {
		writeFile(t, w.markerPath(name), content)
		age(t, w.markerPath(name), 100*time.Hour)
	}
	dir := filepath.Dir(w.markerPath("x"))
	for _, name := range []string{"README", "ask-sess-2-00000004.json.bak", ".ask-sess-2-00000005.json"} { // not even looked at
		writeFile(t, filepath.Join(dir, name), "{}")
		age(t, filepath.Join(dir, name), 100*time.Hour)
	}
	if err := os.Symlink("/dev/zero", w.markerPath("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.markerPath("folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	age(t, w.markerPath("folder"), 100*time.Hour)
	w.stop()
	if n := len(w.left()); n != 8 {
		t.Errorf("left: %v", w.left())
	}
	if n := strings.Count(w.log(), "marker passed over"); n != 5 { // of those that are old
		t.Errorf("%d lines in the log: %s", n, w.log())
	}
}

// Closed ones go first, some at a time, and in the end all are gone.
func TestGateRemovesClosedMarkersFirst(t *testing.T) {
	t.Parallel()
	w := gateWorld(t)
	old := time.Now().Add(-48 * time.Hour)
	for i := range 40 {
		status := "resolved"
		if i%2 == 0 {
			status = "pending"
		}
		age(t, w.marker(fmt.Sprintf("ask-sess-2-%08x", i), "sess-2", status, old.Add(-time.Duration(i)*time.Minute)), 48*time.Hour)
	}
	before := len(w.left())
	w.stop("stop_hook_active", true)
	for _, name := range w.left() {
		if b, _ := os.ReadFile(filepath.Join(filepath.Dir(w.markerPath("x")), name)); strings.Contains(string(b), "resolved") {
			t.Errorf("%s is left, and %d open ones are gone", name, before-20-len(w.left()))
		}
	}
	if n := len(w.left()); n >= 20 || n == 0 {
		t.Errorf("%d open ones are left", n)
	}
	w.until("all to be gone", func() bool { w.stop("stop_hook_active", true); return len(w.left()) == 0 })
}

func TestGateRemovesSomeAtATime(t *testing.T) {
	t.Parallel()
	w := gateWorld(t)
	for i := range 200 {
		age(t, w.marker(fmt.Sprintf("ask-sess-2-%08x", i), "sess-2", "resolved", time.Now().Add(-48*time.Hour)), 48*time.Hour)
	}
	w.stop("stop_hook_active", true)
	if n := len(w.left()); n != 200-32 {
		t.Errorf("%d are left", n)
	}
	w.until("all to be gone", func() bool { w.stop("stop_hook_active", true); return len(w.left()) == 0 })
}

// Files that stay for ever do not hide the others.
func TestGateComesToAllMarkers(t *testing.T) {
	t.Parallel()
	w := gateWorld(t)
	for i := range 300 {
		age(t, w.marker(fmt.Sprintf("ask-sess-2-%08x", i), "sess-2", "pondering", time.Now().Add(-48*time.Hour)), 48*time.Hour)
	}
	path := w.marker("ask-sess-2-ffffffff", "sess-2", "resolved", time.Now().Add(-48*time.Hour))
	age(t, path, 48*time.Hour)
	w.until("the one to be gone", func() bool {
		w.stop("stop_hook_active", true)
		_, err := os.Lstat(path)
		return err != nil
	})
}

// The thread of an old question is told before its marker goes.
func TestGateTellsTheThreadOfAnOldQuestion(t *testing.T) {
	t.Parallel()
	w := gateWorld(t)
	w.run(forward, w.event("single-03-PreToolUse"))
	w.thread(1)
	w.endOfFlusherNow()
	path := filepath.Join(filepath.Dir(w.markerPath("x")), w.left()[0])
	if _, err := state.UpdateQuestion(path, func(q *state.Question) error { q.AskedAt = q.AskedAt.Add(-48 * time.Hour); return nil }); err != nil {
		t.Fatal(err)
	}
	age(t, path, 48*time.Hour)
	if w.stop(); len(w.left()) != 0 {
		t.Errorf("left: %v", w.left())
	}
	if text := w.awaitMessage("[Cancelled]"); !strings.Contains(text, "Nobody answered for 24 hours") {
		t.Errorf("told %q", text)
	}
}
