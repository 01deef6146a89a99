package poller

import (
	"context"
	"errors"
	"time"

	"gchat-hooks/state"
)

// onceBound is how long the single cycle of RunOnce may send before it types, and again after it.
const onceBound = 10 * time.Second

// RunOnce is one cycle: what waits is sent, each space is listed once, replies are judged and typed, and what there is to say
// of it is sent. *state.ErrDaemonRuns when a daemon runs.
func (d *Daemon) RunOnce(ctx context.Context) error {
	seat, err := d.begin()
	if err != nil {
		return err
	}
	defer seat.Leave()
	dirs, err := d.stateDirs()
	if err != nil {
		d.Log.Error().Err(err).Msg("project registry")
	}
	d.questions(dirs) // another program's are completed before they are posted
	d.flushOnce(ctx)
	// What was put there by hand counts before what Chat has, also when it may just be written.
	if next := d.cycle(ctx, d.questions(dirs), false); !next.IsZero() && next.Sub(d.now()) <= stillWritten {
		sleep(ctx, next.Sub(d.now()))
		d.cycle(ctx, d.questions(dirs), false)
	}
	d.typing.Wait()
	var failed error
	for _, q := range d.oneOfEachChat(ctx, d.questions(dirs)) {
		if err := d.listOnce(ctx, q); err != nil {
			failed = err
		}
	}
	d.cycle(ctx, d.questions(dirs), true)
	d.typing.Wait()
	d.flushOnce(ctx)
	if failed == nil && ctx.Err() == nil {
		d.noteLastPoll()
	}
	return failed
}

// flushOnce sends what can be sent now.
func (d *Daemon) flushOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, onceBound)
	defer cancel()
	d.Flush(ctx)
}

// oneOfEachChat is an open question of each space that this process is configured for. What only a session's own
// environment leads to is read by that session's hooks: we could but fail, and say in its threads that it is not read.
func (d *Daemon) oneOfEachChat(ctx context.Context, qs []*state.Question) map[string]*state.Question {
	open, leads := map[string]*state.Question{}, map[string]string{} // by project: the space that its configuration leads to
	for _, q := range qs {
		if !q.Status.Open() && !q.Late(d.now()) || q.Chat == "" || open[q.Chat] != nil {
			continue
		}
		chat, known := leads[q.ProjectDir]
		if !known {
			chat, _ = d.leadsTo(ctx, d.config(q.ProjectDir))
			leads[q.ProjectDir] = chat
		}
		if chat == q.Chat {
			open[q.Chat] = q
		}
	}
	return open
}

// listOnce lists a question's space once, unless another process reads it anyway.
func (d *Daemon) listOnce(ctx context.Context, q *state.Question) error {
	lock, err := state.LockLeader(d.user(), q.Chat)
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err == nil {
		defer lock.Unlock()
	}
	in := d.newInbox(q)
	qs := in.questions()
	err = in.list(ctx, d.config(in.projectDir), qs)
	if ctx.Err() == nil {
		in.tell(ctx, err, qs)
	}
	return err
}
