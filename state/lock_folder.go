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

// Some file systems grant one lock to every process, or know no locks at all; a network
// home can be mounted that way. There each lock gets a twin: a file in a folder on this
// machine that only this user can write, which is locked instead. The lock's own file
// keeps its other uses: its existence says something, pollers watch it, and calls are
// counted in it.

// A LockFolder says where the twins are; a poller finds that out when it starts. Where
// locks work there is none.
type LockFolder struct {
	Dir string `json:"dir"` // "" where no folder has working locks
	Why string `json:"why"`
}

// Describe returns a sentence for a person.
func (p *LockFolder) Describe() string {
	if p.Dir == "" {
		return p.Why + ", and no other folder on this machine has working file locks. " +
			"Without them, only the daemon works; install it: gchat-hooks poller install"
	}
	return p.Why + "; gchat-hooks locks files in " + p.Dir + " instead"
}

// lockFolderFile returns the path of the LockFolder's file. It names this machine: other
// machines may share the home and have working locks there.
func lockFolderFile(env Getenv) string {
	return filepath.Join(UserStateDir(env), "locks-"+Hash(4, "locks "+machineID())+".json")
}

// ReadLockFolder reads the LockFolder of this machine; nil where locks work, or where no
// poller has tested them yet.
func ReadLockFolder(env Getenv) *LockFolder {
	b, err := ReadPlain(lockFolderFile(env), 64<<10)
	folder := &LockFolder{}
	if err != nil || json.Unmarshal(b, folder) != nil {
		return nil
	}
	return folder
}

// lockEnv is the environment whose LockFolder this process uses.
var lockEnv Getenv = os.Getenv

// UseLockEnv makes a test use the LockFolder of env until it calls undo.
func UseLockEnv(env Getenv) (undo func()) {
	before := lockEnv
	lockEnv = env
	return func() { lockEnv = before }
}

// openLockTarget returns the file that is locked for f: f itself, or its twin.
func openLockTarget(f *os.File) (*os.File, error) {
	path, err := lockTargetPath(f)
	if err != nil || path == f.Name() {
		return f, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|plainFlags, 0o600)
}

func lockTargetPath(f *os.File) (string, error) {
	// read for each lock, so that a waiting process learns what a poller has found out
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
		return "", fmt.Errorf("find lock folder: %w", err)
	}
	// The name comes from device and inode, so all paths of one file have one twin.
	return filepath.Join(folder.Dir, fmt.Sprintf("%x-%x.lock", stat.Dev, stat.Ino)), nil
}

// MakeLockTarget returns the path of the file that is locked for the one at path, and
// creates that: for locks that are not a Lock.
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

// makeOwnFolder creates a folder that only this user can write. It is an error where
// another user made it or it is a link.
func makeOwnFolder(dir string) error {
	_ = os.Mkdir(dir, 0o700)
	return checkOwnFolder(dir)
}

// lockFolderCandidates returns the folders where twins may be, the best first.
func lockFolderCandidates(env Getenv) (dirs []string) {
	if dir := env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Join(dir, "gchat-hooks"))
	}
	return append(dirs, fmt.Sprintf("/tmp/gchat-hooks-%d", os.Getuid()))
}

// isLockingUnsupported reports whether err means that a file system has no locks.
func isLockingUnsupported(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOTSUP) ||
		errors.Is(err, syscall.ENOSYS)
}

// MoveLocksIfShared tests the lock that this process holds: a child process, started from
// self, tries to take it. If the child gets it, twins are locked from then on and moved
// is true; the caller has to lock again, since another process may hold the twin.
func (l *Lock) MoveLocksIfShared(env Getenv, self string) (moved bool) {
	if isExclusive(self, l.lockedFile.Name()) {
		// locks work again here
		if folder := ReadLockFolder(lockEnv); folder != nil && folder.Dir == "" {
			os.Remove(lockFolderFile(env))
		}
		return false
	}
	why := "file locks in " + UserStateDir(env) + " do not work"
	return chooseLockFolder(env, why, func(path string) bool { return isExclusive(self, path) })
}

// chooseLockFolder stores the first folder whose locks work as the LockFolder. It reports
// whether that could be written.
func chooseLockFolder(env Getenv, why string, isGoodLock func(path string) bool) bool {
	folder := LockFolder{Why: why}
	for _, dir := range lockFolderCandidates(env) {
		if makeOwnFolder(dir) == nil && canLockIn(dir, isGoodLock) {
			folder.Dir = dir
			break
		}
	}
	b, _ := json.Marshal(folder)
	return WriteFile(lockFolderFile(env), b) == nil
}

// canLockIn reports whether a lock in dir passes isGoodLock while this process holds it.
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

// isExclusive reports whether a child process, started from self, fails to get a lock
// that this process holds. Where the child gives no result, the lock counts as exclusive.
func isExclusive(self, path string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, self, "poller", TryLockFlag, path).Output()
	return err != nil || strings.TrimSpace(string(output)) != gotLockOutput
}

// TryLockFlag is the child's argument. The child prints gotLockOutput where it gets the
// lock.
const (
	TryLockFlag   = "--try-lock"
	gotLockOutput = "locked"
)

// TryLockAsChild is the child's part of MoveLocksIfShared. It returns what the child
// prints.
func TryLockAsChild(path string) (output string) {
	f, _, err := OpenPlain(path, os.O_RDWR)
	if err == nil { // the lock ends with this process, which ends next
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil || isLockingUnsupported(err) {
		return gotLockOutput
	}
	return err.Error()
}
