package hooks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/gchat/space"
)

// smallDisk puts a file system of a few blocks where the project's state is, and returns its folder.
func (w *world) smallDisk(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", dir).CombinedOutput(); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" && os.Geteuid() == 0 {
			t.Fatalf("a small disk cannot be mounted, and GCHAT_E2E_REQUIRED=1: %v: %s", err, out)
		}
		t.Skipf("needs to mount a small disk: %v: %s", err, out)
	}
	t.Cleanup(func() {
		w.endFlusher()
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// fill writes until the disk is full, and returns what frees it.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for b := make([]byte, 4096); err == nil; _, err = f.Write(b) {
	}
	return func() {
		t.Helper()
		if err := os.Remove(f.Name()); err != nil {
			t.Error(err)
		}
	}
}

// The project's disk is full and the person's own is not: the question is written there, and all goes on as ever.
func TestFullDiskWhenAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.smallDisk(t)
	if err := os.MkdirAll(filepath.Join(dir, "pending-questions", ".locks"), 0o700); err != nil {
		t.Fatal(err)
	}
	free := fill(t, dir)
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.say(ann, w.thread(1), "2")
	p.wantSingle()
	free()
	w.run(answered, recorded(t, "single-05-PostToolUse", "tool_response", map[string]any{"answers": map[string]string{single: "Rolling deployment"}}))
	if got := w.awaitMessage("[Answered]"); !strings.Contains(got, "Selected: Rolling deployment") {
		t.Errorf("the thread says %q", got)
	}
	if n := len(w.messages("[AskUserQuestion]")); n != 1 {
		t.Errorf("posted %d times, want 1", n)
	}
}

// A reply that could not be written down is read again when there is room, and was not passed over by the watermark.
func TestFullDiskWhenReplied(t *testing.T) {
	t.Parallel()
	later := atomic.Int64{}
	w := newWorld(t, space.Options{Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	dir := w.smallDisk(t)
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	w.until("the question to be known as sent", func() bool { return w.question().MessageSent })
	free := fill(t, dir)
	w.say(ann, thread, "2")
	w.until("the write to fail", func() bool { return strings.Contains(w.log(), "replies not written down") })
	if n := len(w.question().Replies); n != 0 {
		t.Errorf("%d replies on a full disk, want none", n)
	}
	// Others go on talking for longer than the lists overlap.
	later.Store(int64(time.Minute))
	w.say(bob, "", "elsewhere")
	_, before := w.trace.counts()
	w.until("lists that go beyond the reply", func() bool { _, n := w.trace.counts(); return n >= before+3 })
	free()
	p.wantSingle()
}
