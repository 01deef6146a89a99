package settings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"github.com/rogpeppe/go-internal/diff"

	"gchat-hooks/state"
)

// A Scope says whose settings are meant.
type Scope string

// The settings that a person may edit, as Claude Code ranks them: the last one counts most.
const (
	User    Scope = "user"    // settings.json in $CLAUDE_CONFIG_DIR, else in ~/.claude
	Project Scope = "project" // .claude/settings.json in the project, which others get with it
	Local   Scope = "local"   // .claude/settings.local.json in the project
)

// A File is a settings file on disk.
type File struct {
	Path string       // as people name it; it may be a link to the file itself
	Mode os.FileMode  // of one that does not exist yet
	Env  state.Getenv // where the lock is kept
}

// At is the settings file of a scope.
func At(env state.Getenv, scope Scope) (File, error) {
	project := filepath.Join(state.ProjectDir(env), ".claude")
	switch scope {
	case User:
		dir := env("CLAUDE_CONFIG_DIR")
		if home := env("HOME"); dir == "" && filepath.IsAbs(home) {
			dir = filepath.Join(home, ".claude")
		} else if dir == "" {
			return File{}, errors.New("find settings: HOME is not set")
		}
		return File{filepath.Join(dir, "settings.json"), 0o600, env}, nil
	case Project:
		return File{filepath.Join(project, "settings.json"), 0o644, env}, nil
	case Local:
		return File{filepath.Join(project, "settings.local.json"), 0o600, env}, nil
	}
	return File{}, fmt.Errorf("no such settings: %s", scope)
}

// Backup is where the file is kept as it was without hooks of ours: what an uninstall gives back. It stands beside the
// settings as they are named, not beside what a link leads to, and only its owner may read it.
func (f File) Backup() string { return f.Path + ".before-gchat-hooks" }

// A Change is what an install or uninstall does to a settings file, or would do.
type Change struct {
	Path     string
	Old, New []byte // nil: there is no file
	Hooks    int    // how many of ours were put in, or taken out
	Backup   string // what there is to go back to; "" for none
	Refused  error  // why it is not written
}

// Nothing says whether the file stays as it is.
func (c *Change) Nothing() bool { return (c.Old == nil) == (c.New == nil) && bytes.Equal(c.Old, c.New) }

// Install makes these entries the only ones of ours in the file; dry only tells what that would change.
func (f File) Install(ctx context.Context, entries []Entry, dry bool) (*Change, error) {
	if len(entries) == 0 {
		return nil, errors.New("no hooks to install")
	}
	return f.change(ctx, entries, dry)
}

// Uninstall takes our entries out of the file; dry only tells what that would change. A file that an install made, and that
// no other program wrote into, goes. With the bytes back that were there before the install, the backup goes too.
func (f File) Uninstall(ctx context.Context, dry bool) (*Change, error) {
	return f.change(ctx, nil, dry)
}

func (f File) change(ctx context.Context, entries []Entry, dry bool) (*Change, error) {
	c := &Change{Path: f.Path}
	var without []byte
	look := func(old snapshot) (err error) {
		before, err := os.ReadFile(f.Backup())
		if err != nil || old.info == nil { // without settings a backup is of another time
			before = nil
		}
		var found []Entry
		if without, found, err = takeOut(old.bytes, before); err == nil {
			c.Old, c.New, c.Hooks, c.Refused = old.bytes, without, len(found), old.writable()
		}
		if err == nil && len(entries) > 0 {
			c.Hooks = len(entries)
			c.New, err = Install(old.bytes, before, entries)
		}
		if err != nil {
			return f.unreadable(err)
		}
		return nil
	}
	old, err := f.read()
	if err == nil {
		err = look(old)
	}
	if err != nil || dry || c.Nothing() {
		return c, err
	}
	err = f.edit(ctx, func(old snapshot) ([]byte, error) {
		if err := errors.Join(look(old), c.Refused); err != nil || without == nil || c.Nothing() {
			return c.New, err
		}
		c.Backup = f.Backup()
		if len(entries) == 0 {
			return c.New, nil
		}
		return c.New, write(c.Backup, without, 0o600, old.info)
	})
	if err == nil && (without == nil || len(entries) == 0 && f.holds(without)) {
		c.Backup = ""
		err = f.Forget()
	}
	return c, err
}

// holds says whether the backup has these bytes.
func (f File) holds(b []byte) bool {
	kept, err := os.ReadFile(f.Backup())
	return err == nil && bytes.Equal(kept, b)
}

// unreadable is the error for a file that is not what Claude Code takes.
func (f File) unreadable(err error) error {
	return &state.UserError{Err: fmt.Errorf("%s does not parse: %w", f.Path, err), Hint: "mend that line; nothing was written", Code: 1}
}

// Hooks are the hooks of ours that the file has.
func (f File) Hooks() ([]Hook, error) {
	got, err := f.read()
	if err != nil {
		return nil, err
	}
	_, found, err := takeOut(got.bytes, nil)
	return chosen(found), err
}

// Holds says whether the file has an entry of ours.
func (f File) Holds() (bool, error) {
	hooks, err := f.Hooks()
	return len(hooks) > 0, err
}

// Forget removes the backup.
func (f File) Forget() error {
	if err := os.Remove(f.Backup()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove backup: %w", err)
	}
	return nil
}

const (
	lockWait = 10 * time.Second // for another install
	tries    = 8                // while Claude Code, which knows no lock of ours, writes the file itself
)

// edit puts what change makes of the file in its place, nil for no file. A lock keeps two installs apart; it is in our own
// state, since a settings folder may be a project's.
func (f File) edit(ctx context.Context, change func(old snapshot) ([]byte, error)) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	lock, err := state.LockFile(ctx, filepath.Join(state.UserState(f.Env), "settings.lock"), 10*time.Millisecond)
	if err != nil {
		return fmt.Errorf("lock settings: another install may be at it: %w", err)
	}
	defer lock.Unlock()
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return fmt.Errorf("make settings folder: %w", err)
	}
	for range tries {
		old, err := f.read()
		if err == nil {
			err = old.writable()
		}
		if err != nil {
			return err
		}
		out, err := change(old)
		if err != nil || old.info != nil && out != nil && bytes.Equal(out, old.bytes) {
			return err
		}
		now, err := f.read()
		switch {
		case err != nil:
			return err
		case old.path != now.path || (old.info == nil) != (now.info == nil) || !bytes.Equal(old.bytes, now.bytes):
			continue
		case out == nil:
			return os.Remove(old.path)
		case old.info == nil:
			return write(old.path, out, f.Mode, nil)
		}
		return write(old.path, out, old.info.Mode().Perm(), old.info)
	}
	return fmt.Errorf("%s: another program keeps writing it; try again", f.Path)
}

// A snapshot is what stood on the disk at one moment.
type snapshot struct {
	path  string      // of the file itself, behind all links
	bytes []byte      // nil: there is no such file
	info  os.FileInfo // nil likewise
}

// maxFile is more than any settings are, in bytes.
const maxFile = 2 << 20

func (f File) read() (s snapshot, err error) {
	s.path, err = filepath.EvalSymlinks(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(f.Path); err == nil {
			return s, fmt.Errorf("%s is a link to a file that does not exist", f.Path)
		}
		s.path = f.Path
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read settings: %w", err)
	}
	// A named pipe would keep us waiting for a writer.
	r, err := os.OpenFile(s.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return s, fmt.Errorf("read settings: %w", err)
	}
	defer r.Close()
	if s.info, err = r.Stat(); err != nil {
		return s, fmt.Errorf("read settings: %w", err)
	}
	if !s.info.Mode().IsRegular() {
		return s, fmt.Errorf("%s is no regular file", s.path)
	}
	s.bytes, err = io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return s, fmt.Errorf("read settings: %w", err)
	}
	if len(s.bytes) > maxFile {
		return s, fmt.Errorf("%s has more than %d MB", s.path, maxFile>>20)
	}
	return s, nil
}

// writable says why a file should not be written. A rename does not ask, and root may do anything: the mode is what counts.
func (s snapshot) writable() error {
	if s.info != nil && (s.info.Mode().Perm()&0o222 == 0 || syscall.Access(s.path, 2) != nil) {
		return &state.UserError{Err: fmt.Errorf("%s is read-only", s.path), Hint: "chmod u+w " + s.path + ", if that is yours to change", Code: 1}
	}
	return nil
}

// write replaces a file, whole or not at all. as has the owner that it keeps: under sudo it would be root's, and its person
// could not write it again.
func write(path string, b []byte, mode os.FileMode, as os.FileInfo) error {
	p, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(mode))
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	defer p.Cleanup()
	if as != nil {
		owner := as.Sys().(*syscall.Stat_t)
		if err := p.Chown(int(owner.Uid), int(owner.Gid)); err != nil && int(owner.Uid) != os.Geteuid() {
			return &state.UserError{Err: fmt.Errorf("%s belongs to another user", path), Hint: "install as the owner of " + path, Code: 1}
		}
	}
	if _, err := p.Write(b); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return p.CloseAtomicallyReplace()
}

// Diff shows the change as a unified diff, "" when there is none.
func (c *Change) Diff() string {
	clean := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }
	_, lines, _ := strings.Cut(string(diff.Diff(c.Path, clean(c.Old), c.Path, clean(c.New))), "\n") // the first repeats the names
	return lines
}
