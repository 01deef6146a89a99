package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// BeatEvery is how often a leader shows that it goes on.
	BeatEvery = 10 * time.Second
	// silent is how long a leader may show nothing. A process that is stopped (Ctrl-Z, a debugger) keeps its locks, and no
	// replies would be read until a person has it go on.
	silent = 3 * BeatEvery
	// seats bounds how many leaders may be stopped at once.
	seats = 8
)

// Leader is the right to list a space: of the processes of this machine one has it. Where that one is silent another has a
// seat beside it: better two that list than none.
type Leader struct {
	lock            *Lock
	userState, chat string
	seat            int // 0 is the first; the others stand in
}

// LockLeader makes the caller the one process of this machine that lists the space; ErrLocked when there is one.
func LockLeader(userState, chat string) (*Leader, error) {
	for seat := range seats {
		path := leaderPath(userState, chat, seat)
		lock, err := TryLock(path)
		if err == nil {
			l := &Leader{lock, userState, chat, seat}
			l.Beat()
			return l, nil
		}
		if !errors.Is(err, ErrLocked) || sinceBeat(path) < silent {
			return nil, err
		}
	}
	return nil, fmt.Errorf("lead %s: %d processes that lead are stopped: %w", chat, seats, ErrLocked)
}

// Beat shows that the leader goes on. Where that cannot be written, another one lists too.
func (l *Leader) Beat() {
	now := time.Now()
	_ = os.Chtimes(leaderPath(l.userState, l.chat, l.seat), now, now)
}

// StandsIn says that another process has the first seat, or had it.
func (l *Leader) StandsIn() bool { return l.seat > 0 }

// Needed says whether all before it are silent still. The first always is.
func (l *Leader) Needed() bool {
	for seat := range l.seat {
		if path := leaderPath(l.userState, l.chat, seat); !Held(path) || sinceBeat(path) < silent {
			return false
		}
	}
	return true
}

// Unlock gives the seat back.
func (l *Leader) Unlock() { l.lock.Unlock() }

// HasLeader says whether a process lists the space that goes on.
func HasLeader(userState, chat string) bool {
	for seat := range seats {
		if path := leaderPath(userState, chat, seat); Held(path) && sinceBeat(path) < silent {
			return true
		}
	}
	return false
}

// StoppedLeader is for how long the process has been silent whose turn it is to list the space; 0 where it goes on, and where
// there is none.
func StoppedLeader(userState, chat string) time.Duration {
	path := leaderPath(userState, chat, 0)
	if since := sinceBeat(path); since >= silent && Held(path) {
		return since
	}
	return 0
}

// sinceBeat is how long ago a leader showed that it goes on, also by a clock that was set back since.
func sinceBeat(path string) time.Duration {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return time.Since(info.ModTime()).Abs()
}

func leaderPath(userState, chat string, seat int) string {
	path := filepath.Join(userState, "inbox", safeName(chat)+".leader")
	if seat > 0 {
		path += fmt.Sprintf("-%d", seat+1)
	}
	return path
}

// The daemon's files stand in each state folder that it was told to serve, and in the user state when it serves all.
const (
	pidFile      = "gchat-poller.pid"
	LastPollFile = "gchat-poller-last-poll.txt" // holds the time of the last good cycle, as RFC 3339
	daemonLock   = ".gchat-poller.lock"
)

// seatWait is how long a seat is waited for: a process that was killed a moment ago can still hold it through a child that
// it was just starting, and a process that looks whether it is held holds it for an instant.
const seatWait = 500 * time.Millisecond

// ErrDaemonRuns says that another daemon serves that folder.
type ErrDaemonRuns struct {
	Dir string
	PID int // 0 when it cannot be told
}

func (e *ErrDaemonRuns) Error() string {
	who := "another one"
	if e.PID > 0 {
		who = "pid " + strconv.Itoa(e.PID)
	}
	return "the daemon runs already: " + who + ", for " + e.Dir
}

// A DaemonSeat is the right to be the one daemon of some state folders. It ends with its process.
type DaemonSeat struct {
	dirs  []string
	locks []*Lock
}

// TakeDaemonSeat makes the caller the daemon of these state folders and writes its pid there; *ErrDaemonRuns when one of
// them has a daemon.
func TakeDaemonSeat(dirs []string) (*DaemonSeat, error) {
	seat := &DaemonSeat{}
	for _, dir := range dirs {
		l, err := lockWithin(filepath.Join(dir, daemonLock), seatWait)
		if err == nil {
			seat.locks, seat.dirs = append(seat.locks, l), append(seat.dirs, dir)
			err = writeFile(filepath.Join(dir, pidFile), []byte(strconv.Itoa(os.Getpid())+"\n"))
		}
		if errors.Is(err, ErrLocked) {
			err = &ErrDaemonRuns{Dir: dir, PID: DaemonPID(dir)}
		}
		if err != nil {
			seat.Leave()
			return nil, err
		}
	}
	return seat, nil
}

// Leave removes the pid files and lets the seat go.
func (s *DaemonSeat) Leave() {
	for i, dir := range s.dirs {
		os.Remove(filepath.Join(dir, pidFile))
		s.locks[i].Unlock()
	}
	s.dirs, s.locks = nil, nil
}

// DaemonRuns says whether a living daemon serves one of the state folders.
func DaemonRuns(dirs ...string) bool {
	for _, dir := range dirs {
		if Held(filepath.Join(dir, daemonLock)) {
			return true
		}
	}
	return false
}

// DaemonPID is what the pid file of a state folder says; 0 when there is none. After kill -9 it is out of date.
func DaemonPID(dir string) int {
	b, _ := ReadPlain(filepath.Join(dir, pidFile), 1024)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

// NoteLastPoll writes down in a state folder that a cycle of the daemon went well, as RFC 3339. A folder that is gone is
// not made again.
func NoteLastPoll(dir string, now time.Time) error {
	if _, err := os.Stat(dir); missing(err) {
		return nil
	}
	return writeFile(filepath.Join(dir, LastPollFile), []byte(now.UTC().Format(time.RFC3339)+"\n"))
}

// LastPoll is the time of the daemon's last good cycle; the zero time when there was none.
func LastPoll(dir string) time.Time {
	b, _ := ReadPlain(filepath.Join(dir, LastPollFile), 1024)
	t, _ := time.Parse(time.RFC3339, strings.TrimSpace(string(b)))
	return t
}
