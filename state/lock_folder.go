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

// Some file systems grant one lock to every process, or know no locks: a network home can
// be mounted so. There each lock has a twin, a file in a folder of this machine that is
// only this user's, and the twin is locked in its place. The lock's own file stays what
// it is otherwise: it is there, it is watched, and calls are counted in it.

// A LockFolder says where the twins are, as a poller found out before it began. Where
// locks lock there is none.
type LockFolder struct {
	Dir string `json:"dir"` // "" where twins do not lock either
	Why string `json:"why"`
}

// Describe say it for a person.
func (p *LockFolder) Describe() string {
	if p.Dir == "" {
		return p.Why + ", and no folder of this machine has better ones: only the daemon serves (gchat-hooks poller install)"
	}
	return p.Why + ": what they are for is locked in " + p.Dir
}

// lockFolderFile is this machine's: others can have the same home, and locks that lock.
func lockFolderFile(env Getenv) string {
	return filepath.Join(UserStateDir(env), "locks-"+Hash(4, "locks "+machineID())+".json")
}

// ReadLockFolder is nil where locks lock, or where that was not looked at yet.
func ReadLockFolder(env Getenv) *LockFolder {
	b, err := ReadPlain(lockFolderFile(env), 64<<10)
	folder := &LockFolder{}
	if err != nil || json.Unmarshal(b, folder) != nil {
		return nil
	}
	return folder
}

// lockEnv is the environment whose LockFolder this process goes by.
var lockEnv Getenv = os.Getenv

// UseLockEnv has a test lock where the locks of env are, until it calls undo.
func UseLockEnv(env Getenv) (undo func()) {
	before := lockEnv
	lockEnv = env
	return func() { lockEnv = before }
}

// openLockTarget is the file that is locked for f: f itself, or its twin.
func openLockTarget(f *os.File) (*os.File, error) {
	path, err := lockTargetPath(f)
	if err != nil || path == f.Name() {
		return f, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|plainFlags, 0o600)
}

func lockTargetPath(f *os.File) (string, error) {
	// with each lock: a process that waits learns what a poller found out
	folder := ReadLockFolder(lockEnv)
	if folder == nil || folder.Dir == "" {
		return f.Name(), nil
	}
	var stat syscall.Stat_t
	err := makeOwnFolder(folder.Dir)
	if err == nil {
		err = syscall.Fstat(int(f.Fd()), &stat)
	}
	if err != nil {
		return "", fmt.Errorf("folder for locks: %w", err)
	}
	// One, however the file is called.
	return filepath.Join(folder.Dir, fmt.Sprintf("%x-%x.lock", stat.Dev, stat.Ino)), nil
}

// MakeLockTarget is the path of the file that is locked for the one at path, which it
// makes: for a lock that is not a Lock.
func MakeLockTarget(path string) string {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|plainFlags, 0o600)
	if err != nil {
		return path
	}
	defer f.Close()
	locked, err := lockTargetPath(f)
	if err != nil {
		return path
	}
	return locked
}

// makeOwnFolder makes a folder that is only this user's. It is an error where another
// user made it, or it is a link.
func makeOwnFolder(dir string) error {
	_ = os.Mkdir(dir, 0o700)
	return checkOwnFolder(dir)
}

// lockFolderCandidates are where twins may be.
func lockFolderCandidates(env Getenv) (dirs []string) {
	if dir := env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Join(dir, "gchat-hooks"))
	}
	return append(dirs, fmt.Sprintf("/tmp/gchat-hooks-%d", os.Getuid()))
}

// isLockingUnsupported says whether a file system answered that it has none.
func isLockingUnsupported(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOTSUP) ||
		errors.Is(err, syscall.ENOSYS)
}

// MoveLocksIfShared has a child process, which is self, try the lock that this process
// holds. Where the child gets it, too, twins are locked from now on, and moved is true:
// another process may hold this one's twin.
func (l *Lock) MoveLocksIfShared(env Getenv, self string) (moved bool) {
	if isExclusive(self, l.lockedFile.Name()) {
		if folder := ReadLockFolder(lockEnv); folder != nil && folder.Dir == "" { // it locks by now
			os.Remove(lockFolderFile(env))
		}
		return false
	}
	return chooseLockFolder(
		env,
		"locks in "+UserStateDir(env)+" do not lock",
		func(path string) bool { return isExclusive(self, path) },
	)
}

// chooseLockFolder writes down the first folder whose locks are good.
func chooseLockFolder(env Getenv, why string, isGoodLock func(path string) bool) bool {
	folder := LockFolder{Why: why}
	for _, dir := range lockFolderCandidates(env) {
		if makeOwnFolder(dir) == nil && canLockIn(dir, isGoodLock) {
			folder.Dir = dir
			break
		}
	}
	b, _ := json.Marshal(folder) // texts
	return WriteFile(lockFolderFile(env), b) == nil
}

// canLockIn says whether a lock in dir is good while this process holds it.
func canLockIn(dir string, isGoodLock func(path string) bool) bool {
	path := filepath.Join(dir, fmt.Sprintf("probe-%d", os.Getpid()))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|plainFlags, 0o600)
	if err != nil {
		return false
	}
	defer f.Close()
	defer os.Remove(path)
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && isGoodLock(path)
}

// isExclusive says whether a child process, which is self, does not get a lock that this
// process holds. Where the child does not say, it is taken to be so.
func isExclusive(self, path string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, self, "poller", TryLockFlag, path).Output()
	return err != nil || strings.TrimSpace(string(output)) != gotLockOutput
}

// TryLockFlag is what the child is told; it prints gotLockOutput where it gets the lock.
const (
	TryLockFlag   = "--try-lock"
	gotLockOutput = "locked"
)

// TryLockAsChild is the child's part of MoveLocksIfShared.
func TryLockAsChild(path string) (output string) {
	f, _, err := OpenPlain(path, os.O_RDWR)
	if err == nil { // this process ends next, and its lock with it
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil || isLockingUnsupported(err) {
		return gotLockOutput
	}
	return err.Error()
}
