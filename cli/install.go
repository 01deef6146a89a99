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
			"Each preset adds to those that are there. Back to questions alone:  gchat-hooks install --only answer",
		Flags: append(
			scopeFlags(),
			&cli.StringSliceFlag{
				Name: "preset",
				Usage: "add `NAME`: " + strings.Join(settings.PresetNames(), ", ") +
					" (default: answer)",
			},
			&cli.StringSliceFlag{
				Name:  "only",
				Usage: "register the preset `NAME` in place of all others; prints what it removes",
			},
			&cli.BoolFlag{
				Name:  "links",
				Usage: "also link the names that agents call (gchat-send, ...) beside this program",
			},
			&cli.StringFlag{
				Name:  "claude-version",
				Usage: "`VERSION` of Claude Code (default: what claude --version says)",
			},
			&cli.BoolFlag{
				Name:  "keep",
				Usage: "add no preset to hooks that are registered already",
			},
		),
		Action: func(c *cli.Context) error {
			scope, err := scopeOf(c)
			if err != nil {
				return err
			}
			if c.IsSet("only") && (c.IsSet("preset") || c.Bool("keep")) {
				return usageError(errors.New("--only cannot be used with --preset or --keep"),
					"gchat-hooks install --help")
			}
			return installer{
				Program:         p,
				scope:           scope,
				presets:         append(c.StringSlice("preset"), c.StringSlice("only")...),
				replacesOthers:  c.IsSet("only"),
				dryRun:          c.Bool("dry-run"),
				makesLinks:      c.Bool("links"),
				keepsRegistered: c.Bool("keep"),
				claudeVersion:   c.String("claude-version"),
			}.run(c.Context)
		},
	}
}

// scopeFlags are the flags that choose a settings file.
func scopeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "user", Usage: "in your own settings, for all projects (default)"},
		&cli.BoolFlag{
			Name:  "project",
			Usage: "in the project's settings, which others get with the repository",
		},
		&cli.BoolFlag{Name: "local", Usage: "in the project's local settings, which stay on this machine"},
		&cli.BoolFlag{Name: "dry-run", Usage: "show what would change, and write nothing"},
	}
}

func scopeOf(c *cli.Context) (scope settings.Scope, err error) {
	for _, s := range []settings.Scope{settings.User, settings.Project, settings.Local} {
		if c.Bool(string(s)) && scope != "" {
			err = fmt.Errorf("--%s and --%s cannot be used together", scope, s)
			err = usageError(err, "gchat-hooks "+c.Command.Name+" --help")
		} else if c.Bool(string(s)) {
			scope = s
		}
	}
	return cmp.Or(scope, settings.User), err
}

// installer writes our hooks into Claude Code's settings.
type installer struct {
	Program
	scope           settings.Scope
	presets         []string // empty: the default preset
	replacesOthers  bool     // the presets replace the hooks that are registered already
	dryRun          bool
	makesLinks      bool   // also link the names that agents call
	keepsRegistered bool   // without presets, register only the hooks that are registered already
	claudeVersion   string // "": ask the installed Claude Code
}

func (i installer) run(ctx context.Context) error {
	program, err := i.programPath()
	if err != nil {
		return err
	}
	file, err := settings.FileFor(i.env, i.scope)
	if err != nil {
		return err
	}
	presets := i.presets
	if len(presets) == 0 && !i.keepsRegistered {
		presets = settings.PresetNames()[:1]
	}
	hooks, err := settings.PresetHooks(presets...)
	if err != nil {
		return usageError(err, "gchat-hooks install --help")
	}
	// An error of the file is left to file.Install, which returns it, too.
	registered, readErr := file.OwnHooks(presets...)
	if !i.replacesOthers && readErr == nil && len(registered) > 0 {
		hooks = registered
	}
	version, err := i.targetVersion(ctx, file)
	if err != nil {
		return err
	}
	entries, skipped := settings.EntriesFor(program, version, hooks)
	change, err := file.Install(entries, i.dryRun)
	if err != nil {
		return err
	}
	printChange(i.out, change, i.dryRun, "added")
	for _, removed := range change.RemovedHooks {
		fmt.Fprintf(i.out, "removed: %s\n", removed)
	}
	for _, h := range skipped {
		fmt.Fprintf(i.out, "skipped: %s on %s needs Claude Code %s\n",
			h.Name, h.Event, settings.MinRewakeVersion)
	}
	if slices.Contains(i.presets, "wake") {
		err = i.allowMenuDecisions()
	}
	if i.scope != settings.User && !i.dryRun { // so that a purge finds these hooks
		registerErr := state.RegisterProject(i.env, state.SpareStateDir(i.env), state.ProjectDir(i.env))
		err = cmp.Or(err, registerErr)
	}
	if i.makesLinks && !i.dryRun {
		err = cmp.Or(err, linkNames(i.out, filepath.Dir(program)))
		if !config.Load(i.env, state.ProjectDir(i.env)).CanSend() {
			fmt.Fprintf(i.out, "Next, say where questions go:  %s setup\n", i.shellName())
		}
	}
	return err
}

// allowMenuDecisions lets menu-driver choose in permissions and plans: the preset wake
// wakes an agent that does so.
func (i installer) allowMenuDecisions() error {
	path := state.ConfigFile(i.env)
	verb := map[bool]string{true: "would get", false: "now has"}[i.dryRun]
	fmt.Fprintf(i.out, "%s %s \"menu_decides\": true: menu-driver, and so your agent, "+
		"may choose in permissions and plans\n", path, verb)
	if i.dryRun {
		return nil
	}
	return config.SetMember(path, "menu_decides", true)
}

// printMenuDecides warns that menu-driver may still choose in permissions and plans,
// though no hook wakes an agent.
func (p Program) printMenuDecides() {
	if config.Load(p.env, state.ConfigDir(p.env)).MenuCanDecide {
		fmt.Fprintf(p.out, "%s has \"menu_decides\": true: menu-driver may still choose in "+
			"permissions and plans; remove it if no agent needs it\n", state.ConfigFile(p.env))
	}
}

// hasApprovePreset reports whether the preset approve is registered: no other preset has
// a hook on PostToolBatch.
func (i installer) hasApprovePreset() bool {
	file, _ := settings.FileFor(i.env, i.scope) // run returns its errors
	hooks, _ := file.OwnHooks()
	return slices.ContainsFunc(hooks, func(h settings.Hook) bool {
		return h.Event == "PostToolBatch"
	})
}

// programPath is the path of this program that hooks are registered with. It fails if the
// program will not stay there (as one that `go run` built), or has another name.
func (i installer) programPath() (string, error) {
	if strings.Contains(i.self, string(filepath.Separator)+"go-build") {
		return "", exitError(errors.New("`go run` removes its program when it ends"),
			"go build -o ~/bin/gchat-hooks .", exitFailed)
	}
	path := filepath.Join(filepath.Dir(i.installedPath()), "gchat-hooks")
	if _, err := os.Stat(path); err != nil {
		return "", exitError(fmt.Errorf("this program is called %s", filepath.Base(i.self)),
			"rename it to gchat-hooks", exitFailed)
	}
	return path, nil
}

// targetVersion is the version of the Claude Code that will read the settings. If claude
// is not found, it is the version that the file's hooks need.
func (i installer) targetVersion(ctx context.Context, file settings.File) (v settings.Version, err error) {
	v, isVersion := settings.ParseVersion(i.claudeVersion)
	if i.claudeVersion == "" {
		v, err = settings.InstalledVersion(ctx, i.env, 20*time.Second)
	} else if !isVersion {
		err := fmt.Errorf("--claude-version must look like 2.1.329, not %q", i.claudeVersion)
		return v, usageError(err, "gchat-hooks install --help")
	}
	if err != nil {
		v = file.RequiredVersion()
		fmt.Fprintf(i.out, "claude is not found: registering the hooks that Claude Code %s knows; "+
			"newer versions run them, too (--claude-version names yours)\n", v)
	}
	if err := v.CheckSupported(); err != nil {
		return v, exitError(err, "nothing was written", exitFailed)
	}
	if i.scope == settings.Project {
		return settings.MinVersion, nil // the file is shared: others may have older versions
	}
	return v, nil
}

// printChange prints what a change has done, in a line, or in a dry run what it would do.
func printChange(out io.Writer, c *settings.Change, dryRun bool, verb string) {
	switch {
	case c.IsEmpty():
		fmt.Fprintf(out, "%s: nothing to change\n", c.Path)
	case dryRun:
		fmt.Fprintf(out, "%s%s would be changed; nothing was written\n", c.Diff(), c.Path)
	case verb == "added" && c.CountBefore > 0:
		fmt.Fprintf(out, "%s: %d hooks added, replacing %d\n", c.Path, c.HookCount, c.CountBefore)
	default:
		fmt.Fprintf(out, "%s: %d hooks %s\n", c.Path, c.HookCount, verb)
	}
}

// linkNames links the names that agents call, beside the program. A file that exists
// already stays.
func linkNames(out io.Writer, dir string) error {
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

// ourLinks are the links in a folder that lead to the gchat-hooks in it, whatever their
// names.
func ourLinks(dir string) (links []string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		target, _ := os.Readlink(path)
		if target == "gchat-hooks" || target == filepath.Join(dir, "gchat-hooks") {
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
		Flags: append(
			scopeFlags(),
			&cli.BoolFlag{Name: "links", Usage: "also remove the links beside this program"},
			&cli.BoolFlag{
				Name:  "purge",
				Usage: "remove all scopes' hooks, service, login, links, state, logs and configuration",
			},
			&cli.BoolFlag{Name: "yes", Usage: "with --purge: do not ask"},
		),
		Action: func(c *cli.Context) error {
			if c.Bool("purge") {
				if c.Bool("user") || c.Bool("project") || c.Bool("local") {
					err := errors.New("--purge removes the hooks of all scopes: " +
						"leave --user, --project and --local out")
					return usageError(err, "gchat-hooks uninstall --help")
				}
				return (&purge{Program: p}).run(c.Context, c.Bool("dry-run"), c.Bool("yes"))
			}
			scope, err := scopeOf(c)
			if err != nil {
				return err
			}
			file, err := settings.FileFor(p.env, scope)
			if err != nil {
				return err
			}
			change, err := file.Uninstall(c.Bool("dry-run"))
			if err != nil {
				return err
			}
			printChange(p.out, change, c.Bool("dry-run"), "removed")
			if err := p.removeOfferedMode(file, c.Bool("dry-run")); err != nil {
				return err
			}
			p.printMenuDecides()
			if !c.Bool("links") || c.Bool("dry-run") {
				return nil
			}
			dir := filepath.Dir(p.installedPath())
			links := ourLinks(dir)
			fmt.Fprintf(p.out, "%s: %d links removed\n", dir, len(links))
			return removeUntilGone(links...)
		},
	}
}

// purge removes everything of gchat-hooks. It first lists what there is, and asks.
type purge struct {
	Program
	listing []string // a line for each thing that is removed
	// removals that need more than deleting a file. The hooks come first: they would
	// start a program whose files are gone.
	steps []func(context.Context) error
	// files and folders to delete after the steps. The state that the other paths are
	// found by comes last, so that an interrupted purge can be repeated.
	paths []string
	// folders to delete at the end if they are empty, with the empty folders above them
	emptyFolders []string
}

func (p *purge) run(ctx context.Context, dryRun, skipQuestion bool) error {
	if err := p.findAll(); err != nil {
		return err
	}
	if len(p.listing) == 0 {
		fmt.Fprintln(p.out, "there is nothing of gchat-hooks to remove")
		return nil
	}
	fmt.Fprintf(p.out, "This will be deleted for good:\n%s", strings.Join(p.listing, ""))
	if dryRun {
		return nil
	}
	if !skipQuestion {
		ask := newAsker(p.in, p.out)
		if !ask.isInteractive {
			return usageError(errors.New("there is no terminal to ask on"),
				"gchat-hooks uninstall --purge --yes")
		}
		isWanted, err := ask.askYesNo(ctx, "Remove all of it?", false)
		if err != nil || !isWanted {
			return cmp.Or(err, exitError(errors.New("nothing was removed"), "", exitFailed))
		}
	}
	for _, step := range p.steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("%w; the rest was left in place", err)
		}
	}
	endPollers(p.env) // else they write their files again
	endSpace(p.env)
	if err := removeUntilGone(p.paths...); err != nil {
		return err
	}
	for _, dir := range p.emptyFolders {
		// os.Remove fails if the folder is not empty.
		for os.Remove(dir) == nil && strings.HasPrefix(dir, state.Home(p.env)+"/") {
			dir = filepath.Dir(dir)
		}
	}
	fmt.Fprintln(p.out, "gchat-hooks is removed")
	return nil
}

// findAll finds what there is to remove. It changes nothing. It fails while a process
// runs that would write its files again.
func (p *purge) findAll() error {
	user := state.UserStateDir(p.env)
	daemonService := service.NewDaemon(p.env, p.self, io.Discard)
	spaceService := service.NewSpace(p.env, p.self, io.Discard)
	_, isDaemonInstalled := daemonService.FindFile()
	_, isSpaceInstalled := spaceService.FindFile()
	const wouldWrite = "would write its files again"
	_, detachedPID := lastSpace(p.env)
	if !isSpaceInstalled && detachedPID == 0 && isSpaceRunning(p.env) {
		err := errors.New("the page's server runs (gchat-hooks space), and " + wouldWrite)
		return exitError(err, "end it (Ctrl-C where it runs; pgrep -f 'gchat-hooks s' names it), "+
			"then run this again", exitFailed)
	}
	for _, h := range state.ReadHeartbeats(p.env) {
		if h.IsAlive && h.IsDaemon && !isDaemonInstalled {
			err := fmt.Errorf("the daemon runs (pid %d on %s), and %s", h.PID, h.Machine, wouldWrite)
			return exitError(err,
				"end it (Ctrl-C where it runs, or kill its pid), then run this again", exitFailed)
		}
	}
	projects, unreadable := state.KnownProjects(p.env)
	for _, err := range unreadable {
		fmt.Fprintf(p.out, "%v: that project's folders are skipped\n", err)
	}
	if err := p.findHooks(projects); err != nil {
		return err
	}
	for _, candidate := range []*service.Service{daemonService, spaceService} {
		if unit, isInstalled := candidate.FindFile(); isInstalled {
			p.addLine("service", unit)
			p.steps = append(p.steps, candidate.Uninstall)
			unitDir := filepath.Dir(unit)
			p.emptyFolders = append(p.emptyFolders, filepath.Join(unitDir, "default.target.wants"), unitDir)
		}
	}
	if l, err := config.ReadLogin(config.LoginFile(p.env)); err == nil {
		// A login that cannot be read is deleted with its folder.
		p.addLine("login", wording.SafeLine(l.User)+", also at Google")
		p.steps = append(p.steps, p.logOut)
	}
	programDir := filepath.Dir(p.installedPath())
	p.addFiles("links in", programDir, ourLinks(programDir))
	for _, project := range projects {
		files, folders := state.OwnProjectFiles(project.StateDir)
		p.addFiles("questions in", project.StateDir, files)
		p.emptyFolders = append(p.emptyFolders, folders...)
	}
	// The log comes last: a process that ends because its state is gone writes to it, and
	// may create it at that moment.
	log := state.LogPath(p.env)
	for _, path := range []string{state.ConfigDir(p.env), user, state.AuditPath(p.env), log, log + ".1"} {
		if _, err := os.Lstat(path); err == nil {
			p.addFiles("all of", path, []string{path, log})
		}
		p.emptyFolders = append(p.emptyFolders, filepath.Dir(path))
	}
	return nil
}

func (p *purge) addLine(name, where string) {
	p.listing = append(p.listing, fmt.Sprintf("  %-14s %s\n", name, where))
}

func (p *purge) addFiles(name, where string, paths []string) {
	if len(paths) > 0 {
		p.addLine(name, where)
		p.paths = append(p.paths, paths...)
	}
}

// findHooks finds our hooks in the known settings files. If the person's own file cannot
// be read, the purge fails. Other files that cannot be read stay as they are.
func (p *purge) findHooks(projects []*state.Project) error {
	files, err := settings.KnownFiles(p.env, projects)
	if err != nil {
		return err
	}
	if mark, err := os.ReadFile(modeMarkerFile(p.env)); err == nil {
		p.addLine("mode", strings.TrimSpace(string(mark))+", permissions.defaultMode")
		p.steps = append(p.steps, func(context.Context) error {
			return p.removeOfferedMode(files[0], false)
		})
	}
	for i, file := range files {
		change, err := file.Uninstall(true)
		switch {
		case slices.Contains(files[:i], file):
		case err != nil && i == 0:
			return err
		case err != nil:
			fmt.Fprintf(p.out, "%s is left unchanged: %v\n", file.Path, err)
		case !change.IsEmpty():
			p.emptyFolders = append(p.emptyFolders, filepath.Dir(file.Path))
			p.addLine("hooks", file.Path)
			p.steps = append(p.steps, func(context.Context) error {
				_, err := file.Uninstall(false)
				return err
			})
		}
	}
	return nil
}

// removeUntilGone removes files and folders, and looks after 100 ms whether they are
// gone. If a process of ours has created them again, it repeats that, up to 50 times.
func removeUntilGone(paths ...string) (err error) {
	exists := func(path string) bool {
		_, statErr := os.Lstat(path)
		return statErr == nil
	}
	for range 50 {
		err = nil
		for _, path := range paths {
			err = cmp.Or(err, os.RemoveAll(path))
		}
		time.Sleep(100 * time.Millisecond)
		remaining := slices.IndexFunc(paths, exists)
		if remaining < 0 {
			return nil
		}
		err = cmp.Or(err, fmt.Errorf("a running process keeps writing %s", paths[remaining]))
	}
	return err
}
