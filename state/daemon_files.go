package state

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The daemon's files stand in each state folder that it was told to serve, and in the user state when it serves all.
const (
	pidFile      = "gchat-poller.pid"
	LastPollFile = "gchat-poller-last-poll.txt" // holds the time of the last good cycle, as RFC 3339
	daemonLock   = ".gchat-poller.lock"
)

// seatWait is how long a seat is waited for: a process that was killed a moment ago can still hold it through a child that
// it was just starting, and whoever looks whether it is held holds it for an instant.
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
