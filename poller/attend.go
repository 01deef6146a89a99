package poller

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
)

// mostMissed is how many cycles running a tmux session may be missing before its questions are given up.
const mostMissed = 3

// task is what the daemon does about one question, and when it comes again.
type task struct {
	running atomic.Bool
	next    time.Time // no try before
	tries   int       // that changed nothing
	offs    int       // tries running that found the dialog gone
	ended   bool      // outcome is how a try of ours ended that could not be written down
	outcome inject.Outcome
}

func (d *Daemon) task(path string) *task {
	t := d.tasks[path]
	if t == nil {
		t = &task{}
		d.tasks[path] = t
	}
	return t
}

// attend does what a waiting hook would do for a question that has none: it takes what was put there by hand, judges
// replies, and has the answer typed. It returns when to come again; zero for no time of its own.
func (d *Daemon) attend(ctx context.Context, q *state.Question, view *tmuxView, due bool) time.Time {
	t := d.task(q.Path)
	if t.running.Load() {
		return time.Time{}
	}
	hook, now := q.AskedAt.Add(graceForHook), d.now()
	if q.Mode == state.Native && now.Before(hook) && !hook.After(now.Add(graceForHook)) {
		return hook // its hook may just be starting
	}
	gone := false
	if due && q.Mode == state.Inject { // before the lock: tmux may take its time
		_, err := view.where(ctx, q)
		gone = errors.Is(err, errTmuxGone)
	}
	lock, err := state.LockWaiter(q)
	if err != nil {
		if !errors.Is(err, state.ErrLocked) { // a hook waits: it does all this
			d.Log.Error().Err(err).Msg("lock question")
		}
		return time.Time{}
	}
	defer func() {
		if lock != nil {
			lock.Unlock()
		}
	}()
	if q, err = d.prepare(ctx, q); err != nil {
		d.Log.Error().Err(err).Str("question", q.QuestionID).Msg("question not looked at")
		return d.now().Add(lookAround)
	}
	if due && q.Status.Open() && q.Mode == state.Inject {
		q = d.countMissed(q, gone)
	}
	spoiled := q.InjectionSucceeded != nil && !*q.InjectionSucceeded // a person's affair
	switch {
	case q.Status.Open() && !spoiled && d.now().Before(t.next):
		return t.next
	case q.Status != state.Answered || spoiled:
		return time.Time{}
	}
	t.running.Store(true)
	d.typing.Add(1)
	state.SignWaiter(q, service.Name) // typing takes its time
	held := lock
	lock = nil // the task's now
	// A signal does not cut what is being typed: half an answer is worse than a late end.
	ctx = context.WithoutCancel(ctx)
	d.goSafely("type", func() {
		defer d.typing.Done()
		defer func() {
			t.running.Store(false)
			state.Wake(d.ended)
		}()
		defer held.Unlock()
		d.deliverTyped(ctx, t, q.Path)
	})
	return time.Time{}
}

// prepare reads the question afresh, under its waiter lock, and takes what came in.
func (d *Daemon) prepare(ctx context.Context, seen *state.Question) (*state.Question, error) {
	q, err := state.LoadQuestion(seen.Path)
	if err != nil {
		return seen, err
	}
	if q.Status == state.Pending && d.takeByHand(q) {
		d.task(q.Path).next = d.now().Add(stillWritten)
	}
	if q.Status == state.Pending && posted(q) && q.Unwaited {
		if q, err = state.UpdateQuestion(q.Path, func(q *state.Question) error { q.Unwaited = false; return nil }); err != nil {
			return seen, err
		}
		d.put(note(q, "waited", "Replies to this question are read now."))
		d.flushSoon()
	}
	if q, err = state.LoadQuestion(q.Path); err != nil || !q.Unread() {
		return q, err
	}
	q, err = d.Judge(q.Path)
	d.flushSoon() // what the thread is told of it
	return q, err
}

// countMissed gives a question up whose tmux session is missing three cycles running: it can be gone for a moment.
func (d *Daemon) countMissed(q *state.Question, gone bool) *state.Question {
	if !gone && q.TmuxMissed == 0 {
		return q
	}
	if after, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if q.TmuxMissed++; !gone {
			q.TmuxMissed = 0
		}
		return nil
	}); err == nil {
		q = after
	}
	if q.TmuxMissed < mostMissed {
		d.Log.Warn().Str("question", q.QuestionID).Str("tmux_session", q.TmuxSession).Int("cycles", q.TmuxMissed).
			Msg("tmux session not found")
		return q
	}
	if _, err := d.Close(q.Path, state.Abandoned, "tmux_gone", nil); err != nil {
		d.Log.Error().Err(err).Msg("question not given up")
	}
	d.flushSoon()
	if after, err := state.LoadQuestion(q.Path); err == nil {
		return after
	}
	return q
}
