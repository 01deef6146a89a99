package state

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// A session that the stop gate lets stop mostly stays open for days, and its person wants the summary now. So a copy of its
// ledger is reported like an end, once for each start of the session: ledger/{session_id}.ended-gate-{start}.json until then,
// .gate-{start}.json after, by which the real end knows what was told.
func (s Ledgers) gatePath(l *Ledger, kind string) string {
	return s.path(l.SessionID, kind+"gate-"+strconv.FormatInt(l.StartedAt.UnixNano(), 36))
}

// AtGate says whether the session's stop was written down to be told, and whether that still waits for it.
func (s Ledgers) AtGate(l *Ledger) (told, waiting bool) {
	waiting = exists(s.gatePath(l, ".ended-"))
	return waiting || exists(s.gatePath(l, ".")), waiting
}

// StopAtGate writes down that a running session has stopped at the gate, to be told; the session runs on. It reports whether
// this call did: for each start of a session one does. fs.ErrNotExist says that the session has no ledger.
func (s Ledgers) StopAtGate(sessionID string, at time.Time, f func(*Ledger)) (bool, error) {
	lock, err := s.lock()
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	l, err := s.Load(sessionID)
	if err != nil {
		return false, err
	}
	if told, _ := s.AtGate(l); told {
		return false, nil
	}
	l.EndedAt, l.AtGate = at.UTC(), true
	f(l)
	if err := s.write(s.gatePath(l, ".ended-"), l, createFile); errors.Is(err, fs.ErrExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, nil
}

// toldAtGate says whether all that an ended session did was told when it stopped at the gate.
func (s Ledgers) toldAtGate(l *Ledger) bool {
	for _, kind := range []string{".ended-", "."} {
		if past, err := loadLedger(s.gatePath(l, kind)); err == nil && past.StartedAt.Equal(l.StartedAt) {
			return l.Turns <= past.Turns
		}
	}
	return false
}

// endQuietly ends a running session of which everything was told.
func (s Ledgers) endQuietly(l *Ledger, at time.Time) error {
	running := l.Path
	l.EndedAt = at.UTC()
	if err := s.write(s.path(l.SessionID, ".reported"), l, writeFile); err != nil {
		return err
	}
	return os.Remove(running)
}
