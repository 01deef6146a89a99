package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/poller"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
)

func (p Program) pollerCommand() *cli.Command {
	return &cli.Command{
		Name:  "poller",
		Usage: "the daemon: reads replies, sends what waits, types answers into tmux (also as gchat-response-poller)",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "pending-dir", Usage: "serve the questions in `DIR`, repeatable (default: all projects')"},
			&cli.StringFlag{Name: "poll-interval", Usage: "`SECONDS` from one look to the next without a reply (default: 10)"},
			&cli.BoolFlag{Name: "dry-run", Usage: "do everything but type; say what would have been typed"},
			&cli.BoolFlag{Name: "once", Usage: "one cycle, then end"},
		},
		Action: func(c *cli.Context) error {
			if s := c.String("poll-interval"); s != "" {
				if _, err := state.ParseInterval(s); err != nil {
					return usage(fmt.Errorf("--poll-interval: %w", err), "gchat-hooks poller --help")
				}
			}
			r := responsePoller{
				self: p.self, env: os.Getenv, out: p.out,
				pendingDirs: c.StringSlice("pending-dir"), interval: c.String("poll-interval"),
				dryRun: c.Bool("dry-run"), once: c.Bool("once"),
			}
			return r.run(c.Context)
		},
		Subcommands: []*cli.Command{
			{
				Name: "install", Usage: "have the system start the daemon, now and at each login",
				Action: func(c *cli.Context) error { return p.service().Install(c.Context) },
			}, {
				Name: "uninstall", Usage: "stop the daemon and remove its service",
				Action: func(c *cli.Context) error { return p.service().Uninstall(c.Context) },
			}, {
				Name: "status", Usage: "say whether the service is installed and running",
				Action: func(c *cli.Context) error {
					p.service().Status(c.Context, time.Now())
					return nil
				},
			},
		},
	}
}

func (p Program) service() *service.Service { return service.New(os.Getenv, p.self, p.out) }

func (p Program) healthCommand() *cli.Command {
	return &cli.Command{
		Name:  "health",
		Usage: "say whether the daemon polls: 0 it does, 1 too long ago, 2 never (also as health-check.sh)",
		Action: func(*cli.Context) error { // monitors read the line on stdout
			line, code := service.Health(os.Getenv, time.Now())
			fmt.Fprintln(p.out, line)
			if code != service.Healthy {
				return silent(errors.New(line), code)
			}
			return nil
		},
	}
}

// responsePoller is the daemon, as a command.
type responsePoller struct {
	self        string
	env         state.Getenv
	out         io.Writer
	pendingDirs []string // none: $GCHAT_POLLER_PENDING_DIR, else those of all projects
	interval    string   // "": as configured
	dryRun      bool
	once        bool
}

// withInterval puts the flag of a poll interval into the environment; "" is as it was.
func withInterval(env state.Getenv, interval string) state.Getenv {
	return func(name string) string {
		if name == "GCHAT_POLLER_INTERVAL" && interval != "" {
			return interval
		}
		return env(name)
	}
}

func (r responsePoller) run(ctx context.Context) error {
	env := withInterval(r.env, r.interval)
	dirs := r.pendingDirs
	if len(dirs) == 0 {
		dirs = filepath.SplitList(env("GCHAT_POLLER_PENDING_DIR"))
	}
	for i, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return fmt.Errorf("pending dir: %w", err)
		}
		dirs[i] = abs
	}
	p := &poller.Poller{Env: env, Log: state.NewLog(env, "gchat-response-poller"), Steady: true, Stoppable: true}
	p.Compose = func(ctx context.Context) bool { return compose(ctx, p, r.self) }
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	d := &poller.Daemon{Poller: p, PendingDirs: dirs, DryRun: r.dryRun, Out: r.out, Hangup: hangup}
	run := d.Run
	if r.once {
		run = d.RunOnce
	}
	err := run(ctx)
	var cannot *state.UserError
	if errors.As(err, &cannot) {
		// Nothing would be better after a restart, and a service manager must not try for ever.
		why, hint := p.Log.Clean(cannot.Error()), cannot.Hint
		p.Log.Error().Str("error", why).Str("hint", hint).Msg("the daemon ends: a person has to set it up")
		fmt.Fprintf(r.out, "gchat-response-poller: %s\ngchat-response-poller: hint: %s\n", why, hint)
		return nil
	}
	if err != nil { // where the system starts the daemon, the log is where a person looks
		p.Log.Error().Err(err).Msg("the daemon ends")
	}
	return err
}
