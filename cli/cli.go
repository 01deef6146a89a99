// Package cli is what a person or an agent types. A command's flags, help, words and
// action stand together in one file.
package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"gchat-hooks/gchat"
	"gchat-hooks/hooks"
	"gchat-hooks/hooks/wake"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// Exit codes that mean the same in every command. A command's own codes stand in its
// help.
const (
	exitFailed = 1 // it could not be done
	exitUsage  = 4 // wrong arguments
)

// usageError is a mistake on the command line. hint names the command that tells more.
func usageError(err error, hint string) error { return exitError(err, hint, exitUsage) }

// exitError ends a command with an exit code.
func exitError(err error, hint string, code int) error {
	return &state.UserError{Err: err, Hint: hint, Code: code}
}

// silentError ends a command that has told its result on stdout.
func silentError(err error, code int) error {
	return &state.UserError{Err: err, Code: code, IsPrinted: true}
}

// Main runs the command of os.Args and ends the process. self is this program's file.
func Main(self string) {
	p := Program{self: self, env: os.Getenv, in: os.Stdin, out: os.Stdout, errOut: os.Stderr}
	gchat.StartEmbeddedSpace = p.startSpace
	cli.HelpPrinter = printHelp
	ctx, stop := signal.NotifyContext(
		context.Background(),
		os.Interrupt,
		syscall.SIGTERM,
		syscall.SIGHUP,
	)
	context.AfterFunc(ctx, stop) // the first signal drains, the second ends the process
	if err := p.run(ctx, os.Args); err != nil {
		os.Exit(p.printError(err, filepath.Base(os.Args[0])))
	}
}

// run runs a command line. The poller that hooks and commands start (state.Lock's Pass)
// needs no command line built.
func (p Program) run(ctx context.Context, args []string) error {
	switch strings.Join(args[1:], " ") {
	case "poller --orphan":
		return p.startDetachedPoller()
	case "poller --detached":
		return p.runDetachedPoller(ctx)
	}
	if len(args) == 4 && args[1] == "poller" {
		switch args[2] {
		case state.TryLockFlag:
			fmt.Fprintln(p.out, state.TryLockAsChild(args[3]))
			return nil
		case state.WordQuestionFlag:
			return poller.WordQuestion(
				ctx,
				poller.Options{Env: p.env, Log: state.NewLog(p.env, "poller")},
				args[3],
			)
		}
	}
	args = normalizeArgs(args)
	if len(args) > 1 && args[1] == "help" { // as a flag, so that what stands behind it is looked at
		args = slices.Concat(args[:1], args[2:], []string{"--help"})
	}
	app := p.buildApp(args[1:]...)
	hasFlags := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
	if hasFlags && slices.Contains([]string{"send", "wait", "answer", "migrate"}, args[1]) {
		args = append(
			args[:2:2],
			moveFlagsFirst(args[2:], append(app.Command(args[1]).Flags, cli.HelpFlag))...)
	}
	return app.RunContext(ctx, args)
}

// printError prints an error and its hint as commandAliases, and returns the exit code.
func (p Program) printError(err error, programName string) int {
	userError := &state.UserError{} // where the error is of another type
	errors.As(err, &userError)
	code := cmp.Or(userError.Code, exitFailed)
	columns := terminalWidth(p.errOut)
	printLine := func(kind, text string) {
		_, _ = io.WriteString(
			p.errOut,
			wrapText(
				fmt.Sprintf("%s: %s: %s\n", programName, kind, cleanForTerminal(text)),
				columns,
			),
		)
	}
	if !userError.IsPrinted {
		printLine("error", err.Error())
	}
	hint := userError.Hint
	if errors.Is(err, fs.ErrPermission) && !strings.HasPrefix(hint, "chmod") {
		hint = "run gchat-hooks doctor: it names the folder and what to do; in a sandbox, let gchat-hooks write there"
	}
	if hint != "" {
		printLine("hint", hint)
	}
	return code
}

// cleanForTerminal is text for a terminal without secrets, and without what a terminal
// obeys: the words may be Chat's, or a file's.
func cleanForTerminal(s string) string {
	return new(state.Redactor).Redact(state.Clean(state.ForTerminal, s))
}

// Program is what every command is given: the path of this program, the environment, and
// the terminal.
type Program struct {
	self        string
	env         state.Getenv
	in          io.Reader
	out, errOut io.Writer
}

// commands are all of them, in the order of the help.
var commands = []struct {
	name  string
	build func(Program) *cli.Command
}{
	{
		"setup",
		Program.setupCommand,
	}, {"install", Program.installCommand}, {"uninstall", Program.uninstallCommand},
	{
		"login",
		Program.loginCommand,
	}, {"logout", Program.logoutCommand}, {"demo", Program.demoCommand},
	{"space", Program.spaceCommand}, {"hub", Program.hubCommand},
	{
		"status",
		Program.statusCommand,
	}, {"stats", Program.statsCommand}, {"answer", Program.answerCommand},
	{"send", Program.sendCommand}, {"wait", Program.waitCommand}, {"logs", Program.logsCommand},
	{
		"doctor",
		Program.doctorCommand,
	}, {"flush", Program.flushCommand}, {"poller", Program.pollerCommand},
	{"menu", Program.menuCommand}, {"hook", Program.hookCommand}, {"health", Program.healthCommand},
	{"migrate", Program.migrateCommand},
}

// buildApp is the command line: with the one command that the first word names, else with
// all and what concerns all.
func (p Program) buildApp(args ...string) *cli.App {
	app := &cli.App{
		Name:      "gchat-hooks",
		Usage:     "answer Claude Code's questions from Google Chat, or from a page on this machine",
		Reader:    p.in,
		Writer:    p.out,
		ErrWriter: p.errOut,
		// Main prints every error.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return usageError(err, "gchat-hooks --help")
		},
		Action: func(c *cli.Context) error {
			if word := c.Args().First(); word != "" {
				err := fmt.Errorf(
					"no such command: %s. %s",
					word,
					cli.SuggestCommand(c.App.Commands, word),
				)
				return usageError(err, "gchat-hooks --help")
			}
			return cli.ShowAppHelp(c)
		},
		Before: func(c *cli.Context) error {
			if os.Getenv("HOME") == "" {
				code := cmp.Or(
					map[string]int{"wait": exitWaitFailed, "doctor": 2}[c.Args().First()],
					exitFailed,
				)
				return exitError(
					errors.New("HOME is not set: gchat-hooks keeps its files there"),
					"export HOME=/home/NAME",
					code,
				)
			}
			return nil
		},
	}
	for _, c := range commands {
		if len(args) > 0 && c.name == args[0] {
			app.Commands = []*cli.Command{withArgChecks(c.build(p))}
			return app
		}
	}
	for _, c := range commands {
		app.Commands = append(app.Commands, withArgChecks(c.build(p)))
	}
	app.Version = version()
	return app
}

// withArgChecks has a command and its subcommands refuse flags and words that they do not
// take, before their action runs.
func withArgChecks(c *cli.Command) *cli.Command {
	for _, sub := range c.Subcommands {
		withArgChecks(sub)
	}
	c.OnUsageError = func(ctx *cli.Context, err error, _ bool) error {
		// without it the library prints the error to stdout
		code := exitUsage
		if c.Name == "wait" { // its callers know three exit codes
			code = exitWaitFailed
		}
		if name, isUnknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); isUnknown {
			if suggestion := cli.SuggestFlag(c.Flags, strings.TrimPrefix(name, "-"), true); suggestion != "" {
				err = fmt.Errorf("%w. Did you mean %s?", err, suggestion)
			}
		}
		if flagName, isParseError := strings.CutSuffix(err.Error(), ": parse error"); isParseError {
			expected := "a whole number"
			if slices.ContainsFunc(
				c.Flags,
				func(f cli.Flag) bool { return isDurationFlag(f) && strings.HasSuffix(flagName, "-"+f.Names()[0]) },
			) {
				expected = "a time with its unit, such as 5s"
			}
			err = fmt.Errorf("%s: expected %s", flagName, expected)
		}
		return exitError(err, c.HelpName+" --help", code)
	}
	if c.UsageText == "" { // else it says which words
		c.Before = func(ctx *cli.Context) error {
			if arg := ctx.Args().First(); arg != "" && c.Command(arg) == nil {
				// one may be a secret
				return usageError(errors.New(c.Name+" takes no such argument"), c.HelpName+" --help")
			}
			return nil
		}
	}
	return c
}

func isDurationFlag(f cli.Flag) bool {
	_, isDuration := f.(*cli.DurationFlag)
	return isDuration
}

// installedPath is the path of this program where it was called: a link in a person's
// folder outlasts the version that it leads to. It is that version for a call that tells
// nothing.
func (p Program) installedPath() string {
	called, _ := exec.LookPath(os.Args[0])
	// it may be the name of a command
	called, _ = filepath.Abs(filepath.Join(filepath.Dir(called), "gchat-hooks"))
	calledInfo, _ := os.Stat(called)
	selfInfo, _ := os.Stat(p.self)
	if os.SameFile(calledInfo, selfInfo) { // not where one of them cannot be found
		return called
	}
	return p.self
}

// shellName is what a person types for this program: its name, where the shell finds it
// by that.
func (p Program) shellName() string {
	found, _ := exec.LookPath("gchat-hooks")
	foundInfo, _ := os.Stat(found)
	selfInfo, _ := os.Stat(p.self)
	if os.SameFile(foundInfo, selfInfo) {
		return "gchat-hooks"
	}
	return p.installedPath()
}

// commandAliases are the commands that have a name of their own, as a symlink and as a
// first word; also with .sh, as the scripts did.
var commandAliases = map[string]string{
	"gchat-send": "send", "gchat-wait": "wait", "gchat-response-poller": "poller", "menu-driver": "menu",
	"health-check": "health",
}

// normalizeArgs are the command line with the command first.
func normalizeArgs(args []string) []string {
	calledName, rest := filepath.Base(args[0]), args[1:]
	if commandAliases[hooks.JobName(calledName)] == "" && len(rest) > 0 {
		calledName, rest = rest[0], rest[1:]
	}
	name := commandAliases[hooks.JobName(calledName)]
	switch {
	case name == "":
		return append([]string{"gchat-hooks"}, args[1:]...)
	case calledName == "gchat-send.sh":
		return append([]string{"gchat-hooks", name, "--script"}, rest...)
	}
	return append([]string{"gchat-hooks", name}, rest...)
}

// flagPattern is what is taken for a flag. "- item one" and "-5 degrees" are messages;
// "--dryrun" is a slip that must not send.
var flagPattern = state.LazyPattern(`^--?[A-Za-z][\w-]*(=(?s:.*))?$`)

// moveFlagsFirst puts the flags before the words: the library takes what stands behind
// the first word for words, and people as well as Claude write `gchat-send "done" --type
// task_completion`. A lone "--" ends the flags.
func moveFlagsFirst(args []string, known []cli.Flag) []string {
	takesValue := func(name string) bool {
		return slices.ContainsFunc(known, func(f cli.Flag) bool {
			_, isSwitch := f.(*cli.BoolFlag)
			return !isSwitch && slices.Contains(f.Names(), name)
		})
	}
	var flags, positional []string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--":
			positional = append(positional, args[i+1:]...)
			i = len(args)
		case !flagPattern().MatchString(arg):
			positional = append(positional, arg)
		case takesValue(strings.TrimLeft(arg, "-")) && i+1 < len(args):
			flags = append(flags, arg, args[i+1])
			i++
		default:
			flags = append(flags, arg)
		}
	}
	return append(append(flags, "--"), positional...)
}

func (p Program) hookCommand() *cli.Command {
	return &cli.Command{
		Name:      "hook",
		Usage:     "run a hook as Claude Code does: the event on stdin, the decision on stdout",
		UsageText: "gchat-hooks hook NAME",
		Action: func(*cli.Context) error {
			return usageError(
				fmt.Errorf("give the name of a hook: %s", strings.Join(hookNames(), ", ")),
				"gchat-hooks install",
			)
		},
	}
}

// hookNames are the names of all hooks, sorted.
func hookNames() []string {
	return slices.Sorted(slices.Values(append(hooks.Names(), wake.Names()...)))
}

// asker puts questions to the person at the terminal. Without one a flag has to say it.
type asker struct {
	isInteractive bool // both ends are one
	in            io.Reader
	out           io.Writer
	// next has the next line that the person types, and is closed at the end of the
	// input. A read of a terminal cannot be called off: a line that one caller does not
	// take any more is the answer to the next question.
	nextLine func() <-chan string
}

func newAsker(in io.Reader, out io.Writer) *asker {
	nextLine := sync.OnceValue(func() <-chan string {
		lines := make(chan string)
		go func() {
			defer close(lines)
			for scanner := bufio.NewScanner(in); scanner.Scan(); {
				lines <- scanner.Text()
			}
		}()
		return lines
	})
	return &asker{
		isInteractive: isTerminal(in) && isTerminal(out),
		in:            in,
		out:           out,
		nextLine:      nextLine,
	}
}

// isTerminal says whether an end of this program is a person's terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// errStopped says that the person ended the conversation.
var errStopped = errors.New(
	"stopped; what was done so far is kept: run the same command again to go on",
)

// askLine asks, and returns what was typed.
func (a *asker) askLine(ctx context.Context, question string) (string, error) {
	fmt.Fprintf(a.out, "%s ", question)
	return a.readLine(ctx, a.nextLine())
}

// askSecret asks on the terminal for what must not stay on the screen. However it ends,
// the terminal shows again what is typed. It goes before the first line: next would read
// the secret, too.
func (a *asker) askSecret(ctx context.Context, question string) (string, error) {
	fd := int(a.in.(*os.File).Fd())
	defer fmt.Fprintln(a.out)
	before, err := term.GetState(fd)
	if err == nil {
		defer term.Restore(fd, before)
	}
	typed := make(chan string)
	go func() {
		defer close(typed)
		if line, err := term.ReadPassword(fd); err == nil {
			typed <- string(line)
		}
	}()
	for range 1000 { // what is typed at once is not to be shown either
		current, err := term.GetState(fd)
		if err != nil || !reflect.DeepEqual(current, before) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Fprintf(a.out, "%s ", question)
	return a.readLine(ctx, typed)
}

// readLine waits for a line, or for the person to go.
func (a *asker) readLine(ctx context.Context, lines <-chan string) (string, error) {
	select {
	case line, ok := <-lines:
		if ok {
			return strings.TrimSpace(line), nil
		}
	case <-ctx.Done():
	}
	fmt.Fprintln(a.out)
	return "", errStopped
}

// askYesNo asks for a yes or a no. Enter is otherwise, and any other word a no.
func (a *asker) askYesNo(ctx context.Context, question string, defaultYes bool) (bool, error) {
	line, err := a.askLine(
		ctx,
		question+map[bool]string{true: " [Y/n]", false: " [y/N]"}[defaultYes],
	)
	if line == "" {
		return defaultYes, err
	}
	return strings.EqualFold(line, "y") || strings.EqualFold(line, "yes"), err
}
