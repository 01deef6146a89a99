package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/login"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
)

func (p Program) uninstallCommand() *cli.Command {
	return &cli.Command{
		Name:  "uninstall",
		Usage: "take the hooks out of Claude Code's settings again",
		Description: "Hooks only:  gchat-hooks uninstall\n" +
			"All of it:   gchat-hooks uninstall --purge          (it shows what goes, and asks)",
		Flags: append(scopeFlags(),
			&cli.BoolFlag{Name: "links", Usage: "also remove the links beside this program"},
			&cli.BoolFlag{Name: "purge", Usage: "remove hooks of all scopes, service, login, links, state, logs and your configuration"},
			&cli.BoolFlag{Name: "yes", Usage: "with --purge: do not ask"},
		),
		Action: func(c *cli.Context) error {
			if c.Bool("purge") {
				if c.Bool("user") || c.Bool("project") || c.Bool("local") {
					return usage(errors.New("--purge takes the hooks out of all scopes"), "gchat-hooks uninstall --help")
				}
				return (&purge{
					env: os.Getenv, self: p.self, out: p.out, ask: newAsker(p.in, p.out), yes: c.Bool("yes"), dry: c.Bool("dry-run"),
				}).run(c.Context)
			}
			scope, err := scopeOf(c)
			if err != nil {
				return err
			}
			return install{env: os.Getenv, self: p.self, out: p.out, scope: scope, dryRun: c.Bool("dry-run"), links: c.Bool("links")}.runUninstall(c.Context)
		},
	}
}

// purge is an uninstall of everything. It looks first, shows what it found, and asks.
type purge struct {
	env     state.Getenv
	self    string
	out     io.Writer
	ask     *asker
	yes     bool
	dry     bool
	parts   []part
	folders []string // go in the end, the inmost first, where nothing is in them any more
}

// A part is one thing that is there and will be gone.
type part struct {
	name string
	what string
	gone func(context.Context) error
	// first parts must succeed: a program must not go while hooks are registered that start it.
	first bool
}

func (p *purge) run(ctx context.Context) error {
	if err := p.look(ctx); err != nil {
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
	if p.dry {
		fmt.Fprintln(p.out, "nothing was removed")
		return nil
	}
	if !p.yes {
		yes, err := p.ask.yes(ctx, "Remove all of it?", false, "gchat-hooks uninstall --purge --yes")
		if err != nil {
			return err
		}
		if !yes {
			fmt.Fprintln(p.out, "nothing was removed")
			return silent(errors.New("not confirmed"), exitFailed)
		}
	}
	var left error
	for _, part := range p.parts {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted; run it again: %w", err)
		}
		err := part.gone(ctx)
		if err != nil && part.first {
			return fmt.Errorf("%s: %w; the rest was left in place", part.name, err)
		}
		if err != nil {
			left = errors.Join(left, fmt.Errorf("%s: %w", part.name, err))
		}
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

// look finds what there is. It changes nothing. What finds other parts goes last: an interrupted purge can be run again.
func (p *purge) look(ctx context.Context) error {
	user := state.UserState(p.env)
	if state.Held(filepath.Join(user, "space", "lock")) {
		return failed(errors.New("the embedded space runs, and would write its messages again"), "end it (Ctrl-C where it runs), then run this again", exitFailed)
	}
	projects, err := state.Projects(user)
	if err != nil {
		fmt.Fprintf(p.out, "%v: the projects' folders are not looked at\n", err)
	}
	if err := p.lookHooks(ctx, projects); err != nil {
		return err
	}
	p.lookRunning(user)
	p.lookLogin()
	if links := ourLinks(filepath.Dir(p.self)); len(links) > 0 {
		dir := filepath.Dir(p.self)
		p.add("links", fmt.Sprintf("%d names in %s", len(links), dir), func(context.Context) error { return unlink(io.Discard, dir) })
	}
	for _, project := range projects {
		files, folders := state.OwnFiles(project.State)
		if len(files) > 0 {
			p.add("project", fmt.Sprintf("%s: %d files", project.State, len(files)), func(context.Context) (err error) {
				for _, file := range files {
					err = errors.Join(err, os.RemoveAll(file))
				}
				return err
			})
		}
		p.folders = append(p.folders, folders...)
	}
	log := state.LogPath(p.env)
	logs := []string{log, log + ".1"}
	if runtime.GOOS == "darwin" { // what launchd caught; elsewhere another program's may be called so
		logs = append(logs, filepath.Join(filepath.Dir(log), "gchat-response-poller.log"), filepath.Join(filepath.Dir(log), "gchat-response-poller.err"))
	}
	p.addFiles("configuration", state.ConfigDir(p.env))
	p.addFiles("state", user)
	p.addFiles("logs", logs...) // last: what ends because its state is gone logs that
	return nil
}

func (p *purge) add(name, what string, gone func(context.Context) error) {
	p.parts = append(p.parts, part{name: name, what: what, gone: gone})
}

// addFiles adds the files and folders that are there, and notes the folders that they stand in.
func (p *purge) addFiles(name string, paths ...string) {
	for _, path := range paths {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		p.add(name, path, func(context.Context) error { return removeForGood(path) })
		p.foldersAbove(path)
	}
}

// foldersAbove notes the folders that a path stands in, below the home folder.
func (p *purge) foldersAbove(path string) {
	home := state.Home(p.env) + "/"
	if home == "/" {
		return
	}
	for dir := filepath.Dir(path); strings.HasPrefix(dir, home); dir = filepath.Dir(dir) {
		p.folders = append(p.folders, dir)
	}
}

// lookHooks finds our hooks in the person's settings and in those of the projects that are known, this one among them.
func (p *purge) lookHooks(ctx context.Context, projects []state.Project) error {
	seen := map[string]bool{}
	for _, project := range append([]state.Project{{Dir: state.ProjectDir(p.env)}}, projects...) {
		env := func(name string) string {
			if name == "CLAUDE_PROJECT_DIR" {
				return project.Dir
			}
			return p.env(name)
		}
		for _, scope := range []settings.Scope{settings.User, settings.Project, settings.Local} {
			file, err := settings.At(env, scope)
			if err != nil {
				return err
			}
			if project.Dir == "" || seen[file.Path] {
				continue
			}
			seen[file.Path] = true
			if err := p.lookFile(ctx, file, scope == settings.User); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookFile finds our hooks in one settings file, and the backup beside it. A person's own that cannot be changed stops the
// purge before anything is asked; a project's stays as it is.
func (p *purge) lookFile(ctx context.Context, file settings.File, own bool) error {
	change, err := file.Uninstall(ctx, true)
	if err == nil && !p.dry && !change.Nothing() {
		err = change.Refused
	}
	_, backup := os.Lstat(file.Backup())
	if err != nil {
		var text []byte
		if info, err := os.Stat(file.Path); err == nil && info.Mode().IsRegular() { // a pipe would keep us waiting for a writer
			text, _ = os.ReadFile(file.Path)
		}
		if own && (backup == nil || bytes.Contains(text, []byte("gchat-hooks"))) {
			return err
		}
		fmt.Fprintf(p.out, "%s is left as it is: %v\n", file.Path, err)
		return nil
	}
	if change.Nothing() && backup != nil {
		return nil
	}
	p.parts = append(p.parts, part{name: "hooks", what: file.Path, first: true, gone: func(ctx context.Context) error {
		_, err := file.Uninstall(ctx, false)
		return errors.Join(err, file.Forget())
	}})
	p.foldersAbove(file.Path)
	return nil
}

// lookRunning finds the service, and a daemon that was started by hand.
func (p *purge) lookRunning(user string) {
	daemon := service.New(p.env, p.self, io.Discard)
	if path, ok := daemon.Installed(); ok {
		p.add("service", path, daemon.Uninstall)
		p.foldersAbove(filepath.Join(filepath.Dir(path), "default.target.wants", "x"))
	}
	if pid := state.DaemonPID(user); pid > 1 && state.DaemonRuns(user) {
		p.add("daemon", fmt.Sprintf("pid %d is told to end", pid), func(ctx context.Context) error { return endDaemon(ctx, user) })
	}
}

// endDaemon ends the daemon, and waits for that: it would write its state again.
func endDaemon(ctx context.Context, user string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	told := 0
	for state.DaemonRuns(user) { // its lock is held: the pid is not another process's by now
		if pid := state.DaemonPID(user); pid > 1 && pid != told {
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				return fmt.Errorf("end the daemon, pid %d: %w", pid, err)
			}
			told = pid
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the daemon, pid %d, does not end", told)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// lookLogin finds the login, which ends at Google too.
func (p *purge) lookLogin() {
	l, err := state.ReadLogin(state.LoginFile(p.env))
	if err != nil {
		return // none, or a file that is not ours: it goes with its folder
	}
	p.add("login", gchat.Line(l.User)+" in "+state.LoginFile(p.env)+", and at Google", func(ctx context.Context) error {
		notRevoked, err := login.Logout(ctx, p.env)
		if err == nil && notRevoked != nil {
			fmt.Fprintf(p.out, "Google may still know the login (%v): end it at https://myaccount.google.com/connections\n", notRevoked)
		}
		return err
	})
}

// removeWait is how long processes of ours may go on writing into what is removed: a flusher that finds nothing left ends.
const removeWait = 5 * time.Second

// removeForGood removes a file or folder, and sees to it that it stays away.
func removeForGood(path string) (err error) {
	for deadline := time.Now().Add(removeWait); time.Now().Before(deadline); {
		err = os.RemoveAll(path)
		time.Sleep(100 * time.Millisecond)
		if _, missing := os.Lstat(path); os.IsNotExist(missing) {
			return nil
		}
		err = cmp.Or(err, fmt.Errorf("%s is made anew by a process that runs", path))
	}
	return err
}
