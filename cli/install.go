package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/hooks/wake"
	"gchat-hooks/state"
)

func (p Program) installCommand() *cli.Command {
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
			&cli.BoolFlag{Name: "links", Usage: "also link the names that agents call (gchat-send, menu-driver.sh, ...) beside this program"},
			&cli.StringFlag{Name: "claude-version", Usage: "`VERSION` of the Claude Code that reads the settings (default: what claude --version says)"},
			&cli.BoolFlag{Name: "keep", Usage: "leave the hooks that are registered already, where no --preset is given"},
		),
		Action: func(c *cli.Context) error {
			scope, err := scopeOf(c)
			if err != nil {
				return err
			}
			return install{
				env: os.Getenv, self: p.self, out: p.out, scope: scope, presets: c.StringSlice("preset"), phase: c.Int("phase"),
				dryRun: c.Bool("dry-run"), links: c.Bool("links"), keep: c.Bool("keep"), claude: c.String("claude-version"),
			}.run(c.Context)
		},
	}
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
				return "", usage(fmt.Errorf("--%s and --%s exclude each other", scope, s), "gchat-hooks "+c.Command.Name+" --help")
			}
			scope = s
		}
	}
	return cmp.Or(scope, settings.User), nil
}

// install writes our hooks into Claude Code's settings, or takes them out.
type install struct {
	env     state.Getenv
	self    string
	out     io.Writer
	scope   settings.Scope
	presets []string // none: the default one
	phase   int      // in place of presets; 0 for none
	dryRun  bool
	links   bool   // make, or remove, the names that we are called as
	keep    bool   // the hooks that are there, where no others are named
	claude  string // "": ask the installed one
}

func (i install) run(ctx context.Context) error {
	program, err := i.program()
	if err != nil {
		return err
	}
	file, err := settings.At(i.env, i.scope)
	if err != nil {
		return err
	}
	hooks, err := i.hooks(file)
	if err != nil {
		return usage(err, "gchat-hooks install --help")
	}
	version, err := i.version(ctx)
	if err != nil {
		return err
	}
	entries, left, err := settings.Program{Path: program, Claude: version, Waiting: int(state.HookTimeout.Seconds())}.Entries(hooks)
	if err != nil {
		return err
	}
	change, err := file.Install(ctx, entries, i.dryRun)
	if err != nil {
		return err
	}
	i.tell(change, "added")
	for _, h := range left {
		fmt.Fprintf(i.out, "left out: %s on %s needs Claude Code %s\n", h.Name, h.Event, settings.AsyncRewake)
	}
	if len(left) > 0 || i.phase == 1 || i.phase == 2 {
		fmt.Fprintln(i.out, "note: a session whose name begins with system3-, s3-, cccb- or a timestamp is in deny mode, and none of these hooks wakes it.\n"+
			`      {"rules": [{"preset": "system3", "ask_mode": "native"}]} in config.json has its questions stay in the dialog.`)
	}
	if i.scope == settings.Project {
		fmt.Fprintf(i.out, "note: who gets this file with the project needs gchat-hooks at the same place, %s, or the plugin in place of it\n", program)
	}
	if i.links && !i.dryRun {
		return link(i.out, filepath.Dir(program), namesFor(hooks))
	}
	return nil
}

func (i install) runUninstall(ctx context.Context) error {
	file, err := settings.At(i.env, i.scope)
	if err != nil {
		return err
	}
	change, err := file.Uninstall(ctx, i.dryRun)
	if err != nil {
		return err
	}
	i.tell(change, "removed")
	if i.links && !i.dryRun {
		return unlink(i.out, filepath.Dir(i.self))
	}
	return nil
}

// hooks are those that are asked for.
func (i install) hooks(file settings.File) ([]settings.Hook, error) {
	switch {
	case i.phase != 0 && len(i.presets) > 0:
		return nil, errors.New("--phase and --preset exclude each other")
	case i.phase != 0:
		return settings.Phase(i.phase)
	case i.keep && len(i.presets) == 0: // an upgrade must not take back what a person chose
		if there, err := file.Hooks(); err == nil && len(there) > 0 {
			return there, nil
		}
	}
	return settings.Hooks(i.presets...)
}

// program is the path that hooks are registered with: ours, as long as that stays.
func (i install) program() (string, error) {
	if strings.Contains(i.self, string(filepath.Separator)+"go-build") {
		return "", failed(errors.New("`go run` removes its program when it ends"), "go build -o ~/bin/gchat-hooks . && ~/bin/gchat-hooks install", exitFailed)
	}
	path := filepath.Join(filepath.Dir(i.self), "gchat-hooks")
	if _, err := os.Stat(path); err != nil {
		return "", failed(fmt.Errorf("this program is called %s, and hooks are known again by the name gchat-hooks", filepath.Base(i.self)), "mv "+i.self+" "+path, exitFailed)
	}
	return path, nil
}

// version is that of the Claude Code that will read the settings.
func (i install) version(ctx context.Context) (v settings.Version, err error) {
	known := true
	if i.claude != "" {
		if v, known = settings.ParseVersion(i.claude); !known {
			return v, usage(fmt.Errorf("--claude-version takes one like 2.1.329, not %q", i.claude), "gchat-hooks install --help")
		}
	} else if v, err = settings.AskVersion(ctx, i.env, 20*time.Second); err != nil {
		fmt.Fprintf(i.out, "no claude that says its version: the hooks are those of %s, which all newer ones take\n", settings.Oldest)
	}
	if err := v.Supported(); err != nil {
		return v, failed(err, "nothing was written", exitFailed)
	}
	if i.scope == settings.Project {
		return settings.Oldest, nil // others read it, too
	}
	return v, nil
}

// tell says in a line what a change did, or shows what it would do.
func (i install) tell(c *settings.Change, done string) {
	path := c.Path
	if below, ok := strings.CutPrefix(path, i.env("HOME")+"/"); ok && i.env("HOME") != "" {
		path = "~/" + below
	}
	switch {
	case c.Nothing():
		fmt.Fprintf(i.out, "%s: nothing to change\n", path)
	case i.dryRun:
		fmt.Fprintf(i.out, "%s%s would be changed; nothing was written\n", c.Diff(), path)
		if c.Refused != nil {
			fmt.Fprintf(i.out, "note: as it is, it would not be: %v\n", c.Refused)
		}
	case c.Backup != "":
		fmt.Fprintf(i.out, "%s: %d hooks %s (backup beside it)\n", path, c.Hooks, done)
	default:
		fmt.Fprintf(i.out, "%s: %d hooks %s\n", path, c.Hooks, done)
	}
}

// namesFor are the names that agents and people call beside these hooks.
func namesFor(hooks []settings.Hook) []string {
	names := []string{"gchat-send", "gchat-wait"}
	if slices.ContainsFunc(hooks, func(h settings.Hook) bool { return slices.Contains(wake.Names(), h.Name) }) {
		names = append(names, "menu-driver", "menu-driver.sh", "health-check.sh")
	}
	return names
}

// link makes names of the program beside it. What stands there and is not ours stays.
func link(out io.Writer, dir string, names []string) error {
	var made []string
	for _, name := range names {
		path := filepath.Join(dir, name)
		if isOurLink(path) {
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			fmt.Fprintf(out, "%s is there and no link to gchat-hooks; it stays\n", path)
			continue
		}
		if err := os.Symlink("gchat-hooks", path); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
		made = append(made, name)
	}
	if len(made) > 0 {
		fmt.Fprintf(out, "%s: linked %s\n", dir, strings.Join(made, ", "))
	}
	return nil
}

// unlink removes all links to the program beside it, also those of earlier installs.
func unlink(out io.Writer, dir string) error {
	links := ourLinks(dir)
	for _, path := range links {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove link: %w", err)
		}
	}
	fmt.Fprintf(out, "%s: %d links removed\n", dir, len(links))
	return nil
}

// ourLinks are those of our names in a folder that are links to the program beside them.
func ourLinks(dir string) (links []string) {
	for _, name := range slices.AppendSeq(hookNames(), maps.Keys(calledAs)) {
		if path := filepath.Join(dir, name); isOurLink(path) {
			links = append(links, path)
		}
	}
	return links
}

func isOurLink(path string) bool {
	to, err := os.Readlink(path)
	return err == nil && (to == "gchat-hooks" || to == filepath.Join(filepath.Dir(path), "gchat-hooks"))
}
