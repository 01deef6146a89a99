package state

import (
	"os"
	"path/filepath"
	"testing"
)

// A detached poller takes over its environment's lock and nothing else: the program may be started with any descriptor.
func TestOnlyTheLockIsInherited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	lock, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	open := func(path string) *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	for name, c := range map[string]struct {
		passed *os.File
		want   bool
	}{
		"the lock":                {lock.file, true},
		"one that another has":    {open(path), false},
		"another file":            {open(path + ".log"), false},
		"no descriptor":           {nil, false},
		"a descriptor of nothing": {os.NewFile(1<<20, "none"), false},
	} {
		if got, err := inherit(c.passed, path); (err == nil) != c.want || (got != nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
