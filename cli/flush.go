package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/hooks"
	"gchat-hooks/hooks/wake"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func (p Program) flushCommand() *cli.Command {
	return &cli.Command{
		Name:  "flush",
		Usage: "send what is waiting, then end",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "end after `DURATION` at the latest"},
			&cli.BoolFlag{Name: "dead", Usage: "try the messages again that Chat refused"},
			&cli.BoolFlag{Name: "forget-dead", Usage: "drop the messages that Chat refused, and say which; nothing is sent"},
			&cli.BoolFlag{Name: "held", Usage: "send what is held back for a digest or by quiet hours"},
			&cli.BoolFlag{Name: "detached", Hidden: true}, // as hooks start it
		},
		Action: func(c *cli.Context) error {
			f := flush{self: p.self, env: os.Getenv, out: p.out}
			if c.Bool("detached") {
				// It ends if another one runs, and waits for what is held back.
				f.poller().FlushDetached(c.Context, poller.FlushPatience)
				return nil
			}
			if c.Bool("forget-dead") {
				if c.Bool("dead") || c.Bool("held") {
					return usage(errors.New("--forget-dead sends nothing: it goes without --dead and --held"),
						"gchat-hooks flush --help")
				}
				return f.forget()
			}
			ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
			defer cancel()
			return f.run(ctx, c.Bool("dead"), c.Bool("held"))
		},
	}
}

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

// compose is what the flusher and the daemon do besides sending: they report the sessions that have ended, and start the
// process that hands over what waits for agents.
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
	p.Stoppable, p.Probe = true, true
	if held {
		if err := box.Release(time.Now()); err != nil {
			return fmt.Errorf("held messages: %w", err)
		}
		p.Loud = true
	}
	left := p.Flush(ctx)
	if !box.Empty() {
		_ = poller.StartFlusher(f.env, f.self) // what hooks leave from now on needs a sender too
	}
	waiting, _ := box.Waiting()
	stuck := 0
	for _, m := range waiting {
		if m.Tries > 0 || !time.Now().Before(m.NotBefore) {
			stuck++
		}
	}
	switch refused := len(box.Dead()); {
	case !left.Again.IsZero():
		return failed(fmt.Errorf("not all is sent yet: %d wait", stuck),
			"`gchat-hooks status` says what waits, and why", exitNotDelivered)
	case stuck > 0 && left.HeldUntil.IsZero():
		return failed(fmt.Errorf("%d wait for a webhook that is not configured here", stuck),
			"`gchat-hooks status` names it", exitNoWebhook)
	case dead && refused > 0:
		return failed(fmt.Errorf("%d refused again", refused),
			"`gchat-hooks status` says why, and `gchat-hooks flush --forget-dead` drops them", exitNotDelivered)
	case !left.HeldUntil.IsZero():
		until := left.HeldUntil.Local().Format("Mon 15:04")
		fmt.Fprintf(f.out, "%d held back until %s; --held sends them now\n", len(waiting), until)
	}
	return nil
}

// forget drops what Chat refused, and says what that was: it cannot be got back.
func (f flush) forget() error {
	gone, err := state.OutboxIn(state.UserState(f.env)).ForgetDead()
	g := newGatherer(f.env)
	for _, m := range gone {
		l := g.letter(m)
		kind, session := state.OneLine(cmp.Or(l.Kind, "message")), state.OneLine(cmp.Or(m.SessionID, "(none)"))
		fmt.Fprintf(f.out, "dropped: %s of session %s, %s old, %q: %s\n",
			kind, session, ago(time.Since(m.CreatedAt)), state.OneLine(l.Text), state.OneLine(l.Error))
	}
	if err != nil {
		return fmt.Errorf("dead messages: %w", err)
	}
	if len(gone) == 0 {
		fmt.Fprintln(f.out, "nothing to drop: Chat refused nothing")
	}
	return nil
}
