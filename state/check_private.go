package state

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// checkPrivate looks whether others can read or change what should be the person's alone. What is ours is judged by its own
// permissions: a home folder that is opened to somebody one day, or a backup of it, must not lay a secret open. What is
// other programs' to write counts only where others can get at it.
func checkPrivate(env Getenv) (found []Finding) {
	cfg := LoadConfig(env, ProjectDir(env))
	user := ConfigFile(env)
	look := func(path string, open os.FileMode) {
		if open&0o044 != 0 && holdsSecret(path) {
			found = append(found, tooOpen(path, "other users of this machine can read a secret in "+path, "they can post or read as you"))
		} else if open&0o022 != 0 {
			found = append(found, tooOpen(path, "other users of this machine can write "+path, "they can say where questions go, and who answers them"))
		}
	}
	ours := []string{user, filepath.Join(ProjectDir(env), ".claude", "gchat-hooks.json"), LoginFile(env)}
	if cfg.CredentialsFile != "" && cfg.CredentialsFile != LoginFile(env) {
		ours = append(ours, cfg.CredentialsFile)
	}
	for _, path := range ours {
		look(path, exposed(path))
	}
	theirs := []string{filepath.Join(Home(env), ".mcp.json")}
	if cfg.CredentialsFile == "" && !strings.HasPrefix(cfg.WebhookURL, "http:") { // the space on this machine is read without
		theirs = append(theirs, cmp.Or(env("GOOGLE_APPLICATION_CREDENTIALS"), filepath.Join(Home(env), ".config", "gcloud", "application_default_credentials.json")))
	}
	for _, path := range theirs {
		look(path, exposed(path)&reachable(path))
	}
	backups, _ := filepath.Glob(user + "?*") // config.json~ and what else editors leave
	for _, path := range backups {
		if exposed(path)&0o044 != 0 && holdsSecret(path) {
			found = append(found, tooOpen(path, "other users of this machine can read a secret in "+path, "they can post or read as you"))
		}
	}
	found = append(found, checkWritable(env)...)
	if open, writable := openStateFiles(env); len(open) > 0 {
		f := Finding{Level: LevelWarn, What: fmt.Sprintf("state files that other users of this machine can read or write: %d, for one %s", len(open), open[0]),
			Means: "they hold what Claude asked and what you replied", Mend: doctorFix, Fix: func() (string, error) { return closeFiles(open) }}
		if writable {
			f.Level, f.Means = LevelFail, "they can answer in your name"
		}
		found = append(found, f)
	}
	if len(found) == 0 {
		return Fine("configuration, credentials and state are yours alone")
	}
	return found
}

func tooOpen(path, what, means string) Finding {
	f := Finding{Level: LevelFail, What: what, Means: means, Mend: "chmod 600 " + ShellQuoted(path)}
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() { // what a link leads to may be shared on purpose
		f.Mend += ", or " + doctorFix
		f.Fix = func() (string, error) { return "chmod 600 " + ShellQuoted(path), os.Chmod(path, 0o600) }
	}
	return f
}

// openStateFiles are the files of ours that others can read or, writable says, one of them write. A project's state is other
// programs' too: there, only the questions that we wrote are ours, and what lies in the queue, where people and scripts put
// answers that may be read.
func openStateFiles(env Getenv) (open []string, writable bool) {
	check := func(path string, what os.FileMode) {
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			return
		}
		if mode := exposed(path); mode&what != 0 {
			open, writable = append(open, path), writable || mode&0o022 != 0
		}
	}
	add := func(path string) { check(path, 0o066) }
	_ = filepath.WalkDir(UserState(env), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return filepath.SkipDir
		}
		add(path)
		return nil
	})
	for _, folder := range []Questions{QuestionsIn(ProjectState(env)), MarkersIn(ProjectState(env))} {
		names, _ := folder.names()
		for _, name := range names {
			path := filepath.Join(folder.Dir, name)
			if q, err := PeekQuestion(path); err == nil && q.Mode != "" {
				add(path)
			}
		}
	}
	for _, path := range []string{LogPath(env), LogPath(env) + ".1"} {
		add(path)
	}
	queue := filepath.Join(ProjectState(env), "user-input-queue")
	for _, name := range namesIn(queue) {
		check(filepath.Join(queue, name), 0o022)
	}
	return open, writable
}

// closeFiles takes away what group and others may do with files.
func closeFiles(paths []string) (string, error) {
	n, failed := 0, error(nil)
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue // gone meanwhile
		}
		if err := os.Chmod(path, info.Mode().Perm()&0o700); err != nil {
			failed = err
			continue
		}
		n++
	}
	return fmt.Sprintf("chmod go= on state files: %d", n), failed
}

// exposed are the permissions of group and others on a file, by its own mode.
func exposed(path string) os.FileMode {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return granted(info)
	}
	return 0
}

// granted are the permissions of group and others. A group with the number of the owner is theirs alone, by the custom of
// most Linux systems, where new files are the group's to write.
func granted(info os.FileInfo) os.FileMode {
	mode := info.Mode().Perm() & 0o077
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Uid == sys.Gid {
		mode &^= 0o070
	}
	return mode
}

// reachable are the permissions of group and others on a file or folder as far as they can get at it: not behind a folder
// that they may not enter.
func reachable(path string) os.FileMode {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	mode := granted(info)
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return mode
	}
	for dir := filepath.Dir(real); mode != 0; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil {
			if info.Mode().Perm()&0o001 == 0 {
				mode &^= 0o007
			}
			if info.Mode().Perm()&0o010 == 0 {
				mode &^= 0o070
			}
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return mode
}

// secretMax bounds what is read of a file that may hold a secret, in bytes.
const secretMax = 1 << 20

// holdsSecret says whether there is a secret in a file, by its shape: a webhook URL's token, a key of a service account, a
// refresh token, an Anthropic key.
func holdsSecret(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, secretMax))
	return secretIn(b) != ""
}

// secretIn names a secret in a text, by what it is; "" for none. A reference, ${NAME}, is none.
func secretIn(b []byte) string {
	for _, s := range []struct{ what, mark string }{
		{"a webhook URL", "token="}, {"a private key", "PRIVATE KEY-----"}, {"a refresh token", `"refresh_token"`}, {"an Anthropic key", "sk-ant-"},
	} {
		before, after, found := bytes.Cut(b, []byte(s.mark))
		inURL := false
		for ; found; before, after, found = bytes.Cut(after, []byte(s.mark)) {
			inURL = inURL || bytes.Contains(before, []byte("/messages"))
			if s.mark == "token=" && (!inURL || bytes.HasPrefix(after, []byte("${")) || bytes.HasPrefix(after, []byte("…"))) {
				continue
			}
			return s.what
		}
	}
	return ""
}
