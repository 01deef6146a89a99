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
	"strconv"
	"strings"
	"time"
)

const (
	ledgerAge     = 30 * 24 * time.Hour // a session whose end no hook told is forgotten after it
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

// Update is the only way the ledger of a running session changes: under the lock it is read afresh, handed to f and written.
// Where there is none f gets an empty one, known is false, and it is begun. An error of f leaves the file as it was;
// ErrUnchanged does so without being one. A *Corrupt error says that a ledger was begun in place of one that did not parse.
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

// Running are the sessions that have begun and whose end no hook told, the last seen first. One that was killed is among
// them until it is swept. What does not parse is moved aside and returned in bad.
func (s Ledgers) Running() (running []*Ledger, bad []error) {
	running, bad = s.load(func(kind string) bool { return kind == "json" })
	slices.SortStableFunc(running, func(a, b *Ledger) int { return b.LastSeen.Compare(a.LastSeen) })
	return running, bad
}

// Ended are the sessions whose end is not reported yet, the oldest end first. What does not parse is moved aside and
// returned in bad.
func (s Ledgers) Ended() (ended []*Ledger, bad []error) {
	ended, bad = s.load(func(kind string) bool {
		return strings.HasSuffix(kind, ".json") && (kind == "ended.json" || strings.HasPrefix(kind, "ended-"))
	})
	slices.SortStableFunc(ended, func(a, b *Ledger) int { return a.EndedAt.Compare(b.EndedAt) })
	return ended, bad
}

// load reads the ledgers whose file names go on like this after the first dot. What does not parse is moved aside and
// returned in bad.
func (s Ledgers) load(wanted func(kind string) bool) (all []*Ledger, bad []error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !missing(err) {
		return nil, []error{fmt.Errorf("list ledgers: %w", err)}
	}
	for _, e := range entries {
		name, kind, _ := strings.Cut(e.Name(), ".")
		if name == "" || !wanted(kind) {
			continue
		}
		l, err := loadLedger(filepath.Join(s.Dir, e.Name()))
		switch {
		case err == nil:
			all = append(all, l)
		case !errors.Is(err, fs.ErrNotExist):
			bad = append(bad, err)
		}
	}
	return all, bad
}

// Reported takes an ended session out. Its file stays for a day under another name, so that the same end told once
// more is known.
func (s Ledgers) Reported(l *Ledger) error {
	lock, err := s.lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	now, err := loadLedger(l.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !now.EndedAt.Equal(l.EndedAt) {
		return nil // another reporter was faster, and the session may even have ended once more
	}
	to := s.path(l.SessionID, ".reported")
	if l.AtGate {
		to = s.gatePath(l, ".")
	}
	if err == nil {
		err = os.Rename(l.Path, to)
	}
	if err != nil {
		return fmt.Errorf("take ended session out: %w", err)
	}
	if l.AtGate {
		return nil // it runs on
	}
	// The hook was killed before it did this; a later ledger of the same session has another start.
	if running, err := s.Load(l.SessionID); err == nil && running.StartedAt.Equal(l.StartedAt) {
		return os.Remove(running.Path)
	}
	return nil
}

// Sweep removes reported ends that are a day old, and what else was not written for thirty days.
func (s Ledgers) Sweep(now time.Time) {
	entries, _ := os.ReadDir(s.Dir)
	for _, e := range entries {
		age := ledgerAge
		if strings.HasSuffix(e.Name(), ".reported.json") {
			age = MaxAge
		}
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > age && e.Name() != ".lock" {
			os.Remove(filepath.Join(s.Dir, e.Name()))
		}
	}
}

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

// gateBlocks is the file stop-gate/{session_id}.json in the user state: when the stop gate sent the session back. It is what
// keeps a gate whose session cannot do what it wants from going round for ever.
type gateBlocks struct {
	Blocks []time.Time `json:"blocks"` // this machine's clock, UTC
}

const maxGateBlocks = 64 << 10 // bytes

// CountGateBlock writes down that the gate sends a session back, and reports whether it may: at most so many times within
// that time. An error means that nothing could be counted; a *Corrupt one that the next count begins anew.
func CountGateBlock(userState, sessionID string, now time.Time, most int, within time.Duration) (ok bool, err error) {
	dir := filepath.Join(userState, "stop-gate")
	lock, err := lockSoon(filepath.Join(dir, ".lock"))
	if err != nil {
		return false, fmt.Errorf("count block: %w", err)
	}
	defer lock.Unlock()
	path := filepath.Join(dir, safeName(sessionID)+".json")
	was, err := readGateBlocks(path)
	if err != nil {
		return false, err
	}
	// Of a clock that was set back, what lies just ahead counts, too.
	was.Blocks = slices.DeleteFunc(was.Blocks, func(at time.Time) bool { return now.Sub(at).Abs() >= within })
	if len(was.Blocks) >= most {
		return false, nil
	}
	was.Blocks = append(was.Blocks, now.UTC())
	b, err := json.Marshal(was)
	if err != nil {
		return false, fmt.Errorf("count block: %w", err)
	}
	if err := replaceFile(path, append(b, '\n')); err != nil {
		return false, fmt.Errorf("count block: %w", err)
	}
	if len(was.Blocks) == 1 {
		removeOld(dir, "", MaxAge, now)
	}
	return true, nil
}

func readGateBlocks(path string) (was gateBlocks, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return was, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxGateBlocks) {
		return was, setAside(path, fmt.Errorf("%s, %d bytes: not ours", info.Mode(), info.Size()))
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return was, fmt.Errorf("count block: %w", err)
	}
	if err := json.Unmarshal(b, &was); err != nil {
		return was, setAside(path, err)
	}
	return was, nil
}

// AddNotice leaves a sentence for the person at the terminal. The session's next hook shows it once. The same
// sentence waits only once.
func AddNotice(userState, sessionID, text string) error {
	path := noticePath(userState, sessionID)
	if err := mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	b, _ := os.ReadFile(path)
	if strings.Contains(string(b), strings.TrimSuffix(text, ".")) || len(b) > 4096 {
		return nil
	}
	return writeFile(path, append(b, text+"\n"...))
}

// TakeNotices returns what was left for the session's person, and removes it; "" for nothing.
func TakeNotices(userState, sessionID string) string {
	path := noticePath(userState, sessionID)
	mine := path + ".taken"
	if os.Rename(path, mine) != nil { // the rename decides between two hooks of the same moment
		return ""
	}
	defer os.Remove(mine)
	b, _ := os.ReadFile(mine)
	return strings.TrimSpace(string(b))
}

func noticePath(userState, sessionID string) string {
	return filepath.Join(userState, "notices", safeName(sessionID)+".txt")
}
