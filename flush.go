package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"gchat-hooks/hooks"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// flush sends what is waiting.
type flush struct {
	env state.Getenv
	out io.Writer
}

func (f flush) poller() *poller.Poller {
	p := &poller.Poller{Env: f.env, Log: state.NewLog(f.env, "flush")}
	p.Compose = func(ctx context.Context) bool { return hooks.ReportEnded(ctx, p) }
	return p
}

// run is for a person: until the queue is empty or the time is up, whoever else sends meanwhile. What is held back for a
// digest stays.
func (f flush) run(ctx context.Context, dead bool) error {
	p := f.poller()
	if dead {
		if _, err := state.OutboxIn(state.UserState(f.env)).Revive(); err != nil {
			return fmt.Errorf("dead messages: %w", err)
		}
	}
	left := p.Flush(ctx, 0)
	for ctx.Err() == nil && !left.Again.IsZero() {
		select {
		case <-ctx.Done():
		case <-time.After(max(time.Until(left.Again), 10*time.Millisecond)):
			left = p.Flush(ctx, 0)
		}
	}
	if !left.Again.IsZero() {
		return sendError{fmt.Errorf("not all is sent yet"), "`gchat-hooks status` says what waits, and why", exitNotDelivered}
	}
	if n := len(state.OutboxIn(state.UserState(f.env)).Dead()); dead && n > 0 {
		return sendError{fmt.Errorf("%d refused again", n), "`gchat-hooks status` says why", exitNotDelivered}
	}
	return nil
}

// detached is for hooks: nobody waits for it, so it can.
func (f flush) detached(ctx context.Context) error {
	f.poller().Flush(ctx, poller.FlushPatience)
	return nil
}
