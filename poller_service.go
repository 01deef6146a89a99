package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"gchat-hooks/poller"
	"gchat-hooks/state"
)

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
	return usageError{error: fmt.Errorf("poller takes no %q", action)}
}

// healthError ends the health check with its exit code. What there is to say is said on stdout.
type healthError struct {
	line string
	code int
}

func (e healthError) Error() string { return e.line }
func (e healthError) ExitCode() int { return e.code }

// runHealth prints the health line on stdout, as monitors read it. Its error is a healthError, and has been said.
func runHealth(env state.Getenv, out io.Writer) error {
	line, code := poller.Health(env, time.Now())
	fmt.Fprintln(out, line)
	if code != 0 {
		return healthError{line, code}
	}
	return nil
}
