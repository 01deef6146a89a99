package state

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// IncomingStatus is how far the program is with what a person wrote.
type IncomingStatus string

const (
	IncomingNew    IncomingStatus = "new"    // it is not decided what it is
	IncomingRouted IncomingStatus = "routed" // it is for the session that it names
	// IncomingDoing says that the program began to do what it asks for. That is not repeated.
	IncomingDoing IncomingStatus = "doing"
	IncomingDone  IncomingStatus = "done"
)

// Outcome is what an incoming message turned out to be.
type Outcome string

const (
	OutcomeReply   Outcome = "reply"   // it stands in a question
	OutcomeWords   Outcome = "words"   // for Claude
	OutcomeCommand Outcome = "command" // of ours
	OutcomeNobody  Outcome = "nobody"  // nothing took it; its thread was told, where it is ours
	OutcomeRevoked Outcome = "revoked" // its sender took it back
)

// Incoming is something that a person wrote or tapped, once: file inbox/{id}.json in the
// user's state. When it is done, its words go, and what is left is a tombstone in
// inbox/done: the same message is known by it when it is read again.
type Incoming struct {
	Record
	ID          string         `json:"incoming_id"` // see IncomingID
	Chat        string         `json:"chat"`        // host/spaces/S
	MessageName string         `json:"message_name"`
	ThreadName  string         `json:"thread_name,omitempty"` // spaces/S/threads/T
	Quotes      string         `json:"quotes,omitempty"`      // the message that it quotes
	Follows     string         `json:"follows,omitempty"`     // the message that its thread begins with
	ClientID    string         `json:"client_id,omitempty"`   // of a tapped card: see MessageID
	Sender      string         `json:"sender,omitempty"`      // users/ID
	SenderEmail string         `json:"sender_email,omitempty"`
	DisplayName string         `json:"display_name,omitempty"`
	Text        string         `json:"text,omitempty"`
	Attached    bool           `json:"attached,omitempty"` // a file or a picture came with it
	Tap         *IncomingTap   `json:"tap,omitempty"`      // nil of a message
	Event       string         `json:"event,omitempty"`    // Pub/Sub's id of the event; "" of what was listed
	CreatedAt   time.Time      `json:"created_at"`         // the server's clock
	SaidAt      time.Time      `json:"said_at"`            // the same by this machine's clock
	ReadAt      time.Time      `json:"read_at"`            // this machine's clock
	Status      IncomingStatus `json:"status"`
	SessionID   string         `json:"session_id,omitempty"` // Claude Code's, of the session that it is for
	Outcome     Outcome        `json:"outcome,omitempty"`
	EndedAt     time.Time      `json:"ended_at,omitzero"`
}

// IncomingTap is what a card tells of a tap on it.
type IncomingTap struct {
	Question string              `json:"question"` // what the card carries for its question: see CardID
	Choice   string              `json:"choice"`   // which button it was
	Inputs   map[string][]string `json:"inputs,omitempty"`
	Stands   bool                `json:"stands,omitempty"` // the card had that button when Chat told of the tap
}

// IncomingID is the id of a message that was written in a chat, host/spaces/S. A tap has no
// message of its own: parts say who tapped what, and when.
func IncomingID(chat, message string, parts ...string) string {
	return Hash(16, strings.Join(append([]string{chat, message}, parts...), "\x00"))
}

// IsTap says whether it is a tap on a card.
func (in *Incoming) IsTap() bool { return in.Tap != nil }

// IsCommand says whether it looks like a command: of ours, or of Claude Code's.
func (in *Incoming) IsCommand() bool { return strings.HasPrefix(strings.TrimSpace(in.Text), "/") }

// ReplyName names the reply that it becomes in a question.
func (in *Incoming) ReplyName() string {
	if in.IsTap() {
		return "tap/" + cmp.Or(in.Event, in.ID)
	}
	return in.MessageName
}

// Reply is the reply that it becomes in a question.
func (in *Incoming) Reply() Reply {
	r := Reply{
		MessageName: in.ReplyName(), Sender: in.Sender, SenderEmail: in.SenderEmail,
		DisplayName: in.DisplayName, Text: in.Text, Attached: in.Attached, CreateTime: in.CreatedAt,
	}
	if in.IsTap() {
		r.Choice, r.Inputs = in.Tap.Choice, in.Tap.Inputs
	}
	return r
}

func (in *Incoming) check(time.Time) error {
	if in.ID == "" || in.Status == "" {
		return errors.New("incoming_id or status is missing")
	}
	return nil
}

const (
	// IncomingKept is how long a tombstone is kept after its message was written. What is
	// older than MaxAge when it is read is never used.
	IncomingKept = 48 * time.Hour
	// MostUndecided is how many messages of a space may be undecided, and MostOfStranger how
	// many of one sender who may not answer.
	MostUndecided  = 1000
	MostOfStranger = 20
)

// ErrInboxFull says that too much of a space, or of a stranger, is undecided.
var ErrInboxFull = errors.New("too many messages are undecided: the rest is read later")

// Inbox is the folder of incoming messages. No other place knows which messages were read.
// Update and Load of one that is done are fs.ErrNotExist.
type Inbox struct {
	Folder[Incoming]
	done Folder[Incoming]
}

// InboxIn is the inbox of a user state folder.
func InboxIn(userState string) Inbox {
	dir := filepath.Join(userState, "inbox")
	return Inbox{
		Folder: Folder[Incoming]{Dir: dir},
		done:   Folder[Incoming]{Dir: filepath.Join(dir, "done")},
	}
}

// Take writes an incoming message down, unless it was written down before. Then it returns
// that record, or its tombstone. isStranger says that its sender may not answer. An error
// means that nothing was written.
func (b Inbox) Take(in *Incoming, isStranger bool) (known *Incoming, err error) {
	lock, err := LockSoon(b.lockPath("take"))
	if err != nil {
		return nil, fmt.Errorf("take message: %w", err)
	}
	defer lock.Unlock()
	for _, folder := range []Folder[Incoming]{b.Folder, b.done} {
		known, err := folder.Load(in.ID)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return known, err
		}
	}
	names, err := b.Names()
	if err != nil {
		return nil, err
	}
	mayBeFull := isStranger && len(names) >= MostOfStranger || len(names) >= MostUndecided
	if mayBeFull && b.isFull(in, isStranger) {
		return nil, ErrInboxFull
	}
	return nil, b.Create(in.ID, in)
}

func (b Inbox) isFull(in *Incoming, isStranger bool) bool {
	all, _ := b.All()
	ofSpace, ofSender := 0, 0
	for _, other := range all {
		if other.Chat != in.Chat {
			continue
		}
		ofSpace++
		if other.Sender == in.Sender {
			ofSender++
		}
	}
	return ofSpace >= MostUndecided || isStranger && ofSender >= MostOfStranger
}

// Finish leaves of an incoming message its tombstone.
func (b Inbox) Finish(in *Incoming, outcome Outcome, now time.Time) error {
	grave := *in
	grave.raw = nil // else what is emptied comes back
	grave.Text, grave.Tap, grave.DisplayName, grave.SenderEmail = "", nil, "", ""
	grave.Status, grave.Outcome, grave.EndedAt = IncomingDone, outcome, now.UTC()
	lock, err := LockSoon(b.lockPath("take")) // Take finds the one or the other
	if err != nil {
		return fmt.Errorf("finish message: %w", err)
	}
	defer lock.Unlock()
	// A power cut may take it: what it was used for says so, too.
	err = quick.write(b.done.path(in.ID), encode(&grave, nil), true)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("finish message: %w", err)
	}
	return b.Remove(in.ID)
}

// DropDone takes a message away that has its tombstone already: a process was killed in
// Finish. It reports whether that was so.
func (b Inbox) DropDone(id string) (wasDone bool) {
	if !exists(b.done.path(id)) {
		return false
	}
	_ = b.Remove(id)
	return true
}

// Revive has Take take a message once more that nothing took.
func (b Inbox) Revive(id string) (wasUntaken bool, err error) {
	grave, err := b.done.Load(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil || grave.Outcome != OutcomeNobody:
		return false, err
	}
	return true, b.done.Remove(id)
}

// Sweep removes old tombstones, and ends what nobody decided or did for as long as those are
// kept.
func (b Inbox) Sweep(now time.Time) {
	left, _ := b.All()
	for _, in := range left {
		if now.Sub(in.SaidAt) > IncomingKept && now.Sub(in.ReadAt) > IncomingKept {
			_ = b.Finish(in, OutcomeNobody, now)
		}
	}
	graves, _ := b.done.All()
	for _, grave := range graves {
		if now.Sub(grave.SaidAt) > IncomingKept && now.Sub(grave.EndedAt) > time.Hour {
			_ = b.done.Remove(grave.ID)
		}
	}
	SweepTemporary(b.Dir)
	SweepTemporary(b.done.Dir)
}
