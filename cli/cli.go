// Package cli has the commands that a person or an agent types. A command's flags, help,
// texts and action stand together in one file.
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

// Exit codes that mean the same in every command. A command's help lists its own codes.
const (
	exitFailed = 1 // the command could not do its work
	exitUsage  = 4 // wrong arguments
)

// usageError is a mistake on the command line. The hint names a command to type instead.
func usageError(err error, hint string) error { return exitError(err, hint, exitUsage) }

// exitError ends a command with an exit code.
func exitError(err error, hint string, code int) error {
	return &state.UserError{Err: err, Hint: hint, Code: code}
}

// silentError ends a command that has printed its result on stdout already.
func silentError(err error, code int) error {
	return &state.UserError{Err: err, Code: code, IsPrinted: true}
}

// Main runs the command in os.Args and ends the process. self is this program's file.
func Main(self string) {
	p := Program{self: self, env: os.Getenv, in: os.Stdin, out: os.Stdout, errOut: os.Stderr}
	gchat.StartEmbeddedSpace = p.startSpace
	cli.HelpPrinter = printHelp
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	// The first signal lets the command finish what it does, the second ends the process.
	context.AfterFunc(ctx, stop)
	if err := p.run(ctx, os.Args); err != nil {
		os.Exit(p.printError(err, filepath.Base(os.Args[0])))
	}
}

// run runs a command line. The jobs that our own processes start (the poller, a try of a
// lock, the wording of a question) are found first: building the command line takes time.
func (p Program) run(ctx context.Context, args []string) error {
	switch strings.Join(args[1:], " ") {
	case "poller --orphan":
		return p.startDetachedPoller()
	case "poller --detached":
		return p.runDetachedPoller(ctx)
	}
	if len(args) > 1 && args[1] == claudeCheckJob {
		return p.runClaudeCheckJob(args[2:])
	}
	if len(args) == 4 && args[1] == "poller" {
		switch args[2] {
		case state.TryLockFlag:
			fmt.Fprintln(p.out, state.TryLockAsChild(args[3]))
			return nil
		case state.WordQuestionFlag:
			options := poller.Options{Env: p.env, Log: state.NewLog(p.env, "poller")}
			return poller.WordQuestion(ctx, options, args[3])
		}
	}
	args = normalizeArgs(args)
	// As a flag: the library's own help command ignores the words after it.
	if len(args) > 1 && args[1] == "help" {
		args = slices.Concat(args[:1], args[2:], []string{"--help"})
	}
	app := p.buildApp(args[1:]...)
	hasFlags := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
	if hasFlags && slices.Contains([]string{"send", "wait", "answer", "migrate"}, args[1]) {
		knownFlags := append(app.Command(args[1]).Flags, cli.HelpFlag)
		args = append(args[:2:2], moveFlagsFirst(args[2:], knownFlags)...)
	}
	return app.RunContext(ctx, args)
}

// printError prints an error and its hint, as "programName: error: …", and returns the
// exit code.
func (p Program) printError(err error, programName string) int {
	userError := &state.UserError{} // stays empty if the error is of another type
	errors.As(err, &userError)
	code := cmp.Or(userError.Code, exitFailed)
	columns := terminalWidth(p.errOut)
	printLine := func(kind, text string) {
		line := fmt.Sprintf("%s: %s: %s\n", programName, kind, cleanForTerminal(text))
		_, _ = io.WriteString(p.errOut, wrapText(line, columns))
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

// cleanForTerminal removes secrets and terminal control sequences from a text. The text
// may quote Chat or a file.
func cleanForTerminal(s string) string {
	return new(state.Redactor).Redact(state.Clean(state.ForTerminal, s))
}

// Program is what every command gets: the path of this program, the environment, and the
// terminal's streams.
type Program struct {
	self        string
	env         state.Getenv
	in          io.Reader
	out, errOut io.Writer
}

// commands are all commands, in the order of the help.
var commands = []struct {
	name  string
	build func(Program) *cli.Command
}{
	{"setup", Program.setupCommand},
	{"install", Program.installCommand},
	{"uninstall", Program.uninstallCommand},
	{"login", Program.loginCommand},
	{"logout", Program.logoutCommand},
	{"demo", Program.demoCommand},
	{"space", Program.spaceCommand},
	{"hub", Program.hubCommand},
	{"status", Program.statusCommand},
	{"stats", Program.statsCommand},
	{"answer", Program.answerCommand},
	{"send", Program.sendCommand},
	{"wait", Program.waitCommand},
	{"logs", Program.logsCommand},
	{"doctor", Program.doctorCommand},
	{"bench", Program.benchCommand},
	{"flush", Program.flushCommand},
	{"poller", Program.pollerCommand},
	{"menu", Program.menuCommand},
	{"hook", Program.hookCommand},
	{"health", Program.healthCommand},
	{"migrate", Program.migrateCommand},
}

// buildApp builds the command line. It has one command if the first argument names one,
// else all commands and the version.
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
				suggestion := cli.SuggestCommand(c.App.Commands, word)
				return usageError(fmt.Errorf("no such command: %s. %s", word, suggestion),
					"gchat-hooks --help")
			}
			return cli.ShowAppHelp(c)
		},
		Before: func(c *cli.Context) error {
			if os.Getenv("HOME") == "" {
				ownCodes := map[string]int{"wait": exitWaitFailed, "doctor": 2}
				code := cmp.Or(ownCodes[c.Args().First()], exitFailed)
				return exitError(errors.New("HOME is not set: gchat-hooks keeps its files there"),
					"export HOME=/home/NAME", code)
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

// withArgChecks makes a command and its subcommands refuse unknown flags and arguments
// before their action runs.
func withArgChecks(c *cli.Command) *cli.Command {
	for _, sub := range c.Subcommands {
		withArgChecks(sub)
	}
	c.OnUsageError = func(ctx *cli.Context, err error, _ bool) error {
		// Without this function the library prints the error to stdout.
		code := exitUsage
		if c.Name == "wait" { // gchat-wait's callers know the exit codes 0, 2 and 3
			code = exitWaitFailed
		}
		if name, isUnknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); isUnknown {
			if suggestion := cli.SuggestFlag(c.Flags, strings.TrimPrefix(name, "-"), true); suggestion != "" {
				err = fmt.Errorf("%w. Did you mean %s?", err, suggestion)
			}
		}
		if flagName, isParseError := strings.CutSuffix(err.Error(), ": parse error"); isParseError {
			expected := "a whole number"
			isThisDuration := func(f cli.Flag) bool {
				return isDurationFlag(f) && strings.HasSuffix(flagName, "-"+f.Names()[0])
			}
			if slices.ContainsFunc(c.Flags, isThisDuration) {
				expected = "a time with its unit, such as 5s"
			}
			err = fmt.Errorf("%s: expected %s", flagName, expected)
		}
		return exitError(err, c.HelpName+" --help", code)
	}
	if c.UsageText == "" { // a command with arguments has a UsageText that names them
		c.Before = func(ctx *cli.Context) error {
			if arg := ctx.Args().First(); arg != "" && c.Command(arg) == nil {
				// The argument is not printed: it may be a secret.
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

// installedPath is the path by which this program was called. It may be a link, which
// outlasts the version of the program that it leads to. If the call does not lead to this
// program, it is the program's own file.
func (p Program) installedPath() string {
	called, _ := exec.LookPath(os.Args[0])
	// The called name may be a command's, such as gchat-send.
	called, _ = filepath.Abs(filepath.Join(filepath.Dir(called), "gchat-hooks"))
	calledInfo, _ := os.Stat(called)
	selfInfo, _ := os.Stat(p.self)
	if os.SameFile(calledInfo, selfInfo) { // false if one of the files is missing
		return called
	}
	return p.self
}

// shellName is what a person types to run this program: "gchat-hooks" if the shell finds
// it under that name, else its path.
func (p Program) shellName() string {
	found, _ := exec.LookPath("gchat-hooks")
	foundInfo, _ := os.Stat(found)
	selfInfo, _ := os.Stat(p.self)
	if os.SameFile(foundInfo, selfInfo) {
		return "gchat-hooks"
	}
	return p.installedPath()
}

// commandAliases are the commands that have a name of their own. The name works as a
// symlink and as the first argument, and also with .sh, as older scripts were called.
var commandAliases = map[string]string{
	"gchat-send": "send", "gchat-wait": "wait", "gchat-response-poller": "poller", "menu-driver": "menu",
	"health-check": "health",
}

// normalizeArgs returns the command line as "gchat-hooks COMMAND …", without aliases.
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

// flagPattern matches an argument that counts as a flag. "- item one" and "-5 degrees"
// are messages. "--dryrun" counts as a flag: it is a typing mistake, and must not be
// sent.
var flagPattern = state.LazyPattern(`^--?[A-Za-z][\w-]*(=(?s:.*))?$`)

// moveFlagsFirst moves the flags before the other arguments. The library reads no flag
// after the first argument, but people and Claude write `gchat-send "done" --type
// task_completion`. After a lone "--" there are no flags.
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

// asker asks the person at the terminal. Without a terminal flags have to say everything.
type asker struct {
	isInteractive bool // in and out are both terminals
	in            io.Reader
	out           io.Writer
	// nextLine returns the channel of the lines that the person types. It is closed at
	// the end of the input. A read of a terminal cannot be cancelled: a line that the
	// caller stopped waiting for answers the next question.
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

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// errStopped means that the person ended the conversation.
var errStopped = errors.New(
	"stopped; what was done so far is kept: run the same command again to go on",
)

// askLine asks a question and returns the line that the person types.
func (a *asker) askLine(ctx context.Context, question string) (string, error) {
	fmt.Fprintf(a.out, "%s ", question)
	return a.readLine(ctx, a.nextLine())
}

// askSecret asks for a secret, which the terminal does not show. However it ends, the
// terminal shows typed text again. It must be called before the first askLine, whose
// reader would read the secret, too.
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
	// Wait until ReadPassword has switched the echo off: a person may type at once.
	for range 1000 {
		current, err := term.GetState(fd)
		if err != nil || !reflect.DeepEqual(current, before) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Fprintf(a.out, "%s ", question)
	return a.readLine(ctx, typed)
}

// readLine waits for a line. It fails at the end of the input, and when ctx ends.
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

// askYesNo asks for a yes or a no. Enter means the default, and any other word a no.
func (a *asker) askYesNo(ctx context.Context, question string, defaultYes bool) (bool, error) {
	choices := map[bool]string{true: " [Y/n]", false: " [y/N]"}[defaultYes]
	line, err := a.askLine(ctx, question+choices)
	if line == "" {
		return defaultYes, err
	}
	return strings.EqualFold(line, "y") || strings.EqualFold(line, "yes"), err
}
