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

// The settings that a person may edit, as Claude Code ranks them: the last one counts
// most.
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

// FileFor is the settings file of a scope.
func FileFor(env state.Getenv, scope Scope) (File, error) {
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

// KnownFiles are the files that may have hooks of ours: first the person's own, then
// those of projects, this one among them, and of another $CLAUDE_CONFIG_DIR that a
// session ran with.
func KnownFiles(env state.Getenv, projects []*state.Project) ([]File, error) {
	userFile, err := FileFor(env, User)
	if err != nil {
		return nil, err
	}
	files := []File{userFile}
	for _, project := range append(projects, &state.Project{}) {
		dir := filepath.Join(cmp.Or(project.Dir, state.ProjectDir(env)), ".claude")
		files = append(files, File{filepath.Join(dir, "settings.json"), userFile.Mode},
			File{filepath.Join(dir, "settings.local.json"), userFile.Mode})
	}
	sessions, _ := state.SessionsIn(state.UserStateDir(env)).All()
	for _, session := range sessions {
		if dir := filepath.Join(session.TranscriptPath, "../../.."); filepath.IsAbs(dir) {
			files = append(files, File{filepath.Join(dir, "settings.json"), userFile.Mode})
		}
	}
	return files, nil
}

// A Change is what an install or uninstall does to a settings file, or would do.
type Change struct {
	Path         string
	Old, New     []byte   // nil: there is no file
	HookCount    int      // how many of ours were put in, or taken out
	CountBefore  int      // how many of ours were there
	RemovedHooks []string // "NAME on EVENT" of those of ours that were there, and are not in New
}

// IsEmpty says whether the file stays as it is.
func (c *Change) IsEmpty() bool { return (c.Old == nil) == (c.New == nil) && bytes.Equal(c.Old, c.New) }

// Diff shows the change as a unified diff, "" when there is none.
func (c *Change) Diff() string {
	// the first line repeats the names
	_, lines, _ := strings.Cut(string(diff.Diff(c.Path, c.Old, c.Path, c.New)), "\n")
	return lines
}

// Uninstall takes our entries out of the file; dry only tells what that would change. A
// file that holds nothing else goes.
func (f File) Uninstall(isDryRun bool) (*Change, error) { return f.Install(nil, isDryRun) }

// Install makes these entries the only ones of ours in the file; dry only tells what that
// would change.
func (f File) Install(entries []Entry, isDryRun bool) (*Change, error) {
	path, old, err := f.read()
	if err != nil {
		return nil, err
	}
	edited, removed, err := replaceOwnEntries(old, entries)
	if err != nil {
		err = fmt.Errorf("%s does not parse: %w", f.Path, err)
		return nil, &state.UserError{Err: err, Hint: "mend it; nothing was written"}
	}
	change := &Change{
		Path:        f.Path,
		Old:         old,
		New:         edited,
		HookCount:   cmp.Or(len(entries), len(removed)),
		CountBefore: len(removed),
	}
	change.RemovedHooks = slices.DeleteFunc(
		entryTitles(removed),
		func(title string) bool { return slices.Contains(entryTitles(entries), title) },
	)
	return f.applyChange(change, path, isDryRun)
}

// SetPermissionMode has sessions begin in a permission mode, where the file names none.
// With out it takes that mode out again, and no other.
func (f File) SetPermissionMode(mode string, removes, isDryRun bool) (*Change, error) {
	path, old, err := f.read()
	if err != nil {
		return nil, err
	}
	edited, err := setPermissionMode(old, mode, removes)
	if err != nil {
		return nil, fmt.Errorf("%s does not parse: %w", f.Path, err)
	}
	return f.applyChange(&Change{Path: f.Path, Old: old, New: edited}, path, isDryRun)
}

// applyChange carries a change of the file at that path out.
func (f File) applyChange(change *Change, path string, isDryRun bool) (*Change, error) {
	if isDryRun || change.IsEmpty() {
		return change, nil
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&0o200 == 0 { // a rename would not ask
		return nil, &state.UserError{
			Err:  fmt.Errorf("%s is read-only", path),
			Hint: "chmod u+w " + state.QuoteForShell(path),
		}
	}
	if change.New == nil {
		return change, os.Remove(path)
	}
	return change, replaceFile(path, change.New, f.Mode)
}

// entryTitles are entries as people read them.
func entryTitles(entries []Entry) (titles []string) {
	for _, e := range entries {
		_, name := ParseOwnCommand(e.Command, e.Args)
		titles = append(titles, name+" on "+e.Event)
	}
	return titles
}

// OwnHooks are this version's hooks of what the file has of ours, and those of the
// presets also.
func (f File) OwnHooks(presetNames ...string) ([]Hook, error) {
	_, b, err := f.read()
	if err != nil {
		return nil, err
	}
	registered, err := OwnEntries(b)
	var parts []string
	for _, preset := range presetNames {
		parts = append(parts, presetParts[preset]...)
	}
	for _, e := range registered {
		_, name := ParseOwnCommand(e.Command, e.Args)
		parts = append(parts, partOf(e.Event, name))
	}
	return hooksOfParts(parts), err
}

// RequiredVersion is the oldest Claude Code that takes what the file has of ours.
func (f File) RequiredVersion() Version {
	_, b, _ := f.read()
	registered, _ := OwnEntries(b)
	version := MinVersion
	for _, e := range registered {
		switch {
		case e.AsyncRewake:
			return MinRewakeVersion
		case e.Args != nil:
			version = minArgsVersion
		}
	}
	return version
}

// maxFileBytes is more than any settings are, in bytes.
const maxFileBytes = 2 << 20

// read gives the file's own path, behind all links, and its bytes: nil where there is no
// file.
func (f File) read() (path string, b []byte, err error) {
	path, err = filepath.EvalSymlinks(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(f.Path); err == nil {
			return "", nil, fmt.Errorf("%s is a link to a file that does not exist", f.Path)
		}
		return f.Path, nil, nil
	}
	if err == nil {
		b, err = state.ReadPlain(path, maxFileBytes)
	}
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", f.Path, err)
	}
	return path, b, nil
}

// replaceFile replaces a file, whole or not at all. One that is there keeps its mode:
// renameio sees to that.
func replaceFile(path string, b []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(path, b, mode, renameio.WithTempDir(filepath.Dir(path)))
}
