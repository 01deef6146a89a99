package cli

import (
	"bytes"
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
			&cli.BoolFlag{Name: "purge", Usage: "leave no trace: hooks of all scopes, service, login, links, logs, state, and your configuration since"},
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

// purge is an uninstall that leaves no trace: hooks, service, login, links, configuration, state, logs. It looks first,
// shows what it found, and asks.
type purge struct {
	env       state.Getenv
	self      string
	out       io.Writer
	ask       *asker
	yes, dry  bool
	made      state.Made
	unread    bool // that is not known
	parts     []part
	leftovers []string // folders that go when nothing is in them any more
}

// A part is one thing that is there and will be gone.
type part struct {
	name string
	what []string // a line each
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
		for i, line := range part.what {
			name := part.name
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(p.out, "  %-14s %s\n", name, line)
		}
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
			return nil
		}
	}
	return p.remove(ctx)
}

func (p *purge) remove(ctx context.Context) error {
	var failed error
	for _, part := range p.parts {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted; run it again: %w", err)
		}
		if err := part.gone(ctx); err != nil {
			if part.first {
				return fmt.Errorf("%s: %w; the rest was left in place", part.name, err)
			}
			failed = errors.Join(failed, fmt.Errorf("%s: %w", part.name, err))
		}
	}
	p.removeLeftovers()
	if failed != nil {
		return failed // what was noted stays, for the next try
	}
	if err := p.clear(state.UserState(p.env)); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	p.removeLeftovers() // those around the state
	fmt.Fprintln(p.out, "gchat-hooks is gone")
	return nil
}

// removeLeftovers removes the folders that are empty by now, the inmost first, so that one that held another empty one goes
// too.
func (p *purge) removeLeftovers() {
	slices.SortFunc(p.leftovers, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, dir := range p.leftovers {
		_ = os.Remove(dir) // fails where there is something in it
	}
}

// add notes a part down, if there is anything of it.
func (p *purge) add(part part) {
	if len(part.what) > 0 {
		p.parts = append(p.parts, part)
	}
}

// look finds what there is. It changes nothing.
func (p *purge) look(ctx context.Context) (err error) {
	if p.made, err = state.ReadMade(p.env); err != nil {
		fmt.Fprintf(p.out, "%v: what it names stays\n", err)
		p.unread = true
	}
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
	p.lookRunning()
	p.lookLogin()
	p.lookLinks()
	p.lookProjects(projects)
	p.lookFolders()
	p.lookPrograms(ctx)
	p.leftovers = append(p.leftovers, p.made.Folders...)
	return nil
}

// lookLinks finds the names beside this program, and beside those that install.sh placed.
func (p *purge) lookLinks() {
	dirs := []string{filepath.Dir(p.self)}
	for _, program := range p.made.Programs {
		dirs = append(dirs, filepath.Dir(program))
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		n := 0
		for _, name := range allNames() {
			if isOurLink(dir, name) {
				n++
			}
		}
		if n > 0 {
			p.add(part{name: "links", what: []string{fmt.Sprintf("%d names in %s", n, dir)}, gone: func(context.Context) error {
				return unlink(io.Discard, filepath.Join(dir, "gchat-hooks"))
			}})
		}
	}
}

// lookFolders finds logs, configuration and state.
func (p *purge) lookFolders() {
	log := state.LogPath(p.env)
	names := []string{log, log + ".1"}
	if runtime.GOOS == "darwin" { // what launchd caught; elsewhere another program's may be called so
		names = append(names, filepath.Join(filepath.Dir(log), "gchat-response-poller.log"), filepath.Join(filepath.Dir(log), "gchat-response-poller.err"))
	}
	logs := there(names...)
	p.add(part{name: "logs", what: logs, gone: func(context.Context) error { return removeAll(logs...) }})
	p.lookConfiguration()
	kept := state.UserState(p.env)
	// With all that is noted in it, it goes when the rest is gone: whatever interrupts us, the next try knows as much.
	p.add(part{name: "state", what: there(kept), gone: func(context.Context) error { return nil }})
}

// there are those of the paths that exist.
func there(paths ...string) (found []string) {
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			found = append(found, path)
		}
	}
	return found
}

// lookPrograms finds the program wherever install.sh put it, whichever copy this is. One that somebody built or installed
// another way is theirs.
func (p *purge) lookPrograms(ctx context.Context) {
	for _, program := range p.made.Programs {
		files := halves(program)
		if isGchatHooks(ctx, program) {
			files = append(files, program)
		} else if len(there(program)) > 0 {
			fmt.Fprintf(p.out, "%s stays: it is not a gchat-hooks of ours any more\n", program)
		}
		p.add(part{name: "program", what: files, gone: func(context.Context) error { return removeAll(files...) }})
	}
}

// halves are what writes of a file, or of the copies beside it, left there when they were killed.
func halves(path string) (found []string) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), "."+filepath.Base(path))
		of := strings.TrimRight(rest, "0123456789")
		if ok && of != rest && (of == "" || strings.HasSuffix(of, "-gchat-hooks")) {
			found = append(found, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return found
}

// removeWait is how long processes of ours may go on writing into what is removed: a flusher that finds nothing left ends.
const removeWait = 5 * time.Second

// removeAll removes files and folders, and sees to it that they stay away.
func removeAll(paths ...string) (err error) {
	for _, path := range paths {
		var last error
		for deadline := time.Now().Add(removeWait); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if last = os.RemoveAll(path); last != nil {
				continue
			}
			time.Sleep(100 * time.Millisecond)
			if _, err := os.Lstat(path); os.IsNotExist(err) {
				break
			}
			last = fmt.Errorf("%s is made anew by a process that runs", path)
		}
		err = errors.Join(err, last)
	}
	return err
}

// lookConfiguration finds what is in the configuration folder since the first install: that goes. What stood there before is
// the person's, and gets back what setup changed in it.
func (p *purge) lookConfiguration() {
	for _, before := range p.made.Before {
		if before.Bytes == nil {
			continue
		}
		info, err := os.Stat(before.Path)
		if err != nil || !info.Mode().IsRegular() {
			continue // the person took it away
		}
		is, err := os.ReadFile(before.Path)
		if err != nil || bytes.Equal(is, before.Bytes) && info.Mode().Perm() == before.Mode {
			continue
		}
		p.add(part{name: "configuration", what: []string{before.Path + " is put back as it was before"}, gone: func(ctx context.Context) error {
			file := settings.File{Path: before.Path, Env: p.env}
			return settingsError(file.PutBack(ctx, before.Bytes, before.Mode), before.Path)
		}})
	}
	dir := state.ConfigDir(p.env)
	if dir == state.UserState(p.env) {
		return // it goes last
	}
	if p.unread && len(there(dir)) > 0 {
		fmt.Fprintf(p.out, "%s stays: who made it is not known\n", dir)
		return
	}
	names, err := p.newIn(dir) // it may hold what a person put there
	if err != nil && len(there(dir)) == 0 || p.stoodBefore(dir) && len(names) == 0 {
		return
	}
	p.add(part{name: "configuration", what: []string{dir + ": " + strings.Join(names, ", ")}, gone: func(context.Context) error { return p.clear(dir) }})
}

// stoodBefore says whether a file or folder was there before the first install.
func (p *purge) stoodBefore(path string) bool {
	return slices.ContainsFunc(p.made.Before, func(b state.Before) bool { return b.Path == path })
}

// clear removes a folder of ours, but for what stood there before.
func (p *purge) clear(dir string) error {
	if !p.stoodBefore(dir) {
		return removeAll(dir)
	}
	names, err := p.newIn(dir)
	if err != nil {
		return err
	}
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return removeAll(names...)
}

// newIn names what is in a folder since the first install.
func (p *purge) newIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !p.stoodBefore(filepath.Join(dir, e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

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
	daemon := service.New(p.env, p.self, io.Discard)
	if path, ok := daemon.Installed(); ok {
		p.add(part{name: "service", what: []string{path}, gone: daemon.Uninstall})
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
