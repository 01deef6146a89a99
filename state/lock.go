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

// ErrLocked says that another living process holds the lock.
var ErrLocked = errors.New("held by another process")

// lockTimeout bounds how long a hook waits for a critical section of another process.
// Sections take about a millisecond; only a stopped process keeps one longer, and then
// Claude Code must not wait with us.
const lockTimeout = 2 * time.Second

const maxLockPause = 8 * time.Millisecond

// SlowCallWatcher, where a test sets it, is told of everything that Slow is told of.
var SlowCallWatcher func(what string)

// BeforeSlowCall is called before anything that may not be done under a record's lock. It
// does nothing but in tests, which hold that.
func BeforeSlowCall(what string) {
	if SlowCallWatcher != nil {
		SlowCallWatcher(what)
	}
}

// A Lock is an advisory lock of the kernel on a file: it ends with its holder, also by
// kill -9. A process that inherits the descriptor has the lock, too.
type Lock struct {
	file       *os.File
	lockedFile *os.File // file, or its twin
	Path       string
}

// TryLock takes the lock at path at once or returns ErrLocked.
func TryLock(path string) (*Lock, error) {
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|plainFlags, 0o600)
	return lockOpenedFile(f, path, err)
}

// TryLockExisting is TryLock of a file that is there: none is made where another process
// removed it.
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

// acquire locks the files that were opened for a lock, or closes them.
func (l *Lock) acquire() (*Lock, error) {
	err := syscall.Flock(int(l.lockedFile.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if isLockingUnsupported(err) {
		if lockEnv == nil || ReadLockFolder(lockEnv) != nil {
			// no folder has locks: nothing excludes anything
			return l, nil
		}
		why := "there are no locks in " + UserStateDir(lockEnv) + " (" + err.Error() + ")"
		// the next poller looks whether they lock
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
	_ = l.file.Close() // mostly the same
}

// IsFileGone says that the lock's file was removed, or is another one by now: no other
// process sees that the lock is held.
func (l *Lock) IsFileGone() bool {
	current, err := os.Lstat(l.Path)
	held, serr := l.file.Stat()
	return IsMissing(err) || err == nil && serr == nil && !os.SameFile(current, held)
}

// IsLocked says whether a living process holds the lock at path.
func IsLocked(path string) bool {
	f, _, err := OpenPlain(path, os.O_RDONLY)
	if err != nil {
		return !IsMissing(err) // with no descriptor left it is not known
	}
	defer f.Close()
	locked, err := openLockTarget(f)
	if err != nil {
		return true
	}
	defer locked.Close()
	return errors.Is(
		syscall.Flock(int(locked.Fd()), syscall.LOCK_SH|syscall.LOCK_NB),
		syscall.EWOULDBLOCK,
	)
}

// LockWithTimeout takes the lock at path within lockTimeout. Each try opens the file
// anew: an uninstall may have removed it.
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

// Unlock gives the lock up, for every process that has it; nil is none. The file stays:
// removing it would let two holders in.
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

// LockPoller makes the caller the poller of its environment; ErrLocked when there is one.
func LockPoller(env Getenv) (*Lock, error) { return TryLock(pollerFile(env, ".lock")) }

// InheritedLockDescriptor is the descriptor of the lock that Pass passes.
const InheritedLockDescriptor = 3

// InheritPollerLock is the lock that the process which started this poller took for it,
// under a descriptor. Another file there, or a lock that another process has, is an
// error.
func InheritPollerLock(env Getenv, descriptor uintptr) (*Lock, error) {
	path := pollerFile(env, ".lock")
	f, _, err := OpenPlain(path, os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("the poller's lock: %w", err)
	}
	locked, err := lockTargetPath(f)
	l := &Lock{f, os.NewFile(descriptor, locked), path}
	passed, perr := l.lockedFile.Stat()
	expected, serr := os.Lstat(locked)
	if errors.Join(err, perr, serr) != nil || !os.SameFile(expected, passed) {
		f.Close()
		// it may be that of the same environment by the name of an earlier version
		l.lockedFile.Close()
		return nil, errors.New("what was passed to this poller is not its environment's lock")
	}
	syscall.CloseOnExec(int(l.lockedFile.Fd()))
	return l.acquire() // it is ours already, or free
}

// What a program is told that is to be the poller; see Pass.
const (
	orphanFlag   = "--orphan"
	DetachedFlag = "--detached"
)

// PassToPoller has self become the detached poller that has the lock from now on: in a
// session of its own, in /, with no descriptor of ours but the lock. The caller has it no
// more, also when that fails. Started as an Orphan, self only starts the poller, as
// Detached, and ends: on Esc Claude Code ends a waiting hook with all its children
// (2.1.197, 2.1.329).
func (l *Lock) PassToPoller(self, flag string) error {
	cmd := DetachedCommand(self, "poller", flag)
	cmd.ExtraFiles = []*os.File{l.lockedFile} // the three before it are the null device
	if err := cmd.Start(); err != nil {
		l.Unlock()
		return fmt.Errorf("start poller: %w", err)
	}
	l.close() // without LOCK_UN: the child has the lock
	go func() { _ = cmd.Wait() }()
	return nil
}

// WordQuestionFlag is what a process of its own is told that has a model word a question,
// whose file follows. A hook starts it: what its environment says of the model is no part
// of what makes an environment, so the poller may know another key, or none.
const WordQuestionFlag = "--words"

// StartWordingQuestion has self do that.
func StartWordingQuestion(self, questionFile string) error {
	cmd := DetachedCommand(self, "poller", WordQuestionFlag, questionFile)
	err := cmd.Start()
	if err != nil {
		return fmt.Errorf("have a model word the question: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// DetachedCommand runs self in a session of its own, in /, with no descriptor of ours. It
// belongs to no Claude Code and to no pane.
func DetachedCommand(self string, args ...string) *exec.Cmd {
	kept := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "CLAUDE") || strings.HasPrefix(pair, "TMUX")
	})
	// self may be a copy that is called as a hook. Without /proc this name says where it
	// is.
	name := filepath.Join(filepath.Dir(self), "gchat-hooks")
	return &exec.Cmd{
		Path: self, Args: append([]string{name}, args...),
		Dir: "/", Env: kept, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
}

// StartPoller makes sure that a poller of this environment runs; self is this program's
// path. It is called after the work was written. What is the poller by then may be about
// to end, and not look for work any more: so it is called first. started says that there
// was none.
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

// RunWithoutPoller does something while no poller of an environment runs, and none can
// begin. Where one runs it is not done.
func RunWithoutPoller(env Getenv, environment string, do func()) {
	lock, err := TryLock(filepath.Join(pollersDir(env), filepath.Base(environment)+".lock"))
	if err != nil {
		return
	}
	defer lock.Unlock()
	do()
}

// CallPoller has the process that is an environment's poller know of work, also where it
// is about to end: each call writes a byte to the file of its lock. Where there is no
// such file, no process is the poller.
func CallPoller(env Getenv, environment string) {
	path := filepath.Join(pollersDir(env), filepath.Base(environment)+".lock")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|plainFlags, 0)
	if err != nil {
		return
	}
	_, _ = f.Write([]byte{'\n'})
	_ = f.Close()
}

// CountPollerCalls is how often a poller of this environment was called since ResetCalls.
// It is to be asked before work is looked for.
func CountPollerCalls(env Getenv) int64 {
	info, err := os.Lstat(pollerFile(env, ".lock"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// ResetCalls has a poller begin to count anew, before it looks for work for the last
// time. So what is the poller only for a moment, and looks for none, knows by no calls
// that none is left.
func (l *Lock) ResetCalls() error { return l.file.Truncate(0) }

// UnlockPoller gives the poller's lock up. Where a poller was called since there were so
// many CountPollerCalls, another one begins.
func (l *Lock) UnlockPoller(env Getenv, self string, calls int64) error {
	l.Unlock()
	if self == "" || CountPollerCalls(env) == calls {
		return nil
	}
	_, err := StartPoller(env, self)
	return err
}

// RequestPollerLock notes that the daemon, or a single round, waits for the lock of this
// environment's poller: a detached one yields to it. The caller gives the lock up when it
// has the lock.
func RequestPollerLock(env Getenv) (*Lock, error) { return TryLock(pollerFile(env, ".want")) }

// IsPollerLockRequested says whether a living process waits for the lock of this
// environment's poller.
func IsPollerLockRequested(env Getenv) bool { return IsLocked(pollerFile(env, ".want")) }
