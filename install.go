package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

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

// installError is an install that cannot be done.
type installError struct {
	error
	hint string
}

func (e installError) Hint() string  { return e.hint }
func (e installError) Unwrap() error { return e.error }

func (i install) run(ctx context.Context) error {
	program, err := i.program()
	if err != nil {
		return err
	}
	hooks, err := i.hooks()
	if err != nil {
		return usageError{err, "gchat-hooks install --help"}
	}
	version, known, err := i.version(ctx)
	if err != nil {
		return err
	}
	if !known {
		fmt.Fprintf(i.out, "no claude that says its version: the hooks are those of %s, which all newer ones take\n", version)
	}
	var noted state.Made
	if !i.dryRun {
		if err := i.noteMade(ctx, state.Made{}); err != nil {
			return err
		}
		if noted, err = state.ReadMade(i.env); err != nil {
			return err
		}
	}
	if i.links && !i.dryRun {
		if err := link(i.out, program); err != nil {
			return err
		}
	}
	file, err := settings.At(i.env, i.scope)
	if err != nil {
		return err
	}
	if i.keep && len(i.presets) == 0 && i.phase == 0 {
		// An upgrade must not take back what a person chose. Where they start another program of ours, the same ones are
		// written anew.
		chosen, start, err := file.Chosen(program)
		if err == nil && len(chosen) > 0 {
			if start {
				fmt.Fprintf(i.out, "%s: hooks stay as they are\n", file.Path)
				return nil
			}
			hooks = chosen
		}
	}
	cfg := state.LoadConfig(i.env, state.ProjectDir(i.env))
	entries, left, err := settings.Program{Path: program, Claude: version, Waiting: int(cfg.HookTimeout.Seconds())}.Entries(hooks)
	if err != nil {
		return err
	}
	change, err := file.Install(ctx, entries, i.dryRun)
	if err != nil {
		return settingsError(err, file.Path)
	}
	for _, l := range left {
		fmt.Fprintf(i.out, "left out: %s on %s %s\n", l.Name, l.Event, l.Why)
	}
	if change.Written { // an uninstall that ended meanwhile may have taken the notes for the last of us
		if err := state.NoteMade(i.env, noted); err != nil {
			return err
		}
	}
	i.tell(ctx, change, "installed")
	if i.scope == settings.Project {
		fmt.Fprintf(i.out, "note: who gets this file with the project needs gchat-hooks at the same place, %s, or the plugin in place of it\n", program)
	}
	noWaking := slices.ContainsFunc(left, func(l settings.LeftOut) bool { return l.Rewake })
	if noWaking || i.phase == 1 || i.phase == 2 {
		fmt.Fprintln(i.out, "note: a session whose name begins with system3-, s3-, cccb- or a timestamp is in deny mode, and none of these hooks wakes it.\n"+
			`      {"rules": [{"preset": "system3", "ask_mode": "native"}]} in config.json has its questions stay in the dialog.`)
	}
	return nil
}

func (i install) runUninstall(ctx context.Context) error {
	file, err := settings.At(i.env, i.scope)
	if err != nil {
		return err
	}
	change, err := file.Uninstall(ctx, true)
	if err == nil && !i.dryRun {
		err = change.Refused
	}
	if err == nil && !i.dryRun && !change.Nothing() {
		if err = state.NoteMade(i.env, state.Made{}); err == nil { // the lock may be the first file that we ever write
			change, err = file.Uninstall(ctx, false)
		}
	}
	if err != nil {
		return settingsError(err, file.Path)
	}
	i.tell(ctx, change, "taken out")
	if i.dryRun {
		return nil
	}
	if i.links {
		if err := unlink(i.out, i.self); err != nil {
			return err
		}
	}
	return i.forget(ctx)
}

func settingsError(err error, path string) error {
	var syntax *settings.SyntaxError
	switch {
	case errors.As(err, &syntax) && syntax.Parses:
		return installError{fmt.Errorf("%s is not what Claude Code takes: %w", path, syntax), "mend that line; nothing was written"}
	case errors.As(err, &syntax):
		return installError{fmt.Errorf("%s does not parse: %w", path, syntax), "mend that line; nothing was written"}
	case errors.Is(err, settings.ErrReadOnly):
		return installError{err, "chmod u+w " + path + ", if that is yours to change"}
	case errors.Is(err, settings.ErrOwner):
		return installError{err, "install as the owner of " + path}
	}
	return err
}

func (i install) hooks() ([]settings.Hook, error) {
	if i.phase == 0 {
		return settings.Hooks(i.presets...)
	}
	if len(i.presets) > 0 {
		return nil, errors.New("--phase and --preset exclude each other")
	}
	return settings.Phase(i.phase)
}

// program is the path that hooks are registered with: ours, as long as that stays.
func (i install) program() (string, error) {
	if strings.Contains(i.self, string(filepath.Separator)+"go-build") {
		return "", installError{errors.New("`go run` removes its program when it ends"), "go build -o ~/bin/gchat-hooks . && ~/bin/gchat-hooks install"}
	}
	path := i.self
	if filepath.Base(path) != "gchat-hooks" {
		path = filepath.Join(filepath.Dir(path), "gchat-hooks")
	}
	if _, err := os.Stat(path); err != nil {
		return "", installError{fmt.Errorf("this program is called %s, and hooks are known again by the name gchat-hooks", filepath.Base(i.self)), "mv " + i.self + " " + path}
	}
	return path, nil
}

// oldestClaude is the version whose hooks all newer ones take.
var oldestClaude = settings.Version{2, 1, 45}

// version is that of the Claude Code that will read the settings.
func (i install) version(ctx context.Context) (v settings.Version, known bool, err error) {
	if i.claude != "" {
		if v, known = settings.ParseVersion(i.claude); !known {
			err = usageError{fmt.Errorf("--claude-version takes one like 2.1.329, not %q", i.claude), "gchat-hooks install --help"}
		}
		return v, known, err
	}
	if i.scope == settings.Project {
		return oldestClaude, true, nil // others read it, too
	}
	if v, err = settings.AskVersion(ctx, i.env, 20*time.Second); err != nil {
		return oldestClaude, false, nil
	}
	return v, true, nil
}

// link makes the names that the program is called as, beside it. What stands there and is not ours stays.
func link(out io.Writer, program string) error {
	dir, made := filepath.Dir(program), 0
	for _, name := range allNames() {
		path := filepath.Join(dir, name)
		switch to, err := os.Readlink(path); {
		case err == nil && (to == "gchat-hooks" || to == program):
			continue
		case !errors.Is(err, os.ErrNotExist):
			fmt.Fprintf(out, "%s is there and no link to gchat-hooks; it stays\n", path)
			continue
		}
		if err := os.Symlink("gchat-hooks", path); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
		made++
	}
	fmt.Fprintf(out, "%d names linked in %s\n", made, dir)
	return nil
}

// unlink removes the links that link made.
func unlink(out io.Writer, self string) error {
	dir, removed := filepath.Dir(self), 0
	for _, name := range allNames() {
		path := filepath.Join(dir, name)
		if !isOurLink(dir, name) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove link: %w", err)
		}
		removed++
	}
	fmt.Fprintf(out, "%d links removed from %s\n", removed, dir)
	return nil
}

// isOurLink says whether a name in a folder is a link to the program beside it.
func isOurLink(dir, name string) bool {
	to, err := os.Readlink(filepath.Join(dir, name))
	return err == nil && (to == "gchat-hooks" || to == filepath.Join(dir, "gchat-hooks"))
}

// allNames are the names that the program is called as besides its own, sorted.
func allNames() (names []string) {
	names = append(names, hookNames()...)
	for name := range calledAs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
