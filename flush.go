package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"gchat-hooks/hooks"
	"gchat-hooks/hooks/wake"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// flush sends what is waiting.
type flush struct {
	self string
	env  state.Getenv
	out  io.Writer
}

func (f flush) poller() *poller.Poller {
	p := &poller.Poller{Env: f.env, Log: state.NewLog(f.env, "flush")}
	p.Compose = func(ctx context.Context) bool { return compose(ctx, p, f.self) }
	return p
}

// compose is what the flusher and the daemon do besides sending: they report the sessions that have ended, and see to it
// that somebody hands over what waits for agents.
func compose(ctx context.Context, p *poller.Poller, self string) (left bool) {
	if err := wake.StartWaiting(p.Env, self); err != nil {
		p.Log.Error().Err(err).Msg("wake messages wait for the next hook")
	}
	return hooks.ReportEnded(ctx, p)
}

// run is for a person: until the queue is empty or the time is up. What is held back for a digest stays.
func (f flush) run(ctx context.Context, dead, held bool) error {
	box := state.OutboxIn(state.UserState(f.env))
	if dead {
		if _, err := box.Revive(time.Now()); err != nil {
			return fmt.Errorf("dead messages: %w", err)
		}
	}
	p := f.poller()
	p.Stoppable = true
	if p.Probe = true; held {
		if err := box.Release(time.Now()); err != nil {
			return fmt.Errorf("held messages: %w", err)
		}
		p.Loud = true
	}
	left := p.Flush(ctx)
	if !box.Empty() {
		_ = poller.StartFlusher(f.env, f.self) // what hooks leave from now on needs somebody too
	}
	waiting, _ := box.Waiting()
	stuck := slices.DeleteFunc(slices.Clone(waiting), func(m *state.Outgoing) bool { return m.Tries == 0 && time.Now().Before(m.NotBefore) })
	switch refused := len(box.Dead()); {
	case !left.Again.IsZero():
		return sendError{fmt.Errorf("not all is sent yet: %d wait", len(stuck)), "`gchat-hooks status` says what waits, and why", exitNotDelivered}
	case len(stuck) > 0 && left.HeldUntil.IsZero():
		return sendError{fmt.Errorf("%d wait for a webhook that is not configured here", len(stuck)), "`gchat-hooks status` names it", exitNotDelivered}
	case dead && refused > 0:
		return sendError{fmt.Errorf("%d refused again", refused), "`gchat-hooks status` says why, and `gchat-hooks flush --forget-dead` drops them", exitNotDelivered}
	}
	if !left.HeldUntil.IsZero() {
		fmt.Fprintf(f.out, "%d held back until %s; --held sends them now\n", len(waiting), left.HeldUntil.Local().Format("Mon 15:04"))
	}
	return nil
}

// forget drops what Chat refused, and says what that was: nobody can get it back.
func (f flush) forget() error {
	gone, err := state.OutboxIn(state.UserState(f.env)).ForgetDead()
	g := newGatherer(f.env)
	for _, m := range gone {
		l := g.letter(m)
		fmt.Fprintf(f.out, "dropped: %s of session %s, %s old, %q: %s\n", oneLine(cmp.Or(l.Kind, "message")), oneLine(cmp.Or(m.SessionID, "(none)")),
			ago(time.Since(m.CreatedAt)), oneLine(l.Text), oneLine(l.Error))
	}
	if err != nil {
		return fmt.Errorf("dead messages: %w", err)
	}
	if len(gone) == 0 {
		fmt.Fprintln(f.out, "nothing to drop: Chat refused nothing")
	}
	return nil
}

// detached is for hooks: nobody waits for it, so it can.
func (f flush) detached(ctx context.Context) {
	f.poller().FlushDetached(ctx, poller.FlushPatience)
}
