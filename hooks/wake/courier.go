package wake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// A Courier hands waiting messages to OpenClaw agents.
type Courier struct {
	Env   state.Getenv
	Log   *state.Log
	First string         // path of the message that it was started for
	Shell int            // pid of the shell that is just handing First over; 0 for none
	Reply io.WriteCloser // where the reply to First goes; nil when its hook does not wait
	Turn  time.Duration  // how long Shell may take; 0 is turnBound
	Now   func() time.Time
	Sleep func(context.Context, time.Duration)

	taken map[string]bool // by path: openclaw has it, though it could not be taken out
}

const (
	// oldWake is how long a message that was tried often enough is kept.
	oldWake = 24 * time.Hour
	// An agent whose turns fail on a message that it has is given it again for so long, and so often at least.
	failingTurns    = 8
	failingTurnsFor = time.Hour
	// retryGlance is how often the retrier looks: others leave messages meanwhile.
	retryGlance = 10 * time.Second
)

// pauses are how long a message waits after each try that failed.
var pauses = []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}

// Run is the detached courier of a hook: its message, after the older ones to the same agent, and then whatever of these
// failed, until nothing waits.
func (c *Courier) Run(ctx context.Context) {
	signal.Ignore(syscall.SIGPIPE) // the hook may have stopped waiting
	c.fill()
	own, err := c.outbox().Load(c.First)
	if err != nil {
		c.Log.Error().Err(err).Msg("wake message set aside")
	}
	if own != nil {
		c.first(ctx, own)
	}
	if c.Reply != nil {
		_ = c.Reply.Close() // the hook waits for this
	}
	if own != nil {
		c.retry(ctx, own.To)
	}
	state.SweepWakes(state.UserState(c.Env), c.Now())
}

// HandOver tries all that waits once, whenever it is due, and says what became of it.
func (c *Courier) HandOver(ctx context.Context) (sent int, left []*state.WakeMessage) {
	c.fill()
	down := map[string]bool{} // by agent session
	for _, w := range c.waiting("") {
		if ctx.Err() != nil || down[w.To] {
			left = append(left, w)
			continue
		}
		switch _, err := c.deliver(ctx, w); {
		case err == nil:
			sent++
		case !errors.Is(err, errGone):
			down[w.To] = !errors.Is(err, state.ErrLocked)
			left = append(left, w)
		}
	}
	return sent, left
}

func (c *Courier) fill() {
	c.taken = map[string]bool{}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sleep == nil {
		c.Sleep = func(ctx context.Context, d time.Duration) {
			t := time.NewTimer(d)
			defer t.Stop()
			select {
			case <-ctx.Done():
			case <-t.C:
			}
		}
	}
}

func (c *Courier) outbox() state.WakeOutbox { return state.WakeOutboxIn(state.UserState(c.Env)) }

// waiting is what waits for an agent, "" for all.
func (c *Courier) waiting(to string) []*state.WakeMessage {
	all, bad := c.outbox().Waiting()
	for _, err := range bad {
		c.Log.Error().Err(err).Msg("wake message passed over")
	}
	return slices.DeleteFunc(all, func(w *state.WakeMessage) bool { return to != "" && w.To != to || c.taken[w.Path] })
}

// first hands over the message that this process was started for. What waits for the same agent goes before it, for a new
// event is a good moment to try again; but not when the hook waits for the reply. What another courier delivers does not
// hold it up.
func (c *Courier) first(ctx context.Context, own *state.WakeMessage) {
	if c.Shell != 0 {
		c.watch(own)
	}
	if c.Reply != nil {
		c.answer(ctx, own)
		return
	}
	for _, w := range c.waiting(own.To) {
		if w.Path > own.Path {
			return
		}
		if _, err := c.deliver(ctx, w); err != nil && !errors.Is(err, state.ErrLocked) && !errors.Is(err, errGone) {
			return // the next one would fare no better
		}
	}
}

// answer hands a message over and gives the reply to the hook that waits for it.
func (c *Courier) answer(ctx context.Context, w *state.WakeMessage) {
	reply, err := c.deliver(ctx, w)
	if err != nil {
		return
	}
	if _, err := c.Reply.Write(reply); err != nil {
		c.Log.Warn().Err(err).Str("session", w.Session).
			Msg("the agent's reply came after its hook's time; a decision in it does not count")
	}
}

// watch waits until the shell has ended that hands a message over, and ends it when it takes too long. A claim that fails
// otherwise says nothing of the shell.
func (c *Courier) watch(w *state.WakeMessage) {
	began, most := inject.StartOf(c.Shell), cmp.Or(c.Turn, turnBound)
	claim, err := c.outbox().ClaimSoon(w, most)
	switch {
	case err == nil:
		if now, err := c.outbox().Load(w.Path); now == nil && err == nil {
			_ = c.outbox().Remove(w) // another courier was faster; this takes out the claim that we have just made
		}
		claim.Unlock()
	case !errors.Is(err, state.ErrLocked):
		c.Log.Error().Err(err).Str("session", w.Session).Str("agent", w.AgentID).
			Msg("not known when openclaw ends; the message waits in the outbox")
	case began != "" && inject.StartOf(c.Shell) == began:
		_ = syscall.Kill(-c.Shell, syscall.SIGKILL) // its session, with openclaw
		c.Log.Error().Str("session", w.Session).Str("agent", w.AgentID).Msgf("openclaw did not end within %s and was ended", most)
	}
}

// retry tries what an agent did not take until nothing waits for it. One process does it for each agent.
func (c *Courier) retry(ctx context.Context, to string) {
	for ctx.Err() == nil && len(c.waiting(to)) > 0 {
		lock, err := c.outbox().LockRetrier(to)
		if err != nil {
			// The lock's holder sees our message, too; but it may be a hook that only tries whether the lock is free.
			if c.Sleep(ctx, 50*time.Millisecond); c.outbox().Retried(to) {
				return
			}
			continue
		}
		for ctx.Err() == nil {
			next, left := c.round(ctx, to)
			if !left {
				break
			}
			c.Sleep(ctx, min(max(next.Sub(c.Now()), time.Second), retryGlance))
		}
		lock.Unlock()
		// A courier that saw our lock relied on us: look once more after letting go.
	}
}

// round tries what is due, in order. left says that something waits, and next when to come again.
func (c *Courier) round(ctx context.Context, to string) (next time.Time, left bool) {
	for _, w := range c.waiting(to) {
		// What says more than a pause comes from a clock that was set back.
		if wait := w.NotBefore.Sub(c.Now()); wait > 0 && wait <= pauses[len(pauses)-1] {
			return w.NotBefore, true
		}
		switch _, err := c.deliver(ctx, w); {
		case err == nil, errors.Is(err, errGone):
		case errors.Is(err, state.ErrLocked): // another courier has it, perhaps for a whole turn
			next, left = c.Now().Add(retryGlance), true
		default:
			if next = w.NotBefore; next.IsZero() { // it was not even tried
				next = c.Now().Add(retryGlance)
			}
			return next, true
		}
	}
	return next, left
}

// errGone says that a message was handed over by another courier, or put aside.
var errGone = errors.New("no longer waits")

// deliver hands one message over and takes it out. An error other than errGone and state.ErrLocked is written down with the
// message, and when to try again.
func (c *Courier) deliver(ctx context.Context, w *state.WakeMessage) (reply []byte, err error) {
	box := c.outbox()
	claim, err := box.Claim(w)
	if err != nil {
		return nil, err
	}
	defer claim.Unlock()
	now, err := box.Load(w.Path)
	if now == nil {
		if err == nil {
			_ = box.Remove(w) // the claim that we have just made
		}
		return nil, errGone
	}
	*w = *now
	if code, said, ended := box.Ended(w); !ended {
		reply, err = send(ctx, c.Env, w)
	} else if code != 0 {
		err = failed(w, fmt.Errorf("exit status %d", code), said, "")
	}
	if err == nil {
		c.taken[w.Path] = true
		if err := box.Remove(w); err != nil {
			c.Log.Error().Err(err).Msg("handed over, and will be once more by another process")
		}
		return reply, nil
	}
	if ctx.Err() != nil {
		return nil, err // broken off by ourselves
	}
	return nil, c.notTaken(w, err)
}

// notTaken writes down that a try failed, or puts the message aside.
func (c *Courier) notTaken(w *state.WakeMessage, err error) error {
	w.LastError, w.Reply = c.Log.Clean(err.Error()), false // the hook that waited for a reply has left
	w.NotBefore = c.Now().Add(pauses[min(w.Tries, len(pauses)-1)]).UTC()
	w.Tries++
	line, age := c.Log.Error(), c.Now().Sub(w.CreatedAt)
	if w.Tries > 1 {
		line = c.Log.Warn()
	}
	line.Str("error", w.LastError).Str("session", w.Session).Str("agent", w.AgentID).Str("trigger", w.Trigger).
		Int("tries", w.Tries).Str("hint", hintOf(err)).Msg("wake message not handed over; it waits in the outbox")
	if w.Tries >= failingTurns && (age > oldWake || age > failingTurnsFor && errors.Is(err, errTurnFailed)) {
		c.Log.Error().Str("session", w.Session).Str("agent", w.AgentID).Int("tries", w.Tries).
			Msg("wake message put aside: the agent does not take it")
		if c.outbox().Rewrite(w) == nil && c.outbox().Bury(w) == nil {
			return errGone
		}
	}
	if rerr := c.outbox().Rewrite(w); rerr != nil {
		return fmt.Errorf("%w; and that could not be written down: %w", err, rerr)
	}
	return err
}

func hintOf(err error) string {
	switch {
	case errors.Is(err, errNoOpenClaw):
		return "npm install -g openclaw, or put it into the PATH that Claude Code runs with"
	case strings.Contains(err.Error(), "inter-session attribution"):
		return "the session was started by an agent's own command, and openclaw refuses what such a one sends; " +
			"start it with: env -u OPENCLAW_SHELL tmux new-session ..."
	}
	return "gchat-hooks wake tries again at once and says what happens"
}
