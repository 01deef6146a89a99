package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
)

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
		return installError{errors.New("the embedded space runs, and would write its messages again"), "end it (Ctrl-C where it runs), then run this again"}
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
