// Package cli is what a person or an agent types. A command's flags, help, words and action stand together in one file.
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
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
	"golang.org/x/term"

	"gchat-hooks/hooks"
	"gchat-hooks/hooks/wake"
	"gchat-hooks/state"
)

// Exit codes that mean the same in every command. A command's own codes stand in its help.
const (
	exitFailed = 1 // it could not be done
	exitUsage  = 4 // wrong arguments
)

// usage is a mistake on the command line. hint names the command that tells more.
func usage(err error, hint string) error { return failed(err, hint, exitUsage) }

// failed ends a command with an exit code.
func failed(err error, hint string, code int) error {
	return &state.UserError{Err: err, Hint: hint, Code: code}
}

// silent ends a command that has told its result on stdout.
func silent(err error, code int) error {
	return &state.UserError{Err: err, Code: code, Said: true}
}

// Main runs the command of os.Args and ends the process. self is this program's file.
func Main(self string) {
	p := Program{self: asCalled(os.Args[0], self), env: os.Getenv, in: os.Stdin, out: os.Stdout, errOut: os.Stderr}
	args := arguments(os.Args)
	app := p.app(args[1:]...)
	args = ordered(args, app)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	if len(args) > 1 && args[1] == "poller" {
		ends = ends[:2] // SIGHUP tells the daemon to read its configuration again
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop) // the first signal drains, the second ends the process
	if len(args) > 1 && slices.Contains([]string{"help", "--help", "-h"}, args[1]) && (len(args) == 2 || args[2] == "--all") {
		p.help(app, len(args) == 3)
		return
	}
	if err := app.RunContext(ctx, args); err != nil {
		os.Exit(p.tell(err, filepath.Base(os.Args[0])))
	}
}

// tell prints an error and its hint as calledAs, and returns the exit code.
func (p Program) tell(err error, calledAs string) int {
	told := &state.UserError{} // where the error is of another type
	errors.As(err, &told)
	code := cmp.Or(told.Code, exitFailed)
	if !told.Said {
		fmt.Fprintf(p.errOut, "%s: error: %s\n", calledAs, plain(err.Error()))
	}
	hint := told.Hint
	if errors.Is(err, fs.ErrPermission) && !strings.HasPrefix(hint, "chmod") {
		hint = "gchat-hooks doctor names the folder and what to do; a sandbox has to let gchat-hooks write there"
	}
	if hint != "" {
		fmt.Fprintf(p.errOut, "%s: hint: %s\n", calledAs, plain(hint))
	}
	return code
}

// plain is text for a terminal without secrets, and without what a terminal obeys: the words may be Chat's, or a file's.
func plain(s string) string { return new(state.Redactor).Clean(state.Clean(state.ForTerminal, s)) }

// Program is what every command is given: the path of this program, the environment, and the terminal.
type Program struct {
	self        string
	env         state.Getenv
	in          io.Reader
	out, errOut io.Writer
}

// group is a heading of the help with its commands, which are built where they are needed: most processes run one.
type group struct {
	heading  string
	commands []command
}

type command struct {
	name  string
	build func(Program) *cli.Command
}

func groups() []group {
	return []group{
		{"start", []command{
			{"setup", Program.setupCommand}, {"install", Program.installCommand}, {"uninstall", Program.uninstallCommand},
			{"login", Program.loginCommand}, {"logout", Program.logoutCommand}, {"demo", Program.demoCommand},
			{"space", Program.spaceCommand},
		}},
		{"every day", []command{
			{"status", Program.statusCommand}, {"answer", Program.answerCommand}, {"send", Program.sendCommand},
			{"wait", Program.waitCommand}, {"logs", Program.logsCommand},
		}},
		{"when something is wrong", []command{
			{"doctor", Program.doctorCommand}, {"verify", Program.verifyCommand}, {"flush", Program.flushCommand},
		}},
		{forPrograms, []command{
			{"poller", Program.pollerCommand}, {"menu", Program.menuCommand}, {"hook", Program.hookCommand},
			{"health", Program.healthCommand}, {"migrate", Program.migrateCommand},
		}},
	}
}

// forPrograms is the group that only `--help --all` lists.
const forPrograms = "for programs"

// app is the command line: with the one command that the first word names, else with all.
func (p Program) app(words ...string) *cli.App {
	shown := cli.FlagStringer
	cli.FlagStringer = func(f cli.Flag) string { // a default that says nothing is left out
		return strings.NewReplacer(" (default: false)", "", " (default: 0)", "").Replace(shown(f))
	}
	cli.VersionPrinter = func(c *cli.Context) { fmt.Fprintln(p.out, c.App.Name, version()) }
	app := &cli.App{
		Name:      "gchat-hooks",
		HelpName:  "gchat-hooks",
		Usage:     "answer Claude Code's questions from Google Chat",
		Version:   version(),
		Reader:    p.in,
		Writer:    p.out,
		ErrWriter: p.errOut,
		// Main prints every error.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError: func(c *cli.Context, err error, _ bool) error {
			return noFlag(err, "gchat-hooks", c.App.Flags, exitUsage)
		},
	}
	app.Action = func(c *cli.Context) error {
		if word := c.Args().First(); word != "" {
			return notKnown("no such command: "+word, word, "gchat-hooks ", app.Commands)
		}
		p.help(app, false)
		return nil
	}
	var all []command
	for _, g := range groups() {
		all = append(all, g.commands...)
	}
	named := func(c command) bool { return len(words) > 0 && c.name == words[0] }
	if i := slices.IndexFunc(all, named); i >= 0 {
		all = all[i : i+1]
	}
	for _, c := range all {
		app.Commands = append(app.Commands, c.build(p))
	}
	for _, c := range app.Commands {
		checkArguments(c)
		for _, below := range c.Subcommands {
			checkArguments(below)
		}
	}
	return app
}

// checkArguments refuses flags and words that a command does not take, before its action runs.
func checkArguments(c *cli.Command) {
	c.OnUsageError = func(ctx *cli.Context, err error, _ bool) error { // without it the library prints the error to stdout
		code := exitUsage
		if ctx.Command.Name == "wait" { // its callers know three exit codes
			code = exitWaitTrouble
		}
		return noFlag(err, ctx.Command.HelpName, ctx.Command.Flags, code)
	}
	takesWords := slices.Contains([]string{"hook", "send", "menu", "wait", "answer"}, c.Name)
	needsHome := !slices.Contains([]string{"hook", "demo", "menu", "health", "migrate", "s3-communicator"}, c.Name)
	c.Before = func(ctx *cli.Context) error {
		if needsHome && os.Getenv("HOME") == "" && (c.Name == "setup" || os.Getenv("XDG_STATE_HOME") == "") {
			return failed(errors.New("HOME is not set: gchat-hooks keeps its files there"), "export HOME=/home/NAME", exitFailed)
		}
		word := ctx.Args().First()
		if ctx.Args().Present() && !takesWords && ctx.Command.Command(word) == nil {
			if strings.Contains(word, "://") { // a webhook's is a secret
				word = "URL"
			}
			what := fmt.Sprintf("%s takes no %q", ctx.Command.Name, word)
			return notKnown(what, word, ctx.Command.HelpName+" ", ctx.Command.Subcommands)
		}
		return nil
	}
}

// mistyped is a mistake on the command line. The hint is the command with the name that the word is nearest to, else its help.
func mistyped(what, command, word string, names []string, code int) error {
	near, best := "", 0.8 // Jaro-Winkler: two words with a slip in one are at 0.9 and more
	for _, name := range names {
		if alike := smetrics.JaroWinkler(word, name, 0.7, 4); alike > best {
			near, best = name, alike
		}
	}
	if near == "" {
		return failed(errors.New(what), strings.TrimSpace(command)+" --help", code)
	}
	return failed(errors.New(what+". Did you mean "+near+"?"), command+near, code)
}

// notKnown says that there is no such command; command is what stands before its name.
func notKnown(what, word, command string, commands []*cli.Command) error {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return mistyped(what, command, word, names, exitUsage)
}

// noFlag words the library's error about a command's flags.
func noFlag(err error, command string, flags []cli.Flag, code int) error {
	_, name, ok := strings.Cut(err.Error(), "flag provided but not defined: ")
	if !ok {
		return failed(err, command+" --help", code)
	}
	var names []string
	for _, f := range flags {
		if shown, ok := f.(cli.VisibleFlag); !ok || shown.IsVisible() {
			names = append(names, "--"+f.Names()[0])
		}
	}
	name = "--" + strings.TrimLeft(name, "-")
	return mistyped("no such flag: "+name, command+" ", name, names, code)
}

// help prints the commands by what they are for. Those for programs are listed where all is true.
func (p Program) help(app *cli.App, all bool) {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "gchat-hooks: %s\n\nusage: gchat-hooks COMMAND [OPTIONS]\n", app.Usage)
	for _, g := range groups() {
		if g.heading == forPrograms && !all {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", g.heading)
		for _, c := range g.commands {
			fmt.Fprintf(w, "  %s\t%s\n", c.name, app.Command(c.name).Usage)
		}
	}
	fmt.Fprintln(w, "\ngchat-hooks COMMAND --help says more about a command; "+
		"gchat-hooks --help --all lists the commands for programs too.")
	w.Flush()
}

// asCalled is the path of this program where it was called: a link in a person's folder outlasts the version that it leads
// to. self is that version, for a call that tells nothing.
func asCalled(arg0, self string) string {
	called, _ := exec.LookPath(arg0)
	called, _ = filepath.Abs(filepath.Join(filepath.Dir(called), "gchat-hooks")) // arg0 may be the name of a command
	there, _ := os.Stat(called)
	is, _ := os.Stat(self)
	if os.SameFile(there, is) { // not where one of them cannot be found
		return called
	}
	return self
}

// calledAs are the commands that have a name of their own, as a symlink and as a first word.
var calledAs = map[string]string{
	"gchat-send": "send", "gchat-wait": "wait", "gchat-response-poller": "poller",
	"menu-driver": "menu", "menu-driver.sh": "menu", "health-check.sh": "health",
}

// commandCalled is the command that a name stands for; "" for none.
func commandCalled(name string) string { return cmp.Or(calledAs[name], calledAs[hooks.JobName(name)]) }

// arguments are the command line with the command first.
func arguments(args []string) []string {
	rest := args[1:]
	if name := commandCalled(filepath.Base(args[0])); name != "" {
		rest = append([]string{name}, rest...)
	} else if len(rest) > 0 && commandCalled(rest[0]) != "" {
		rest = append([]string{commandCalled(rest[0])}, rest[1:]...)
	}
	return append([]string{"gchat-hooks"}, rest...)
}

// ordered are arguments as the library wants them: a command's flags before its words.
func ordered(args []string, app *cli.App) []string {
	if len(args) > 1 && slices.Contains([]string{"send", "wait", "answer"}, args[1]) {
		return append(args[:2:2], flagsFirst(args[2:], append(app.Command(args[1]).Flags, cli.HelpFlag))...)
	}
	return args
}

var longFlag = state.Pattern(`^--[a-z][a-z-]*(=.*)?$`)

// flagsFirst puts the flags before the words: the library takes what stands behind the first word for words, and people
// as well as Claude write `gchat-send "done" --type task_completion`. A lone "--" ends the flags.
func flagsFirst(args []string, known []cli.Flag) []string {
	var flags, words []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			words = append(words, args[i+1:]...)
			break
		}
		name, _, joined := strings.Cut(strings.TrimLeft(a, "-"), "=")
		flag := slices.IndexFunc(known, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
		isFlag, isSwitch := strings.HasPrefix(a, "-") && flag >= 0, joined
		if isFlag && !joined {
			_, isSwitch = known[flag].(*cli.BoolFlag)
		}
		// "- item one" and "-5 degrees" are messages; "--dryrun" is a slip that must not send.
		isText := len(words) > 0 || !strings.HasPrefix(a, "-") || a == "-" || strings.ContainsAny(a, " \n")
		switch {
		case !isFlag && isText && !longFlag().MatchString(a):
			words = append(words, a)
		case isFlag && !isSwitch && i+1 < len(args):
			flags = append(flags, a, args[i+1])
			i++
		default:
			flags = append(flags, a)
		}
	}
	return append(append(flags, "--"), words...)
}

func (p Program) hookCommand() *cli.Command {
	return &cli.Command{
		Name:      "hook",
		Usage:     "run a hook as Claude Code does: the event on stdin, the decision on stdout",
		ArgsUsage: "NAME",
		Action: func(*cli.Context) error {
			return usage(fmt.Errorf("hook takes a name: %s", strings.Join(hookNames(), ", ")), "gchat-hooks install")
		},
	}
}

// hookNames are the names of all hooks, sorted.
func hookNames() []string {
	return slices.Sorted(slices.Values(append(hooks.Names(), wake.Names()...)))
}

// version is what the Go tool knows of this build.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// asker puts questions to the person at the terminal. Without one a flag has to say it.
type asker struct {
	terminal bool // both ends are one
	in       io.Reader
	out      io.Writer
	// next has the next line that the person types, and is closed at the end of the input. A read of a terminal cannot be
	// called off: a line that one caller does not take any more is the answer to the next question.
	next func() <-chan string
}

func newAsker(in io.Reader, out io.Writer) *asker {
	next := sync.OnceValue(func() <-chan string {
		typed := make(chan string)
		go func() {
			defer close(typed)
			for lines := bufio.NewScanner(in); lines.Scan(); {
				typed <- lines.Text()
			}
		}()
		return typed
	})
	return &asker{terminal: isTerminal(in) && isTerminal(out), in: in, out: out, next: next}
}

// isTerminal says whether an end of this program is a person's terminal.
func isTerminal(end any) bool {
	f, ok := end.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// errStopped says that the person ended the conversation.
var errStopped = errors.New("stopped; what was done so far stays, and the same command goes on from there")

// line asks, and returns what was typed.
func (a *asker) line(ctx context.Context, question string) (string, error) {
	fmt.Fprintf(a.out, "%s ", question)
	return a.answer(ctx, a.next())
}

// secret asks on the terminal for what must not stay on the screen. However it ends, the terminal shows again what is typed.
// It goes before the first line: next would read the secret, too.
func (a *asker) secret(ctx context.Context, question string) (string, error) {
	fd := int(a.in.(*os.File).Fd())
	defer fmt.Fprintln(a.out)
	if before, err := term.GetState(fd); err == nil {
		defer term.Restore(fd, before)
	}
	fmt.Fprintf(a.out, "%s ", question)
	typed := make(chan string)
	go func() {
		defer close(typed)
		if line, err := term.ReadPassword(fd); err == nil {
			typed <- string(line)
		}
	}()
	return a.answer(ctx, typed)
}

// answer waits for a line, or for the person to go.
func (a *asker) answer(ctx context.Context, lines <-chan string) (string, error) {
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

// yes asks for a yes or a no. Enter is otherwise, and any other word a no.
func (a *asker) yes(ctx context.Context, question string, otherwise bool) (bool, error) {
	said, err := a.line(ctx, question+map[bool]string{true: " [Y/n]", false: " [y/N]"}[otherwise])
	if said == "" {
		return otherwise, err
	}
	return strings.EqualFold(said, "y") || strings.EqualFold(said, "yes"), err
}
