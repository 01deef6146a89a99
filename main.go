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
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/hooks"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/hooks/wake"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func main() {
	self, _ := os.Executable()
	// Hooks are decided before any CLI library runs: that one prints usage errors to stdout, which is the protocol.
	if name, ok := hookName(os.Args); ok {
		h := &hooks.Hook{Name: name, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Self: self}
		if hooks.Known(name) || wake.Hook(h) { // one of another version is ignored in silence
			os.Exit(h.Run())
		}
		return
	}
	self = asCalled(os.Args[0], self)
	app := commands(cliProgram{self: self, in: os.Stdin, out: os.Stdout, errOut: os.Stderr})
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
		if !errors.As(err, new(healthError)) && !errors.As(err, new(noReply)) && !errors.As(err, new(unwell)) { // that was said on stdout
			fmt.Fprintf(os.Stderr, "%s: error: %s\n", calledAs, plain(err.Error()))
		}
		var hinted interface{ Hint() string }
		if errors.As(err, &hinted) && hinted.Hint() != "" {
			fmt.Fprintf(os.Stderr, "%s: hint: %s\n", calledAs, plain(hinted.Hint()))
		}
		os.Exit(exitCode(err))
	}
}

// plain is what an error says without what a terminal obeys, and without secrets: Chat's words are in it, and those of files.
func plain(s string) string { return new(state.Redactor).Clean(poller.Printable(s)) }

// asCalled is the path of this program where it was called: a link in a person's folder outlasts the version that it leads
// to. self is that version, for a call that tells nothing.
func asCalled(arg0, self string) string {
	called, err := exec.LookPath(arg0)
	if err != nil {
		return self
	}
	if called, err = filepath.Abs(called); err != nil {
		return self
	}
	called = filepath.Join(filepath.Dir(called), "gchat-hooks") // it may have been called by the name of a command
	there, err := os.Stat(called)
	is, err2 := os.Stat(self)
	if err != nil || err2 != nil || !os.SameFile(there, is) {
		return self
	}
	return called
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
	if len(rest) > 0 && slices.Contains([]string{"send", "wait", "answer"}, rest[0]) {
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
	known := func(name string) bool { return hooks.Known(name) || wake.Known(name) }
	if name = filepath.Base(args[0]); known(name) {
		return name, true
	}
	if len(args) > 2 && args[1] == "hook" && args[2] != "--help" && args[2] != "-h" {
		return args[2], true
	}
	if len(args) > 1 && known(args[1]) {
		return args[1], true
	}
	return "", false
}

// cliProgram is what every command is given: its own path, and the terminal.
type cliProgram struct {
	self        string
	in          io.Reader
	out, errOut io.Writer
}

// commands is what gchat-hooks does for people, by its first word. Each has its flag table below, in this order.
func commands(p cliProgram) *cli.App {
	shown := cli.FlagStringer
	cli.FlagStringer = func(f cli.Flag) string { // what says nothing
		return strings.NewReplacer(" (default: false)", "", " (default: 0)", "").Replace(shown(f))
	}
	cli.VersionPrinter = func(c *cli.Context) { fmt.Fprintln(p.out, c.App.Name, version()) }
	wrong := func(_ *cli.Context, err error, _ bool) error { return usageError{error: err} }
	app := &cli.App{
		Name:      "gchat-hooks",
		Usage:     "answer Claude Code's questions from Google Chat",
		Version:   version(),
		Reader:    p.in,
		Writer:    p.out,
		ErrWriter: p.errOut,
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
			p.demoCommand(),
			p.spaceCommand(),
			p.sendCommand(),
			p.flushCommand(),
			p.wakeCommand(),
			p.pollerCommand(),
			p.waitCommand(),
			p.healthCommand(),
			p.menuCommand(),
			p.installCommand(),
			p.uninstallCommand(),
			p.setupCommand(),
			p.loginCommand(),
			p.logoutCommand(),
			p.migrateCommand(),
			p.statusCommand(),
			p.answerCommand(),
			p.logsCommand(),
			p.completionCommand(),
			p.doctorCommand(),
			p.verifyCommand(),
			p.hookCommand(),
		},
	}
	for _, c := range slices.Concat(app.Commands, app.Command("poller").Subcommands, app.Command("migrate").Subcommands) {
		c.OnUsageError = func(ctx *cli.Context, err error, _ bool) error { // else the library prints the error to stdout
			if ctx.Command.Name == "wait" { // whoever calls it tells only a reply, a timeout and trouble apart
				return waitError{err, "gchat-hooks wait --help"}
			}
			return usageError{err, "gchat-hooks " + ctx.Command.Name + " --help"}
		}
		c.Before = func(ctx *cli.Context) error {
			words := ctx.Args()
			if ctx.Command.Name == "setup" && strings.Contains(words.First(), "://") {
				return urlInSight("setup takes no URL as an argument")
			}
			if words.Present() && ctx.Command.Command(words.First()) == nil && !slices.Contains([]string{"hook", "send", "menu", "wait", "answer", "completion"}, ctx.Command.Name) {
				return usageError{error: fmt.Errorf("%s takes no %q", ctx.Command.Name, ctx.Args().First())}
			}
			return nil
		}
	}
	return app
}

func (p cliProgram) demoCommand() *cli.Command {
	return &cli.Command{
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
			d := demo{self: p.self, out: p.out, answer: c.String("answer"), listen: c.String("listen")}
			if c.Bool("claude") {
				return d.runClaude(c.Context)
			}
			return d.run(c.Context)
		},
	}
}

func (p cliProgram) spaceCommand() *cli.Command {
	return &cli.Command{
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
			return runSpace(c.Context, p.out, c.String("listen"), data)
		},
	}
}

func (p cliProgram) sendCommand() *cli.Command {
	return &cli.Command{
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
				self: p.self, env: os.Getenv, in: p.in, out: p.out, errOut: p.errOut, kind: c.String("type"), title: c.String("title"),
				threadKey: c.String("thread-key"), threadName: c.String("thread-name"), session: c.String("session"),
				quiet: c.Bool("quiet"), code: c.Bool("code"), dryRun: c.Bool("dry-run"), asJSON: c.Bool("json"), queueOnly: c.Bool("queue"), withoutDisk: c.Bool("no-queue"),
			}
			return s.run(c.Context, c.Args().Slice())
		},
	}
}

func (p cliProgram) flushCommand() *cli.Command {
	return &cli.Command{
		Name:  "flush",
		Usage: "send what is waiting, then end",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "end after `DURATION` at the latest"},
			&cli.BoolFlag{Name: "dead", Usage: "try the messages again that Chat refused"},
			&cli.BoolFlag{Name: "forget-dead", Usage: "drop the messages that Chat refused, and say which; nothing is sent"},
			&cli.BoolFlag{Name: "held", Usage: "send what is held back for a digest or by quiet hours"},
			&cli.BoolFlag{Name: "detached", Hidden: true, Usage: "as hooks start it: end if another one runs, wait for what is held back"},
		},
		Action: func(c *cli.Context) error {
			f := flush{self: p.self, env: os.Getenv, out: p.out}
			if c.Bool("detached") {
				f.detached(c.Context)
				return nil
			}
			if c.Bool("forget-dead") {
				if c.Bool("dead") || c.Bool("held") {
					return usageError{errors.New("--forget-dead sends nothing: it does not go with --dead or --held"), "gchat-hooks flush --help"}
				}
				return f.forget()
			}
			ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
			defer cancel()
			return f.run(ctx, c.Bool("dead"), c.Bool("held"))
		},
	}
}

func (p cliProgram) wakeCommand() *cli.Command {
	return &cli.Command{
		Name:  "wake",
		Usage: "hand over what waits for OpenClaw agents, now",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "detached", Hidden: true, Usage: "as hooks start it: until nothing waits"},
			&cli.StringFlag{Name: "first", Hidden: true, Usage: "the message in `FILE` before all others"},
			&cli.StringFlag{Name: "started", Hidden: true, Usage: "the process `PID` is handing that over"},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("detached") {
				courier(os.Getenv, c.String("first"), c.String("started")).Run(c.Context)
				return nil
			}
			return runWake(c.Context, os.Getenv, p.out)
		},
	}
}

func (p cliProgram) pollerCommand() *cli.Command {
	return &cli.Command{
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
				self: p.self, env: os.Getenv, out: p.out, pendingDirs: c.StringSlice("pending-dir"), interval: c.String("poll-interval"),
				dryRun: c.Bool("dry-run"), once: c.Bool("once"),
			}
			return r.run(c.Context)
		},
		Subcommands: serviceCommands(p.self, p.out),
	}
}

func (p cliProgram) waitCommand() *cli.Command {
	return &cli.Command{
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
				env: os.Getenv, self: p.self, out: p.out, errOut: p.errOut, interval: c.String("interval"), timeout: timeout,
				asJSON: c.Bool("json"), replyTo: replyTo,
			}.run(c.Context)
		},
	}
}

func (p cliProgram) healthCommand() *cli.Command {
	return &cli.Command{
		Name:   "health",
		Usage:  "say whether the daemon polls: 0 it does, 1 too long ago, 2 never (also as health-check.sh)",
		Action: func(*cli.Context) error { return runHealth(os.Getenv, p.out) },
	}
}

func (p cliProgram) menuCommand() *cli.Command {
	return &cli.Command{
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
			return runMenu(c.Context, os.Getenv, p.out, c.Bool("force"), c.Args().Slice())
		},
	}
}

func (p cliProgram) installCommand() *cli.Command {
	return &cli.Command{
		Name:  "install",
		Usage: "write the hooks into Claude Code's settings",
		Description: "Look:    gchat-hooks install --dry-run\n" +
			"Do it:   gchat-hooks install                        (questions: answer them from Google Chat)\n" +
			"More:    gchat-hooks install --preset report        (and reports), --preset system3, --preset wake\n" +
			"The last one counts: what an earlier install put in and this one does not have goes. Other hooks stay as they are.",
		Flags: append(scopeFlags(),
			&cli.StringSliceFlag{Name: "preset", Usage: "`NAME`: " + strings.Join(settings.Presets(), ", ") + "; repeatable (default: answer)"},
			&cli.IntFlag{Name: "phase", Usage: "`1`, 2 or 3 of a roll-out beside another bridge: only send, also answer, all"},
			&cli.BoolFlag{Name: "links", Usage: "also link all names (gchat-send, menu-driver.sh, ...) beside this program"},
			&cli.StringFlag{Name: "claude-version", Usage: "`VERSION` of the Claude Code that reads the settings (default: what claude --version says)"},
			&cli.BoolFlag{Name: "keep", Usage: "leave the hooks that are registered already, where no --preset is given"},
			&cli.StringFlag{Name: "place", Hidden: true, Usage: "copy the program into `FILE` first, and register that one"},
		),
		Action: func(c *cli.Context) error {
			scope, err := scopeOf(c)
			if err != nil {
				return err
			}
			i := install{
				env: os.Getenv, self: p.self, out: p.out, scope: scope, presets: c.StringSlice("preset"), phase: c.Int("phase"),
				dryRun: c.Bool("dry-run"), links: c.Bool("links"), keep: c.Bool("keep"), claude: c.String("claude-version"),
			}
			if program := c.String("place"); program != "" {
				if err := i.place(c.Context, program); err != nil {
					return err
				}
				i.self = program
			}
			return i.run(c.Context)
		},
	}
}

func (p cliProgram) uninstallCommand() *cli.Command {
	return &cli.Command{
		Name:  "uninstall",
		Usage: "take the hooks out of Claude Code's settings again",
		Description: "Hooks only:  gchat-hooks uninstall\n" +
			"All of it:   gchat-hooks uninstall --purge          (it shows what goes, and asks)",
		Flags: append(scopeFlags(),
			&cli.BoolFlag{Name: "links", Usage: "also remove the links beside this program"},
			&cli.BoolFlag{Name: "purge", Usage: "leave no trace: hooks of all scopes, service, login, links, logs, state, and your configuration since"},
			&cli.BoolFlag{Name: "yes", Usage: "with --purge: do not ask"},
		),
		Action: func(c *cli.Context) error {
			if c.Bool("purge") {
				if c.Bool("user") || c.Bool("project") || c.Bool("local") {
					return usageError{errors.New("--purge takes the hooks out of all scopes"), "gchat-hooks uninstall --help"}
				}
				return (&purge{
					env: os.Getenv, self: p.self, out: p.out, ask: newAsker(p.in, p.out), yes: c.Bool("yes"), dry: c.Bool("dry-run"),
				}).run(c.Context)
			}
			scope, err := scopeOf(c)
			if err != nil {
				return err
			}
			return install{env: os.Getenv, self: p.self, out: p.out, scope: scope, dryRun: c.Bool("dry-run"), links: c.Bool("links")}.runUninstall(c.Context)
		},
	}
}

func (p cliProgram) setupCommand() *cli.Command {
	return &cli.Command{
		Name:  "setup",
		Usage: "from nothing to a question answered: asks for what is missing, tries it, writes it down",
		Description: "On a terminal:  gchat-hooks setup\n" +
			"No Google:      gchat-hooks setup --space\n" +
			"In a script:    GOOGLE_CHAT_WEBHOOK_URL=... gchat-hooks setup --credentials-file key.json --allow users/123\n" +
			"What is done already is not asked again. Without a terminal nothing is asked.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "webhook-url-file", Usage: "`FILE` that holds the webhook URL, - for standard input (or $GOOGLE_CHAT_WEBHOOK_URL itself)", EnvVars: []string{"GCHAT_SETUP_WEBHOOK_URL_FILE"}},
			&cli.StringFlag{Name: "webhook-url", Aliases: []string{"webhook"}, Hidden: true}, // who tries it is told what to use
			&cli.StringFlag{Name: "space-id", Usage: "the space's `ID`, where the URL does not say it (or $GOOGLE_CHAT_SPACE_ID)"},
			&cli.BoolFlag{Name: "space", Usage: "the embedded space in place of Google", EnvVars: []string{"GCHAT_SETUP_SPACE"}},
			&cli.BoolFlag{Name: "replace", Usage: "with --space: also where questions go to Google now, whose webhook's URL is lost then", EnvVars: []string{"GCHAT_SETUP_REPLACE"}},
			&cli.StringFlag{Name: "address", Value: "127.0.0.1:8765", Usage: "`ADDRESS` of the embedded space", EnvVars: []string{"GCHAT_SETUP_ADDRESS"}},
			&cli.StringFlag{Name: "client-id-file", Usage: "log in with the OAuth client's JSON `FILE`", EnvVars: []string{"GCHAT_CLIENT_ID_FILE"}},
			&cli.StringFlag{Name: "credentials-file", Usage: "read with the credentials in `FILE` (or $GOOGLE_CHAT_CREDENTIALS_FILE)"},
			&cli.BoolFlag{Name: "send-only", Usage: "do not read replies", EnvVars: []string{"GCHAT_SETUP_SEND_ONLY"}},
			&cli.BoolFlag{Name: "no-browser", Usage: "only print the address to log in at", EnvVars: []string{"GCHAT_SETUP_NO_BROWSER"}},
			&cli.StringSliceFlag{Name: "allow", Usage: "`users/ID` or an e-mail address that may answer, repeatable (or $GCHAT_ALLOWED_USERS)"},
			&cli.BoolFlag{Name: "round-trip", Usage: "wait for a reply to a test message (asked for on a terminal; --no-round-trip)", EnvVars: []string{"GCHAT_SETUP_ROUND_TRIP"}},
			&cli.BoolFlag{Name: "no-round-trip", Hidden: true},
			&cli.DurationFlag{Name: "wait", Value: 5 * time.Minute, Usage: "wait so `LONG` for you", EnvVars: []string{"GCHAT_SETUP_WAIT"}},
			&cli.BoolFlag{Name: "hooks", Usage: "register the hooks (default; --no-hooks)", EnvVars: []string{"GCHAT_SETUP_HOOKS"}},
			&cli.BoolFlag{Name: "no-hooks", Hidden: true},
			&cli.StringSliceFlag{Name: "preset", Usage: "`NAME`, as of install", EnvVars: []string{"GCHAT_SETUP_PRESET"}},
			&cli.BoolFlag{Name: "service", Usage: "have the system keep the daemon running (asked for on a terminal; --no-service)", EnvVars: []string{"GCHAT_SETUP_SERVICE"}},
			&cli.BoolFlag{Name: "no-service", Hidden: true},
		},
		Action: func(c *cli.Context) error {
			if c.IsSet("webhook-url") {
				return urlInSight("--webhook-url takes no URL")
			}
			said := func(name string) *bool { // a yes, a no, or nothing
				yes, no := c.Bool(name), c.Bool("no-"+name)
				if no {
					yes = false
				}
				if !no && !c.IsSet(name) {
					return nil
				}
				return &yes
			}
			return (&setup{
				env: os.Getenv, self: p.self, out: p.out, ask: newAsker(p.in, p.out),
				setupAnswers: setupAnswers{
					webhookFile: c.String("webhook-url-file"), spaceID: c.String("space-id"), local: c.Bool("space"), replace: c.Bool("replace"), address: c.String("address"),
					clientFile: c.String("client-id-file"), credentialsFile: c.String("credentials-file"), sendOnly: c.Bool("send-only"),
					noBrowser: c.Bool("no-browser"), allow: c.StringSlice("allow"), presets: c.StringSlice("preset"),
					hooks: said("hooks"), service: said("service"), trip: said("round-trip"), wait: c.Duration("wait"),
				},
			}).run(c.Context)
		},
	}
}

func (p cliProgram) loginCommand() *cli.Command {
	return &cli.Command{
		Name:  "login",
		Usage: "let this machine read your Google Chat: asks in your browser, for reading only",
		Description: "gchat-hooks login --client-id-file client_secret.json\n" +
			"The file is your own OAuth client's, of type Desktop app. Over ssh, open the address elsewhere and paste what the browser shows.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "client-id-file", Usage: "the OAuth client's JSON `FILE` (default: the client of the login that is kept)", EnvVars: []string{"GCHAT_CLIENT_ID_FILE"}},
			&cli.BoolFlag{Name: "no-browser", Usage: "only print the address"},
			&cli.DurationFlag{Name: "wait", Value: 5 * time.Minute, Usage: "wait so `LONG` for you"},
		},
		Action: func(c *cli.Context) error {
			return runLogin(c.Context, os.Getenv, p.in, p.out, c.String("client-id-file"), c.Bool("no-browser"), c.Duration("wait"))
		},
	}
}

func (p cliProgram) logoutCommand() *cli.Command {
	return &cli.Command{
		Name:   "logout",
		Usage:  "end the login, at Google too",
		Action: func(c *cli.Context) error { return runLogout(c.Context, os.Getenv, p.out) },
	}
}

func (p cliProgram) migrateCommand() *cli.Command {
	return &cli.Command{
		Name:  "migrate",
		Usage: "take a harness from a relay agent to gchat-hooks",
		Subcommands: []*cli.Command{{
			Name:  "s3-communicator",
			Usage: "from the agent of that name",
			Description: "Look:    gchat-hooks migrate s3-communicator --harness DIR\n" +
				"Do it:   gchat-hooks migrate s3-communicator --harness DIR --apply\n" +
				"Back:    gchat-hooks migrate s3-communicator --harness DIR --revert\n" +
				"Exit codes: 0 done or shown, 1 no harness there, 2 some files were left as they are; what is left to look at is listed, and no failure",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "harness", Value: ".", Usage: "the folder `DIR` that holds .claude"},
				&cli.BoolFlag{Name: "apply", Usage: "do what the plan shows"},
				&cli.BoolFlag{Name: "revert", Usage: "take back what --apply did"},
			},
			Action: func(c *cli.Context) error {
				if c.Bool("apply") && c.Bool("revert") {
					return usageError{errors.New("--apply and --revert exclude each other"), "gchat-hooks migrate s3-communicator --help"}
				}
				return migration{out: p.out, harness: c.String("harness"), apply: c.Bool("apply"), revert: c.Bool("revert")}.run()
			},
		}},
		Action: func(*cli.Context) error {
			return usageError{errors.New("migrate takes what to migrate from: s3-communicator"), "gchat-hooks migrate --help"}
		},
	}
}

func (p cliProgram) statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "show open questions, sessions, what waits for Google Chat, what was put aside, the last errors",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print an object"},
			&cli.BoolFlag{Name: "watch", Usage: "go on showing it as it changes, until Ctrl-C"},
		},
		Action: func(c *cli.Context) error {
			return status{env: os.Getenv, out: p.out, asJSON: c.Bool("json"), watch: c.Bool("watch")}.run(c.Context)
		},
	}
}

func (p cliProgram) answerCommand() *cli.Command {
	return &cli.Command{
		Name:            "answer",
		HideHelpCommand: true, // "help" is an answer like any other
		Usage:           "answer a question at this shell, as a reply in its thread does; without arguments, list what is open",
		UsageText:       "gchat-hooks answer ID TEXT...\ngchat-hooks answer ID -         reads the text from standard input",
		Description: "ID is the question's id or its thread's key, a beginning that only it has, or its session's name.\n" +
			"TEXT is what you would type in Chat: 2, 1,3, \"2 - but keep the footer\", own words, \"Q1: 2; Q2: 1\".\n" +
			"Exit codes: 0 answered, 1 no such question, or not one, 2 not understood, or already over, 4 wrong arguments",
		Action: func(c *cli.Context) error {
			return answer{self: p.self, env: os.Getenv, in: p.in, out: p.out}.run(c.Context, c.Args().Slice())
		},
	}
}

func (p cliProgram) logsCommand() *cli.Command {
	return &cli.Command{
		Name:  "logs",
		Usage: "print the log's last lines",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "lines", Value: 50, Usage: "how `MANY` lines"},
			&cli.BoolFlag{Name: "follow", Usage: "go on with what is written from now on"},
			&cli.StringFlag{Name: "level", Usage: "only lines of `LEVEL` and above: debug, info, warn, error"},
			&cli.StringFlag{Name: "session", Usage: "only lines about the session `NAME` and its questions"},
			&cli.BoolFlag{Name: "json", Usage: "the lines as they stand, JSON each"},
		},
		Action: func(c *cli.Context) error {
			return logs{
				env: os.Getenv, out: p.out, lines: c.Int("lines"), follow: c.Bool("follow"), level: c.String("level"), session: c.String("session"), asJSON: c.Bool("json"),
			}.run(c.Context)
		},
	}
}

func (p cliProgram) completionCommand() *cli.Command {
	return &cli.Command{
		Name:        "completion",
		Usage:       "print a script that completes command lines, for bash, zsh or fish",
		ArgsUsage:   "bash|zsh|fish",
		Description: "In ~/.bashrc:   source <(gchat-hooks completion bash)",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "words", Hidden: true, Usage: "as the scripts ask: what can stand last"}},
		Action: func(c *cli.Context) error {
			if c.Bool("words") {
				return completion{os.Getenv, p.out, wordsOf(c.App.Name, "", c.App.Flags, c.App.Commands)}.print(c.Args().Slice())
			}
			return completion{}.script(p.out, c.Args().First(), p.self)
		},
	}
}

func (p cliProgram) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "look whether everything is there and works, and say what mends it",
		Description: "Look:  gchat-hooks doctor              (posts nothing; also without a network)\n" +
			"Mend:  gchat-hooks doctor --fix        (file modes, stale pid files, missing folders; nothing else)\n" +
			"Try:   gchat-hooks doctor --live       (two messages to the space and back; you reply ok)\n" +
			"Exit codes: 0 all is well, 1 warnings, 2 failures, 4 wrong arguments",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print an object in place of lines"},
			&cli.BoolFlag{Name: "fix", Usage: "mend what can be mended safely, and say what was done"},
			&cli.BoolFlag{Name: "live", Usage: "post two messages in one thread, read them back, and wait for your reply there"},
			&cli.StringFlag{Name: "wait", Value: "2m", Usage: "with --live, wait so `LONG` for that reply; 0 asks nobody"},
		},
		Action: func(c *cli.Context) error {
			d := doctor{
				env: os.Getenv, out: p.out, errOut: p.errOut, asJSON: c.Bool("json"), fix: c.Bool("fix"), live: c.Bool("live"),
				colour: terminalOf(p.out, os.Getenv).colour,
			}
			if s := c.String("wait"); s != "0" && s != "0s" {
				var err error
				if d.wait, err = state.ParseInterval(s); err != nil {
					return usageError{fmt.Errorf("--wait: %w", err), "gchat-hooks doctor --help"}
				}
			}
			if c.IsSet("wait") && !d.live {
				return usageError{errors.New("--wait goes with --live"), "gchat-hooks doctor --help"}
			}
			return d.run(c.Context)
		},
	}
}

func (p cliProgram) verifyCommand() *cli.Command {
	return &cli.Command{
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
				env: os.Getenv, out: p.out, errOut: p.errOut, noHuman: c.Bool("no-human"), wait: long[0], timeout: long[1],
				file: c.String("report"), asJSON: c.Bool("json"),
			}
			return v.run(c.Context)
		},
	}
}

func (p cliProgram) hookCommand() *cli.Command {
	return &cli.Command{
		Name:      "hook",
		Usage:     "run as a hook of Claude Code: its event on stdin, the decision on stdout",
		ArgsUsage: "NAME",
		Action: func(*cli.Context) error {
			return usageError{error: fmt.Errorf("hook takes a name: %s", strings.Join(hookNames(), ", "))}
		},
	}
}

// hookNames are the names of all hooks, sorted.
func hookNames() []string {
	return slices.Sorted(slices.Values(append(hooks.Names(), wake.Names()...)))
}

// scopeFlags say whose settings are meant.
func scopeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "user", Usage: "in your own settings, for all projects (default)"},
		&cli.BoolFlag{Name: "project", Usage: "in the project's settings, which others get with it"},
		&cli.BoolFlag{Name: "local", Usage: "in the project's settings that stay on this machine"},
		&cli.BoolFlag{Name: "dry-run", Usage: "show what would change, and write nothing"},
	}
}

func scopeOf(c *cli.Context) (scope settings.Scope, err error) {
	for _, s := range []settings.Scope{settings.User, settings.Project, settings.Local} {
		if c.Bool(string(s)) {
			if scope != "" {
				return "", usageError{fmt.Errorf("--%s and --%s exclude each other", scope, s), "gchat-hooks " + c.Command.Name + " --help"}
			}
			scope = s
		}
	}
	return cmp.Or(scope, settings.User), nil
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

// wordsOf is a command as completion sees it.
func wordsOf(name, usage string, flags []cli.Flag, subs []*cli.Command) commandWords {
	w := commandWords{name: name, usage: usage}
	for _, f := range append(slices.Clip(flags), cli.HelpFlag) {
		if v, ok := f.(cli.DocGenerationFlag); ok && f.(cli.VisibleFlag).IsVisible() {
			about := strings.ReplaceAll(v.GetUsage(), "`", "")
			if !slices.ContainsFunc(w.flags, func(have flagWords) bool { return have.names[0] == f.Names()[0] }) {
				w.flags = append(w.flags, flagWords{f.Names(), about, v.TakesValue()})
			}
		}
	}
	for _, c := range subs {
		if !c.Hidden && (c.Name != "help" || name == "gchat-hooks") { // the library gives each command one
			w.subs = append(w.subs, wordsOf(c.Name, c.Usage, c.Flags, c.Subcommands))
		}
	}
	return w
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
