package state

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrLocked means that another living process holds the lock.
var ErrLocked = errors.New("held by another process")

// lockTimeout is how long a hook waits while another process is in a critical section. A
// section takes about a millisecond; only a stopped process stays in one longer, and then
// Claude Code must not wait with us.
const lockTimeout = 2 * time.Second

const maxLockPause = 8 * time.Millisecond

// SlowCallWatcher is called by BeforeSlowCall, where a test sets it.
var SlowCallWatcher func(what string)

// BeforeSlowCall is called before anything slow, which must not happen while a record's
// lock is held. It does nothing outside of tests, which check that rule.
func BeforeSlowCall(what string) {
	if SlowCallWatcher != nil {
		SlowCallWatcher(what)
	}
}

// A Lock is an advisory lock of the kernel (flock) on a file: it ends with the process
// that holds it, also by kill -9. A child process that inherits the descriptor holds the
// lock, too.
type Lock struct {
	file       *os.File
	lockedFile *os.File // file, or its twin; see LockFolder
	Path       string
}

// TryLock takes the lock at path, or returns ErrLocked at once.
func TryLock(path string) (*Lock, error) {
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|plainFlags, 0o600)
	return lockOpenedFile(f, path, err)
}

// TryLockExisting is TryLock for a file that exists: it does not create one that another
// process removed.
func TryLockExisting(path string) (*Lock, error) {
	f, _, err := OpenPlain(path, os.O_RDWR)
	return lockOpenedFile(f, path, err)
}

func lockOpenedFile(f *os.File, path string, err error) (*Lock, error) {
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", filepath.Base(path), err)
	}
	locked, err := openLockTarget(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return (&Lock{f, locked, path}).acquire()
}

// acquire takes the lock, or closes its files.
func (l *Lock) acquire() (*Lock, error) {
	err := syscall.Flock(int(l.lockedFile.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if isLockingUnsupported(err) {
		if lockEnv == nil || ReadLockFolder(lockEnv) != nil {
			// no folder has working locks: go on without exclusion
			return l, nil
		}
		why := fmt.Sprintf("%s does not support file locks (%v)", UserStateDir(lockEnv), err)
		// the next poller tests whether these locks work
		chooseLockFolder(lockEnv, why, func(string) bool { return true })
		return lockOpenedFile(l.file, l.Path, nil)
	}
	if err == nil {
		return l, nil
	}
	l.close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", filepath.Base(l.Path), err)
}

func (l *Lock) close() {
	_ = l.lockedFile.Close()
	_ = l.file.Close() // usually the same file
}

// IsFileGone reports whether the lock's file was removed or replaced: other processes
// then do not see that the lock is held.
func (l *Lock) IsFileGone() bool {
	current, err := os.Lstat(l.Path)
	held, serr := l.file.Stat()
	return IsMissing(err) || err == nil && serr == nil && !os.SameFile(current, held)
}

// IsLocked reports whether a living process holds the lock at path. It is true where that
// cannot be found out.
func IsLocked(path string) bool {
	f, _, err := OpenPlain(path, os.O_RDONLY)
	if err != nil {
		return !IsMissing(err) // an error such as "too many open files" tells nothing
	}
	defer f.Close()
	locked, err := openLockTarget(f)
	if err != nil {
		return true
	}
	defer locked.Close()
	err = syscall.Flock(int(locked.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK)
}

// LockWithTimeout takes the lock at path, and waits for it up to lockTimeout; then it
// returns ErrLocked. Each try opens the file again, since an uninstall may have removed
// it.
func LockWithTimeout(path string) (*Lock, error) {
	BeforeSlowCall("waits for a lock")
	deadline := time.Now().Add(lockTimeout)
	for pause := time.Millisecond; ; pause = min(2*pause, maxLockPause) {
		l, err := TryLock(path)
		if !errors.Is(err, ErrLocked) || time.Now().After(deadline) {
			return l, err
		}
		time.Sleep(pause)
	}
}

// Unlock releases the lock, for every process that holds it; a nil lock is allowed. The
// file stays: if it were removed, two processes could hold the lock.
func (l *Lock) Unlock() {
	if l == nil {
		return
	}
	_ = syscall.Flock(int(l.lockedFile.Fd()), syscall.LOCK_UN)
	l.close()
}

func pollersDir(env Getenv) string { return filepath.Join(UserStateDir(env), "pollers") }

func pollerFile(env Getenv, ext string) string {
	return filepath.Join(pollersDir(env), Environment(env)+ext)
}

// LockPoller makes the caller the poller of its environment. The error is ErrLocked where
// another process is.
func LockPoller(env Getenv) (*Lock, error) { return TryLock(pollerFile(env, ".lock")) }

// InheritedLockDescriptor is the file descriptor on which PassToPoller hands over the
// lock.
const InheritedLockDescriptor = 3

// InheritPollerLock returns the lock that the process which started this poller took for
// it and handed over on a descriptor. It is an error where the descriptor is another
// file, or another process holds the lock.
func InheritPollerLock(env Getenv, descriptor uintptr) (*Lock, error) {
	path := pollerFile(env, ".lock")
	f, _, err := OpenPlain(path, os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("open the poller's lock: %w", err)
	}
	locked, err := lockTargetPath(f)
	l := &Lock{f, os.NewFile(descriptor, locked), path}
	passed, perr := l.lockedFile.Stat()
	expected, serr := os.Lstat(locked)
	if errors.Join(err, perr, serr) != nil || !os.SameFile(expected, passed) {
		f.Close()
		// an earlier version may have passed the lock of the same environment under its
		// former name
		l.lockedFile.Close()
		return nil, errors.New("the inherited descriptor is not the lock of this poller's environment")
	}
	syscall.CloseOnExec(int(l.lockedFile.Fd()))
	return l.acquire() // this process holds the lock already, or nobody does
}

// Arguments for a program that is to become the poller; see PassToPoller.
const (
	orphanFlag   = "--orphan"
	DetachedFlag = "--detached"
)

// PassToPoller starts self as a detached poller and hands the lock over to it. The poller
// runs in a session of its own, in /, with no descriptor of ours but the lock. The caller
// has lost the lock, even on error. With orphanFlag, self only starts the poller, with
// DetachedFlag, and ends: on Esc Claude Code ends a waiting hook with all its children
// (2.1.197, 2.1.329).
func (l *Lock) PassToPoller(self, flag string) error {
	cmd := DetachedCommand(self, "poller", flag)
	cmd.ExtraFiles = []*os.File{l.lockedFile} // descriptors 0 to 2 are the null device
	if err := cmd.Start(); err != nil {
		l.Unlock()
		return fmt.Errorf("start poller: %w", err)
	}
	l.close() // without LOCK_UN, which would release the child's lock, too
	go func() { _ = cmd.Wait() }()
	return nil
}

// WordQuestionFlag tells a separate process to have a model word a question, whose file
// follows. A hook starts that process, not the poller: the hook's own variables say which
// model and key to use. They are not part of the environment, so the poller may have
// another key, or none.
const WordQuestionFlag = "--words"

// StartWordingQuestion starts self to have a model word a question.
func StartWordingQuestion(self, questionFile string) error {
	cmd := DetachedCommand(self, "poller", WordQuestionFlag, questionFile)
	err := cmd.Start()
	if err != nil {
		return fmt.Errorf("have a model word the question: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// DetachedCommand returns a command that runs self in a session of its own, in /, with no
// descriptor of ours. It belongs to no Claude Code and no pane.
func DetachedCommand(self string, args ...string) *exec.Cmd {
	kept := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "CLAUDE") || strings.HasPrefix(pair, "TMUX")
	})
	return &exec.Cmd{
		Path: self,
		// self may be a copy with a hook's name. Where there is no /proc, the first
		// argument tells it its path.
		Args:        append([]string{filepath.Join(filepath.Dir(self), "gchat-hooks")}, args...),
		Dir:         "/",
		Env:         kept,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
}

// StartPoller makes sure that a poller of this environment runs. self is the path of this
// program. Call it after the work is written. It first calls the present poller, which
// may be about to end and not look for work again. started reports whether there was no
// poller.
func StartPoller(env Getenv, self string) (started bool, err error) {
	CallPoller(env, Environment(env))
	if folder := ReadLockFolder(env); folder != nil && folder.Dir == "" {
		return false, errors.New(folder.Describe())
	}
	lock, err := LockPoller(env)
	switch {
	case errors.Is(err, ErrLocked):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, lock.PassToPoller(self, orphanFlag)
}

// RunWithoutPoller calls do while no poller of an environment runs and none can start.
// Where one runs, it does nothing.
func RunWithoutPoller(env Getenv, environment string, do func()) {
	lock, err := TryLock(filepath.Join(pollersDir(env), filepath.Base(environment)+".lock"))
	if err != nil {
		return
	}
	defer lock.Unlock()
	do()
}

// CallPoller tells the poller of an environment that there is work, even if that poller
// is about to end: each call appends a byte to the file of the poller's lock. Where that
// file does not exist, no process is the poller.
func CallPoller(env Getenv, environment string) {
	path := filepath.Join(pollersDir(env), filepath.Base(environment)+".lock")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|plainFlags, 0)
	if err != nil {
		return
	}
	_, _ = f.Write([]byte{'\n'})
	_ = f.Close()
}

// CountPollerCalls returns how often the poller of this environment was called since
// ResetCalls. Read it before you look for work.
func CountPollerCalls(env Getenv) int64 {
	info, err := os.Lstat(pollerFile(env, ".lock"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// ResetCalls sets the count of calls to zero. A poller does that before it looks for work
// for the last time. A command that acts as the poller for one send does not look for
// work. It relies on the count: if it is zero, no work is left.
func (l *Lock) ResetCalls() error { return l.file.Truncate(0) }

// UnlockPoller releases the poller's lock. If the poller was called since the count was
// calls, it starts another poller, with self.
func (l *Lock) UnlockPoller(env Getenv, self string, calls int64) error {
	l.Unlock()
	if self == "" || CountPollerCalls(env) == calls {
		return nil
	}
	_, err := StartPoller(env, self)
	return err
}

// RequestPollerLock tells the detached poller of this environment that the daemon, or a
// single round, waits for its lock; the detached poller then ends. The caller releases
// the request once it has the poller's lock.
func RequestPollerLock(env Getenv) (*Lock, error) { return TryLock(pollerFile(env, ".want")) }

// IsPollerLockRequested reports whether a living process waits for the lock of this
// environment's poller.
func IsPollerLockRequested(env Getenv) bool { return IsLocked(pollerFile(env, ".want")) }
