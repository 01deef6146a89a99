package state

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Of several who take one reply at once, one has it; what stands before it is nobody's any more, what comes after it is.
func TestOneTakesAReplyInAThread(t *testing.T) {
	dir, at := t.TempDir(), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const thread = "spaces/A/threads/T"
	take := func(thread, name string, created time.Time) bool {
		t.Helper()
		taken, err := TakeInThread(dir, thread, Reply{MessageName: name, CreateTime: created}, at)
		if err != nil {
			t.Fatal(err)
		}
		return taken
	}
	var had atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if taken, err := TakeInThread(dir, thread, Reply{MessageName: "m2", CreateTime: at}, at); err != nil {
				t.Error(err)
			} else if taken {
				had.Add(1)
			}
		})
	}
	all.Wait()
	if had.Load() != 1 {
		t.Errorf("%d have the reply", had.Load())
	}
	if take(thread, "m1", at.Add(-time.Second)) {
		t.Error("what stands before the reply was taken after it")
	}
	if !take("spaces/A/threads/U", "m1", at.Add(-time.Second)) {
		t.Error("another thread's reply was not taken")
	}
	if !take(thread, "m3", at.Add(time.Microsecond)) || take(thread, "m2", at) {
		t.Error("the next reply is not taken, or the one before it is again")
	}
	info, err := os.Stat(takenPath(dir, thread))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// What was taken a month ago is forgotten, and the lock stays.
func TestTakenIsForgotten(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	for _, thread := range []string{"spaces/A/threads/old", "spaces/A/threads/young"} {
		if _, err := TakeInThread(dir, thread, Reply{MessageName: "m", CreateTime: now}, now); err != nil {
			t.Fatal(err)
		}
	}
	lock := filepath.Join(dir, "waited", ".lock")
	for _, path := range []string{takenPath(dir, "spaces/A/threads/old"), lock} {
		if err := os.Chtimes(path, now, now.Add(-keepTaken-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := TakeInThread(dir, "spaces/A/threads/new", Reply{MessageName: "m", CreateTime: now}, now); err != nil {
		t.Fatal(err)
	}
	if was := TakenIn(dir, "spaces/A/threads/old"); was.MessageName != "" {
		t.Errorf("still there: %+v", was)
	}
	if is := TakenIn(dir, "spaces/A/threads/young"); is.MessageName != "m" {
		t.Error("the young one is forgotten")
	}
	if _, err := os.Stat(lock); err != nil {
		t.Error(err)
	}
}
