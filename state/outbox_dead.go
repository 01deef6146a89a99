package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

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

// ForgetDead removes the messages that were put aside, and returns those: a person knows them, and that Chat will not have
// them.
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

func removeOld(dir, prefix string, now time.Time) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), prefix) && now.Sub(info.ModTime()) > MaxAge {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
