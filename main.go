// gchat-hooks lets a person answer Claude Code's questions from Google Chat. It is installed under several names and
// picks its job from the name it was called by, or from its first word.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/hooks"
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
	app := commands(self, os.Stdin, os.Stdout, os.Stderr)
	if err := app.RunContext(ctx, arguments(os.Args, app)); err != nil {
		calledAs := filepath.Base(os.Args[0])
		fmt.Fprintf(os.Stderr, "%s: error: %v\n", calledAs, err)
		var hinted interface{ Hint() string }
		if errors.As(err, &hinted) && hinted.Hint() != "" {
			fmt.Fprintf(os.Stderr, "%s: hint: %s\n", calledAs, hinted.Hint())
		}
		os.Exit(exitCode(err))
	}
}

// calledAs are the commands that have a name of their own, as a symlink and as a first word.
var calledAs = map[string]string{"gchat-send": "send"}

// arguments are the command line as the library wants it: the command first, its flags before its words.
func arguments(args []string, app *cli.App) []string {
	rest := args[1:]
	if name, ok := calledAs[filepath.Base(args[0])]; ok {
		rest = append([]string{name}, rest...)
	} else if len(rest) > 0 && calledAs[rest[0]] != "" {
		rest = append([]string{calledAs[rest[0]]}, rest[1:]...)
	}
	if len(rest) > 0 && rest[0] == "send" {
		c := app.Command("send")
		rest = append([]string{"send"}, flagsFirst(rest[1:], func(name string) (value, known bool) {
			for _, f := range append([]cli.Flag{cli.HelpFlag}, c.Flags...) {
				if slices.Contains(f.Names(), name) {
					_, isBool := f.(*cli.BoolFlag)
					return !isBool, true
				}
			}
			return false, false
		})...)
	}
	return append([]string{"gchat-hooks"}, rest...)
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
	cli.VersionPrinter = func(c *cli.Context) { fmt.Fprintln(stdout, c.App.Name, version()) }
	wrong := func(_ *cli.Context, err error, _ bool) error { return usageError{error: err} }
	app := &cli.App{
		Name:      "gchat-hooks",
		Usage:     "answer Claude Code's questions from Google Chat",
		Version:   "-", // asked for only when it is printed
		Reader:    stdin,
		Writer:    stdout,
		ErrWriter: stderr,
		// Errors are said in one place, by main.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   wrong,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError{error: fmt.Errorf("no such command: %s", c.Args().First())}
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
						return usageError{error: errors.New("--answer takes a text")}
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
				Description: "Use it without Google:   gchat-hooks space --listen 127.0.0.1:8765",
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
				Name:            "send",
				HideHelpCommand: true, // "help" is a message like any other
				Usage:           "send a message to the space (also as gchat-send)",
				UsageText:       "gchat-send [OPTIONS] MESSAGE\ngchat-send [OPTIONS] -        reads the message from standard input",
				Description: "Plain:   gchat-send \"Hello from Claude Code\"\n" +
					"Typed:   gchat-send --type task_completion \"Epic 3 completed. 12/12 subtasks validated.\"\n" +
					"Reply:   gchat-send --thread-key ask-user-12345 \"Follow-up to the question\"\n" +
					"Piped:   make 2>&1 | tail -20 | gchat-send --type error --code -\n" +
					"Exit codes: 0 sent, 1 no webhook URL, 2 not delivered (it stays in the outbox), 4 wrong arguments",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "type", Value: "plain", Usage: "`TYPE`: task_completion, progress_update, blocked_alert, heartbeat, session_start, session_end, error or plain"},
					&cli.StringFlag{Name: "thread-key", Usage: "reply in the thread of `KEY`, which begins it if need be"},
					&cli.StringFlag{Name: "thread-name", Usage: "reply in the thread `NAME`, spaces/S/threads/T"},
					&cli.StringFlag{Name: "session", Usage: "`NAME` of the session, in the header; its messages share a thread (default: $CLAUDE_SESSION_ID, the tmux session, $TMUX_PANE, the folder)"},
					&cli.StringFlag{Name: "title", Usage: "bold `LINE` above the message"},
					&cli.BoolFlag{Name: "code", Usage: "the message is a program's output: shown as it stands, not read as Markdown"},
					&cli.BoolFlag{Name: "quiet", Usage: "print nothing when all goes well; the exit code tells"},
					&cli.BoolFlag{Name: "json", Usage: "print the message's name and its thread's name"},
					&cli.BoolFlag{Name: "dry-run", Usage: "print what would be posted, and post nothing"},
					&cli.BoolFlag{Name: "queue", Usage: "leave the message in the outbox for another process to send, and return"},
					&cli.BoolFlag{Name: "no-queue", Usage: "send it now or never: what is not delivered is not kept"},
				},
				Action: func(c *cli.Context) error {
					s := send{
						self: self, env: os.Getenv, in: stdin, out: stdout, errOut: stderr, kind: c.String("type"), title: c.String("title"),
						threadKey: c.String("thread-key"), threadName: c.String("thread-name"), session: c.String("session"),
						quiet: c.Bool("quiet"), code: c.Bool("code"), dryRun: c.Bool("dry-run"), asJSON: c.Bool("json"), queueOnly: c.Bool("queue"), withoutDisk: c.Bool("no-queue"),
					}
					return s.run(c.Context, c.Args().Slice())
				},
			},
			{
				Name:  "flush",
				Usage: "send what is waiting, then end",
				Flags: []cli.Flag{
					&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "end after `DURATION` at the latest"},
					&cli.BoolFlag{Name: "dead", Usage: "try the messages again that Chat refused"},
					&cli.BoolFlag{Name: "held", Usage: "send what is held back for a digest or by quiet hours"},
					&cli.BoolFlag{Name: "detached", Hidden: true, Usage: "as hooks start it: end if another one runs, wait for what is held back"},
				},
				Action: func(c *cli.Context) error {
					f := flush{self: self, env: os.Getenv, out: stdout}
					if c.Bool("detached") {
						f.detached(c.Context)
						return nil
					}
					ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
					defer cancel()
					return f.run(ctx, c.Bool("dead"), c.Bool("held"))
				},
			},
			{
				Name:   "status",
				Usage:  "show what waits for Google Chat, and what was put aside",
				Action: func(*cli.Context) error { return status(os.Getenv, stdout) },
			},
			{
				Name:      "hook",
				Usage:     "run as a hook of Claude Code: its event on stdin, the decision on stdout",
				ArgsUsage: "NAME",
				Action: func(*cli.Context) error {
					return usageError{error: fmt.Errorf("hook takes a name: %s", strings.Join(hooks.Names(), ", "))}
				},
			},
		},
	}
	for _, c := range app.Commands {
		c.OnUsageError = func(ctx *cli.Context, err error, _ bool) error { // else the library prints the error to stdout
			return usageError{err, "gchat-hooks " + ctx.Command.Name + " --help"}
		}
		c.Before = func(ctx *cli.Context) error {
			if ctx.Args().Present() && ctx.Command.Name != "hook" && ctx.Command.Name != "send" {
				return usageError{error: fmt.Errorf("%s takes no %q", ctx.Command.Name, ctx.Args().First())}
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
type usageError struct {
	error
	hint string // the command that tells more
}

func (e usageError) Hint() string { return cmp.Or(e.hint, "gchat-hooks help") }
func (usageError) ExitCode() int  { return exitUsage }

func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}
