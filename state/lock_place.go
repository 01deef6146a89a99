package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Some file systems grant one lock to every process, or know no locks: a network home can be mounted so. There each lock
// has a twin, a file in a folder of this machine that is only this user's, and the twin is locked in its place. The lock's
// own file stays what it is otherwise: it is there, it is watched, and calls are counted in it.

// A LockPlace says where the twins are, as a poller found out before it began. Where locks lock there is none.
type LockPlace struct {
	Dir string `json:"dir"` // "" where twins do not lock either
	Why string `json:"why"`
}

// Words say it for a person.
func (p *LockPlace) Words() string {
	if p.Dir == "" {
		return p.Why + ", and no folder of this machine has better ones: only the daemon serves (gchat-hooks poller install)"
	}
	return p.Why + ": what they are for is locked in " + p.Dir
}

// placeFile is this machine's: others can have the same home, and locks that lock.
func placeFile(env Getenv) string {
	return filepath.Join(UserState(env), "locks-"+Hash(4, "locks "+machine())+".json")
}

// ReadLockPlace is nil where locks lock, or where that was not looked at yet.
func ReadLockPlace(env Getenv) *LockPlace {
	b, err := ReadPlain(placeFile(env), 64<<10)
	p := &LockPlace{}
	if err != nil || json.Unmarshal(b, p) != nil {
		return nil
	}
	return p
}

// locksOf is the environment whose LockPlace this process goes by.
var locksOf Getenv = os.Getenv

// UseLocks has a test lock where the locks of env are, until it calls undo.
func UseLocks(env Getenv) (undo func()) {
	before := locksOf
	locksOf = env
	return func() { locksOf = before }
}

// lockedFile is the file that is locked for f: f itself, or its twin.
func lockedFile(f *os.File) (*os.File, error) {
	path, err := lockedPath(f)
	if err != nil || path == f.Name() {
		return f, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|plainFlags, 0o600)
}

func lockedPath(f *os.File) (string, error) {
	p := ReadLockPlace(locksOf) // with each lock: a process that waits learns what a poller found out
	if p == nil || p.Dir == "" {
		return f.Name(), nil
	}
	var is syscall.Stat_t
	err := makeOwn(p.Dir)
	if err == nil {
		err = syscall.Fstat(int(f.Fd()), &is)
	}
	if err != nil {
		return "", fmt.Errorf("folder for locks: %w", err)
	}
	// One, however the file is called.
	return filepath.Join(p.Dir, fmt.Sprintf("%x-%x.lock", is.Dev, is.Ino)), nil
}

// LockedPath is the path of the file that is locked for the one at path, which it makes: for a lock that is not a Lock.
func LockedPath(path string) string {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|plainFlags, 0o600)
	if err != nil {
		return path
	}
	defer f.Close()
	locked, err := lockedPath(f)
	if err != nil {
		return path
	}
	return locked
}

// makeOwn makes a folder that is only this user's. It is an error where another user made it, or it is a link.
func makeOwn(dir string) error {
	_ = os.Mkdir(dir, 0o700)
	return ownFolder(dir)
}

// lockFolders are where twins may be.
func lockFolders(env Getenv) (dirs []string) {
	if dir := env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Join(dir, "gchat-hooks"))
	}
	return append(dirs, fmt.Sprintf("/tmp/gchat-hooks-%d", os.Getuid()))
}

// knowsNoLocks says whether a file system answered that it has none.
func knowsNoLocks(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS)
}

// MoveLocks has a child process, which is self, try the lock that this process holds. Where the child gets it, too, twins
// are locked from now on, and moved is true: another process may hold this one's twin.
func (l *Lock) MoveLocks(env Getenv, self string) (moved bool) {
	if excludes(self, l.locked.Name()) {
		if p := ReadLockPlace(locksOf); p != nil && p.Dir == "" { // it locks by now
			os.Remove(placeFile(env))
		}
		return false
	}
	return moveLocks(env, "locks in "+UserState(env)+" do not lock", func(path string) bool { return excludes(self, path) })
}

// moveLocks writes down the first folder whose locks are good.
func moveLocks(env Getenv, why string, good func(path string) bool) bool {
	found := LockPlace{Why: why}
	for _, dir := range lockFolders(env) {
		if makeOwn(dir) == nil && locksIn(dir, good) {
			found.Dir = dir
			break
		}
	}
	b, _ := json.Marshal(found) // texts
	return WriteFile(placeFile(env), b) == nil
}

// locksIn says whether a lock in dir is good while this process holds it.
func locksIn(dir string, good func(path string) bool) bool {
	path := filepath.Join(dir, fmt.Sprintf("probe-%d", os.Getpid()))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|plainFlags, 0o600)
	if err != nil {
		return false
	}
	defer f.Close()
	defer os.Remove(path)
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && good(path)
}

// excludes says whether a child process, which is self, does not get a lock that this process holds. Where the child does
// not say, it is taken to be so.
func excludes(self, path string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	said, err := exec.CommandContext(ctx, self, "poller", TryLockOf, path).Output()
	return err != nil || strings.TrimSpace(string(said)) != gotLock
}

// TryLockOf is what the child is told; it prints gotLock where it gets the lock.
const (
	TryLockOf = "--try-lock"
	gotLock   = "locked"
)

// TryLockAsChild is the child's part of MoveLocks.
func TryLockAsChild(path string) (said string) {
	f, _, err := OpenPlain(path, os.O_RDWR)
	if err == nil { // this process ends next, and its lock with it
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil || knowsNoLocks(err) {
		return gotLock
	}
	return err.Error()
}
