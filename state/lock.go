package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrLocked says that another living process holds the lock.
var ErrLocked = errors.New("held by another process")

// lockWait bounds how long a hook waits for a critical section of another process. Sections take about a millisecond;
// only a stopped process keeps one longer, and then Claude Code must not wait with us.
const lockWait = 2 * time.Second

// A Lock is an advisory lock of the kernel on a file: it ends with its holder, also by kill -9. A process that inherits the
// descriptor has the lock, too.
type Lock struct {
	file *os.File
	Path string
}

// TryLock takes the lock at path at once or returns ErrLocked.
func TryLock(path string) (*Lock, error) {
	if err := MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|plainFlags, 0o600)
	return lockFile(f, path, err)
}

// TryLockThere is TryLock of a file that is there: none is made where another process removed it.
func TryLockThere(path string) (*Lock, error) {
	f, _, err := OpenPlain(path, os.O_RDWR)
	return lockFile(f, path, err)
}

// lockFile locks a file that was opened, or failed to.
func lockFile(f *os.File, path string, err error) (*Lock, error) {
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", filepath.Base(path), err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, fmt.Errorf("lock %s: %w", filepath.Base(path), err)
	}
	return &Lock{f, path}, nil
}

// Gone says that the lock's file was removed, or is another one by now: no other process sees that the lock is held.
func (l *Lock) Gone() bool {
	is, err := os.Lstat(l.Path)
	ours, serr := l.file.Stat()
	return Missing(err) || err == nil && serr == nil && !os.SameFile(is, ours)
}

// Held says whether a living process holds the lock at path.
func Held(path string) bool {
	f, _, err := OpenPlain(path, os.O_RDONLY)
	if err != nil {
		return !Missing(err) // with no descriptor left it is not known
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// lockSoon takes the lock at path within lockWait. Each try opens the file anew: an uninstall may have removed it.
func lockSoon(path string) (*Lock, error) {
	for end := time.Now().Add(lockWait); ; time.Sleep(time.Millisecond) {
		l, err := TryLock(path)
		if !errors.Is(err, ErrLocked) || time.Now().After(end) {
			return l, err
		}
	}
}

// Unlock gives the lock up, for every process that has it; nil is none. The file stays: removing it would let two holders in.
func (l *Lock) Unlock() {
	if l == nil {
		return
	}
	_ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	_ = l.file.Close()
}
