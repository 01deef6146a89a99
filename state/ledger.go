package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
)

const (
	ledgerAge     = 30 * 24 * time.Hour // a session that nobody ended is forgotten after it
	maxLedgerFile = 4 << 20             // bytes
	// sameEnd is how long after its end a session without a ledger counts as the same end told twice.
	sameEnd = time.Minute
)

// Ledger is what the hooks of one session wrote down for its summary: file ledger/{session_id}.json in the user state
// while it runs, ledger/{session_id}.ended.json from its end until that was reported. Unknown fields survive a rewrite.
type Ledger struct {
	SessionID      string    `json:"session_id"` // Claude Code's
	SessionName    string    `json:"session_name"`
	ProjectDir     string    `json:"project_dir"` // absolute
	CWD            string    `json:"cwd"`
	StartedAt      time.Time `json:"started_at"`
	Source         string    `json:"source"` // startup, resume, clear, fork; unknown when no hook saw the start
	Model          string    `json:"model"`
	TranscriptPath string    `json:"transcript_path"`
	Branch         string    `json:"branch"`         // at the start; "" outside git
	Commit         string    `json:"commit"`         // HEAD at the start
	Chat           string    `json:"chat,omitempty"` // host/spaces/S: where its reports go; "" when a command has to be asked
	Turns          int       `json:"turns"`
	LastPromptID   string    `json:"last_prompt_id,omitempty"` // the prompt of the last turn that was counted
	LastWords      string    `json:"last_words"`
	LastSeen       time.Time `json:"last_seen"`
	EndedAt        time.Time `json:"ended_at,omitzero"`
	Reason         string    `json:"reason,omitempty"`
	AtGate         bool      `json:"at_gate,omitempty"` // no end: the stop gate let it stop, and it may go on

	FormattingQuestions int     `json:"formatting_questions,omitempty"` // how many a model was paid for to reword
	FormattingUSD       float64 `json:"formatting_usd,omitempty"`

	Path string `json:"-"` // where it is on disk

	rest map[string]json.RawMessage // what this version does not know
}

// Unknown is the source of a session whose start no hook saw.
const Unknown = "unknown"

// UnmarshalJSON keeps the members that it does not know.
func (l *Ledger) UnmarshalJSON(b []byte) error {
	type plain Ledger
	var p plain
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &p.rest); err != nil {
		return err
	}
	for i, t := 0, reflect.TypeFor[Ledger](); i < t.NumField(); i++ {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		delete(p.rest, name)
	}
	*l = Ledger(p)
	return nil
}

// MarshalJSON writes the known members in the order of the struct, then the others by name.
func (l *Ledger) MarshalJSON() ([]byte, error) {
	type plain Ledger
	b, err := json.Marshal((*plain)(l))
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSuffix(b, []byte("}"))
	for _, name := range slices.Sorted(maps.Keys(l.rest)) {
		key, _ := json.Marshal(name)
		b = append(append(append(append(b, ','), key...), ':'), l.rest[name]...)
	}
	return append(b, '}'), nil
}

// Ledgers is the folder of the sessions' ledgers. One lock is for all of them: a lock for each would stay behind with
// every session.
type Ledgers struct{ Dir string }

// LedgersIn is the folder ledger of a user state folder.
func LedgersIn(userState string) Ledgers { return Ledgers{Dir: filepath.Join(userState, "ledger")} }

// path is where a session's file is; kind is "" while it runs, ".ended", ".ended-2" …, or ".reported". Only kinds have
// a dot: a session may be called "x.ended".
func (s Ledgers) path(sessionID, kind string) string {
	name := safeName(sessionID)
	if strings.Contains(name, ".") {
		sum := sha256.Sum256([]byte(sessionID))
		name = strings.ReplaceAll(name, ".", "_") + "_" + hex.EncodeToString(sum[:4])
	}
	return filepath.Join(s.Dir, name+kind+".json")
}

// Load reads the ledger of a running session: fs.ErrNotExist when it has none, *Corrupt when it did not parse and was
// moved aside.
func (s Ledgers) Load(sessionID string) (*Ledger, error) { return loadLedger(s.path(sessionID, "")) }

func loadLedger(path string) (*Ledger, error) {
	info, err := os.Stat(path)
	if missing(err) {
		return nil, fmt.Errorf("read ledger: %w", fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxLedgerFile {
		return nil, setAside(path, fmt.Errorf("%s, %d bytes: not a ledger", info.Mode(), info.Size()))
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	l := &Ledger{}
	if err := json.Unmarshal(b, l); err != nil {
		return nil, setAside(path, err)
	}
	if l.SessionID == "" {
		return nil, setAside(path, errors.New("session_id is missing"))
	}
	l.Path = path
	return l, nil
}

func (s Ledgers) lock() (*Lock, error) { return lockSoon(filepath.Join(s.Dir, ".lock")) }

// running reads a session's ledger under the lock. What did not parse is out of the way, and then there is none.
func (s Ledgers) running(sessionID string) (l *Ledger, known bool, bad error, err error) {
	l, err = s.Load(sessionID)
	var corrupt *Corrupt
	if errors.As(err, &corrupt) && corrupt.Aside != "" {
		bad, err = err, fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &Ledger{SessionID: sessionID}, false, bad, nil
	}
	return l, err == nil, bad, err
}

func (s Ledgers) write(path string, l *Ledger, write func(string, []byte) error) error {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return write(path, append(b, '\n'))
}

// Update is the only way the ledger of a running session changes: under the lock it is read afresh, handed to f and
// written. Where there is none f gets an empty one, known is false, and it is begun. An error of f leaves the file as
// it was; ErrUnchanged does so without being one. A *Corrupt error says that a ledger was begun in place of one that
// did not parse.
func (s Ledgers) Update(sessionID string, f func(l *Ledger, known bool) error) error {
	lock, err := s.lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	l, known, bad, err := s.running(sessionID)
	if err != nil {
		return err
	}
	if err := f(l, known); errors.Is(err, ErrUnchanged) {
		return bad
	} else if err != nil {
		return err
	}
	return errors.Join(s.write(s.path(sessionID, ""), l, writeFile), bad)
}

// End makes the ledger of a session one that has ended, and reports whether it did: an end that is told a second time
// changes nothing. f adds what the end itself says; known is false for a session without a ledger. A reader sees the
// session ended from one instant on, since the file comes whole; the running one is removed after it, and a process
// that is killed between the two leaves that to the next one.
func (s Ledgers) End(sessionID string, at time.Time, f func(l *Ledger, known bool)) (ended bool, err error) {
	lock, err := s.lock()
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	l, known, bad, err := s.running(sessionID)
	if err != nil {
		return false, err
	}
	running, kind := s.path(sessionID, ""), ".ended"
	told := func(kind string) bool {
		past, err := loadLedger(s.path(sessionID, kind))
		return err == nil && (known && past.StartedAt.Equal(l.StartedAt) || !known && at.Sub(past.EndedAt).Abs() < sameEnd)
	}
	if told(".reported") {
		return false, removeIf(running, known)
	}
	for n := 2; exists(s.path(sessionID, kind)); n++ {
		if told(kind) {
			return false, removeIf(running, known)
		}
		kind = fmt.Sprintf(".ended-%d", n)
	}
	if known && s.toldAtGate(l) {
		return false, errors.Join(s.endQuietly(l, at), bad)
	}
	l.EndedAt = at.UTC()
	f(l, known)
	if err := s.write(s.path(sessionID, kind), l, createFile); err != nil {
		return false, err
	}
	return true, errors.Join(removeIf(running, known), bad)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func removeIf(path string, there bool) error {
	if !there {
		return nil
	}
	return os.Remove(path)
}
