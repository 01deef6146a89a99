package poller

import (
	"context"
	"time"

	"gchat-hooks/state"
)

// NobodyWaits tells the thread of a question in deny mode, once, that nothing reads the replies to it, unless something does;
// the caller has the outbox sent.
func (p *Poller) NobodyWaits(q *state.Question) error {
	if !q.Denied || q.Unwaited || q.Status != state.Pending || p.now().Sub(q.AskedAt) < graceForHook {
		return nil
	}
	if state.HasWaiter(q) || state.DaemonRuns(stateDirOf(q), p.user()) {
		return nil
	}
	_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if q.Unwaited || q.Status != state.Pending {
			return state.ErrUnchanged
		}
		q.Unwaited = true
		p.put(note(q, "unwaited", "[Not read] Nothing reads the replies to this question at present. "+
			"Claude can wait for one with `gchat-wait`, or give it the answer in the terminal."))
		return nil
	})
	return err
}

// unheard says whether a reply to a posted question is read by no process, and its thread does not know: its hook was killed, or
// none came.
func (p *Poller) unheard(q *state.Question) bool {
	return q.MessageSent && q.Status == state.Pending && q.Mode != state.Deny && !q.Unwaited && !p.waitsOrSoon(q) && !Gone(q)
}

// tellUnheard tells the thread of such a question so, once graceForReply has passed. It returns when to come again.
func (p *Poller) tellUnheard(q *state.Question) (again time.Time) {
	if at := q.AskedAt.Add(graceForReply); p.now().Before(at) {
		return sooner(at, p.now().Add(lookAround)) // a hook may come
	}
	if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if !p.unheard(q) {
			return state.ErrUnchanged
		}
		q.Unwaited = true
		p.put(note(q, "gave up", unwaitedText(q))) // a hook that ends by itself says the same
		return nil
	}); err != nil {
		p.Log.Error().Err(err).Str("question", q.QuestionID).Msg("thread not told that nobody waits")
	}
	return p.now().Add(time.Second)
}

// tellRead takes back what a thread was told while no process waited for a reply.
func (p *Poller) tellRead(ctx context.Context, q *state.Question) {
	if !q.Unwaited {
		return
	}
	p.put(note(q, "waited", "Replies to this question are read now."))
	p.Send(ctx)
}

// tellKept tells who replied to a question in deny mode without a waiter when the reply is read: the space's reader does not
// judge it, since only the session's own processes know for sure who may answer.
func (p *Poller) tellKept(q *state.Question) {
	if q.SessionEnded != nil || Gone(q) {
		p.put(note(q, "kept for later", "[Kept] The session has ended: it reads your reply when it is resumed."))
		return
	}
	p.put(note(q, "kept", "[Kept] Claude reads your reply with its next step."))
}
