package poller

import (
	"cmp"
	"context"
	"errors"
	"os"
	"runtime/debug"
	"time"

	"gchat-hooks/gchat"
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
