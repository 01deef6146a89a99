package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/login"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// lookHooks finds our hooks in the person's settings, in those of the projects that are known, and wherever else an install
// noted that it wrote some.
func (p *purge) lookHooks(ctx context.Context, projects []state.Project) error {
	dirs := []string{state.ProjectDir(p.env)} // the one that we stand in may have hooks that were never asked anything
	for _, project := range projects {
		if project.Dir != "" && !slices.Contains(dirs, project.Dir) {
			dirs = append(dirs, project.Dir)
		}
	}
	seen := map[string]bool{}
	for i, dir := range dirs {
		env := func(name string) string {
			if name == "CLAUDE_PROJECT_DIR" {
				return dir
			}
			return p.env(name)
		}
		for _, scope := range []settings.Scope{settings.User, settings.Project, settings.Local} {
			file, err := settings.At(env, scope)
			if err != nil {
				return err
			}
			// In a home folder that is a project, too, they are one file.
			if path, err := filepath.Abs(file.Path); err != nil || seen[path] || scope == settings.User && i > 0 {
				continue
			} else {
				seen[path] = true
			}
			if err := p.lookFile(ctx, file, i == 0 && scope == settings.User); err != nil {
				return err
			}
		}
	}
	for _, path := range p.made.Settings {
		if seen[path] {
			continue
		}
		if _, err := os.Lstat(filepath.Dir(filepath.Dir(path))); err != nil {
			fmt.Fprintf(p.out, "%s is out of reach, with hooks of ours that may be in it: %v\n", path, err)
			continue
		}
		if err := p.lookFile(ctx, settings.File{Path: path, Env: p.env}, false); err != nil {
			return err
		}
	}
	return nil
}

// lookFile finds our hooks in one settings file, and what installs left beside it.
func (p *purge) lookFile(ctx context.Context, file settings.File, mine bool) error {
	change, err := file.Uninstall(ctx, true)
	if err == nil && !p.dry && change.Refused != nil {
		return settingsError(change.Refused, file.Path) // before anything is asked, or removed
	}
	if err != nil {
		if mine && mayBeOurs(file) {
			return settingsError(err, file.Path)
		}
		fmt.Fprintf(p.out, "%s is left as it is: %v\n", file.Path, err)
		return nil
	}
	var what []string
	if !change.Nothing() {
		what = []string{file.Path}
	}
	broken := halves(file.Path)
	p.add(part{name: "hooks", first: true, what: slices.Concat(what, file.Copies(), broken), gone: func(ctx context.Context) error {
		if !change.Nothing() {
			if _, err := file.Uninstall(ctx, false); err != nil {
				return err
			}
		}
		return errors.Join(file.Forget(), removeAll(broken...))
	}})
	return nil
}

// mayBeOurs says whether hooks of ours may stand in settings that do not parse: an install left copies beside them, or their
// text has a name of ours.
func mayBeOurs(file settings.File) bool {
	if len(file.Copies()) > 0 {
		return true
	}
	if info, err := os.Stat(file.Path); err == nil && !info.Mode().IsRegular() {
		return false // to read a pipe would wait for ever
	}
	b, err := os.ReadFile(file.Path)
	return err != nil || bytes.Contains(b, []byte("gchat-"))
}

// lookRunning finds the service, and a daemon that was started by hand.
func (p *purge) lookRunning() {
	service := &poller.Service{Env: p.env, Self: p.self, UID: os.Getuid()}
	if path, ok := service.Installed(); ok {
		p.add(part{name: "service", what: []string{path}, gone: service.Uninstall})
	}
	user := state.UserState(p.env)
	if pid := state.DaemonPID(user); pid > 1 && state.DaemonRuns(user) {
		p.add(part{name: "daemon", what: []string{fmt.Sprintf("pid %d is told to end", pid)}, gone: func(ctx context.Context) error {
			return endDaemon(ctx, user)
		}})
	}
}

// endDaemon ends the daemon, and waits for that: it would write its state again.
func endDaemon(ctx context.Context, user string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	told := 0
	for state.DaemonRuns(user) { // its lock is held: the pid is not somebody else's by now
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
	p.add(part{name: "login", what: []string{gchat.Line(l.User) + " in " + state.LoginFile(p.env) + ", and at Google"}, gone: func(ctx context.Context) error {
		gone, err := login.Logout(ctx, p.env)
		if err == nil && gone.NotRevoked != nil {
			fmt.Fprintf(p.out, "Google may still know the login (%v): end it at https://myaccount.google.com/connections\n", gone.NotRevoked)
		}
		return err
	}})
}

// lookProjects finds what we keep in projects' folders.
func (p *purge) lookProjects(projects []state.Project) {
	kept, err := filepath.Abs(filepath.Join(state.Home(p.env), ".claude")) // whether we made that one is written down
	if err != nil {
		return
	}
	for _, project := range projects {
		files, folders := state.OwnFiles(project.State)
		what := []string{fmt.Sprintf("%s: %d files", project.State, len(files))}
		if len(files) == 0 {
			what = nil
		}
		p.add(part{name: "project", what: what, gone: func(context.Context) error {
			return removeAll(files...)
		}})
		for _, dir := range folders {
			if dir != kept {
				p.leftovers = append(p.leftovers, dir)
			}
		}
	}
}
