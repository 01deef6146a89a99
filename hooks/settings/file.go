package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

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
		if home := env("HOME"); dir == "" && home != "" {
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

// maxFile is more than any settings are, in bytes.
const maxFile = 16 << 20

// A snapshot is what stood on the disk at one moment.
type snapshot struct {
	path  string      // of the file itself, behind all links
	bytes []byte      // nil: there is no such file
	info  os.FileInfo // nil likewise
}

func (f File) read() (s snapshot, err error) {
	if s.path, err = behindLinks(f.Path); err != nil {
		return s, fmt.Errorf("read settings: %w", err)
	}
	// A named pipe would keep us waiting for somebody to write into it.
	r, err := os.OpenFile(s.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
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

// behindLinks is where a file is, or would be made: a link may lead to one that does not exist yet.
func behindLinks(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for range 40 {
		to, err := os.Readlink(path)
		if err != nil { // no link, or nothing there
			return path, nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(path) + "/" + to
		}
		dir, name := filepath.Split(to)
		if dir, err = realDir(dir); err != nil {
			return "", err
		}
		path = filepath.Join(dir, name)
	}
	return "", &fs.PathError{Op: "follow", Path: path, Err: syscall.ELOOP}
}

// realDir is a folder behind all links, as the system walks there: after a link, ".." is above where that leads. What does
// not exist yet is as it is written.
func realDir(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	up, name := filepath.Split(strings.TrimRight(dir, "/"))
	up, err = realDir(up)
	return filepath.Join(up, name), err
}

// changed says whether the file is another one than it was.
func (s snapshot) changed(now snapshot) bool {
	return s.path != now.path || (s.bytes == nil) != (now.bytes == nil) || string(s.bytes) != string(now.bytes)
}

// ErrReadOnly says that a person, or a program that makes the file, does not want it written.
var ErrReadOnly = errors.New("is read-only")

// writable says why a file should not be written. A rename asks nobody, and root may do anything: the mode is what counts.
func (s snapshot) writable() error {
	if s.info == nil {
		return nil
	}
	if s.info.Mode().Perm()&0o222 == 0 || syscall.Access(s.path, 2) != nil {
		return fmt.Errorf("%s %w", s.path, ErrReadOnly)
	}
	return nil
}
