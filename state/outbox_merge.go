package state

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

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
