package poller

import (
	"context"
	"errors"
	"os"
	"time"

	"gchat-hooks/state"
)

// watching is how one process waits for what becomes of a question.
type watching struct {
	begin func(context.Context) (cannot bool) // beside the watching: posting, reading; cannot ends it
	over  func(*state.Question) bool          // what is waited for
	until time.Time                           // this machine's clock
	// passive leaves judging the replies to the process that has the waiter lock: it knows who may answer.
	passive bool
	each    func(*state.Question) error // every lookAround; an error ends the watching and is returned
}

var (
	errTimeUp = errors.New("the time is up, or there is no way to get a reply")
	// errEnded says that each closed the question.
	errEnded = errors.New("the question was closed")
)

// watch follows a question's file, judging what comes in, until w says that it is over. It returns the question as it then
// stands; ErrGaveUp when its file is gone or broken, errTimeUp, ctx's error, or that of each.
func (p *Poller) watch(ctx context.Context, q *state.Question, w watching) (*state.Question, error) {
	ctx, cancel := context.WithCancel(ctx)
	// In this order: the helper is told to end, then waited for, so that it does not write after the caller is done.
	var helper <-chan struct{}
	defer func() {
		cancel()
		<-helper
	}()
	path := q.Path
	changed := state.Watch(ctx, path)
	if !w.passive {
		p.takeByHand(q) // before Chat is asked
	}
	cannot := make(chan struct{})
	helper = p.goSafely("post and read", func() {
		if w.begin(ctx) {
			close(cannot)
		}
	})
	deadline := time.NewTimer(w.until.Sub(p.now()))
	defer deadline.Stop()
	tick := time.NewTicker(lookAround)
	defer tick.Stop()
	for giveUp := false; ; {
		select {
		case <-ctx.Done():
			return q, ctx.Err()
		case <-deadline.C:
			giveUp = true
		case <-cannot:
			giveUp = true
		case <-changed:
		case <-tick.C:
			if !w.passive {
				p.takeByHand(q)
			}
			if err := w.each(q); err != nil {
				return q, err
			}
			// Timers stand still while a laptop sleeps. And look at the question all the same: a look that failed has no other
			// way to come again.
			giveUp = giveUp || p.now().After(w.until)
		}
		now, err := p.look(ctx, path, w.passive)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return q, ErrGaveUp // the file was removed: closed, as other programs do it
			}
			p.Log.Error().Err(err).Str("question", q.QuestionID).Msg("look at question")
			var corrupt *state.Corrupt
			if giveUp || errors.As(err, &corrupt) {
				return q, ErrGaveUp
			}
			continue
		}
		if q = now; w.over(q) {
			return q, nil
		}
		if giveUp {
			return q, errTimeUp
		}
	}
}
