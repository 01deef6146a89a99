package state

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestGateBlocksAreCounted(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 2, 21, 10, 30, 0, 0, time.UTC)
	for i, c := range []struct {
		session string
		after   time.Duration // the first
		want    bool
	}{
		{"s", 0, true}, {"s", time.Second, true}, {"s", 30 * time.Second, true}, {"s", 31 * time.Second, false}, {"other", 31 * time.Second, true},
		{"s", 59 * time.Second, false}, {"s", time.Minute, true}, {"s", time.Minute, false}, {"s", time.Minute + time.Second, true},
		{"s", 10 * time.Second, false}, {"s", -time.Hour, true}, {"../s", 0, true},
	} {
		if ok, err := CountGateBlock(dir, c.session, now.Add(c.after), 3, time.Minute); ok != c.want || err != nil {
			t.Errorf("%d: %v, %v", i, ok, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "s.json")); err == nil {
		t.Error("a session's name leads out of the folder")
	}
}

// Of many hooks at once only so many may.
func TestGateBlocksAtOnce(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	var may atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if ok, err := CountGateBlock(dir, "s", now, 3, time.Minute); err != nil {
				t.Error(err)
			} else if ok {
				may.Add(1)
			}
		})
	}
	all.Wait()
	if may.Load() != 3 {
		t.Errorf("%d may", may.Load())
	}
}

func TestGateBlocksAreSwept(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	for _, session := range []string{"old", "young"} {
		if ok, err := CountGateBlock(dir, session, now, 3, time.Minute); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	old := filepath.Join(dir, "stop-gate", "old.json")
	if err := os.Chtimes(old, now.Add(-25*time.Hour), now.Add(-25*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if ok, err := CountGateBlock(dir, "s", now, 3, time.Minute); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("an old count is left")
	}
	if _, err := os.Stat(filepath.Join(dir, "stop-gate", "young.json")); err != nil {
		t.Error(err)
	}
}

func TestGateBlocksThatDoNotParse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "stop-gate", "s.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := CountGateBlock(dir, "s", time.Now(), 3, time.Minute); ok || err == nil {
		t.Errorf("%v, %v", ok, err)
	}
	if b, _ := os.ReadFile(path + ".corrupt-1"); string(b) != "{" {
		t.Errorf("it was not set aside: %q", b)
	}
	if ok, err := CountGateBlock(dir, "s", time.Now(), 3, time.Minute); !ok || err != nil {
		t.Errorf("the next: %v, %v", ok, err)
	}
}
