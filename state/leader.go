package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// BeatEvery is how often a leader shows that it goes on.
	BeatEvery = 10 * time.Second
	// silent is how long a leader may show nothing. A process that is stopped (Ctrl-Z, a debugger) keeps its locks, and nobody's
	// replies would be read until somebody has it go on.
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
