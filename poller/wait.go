package poller

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"time"

	"gchat-hooks/state"
)

// lookAround is how often a waiter sees whether Claude Code still lives, whether a reply was put there by hand, and, when
// it leads, whether another question was asked. Each look wakes an idle process, which costs more than the look.
const lookAround = 2 * time.Second

// ErrGaveUp says that the waiter stopped for its own reasons and the question is still open in the terminal.
var ErrGaveUp = errors.New("stopped waiting")

// Wait puts the question into its space and waits until it is answered or closed, whichever comes first. The caller
// holds the question's waiter lock. It returns the question as it then stands; ErrGaveUp when it waited long enough or
// posting is not configured, and ctx's error when it was told to end.
func (p *Poller) Wait(ctx context.Context, q *state.Question) (*state.Question, error) {
	path := q.Path
	end := func(to state.Status, by string) error {
		_, err := p.Close(path, to, by, nil)
		p.Send(ctx)
		return cmp.Or(err, errEnded)
	}
	q, err := p.watch(ctx, q, watching{
		begin: func(ctx context.Context) (cannot bool) {
			p.keepPosting(ctx, path)
			debug.FreeOSMemory() // a waiting hook should be small
			q, err := state.LoadQuestion(path)
			switch {
			case err != nil || ctx.Err() != nil:
			case posted(q):
				p.tellRead(ctx, q)
				p.Lead(ctx, q)
			default:
				return true
			}
			return false
		},
		over:  func(q *state.Question) bool { return q.Status != state.Pending },
		until: p.now().Add(state.HookTimeout - 30*time.Second), // Claude Code would kill the hook at the timeout itself
		each: func(q *state.Question) error {
			if Gone(q) {
				return end(state.Cancelled, "claude_gone")
			}
			if p.now().Sub(q.AskedAt) >= state.MaxAge {
				return end(state.Expired, "age")
			}
			return nil
		},
	})
	switch {
	case errors.Is(err, errEnded):
		return q, nil
	case errors.Is(err, errTimeUp):
		if q.MessageSent && !p.daemonWaits(q) {
			p.put(note(q, "gave up", "[Not read] No hook waits for a reply to this question any longer: "+
				"answer it in the terminal."))
		}
		return q, ErrGaveUp
	}
	return q, err
}

// look reads the question and judges what came in; passive, only where no other process does.
func (p *Poller) look(ctx context.Context, path string, passive bool) (*state.Question, error) {
	q, err := state.LoadQuestion(path)
	if err != nil {
		return nil, err
	}
	if !q.Unread() || passive && state.HasWaiter(q) {
		return q, nil
	}
	if q, err = p.Judge(path); err == nil {
		p.goSafely("send", func() { p.Send(ctx) })
	}
	return q, err
}
