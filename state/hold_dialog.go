package state

import "time"

const (
	// MaxKeyAge is how old a person's last key is at most, when something is asked, while
	// they are taken to sit there.
	MaxKeyAge = 2 * time.Minute
	// postTimeout is how long a hook hides a dialog whose message is not in its thread.
	postTimeout = 5 * time.Second
	// quietTime is how long no key came before a dialog is drawn: Claude Code takes a key
	// that is under way for the dialog's answer (2.1.332).
	quietTime = 2 * time.Second
)

// HoldConditions is what decides, beside the record, whether a hook may go on hiding a
// dialog.
type HoldConditions struct {
	HasAnswerer bool // a person may answer in Chat
	// how long it is hidden where no keys can be seen: background_wait
	WaitWithoutKeys time.Duration
	CanSeeKeys      bool // the keys of the session's terminals can be seen
	// when the last of them was typed, in whole seconds; zero for none
	LastKeyAt time.Time
}

// CanHoldDialog reports whether a hook may go on hiding the dialog of a question: only
// while it is in its thread, somebody may answer it there, and nobody is at the keyboard.
// until is when that has to be asked again; zero where time alone changes nothing.
func CanHoldDialog(q *Question, h HoldConditions, now time.Time) (canHold bool, until time.Time) {
	isTyping := h.CanSeeKeys && q.AskedAt.Sub(h.LastKeyAt) < MaxKeyAge
	if !h.HasAnswerer || q.HasUnreadNote || q.WantedInTerminalAt != nil || isTyping {
		return false, until
	}
	switch {
	case !q.IsMessageSent:
		until = q.AskedAt.Add(postTimeout)
	case h.CanSeeKeys:
		return true, until
	default:
		until = q.AskedAt.Add(h.WaitWithoutKeys)
	}
	return now.Before(until), until
}

// EarliestDialogTime is when a dialog may be drawn: no key came for a while then.
func EarliestDialogTime(q *Question, h HoldConditions) (earliest time.Time) {
	if h.CanSeeKeys && !h.LastKeyAt.IsZero() {
		earliest = h.LastKeyAt.Add(time.Second + quietTime) // within the second that is told
	}
	if q.WantedInTerminalAt != nil && q.WantedInTerminalAt.Add(quietTime).After(earliest) {
		earliest = q.WantedInTerminalAt.Add(quietTime)
	}
	return earliest
}

// HandOver leaves a hidden dialog to the terminal, within a write of the record. It
// changes nothing where a reply was faster, or nothing is hidden.
func (q *Question) HandOver(now time.Time) {
	if !q.IsDialogDrawn() && q.Status == Pending {
		q.HandedOverAt = new(now.UTC())
		q.OweNote(NoteHandedOver, "")
	}
}

// MarkWantedInTerminal notes that a person wants a hidden dialog in the terminal, within
// a write of the record. It changes nothing where that is known, or nothing is hidden.
func (q *Question) MarkWantedInTerminal(now time.Time) {
	if !q.IsDialogDrawn() && q.Status == Pending && q.WantedInTerminalAt == nil {
		q.WantedInTerminalAt = new(now.UTC())
	}
}

// IsDialogDrawn reports whether the question's dialog stands in the terminal while the
// question is open, as far as its hook decides that.
func (q *Question) IsDialogDrawn() bool { return !q.IsDialogHidden || q.HandedOverAt != nil }

// EndsIndependently reports whether nothing ends the question but its own hook, its
// agent's events and the end of Claude Code. The dialogs and prompts of the session say
// nothing of it.
//
// A form does not say who asks (2.1.197 and 2.1.332): it may be an agent in the
// background.
func (q *Question) EndsIndependently() bool {
	return q.IsDialogHidden && (q.AgentID != "" || q.Kind.Traits().AsksForValues)
}
