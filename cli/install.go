package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"gchat-hooks/hooks/settings"
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
	hooks, err := i.hooks()
	if err != nil {
		return usage(err, "gchat-hooks install --help")
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
		return failed(fmt.Errorf("%s is not what Claude Code takes: %w", path, syntax), "mend that line; nothing was written", exitFailed)
	case errors.As(err, &syntax):
		return failed(fmt.Errorf("%s does not parse: %w", path, syntax), "mend that line; nothing was written", exitFailed)
	case errors.Is(err, settings.ErrReadOnly):
		return failed(err, "chmod u+w "+path+", if that is yours to change", exitFailed)
	case errors.Is(err, settings.ErrOwner):
		return failed(err, "install as the owner of "+path, exitFailed)
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
		return "", failed(errors.New("`go run` removes its program when it ends"), "go build -o ~/bin/gchat-hooks . && ~/bin/gchat-hooks install", exitFailed)
	}
	path := i.self
	if filepath.Base(path) != "gchat-hooks" {
		path = filepath.Join(filepath.Dir(path), "gchat-hooks")
	}
	if _, err := os.Stat(path); err != nil {
		return "", failed(fmt.Errorf("this program is called %s, and hooks are known again by the name gchat-hooks", filepath.Base(i.self)), "mv "+i.self+" "+path, exitFailed)
	}
	return path, nil
}

// version is that of the Claude Code that will read the settings. One that is too old is an error.
func (i install) version(ctx context.Context) (v settings.Version, known bool, err error) {
	if v, known, err = i.askVersion(ctx); err == nil {
		err = v.Supported()
	}
	return v, known, err
}

func (i install) askVersion(ctx context.Context) (v settings.Version, known bool, err error) {
	if i.claude != "" {
		if v, known = settings.ParseVersion(i.claude); !known {
			err = usage(fmt.Errorf("--claude-version takes one like 2.1.329, not %q", i.claude), "gchat-hooks install --help")
		}
		return v, known, err
	}
	v, err = settings.AskVersion(ctx, i.env, 20*time.Second)
	switch project := i.scope == settings.Project; {
	case err != nil:
		return settings.Oldest, project, nil
	case project && v.Supported() == nil:
		return settings.Oldest, true, nil // others read it, too
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

// tell says what a change did.
func (i install) tell(ctx context.Context, c *settings.Change, done string) {
	switch {
	case c.Nothing():
		fmt.Fprintf(i.out, "%s: nothing to change\n", c.Path)
	case i.dryRun:
		fmt.Fprintf(i.out, "%s\n%s would be changed; nothing was written\n", strings.TrimRight(c.Diff(), "\n"), c.Path)
		if c.Refused != nil {
			fmt.Fprintf(i.out, "note: as it is, it would not be: %v\n", c.Refused)
		}
	default:
		fmt.Fprintf(i.out, "%s\n%s: hooks %s", strings.TrimRight(c.Diff(), "\n"), c.Path, done)
		if c.Backup != "" {
			fmt.Fprintf(i.out, "; what was there is in %s", c.Backup)
		}
		fmt.Fprintln(i.out)
	}
	i.note(ctx, c)
}

// note says what a person should know of the file that was changed.
func (i install) note(ctx context.Context, c *settings.Change) {
	if c.NotJSON() {
		fmt.Fprintf(i.out, "%s: Claude Code reads none of it, for it has comments or trailing commas, which were there before\n", c.Path)
	}
	if c.Disabled() {
		fmt.Fprintf(i.out, "%s: Claude Code runs no hook, for disableAllHooks is set there\n", c.Path)
	}
	if c.Backup != "" && toCommit(ctx, c.Backup) {
		fmt.Fprintf(i.out, "do not commit %s: settings may hold secrets, and git does not ignore it\n", c.Backup)
	}
}

// toCommit says whether a file is in a git work tree that does not ignore it.
func toCommit(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "check-ignore", "-q", filepath.Base(path))
	cmd.Dir = filepath.Dir(path)
	cmd.WaitDelay = time.Second
	var exit *exec.ExitError
	return errors.As(cmd.Run(), &exit) && exit.ExitCode() == 1 // 128: no work tree
}

// forget ends an uninstall: folders that were made for us and are empty go, and where nothing else of ours is left, so do our
// own notes and locks. What a purge would find, or cannot look at, counts as left.
func (i install) forget(ctx context.Context) error {
	if !state.HasMade(i.env) {
		return nil
	}
	unlock, err := settings.Lock(ctx, i.env) // no install is about to write into one of these folders
	if err != nil {
		return err
	}
	defer unlock()
	doubts := &strings.Builder{}
	p := &purge{env: i.env, self: i.self, out: doubts, dry: true}
	if err := p.look(ctx); err != nil {
		return nil // something of ours runs
	}
	p.leftovers = p.made.Folders // a project's folders are not ours to judge
	p.removeLeftovers()
	left := slices.ContainsFunc(p.parts, func(part part) bool {
		return part.name != "state" && (part.name != "links" || len(p.made.Programs) > 0)
	})
	if left || doubts.Len() > 0 {
		return nil
	}
	if err := state.ForgetMade(i.env); err != nil {
		return err
	}
	p.removeLeftovers() // those around the notes
	return nil
}

// place puts this program where it is to stay, for install.sh. Whatever can be found wrong is found before anything is
// written, and what is written is noted first: an uninstall finds it, wherever this was interrupted.
func (i install) place(ctx context.Context, program string) error {
	if !filepath.IsAbs(program) {
		return usage(fmt.Errorf("--place takes an absolute path, not %q", program), "gchat-hooks install --help")
	}
	if _, err := i.hooks(); err != nil {
		return usage(err, "gchat-hooks install --help")
	}
	if _, _, err := i.version(ctx); err != nil {
		return err
	}
	if _, err := os.Lstat(program); err == nil && !isGchatHooks(ctx, program) {
		return failed(fmt.Errorf("%s is there and not a gchat-hooks of ours, so it stays", program), "move it away, or take another --prefix", exitFailed)
	}
	b, err := os.ReadFile(i.self)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	if err := i.noteMade(ctx, state.Made{Programs: []string{program}}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return fmt.Errorf("make the program's folder: %w", err)
	}
	// By a rename: a daemon that runs keeps its program, and nobody ever starts half of one.
	if err := renameio.WriteFile(program, b, 0o755, renameio.WithTempDir(filepath.Dir(program)), renameio.WithStaticPermissions(0o755)); err != nil {
		return fmt.Errorf("place the program: %w", err)
	}
	return nil
}

// noteMade writes down what is about to be made, the settings file among it. Settings that cannot take hooks are found here, while
// it is still true that nothing was written.
func (i install) noteMade(ctx context.Context, made state.Made) error {
	file, err := settings.At(i.env, i.scope)
	if err != nil {
		return err
	}
	hooks, err := i.hooks()
	if err != nil {
		return err
	}
	entries, _, err := settings.Program{Path: "/gchat-hooks", Claude: settings.Oldest}.Entries(hooks) // it is not asked yet which one is here
	if err != nil {
		return err
	}
	// One that nobody may write is no error yet: the hooks in it may be those that are to stay.
	if _, err := file.Install(ctx, entries, true); err != nil {
		return settingsError(err, file.Path)
	}
	path, err := filepath.Abs(file.Path)
	if err != nil {
		return fmt.Errorf("find settings: %w", err)
	}
	made.Settings = []string{path}
	return state.NoteMade(i.env, made)
}

// isGchatHooks says whether a file is this program, of any version. It may be anybody's: it is given a moment to say.
func isGchatHooks(ctx context.Context, path string) bool {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	said := &beginning{}
	cmd.Stdout = said
	_ = cmd.Run() // what it said counts
	return strings.HasPrefix(string(said.b), "gchat-hooks ")
}

// beginning keeps the first bytes that a program writes: it may never stop.
type beginning struct{ b []byte }

func (w *beginning) Write(p []byte) (int, error) {
	if len(w.b) > 100 {
		return 0, errors.New("that is enough")
	}
	w.b = append(w.b, p...)
	return len(p), nil
}
