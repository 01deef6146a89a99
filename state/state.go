// Package state is every byte that gchat-hooks keeps on disk: the questions, the messages, the sessions, how far spaces
// were read, the locks, the log. It speaks neither Claude Code nor Google Chat nor tmux and imports nothing
// of ours. It writes to a temporary file, syncs and renames that, so that a reader sees the old bytes or the new ones,
// also after kill -9.
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

// Getenv looks an environment variable up; "" is unset. It is passed in, so that nothing reads the environment behind
// a caller's back.
type Getenv func(name string) string

// ProjectDir is the project that a process belongs to, by its absolute path: $CLAUDE_PROJECT_DIR, else the working directory.
func ProjectDir(env Getenv) string {
	dir, err := filepath.Abs(env("CLAUDE_PROJECT_DIR"))
	if err != nil { // the working directory is gone
		return "."
	}
	return dir
}

// ProjectAround is the project of a command in a shell, which may be below it: $CLAUDE_PROJECT_DIR, else that of the session
// whose shell it is, else the nearest folder with configuration, from the working one up to the home folder.
func ProjectAround(env Getenv) string {
	here := ProjectDir(env)
	if env("CLAUDE_PROJECT_DIR") != "" {
		return here
	}
	if one, err := SessionsIn(UserState(env)).Of(env("CLAUDE_CODE_SESSION_ID")); err == nil && one.ProjectDir != "" {
		return one.ProjectDir
	}
	for dir := here; dir != filepath.Dir(dir) && !sameFolder(dir, Home(env)); dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, ".claude", "gchat-hooks.json")) || exists(filepath.Join(dir, ".mcp.json")) {
			return dir
		}
	}
	return here
}

// ProjectState is the folder of a project's state: $GCHAT_STATE_DIR, else .claude/state in the project. Where a link leads that
// out of the project, it is SpareState: a checkout must not say where else files are read and written. So it is where macOS would
// not let a poller read the project, and where the project's path is no UTF-8, which no record can name.
func ProjectState(env Getenv) string {
	return ProjectStates(env)[0]
}

// ProjectStates are the folders that a project's questions may be in: ProjectState, SpareState, and of a project that macOS
// guards the one in it, where an earlier version and other programs kept theirs.
func ProjectStates(env Getenv) []string {
	named, spare, dir := namedState(env), SpareState(env), ProjectDir(env)
	switch {
	case env("GCHAT_STATE_DIR") != "":
	case leadsOut(dir), !utf8.ValidString(named):
		return []string{spare}
	case guards && guarded(dir, Home(env)):
		return []string{spare, named}
	}
	return []string{named, spare}
}

func namedState(env Getenv) string {
	dir, _ := filepath.Abs(cmp.Or(env("GCHAT_STATE_DIR"), filepath.Join(ProjectDir(env), ".claude", "state")))
	return dir
}

// UserState is the folder of what belongs to the person and not to one project:
// $XDG_STATE_HOME/gchat-hooks, else ~/.local/state/gchat-hooks.
func UserState(env Getenv) string { return personsFolder(env, "XDG_STATE_HOME", ".local/state") }

// ConfigDir is the folder of what the person sets: $XDG_CONFIG_HOME/gchat-hooks, else ~/.config/gchat-hooks.
func ConfigDir(env Getenv) string { return personsFolder(env, "XDG_CONFIG_HOME", ".config") }

func personsFolder(env Getenv, variable, inHome string) string {
	dir := env(variable)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(Home(env), inHome)
	}
	return filepath.Join(dir, "gchat-hooks")
}

// ConfigFile is the person's configuration file: $GCHAT_CONFIG, else config.json in ConfigDir.
func ConfigFile(env Getenv) string {
	return cmp.Or(env("GCHAT_CONFIG"), filepath.Join(ConfigDir(env), "config.json"))
}

// SpareState stands in for a project's state folder that cannot be written (a read-only checkout), or leads elsewhere.
func SpareState(env Getenv) string {
	return filepath.Join(UserState(env), "projects", Hash(6, namedState(env)))
}

// noHome stands for the home folder of a process that has none, in a folder that is only root's. Nothing is made in it:
// what stands in a temporary folder, or in the working folder, may be another person's.
const noHome = "/HOME is not set"

// Home is the person's home folder, $HOME.
func Home(env Getenv) string {
	if dir := env("HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return noHome
}

// WriteFile replaces path with b, or leaves it as it was; it makes the folder. A new file is 0600; one that another program made keeps its
// permissions, since that program has to read it.
func WriteFile(path string, b []byte) error { return durable.write(path, b, false) }

// durability is what a write survives. All survive kill -9.
type durability int

const (
	durable durability = iota // a power cut, when it was written: replies, answers, and what is owed
	whole                     // a power cut may take it back: then the file is as it was before
	quick                     // a power cut may take the file: what it says is found out again
	inPlace                   // so, and it is written often: pace, watermark
)

// write replaces the file at path. A fresh one is only made where nothing stands there yet, os.ErrExist otherwise: a link is
// exclusive and whole at once, which a rename is not.
func (how durability) write(path string, b []byte, fresh bool) error {
	if how == inPlace {
		return overwrite(path, b)
	}
	dir := filepath.Dir(path)
	tmp, err := newTemp(dir, b, how != quick)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if fresh {
		err = os.Link(tmp, path)
	} else {
		if is, err := os.Lstat(path); err == nil && is.Mode().IsRegular() {
			_ = os.Chmod(tmp, is.Mode().Perm())
		}
		err = os.Rename(tmp, path)
	}
	if fresh || err != nil {
		os.Remove(tmp)
	}
	if err == nil && how == durable {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// overwrite writes a small JSON file in place, with one write that is as long as what stood there: for what is written often, is
// read by our own processes, and says nothing that could not be found out again.
func overwrite(path string, b []byte) error {
	if err := MakeDir(filepath.Dir(path)); err != nil {
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

// newTemp writes b to a new file in dir, which it makes, under a name that no reader looks for.
func newTemp(dir string, b []byte, synced bool) (path string, err error) {
	if err := MakeDir(dir); err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(b)
	if err == nil && synced {
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

// MakeDir makes a folder of ours, and those that it lies in.
func MakeDir(dir string) error {
	if strings.HasPrefix(dir, noHome) {
		return errors.New("make folder: HOME is not set")
	}
	err := noLink(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	return nil
}

// Missing says that there is no such file, also when a part of its path is a file where a folder should be.
func Missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

const inNames = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz.-"

// safeName makes a file name of a foreign id: ids come from another program, and "../x" is a legal string.
func safeName(id string) string {
	name := strings.TrimLeft(strings.Map(func(r rune) rune {
		if strings.ContainsRune(inNames, r) {
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

// Corrupt reports a state file that did not parse. It was moved aside or left alone, never overwritten.
type Corrupt struct {
	Path  string // where it was
	Aside string // where it is now; "" when it could not be moved
	Err   error
}

func (c *Corrupt) Error() string {
	if c.Aside == "" {
		return fmt.Sprintf("state file %s does not parse: %v", c.Path, c.Err)
	}
	return fmt.Sprintf("state file %s does not parse, moved to %s: %v", c.Path, filepath.Base(c.Aside), c.Err)
}

func (c *Corrupt) Unwrap() error { return c.Err }

func setAside(path string, cause error) *Corrupt {
	for n := 1; n < 1000; n++ {
		aside := fmt.Sprintf("%s.corrupt-%d", path, n)
		if _, err := os.Lstat(aside); Missing(err) {
			if os.Rename(path, aside) == nil {
				return &Corrupt{Path: path, Aside: aside, Err: cause}
			}
			break
		}
	}
	return &Corrupt{Path: path, Err: cause}
}

// exists says whether something stands at path, also a link to nothing.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Hash is the beginning of a text's SHA-256, so many bytes of it in hex.
func Hash(bytes int, text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:bytes])
}
