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
			p.tellRead(ctx, q)
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

// tellRead takes back what a thread was told while nobody waited for a reply.
func (p *Poller) tellRead(ctx context.Context, q *state.Question) {
	if !q.Unwaited {
		return
	}
	p.put(note(q, "waited", "Replies to this question are read now."))
	p.Send(ctx)
}

// NobodyWaits tells the thread of a question in deny mode, once, that nothing reads the replies to it, unless something does;
// the caller has the outbox sent.
func (p *Poller) NobodyWaits(q *state.Question) error {
	if !q.Denied || q.Unwaited || q.Status != state.Pending || p.now().Sub(q.AskedAt) < graceForWaiter || state.HasWaiter(q) || state.DaemonRuns(stateDirOf(q), p.user()) {
		return nil
	}
	_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if q.Unwaited || q.Status != state.Pending {
			return state.ErrUnchanged
		}
		q.Unwaited = true
		p.put(note(q, "unwaited", "[Not read] Nothing reads the replies to this question at present. Claude can wait for one with `gchat-wait`, or give it the answer in the terminal."))
		return nil
	})
	return err
}

// graceForWaiter is how long after its asking a question may be without a waiter: its hook is just starting.
const graceForWaiter = 2 * time.Second

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
