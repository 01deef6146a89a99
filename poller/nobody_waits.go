package poller

import (
	"context"
	"time"

	"gchat-hooks/state"
)

// graceForWaiter is how long after its asking a question may be without a waiter: its hook is just starting.
const graceForWaiter = 2 * time.Second

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

// unheard says whether a reply to a question whose dialog is open reaches nobody: its hook was killed, and its thread does not
// know.
func (p *Poller) unheard(q *state.Question) bool {
	return q.Status == state.Pending && (q.Mode == state.Native || q.Mode == state.Hold) && !q.Unwaited && !p.waitsOrSoon(q) && !Gone(q)
}

// tellUnheard tells who replied so, once.
func (p *Poller) tellUnheard(q *state.Question) error {
	_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if !p.unheard(q) {
			return state.ErrUnchanged
		}
		q.Unwaited = true
		p.put(note(q, "gave up", unwaitedText(q))) // a hook that ends by itself says the same
		return nil
	})
	return err
}

// tellRead takes back what a thread was told while nobody waited for a reply.
func (p *Poller) tellRead(ctx context.Context, q *state.Question) {
	if !q.Unwaited {
		return
	}
	p.put(note(q, "waited", "Replies to this question are read now."))
	p.Send(ctx)
}

// tellKept tells who replied to a question in deny mode that nobody waits for when it is read: whoever reads the space does
// not judge it, since only the session's own processes know for sure who may answer.
func (p *Poller) tellKept(q *state.Question) {
	if q.SessionEnded != nil || Gone(q) {
		p.put(note(q, "kept for later", "[Kept] The session has ended: it reads your reply when it is resumed."))
		return
	}
	p.put(note(q, "kept", "[Kept] Claude reads your reply with its next step."))
}
