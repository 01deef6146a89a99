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
			os.Exit((&hooks.Hook{Name: name, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Self: self}).Run())
		}
		return
	}
	app := commands(self, os.Stdin, os.Stdout, os.Stderr)
	args := arguments(os.Args, app)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	if len(args) > 1 && args[1] == "poller" {
		ends = ends[:2] // a daemon reads its configuration afresh instead
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	context.AfterFunc(ctx, stop) // the first signal drains, a second cuts
	if err := app.RunContext(ctx, args); err != nil {
		calledAs := filepath.Base(os.Args[0])
		if !errors.As(err, new(healthError)) && !errors.As(err, new(noReply)) { // that was said on stdout
			fmt.Fprintf(os.Stderr, "%s: error: %v\n", calledAs, err)
		}
		var hinted interface{ Hint() string }
		if errors.As(err, &hinted) && hinted.Hint() != "" {
			fmt.Fprintf(os.Stderr, "%s: hint: %s\n", calledAs, hinted.Hint())
		}
		os.Exit(exitCode(err))
	}
}

// calledAs are the commands that have a name of their own, as a symlink and as a first word.
var calledAs = map[string]string{"gchat-send": "send", "gchat-wait": "wait", "gchat-response-poller": "poller", "menu-driver": "menu", "menu-driver.sh": "menu", "health-check.sh": "health"}

// arguments are the command line as the library wants it: the command first, its flags before its words.
func arguments(args []string, app *cli.App) []string {
	rest := args[1:]
	if name, ok := calledAs[filepath.Base(args[0])]; ok {
		rest = append([]string{name}, rest...)
	} else if len(rest) > 0 && calledAs[rest[0]] != "" {
		rest = append([]string{calledAs[rest[0]]}, rest[1:]...)
	}
	if len(rest) > 0 && (rest[0] == "send" || rest[0] == "wait") {
		c := app.Command(rest[0])
		rest = append([]string{rest[0]}, flagsFirst(rest[1:], func(name string) (value, known bool) {
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
				Name:  "poller",
				Usage: "the daemon: reads replies, sends what waits, types answers into tmux (also as gchat-response-poller)",
				Flags: []cli.Flag{
					&cli.StringSliceFlag{Name: "pending-dir", Usage: "serve the questions in `DIR`, repeatable (default: of all projects)"},
					&cli.StringFlag{Name: "poll-interval", Usage: "`SECONDS` from one look to the next when nobody answers (default: 10)"},
					&cli.BoolFlag{Name: "dry-run", Usage: "do everything but type; say what would have been typed"},
					&cli.BoolFlag{Name: "once", Usage: "one cycle, then end"},
				},
				Action: func(c *cli.Context) error {
					if s := c.String("poll-interval"); s != "" {
						if _, err := state.ParseInterval(s); err != nil {
							return usageError{error: fmt.Errorf("--poll-interval: %w", err)}
						}
					}
					r := responsePoller{
						env: os.Getenv, out: stdout, pendingDirs: c.StringSlice("pending-dir"), interval: c.String("poll-interval"),
						dryRun: c.Bool("dry-run"), once: c.Bool("once"),
					}
					return r.run(c.Context)
				},
				Subcommands: serviceCommands(self, stdout),
			},
			{
				Name:      "wait",
				Usage:     "wait for the reply to a question, or in a thread (also as gchat-wait)",
				UsageText: "gchat-wait --question-id ID | --thread-key KEY | --thread-name NAME | --marker FILE [OPTIONS]\ngchat-wait --first-of ID ID ... [OPTIONS]",
				Description: "One:     gchat-wait --question-id ask-0f2b-1a2b3c4d\n" +
					"Several: gchat-wait --first-of ask-0f2b-1a2b3c4d ask-0f2b-5e6f7a8b --json\n" +
					"It prints one line, \"GCHAT_RESPONSE: what was typed\" or \"GCHAT_TIMEOUT: No response in 30 minutes\".\n" +
					"Exit codes: 0 replied, 2 trouble, wrong arguments too, 3 nobody replied in time",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "question-id", Usage: "the question `ID`"},
					&cli.StringFlag{Name: "thread-key", Usage: "the question, or the message of ours, with that thread `KEY`"},
					&cli.StringFlag{Name: "thread-name", Usage: "the question in the thread `NAME`, spaces/S/threads/T, else the thread itself"},
					&cli.StringFlag{Name: "marker", Usage: "the question in `FILE`"},
					&cli.StringSliceFlag{Name: "first-of", Usage: "whichever of these is replied to first: `IDS`, thread keys, thread names or files, also separated by commas"},
					&cli.StringFlag{Name: "interval", Usage: "`TIME` from one look to the next when nobody replies (default: 15s, or what is configured, if that is less)"},
					&cli.StringFlag{Name: "timeout", Value: "30m", Usage: "give up after `TIME`"},
					&cli.BoolFlag{Name: "json", Usage: "print an object: status, response, answers, answered_by, question_id, thread_name"},
				},
				Action: func(c *cli.Context) error {
					replyTo, err := awaitedOf(c.String("question-id"), c.String("thread-key"), c.String("thread-name"), c.String("marker"), c.StringSlice("first-of"), c.Args().Slice())
					if err != nil {
						return waitError{err, "gchat-hooks wait --help"}
					}
					timeout, err := state.ParseInterval(c.String("timeout"))
					if err != nil {
						return waitError{fmt.Errorf("--timeout: %w", err), ""}
					}
					if s := c.String("interval"); s != "" {
						if _, err := state.ParseInterval(s); err != nil {
							return waitError{fmt.Errorf("--interval: %w", err), ""}
						}
					}
					return wait{
						env: os.Getenv, self: self, out: stdout, errOut: stderr, interval: c.String("interval"), timeout: timeout,
						asJSON: c.Bool("json"), replyTo: replyTo,
					}.run(c.Context)
				},
			},
			{
				Name:   "health",
				Usage:  "say whether the daemon polls: 0 it does, 1 too long ago, 2 never (also as health-check.sh)",
				Action: func(*cli.Context) error { return runHealth(os.Getenv, stdout) },
			},
			{
				Name:            "menu",
				HideHelpCommand: true, // "help" is a text like any other
				Usage:           "look at a session's screen and press its keys, checked (also as menu-driver)",
				UsageText:       "menu-driver [--force] SESSION ACTION",
				Description: "SESSION is a tmux session, by name or by a beginning that only it has, or a pane, %3.\n" +
					"Look:    menu-driver orch-epic4 snapshot\n" +
					"Answer:  menu-driver orch-epic4 choose 2\n" +
					"Write:   menu-driver orch-epic4 type \"go on with F2.2\", then menu-driver orch-epic4 submit\n" +
					"Keys:    menu-driver orch-epic4 enter, menu-driver orch-epic4 esc\n" +
					"Afresh:  menu-driver orch-epic4 clear_then \"read PLAN.md and begin\"\n" +
					"Exit codes: 0 done, 1 no such session, 2 refused (what is on the screen is said), 3 pressed without a visible effect, 4 wrong arguments",
				Flags: []cli.Flag{&cli.BoolFlag{Name: "force", Usage: "whatever is on the screen"}},
				Action: func(c *cli.Context) error {
					return runMenu(c.Context, os.Getenv, stdout, c.Bool("force"), c.Args().Slice())
				},
			},
			{
				Name:   "status",
				Usage:  "show what waits for Google Chat, and what was put aside",
				Action: func(*cli.Context) error { return status(os.Getenv, stdout) },
			},
			{
				Name:  "verify",
				Usage: "check in the space itself that threads are kept apart and replies are found",
				Description: "Once:    gchat-hooks verify                 (you reply to one question)\n" +
					"In CI:   gchat-hooks verify --no-human --json\n" +
					"It posts about a dozen messages, in threads marked [Verify] that can be deleted.\n" +
					"Exit codes: 0 all passed or skipped, 1 no webhook or the space cannot be read, 2 a scenario failed, 4 wrong arguments",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "no-human", Usage: "skip the scenario that waits for a person's reply"},
					&cli.StringFlag{Name: "wait", Value: "5m", Usage: "wait so `LONG` for that reply"},
					&cli.StringFlag{Name: "timeout", Value: "5s", Usage: "how `LONG` nobody answers the last question"},
					&cli.StringFlag{Name: "report", Usage: "`FILE` for the report (default: gchat-verify-DATE-TIME.json in the state folder)"},
					&cli.BoolFlag{Name: "json", Usage: "print the report in place of a line for each scenario"},
				},
				Action: func(c *cli.Context) error {
					var long [2]time.Duration
					for i, name := range []string{"wait", "timeout"} {
						var err error
						if long[i], err = state.ParseInterval(c.String(name)); err != nil {
							return usageError{fmt.Errorf("--%s: %w", name, err), "gchat-hooks verify --help"}
						}
					}
					v := verify{
						env: os.Getenv, out: stdout, errOut: stderr, noHuman: c.Bool("no-human"), wait: long[0], timeout: long[1],
						file: c.String("report"), asJSON: c.Bool("json"),
					}
					return v.run(c.Context)
				},
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
	for _, c := range append(app.Commands, app.Command("poller").Subcommands...) {
		c.OnUsageError = func(ctx *cli.Context, err error, _ bool) error { // else the library prints the error to stdout
			if ctx.Command.Name == "wait" { // whoever calls it tells only a reply, a timeout and trouble apart
				return waitError{err, "gchat-hooks wait --help"}
			}
			return usageError{err, "gchat-hooks " + ctx.Command.Name + " --help"}
		}
		c.Before = func(ctx *cli.Context) error {
			words := ctx.Args()
			if words.Present() && ctx.Command.Command(words.First()) == nil && !slices.Contains([]string{"hook", "send", "menu", "wait"}, ctx.Command.Name) {
				return usageError{error: fmt.Errorf("%s takes no %q", ctx.Command.Name, ctx.Args().First())}
			}
			return nil
		}
	}
	return app
}

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
