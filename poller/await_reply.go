package poller

import (
	"context"
	"errors"
	"time"

	"gchat-hooks/state"
)

// ErrNoReply says that the time for a reply is up.
var ErrNoReply = errors.New("nobody replied in time")

// Await waits until somebody replied to a question whose dialog is nowhere (deny mode), or until it was closed, and returns
// it as it then stands. Held says that the caller has the question's waiter lock: then one that was timed out before is
// waited for again. Errors are ErrNoReply at that time, ErrGaveUp when over (nil for never) ends it or its file is gone,
// and ctx's.
func (p *Poller) Await(ctx context.Context, q *state.Question, until time.Time, held bool, over func(*state.Question) bool) (*state.Question, error) {
	q, err := p.watch(ctx, q, watching{
		begin: func(ctx context.Context) bool {
			p.Lead(ctx, q)
			return false
		},
		over: func(q *state.Question) bool {
			return q.Status != state.Pending && (q.Status != state.TimedOut || !held) || over != nil && over(q)
		},
		until: until,
		each: func(q *state.Question) error {
			if over != nil && over(q) {
				return ErrGaveUp
			}
			return nil
		},
	})
	switch {
	case errors.Is(err, errTimeUp):
		return q, ErrNoReply
	case err == nil && (q.Status == state.Pending || q.Status == state.TimedOut && held):
		return q, ErrGaveUp
	}
	return q, err
}

// awaited says whether a reply to a question is of use, so that its space has to be read.
func awaited(q *state.Question) bool {
	return q.MessageSent && (q.Status == state.Pending || q.Status == state.TimedOut && state.HasWaiter(q))
}

// answerable says whether a reply may still become the question's answer. A reply that came too late does, as long as
// nothing else was chosen: it reaches Claude with its next step.
func answerable(q *state.Question) bool {
	return q.Status == state.Pending || q.Status == state.TimedOut && len(q.Answers) == 0 && !q.AskedAgain
}

// unattended says whether nobody but the reader of the space judges the replies to a question.
func unattended(q *state.Question) bool {
	return q.Closed() || q.Mode == state.Deny && !state.HasWaiter(q)
}

// keptText tells who replied to a question in deny mode that nobody waits for when Claude gets it.
func keptText(q *state.Question) string {
	if q.SessionEnded != nil || Gone(q) {
		return "[Kept] The session has ended: it gets your reply when it is resumed."
	}
	return "[Kept] Claude gets your reply with its next step."
}
