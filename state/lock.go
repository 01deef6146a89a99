package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// ErrLocked says that another living process holds the lock.
var ErrLocked = errors.New("held by another process")

// lockWait bounds how long a hook waits for a critical section of another process. Sections take about a millisecond;
// only a stopped process keeps one longer, and then Claude Code must not wait with us.
const lockWait = 2 * time.Second

// A Lock is an advisory lock of the kernel on a file: it ends with its holder, also by kill -9.
type Lock struct{ f *flock.Flock }

// TryLock takes the lock at path at once or returns ErrLocked.
func TryLock(path string) (*Lock, error) {
	if err := MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f := newLock(path)
	got, err := f.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", filepath.Base(path), err)
	}
	if !got {
		return nil, fmt.Errorf("lock %s: %w", filepath.Base(path), ErrLocked)
	}
	return &Lock{f}, nil
}

func newLock(path string) *flock.Flock {
	return flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDONLY|plainFlags))
}

// Held says whether a living process holds the lock at path.
func Held(path string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	l, err := TryLock(path)
	if err == nil {
		l.Unlock()
	}
	return errors.Is(err, ErrLocked)
}

// lockSoon takes the lock at path within lockWait.
func lockSoon(path string) (*Lock, error) { return lockWithin(path, lockWait) }

func lockWithin(path string, wait time.Duration) (*Lock, error) {
	return lockWithinLooking(path, wait, time.Millisecond)
}

// lockWithinLooking looks so often whether the lock is free.
func lockWithinLooking(path string, wait, glance time.Duration) (*Lock, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	l, err := LockFile(ctx, path, glance)
	if errors.Is(err, context.DeadlineExceeded) {
		err = ErrLocked
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", filepath.Base(path), err)
	}
	return l, nil
}

// LockFile waits for the lock at path, and looks so often whether it is free. An uninstall may remove the file, and the
// folder, while it holds the lock: a process that waited for the old file then goes to the file that stands there now.
func LockFile(ctx context.Context, path string, glance time.Duration) (*Lock, error) {
	for {
		if err := MakeDir(filepath.Dir(path)); err != nil {
			return nil, err
		}
		f := newLock(path)
		got, err := f.TryLockContext(ctx, glance)
		if err == nil && got {
			is, err := f.Stat()
			there, err2 := os.Stat(path)
			if err == nil && err2 == nil && os.SameFile(is, there) {
				return &Lock{f}, nil
			}
		}
		_ = f.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil && !Missing(err) {
			return nil, err
		}
	}
}

// Unlock lets the lock go. The lock file stays: removing it would let two holders in.
func (l *Lock) Unlock() { _ = l.f.Close() }
