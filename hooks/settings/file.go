package settings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	Path string      // as people name it; it may be a link to the file itself
	Mode os.FileMode // of one that does not exist yet
}

// At is the settings file of a scope.
func At(env state.Getenv, scope Scope) (File, error) {
	project := filepath.Join(state.ProjectDir(env), ".claude")
	switch scope {
	case User:
		if env("CLAUDE_CONFIG_DIR") == "" && !filepath.IsAbs(env("HOME")) {
			return File{}, errors.New("find settings: HOME is not set")
		}
		dir := cmp.Or(env("CLAUDE_CONFIG_DIR"), filepath.Join(env("HOME"), ".claude"))
		return File{filepath.Join(dir, "settings.json"), 0o600}, nil
	case Project:
		return File{filepath.Join(project, "settings.json"), 0o644}, nil
	}
	return File{filepath.Join(project, "settings.local.json"), 0o600}, nil
}

// Known are the files that may have hooks of ours: first the person's own, then those of projects, this one among them, and of
// another $CLAUDE_CONFIG_DIR that a session ran with.
func Known(env state.Getenv, projects []*state.Project) ([]File, error) {
	own, err := At(env, User)
	if err != nil {
		return nil, err
	}
	files := []File{own}
	for _, project := range append(projects, &state.Project{}) {
		dir := filepath.Join(cmp.Or(project.Dir, state.ProjectDir(env)), ".claude")
		files = append(files, File{filepath.Join(dir, "settings.json"), own.Mode},
			File{filepath.Join(dir, "settings.local.json"), own.Mode})
	}
	sessions, _ := state.SessionsIn(state.UserState(env)).All()
	for _, one := range sessions {
		if dir := filepath.Join(one.TranscriptPath, "../../.."); filepath.IsAbs(dir) {
			files = append(files, File{filepath.Join(dir, "settings.json"), own.Mode})
		}
	}
	return files, nil
}

// A Change is what an install or uninstall does to a settings file, or would do.
type Change struct {
	Path     string
	Old, New []byte   // nil: there is no file
	Hooks    int      // how many of ours were put in, or taken out
	Before   int      // how many of ours were there
	Gone     []string // "NAME on EVENT" of those of ours that were there, and are not in New
}

// Nothing says whether the file stays as it is.
func (c *Change) Nothing() bool { return (c.Old == nil) == (c.New == nil) && bytes.Equal(c.Old, c.New) }

// Diff shows the change as a unified diff, "" when there is none.
func (c *Change) Diff() string {
	_, lines, _ := strings.Cut(string(diff.Diff(c.Path, c.Old, c.Path, c.New)), "\n") // the first line repeats the names
	return lines
}

// Uninstall takes our entries out of the file; dry only tells what that would change. A file that holds nothing else goes.
func (f File) Uninstall(dry bool) (*Change, error) { return f.Install(nil, dry) }

// Install makes these entries the only ones of ours in the file; dry only tells what that would change.
func (f File) Install(entries []Entry, dry bool) (*Change, error) {
	path, old, err := f.read()
	if err != nil {
		return nil, err
	}
	with, had, err := edit(old, entries)
	if err != nil {
		err = fmt.Errorf("%s does not parse: %w", f.Path, err)
		return nil, &state.UserError{Err: err, Hint: "mend it; nothing was written"}
	}
	c := &Change{Path: f.Path, Old: old, New: with, Hooks: cmp.Or(len(entries), len(had)), Before: len(had)}
	c.Gone = slices.DeleteFunc(titles(had), func(was string) bool { return slices.Contains(titles(entries), was) })
	return f.make(c, path, dry)
}

// SetMode has sessions begin in a permission mode, where the file names none. With out it takes that
// mode out again, and no other.
func (f File) SetMode(mode string, out, dry bool) (*Change, error) {
	path, old, err := f.read()
	if err != nil {
		return nil, err
	}
	with, err := setMode(old, mode, out)
	if err != nil {
		return nil, fmt.Errorf("%s does not parse: %w", f.Path, err)
	}
	return f.make(&Change{Path: f.Path, Old: old, New: with}, path, dry)
}

// make carries a change of the file at that path out.
func (f File) make(c *Change, path string, dry bool) (*Change, error) {
	if dry || c.Nothing() {
		return c, nil
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&0o200 == 0 { // a rename would not ask
		return nil, &state.UserError{Err: fmt.Errorf("%s is read-only", path), Hint: "chmod u+w " + state.ShellQuoted(path)}
	}
	if c.New == nil {
		return c, os.Remove(path)
	}
	return c, write(path, c.New, f.Mode)
}

// titles are entries as people read them.
func titles(entries []Entry) (all []string) {
	for _, e := range entries {
		_, name := Ours(e.Command, e.Args)
		all = append(all, name+" on "+e.Event)
	}
	return all
}

// Hooks are this version's hooks of what the file has of ours, and those of the presets also.
func (f File) Hooks(also ...string) ([]Hook, error) {
	_, b, err := f.read()
	if err != nil {
		return nil, err
	}
	had, err := Registered(b)
	var parts []string
	for _, preset := range also {
		parts = append(parts, presets[preset]...)
	}
	for _, e := range had {
		_, name := Ours(e.Command, e.Args)
		parts = append(parts, partOf(e.Event, name))
	}
	return hooksIn(parts), err
}

// WrittenFor is the oldest Claude Code that takes what the file has of ours.
func (f File) WrittenFor() Version {
	_, b, _ := f.read()
	had, _ := Registered(b)
	v := Oldest
	for _, e := range had {
		switch {
		case e.AsyncRewake:
			return AsyncRewake
		case e.Args != nil:
			v = execForm
		}
	}
	return v
}

// maxFile is more than any settings are, in bytes.
const maxFile = 2 << 20

// read gives the file's own path, behind all links, and its bytes: nil where there is no file.
func (f File) read() (path string, b []byte, err error) {
	path, err = filepath.EvalSymlinks(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(f.Path); err == nil {
			return "", nil, fmt.Errorf("%s is a link to a file that does not exist", f.Path)
		}
		return f.Path, nil, nil
	}
	if err == nil {
		b, err = state.ReadPlain(path, maxFile)
	}
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", f.Path, err)
	}
	return path, b, nil
}

// write replaces a file, whole or not at all. One that is there keeps its mode: renameio sees to that.
func write(path string, b []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(path, b, mode, renameio.WithTempDir(filepath.Dir(path)))
}
