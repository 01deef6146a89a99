package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// WakeMessage is a message on its way to an OpenClaw agent: file wake/outbox/{unix_nano}-{agent session's hash}-{id}.json in
// the user state. It is on disk before it is handed over and until the agent's CLI has taken it.
type WakeMessage struct {
	ID         string    `json:"id"`
	Session    string    `json:"session"` // of tmux
	AgentID    string    `json:"agent_id"`
	To         string    `json:"openclaw_session_id"`
	Trigger    string    `json:"trigger"`
	Message    string    `json:"message"`
	Reply      bool      `json:"reply,omitempty"` // the agent's reply is wanted as JSON
	SearchPath string    `json:"path"`            // $PATH where the hook ran: a daemon's own is shorter
	OpenClaw   []string  `json:"openclaw_env"`    // OPENCLAW_…=… there, but for secrets: which gateway is meant
	CreatedAt  time.Time `json:"created_at"`
	NotBefore  time.Time `json:"not_before,omitzero"`
	Tries      int       `json:"tries,omitempty"` // that failed
	LastError  string    `json:"last_error,omitempty"`

	Path string `json:"-"`
}

// WakeOutbox is the folder of waiting wake messages.
type WakeOutbox struct{ Dir string }

// WakeOutboxIn is the wake outbox of a user state folder.
func WakeOutboxIn(userState string) WakeOutbox {
	return WakeOutbox{Dir: filepath.Join(wakeDir(userState), "outbox")}
}

// Put writes a message down, to be handed over.
func (o WakeOutbox) Put(w *WakeMessage) error {
	b, err := json.Marshal(w)
	if err == nil {
		err = mkdir(o.Dir)
	}
	if err != nil {
		return err
	}
	w.Path = filepath.Join(o.Dir, fmt.Sprintf("%019d-%s-%s.json", w.CreatedAt.UnixNano(), hashName(w.To), safeName(w.ID)))
	return createFile(w.Path, b)
}

// Waiting are the messages that wait, the oldest first. Those that do not parse are moved aside and reported.
func (o WakeOutbox) Waiting() (all []*WakeMessage, bad []error) {
	names, err := os.ReadDir(o.Dir)
	if err != nil && !missing(err) {
		return nil, []error{fmt.Errorf("read wake outbox: %w", err)}
	}
	for _, n := range names { // sorted by name, and so by time
		if !strings.HasSuffix(n.Name(), ".json") || strings.HasPrefix(n.Name(), ".") {
			continue
		}
		w, err := o.Load(filepath.Join(o.Dir, n.Name()))
		switch {
		case err != nil:
			bad = append(bad, err)
		case w != nil:
			all = append(all, w)
		}
	}
	return all, bad
}

// Alone says whether no other message to the same agent waits, or is just being handed over.
func (o WakeOutbox) Alone(w *WakeMessage) bool {
	messages := 0
	names, err := os.ReadDir(o.Dir)
	for _, n := range names {
		if _, to, _ := strings.Cut(n.Name(), "-"); isMessage(n.Name()) && strings.HasPrefix(to, hashName(w.To)+"-") {
			messages++
		}
	}
	return err == nil && messages == 1 // itself
}

// Empty says whether nothing waits.
func (o WakeOutbox) Empty() bool {
	names, _ := os.ReadDir(o.Dir)
	return !slices.ContainsFunc(names, func(n os.DirEntry) bool { return isMessage(n.Name()) })
}

// isMessage says whether a file of the folder is a message, by its name, and none that belongs to one.
func isMessage(name string) bool {
	return name[0] >= '0' && name[0] <= '9' && strings.HasSuffix(name, ".json")
}

// Load reads a message; nil when it is gone. A Corrupt error says that it was moved aside.
func (o WakeOutbox) Load(path string) (*WakeMessage, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // also a link that leads nowhere
	}
	if err != nil {
		return nil, fmt.Errorf("read wake message %s: %w", filepath.Base(path), err)
	}
	w := &WakeMessage{Path: path}
	if err := json.Unmarshal(b, w); err != nil {
		return nil, setAside(path, err)
	}
	if w.To == "" {
		return nil, setAside(path, errors.New("openclaw_session_id is missing"))
	}
	return w, nil
}

// Claim gives the caller alone the right to hand a message over; ErrLocked when another process has it.
func (o WakeOutbox) Claim(w *WakeMessage) (*Lock, error) { return TryLock(besides(w, ".lock")) }

// ClaimFor is Claim for a process that the caller is about to start: it holds the claim as long as it has the file open.
func (o WakeOutbox) ClaimFor(w *WakeMessage) (*os.File, error) {
	f, err := os.OpenFile(besides(w, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("claim wake message: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("claim wake message: %w", ErrLocked)
	}
	return f, nil
}

// ClaimSoon is Claim that waits for another process to end.
func (o WakeOutbox) ClaimSoon(w *WakeMessage, wait time.Duration) (*Lock, error) {
	return lockWithinLooking(besides(w, ".lock"), wait, 200*time.Millisecond)
}

// besides is a file that belongs to a message.
func besides(w *WakeMessage, suffix string) string {
	return filepath.Join(filepath.Dir(w.Path), "."+filepath.Base(w.Path)+suffix)
}

// Output is the file for what the process says that was started with ClaimFor.
func (o WakeOutbox) Output(w *WakeMessage) (*os.File, error) {
	return os.OpenFile(besides(w, ".out"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}

// EndPath is the file for that process's exit code and a line break.
func (o WakeOutbox) EndPath(w *WakeMessage) string { return besides(w, ".end") }

// Ended is how the process ended that was started with ClaimFor, and the beginning of what it said. ok is false when there was
// none, or it was killed. It is told once. The caller has claimed the message.
func (o WakeOutbox) Ended(w *WakeMessage) (code int, said string, ok bool) {
	end, err := os.ReadFile(o.EndPath(w))
	if line, whole := strings.CutSuffix(string(end), "\n"); err == nil && whole {
		code, err = strconv.Atoi(line)
		ok = err == nil
	}
	if f, err := os.Open(besides(w, ".out")); err == nil {
		b, _ := io.ReadAll(io.LimitReader(f, 64<<10))
		f.Close()
		said = string(b)
	}
	o.forget(w, ".end", ".out")
	return code, said, ok
}

func (o WakeOutbox) forget(w *WakeMessage, suffixes ...string) {
	for _, suffix := range suffixes {
		_ = os.Remove(besides(w, suffix))
	}
}

// Rewrite writes down what changed about a waiting message. The caller has claimed it.
func (o WakeOutbox) Rewrite(w *WakeMessage) error {
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return writeFile(w.Path, b)
}

// Remove takes a message out that was handed over. The caller has claimed it.
func (o WakeOutbox) Remove(w *WakeMessage) error {
	if err := os.Remove(w.Path); err != nil && !missing(err) {
		return fmt.Errorf("remove wake message: %w", err)
	}
	o.forget(w, ".end", ".out", ".lock") // a process that takes this lock from now on finds no message
	return nil
}

// Bury puts a message aside that its agent does not take. The caller has claimed it.
func (o WakeOutbox) Bury(w *WakeMessage) error {
	dir := filepath.Join(o.Dir, "dead")
	if err := mkdir(dir); err != nil {
		return err
	}
	if err := os.Rename(w.Path, filepath.Join(dir, filepath.Base(w.Path))); err != nil {
		return fmt.Errorf("put wake message aside: %w", err)
	}
	o.forget(w, ".end", ".out", ".lock")
	return nil
}

// Dead are the messages that were put aside, the oldest first.
func (o WakeOutbox) Dead() []*WakeMessage {
	all, _ := WakeOutbox{Dir: filepath.Join(o.Dir, "dead")}.Waiting()
	return all
}

// LockRetrier makes the caller the one process that tries again what an agent did not take; ErrLocked when there is one.
func (o WakeOutbox) LockRetrier(to string) (*Lock, error) { return TryLock(o.retrier(to)) }

// Retried says whether a process tries again what an agent did not take.
func (o WakeOutbox) Retried(to string) bool { return Held(o.retrier(to)) }

func (o WakeOutbox) retrier(to string) string { return filepath.Join(o.Dir, ".retrier-"+hashName(to)) }
