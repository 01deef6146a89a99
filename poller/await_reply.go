package poller

import (
	"context"
	"errors"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

var (
	// ErrNoReply says that the time for a reply is up, and that there was none.
	ErrNoReply = errors.New("nobody replied in time")
	// ErrUnread says that the time is up and the space cannot be read, or a reply cannot be judged: there may have been one.
	ErrUnread = errors.New("replies cannot be read")
)

const (
	// unreadGrace is how long after its time a question waits for a space that cannot be read.
	unreadGrace = 5 * time.Minute
	// unreadPause is the time from one such look to the next.
	unreadPause = 20 * time.Second
)

// Waiting is how a question in deny mode is waited for.
type Waiting struct {
	Until time.Time // this machine's clock
	Held  bool      // the caller has the question's waiter lock; else the lock's holder judges the replies
	// Over, where set, ends the waiting otherwise.
	Over func(*state.Question) bool
}

// Await waits until a person replied to a question whose dialog is nowhere (deny mode), or until it was closed, and returns
// it as it then stands. Who has the waiter lock waits for one, too, that was timed out before and may still be answered.
// Errors are ErrNoReply and ErrUnread at that time, ErrGaveUp when Over ends it or its file is gone, and ctx's.
func (p *Poller) Await(ctx context.Context, q *state.Question, w Waiting) (*state.Question, error) {
	waits := func(q *state.Question) bool {
		return q.Status == state.Pending || q.Status == state.TimedOut && w.Held && q.Answerable()
	}
	ends := func(q *state.Question) bool { return w.Over != nil && w.Over(q) }
	path := q.Path
	if now, err := p.look(ctx, path, !w.Held); err == nil && !waits(now) {
		return now, nil // what is there already needs no space that can be read
	}
	q, err := p.watch(ctx, q, watching{
		begin: func(ctx context.Context) bool {
			p.tellRead(ctx, q)
			p.Lead(ctx, q)
			return false
		},
		over:    func(q *state.Question) bool { return !waits(q) || ends(q) },
		until:   w.Until,
		passive: !w.Held,
		each: func(q *state.Question) error {
			if ends(q) {
				return ErrGaveUp
			}
			return nil
		},
	})
	switch {
	case errors.Is(err, errTimeUp):
		return p.lastLook(ctx, path, w, waits)
	case err == nil && waits(q):
		return q, ErrGaveUp
	}
	return q, err
}

// lastLook reads the space once more when the time is up: while no process waited, while Chat was out of reach or the laptop
// asleep, a reply may have come in time.
func (p *Poller) lastLook(ctx context.Context, path string, w Waiting,
	waits func(*state.Question) bool) (*state.Question, error) {
	for deadline := p.now().Add(unreadGrace); ; {
		q, err := state.LoadQuestion(path)
		if err != nil {
			return q, ErrGaveUp
		}
		rerr := p.readFor(ctx, q)
		if q, err = p.look(ctx, path, !w.Held); err != nil {
			return q, ErrGaveUp
		}
		switch {
		case !waits(q):
			return q, nil
		case ctx.Err() != nil:
			return q, ctx.Err()
		case q.Unread(): // the file that says who may answer does not parse
			return q, ErrUnread
		case rerr == nil:
			return q, ErrNoReply
		}
		p.Log.Warn().Str("question", q.QuestionID).Str("error", p.Log.Clean(rerr.Error())).
			Msg("the time for a reply is up, and the space cannot be read")
		if gchat.AuthFailure(rerr) || gchat.Permanent(rerr) || p.now().Add(unreadPause).After(deadline) {
			return q, errors.Join(ErrUnread, rerr)
		}
		sleep(ctx, unreadPause)
	}
}

// readFor lists the space from a question's beginning, and hands over what is in its thread.
func (p *Poller) readFor(ctx context.Context, q *state.Question) error {
	in := p.newInbox(q)
	if err := in.connect(ctx, in.config(q.ProjectDir)); err != nil {
		return err
	}
	thread, from := q.ThreadName, begins(q)
	all, threads := in.questions(), map[string]string{}
	for _, other := range all {
		threads[other.QuestionID] = other.ThreadName
	}
	for range 20 { // a long day in a busy space
		newest := from
		done, err := in.reader.Since(ctx, q.Space, from, func(page []gchat.Message) {
			if thread == "" {
				thread = in.findThread(q, page)
			}
			var mine []gchat.Message
			for _, m := range page {
				if m.ThreadName == thread && thread != "" {
					mine = append(mine, m)
				}
				if m.CreateTime.After(newest) {
					newest = m.CreateTime
				}
			}
			threads[q.QuestionID] = thread
			if derr := in.deliver(ctx, q, thread, meant(q, all, threads, mine)); derr != nil {
				in.once(derr, "replies not written down")
			}
		})
		if err != nil || done {
			return err
		}
		from = newest.Add(-time.Millisecond)
	}
	return nil
}

// awaited says whether a reply to a question is of use, so that its space has to be read.
func (p *Poller) awaited(q *state.Question) bool {
	return q.MessageSent && (q.Status == state.Pending || q.Late(p.now()) && (p.Steady || state.HasWaiter(q)))
}
