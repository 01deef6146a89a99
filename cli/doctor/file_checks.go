package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/tailscale/hujson"
	"golang.org/x/sys/unix"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// checkConfigParse reports configuration files that do not parse, invalid values, and
// unknown settings: nothing else reports a misspelled name. Names that begin with "$" or
// "_" are a person's own notes.
func (e *exam) checkConfigParse(_ context.Context, r *result) {
	for _, err := range e.cfg.Problems {
		finding := r.fail("%v", err)
		switch {
		case errors.Is(err, config.ErrUnreadablePolicy):
			finding.Fix = "ask the policy's owner: the administrator of this machine, or whoever runs the hub"
		case errors.Is(err, config.ErrFileGone):
			finding.Fix = gchat.Hint(err)
		}
	}
	for _, slip := range e.cfg.Misspellings {
		r.warn("%v", slip)
	}
	known := map[string]bool{}
	for _, s := range config.AllSettings() {
		name, _, _ := strings.Cut(strings.ReplaceAll(s.JSONName, "[", "."), ".")
		known[name] = true
	}
	for _, path := range []string{state.ConfigFile(e.Env), e.projectConfigFile()} {
		var file map[string]json.RawMessage
		standardized, _ := hujson.Standardize(bytes.TrimPrefix(readStart(path), []byte("\ufeff")))
		_ = json.Unmarshal(standardized, &file)
		var unknown []string
		for name := range file {
			isReported := slices.ContainsFunc(e.cfg.Misspellings, func(slip error) bool {
				return strings.Contains(slip.Error(), fmt.Sprintf("%s: %q", path, name))
			})
			if !isReported && !known[name] && !strings.HasPrefix(name, "$") &&
				!strings.HasPrefix(name, "_") {
				unknown = append(unknown, fmt.Sprintf("%q", name))
			}
		}
		if slices.Sort(unknown); len(unknown) > 0 {
			r.warn("%s has unknown settings: %s", path, strings.Join(unknown, ", "))
		}
	}
	r.ok("the configuration files are valid")
}

func (e *exam) projectConfigFile() string {
	return filepath.Join(e.project, ".claude", "gchat-hooks.json")
}

// readStart reads up to 2 MB of a file. It returns nil if the file cannot be read.
func readStart(path string) []byte {
	b, _ := state.ReadPlainOrLink(path, 2<<20)
	return b
}

// secretPattern matches a secret by its shape: a webhook's URL, a private key, a login, a
// hub's token file, or Anthropic's key. A reference such as ${NAME} is no secret.
var secretPattern = state.LazyPattern(
	`/messages\?[^"'\s]*token=[\w.%-]{6}|PRIVATE KEY-----|"refresh_token"|"gchat_hooks_hub"|sk-ant-`,
)

func hasSecret(path string) bool { return secretPattern().Match(readStart(path)) }

// checkFilesFolders checks that state and log can be written in their folders.
func (e *exam) checkFilesFolders(_ context.Context, r *result) {
	projectState := state.ProjectStateDir(e.Env)
	for _, dir := range []string{projectState, state.UserStateDir(e.Env), filepath.Dir(state.LogPath(e.Env))} {
		err := unix.Access(dir+"/.", unix.W_OK)
		for errors.Is(err, fs.ErrNotExist) {
			// A missing folder is created at its first use: check the one above it.
			dir = filepath.Dir(dir)
			err = unix.Access(dir+"/.", unix.W_OK)
		}
		var disk unix.Statfs_t
		if err == nil && unix.Statfs(dir, &disk) == nil && disk.Blocks > 0 && disk.Bavail == 0 {
			err = unix.ENOSPC
		}
		if err != nil {
			r.fail("cannot write to %s: %v", dir, err)
		}
	}
	if dir := state.UserStateDir(e.Env); !utf8.ValidString(dir) {
		const fix = "set XDG_STATE_HOME to another folder"
		r.fail("no question can be asked in Chat: the state folder %q is not UTF-8", dir).Fix = fix
	}
	if place := state.ReadLockFolder(e.Env); place != nil {
		r.warn("%s", place.Describe()).Fix = "set XDG_STATE_HOME to a folder on a local disk"
	}
	r.ok("state folders can be written")
}

// checkFilesPrivate checks that others cannot read or change the person's private files.
// Only a file's own permissions count, not those of the folders above it: the home folder
// may be opened to others one day, or copied by a backup.
func (e *exam) checkFilesPrivate(_ context.Context, r *result) {
	var exposed []string
	checkPath := func(path string, mayBeRead bool) {
		permissions := othersPermissions(path)
		canWrite, canRead := permissions&0o022 != 0, permissions&0o044 != 0
		if canWrite || canRead && !mayBeRead {
			exposed = append(exposed, path)
		}
	}
	for _, dir := range []string{state.UserStateDir(e.Env), state.ConfigDir(e.Env)} {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil {
				isPlainConfig := dir == state.ConfigDir(e.Env) && !hasSecret(path)
				checkPath(path, d.IsDir() || d.Type() == fs.ModeSocket || isPlainConfig)
			}
			return nil
		})
	}
	log := state.LogPath(e.Env)
	for _, path := range []string{e.projectConfigFile(), e.cfg.CredentialsFile, log, log + ".1"} {
		checkPath(path, !hasSecret(path))
	}
	// Other programs write files into a project's state, too: only the folders are
	// checked.
	for _, name := range []string{"", "pending-questions", "gchat-forwarded-ask", "user-input-queue"} {
		checkPath(filepath.Join(state.ProjectStateDir(e.Env), name), true)
	}
	if len(exposed) > 0 {
		slices.Sort(exposed)
		exposed = slices.Compact(exposed)
		r.fail("other users of this machine can read or change your private files: %s",
			strings.Join(exposed, ", "))
		return
	}
	r.ok("configuration, credentials and state are private")
}

// othersPermissions are the permissions that group and others have on a file or folder. A
// group whose number is the owner's counts as the owner: most Linux systems give each
// user such a group, and let it write new files.
func othersPermissions(path string) fs.FileMode {
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
