package state

import "time"

const (
	// MaxKeyAge is how long after a person's last key they are taken to sit at the
	// terminal when something is asked.
	MaxKeyAge = 2 * time.Minute
	// postTimeout is how long a hook hides a dialog while its message is not in Chat yet.
	postTimeout = 5 * time.Second
	// quietTime is how long no key may have come before a dialog is drawn: Claude Code
	// takes a key that was typed just before as the dialog's answer (2.1.332).
	quietTime = 2 * time.Second
)

// HoldConditions is what decides, together with the record, whether a hook may keep a
// dialog hidden.
type HoldConditions struct {
	HasAnswerer bool // a person may answer in Chat
	// how long to hide it where no keys can be seen: the setting background_wait
	WaitWithoutKeys time.Duration
	CanSeeKeys      bool // the keys of the session's terminals can be seen
	// when the last key was typed, in whole seconds; zero for none
	LastKeyAt time.Time
}

// CanHoldDialog reports whether a hook may keep the dialog of a question hidden: the
// question has to be in its thread, somebody has to be able to answer it there, and
// nobody may be at the keyboard. until is when to ask again; zero where time alone
// changes nothing.
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

// EarliestDialogTime returns the earliest time at which a dialog may be drawn, so that no
// key that was just typed answers it.
func EarliestDialogTime(q *Question, h HoldConditions) (earliest time.Time) {
	if h.CanSeeKeys && !h.LastKeyAt.IsZero() {
		// LastKeyAt is cut to the second
		earliest = h.LastKeyAt.Add(time.Second + quietTime)
	}
	if q.WantedInTerminalAt != nil && q.WantedInTerminalAt.Add(quietTime).After(earliest) {
		earliest = q.WantedInTerminalAt.Add(quietTime)
	}
	return earliest
}

// HandOver leaves a hidden dialog to the terminal; call it within an update of the
// record. It changes nothing where a reply was faster or nothing is hidden.
func (q *Question) HandOver(now time.Time) {
	if !q.IsDialogDrawn() && q.Status == Pending {
		q.HandedOverAt = new(now.UTC())
		q.OweNote(NoteHandedOver, "")
	}
}

// LeaveToTerminal marks a new question as one that only the terminal can answer, since a
// check found that this version of Claude Code takes no answer to it from a hook. The
// question's message says so, and names the version unless it is "".
func (q *Question) LeaveToTerminal(claudeVersion string) {
	q.UnsupportedClaude, q.HandedOverAt = claudeVersion, new(q.AskedAt)
}

// MarkWantedInTerminal records that a person wants a hidden dialog in the terminal; call
// it within an update of the record. It changes nothing where that is recorded already or
// nothing is hidden.
func (q *Question) MarkWantedInTerminal(now time.Time) {
	if !q.IsDialogDrawn() && q.Status == Pending && q.WantedInTerminalAt == nil {
		q.WantedInTerminalAt = new(now.UTC())
	}
}

// IsDialogDrawn reports whether the terminal shows the dialog of an open question, as far
// as its hook decides that.
func (q *Question) IsDialogDrawn() bool { return !q.IsDialogHidden || q.HandedOverAt != nil }

// EndsIndependently reports whether only the question's own hook, its agent's events or
// the end of Claude Code can end it. Other dialogs and prompts of the session say nothing
// about it.
//
// A form does not say who asks (2.1.197 and 2.1.332): it may be an agent in the
// background.
func (q *Question) EndsIndependently() bool {
	return q.IsDialogHidden && (q.AgentID != "" || q.Kind.Traits().AsksForValues)
}
