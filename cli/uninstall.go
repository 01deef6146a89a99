package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

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
			p.tellMenuDecides()
			if links := ourLinks(filepath.Dir(p.self)); c.Bool("links") && !c.Bool("dry-run") {
				fmt.Fprintf(p.out, "%s: %d links removed\n", filepath.Dir(p.self), len(links))
				return removeForGood(links...)
			}
			return nil
		},
	}
}

// purge is an uninstall of everything. It looks first, shows what it found, and asks.
type purge struct {
	Program
	parts   []part
	folders []string // go in the end, the inmost first, where nothing is in them any more
}

// A part is one thing that is there and will be gone.
type part struct {
	name string
	what string
	gone func(context.Context) error
}

func (p *purge) run(ctx context.Context, dryRun, yes bool) error {
	if err := p.find(); err != nil {
		return err
	}
	if len(p.parts) == 0 {
		fmt.Fprintln(p.out, "nothing of gchat-hooks is here")
		return nil
	}
	fmt.Fprintln(p.out, "This goes, for good:")
	for _, part := range p.parts {
		fmt.Fprintf(p.out, "  %-14s %s\n", part.name, part.what)
	}
	if dryRun {
		return nil
	}
	if !yes {
		ask := newAsker(p.in, p.out)
		if !ask.terminal {
			return usage(errors.New("there is no terminal to ask on"), "gchat-hooks uninstall --purge --yes")
		}
		if yes, err := ask.yes(ctx, "Remove all of it?", false); err != nil {
			return err
		} else if !yes {
			return failed(errors.New("nothing was removed"), "", exitFailed)
		}
	}
	var left error
	for _, part := range p.parts {
		err := part.gone(ctx)
		if err != nil && part.name == "hooks" { // they would start a program that is gone
			return fmt.Errorf("%w; the rest was left in place", err)
		}
		left = errors.Join(left, err)
	}
	slices.SortFunc(p.folders, func(a, b string) int { return len(b) - len(a) })
	for _, dir := range p.folders {
		_ = os.Remove(dir) // fails where there is something in it
	}
	if left == nil {
		fmt.Fprintln(p.out, "gchat-hooks is gone")
	}
	return left
}

// find lists what there is. It changes nothing. What finds other parts goes last: an interrupted purge can be run again.
func (p *purge) find() error {
	user := state.UserState(p.env)
	daemon, chat := service.New(p.env, p.self, io.Discard), service.Space(p.env, p.self, io.Discard)
	_, installed := daemon.Installed()
	_, spaceKept := chat.Installed()
	runs := func(h state.Heartbeat) bool { return h.Lives && h.Daemon }
	spaceRuns := !spaceKept && state.Held(filepath.Join(user, "space", "lock"))
	if spaceRuns || !installed && slices.ContainsFunc(state.Pollers(p.env), runs) {
		err := errors.New("the embedded space or the daemon runs, and would write its files again")
		return failed(err, "end it (Ctrl-C where it runs), then run this again", exitFailed)
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
			p.add("service", unit, kept.Uninstall)
			p.foldersAbove(filepath.Join(filepath.Dir(unit), "default.target.wants", "x"))
		}
	}
	if l, err := config.ReadLogin(config.LoginFile(p.env)); err == nil { // else it goes with its folder
		p.add("login", gchat.Line(l.User)+", also at Google", p.logOut)
	}
	p.addFiles("links in", filepath.Dir(p.self), ourLinks(filepath.Dir(p.self)))
	for _, project := range projects {
		files, folders := state.OwnFiles(project.State)
		p.addFiles("questions in", project.State, files)
		p.folders = append(p.folders, folders...)
	}
	log := state.LogPath(p.env) // last: what ends because its state is gone logs that
	for _, path := range []string{state.ConfigDir(p.env), user, state.AuditPath(p.env), log, log + ".1"} {
		if _, err := os.Lstat(path); err == nil {
			p.addFiles("all of", path, []string{path, log}) // a poller that ends may begin the log only now
			p.foldersAbove(path)
		}
	}
	p.foldersAbove(log)
	return nil
}

func (p *purge) add(name, what string, gone func(context.Context) error) {
	p.parts = append(p.parts, part{name, what, gone})
}

func (p *purge) addFiles(name, what string, paths []string) {
	if len(paths) > 0 {
		p.add(name, what, func(context.Context) error {
			endPollers(p.env) // they would write their files again
			return removeForGood(paths...)
		})
	}
}

// foldersAbove notes the folders that a path stands in, below the home folder.
func (p *purge) foldersAbove(path string) {
	for dir := filepath.Dir(path); strings.HasPrefix(dir, state.Home(p.env)+"/"); dir = filepath.Dir(dir) {
		p.folders = append(p.folders, dir)
	}
}

// findHooks finds our hooks in the person's settings and in those of the projects that are known, this one among them. Settings
// of the person's own that cannot be read stop the purge; a project's stay as they are.
func (p *purge) findHooks(projects []*state.Project) error {
	own, err := settings.At(p.env, settings.User)
	if err != nil {
		return err
	}
	files := []settings.File{own}
	for _, project := range append(projects, &state.Project{}) {
		dir := filepath.Join(cmp.Or(project.Dir, state.ProjectDir(p.env)), ".claude")
		files = append(files, settings.File{Path: filepath.Join(dir, "settings.json"), Mode: own.Mode},
			settings.File{Path: filepath.Join(dir, "settings.local.json"), Mode: own.Mode})
	}
	for i, file := range files {
		change, err := file.Uninstall(true)
		switch {
		case slices.Contains(files[:i], file):
		case err != nil && file == own:
			return err
		case err != nil:
			fmt.Fprintf(p.out, "%s is left as it is: %v\n", file.Path, err)
		case !change.Nothing():
			p.foldersAbove(file.Path)
			p.add("hooks", file.Path, func(context.Context) error {
				_, err := file.Uninstall(false)
				return err
			})
		}
	}
	return nil
}

// removeForGood removes files and folders, and again while a process of ours makes them anew: it ends when it finds nothing left.
func removeForGood(paths ...string) (err error) {
	there := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	for range 50 {
		err = nil
		for _, path := range paths {
			err = cmp.Or(err, os.RemoveAll(path))
		}
		time.Sleep(100 * time.Millisecond)
		if !slices.ContainsFunc(paths, there) {
			return nil
		}
	}
	return cmp.Or(err, fmt.Errorf("%s is made anew by a process that runs", strings.Join(paths, ", ")))
}
