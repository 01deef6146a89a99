package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// wakeLogBytes is when a session's wake log is renamed to .1 and begun anew.
const wakeLogBytes = 1 << 20

// WakeMemory is what is remembered of a pane of a supervised tmux session from one wake message to the next: file
// wake/sessions/{session}/memory-{pane}.json in the user state.
type WakeMemory struct {
	CapturedAt time.Time `json:"captured_at"` // when tmux had answered with Lines
	Lines      []string  `json:"lines"`       // the pane's last ones; nil before the first capture
	Pane       string    `json:"pane"`        // hash of what the pane showed at the last message
	Text       string    `json:"text"`        // hash of the last words that a message carried
	Question   string    `json:"question"`    // hash of the last question that a message carried, with its call's id
	Said       string    `json:"said"`        // the transcript's entry with the last words that a message carried
	Transcript string    `json:"transcript"`  // the transcript's size and time at the last message
	To         string    `json:"to"`          // the agent's session that the last message went to
	Server     string    `json:"server"`      // the socket of the tmux server that the session was seen on
}

// WakeServers are the sockets of the tmux servers that a supervised session of this name was seen on, the last one first.
func WakeServers(userState, session string) (sockets []string) {
	var seen []WakeMemory
	for _, path := range jsonFiles(filepath.Dir(wakeMemoryPath(userState, session, ""))) {
		if m := readWakeMemory(path); m.Server != "" {
			seen = append(seen, m)
		}
	}
	slices.SortStableFunc(seen, func(a, b WakeMemory) int { return b.CapturedAt.Compare(a.CapturedAt) })
	for _, m := range seen {
		if !slices.Contains(sockets, m.Server) {
			sockets = append(sockets, m.Server)
		}
	}
	return sockets
}

// WakeSession is the folder of a supervised session, locked: what is remembered of it has one writer at a time. The zero
// value is that of a session that could not be locked: it remembers nothing.
type WakeSession struct {
	memory string // path
	lock   *Lock
}

func wakeDir(userState string) string { return filepath.Join(userState, "wake") }

// LockWakeSession locks a session by its tmux name, which may be any string. It waits two seconds at most: then ErrLocked.
// pane is one of its panes, %N, or "".
func LockWakeSession(userState, session, pane string) (*WakeSession, error) {
	path := wakeMemoryPath(userState, session, pane)
	lock, err := lockSoon(filepath.Join(filepath.Dir(path), ".lock"))
	if err != nil {
		return nil, err
	}
	return &WakeSession{path, lock}, nil
}

func wakeMemoryPath(userState, session, pane string) string {
	name := "memory-" + safeName(strings.TrimPrefix(pane, "%")) + ".json"
	return filepath.Join(wakeDir(userState), "sessions", safeName(session), name)
}

// PeekWakeMemory is what is remembered of a pane, as far as it can be said without the lock.
func PeekWakeMemory(userState, session, pane string) WakeMemory {
	return readWakeMemory(wakeMemoryPath(userState, session, pane))
}

// Unlock lets the next writer in.
func (s *WakeSession) Unlock() {
	if s.lock != nil {
		s.lock.Unlock()
	}
}

// Memory is what is remembered; the zero value when nothing is, or nothing that can be read: then a message too many goes
// out, and none is missed.
func (s *WakeSession) Memory() (m WakeMemory) {
	if s.lock == nil {
		return m
	}
	return readWakeMemory(s.memory)
}

func readWakeMemory(path string) (m WakeMemory) {
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &m) != nil {
		return WakeMemory{}
	}
	return m
}

// Remember replaces what is remembered. It does not wait for the disk: what is lost with the power is told once more.
func (s *WakeSession) Remember(m WakeMemory) error {
	if s.lock == nil {
		return nil
	}
	b, err := json.Marshal(m)
	if err == nil {
		err = replaceFile(s.memory, b)
	}
	if err != nil {
		return fmt.Errorf("remember session: %w", err)
	}
	return nil
}

// WakeFire is a line of a session's wake log: one for each hook that had something to look at.
type WakeFire struct {
	Time       time.Time `json:"time"`
	Trigger    string    `json:"trigger"`
	Session    string    `json:"session"`
	AgentID    string    `json:"agent_id"`
	State      string    `json:"state"`
	Pressure   string    `json:"pressure"`
	Source     string    `json:"content_source"` // transcript, pane, question, none
	Outcome    string    `json:"outcome"`        // queued, unchanged, decided, undecided, failed
	DurationMS float64   `json:"duration_ms"`
	Error      string    `json:"error,omitempty"`
}

// WakeLogPath is where a session's wake log is: JSON lines, capped at 1 MB and one old file.
func WakeLogPath(userState, session string) string {
	return filepath.Join(wakeDir(userState), "sessions", safeName(session), "wake.log")
}

// LogWake adds a line to a session's wake log.
func LogWake(userState string, f WakeFire) error {
	path := WakeLogPath(userState, f.Session)
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.Size() > wakeLogBytes {
		_ = os.Rename(path, path+".1")
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(b, '\n')) // in one piece: others may write at the same moment
	return errors.Join(err, file.Close())
}

// WakePane is the tmux session that a pane was last seen in, for when tmux cannot be asked any more; "" when it never was.
// place is $TMUX and $TMUX_PANE.
func WakePane(userState, place string) string {
	b, _ := os.ReadFile(wakePanePath(userState, place))
	return string(b)
}

// RememberWakePane writes down which session a pane is in.
func RememberWakePane(userState, place, session string) error {
	path := wakePanePath(userState, place)
	if b, err := os.ReadFile(path); err == nil && string(b) == session {
		return nil
	}
	return replaceFile(path, []byte(session))
}

func wakePanePath(userState, place string) string {
	return filepath.Join(wakeDir(userState), "panes", hashName(place))
}

// sweepWakes is how long what is remembered of a session is kept after its last message.
const sweepWakes = 30 * 24 * time.Hour

// SweepWakes removes what is remembered of sessions and panes without a hook for a month, and dead messages of that age.
func SweepWakes(userState string, now time.Time) {
	for _, sub := range []string{"sessions", "panes", filepath.Join("outbox", "dead")} {
		dir := filepath.Join(wakeDir(userState), sub)
		all, _ := os.ReadDir(dir)
		for _, one := range all {
			path := filepath.Join(dir, one.Name())
			newest := time.Time{}
			_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
				if err != nil {
					return nil
				}
				if info, err := d.Info(); err == nil && info.ModTime().After(newest) {
					newest = info.ModTime()
				}
				return nil
			})
			if now.Sub(newest) > sweepWakes {
				_ = os.RemoveAll(path)
			}
		}
	}
}

// KeepRegistry keeps the bytes of a wake registry that could be read, for while an edit leaves it broken.
func KeepRegistry(userState, path string, b []byte) error {
	kept := keptRegistry(userState, path)
	if was, err := os.ReadFile(kept); err == nil && bytes.Equal(was, b) {
		return nil
	}
	return replaceFile(kept, b)
}

// KeptRegistry is what KeepRegistry kept of the registry at path.
func KeptRegistry(userState, path string) (b []byte, ok bool) {
	b, err := os.ReadFile(keptRegistry(userState, path))
	return b, err == nil
}

func keptRegistry(userState, path string) string {
	return filepath.Join(wakeDir(userState), "registry-"+hashName(path)+".json")
}
