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
	"time"
)

// Outgoing is a message on its way to a space: file outbox/{unix_nano}-{lane}-{key}.json in the user state. It is on disk
// before it is sent and until Chat has it.
type Outgoing struct {
	MessageID  string    `json:"message_id"` // client-…: the same on every try, so that Chat keeps one
	Key        string    `json:"key"`        // what is put again under the same key is the same message; "" is MessageID
	Chat       string    `json:"chat"`       // host/spaces/S: another environment's webhook must not send it elsewhere; "" before a command was asked for the webhook
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

// rename replaces a waiting message's file while nobody looks for what was put before: where a file system gives a renamed
// file a new place in its folder (tmpfs and btrfs do), who reads the folder meanwhile can find neither the old nor the new.
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
