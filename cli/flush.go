package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func (p Program) flushCommand() *cli.Command {
	return &cli.Command{
		Name:  "flush",
		Usage: "send what is waiting now",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "stop after `TIME`"},
			&cli.BoolFlag{Name: "dead", Usage: "also send again what Google Chat refused"},
			&cli.BoolFlag{Name: "forget-dead", Usage: "delete what Google Chat refused, and say what it was; send nothing"},
			&cli.BoolFlag{Name: "held", Usage: "also send what is held back for a digest or by quiet hours"},
		},
		Action: func(c *cli.Context) error {
			f := flush{p, state.Environment(p.env), state.OutboxIn(state.UserState(p.env))}
			if !c.Bool("forget-dead") {
				ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
				defer cancel()
				return f.run(ctx, c.Bool("dead"), c.Bool("held"))
			}
			if c.Bool("dead") || c.Bool("held") {
				return usage(errors.New("--forget-dead sends nothing: it goes without --dead and --held"),
					"gchat-hooks flush --help")
			}
			return f.forget()
		},
	}
}

// flush sends what is waiting.
type flush struct {
	Program
	environment string // see state.Environment
	box         state.Outbox
}

// run sends until nothing is left that can be sent, or the time is up. What is held back for a digest stays.
func (f flush) run(ctx context.Context, dead, held bool) error {
	if dead {
		if _, err := f.box.Revive(time.Now()); err != nil {
			return fmt.Errorf("dead messages: %w", err)
		}
	}
	if err := f.retry(held); err != nil {
		return fmt.Errorf("waiting messages: %w", err)
	}
	log := state.NewLog(f.env, "flush")
	for pause := time.Tick(100 * time.Millisecond); ctx.Err() == nil && f.owes(); {
		err := servePoller(ctx, poller.Options{Env: f.env, Self: f.self, Log: log, Until: func() bool { return !f.owes() }})
		if err != nil && !errors.Is(err, state.ErrLocked) {
			return err
		}
		select {
		case <-pause: // another process is the poller, and may end at any time
		case <-ctx.Done():
		}
	}
	due, later, others := f.waiting()
	if others > 0 {
		fmt.Fprintf(f.out, "%d wait for a shell with the settings under which they were written\n", others)
	}
	aside := f.box.Aside()
	switch {
	case due > 0:
		_ = state.StartPoller(f.env, f.self) // it goes on
		return failed(fmt.Errorf("not all is sent yet: %d wait", due),
			"`gchat-hooks status` says what waits, and why", exitNotDelivered)
	case dead && len(aside) > 0:
		return failed(fmt.Errorf("%d refused again", len(aside)),
			"`gchat-hooks status` says why, and `gchat-hooks flush --forget-dead` drops them", exitNotDelivered)
	case later > 0:
		fmt.Fprintf(f.out, "%d held back; --held sends them now, and gchat-hooks status says until when\n", later)
	}
	return nil
}

// waiting counts the messages that are due, that are held back, and that the poller of another environment sends.
func (f flush) waiting() (due, later, others int) {
	all, _ := f.box.Waiting()
	for _, m := range all {
		switch {
		case m.Env != "" && m.Env != f.environment:
			others++
		case m.Tries > 0 || !time.Now().Before(m.NotBefore):
			due++
		default:
			later++
		}
	}
	return due, later, others
}

// owes says whether this environment's poller has something to send: a message, a note, or a summary that it words first.
func (f flush) owes() bool {
	if due, _, _ := f.waiting(); due > 0 {
		return true
	}
	opens, _ := state.Opens(f.env)
	sessions, _ := state.SessionsIn(state.UserState(f.env)).All()
	return slices.ContainsFunc(opens, func(o *state.Open) bool {
		q, err := state.PeekQuestion(o.Path)
		return o.Kind == state.OpenQuestion && o.Env == f.environment && err == nil && len(q.Owes) > 0
	}) || slices.ContainsFunc(sessions, func(s *state.Session) bool {
		return !s.OwesSummary.IsZero() && s.Env == f.environment
	})
}

// retry makes due what waits for another try, for a person has mended what stopped it; held is true for what is held back, too.
func (f flush) retry(held bool) (failed error) {
	now := time.Now().UTC()
	all, _ := f.box.Waiting()
	for _, m := range all {
		if m.Tries > 0 || held {
			_, err := f.box.Change(m, func(m *state.Message) error {
				m.NotBefore, m.Urgent = now, m.Urgent || held // the quiet hours are not asked again
				return nil
			})
			failed = errors.Join(failed, err)
		}
	}
	spaces := state.SpacesIn(state.UserState(f.env))
	known, _ := spaces.All()
	for _, one := range known {
		if len(one.Paused) > 0 || one.LeftAlone(now) > 0 {
			_, err := spaces.Change(one.Chat, func(one *state.Space) {
				one.NotBefore = time.Time{}
				for webhook, pause := range one.Paused {
					pause.NotBefore = now
					one.Paused[webhook] = pause
				}
			})
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// forget drops what Chat refused, and says what that was: it cannot be got back.
func (f flush) forget() error {
	aside := f.box.Aside()
	for _, m := range aside {
		if err := f.box.Drop(f.env, m); err != nil {
			return fmt.Errorf("dead messages: %w", err)
		}
		l := messageStatusOf(m, new(state.Redactor))
		fmt.Fprintf(f.out, "dropped: %s of session %s, %s old, %q: %s\n",
			l.Kind, state.OneLine(cmp.Or(m.SessionID, "(none)")), ago(time.Since(m.CreatedAt)), l.Text, l.Error)
	}
	if len(aside) == 0 {
		fmt.Fprintln(f.out, "nothing to drop: Chat refused nothing")
	}
	return nil
}
