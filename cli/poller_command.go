package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/hooks"
	"gchat-hooks/poller"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) pollerCommand() *cli.Command {
	return &cli.Command{
		Name:  "poller",
		Usage: "the daemon: reads replies, sends what waits, types answers into tmux (also as gchat-response-poller)",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{
				Name:  "pending-dir",
				Usage: "also serve the questions in `DIR`, repeatable",
			},
			&cli.StringFlag{
				Name:  "poll-interval",
				Usage: "look for replies every `SECONDS` (default: 3)",
			},
			&cli.BoolFlag{Name: "dry-run", Usage: "type nothing; print what would have been typed"},
			&cli.BoolFlag{Name: "once", Usage: "run one cycle, then end"},
		},
		Action: func(c *cli.Context) error {
			if s := c.String("poll-interval"); s != "" {
				if _, err := config.ParseInterval(s); err != nil {
					return usageError(
						fmt.Errorf("--poll-interval: %w", err),
						"gchat-hooks poller --help",
					)
				}
				_ = os.Setenv("GCHAT_POLLER_INTERVAL", s)
			}
			return p.runDaemon(c)
		},
		Subcommands: []*cli.Command{
			{
				Name: "install", Usage: "have the system start the daemon, now and at each login",
				Action: func(c *cli.Context) error { return p.pollerService().Install(c.Context) },
			}, {
				Name: "uninstall", Usage: "stop the daemon and remove its service",
				Action: func(c *cli.Context) error { return p.pollerService().Uninstall(c.Context) },
			},
		},
	}
}

func (p Program) pollerService() *service.Service {
	return service.NewDaemon(p.env, p.installedPath(), p.out)
}

func (p Program) healthCommand() *cli.Command {
	return &cli.Command{
		Name:  "health",
		Usage: "say whether the daemon works: exit code 0 yes, 1 it is stuck, 2 it never ran (also as health-check.sh)",
		Action: func(*cli.Context) error { // the line goes to stdout, where monitors read it
			line, code := service.Health(p.env, time.Now())
			fmt.Fprintln(p.out, line)
			if code == service.ExitHealthy {
				return nil
			}
			return silentError(errors.New(line), code)
		},
	}
}

// endPollers ends this user's pollers, except for the daemon. It waits up to a second for
// them.
func endPollers(env state.Getenv) {
	isLive := func(h state.Heartbeat) bool {
		// The pid in an old heartbeat, or in another machine's, may belong to another
		// program here.
		return h.IsAlive && !h.IsDaemon && !h.IsSilent(time.Now()) &&
			(h.PIDScope == "" || h.PIDScope == state.PIDScope())
	}
	for _, h := range state.ReadHeartbeats(env) {
		if isLive(h) {
			_ = syscall.Kill(h.PID, syscall.SIGTERM)
		}
	}
	for tries := 0; tries < 50 && slices.ContainsFunc(state.ReadHeartbeats(env), isLive); tries++ {
		time.Sleep(20 * time.Millisecond)
	}
}

// startDetachedPoller runs in the process that a hook or a command starts. It inherits
// the poller's lock, starts the poller, and ends.
func (p Program) startDetachedPoller() error {
	lock, err := state.InheritPollerLock(p.env, state.InheritedLockDescriptor)
	if err != nil { // a hook of an earlier version passes no lock
		lock, err = state.LockPoller(p.env)
	}
	if err != nil {
		return err
	}
	return lock.PassToPoller(p.self, state.DetachedFlag)
}

// runDetachedPoller is the poller that startDetachedPoller starts. It inherits the lock,
// and ends soon after its work is done.
func (p Program) runDetachedPoller(ctx context.Context) error {
	log := state.NewLog(p.env, "poller")
	lock, err := state.InheritPollerLock(p.env, state.InheritedLockDescriptor)
	if err == nil {
		err = poller.Run(ctx, poller.Options{
			Env:               p.env,
			Log:               log,
			ProgramPath:       p.self,
			Lock:              lock,
			EnqueueSummary:    hooks.EnqueueSummary,
			EnqueueDialogNote: hooks.EnqueueDialogReport,
			CloseByTranscript: hooks.CloseByTranscript,
		})
	}
	if err != nil {
		log.Error().Err(err).Msg("the poller ends")
	}
	return err
}

// runDaemon is gchat-response-poller: a poller that does not end by itself.
func (p Program) runDaemon(c *cli.Context) error {
	dirs := c.StringSlice("pending-dir")
	if len(dirs) == 0 {
		dirs = filepath.SplitList(p.env("GCHAT_POLLER_PENDING_DIR"))
	}
	for i, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return fmt.Errorf("resolve --pending-dir: %w", err)
		}
		dirs[i] = abs
	}
	hangup := make(chan os.Signal, 1)
	signal.Reset(syscall.SIGHUP) // Main lets it end a command; the daemon handles it
	signal.Notify(hangup, syscall.SIGHUP)
	log := state.NewLog(p.env, service.DaemonName)
	err := poller.Run(c.Context, poller.Options{
		Env:               p.env,
		Log:               log,
		ProgramPath:       p.installedPath(),
		Daemon:            true,
		Once:              c.Bool("once"),
		DryRun:            c.Bool("dry-run"),
		DryRunOutput:      p.out,
		QuestionDirs:      dirs,
		Hangup:            hangup,
		EnqueueSummary:    hooks.EnqueueSummary,
		EnqueueDialogNote: hooks.EnqueueDialogReport,
		CloseByTranscript: hooks.CloseByTranscript,
	})
	if userError, isUserError := errors.AsType[*state.UserError](err); isUserError {
		// A restart would not help, and a service manager must not restart the daemon
		// for ever: it ends with exit code 0.
		why, hint := log.Redact(userError.Error()), userError.Hint
		log.Error().
			Str("error", why).
			Str("hint", hint).
			Msg("the daemon ends: a person has to set it up")
		fmt.Fprintf(p.out, "gchat-response-poller: %s\n", why)
		fmt.Fprintf(p.out, "gchat-response-poller: hint: %s\n", hint)
		return nil
	}
	if err != nil && c.Context.Err() == nil {
		// If the system starts the daemon, a person looks into the log.
		log.Error().Err(err).Msg("the daemon ends")
		return err
	}
	return nil
}
