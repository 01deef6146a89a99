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

// A Scope says which settings file is meant.
type Scope string

// These are the settings that a person may edit, in the order in which Claude Code ranks
// them: the last one wins.
const (
	User    Scope = "user"    // settings.json in $CLAUDE_CONFIG_DIR, else in ~/.claude
	Project Scope = "project" // .claude/settings.json in the project, which others get with it
	Local   Scope = "local"   // .claude/settings.local.json in the project
)

// A File is a settings file on disk.
type File struct {
	Path string      // the path that people know; it may be a link
	Mode os.FileMode // for a file that does not exist yet
}

// FileFor returns the settings file of a scope.
func FileFor(env state.Getenv, scope Scope) (File, error) {
	project := filepath.Join(state.ProjectDir(env), ".claude")
	switch scope {
	case User:
		if env("CLAUDE_CONFIG_DIR") == "" && !filepath.IsAbs(env("HOME")) {
			return File{}, errors.New("find settings: HOME is not set")
		}
		return File{filepath.Join(state.ClaudeDir(env), "settings.json"), 0o600}, nil
	case Project:
		return File{filepath.Join(project, "settings.json"), 0o644}, nil
	}
	return File{filepath.Join(project, "settings.local.json"), 0o600}, nil
}

// KnownFiles returns the files that may have hooks of ours. First comes the person's own
// file. Then come those of projects, this one included, and those of other
// $CLAUDE_CONFIG_DIRs that sessions ran with.
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
	Old, New     []byte   // nil if there is no file
	HookCount    int      // how many of our hooks were added, or removed
	CountBefore  int      // how many of our hooks were there
	RemovedHooks []string // "NAME on EVENT" of our hooks that were there and are not in New
}

// IsEmpty reports whether the file stays unchanged.
func (c *Change) IsEmpty() bool {
	return (c.Old == nil) == (c.New == nil) && bytes.Equal(c.Old, c.New)
}

// Diff returns the change as a unified diff; "" if there is none.
func (c *Change) Diff() string {
	// The first line only repeats the names.
	_, lines, _ := strings.Cut(string(diff.Diff(c.Path, c.Old, c.Path, c.New)), "\n")
	return lines
}

// Uninstall removes our entries from the file, and the file itself if it has nothing
// else. With isDryRun it only returns what that would change.
func (f File) Uninstall(isDryRun bool) (*Change, error) { return f.Install(nil, isDryRun) }

// Install makes these entries the only ones of ours in the file. With isDryRun it only
// returns what that would change.
func (f File) Install(entries []Entry, isDryRun bool) (*Change, error) {
	path, old, err := f.read()
	if err != nil {
		return nil, err
	}
	edited, removed, err := replaceOwnEntries(old, entries)
	if err != nil {
		err = fmt.Errorf("%s does not parse: %w", f.Path, err)
		return nil, &state.UserError{Err: err, Hint: "repair it and try again; nothing was written"}
	}
	change := &Change{
		Path:        f.Path,
		Old:         old,
		New:         edited,
		HookCount:   cmp.Or(len(entries), len(removed)),
		CountBefore: len(removed),
	}
	change.RemovedHooks = slices.DeleteFunc(entryTitles(removed), func(title string) bool {
		return slices.Contains(entryTitles(entries), title)
	})
	return f.applyChange(change, path, isDryRun)
}

// SetPermissionMode makes sessions start in a permission mode, unless the file names one.
// If removes is set, it removes that mode and no other.
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

// applyChange carries out a change of the file at path.
func (f File) applyChange(change *Change, path string, isDryRun bool) (*Change, error) {
	if isDryRun || change.IsEmpty() {
		return change, nil
	}
	// A rename would replace a read-only file.
	if info, err := os.Stat(path); err == nil && info.Mode()&0o200 == 0 {
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

// entryTitles names entries for people.
func entryTitles(entries []Entry) (titles []string) {
	for _, e := range entries {
		_, name := ParseOwnCommand(e.Command, e.Args)
		titles = append(titles, name+" on "+e.Event)
	}
	return titles
}

// OwnHooks returns this version's hooks for the parts that the file has of ours, and the
// hooks of these presets.
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

// RequiredVersion is the oldest Claude Code that supports our entries in the file.
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

// maxFileBytes is more than any settings file has.
const maxFileBytes = 2 << 20

// read returns the file's own path, behind all links, and its bytes; nil if there is no
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

// replaceFile replaces a file, whole or not at all. An existing file keeps its mode,
// which renameio sees to.
func replaceFile(path string, b []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(path, b, mode, renameio.WithTempDir(filepath.Dir(path)))
}
