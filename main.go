// gchat-hooks lets a person answer Claude Code's questions from Google Chat. It is installed under several names and
// picks its job from the name it was called by, or from its first word.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/hooks"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func main() {
	self, _ := os.Executable()
	// Hooks are decided before any CLI library runs: that one prints usage errors to stdout, which is the protocol.
	if name, ok := hookName(os.Args); ok {
		if hooks.Known(name) { // one of another version is ignored in silence
			(&hooks.Hook{Name: name, Stdin: os.Stdin, Stdout: os.Stdout, Env: os.Getenv, Self: self}).Run()
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // the first signal drains, a second cuts
	if err := commands(self, os.Stdin, os.Stdout, os.Stderr).RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "gchat-hooks: error:", err)
		var hinted interface{ Hint() string }
		if errors.As(err, &hinted) {
			fmt.Fprintln(os.Stderr, "gchat-hooks: hint:", hinted.Hint())
		}
		os.Exit(exitCode(err))
	}
}

// hookName is the hook that this process was called as: by its own name, as `gchat-hooks hook NAME`, or as
// `gchat-hooks NAME`.
func hookName(args []string) (name string, ok bool) {
	if name = filepath.Base(args[0]); hooks.Known(name) {
		return name, true
	}
	if len(args) > 2 && args[1] == "hook" {
		return args[2], true
	}
	if len(args) > 1 && hooks.Known(args[1]) {
		return args[1], true
	}
	return "", false
}

// commands is what gchat-hooks does for people, by its first word.
func commands(self string, stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	wrong := func(_ *cli.Context, err error, _ bool) error { return usageError{err} }
	app := &cli.App{
		Name:      "gchat-hooks",
		Usage:     "answer Claude Code's questions from Google Chat",
		Version:   version(),
		Reader:    stdin,
		Writer:    stdout,
		ErrWriter: stderr,
		// Errors are said in one place, by main.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   wrong,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError{fmt.Errorf("no such command: %s", c.Args().First())}
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{
			{
				Name:  "demo",
				Usage: "ask a recorded question on the embedded space and answer it from the page",
				Description: "Try it:   gchat-hooks demo\n" +
					"Scripted: gchat-hooks demo --answer 2\n" +
					"Real:     gchat-hooks demo --claude",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "answer", Usage: "reply with `TEXT` instead of waiting for one from the page"},
					&cli.StringFlag{Name: "listen", Value: "127.0.0.1:0", Usage: "`ADDRESS` of the page"},
					&cli.BoolFlag{Name: "claude", Usage: "in a real Claude Code session (needs claude and tmux)"},
				},
				Action: func(c *cli.Context) error {
					if c.IsSet("answer") && c.String("answer") == "" {
						return usageError{errors.New("--answer takes a text")}
					}
					d := demo{self: self, out: stdout, answer: c.String("answer"), listen: c.String("listen")}
					if c.Bool("claude") {
						return d.runClaude(c.Context)
					}
					return d.run(c.Context)
				},
			},
			{
				Name:        "space",
				Usage:       "run the embedded space: Google Chat's API and a page, on this machine",
				Description: "Use it without Google:   gchat-hooks space --listen 127.0.0.1:8765 --data ~/.local/share/gchat-hooks/space",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "listen", Value: "127.0.0.1:0", Usage: "`ADDRESS`; beyond loopback a token is demanded"},
					&cli.StringFlag{Name: "data", Usage: "`DIR` to keep the messages in (default: in the state folder)"},
				},
				Action: func(c *cli.Context) error {
					data := c.String("data")
					if data == "" {
						data = filepath.Join(state.UserState(os.Getenv), "space")
					}
					return runSpace(c.Context, stdout, c.String("listen"), data)
				},
			},
			{
				Name:  "flush",
				Usage: "send what is waiting, then end",
				Flags: []cli.Flag{&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "end after `DURATION` at the latest"}},
				Action: func(c *cli.Context) error {
					ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
					defer cancel()
					p := &poller.Poller{Env: os.Getenv, Log: state.NewLog(os.Getenv, "flush")}
					p.Flush(ctx)
					return nil
				},
			},
			{
				Name:      "hook",
				Usage:     "run as a hook of Claude Code: its event on stdin, the decision on stdout",
				ArgsUsage: "NAME",
				Action: func(*cli.Context) error {
					return usageError{fmt.Errorf("hook takes a name: %s", strings.Join(hooks.Names(), ", "))}
				},
			},
		},
	}
	for _, c := range app.Commands {
		c.OnUsageError = wrong // else the library prints the error to stdout
		c.Before = func(ctx *cli.Context) error {
			if ctx.Args().Present() && ctx.Command.Name != "hook" {
				return usageError{fmt.Errorf("%s takes no %q", ctx.Command.Name, ctx.Args().First())}
			}
			return nil
		}
	}
	return app
}

// version is what the Go tool knows of this build.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func (usageError) Hint() string { return "gchat-hooks help" }

func exitCode(err error) int {
	if errors.As(err, new(usageError)) {
		return 4
	}
	return 1
}
