// Package state is every byte that gchat-hooks keeps on disk: the questions, the
// messages, the sessions, how far spaces were read, the locks, the log. It speaks neither
// Claude Code nor Google Chat nor tmux and imports nothing of ours. It writes to a
// temporary file, syncs and renames that, so that a reader sees the old bytes or the new
// ones, also after kill -9.
package state

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Getenv looks an environment variable up; "" is unset. It is passed in, so that nothing
// reads the environment behind a caller's back.
type Getenv func(name string) string

// ProjectDir is the project that a process belongs to, by its absolute path:
// $CLAUDE_PROJECT_DIR, else the working directory.
func ProjectDir(env Getenv) string {
	dir, err := filepath.Abs(env("CLAUDE_PROJECT_DIR"))
	if err != nil { // the working directory is gone
		return "."
	}
	return dir
}

// FindProjectDir is the project of a command in a shell, which may be below it:
// $CLAUDE_PROJECT_DIR, else that of the session whose shell it is, else the nearest
// folder with configuration, from the working one up to the home folder.
func FindProjectDir(env Getenv) string {
	workingProject := ProjectDir(env)
	if env("CLAUDE_PROJECT_DIR") != "" {
		return workingProject
	}
	if session, err := SessionsIn(UserStateDir(env)).Get(env("CLAUDE_CODE_SESSION_ID")); err == nil &&
		session.ProjectDir != "" {
		return session.ProjectDir
	}
	for dir := workingProject; dir != filepath.Dir(dir) && !isSameFolder(dir, Home(env)); dir = filepath.Dir(dir) {
		if fileExists(filepath.Join(dir, ".claude", "gchat-hooks.json")) ||
			fileExists(filepath.Join(dir, ".mcp.json")) {
			return dir
		}
	}
	return workingProject
}

// ProjectStateDir is the folder of a project's state: $GCHAT_STATE_DIR, else
// .claude/state in the project. Where a link leads that out of the project, it is
// SpareStateDir: a checkout must not say where else files are read and written. So it is
// where macOS would not let a poller read the project, and where the project's path is no
// UTF-8, which no record can name.
func ProjectStateDir(env Getenv) string {
	return ProjectStateDirs(env)[0]
}

// ProjectStateDirs are the folders that a project's questions may be in: ProjectStateDir,
// SpareStateDir, and of a project that macOS guards the one in it, where an earlier
// version and other programs kept theirs.
func ProjectStateDirs(env Getenv) []string {
	configured, spare, dir := configuredStateDir(env), SpareStateDir(env), ProjectDir(env)
	switch {
	case env("GCHAT_STATE_DIR") != "":
	case leadsOutside(dir), !utf8.ValidString(configured):
		return []string{spare}
	case systemGuardsFolders && isGuarded(dir, Home(env)):
		return []string{spare, configured}
	}
	return []string{configured, spare}
}

func configuredStateDir(env Getenv) string {
	dir, _ := filepath.Abs(
		cmp.Or(env("GCHAT_STATE_DIR"), filepath.Join(ProjectDir(env), ".claude", "state")),
	)
	return dir
}

// UserStateDir is the folder of what belongs to the person and not to one project:
// $XDG_STATE_HOME/gchat-hooks, else ~/.local/state/gchat-hooks.
func UserStateDir(env Getenv) string { return userFolder(env, "XDG_STATE_HOME", ".local/state") }

// ConfigDir is the folder of what the person sets: $XDG_CONFIG_HOME/gchat-hooks, else
// ~/.config/gchat-hooks.
func ConfigDir(env Getenv) string { return userFolder(env, "XDG_CONFIG_HOME", ".config") }

func userFolder(env Getenv, variable, inHome string) string {
	dir := env(variable)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(Home(env), inHome)
	}
	return filepath.Join(dir, "gchat-hooks")
}

// ConfigFile is the person's configuration file: $GCHAT_CONFIG, else config.json in
// ConfigDir.
func ConfigFile(env Getenv) string {
	return cmp.Or(env("GCHAT_CONFIG"), filepath.Join(ConfigDir(env), "config.json"))
}

// SpareStateDir stands in for a project's state folder that cannot be written (a
// read-only checkout), or leads elsewhere.
func SpareStateDir(env Getenv) string {
	return filepath.Join(UserStateDir(env), "projects", Hash(6, configuredStateDir(env)))
}

// missingHome stands for the home folder of a process that has none, in a folder that is
// only root's. Nothing is made in it: what stands in a temporary folder, or in the
// working folder, may be another person's.
const missingHome = "/HOME is not set"

// Home is the person's home folder, $HOME.
func Home(env Getenv) string {
	if dir := env("HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return missingHome
}

// WriteFile replaces path with b, or leaves it as it was; it makes the folder. A new file
// is 0600; one that another program made keeps its permissions, since that program has to
// read it.
func WriteFile(path string, b []byte) error { return durable.write(path, b, false) }

// durability is what a write survives. All survive kill -9.
type durability int

const (
	// a power cut, when it was written: replies, answers, and what is owed
	durable  durability = iota
	relaxed             // a power cut may take it back: then the file is as it was before
	unsynced            // a power cut may take the file: what it says is found out again
	inPlace             // so, and it is written often: pace, watermark
)

// write replaces the file at path. A fresh one is only made where nothing stands there
// yet, os.ErrExist otherwise: a link is exclusive and whole at once, which a rename is
// not.
func (d durability) write(path string, b []byte, mustBeNew bool) error {
	if d == inPlace {
		return overwrite(path, b)
	}
	dir := filepath.Dir(path)
	tmp, err := writeTempFile(dir, b, d != unsynced)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if mustBeNew {
		err = os.Link(tmp, path)
	} else {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			_ = os.Chmod(tmp, info.Mode().Perm())
		}
		err = os.Rename(tmp, path)
	}
	if mustBeNew || err != nil {
		os.Remove(tmp)
	}
	if err == nil && d == durable {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// overwrite writes a small JSON file in place, with one write that is as long as what
// stood there: for what is written often, is read by our own processes, and says nothing
// that could not be found out again.
func overwrite(path string, b []byte) error {
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|plainFlags, 0o600)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Size() > int64(len(b)) {
		b = append(b, bytes.Repeat([]byte{' '}, int(info.Size())-len(b))...)
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// writeTempFile writes b to a new file in dir, which it makes, under a name that no
// reader looks for.
func writeTempFile(dir string, b []byte, mustSync bool) (path string, err error) {
	if err := MakeFolder(dir); err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(b)
	if err == nil && mustSync {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err != nil {
		os.Remove(tmp.Name())
		return "", err
	}
	return tmp.Name(), nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err == nil {
		defer d.Close()
		err = d.Sync()
	}
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// MakeFolder makes a folder of ours, and those that it lies in.
func MakeFolder(dir string) error {
	if strings.HasPrefix(dir, missingHome) {
		return errors.New("make folder: HOME is not set")
	}
	err := checkNoLink(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	return nil
}

// IsMissing says that there is no such file, also when a part of its path is a file where
// a folder should be.
func IsMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

const fileNameRunes = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz.-"

// safeFileName makes a file name of a foreign id: ids come from another program, and
// "../x" is a legal string.
func safeFileName(id string) string {
	name := strings.TrimLeft(strings.Map(func(r rune) rune {
		if strings.ContainsRune(fileNameRunes, r) {
			return r
		}
		return '_'
	}, id), ".")
	if name != id || len(name) > 100 || name == "" {
		// Two ids must not meet in one file: what was changed is told apart by a hash.
		name = name[:min(len(name), 80)] + "_" + Hash(4, id)
	}
	return name
}

// CorruptFileError reports a state file that did not parse. It was moved aside or left
// alone, never overwritten.
type CorruptFileError struct {
	Path    string // where it was
	MovedTo string // where it is now; "" when it could not be moved
	Err     error
}

func (c *CorruptFileError) Error() string {
	if c.MovedTo == "" {
		return fmt.Sprintf("state file %s does not parse: %v", c.Path, c.Err)
	}
	return fmt.Sprintf(
		"state file %s does not parse, moved to %s: %v",
		c.Path,
		filepath.Base(c.MovedTo),
		c.Err,
	)
}

func (c *CorruptFileError) Unwrap() error { return c.Err }

func moveAside(path string, cause error) *CorruptFileError {
	for n := 1; n < 1000; n++ {
		target := fmt.Sprintf("%s.corrupt-%d", path, n)
		if _, err := os.Lstat(target); IsMissing(err) {
			if os.Rename(path, target) == nil {
				return &CorruptFileError{Path: path, MovedTo: target, Err: cause}
			}
			break
		}
	}
	return &CorruptFileError{Path: path, Err: cause}
}

// fileExists says whether something stands at path, also a link to nothing.
func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Hash is the beginning of a text's SHA-256, so many bytes of it in hex.
func Hash(bytes int, text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:bytes])
}
