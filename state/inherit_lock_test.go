package state

import (
	"os"
	"syscall"
	"testing"

	"gchat-hooks/e2e/kit"
)

// A detached poller takes over its environment's lock and nothing else: the program may
// be started with any descriptor.
func TestLock_IsAllThatAChildInherits(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	lock, err := LockPoller(env)
	kit.NoError(t, err)
	defer lock.Unlock()
	path := lock.Path
	passed := func(f *os.File, err error) uintptr { // as a child has it
		kit.NoError(t, err)
		fd, err := syscall.Dup(int(f.Fd()))
		kit.NoError(t, err)
		return uintptr(fd)
	}
	open := func(path string) uintptr {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		t.Cleanup(func() { f.Close() })
		return passed(f, err)
	}
	for name, c := range map[string]struct {
		passed uintptr
		want   bool
	}{
		"the lock":                {passed(lock.file, nil), true},
		"one that another has":    {open(path), false},
		"another file":            {open(path + ".log"), false},
		"a descriptor of nothing": {1 << 20, false},
	} {
		if got, err := InheritPollerLock(env, c.passed); (err == nil) != c.want || (got != nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
