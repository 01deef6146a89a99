package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// programCommands are the names that a command of ours can begin with, and what they are
// as a command of gchat-hooks.
func programCommands() map[string][]string {
	commands := map[string][]string{"gchat-hooks": nil}
	for name, command := range commandAliases {
		commands[name] = []string{command}
	}
	return commands
}

// commandsIn are the commands of ours in a line of a shell, as args; what is quoted is
// one word, and none that is checked.
func commandsIn(line string) (found [][]string) {
	line, _, _ = strings.Cut(line, " # ")
	line = regexp.MustCompile(`"[^"]*"|'[^']*'`).ReplaceAllString(line, "QUOTED")
	for _, part := range regexp.MustCompile(`&&|\|\||[|;()]`).Split(line, -1) {
		args := strings.Fields(part)
		for len(args) > 0 && (strings.Contains(args[0], "=") &&
			!strings.HasPrefix(args[0], "-") || args[0] == "$") {
			args = args[1:]
		}
		if len(args) > 2 && args[0] == "go" && args[1] == "run" && args[2] == "." {
			args = append([]string{"gchat-hooks"}, args[3:]...)
		}
		if len(args) == 0 {
			continue
		}
		if prefix, ok := programCommands()[strings.TrimSuffix(filepath.Base(args[0]), ".sh")]; ok {
			found = append(found, append(slices.Clone(prefix), args[1:]...))
		}
	}
	return found
}

// TestDocsCommands_Exist asks of every command line in the pages whether the program has
// the command, the hook and the flags.
func TestDocsCommands_Exist(t *testing.T) {
	app := Program{}.buildApp()
	checked := 0
	for _, p := range docPages(t) {
		for _, line := range p.codeLines {
			if _, after, ok := strings.Cut(line, "./install.sh"); ok {
				for _, flag := range regexp.MustCompile(`--\S+`).FindAllString(after, -1) {
					if !isInstallerFlag(flag) {
						t.Errorf("%s: %q: install.sh has no flag %s", p.path, line, flag)
					}
				}
			}
			for _, args := range commandsIn(line) {
				checked++
				if problem := unknownPart(app, args); problem != "" {
					t.Errorf("%s: %q: %s", p.path, strings.TrimSpace(line), problem)
				}
			}
			flag, _, _ := strings.Cut(line, " ")
			isKnown := anyHasFlag(app, flag) || slices.Contains(foreignFlags, flag) ||
				isInstallerFlag(flag)
			if strings.HasPrefix(flag, "--") && !isKnown {
				t.Errorf("%s: no command has the flag %s", p.path, flag)
			}
		}
	}
	wantFound(t, checked, 60, "commands")
}

// isInstallerFlag says whether install.sh takes a flag.
func isInstallerFlag(flag string) bool {
	b, _ := os.ReadFile("install.sh")
	return strings.Contains(string(b), " "+flag+") ")
}

// foreignFlags are flags of other programs that the pages name.
var foreignFlags = []string{"--bare", "--bg", "--message-file"}

// unknownPart says what of a command line the program does not have.
func unknownPart(app *cli.App, args []string) string {
	if len(args) == 0 {
		return ""
	}
	if args[0] == "hook" || slices.Contains(hookNames(), args[0]) {
		name := args[len(args)-1]
		if len(args) > 1 && name != "NAME" && !slices.Contains(hookNames(), name) {
			return "there is no hook " + name
		}
		return ""
	}
	args = normalizeArgs(append([]string{"gchat-hooks"}, args...))[1:]
	if args[0] == "help" || args[0] == "--version" {
		return ""
	}
	c := app.Command(args[0])
	if c == nil {
		return "there is no command " + args[0]
	}
	args = args[1:]
	if len(c.Subcommands) > 0 && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name := c.Name
		if c = c.Command(args[0]); c == nil {
			return name + " has no command " + args[0]
		}
		args = args[1:]
	}
	for _, w := range args {
		name, _, _ := strings.Cut(strings.Trim(w, "[],.…"), "=")
		if strings.HasPrefix(name, "--") && name != "--" && !hasFlag(c, name) {
			return c.Name + " has no flag " + name
		}
	}
	return ""
}

func hasFlag(c *cli.Command, name string) bool {
	return name == "--help" || slices.ContainsFunc(c.Flags, func(f cli.Flag) bool {
		return slices.Contains(f.Names(), strings.TrimLeft(name, "-"))
	})
}

func anyHasFlag(app *cli.App, name string) bool {
	name, _, _ = strings.Cut(name, "=")
	for _, c := range app.Commands {
		for _, c := range append([]*cli.Command{c}, c.Subcommands...) {
			if hasFlag(c, name) {
				return true
			}
		}
	}
	return false
}

// commandsNamed are the commands that a text shows, by name.
func commandsNamed(app *cli.App, text string) map[string]*cli.Command {
	found := map[string]*cli.Command{}
	for line := range strings.Lines(text) {
		for _, code := range append(codeSpans(line), line) {
			for _, args := range commandsIn(code) {
				if len(args) == 0 {
					continue
				}
				if c := app.Command(args[0]); c != nil {
					found[c.Name] = c
					for _, sub := range c.Subcommands {
						found[sub.Name] = sub
					}
				}
			}
		}
	}
	return found
}
