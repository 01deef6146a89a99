package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) installCommand() *cli.Command {
	return &cli.Command{
		Name:  "install",
		Usage: "write the hooks into Claude Code's settings",
		Description: "Questions:    gchat-hooks install\n" +
			"And reports:  gchat-hooks install --preset report\n" +
			"Questions, permissions, plans and the next instruction:  gchat-hooks install --preset approve\n" +
			"Presets add up. Back to questions alone:  gchat-hooks install --only answer",
		Flags: append(scopeFlags(),
			&cli.StringSliceFlag{Name: "preset", Usage: "add `NAME`: " + strings.Join(settings.Presets(), ", ") + "; else answer"},
			&cli.StringSliceFlag{Name: "only", Usage: "register the preset `NAME` in place of all others; says what it takes away"},
			&cli.BoolFlag{Name: "links", Usage: "also link the names that agents call (gchat-send, ...) beside this program"},
			&cli.StringFlag{Name: "claude-version", Usage: "`VERSION` of Claude Code (default: what claude --version says)"},
			&cli.BoolFlag{Name: "keep", Usage: "without --preset: keep the hooks that are registered already"},
		),
		Action: func(c *cli.Context) error {
			scope, err := scopeOf(c)
			if err != nil {
				return err
			}
			if c.IsSet("only") && (c.IsSet("preset") || c.Bool("keep")) {
				return usage(errors.New("--only goes without --preset and --keep"), "gchat-hooks install --help")
			}
			return install{
				Program: p, scope: scope, presets: append(c.StringSlice("preset"), c.StringSlice("only")...), only: c.IsSet("only"),
				dryRun: c.Bool("dry-run"), links: c.Bool("links"), keep: c.Bool("keep"), claude: c.String("claude-version"),
			}.run(c.Context)
		},
	}
}

// scopeFlags say whose settings are meant.
func scopeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "user", Usage: "in your own settings, for all projects (default)"},
		&cli.BoolFlag{Name: "project", Usage: "in the project's settings, which go to others with the repository"},
		&cli.BoolFlag{Name: "local", Usage: "in the project's settings that stay on this machine"},
		&cli.BoolFlag{Name: "dry-run", Usage: "show what would change, and write nothing"},
	}
}

func scopeOf(c *cli.Context) (scope settings.Scope, err error) {
	for _, s := range []settings.Scope{settings.User, settings.Project, settings.Local} {
		if c.Bool(string(s)) && scope != "" {
			err = usage(fmt.Errorf("--%s and --%s exclude each other", scope, s), "gchat-hooks "+c.Command.Name+" --help")
		} else if c.Bool(string(s)) {
			scope = s
		}
	}
	return cmp.Or(scope, settings.User), err
}

// install writes our hooks into Claude Code's settings.
type install struct {
	Program
	scope   settings.Scope
	presets []string // none: the default one
	only    bool     // the presets replace the hooks that are registered
	dryRun  bool
	links   bool   // make the names that agents call
	keep    bool   // register no more than is registered already
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
	presets := i.presets
	if len(presets) == 0 && !i.keep {
		presets = settings.Presets()[:1]
	}
	hooks, err := settings.Hooks(presets...)
	if err != nil {
		return usage(err, "gchat-hooks install --help")
	}
	// What is wrong with the file is said where it is written.
	if all, err := file.Hooks(presets...); !i.only && err == nil && len(all) > 0 {
		hooks = all
	}
	version, err := i.version(ctx, file)
	if err != nil {
		return err
	}
	entries, left := settings.Entries(program, version, hooks)
	change, err := file.Install(entries, i.dryRun)
	if err != nil {
		return err
	}
	tell(i.out, change, i.dryRun, "added")
	for _, was := range change.Gone {
		fmt.Fprintf(i.out, "taken away: %s\n", was)
	}
	for _, h := range left {
		fmt.Fprintf(i.out, "left out: %s on %s needs Claude Code %s\n", h.Name, h.Event, settings.AsyncRewake)
	}
	if slices.Contains(i.presets, "wake") {
		err = i.letMenuDecide()
	}
	if i.scope != settings.User && !i.dryRun { // a purge looks for hooks in known projects
		err = cmp.Or(err, state.Register(i.env, state.SpareState(i.env), state.ProjectDir(i.env)))
	}
	if i.links && !i.dryRun {
		err = cmp.Or(err, link(i.out, filepath.Dir(program)))
		if !config.Load(i.env, state.ProjectDir(i.env)).Sends() {
			fmt.Fprintf(i.out, "Next, say where questions go:  %s setup\n", i.typed())
		}
	}
	return err
}

// letMenuDecide has an agent that is woken choose in permissions and plans, too.
func (i install) letMenuDecide() error {
	path, has := state.ConfigFile(i.env), map[bool]string{true: "would get", false: "now has"}[i.dryRun]
	const means = "menu-driver, and so your agent, may choose in permissions and plans"
	fmt.Fprintf(i.out, "%s %s \"menu_decides\": true: %s\n", path, has, means)
	if i.dryRun {
		return nil
	}
	return config.SetMember(path, "menu_decides", true)
}

// tellMenuDecides says that menu-driver may still decide, though no hook wakes an agent.
func (p Program) tellMenuDecides() {
	if config.Load(p.env, state.ConfigDir(p.env)).MenuDecides {
		const still = "menu-driver may still choose in permissions and plans; take it out if no agent needs it"
		fmt.Fprintf(p.out, "%s has \"menu_decides\": true: %s\n", state.ConfigFile(p.env), still)
	}
}

// approves says whether the preset approve is registered.
func (i install) approves() bool {
	file, _ := settings.At(i.env, i.scope) // run says what is wrong with it
	hooks, _ := file.Hooks()
	return slices.ContainsFunc(hooks, func(h settings.Hook) bool { return h.Event == "PostToolBatch" })
}

// program is the path that hooks are registered with: ours, as long as that stays.
func (i install) program() (string, error) {
	if strings.Contains(i.self, string(filepath.Separator)+"go-build") {
		return "", failed(errors.New("`go run` removes its program when it ends"), "go build -o ~/bin/gchat-hooks .", exitFailed)
	}
	path := filepath.Join(filepath.Dir(i.installed()), "gchat-hooks")
	if _, err := os.Stat(path); err != nil {
		return "", failed(fmt.Errorf("this program is called %s", filepath.Base(i.self)), "rename it to gchat-hooks", exitFailed)
	}
	return path, nil
}

// version is that of the Claude Code that will read the settings; where none is found, that which the file was written for.
func (i install) version(ctx context.Context, file settings.File) (v settings.Version, err error) {
	v, known := settings.ParseVersion(i.claude)
	if i.claude == "" {
		v, err = settings.AskVersion(ctx, i.env, 20*time.Second)
	} else if !known {
		return v, usage(fmt.Errorf("--claude-version takes one like 2.1.329, not %q", i.claude), "gchat-hooks install --help")
	}
	if err != nil {
		const words = "claude is not found: the hooks are those that %s knows; newer ones run them, too " +
			"(--claude-version names yours)\n"
		v = file.WrittenFor()
		fmt.Fprintf(i.out, words, v)
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
func tell(out io.Writer, c *settings.Change, dryRun bool, done string) {
	switch {
	case c.Nothing():
		fmt.Fprintf(out, "%s: nothing to change\n", c.Path)
	case dryRun:
		fmt.Fprintf(out, "%s%s would be changed; nothing was written\n", c.Diff(), c.Path)
	case done == "added" && c.Before > 0:
		fmt.Fprintf(out, "%s: %d hooks added, in place of %d\n", c.Path, c.Hooks, c.Before)
	default:
		fmt.Fprintf(out, "%s: %d hooks %s\n", c.Path, c.Hooks, done)
	}
}

// link makes the names that agents call, beside the program. What stands there already stays.
func link(out io.Writer, dir string) error {
	var linked []string
	for _, name := range []string{"gchat-send", "gchat-wait", "menu-driver", "menu-driver.sh", "health-check.sh"} {
		err := os.Symlink("gchat-hooks", filepath.Join(dir, name))
		if err == nil {
			linked = append(linked, name)
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if len(linked) > 0 {
		fmt.Fprintf(out, "%s: linked %s\n", dir, strings.Join(linked, ", "))
	}
	return nil
}

// ourLinks are the links in a folder that lead to the program beside them, whatever they are called.
func ourLinks(dir string) (links []string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if to, _ := os.Readlink(path); to == "gchat-hooks" || to == filepath.Join(dir, "gchat-hooks") {
			links = append(links, path)
		}
	}
	return links
}

func (p Program) uninstallCommand() *cli.Command {
	return &cli.Command{
		Name:  "uninstall",
		Usage: "remove the hooks from Claude Code's settings",
		Description: "Hooks only:  gchat-hooks uninstall\n" +
			"All of it:   gchat-hooks uninstall --purge          (it shows what goes, and asks)",
		Flags: append(scopeFlags(),
			&cli.BoolFlag{Name: "links", Usage: "also remove the links beside this program"},
			&cli.BoolFlag{Name: "purge", Usage: "remove all scopes' hooks, service, login, links, state, logs and configuration"},
			&cli.BoolFlag{Name: "yes", Usage: "with --purge: do not ask"},
		),
		Action: func(c *cli.Context) error {
			if c.Bool("purge") {
				if c.Bool("user") || c.Bool("project") || c.Bool("local") {
					return usage(errors.New("--purge takes the hooks out of all scopes"), "gchat-hooks uninstall --help")
				}
				return (&purge{Program: p}).run(c.Context, c.Bool("dry-run"), c.Bool("yes"))
			}
			scope, err := scopeOf(c)
			if err != nil {
				return err
			}
			file, err := settings.At(p.env, scope)
			if err != nil {
				return err
			}
			change, err := file.Uninstall(c.Bool("dry-run"))
			if err != nil {
				return err
			}
			tell(p.out, change, c.Bool("dry-run"), "removed")
			if err := p.takeModeBack(file, c.Bool("dry-run")); err != nil {
				return err
			}
			p.tellMenuDecides()
			if !c.Bool("links") || c.Bool("dry-run") {
				return nil
			}
			dir := filepath.Dir(p.installed())
			links := ourLinks(dir)
			fmt.Fprintf(p.out, "%s: %d links removed\n", dir, len(links))
			return removeForGood(links...)
		},
	}
}

// purge is an uninstall of everything. It looks first, shows what it found, and asks.
type purge struct {
	Program
	shown   []string                      // a line for each thing that goes
	steps   []func(context.Context) error // the hooks first, which would start a program that is gone
	paths   []string                      // files and folders, which go after that: what finds the rest stays to the last
	folders []string                      // that may be empty in the end: then they go, with those above them
}

func (p *purge) run(ctx context.Context, dryRun, yes bool) error {
	if err := p.find(); err != nil {
		return err
	}
	if len(p.shown) == 0 {
		fmt.Fprintln(p.out, "nothing of gchat-hooks is here")
		return nil
	}
	fmt.Fprintf(p.out, "This goes, for good:\n%s", strings.Join(p.shown, ""))
	if dryRun {
		return nil
	}
	if !yes {
		ask := newAsker(p.in, p.out)
		if !ask.terminal {
			return usage(errors.New("there is no terminal to ask on"), "gchat-hooks uninstall --purge --yes")
		}
		if yes, err := ask.yes(ctx, "Remove all of it?", false); err != nil || !yes {
			return cmp.Or(err, failed(errors.New("nothing was removed"), "", exitFailed))
		}
	}
	for _, step := range p.steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("%w; the rest was left in place", err)
		}
	}
	endPollers(p.env) // they would write their files again
	endSpace(p.env)
	if err := removeForGood(p.paths...); err != nil {
		return err
	}
	for _, dir := range p.folders {
		for os.Remove(dir) == nil && strings.HasPrefix(dir, state.Home(p.env)+"/") { // fails where there is something in it
			dir = filepath.Dir(dir)
		}
	}
	fmt.Fprintln(p.out, "gchat-hooks is gone")
	return nil
}

// find lists what there is. It changes nothing.
func (p *purge) find() error {
	user := state.UserState(p.env)
	daemon, chat := service.New(p.env, p.self, io.Discard), service.Space(p.env, p.self, io.Discard)
	_, installed := daemon.Installed()
	_, spaceKept := chat.Installed()
	const wouldWrite = "would write its files again"
	if _, detached := lastSpace(p.env); !spaceKept && detached == 0 && spaceRuns(p.env) {
		err := errors.New("the embedded space runs (gchat-hooks space), and " + wouldWrite)
		return failed(err, "end it (Ctrl-C where it runs; pgrep -f 'gchat-hooks s' names it), then run this again", exitFailed)
	}
	for _, h := range state.Pollers(p.env) {
		if h.Lives && h.Daemon && !installed {
			err := fmt.Errorf("the daemon runs (pid %d on %s), and %s", h.PID, h.Machine, wouldWrite)
			return failed(err, "end it (Ctrl-C where it runs, or kill its pid), then run this again", exitFailed)
		}
	}
	projects, bad := state.Projects(p.env)
	for _, err := range bad {
		fmt.Fprintf(p.out, "%v: that project's folders are not looked at\n", err)
	}
	if err := p.findHooks(projects); err != nil {
		return err
	}
	for _, kept := range []*service.Service{daemon, chat} {
		if unit, there := kept.Installed(); there {
			p.show("service", unit)
			p.steps = append(p.steps, kept.Uninstall)
			p.folders = append(p.folders, filepath.Join(filepath.Dir(unit), "default.target.wants"), filepath.Dir(unit))
		}
	}
	if l, err := config.ReadLogin(config.LoginFile(p.env)); err == nil { // else it goes with its folder
		p.show("login", wording.Line(l.User)+", also at Google")
		p.steps = append(p.steps, p.logOut)
	}
	beside := filepath.Dir(p.installed())
	p.findFiles("links in", beside, ourLinks(beside))
	for _, project := range projects {
		files, folders := state.OwnFiles(project.State)
		p.findFiles("questions in", project.State, files)
		p.folders = append(p.folders, folders...)
	}
	log := state.LogPath(p.env) // last: what ends because its state is gone logs that, and may begin the log only now
	for _, path := range []string{state.ConfigDir(p.env), user, state.AuditPath(p.env), log, log + ".1"} {
		if _, err := os.Lstat(path); err == nil {
			p.findFiles("all of", path, []string{path, log})
		}
		p.folders = append(p.folders, filepath.Dir(path))
	}
	return nil
}

func (p *purge) show(name, what string) {
	p.shown = append(p.shown, fmt.Sprintf("  %-14s %s\n", name, what))
}

func (p *purge) findFiles(name, where string, paths []string) {
	if len(paths) > 0 {
		p.show(name, where)
		p.paths = append(p.paths, paths...)
	}
}

// findHooks finds our hooks in the settings that are known. The person's own that cannot be read stop the purge; others stay as
// they are.
func (p *purge) findHooks(projects []*state.Project) error {
	files, err := settings.Known(p.env, projects)
	if err != nil {
		return err
	}
	if mark, err := os.ReadFile(modeMark(p.env)); err == nil {
		p.show("mode", strings.TrimSpace(string(mark))+", permissions.defaultMode")
		p.steps = append(p.steps, func(context.Context) error { return p.takeModeBack(files[0], false) })
	}
	for i, file := range files {
		change, err := file.Uninstall(true)
		switch {
		case slices.Contains(files[:i], file):
		case err != nil && i == 0:
			return err
		case err != nil:
			fmt.Fprintf(p.out, "%s is left as it is: %v\n", file.Path, err)
		case !change.Nothing():
			p.folders = append(p.folders, filepath.Dir(file.Path))
			p.show("hooks", file.Path)
			p.steps = append(p.steps, func(context.Context) error {
				_, err := file.Uninstall(false)
				return err
			})
		}
	}
	return nil
}

// removeForGood removes files and folders, and again while a process of ours makes them anew: it ends when it finds nothing left.
func removeForGood(paths ...string) (err error) {
	there := func(path string) bool {
		_, missing := os.Lstat(path)
		return missing == nil
	}
	for range 50 {
		err = nil
		for _, path := range paths {
			err = cmp.Or(err, os.RemoveAll(path))
		}
		time.Sleep(100 * time.Millisecond)
		left := slices.IndexFunc(paths, there)
		if left < 0 {
			return nil
		}
		err = cmp.Or(err, fmt.Errorf("%s is made anew by a process that runs", paths[left]))
	}
	return err
}
