package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tailscale/hujson"

	"gchat-hooks/state"
)

// configParse tells of configuration files that do not parse, of values that mean nothing, and of names that nothing reads:
// a slip of the keyboard is otherwise silent. Names that begin with "$" or "_" are a person's own notes.
func (e *exam) configParse(_ context.Context, r *result) {
	for _, err := range e.cfg.Problems {
		if strings.HasPrefix(err.Error(), "read configuration ") { // nor are the files that rank below it used
			r.fail("%v", err)
		} else {
			r.warn("%v", err)
		}
	}
	known := map[string]bool{}
	for _, s := range state.Settings() {
		name := strings.FieldsFunc(s.Member, func(r rune) bool { return r == '.' || r == '[' })
		if len(name) > 0 {
			known[name[0]] = true
		}
	}
	for _, path := range []string{state.ConfigFile(e.Env), e.projectConfig()} {
		var file map[string]json.RawMessage
		plain, _ := hujson.Standardize(bytes.TrimPrefix(read(path), []byte("\ufeff")))
		_ = json.Unmarshal(plain, &file)
		var odd []string
		for name := range file {
			if !known[name] && !strings.HasPrefix(name, "$") && !strings.HasPrefix(name, "_") {
				odd = append(odd, fmt.Sprintf("%q", name))
			}
		}
		if slices.Sort(odd); len(odd) > 0 {
			r.warn("%s has settings that do not exist: %s", path, strings.Join(odd, ", "))
		}
	}
	r.ok("the configuration files parse")
}

func (e *exam) projectConfig() string { return filepath.Join(e.project, ".claude", "gchat-hooks.json") }

// readMax bounds what is read of a file, in bytes.
const readMax = 2 << 20

// read is what a file begins with; nil where it cannot be read.
func read(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, readMax))
	return b
}

// secretShapes are secrets by their shape. A reference, ${NAME}, is none.
var secretShapes = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"a webhook URL":    regexp.MustCompile(`/messages\?[^"'\s]*token=[\w.%-]{6}`),
		"a private key":    regexp.MustCompile(`PRIVATE KEY-----`),
		"a refresh token":  regexp.MustCompile(`"refresh_token"`),
		"an Anthropic key": regexp.MustCompile(`sk-ant-`),
	}
})

// secretIn names a secret in a file; "" for none.
func secretIn(path string) string {
	b := read(path)
	for what, shape := range secretShapes() {
		if shape.Match(b) {
			return what
		}
	}
	return ""
}

// ownSecrets are the files of ours that may hold a secret.
func (e *exam) ownSecrets() []string {
	files := []string{state.ConfigFile(e.Env), e.projectConfig(), state.LoginFile(e.Env)}
	if file := e.cfg.CredentialsFile; file != "" && file != state.NoCredentials {
		files = append(files, file)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// configSecrets looks for secrets in files that git has, or would take with `git add .`: of the project's files those that a
// bridge reads, and ours, which may be among a person's dotfiles. It reads no others.
func (e *exam) configSecrets(ctx context.Context, r *result) {
	files := e.ownSecrets()
	for _, name := range []string{".mcp.json", ".env", ".claude/settings.json", ".claude/settings.local.json"} {
		files = append(files, filepath.Join(e.project, name))
	}
	for _, path := range files {
		what := secretIn(path)
		real, err := filepath.EvalSymlinks(path) // git keeps a link, and not what it leads to
		switch {
		case what == "" || err != nil:
		case git(ctx, real, "ls-files", "--error-unmatch") == 0:
			r.fail("%s stands in %s, which git tracks", what, path)
		case git(ctx, real, "check-ignore", "-q") == 1: // 0: ignored, 128: no repository
			r.warn("%s stands in %s, which git does not ignore", what, path)
		}
	}
	r.ok("no secret stands in a repository")
}

// git asks git about a file, and returns its exit code; -1 where there is no git.
func git(ctx context.Context, path string, args ...string) int {
	// A repository can name a program to be run as its file watcher.
	args = append([]string{"-c", "core.fsmonitor=false", "-C", filepath.Dir(path)}, args...)
	cmd := exec.CommandContext(ctx, "git", append(args, "--", filepath.Base(path))...)
	cmd.WaitDelay = time.Second
	_ = cmd.Run()
	if cmd.ProcessState == nil {
		return -1
	}
	return cmd.ProcessState.ExitCode()
}

// stateFolders are the state folders that this project and this person have.
func (e *exam) stateFolders() []string {
	own, _ := filepath.Abs(state.ProjectState(e.Env))
	return slices.Compact([]string{own, state.UserState(e.Env)})
}

// filesFolders looks whether state can be written where it is to be.
func (e *exam) filesFolders(_ context.Context, r *result) {
	if !filepath.IsAbs(e.Env("HOME")) {
		r.fail("HOME is not set")
		return
	}
	for _, dir := range append(e.stateFolders(), filepath.Dir(state.LogPath(e.Env))) {
		_, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is made at its first use
		}
		var probe *os.File
		if err == nil {
			probe, err = os.CreateTemp(dir, ".new-")
		}
		if err == nil {
			probe.Close()
			err = os.Remove(probe.Name())
		}
		if err != nil {
			r.fail("nothing can be written to %s: %v", dir, err)
		}
	}
	r.ok("state folders can be written")
}

// filesPrivate looks whether others can read or change what should be the person's alone. What is ours is judged by its own
// permissions: a home folder that is opened to others one day, or a backup of it, must not lay a secret open.
func (e *exam) filesPrivate(_ context.Context, r *result) {
	backups, _ := filepath.Glob(state.ConfigFile(e.Env) + "?*") // config.json~ and what else editors leave
	for _, path := range append(e.ownSecrets(), backups...) {
		switch open := openTo(path); {
		case open&0o044 != 0 && secretIn(path) != "":
			r.fail("other users of this machine can read a secret in %s", path).fix = closing(0o077, path)
		case open&0o022 != 0:
			r.fail("other users of this machine can write %s", path).fix = closing(0o077, path)
		}
	}
	mcp := filepath.Join(state.Home(e.Env), ".mcp.json") // another program's: it counts where others get at it
	if openTo(state.Home(e.Env))&0o011 != 0 && openTo(mcp)&0o044 != 0 && secretIn(mcp) != "" {
		r.fail("other users of this machine can read a secret in %s", mcp)
	}
	files, folders := e.ours()
	for _, dir := range folders {
		if openTo(dir)&0o022 != 0 {
			r.fail("other users of this machine can write to %s", dir).fix = closing(0o022, dir)
		}
	}
	files = slices.DeleteFunc(files, func(path string) bool { return openTo(path)&0o066 == 0 })
	if len(files) > 0 {
		f := r.fail("state files that other users of this machine can read or write: %d, for one %s", len(files), files[0])
		f.fix = closing(0o077, files...)
	}
	r.ok("configuration, credentials and state are yours alone")
}

// ours are the state files of the person, and the folders of ours. In a project's state other programs write, too: of that,
// only the folders are ours to judge.
func (e *exam) ours() (files, folders []string) {
	project := state.ProjectState(e.Env)
	folders = append(folders, state.ConfigDir(e.Env), project)
	for _, name := range []string{"pending-questions", "gchat-forwarded-ask", "user-input-queue"} {
		folders = append(folders, filepath.Join(project, name))
	}
	files = append(files, state.LogPath(e.Env), state.LogPath(e.Env)+".1")
	_ = filepath.WalkDir(state.UserState(e.Env), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return filepath.SkipDir
		case d.IsDir():
			folders = append(folders, path)
		case d.Type().IsRegular():
			files = append(files, path)
		}
		return nil
	})
	slices.Sort(folders) // with GCHAT_STATE_DIR some may be the same
	return files, slices.Compact(folders)
}

// openTo are the permissions of group and others on a file or folder, by its own mode. A group with the number of the owner is
// theirs alone, by the custom of most Linux systems, where new files are the group's to write.
func openTo(path string) fs.FileMode {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	mode := info.Mode().Perm() & 0o077
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Uid == sys.Gid {
		mode &^= 0o070
	}
	return mode
}

// closing takes away what group and others may do, and sees that it worked: not every file system keeps permissions. It is nil
// for a link: what that leads to may be shared on purpose.
func closing(bits fs.FileMode, paths ...string) func() (string, error) {
	if info, err := os.Lstat(paths[0]); err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	return func() (string, error) {
		for _, path := range paths {
			info, err := os.Lstat(path)
			if err != nil {
				continue // gone meanwhile
			}
			if err := os.Chmod(path, info.Mode()&^bits); err != nil {
				return "", err
			}
			if openTo(path)&bits != 0 {
				return "", errors.New("the file system does not keep permissions; set GCHAT_STATE_DIR to a folder on one that does")
			}
		}
		return fmt.Sprintf("closed to other users: %s", strings.Join(paths, ", ")), nil
	}
}

// filesLinks looks at the names that agents call, which `install --links` links beside the program. Where there is none of
// them, the person did not ask for them.
func (e *exam) filesLinks(_ context.Context, r *result) {
	names, there := []string{"gchat-send", "gchat-wait"}, 0
	for _, name := range names {
		path := filepath.Join(filepath.Dir(e.Self), name)
		if _, err := os.Lstat(path); err == nil {
			there++
		}
		if _, err := os.Stat(path); err == nil {
			continue
		}
		r.warn("%s is missing, or a link that leads nowhere", path).fix = func() (string, error) {
			if to, _ := os.Readlink(path); to != "" {
				_ = os.Remove(path)
			}
			return "linked " + path, os.Symlink("gchat-hooks", path)
		}
	}
	if there == 0 {
		r.found = nil
		r.skip("the names that agents call are not linked; gchat-hooks install --links does it")
	}
	r.ok("the names that agents call lead to the program")
}
