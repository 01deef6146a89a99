package state

import (
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

// Outgoing is a message on its way to a space: file outbox/{unix_nano}-{message_id}.json in the user state. It is on
// disk before it is sent and until Chat has it.
type Outgoing struct {
	MessageID  string    `json:"message_id"` // client-…: the same on every try, so that Chat keeps one
	Chat       string    `json:"chat"`       // host/spaces/S: another environment's webhook must not send it elsewhere
	ThreadName string    `json:"thread_name,omitempty"`
	ThreadKey  string    `json:"thread_key,omitempty"`
	Text       string    `json:"text"`
	ProjectDir string    `json:"project_dir"` // whose configuration knows the webhook
	CreatedAt  time.Time `json:"created_at"`
	Tries      int       `json:"tries,omitempty"`
	NotBefore  time.Time `json:"not_before,omitzero"`
	LastError  string    `json:"last_error,omitempty"`

	Path string `json:"-"`
}

// Outbox is the folder of outgoing messages.
type Outbox struct{ Dir string }

// OutboxIn is the outbox of a user state folder.
func OutboxIn(userState string) Outbox { return Outbox{Dir: filepath.Join(userState, "outbox")} }

// Put writes a message down to be sent. A message id that waits there already, or was sent within a day, is not
// written again.
func (o Outbox) Put(m *Outgoing) error {
	if err := mkdir(o.sentDir()); err != nil {
		return err
	}
	l, err := lockSoon(filepath.Join(o.Dir, ".put"))
	if err != nil {
		return err
	}
	defer l.Unlock()
	name := safeName(m.MessageID)
	if _, err := os.Stat(filepath.Join(o.sentDir(), name)); err == nil {
		return nil
	}
	waiting, err := filepath.Glob(filepath.Join(o.Dir, "*-"+name+".json"))
	if err != nil || len(waiting) > 0 {
		return err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return createFile(filepath.Join(o.Dir, fmt.Sprintf("%019d-%s.json", m.CreatedAt.UnixNano(), name)), append(b, '\n'))
}

// Waiting are the messages to be sent, oldest first. What does not parse is moved aside and returned in bad.
func (o Outbox) Waiting() (ms []*Outgoing, bad []error) {
	entries, err := os.ReadDir(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, []error{fmt.Errorf("read outbox: %w", err)}
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(o.Dir, e.Name())
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		m := &Outgoing{}
		if err == nil {
			err = json.Unmarshal(b, m)
		}
		if err != nil {
			bad = append(bad, setAside(path, err))
			continue
		}
		m.Path = path
		ms = append(ms, m)
	}
	slices.SortStableFunc(ms, func(a, b *Outgoing) int { return strings.Compare(filepath.Base(a.Path), filepath.Base(b.Path)) })
	return ms, bad
}

// Sent takes a message out, and remembers its id for a day so that the same note is not put again.
func (o Outbox) Sent(m *Outgoing) error {
	if err := mkdir(o.sentDir()); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.sentDir(), safeName(m.MessageID)), nil, 0o600); err != nil {
		return err
	}
	return os.Remove(m.Path)
}

// Failed writes down that a try did not work and when the next may come.
func (o Outbox) Failed(m *Outgoing, why string, next time.Time) error {
	m.Tries, m.LastError, m.NotBefore = m.Tries+1, why, next
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return writeFile(m.Path, append(b, '\n'))
}

// Sweep forgets the ids of messages that were sent before the last day.
func (o Outbox) Sweep(now time.Time) {
	entries, _ := os.ReadDir(o.sentDir())
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > MaxAge {
			os.Remove(filepath.Join(o.sentDir(), e.Name()))
		}
	}
}

// LockSender makes the caller the one process that sends from the outbox; ErrLocked when there is one.
func (o Outbox) LockSender() (*Lock, error) { return TryLock(filepath.Join(o.Dir, ".sender")) }

func (o Outbox) sentDir() string { return filepath.Join(o.Dir, ".sent") }

// Drop takes a message out that nobody needs any more.
func (o Outbox) Drop(m *Outgoing) error { return os.Remove(m.Path) }
