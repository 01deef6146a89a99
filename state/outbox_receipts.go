package state

import (
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"
)

// Receipt is what is remembered, for a day, of a message that left the outbox: so that it is not put again, and for the
// process that waits for it. It is found by the message's key; a later message of the same key has it overwritten.
type Receipt struct {
	MessageID  string    `json:"message_id"`
	CreatedAt  time.Time `json:"created_at"`
	Into       string    `json:"into,omitempty"`    // it was merged into the message of that key, which may still wait,
	IntoID     string    `json:"into_id,omitempty"` // and that id
	Name       string    `json:"name,omitempty"`    // spaces/S/messages/M, where Chat said it
	ThreadName string    `json:"thread_name,omitempty"`
	ThreadKey  string    `json:"thread_key,omitempty"`
	Sent       bool      `json:"sent,omitempty"`
}

// Receipt is the receipt of a key, if its message left the outbox.
func (o Outbox) Receipt(key string) (Receipt, bool) {
	var r Receipt
	b, err := os.ReadFile(o.receiptPath(key))
	if err != nil || json.Unmarshal(b, &r) != nil {
		return Receipt{}, false
	}
	return r, true
}

// Arrived is the receipt of a message that Chat has, also inside another one. id is its MessageID; "" takes the last
// message under the key.
func (o Outbox) Arrived(key, id string) (r Receipt, ok bool) {
	for range 4 {
		if r, ok = o.Receipt(key); !ok || id != "" && r.MessageID != id {
			return Receipt{}, false
		}
		if r.Sent {
			return r, true
		}
		key, id = r.Into, r.IntoID
	}
	return Receipt{}, false
}

// Known are the messages of the last day that are known to be ours, as Chat names them, and the threads that they are in
// by their keys.
func (o Outbox) Known() (names map[string]bool, threads map[string]string) {
	names, threads = map[string]bool{}, map[string]string{}
	for r := range o.receipts() {
		if r.Name != "" {
			names[r.Name] = true
		}
		if r.ThreadKey != "" && r.ThreadName != "" {
			threads[r.ThreadKey] = r.ThreadName
		}
	}
	return names, threads
}

// LastIn is when the last message of ours was put that is in a thread, this machine's clock; zero when none of the last day
// is.
func (o Outbox) LastIn(threadName string) (last time.Time) {
	for r := range o.receipts() {
		if r.ThreadName == threadName && r.CreatedAt.After(last) {
			last = r.CreatedAt
		}
	}
	return last
}

// receipts are those of the last day, in no order.
func (o Outbox) receipts() iter.Seq[Receipt] {
	return func(yield func(Receipt) bool) {
		for _, f := range jsonFiles(filepath.Join(o.Dir, ".sent")) {
			var r Receipt
			if b, err := os.ReadFile(f); err == nil && json.Unmarshal(b, &r) == nil && !yield(r) {
				return
			}
		}
	}
}

// Sent takes a message out that Chat has. The receipt comes first: at every moment one of the two is there.
func (o Outbox) Sent(m *Outgoing, r Receipt) error {
	r.MessageID, r.CreatedAt, r.ThreadKey, r.Sent = m.MessageID, m.CreatedAt, m.ThreadKey, true
	if err := o.receive(m.Key, r); err != nil {
		return err
	}
	return o.remove(m)
}

func (o Outbox) remove(m *Outgoing) error {
	if err := os.Remove(m.Path); err != nil && !missing(err) {
		return err
	}
	o.NotTried(m)
	return nil
}

// Settle removes a message whose sender was killed between its receipt and this. It reports whether it was one.
func (o Outbox) Settle(m *Outgoing) (bool, error) {
	if r, ok := o.Receipt(m.Key); !ok || !r.Sent || r.MessageID != m.MessageID {
		return false, nil
	}
	return true, o.remove(m)
}

func (o Outbox) receive(key string, r Receipt) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return replaceFile(o.receiptPath(key), b)
}

func (o Outbox) receiptPath(key string) string {
	return filepath.Join(o.Dir, ".sent", safeName(key)+".json")
}

// Try notes that a message is about to be sent, and reports whether for the first time: should the process be killed now,
// the next one knows that it may have arrived. It is not synced: after a power cut Chat's own memory of the message id
// has to do.
func (o Outbox) Try(m *Outgoing) (first bool, err error) {
	path := o.tryPath(m)
	create := func() error {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	}
	if err = create(); missing(err) {
		if err = mkdir(filepath.Dir(path)); err == nil {
			err = create()
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return true, err
}

// Tried is when a message was first about to be sent; zero when never.
func (o Outbox) Tried(m *Outgoing) time.Time {
	info, err := os.Stat(o.tryPath(m))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// NotTried notes that no try arrived.
func (o Outbox) NotTried(m *Outgoing) { os.Remove(o.tryPath(m)) }

func (o Outbox) tryPath(m *Outgoing) string {
	return filepath.Join(o.Dir, ".tried", filepath.Base(m.Path))
}

// Sweep forgets the receipts of the days before the last, and what only they needed.
func (o Outbox) Sweep(now time.Time) {
	for _, dir := range []string{".sent", ".tried"} {
		entries, _ := os.ReadDir(filepath.Join(o.Dir, dir))
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || now.Sub(info.ModTime()) <= MaxAge {
				continue
			}
			if _, err := os.Stat(filepath.Join(o.Dir, e.Name())); missing(err) {
				os.Remove(filepath.Join(o.Dir, dir, e.Name()))
			}
		}
	}
	removeOld(o.Dir, ".new-", MaxAge, now) // of processes that were killed while they wrote
	removeOld(o.deadDir(), "", deadAge, now)
}
