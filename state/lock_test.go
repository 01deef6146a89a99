package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/kit"
)

// A detached poller inherits its environment's lock. It accepts no other descriptor,
// whichever one it is started with.
func TestLock_IsAllThatAChildInherits(t *testing.T) {
	env := envOf(t)
	lock := lockPoller(t, env)
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
		got, err := InheritPollerLock(env, c.passed)
		kit.True(t, (err == nil) == c.want && (got != nil) == c.want, "%s: %v", name, err)
	}
}

// lockHome is a home whose locks can get twins, in a runtime folder that the test owns.
func lockHome(t *testing.T, mode os.FileMode) (env Getenv, runtime string) {
	t.Helper()
	runtime = filepath.Join(t.TempDir(), "run")
	kit.NoError(t, os.MkdirAll(filepath.Join(runtime, "gchat-hooks"), 0o700))
	kit.NoError(t, os.Chmod(filepath.Join(runtime, "gchat-hooks"), mode))
	env = envOf(t, "XDG_RUNTIME_DIR", runtime)
	t.Cleanup(UseLockEnv(env))
	return env, runtime
}

// If locks in the home do not lock, their twins do. The lock's own file stays, and is
// still used for calls.
func TestLock_SpareFolderLocksToo(t *testing.T) {
	env, runtime := lockHome(t, 0o700)
	defer lockPoller(t, env).Unlock() // a lock of the home's, which is held to no effect
	kit.True(t, chooseLockFolder(env, "locks do not lock", func(string) bool { return true }),
		"not moved")
	lock := lockPoller(t, env) // its twin is free
	_, err := LockPoller(env)
	kit.True(t, errors.Is(err, ErrLocked), "two have it: %v", err)
	kit.True(t, IsLocked(lock.Path) && !lock.IsFileGone() &&
		filepath.Dir(lock.lockedFile.Name()) == filepath.Join(runtime, "gchat-hooks"),
		"held %v, gone %v, locked in %s", IsLocked(lock.Path), lock.IsFileGone(),
		lock.lockedFile.Name())
	CallPoller(env, Environment(env))
	kit.Equalf(t, CountPollerCalls(env), 1, "calls")
	lock.Unlock()
	kit.True(t, !IsLocked(lock.Path), "it is held when it was given up")
}

// Locks go into no folder that others can write to, and into none that is a link.
func TestLock_SpareFolderIsPrivate(t *testing.T) {
	env, runtime := lockHome(t, 0o770)
	chooseLockFolder(env, "why", func(path string) bool { return strings.HasPrefix(path, runtime) })
	p := ReadLockFolder(env)
	kit.True(t, p != nil && p.Dir == "", "they are at %+v", p)
	dir := filepath.Join(runtime, "gchat-hooks")
	kit.NoError(t, errors.Join(os.Remove(dir), os.Symlink(t.TempDir(), dir)))
	kit.True(t, makeOwnFolder(dir) != nil, "a link is taken")
	started, err := StartPoller(env, "/no/program")
	kit.True(t, !started && err != nil && strings.Contains(err.Error(), "only the daemon works"),
		"a poller is started: %v, %v", started, err)
}
