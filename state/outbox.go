package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Outgoing is a message on its way to a space: file outbox/{unix_nano}-{lane}-{key}.json in the user state. It is on disk
// before it is sent and until Chat has it.
type Outgoing struct {
	MessageID  string    `json:"message_id"` // client-…: the same on every try, so that Chat keeps one
	Key        string    `json:"key"`        // what is put again under the same key is the same message; "" is MessageID
	Chat       string    `json:"chat"`       // host/spaces/S, the only place it may go to; "" before a command told the webhook
	ThreadName string    `json:"thread_name,omitempty"`
	ThreadKey  string    `json:"thread_key,omitempty"`
	Parts      []string  `json:"parts"` // its texts: one message each, in this order
	PartsSent  int       `json:"parts_sent,omitempty"`
	ProjectDir string    `json:"project_dir"`       // whose configuration knows the webhook
	Command    string    `json:"command,omitempty"` // where Chat is "": a hash of the command that prints the webhook
	SessionID  string    `json:"session_id,omitempty"`
	Kind       string    `json:"kind,omitempty"`   // of report
	Urgent     bool      `json:"urgent,omitempty"` // goes before what is not
	Low        bool      `json:"low,omitempty"`    // may be merged with its session's next one when both wait
	Digest     bool      `json:"digest,omitempty"` // was held back, and goes with all others that were
	Merged     []Merged  `json:"merged,omitempty"` // messages whose texts are in Parts
	CreatedAt  time.Time `json:"created_at"`
	NotBefore  time.Time `json:"not_before,omitzero"`
	Tries      int       `json:"tries,omitempty"` // that failed
	LastError  string    `json:"last_error,omitempty"`

	Path string `json:"-"`
}

// Thread is what a message's order is kept in: its thread, as far as it is named; "" for messages that begin their own.
func (m *Outgoing) Thread() string { return cmp.Or(m.ThreadKey, m.ThreadName) }

// Outbox is the folder of outgoing messages.
type Outbox struct{ Dir string }

// OutboxIn is the outbox of a user state folder.
func OutboxIn(userState string) Outbox { return Outbox{Dir: filepath.Join(userState, "outbox")} }

// Put writes a message down to be sent, unless one of the same Key was put less than again before it and waits or was
// sent: then it is the same one, and put is false. An error means that nothing was written.
func (o Outbox) Put(m *Outgoing, again time.Duration) (put bool, err error) {
	m.Key = cmp.Or(m.Key, m.MessageID)
	b, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	if err := mkdir(o.Dir); err != nil {
		return false, err
	}
	if _, repeated, err := o.before(m, again); err != nil || repeated {
		return false, err // found out without a wait for the disk; place looks once more
	}
	// The bytes reach the disk before the lock: others put at the same moment.
	tmp, err := syncedTemp(o.Dir, append(b, '\n'))
	if err != nil {
		return false, fmt.Errorf("put message: %w", err)
	}
	defer os.Remove(tmp)
	if put, err = o.place(m, tmp, again); err != nil || !put {
		return false, err
	}
	return true, syncDir(o.Dir)
}

// placeWait bounds how long a message waits for others that are put. Only a stopped process holds them up that long, and
// then a repetition that is not noticed is better than a report that is lost.
var placeWait = 250 * time.Millisecond

// place gives the message its file in one step, after all that are there.
func (o Outbox) place(m *Outgoing, tmp string, again time.Duration) (bool, error) {
	unlock, err := o.lockNames()
	if err != nil {
		return false, err
	}
	defer unlock()
	at, repeated, err := o.before(m, again)
	if err != nil || repeated {
		return false, err
	}
	key := safeName(m.Key)
	for range 100 {
		path := filepath.Join(o.Dir, fmt.Sprintf("%019d-%s-%s.json", at, lane(m), key))
		if err = os.Link(tmp, path); err == nil {
			m.Path = path
			return true, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			break
		}
		at++ // without the lock
	}
	return false, fmt.Errorf("put message: %w", err)
}

// Rewrite writes down what changed about a waiting message. The caller holds the chat's sender lock.
func (o Outbox) Rewrite(m *Outgoing) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	tmp, err := syncedTemp(o.Dir, append(b, '\n'))
	if err != nil {
		return fmt.Errorf("rewrite message: %w", err)
	}
	defer os.Remove(tmp)
	if err := o.rename(tmp, m.Path); err != nil {
		return fmt.Errorf("rewrite message: %w", err)
	}
	return syncDir(o.Dir)
}

// rename replaces a waiting message's file while no process looks for what was put before: where a file system gives a
// renamed file a new place in its folder (tmpfs and btrfs do), a reader of the folder can find neither the old nor the new.
func (o Outbox) rename(from, to string) error {
	unlock, err := o.lockNames()
	if err != nil {
		return err
	}
	defer unlock()
	return os.Rename(from, to)
}

// lockNames has the names in the outbox stay as they are, but for those that are removed. It goes without after placeWait.
func (o Outbox) lockNames() (unlock func(), err error) {
	l, err := lockWithin(filepath.Join(o.Dir, ".put"), placeWait)
	switch {
	case err == nil:
		return l.Unlock, nil
	case errors.Is(err, ErrLocked):
		return func() {}, nil
	}
	return nil, err
}

// before looks at what was put before: at is the time, in ns, that m's place is to have, after all that waits.
func (o Outbox) before(m *Outgoing, again time.Duration) (at int64, repeated bool, err error) {
	waiting, err := o.queue()
	if err != nil {
		return 0, false, err
	}
	key, at := safeName(m.Key), m.CreatedAt.UnixNano()
	// What waits first, then what was sent: a sender notes the one before it removes the other. A clock that was set back
	// makes everything of before look new.
	for _, q := range waiting {
		if q.Key == key && m.CreatedAt.Sub(q.At).Abs() < again {
			return 0, true, nil
		}
		at = max(at, q.At.UnixNano()+1)
	}
	r, ok := o.Receipt(m.Key)
	return at, ok && m.CreatedAt.Sub(r.CreatedAt).Abs() < again, nil
}

// LockSender makes the caller the one process that sends to a chat; ErrLocked when there is one.
func (o Outbox) LockSender(chat string) (*Lock, error) {
	return TryLock(o.senderLock(chat))
}

func (o Outbox) senderLock(chat string) string {
	return filepath.Join(o.Dir, ".sender-"+hashName(chat))
}

func hashName(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

// Queued is a message's place in the outbox, as its file name tells.
type Queued struct {
	Path string
	Lane string // messages of one lane go in order: hashes of chat and thread
	Key  string // as a file name
	At   time.Time
}

// laneChat is how many characters of a lane are the chat's hash.
const laneChat = 6

func lane(m *Outgoing) string {
	thread := m.Thread()
	if m.Chat == "" { // each command's messages go their own way
		thread += "\x00" + m.ProjectDir
	}
	return hashName(m.Chat)[:laneChat] + hashName(thread)[:8]
}

// OnlyTo says, without reading it, that the message is for that chat.
func (q Queued) OnlyTo(chat string) bool { return strings.HasPrefix(q.Lane, hashName(chat)[:laneChat]) }

// NeverTo says, without reading it, that the message is for another chat than that. One that was put before a command was
// asked for the webhook may go anywhere.
func (q Queued) NeverTo(chat string) bool { return !q.OnlyTo(chat) && !q.OnlyTo("") }

// Queue is what waits, by lane, each in its order. It reads file names only.
func (o Outbox) Queue() ([][]Queued, error) {
	all, err := o.queue()
	if err != nil {
		return nil, err
	}
	var lanes [][]Queued
	at := map[string]int{}
	for _, q := range all {
		i, ok := at[q.Lane]
		if !ok {
			i = len(lanes)
			at[q.Lane], lanes = i, append(lanes, nil)
		}
		lanes[i] = append(lanes[i], q)
	}
	return lanes, nil
}

func (o Outbox) queue() (all []Queued, err error) {
	entries, err := os.ReadDir(o.Dir) // sorted: the oldest first
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	for _, e := range entries {
		name, isMessage := strings.CutSuffix(e.Name(), ".json")
		parts := strings.SplitN(name, "-", 3)
		if !isMessage || strings.HasPrefix(name, ".") || len(parts) != 3 {
			continue
		}
		nanos, err := strconv.ParseInt(parts[0], 10, 64)
		if err != nil {
			continue
		}
		all = append(all, Queued{Path: filepath.Join(o.Dir, e.Name()), Lane: parts[1], Key: parts[2], At: time.Unix(0, nanos)})
	}
	return all, nil
}

var errNoText = errors.New("no text")

// Load reads a waiting message; nil when it waits no more. What does not parse is moved aside and returned as *Corrupt.
func (o Outbox) Load(path string) (*Outgoing, error) {
	b, err := os.ReadFile(path)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read message: %w", err)
	}
	m := &Outgoing{}
	if err = json.Unmarshal(b, m); err == nil && len(m.Parts) == 0 {
		err = errNoText
	}
	if err != nil {
		return nil, setAside(path, err)
	}
	m.Path = path
	m.PartsSent = min(max(m.PartsSent, 0), len(m.Parts))
	return m, nil
}

// Waiting are all messages to be sent, oldest first, and what did not parse.
func (o Outbox) Waiting() (ms []*Outgoing, bad []error) {
	all, err := o.queue()
	if err != nil {
		return nil, []error{err}
	}
	for _, q := range all {
		m, err := o.Load(q.Path)
		if err != nil {
			bad = append(bad, err)
		} else if m != nil {
			ms = append(ms, m)
		}
	}
	return ms, bad
}

// Empty says that no message waits.
func (o Outbox) Empty() bool {
	all, err := o.queue()
	return err == nil && len(all) == 0
}

// Merged names a message that went into another one.
type Merged struct {
	Key       string    `json:"key"`
	MessageID string    `json:"message_id"`
	CreatedAt time.Time `json:"created_at"`
	File      string    `json:"file"`
}

// Merge makes one message of m and those that wait behind it, with these texts. Killed at any line it is either not done,
// or Absorb ends it.
func (o Outbox) Merge(m *Outgoing, others []*Outgoing, parts []string) error {
	was := *m
	m.Parts, m.Merged = parts, slices.Clone(m.Merged)
	for _, other := range others {
		m.Merged = append(m.Merged, Merged{other.Key, other.MessageID, other.CreatedAt, filepath.Base(other.Path)})
	}
	if err := o.Rewrite(m); err != nil {
		*m = was
		return err
	}
	return o.Absorb(m)
}

// Absorb removes the messages that m holds the texts of. It must be done before m is sent.
func (o Outbox) Absorb(m *Outgoing) error {
	for _, other := range m.Merged {
		path := filepath.Join(o.Dir, filepath.Base(other.File))
		if _, err := os.Stat(path); missing(err) {
			continue
		}
		r := Receipt{MessageID: other.MessageID, CreatedAt: other.CreatedAt, Into: m.Key, IntoID: m.MessageID}
		if err := o.receive(other.Key, r); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil && !missing(err) {
			return err
		}
	}
	return nil
}

// deadAge is how long a message that cannot be sent is kept.
const deadAge = 30 * 24 * time.Hour

func (o Outbox) deadDir() string { return filepath.Join(o.Dir, "dead") }

// Park puts a message aside that Chat will never take as it is, with the reason.
func (o Outbox) Park(m *Outgoing, why string) error {
	if err := o.Absorb(m); err != nil {
		return err
	}
	m.LastError = why
	if err := mkdir(o.deadDir()); err != nil {
		return err
	}
	if err := o.Rewrite(m); err != nil {
		return err
	}
	o.NotTried(m)
	return os.Rename(m.Path, filepath.Join(o.deadDir(), filepath.Base(m.Path)))
}

// Dead are the messages that were put aside, oldest first.
func (o Outbox) Dead() []*Outgoing {
	ms, _ := Outbox{Dir: o.deadDir()}.Waiting()
	return ms
}

// Revive puts dead messages back into the queue, after a person changed what they failed for. It returns how many.
func (o Outbox) Revive(now time.Time) (n int, err error) {
	for _, m := range o.Dead() {
		m.Tries, m.LastError, m.NotBefore = 0, "", now // else the old ones would be too old again
		if err := o.Rewrite(m); err != nil {
			return n, err
		}
		if err := os.Rename(m.Path, filepath.Join(o.Dir, filepath.Base(m.Path))); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// ForgetDead removes the messages that were put aside, and returns them.
func (o Outbox) ForgetDead() (gone []*Outgoing, err error) {
	for _, m := range o.Dead() {
		err := os.Remove(m.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was revived, or is too old
		}
		if err != nil {
			return gone, err
		}
		gone = append(gone, m)
	}
	return gone, nil
}

// Release lets go of what is held back for a digest.
func (o Outbox) Release(now time.Time) error {
	ms, _ := o.Waiting()
	for _, m := range ms {
		if m.Tries > 0 || !now.Before(m.NotBefore) {
			continue
		}
		lock, err := lockSoon(o.senderLock(m.Chat))
		if err != nil {
			return err
		}
		m.NotBefore = now
		err = o.Rewrite(m)
		lock.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
