package state

import "time"

const (
	// KeyAge is how old a person's last key is at most, when something is asked, while they
	// are taken to sit there.
	KeyAge = 2 * time.Minute
	// postedWithin is how long a hook hides a dialog whose message is not in its thread.
	postedWithin = 5 * time.Second
	// quietFor is how long no key came before a dialog is drawn: Claude Code takes a key
	// that is under way for the dialog's answer (2.1.332).
	quietFor = 2 * time.Second
)

// Holding is what decides, beside the record, whether a hook may go on hiding a dialog.
type Holding struct {
	Someone bool          // a person may answer in Chat
	Unseen  time.Duration // how long it is hidden where no keys can be seen: background_wait
	Keys    bool          // the keys of the session's terminals can be seen
	Typed   time.Time     // when the last of them was typed, in whole seconds; zero for none
}

// MayHold reports whether a hook may go on hiding the dialog of a question: only while it is
// in its thread, somebody may answer it there, and nobody is at the keyboard. until is when
// that has to be asked again; zero where time alone changes nothing.
func MayHold(q *Question, h Holding, now time.Time) (hold bool, until time.Time) {
	isTyping := h.Keys && q.AskedAt.Sub(h.Typed) < KeyAge
	if !h.Someone || q.ToldUnread || q.WantedAt != nil || isTyping {
		return false, until
	}
	switch {
	case !q.MessageSent:
		until = q.AskedAt.Add(postedWithin)
	case h.Keys:
		return true, until
	default:
		until = q.AskedAt.Add(h.Unseen)
	}
	return now.Before(until), until
}

// QuietFrom is when a dialog may be drawn: no key came for a while then.
func QuietFrom(q *Question, h Holding) (from time.Time) {
	if h.Keys && !h.Typed.IsZero() {
		from = h.Typed.Add(time.Second + quietFor) // within the second that is told
	}
	if q.WantedAt != nil && q.WantedAt.Add(quietFor).After(from) {
		from = q.WantedAt.Add(quietFor)
	}
	return from
}

// HandOver leaves a hidden dialog to the terminal, within a write of the record. It changes
// nothing where a reply was faster, or nothing is hidden.
func (q *Question) HandOver(now time.Time) {
	if !q.Drawn() && q.Status == Pending {
		q.HandedOver = new(now.UTC())
		q.Owe(NoteHandedOver, "")
	}
}

// WantInTerminal notes that a person wants a hidden dialog in the terminal, within a write of
// the record. It changes nothing where that is known, or nothing is hidden.
func (q *Question) WantInTerminal(now time.Time) {
	if !q.Drawn() && q.Status == Pending && q.WantedAt == nil {
		q.WantedAt = new(now.UTC())
	}
}

// Drawn reports whether the question's dialog stands in the terminal while the question is
// open, as far as its hook decides that.
func (q *Question) Drawn() bool { return !q.Hidden || q.HandedOver != nil }

// EndsApart reports whether nothing ends the question but its own hook, its agent's events
// and the end of Claude Code. The dialogs and prompts of the session say nothing of it.
//
// A form does not say who asks (2.1.197 and 2.1.332): it may be an agent in the background.
func (q *Question) EndsApart() bool { return q.Hidden && (q.AgentID != "" || q.Kind.Row().Values) }
