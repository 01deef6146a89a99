// Package state holds everything that gchat-hooks keeps on disk: the questions, the
// messages, the sessions, how far spaces were read, the locks and the log. It knows
// nothing of Claude Code's protocol, Google Chat or tmux, and imports no other package of
// ours. It writes a temporary file, syncs it and renames it, so that a reader sees the
// old bytes or the new ones, also after kill -9.
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

// Getenv returns an environment variable; "" where it is unset. It is a parameter
// everywhere, so that no function reads the environment without its caller's knowledge.
type Getenv func(name string) string

// ProjectDir returns the absolute path of the project that a process belongs to:
// $CLAUDE_PROJECT_DIR, else the working directory.
func ProjectDir(env Getenv) string {
	dir, err := filepath.Abs(env("CLAUDE_PROJECT_DIR"))
	if err != nil { // the working directory was removed
		return "."
	}
	return dir
}

// FindProjectDir returns the project of a command in a shell, which may run in a folder
// below it: $CLAUDE_PROJECT_DIR, else the project of the session whose shell it is, else
// the nearest folder with configuration, from the working directory up to the home
// folder.
func FindProjectDir(env Getenv) string {
	workingProject := ProjectDir(env)
	if env("CLAUDE_PROJECT_DIR") != "" {
		return workingProject
	}
	session, err := SessionsIn(UserStateDir(env)).Get(env("CLAUDE_CODE_SESSION_ID"))
	if err == nil && session.ProjectDir != "" {
		return session.ProjectDir
	}
	for dir := workingProject; dir != filepath.Dir(dir) && !isSameFolder(dir, Home(env)); dir = filepath.Dir(dir) {
		isConfigured := fileExists(filepath.Join(dir, ".claude", "gchat-hooks.json")) ||
			fileExists(filepath.Join(dir, ".mcp.json"))
		if isConfigured {
			return dir
		}
	}
	return workingProject
}

// ProjectStateDir returns the folder of a project's state: $GCHAT_STATE_DIR, else
// .claude/state in the project. It is SpareStateDir in three cases: a link leads out of
// the project, since a repository must not choose where else files are read and written;
// macOS would not let a poller read the project; or the project's path is not valid
// UTF-8, so that no record can name it.
func ProjectStateDir(env Getenv) string {
	return ProjectStateDirs(env)[0]
}

// ProjectStateDirs returns the folders that may hold a project's questions, the one for
// new questions first: ProjectStateDir, SpareStateDir, and for a project that macOS
// guards also the folder in it, where an earlier version and other programs kept theirs.
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
	inProject := filepath.Join(ProjectDir(env), ".claude", "state")
	dir, _ := filepath.Abs(cmp.Or(env("GCHAT_STATE_DIR"), inProject))
	return dir
}

// UserStateDir returns the folder of the state that belongs to the person and not to one
// project: $XDG_STATE_HOME/gchat-hooks, else ~/.local/state/gchat-hooks.
func UserStateDir(env Getenv) string { return userFolder(env, "XDG_STATE_HOME", ".local/state") }

// ConfigDir returns the folder of the person's settings: $XDG_CONFIG_HOME/gchat-hooks,
// else ~/.config/gchat-hooks.
func ConfigDir(env Getenv) string { return userFolder(env, "XDG_CONFIG_HOME", ".config") }

func userFolder(env Getenv, variable, inHome string) string {
	dir := env(variable)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(Home(env), inHome)
	}
	return filepath.Join(dir, "gchat-hooks")
}

// ConfigFile returns the path of the person's configuration file: $GCHAT_CONFIG, else
// config.json in ConfigDir.
func ConfigFile(env Getenv) string {
	return cmp.Or(env("GCHAT_CONFIG"), filepath.Join(ConfigDir(env), "config.json"))
}

// SpareStateDir returns the folder that replaces a project's state folder which cannot be
// written (a read-only checkout) or leads out of the project.
func SpareStateDir(env Getenv) string {
	return filepath.Join(UserStateDir(env), "projects", Hash(6, configuredStateDir(env)))
}

// missingHome stands for the home folder of a process that has none. Only root could
// create it, and nothing of ours is created in it. A temporary or working folder would
// not do: files there may be another person's.
const missingHome = "/HOME is not set"

// Home returns the person's home folder, $HOME; missingHome where that is not an absolute
// path.
func Home(env Getenv) string {
	if dir := env("HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return missingHome
}

// ClaudeDir returns the folder of Claude Code's own settings and teams.
func ClaudeDir(env Getenv) string {
	return cmp.Or(env("CLAUDE_CONFIG_DIR"), filepath.Join(Home(env), ".claude"))
}

// WriteFile replaces the file at path by b, or leaves it unchanged on error; it creates
// the folder. A new file has mode 0600. A file that another program made keeps its
// permissions, since that program has to read it.
func WriteFile(path string, b []byte) error { return durable.write(path, b, false) }

// durability is what a write survives, besides kill -9, which all survive.
type durability int

const (
	// it survives a power cut, too: for replies, answers and owed notes
	durable  durability = iota
	relaxed             // a power cut may restore the file's earlier content
	unsynced            // a power cut may lose the file; its content can be found out again
	// as unsynced, and written in place because it is written often: pace, watermark
	inPlace
)

// write replaces the file at path. With mustBeNew it only creates one, and returns
// fs.ErrExist where one exists: a hard link, unlike a rename, is both exclusive and
// complete at once.
func (d durability) write(path string, b []byte, mustBeNew bool) error {
	if d == inPlace {
		return overwrite(path, b)
	}
	tmp, err := d.prepare(path, b)
	if err != nil {
		return err
	}
	return d.install(tmp, path, mustBeNew)
}

// prepare writes b to a temporary file, which install then moves to path.
func (d durability) prepare(path string, b []byte) (tmp string, err error) {
	tmp, err = writeTempFile(filepath.Dir(path), b, d != unsynced)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return tmp, nil
}

// install moves a temporary file to path; see write.
func (d durability) install(tmp, path string, mustBeNew bool) (err error) {
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
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// overwrite writes a small JSON file in place, padded with blanks to the length of the
// old content, in one write. It is for files that are written often, are read only by our
// own processes, and hold nothing that cannot be found out again.
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

// writeTempFile writes b to a new file in dir, under a name that no reader looks for. It
// creates dir.
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

// MakeFolder creates a folder of ours and its parents. It fails where HOME is not set or
// a project's state folder is a link.
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

// IsMissing reports whether err means that there is no such file, also where a file
// stands in the place of a folder in its path.
func IsMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

const fileNameRunes = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz.-"

// safeFileName turns a foreign id into a file name: ids come from other programs, and
// "../x" may be one.
func safeFileName(id string) string {
	name := strings.TrimLeft(strings.Map(func(r rune) rune {
		if strings.ContainsRune(fileNameRunes, r) {
			return r
		}
		return '_'
	}, id), ".")
	if name != id || len(name) > 100 || name == "" {
		// Two ids must not share a file name: a hash distinguishes names that were
		// changed.
		name = name[:min(len(name), 80)] + "_" + Hash(4, id)
	}
	return name
}

// CorruptFileError reports a state file that cannot be parsed. The file was moved aside
// or left alone, never overwritten.
type CorruptFileError struct {
	Path    string // where it was
	MovedTo string // where it is now; "" where it was not moved
	Err     error
}

func (c *CorruptFileError) Error() string {
	if c.MovedTo == "" {
		return fmt.Sprintf("state file %s does not parse: %v", c.Path, c.Err)
	}
	return fmt.Sprintf("state file %s does not parse, moved to %s: %v",
		c.Path, filepath.Base(c.MovedTo), c.Err)
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

// fileExists reports whether something is at path, even a link that leads nowhere.
func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Hash returns the first bytes of a text's SHA-256, in hex.
func Hash(bytes int, text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:bytes])
}
