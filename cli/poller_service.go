package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// serviceCommands have the daemon kept running by the system.
func serviceCommands(self string, stdout io.Writer) (commands []*cli.Command) {
	flags := map[string][]cli.Flag{
		"install": {
			&cli.StringFlag{Name: "poll-interval", Usage: "as the daemon's"},
			&cli.StringSliceFlag{Name: "pending-dir", Usage: "as the daemon's"},
		},
		"logs": {
			&cli.IntFlag{Name: "lines", Value: 50, Usage: "how `MANY` lines"},
			&cli.BoolFlag{Name: "follow", Usage: "go on with what is written from now on"},
			&cli.BoolFlag{Name: "all", Usage: "the hooks' lines, too"},
		},
	}
	for _, c := range [][2]string{
		{"install", "have the system start the daemon, now and at each login"}, {"uninstall", "stop the daemon and remove its service"},
		{"start", "start the service"}, {"stop", "stop the service until the next login"},
		{"status", "say whether the service is installed and running"}, {"logs", "print the daemon's last log lines"},
	} {
		commands = append(commands, &cli.Command{Name: c[0], Usage: c[1], Flags: flags[c[0]], Action: func(ctx *cli.Context) error {
			o := serviceOptions{
				pollInterval: ctx.String("poll-interval"), pendingDirs: ctx.StringSlice("pending-dir"),
				lines: ctx.Int("lines"), follow: ctx.Bool("follow"), all: ctx.Bool("all"),
			}
			return runService(ctx.Context, c[0], o, os.Getenv, self, os.Args[0], stdout)
		}})
	}
	return commands
}

func (p Program) healthCommand() *cli.Command {
	return &cli.Command{
		Name:   "health",
		Usage:  "say whether the daemon polls: 0 it does, 1 too long ago, 2 never (also as health-check.sh)",
		Action: func(*cli.Context) error { return runHealth(os.Getenv, p.out) },
	}
}

// serviceOptions are the flags of `gchat-hooks poller install` and its sisters.
type serviceOptions struct {
	pollInterval string
	pendingDirs  []string
	lines        int
	follow       bool
	all          bool // the hooks' lines, too
}

// runService does one of the service's commands: install, uninstall, start, stop, status or logs. self is this program,
// calledAs the name that it was called by.
func runService(ctx context.Context, action string, o serviceOptions, env state.Getenv, self, calledAs string, out io.Writer) error {
	s := &poller.Service{Env: env, Self: self, UID: os.Getuid(), Out: out}
	switch action {
	case "install":
		program, err := poller.StableProgram(self, calledAs, env)
		if err != nil {
			return err
		}
		s.Self = program
		if err := state.NoteMade(env, state.Made{}); err != nil {
			return err
		}
		return s.Install(ctx, poller.ServiceOptions{PollInterval: o.pollInterval, PendingDirs: o.pendingDirs})
	case "uninstall":
		return s.Uninstall(ctx)
	case "start":
		return s.Start(ctx)
	case "stop":
		return s.Stop(ctx)
	case "status":
		return s.Status(ctx)
	case "logs":
		logs := poller.LogOptions{Lines: o.lines, Follow: o.follow, Job: "gchat-response-poller"}
		if o.all {
			logs.Job = ""
		}
		return s.Logs(ctx, logs)
	}
	return usage(fmt.Errorf("poller takes no %q", action), "")
}

// runHealth prints the health line on stdout, as monitors read it. Its error is a healthError, and has been said.
func runHealth(env state.Getenv, out io.Writer) error {
	line, code := poller.Health(env, time.Now())
	fmt.Fprintln(out, line)
	if code != 0 {
		return silent(errors.New(line), code)
	}
	return nil
}
