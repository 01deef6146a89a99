package state

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// checkPrivate looks whether others can read or change what should be the person's alone. What is ours is judged by its own
// permissions: a home folder that is opened to others one day, or a backup of it, must not lay a secret open. What is
// other programs' to write counts only where others can get at it.
func checkPrivate(env Getenv) (found []Finding) {
	cfg := LoadConfig(env, ProjectDir(env))
	user := ConfigFile(env)
	look := func(path string, open os.FileMode) {
		if open&0o044 != 0 && secretOf(path) != "" {
			found = append(found, tooOpen(path, "read a secret in ", "they can post or read as you"))
		} else if open&0o022 != 0 {
			found = append(found, tooOpen(path, "write ", "they can say where questions go, and who answers them"))
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
		byDefault := filepath.Join(Home(env), ".config", "gcloud", "application_default_credentials.json")
		theirs = append(theirs, cmp.Or(env("GOOGLE_APPLICATION_CREDENTIALS"), byDefault))
	}
	for _, path := range theirs {
		look(path, exposed(path)&reachable(path))
	}
	backups, _ := filepath.Glob(user + "?*") // config.json~ and what else editors leave
	for _, path := range backups {
		look(path, exposed(path)&0o044)
	}
	found = append(found, checkWritable(env)...)
	if open, writable := openStateFiles(env); len(open) > 0 {
		what := fmt.Sprintf("state files that other users of this machine can read or write: %d, for one %s", len(open), open[0])
		f := warning(what, "they hold what Claude asked and what you replied", doctorFix)
		f.Fix = func() (string, error) { return closeFiles(open) }
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

func tooOpen(path, can, means string) Finding {
	f := failure("other users of this machine can "+can+path, means, "chmod 600 "+ShellQuoted(path))
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
	_ = filepath.WalkDir(UserState(env), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return filepath.SkipDir
		}
		check(path, 0o066)
		return nil
	})
	for _, folder := range []Questions{QuestionsIn(ProjectState(env)), MarkersIn(ProjectState(env))} {
		names, _ := folder.names()
		for _, name := range names {
			path := filepath.Join(folder.Dir, name)
			if q, err := PeekQuestion(path); err == nil && q.Mode != "" {
				check(path, 0o066)
			}
		}
	}
	for _, path := range []string{LogPath(env), LogPath(env) + ".1"} {
		check(path, 0o066)
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

// secretOf names a secret in a file by its shape; "" for none. A reference, ${NAME}, is none.
func secretOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, secretMax))
	for _, s := range []struct{ what, mark string }{
		{"a webhook URL", "token="}, {"a private key", "PRIVATE KEY-----"},
		{"a refresh token", `"refresh_token"`}, {"an Anthropic key", "sk-ant-"},
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

// claudeDir is where Claude Code keeps what belongs to the person.
func claudeDir(env Getenv) string {
	return cmp.Or(env("CLAUDE_CONFIG_DIR"), filepath.Join(Home(env), ".claude"))
}

// WritableByOthers says that another user of this machine can change a file, or put files into a folder in the place of those
// that are there.
func WritableByOthers(path string) bool { return reachable(path)&0o022 != 0 }

// checkWritable looks at the folders whose files decide what runs, where questions go and what answers them: a user who may
// write to a folder can replace every file in it. Ours are judged by their own permissions; Claude Code's are not ours to
// mend, and count where others can get at them.
func checkWritable(env Getenv) (found []Finding) {
	ours := []string{ConfigDir(env)}
	_ = filepath.WalkDir(UserState(env), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return filepath.SkipDir
		}
		if d.IsDir() {
			ours = append(ours, path)
		}
		return nil
	})
	project := ProjectState(env)
	ours = append(ours, project, QuestionsIn(project).Dir, MarkersIn(project).Dir, filepath.Join(project, "user-input-queue"))
	slices.Sort(ours) // with GCHAT_STATE_DIR some may be the same
	for _, path := range slices.Compact(ours) {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() || granted(info)&0o022 == 0 {
			continue
		}
		f := failure("other users of this machine can write to "+path, "they can answer in your name",
			"chmod go-w "+ShellQuoted(path))
		if path == ConfigDir(env) {
			f.Means = "they can say where questions go, and who answers them"
		}
		if link, err := os.Lstat(path); err == nil && link.IsDir() { // what a link leads to may be shared on purpose
			f.Mend += ", or " + doctorFix
			f.Fix = func() (string, error) { return "chmod go-w " + ShellQuoted(path), closeFolder(path) }
		}
		found = append(found, f)
	}
	for _, path := range []string{claudeDir(env), filepath.Join(claudeDir(env), "settings.json")} {
		if WritableByOthers(path) {
			found = append(found, warning("other users of this machine can write to "+path,
				"they can register hooks, which run as you", "chmod go-w "+ShellQuoted(path)))
		}
	}
	return found
}

// closeFolder takes away what group and others may write to a folder, and sees that it worked: not every file system keeps
// permissions.
func closeFolder(path string) error {
	info, err := os.Stat(path)
	if err == nil {
		err = os.Chmod(path, info.Mode()&^0o022)
	}
	if err == nil {
		info, err = os.Stat(path)
	}
	if err == nil && info.Mode().Perm()&0o022 != 0 {
		return errors.New("the file system does not keep permissions; set GCHAT_STATE_DIR to a folder on one that does")
	}
	return err
}

// checkSecretPlaces looks for secrets in the files of a project that others get with it, in those of ours that are in a
// repository (of dotfiles, say), and in Claude Code's settings, which it copies into the environment of everything it runs.
// It reads only files that a bridge reads anyway, and a project's .env: no shell history, no mail.
func checkSecretPlaces(ctx context.Context, env Getenv) (found []Finding) {
	project := ProjectDir(env)
	const everybody = "everybody who gets the repository can use it"
	for _, name := range []string{
		".mcp.json", ".claude/gchat-hooks.json", ".claude/settings.json", ".claude/settings.local.json", ".env",
	} {
		path := filepath.Join(project, filepath.FromSlash(name))
		what := secretOf(path)
		if what == "" {
			continue
		}
		switch inGit(ctx, path) {
		case tracked:
			found = append(found, failure(what+" stands in "+path+", which git tracks", everybody,
				"make a new one (the old one stays in the history), put it into ~/.config/gchat-hooks/config.json, "+
					"and take it out of "+name))
		case untracked:
			ignore := "echo " + name + " >> " + ShellQuoted(filepath.Join(project, ".gitignore"))
			found = append(found, warning(what+" stands in "+path+", which git does not ignore",
				"the next `git add .` publishes it", "put it into ~/.config/gchat-hooks/config.json, or: "+ignore))
		}
	}
	own := []string{ConfigFile(env), LoginFile(env)}
	if file := LoadConfig(env, project).CredentialsFile; file != "" && file != own[1] {
		own = append(own, file)
	}
	for _, path := range own {
		real, err := filepath.EvalSymlinks(path) // git keeps a link, and not what it leads to
		if what := secretOf(path); what != "" && err == nil && inGit(ctx, real) == tracked {
			untrack := "git -C " + ShellQuoted(filepath.Dir(real)) + " rm --cached " + ShellQuoted(filepath.Base(real))
			found = append(found, failure(what+" stands in "+real+", which git tracks", everybody,
				untrack+", then make a new one: the old one stays in the history"))
		}
	}
	settings := filepath.Join(claudeDir(env), "settings.json")
	if what := secretOf(settings); what != "" {
		found = append(found, warning(what+" stands in "+settings,
			"every command that Claude runs gets it in its environment, and can print it",
			"move it to ~/.config/gchat-hooks/config.json"))
	}
	if len(found) == 0 {
		return Fine("no secret stands where others get it")
	}
	return found
}

// gitPlace is what git knows of a file.
type gitPlace int

const (
	outside   gitPlace = iota // of git, or ignored by it
	tracked                   // in the repository
	untracked                 // git add would take it
)

// inGit asks git about a file; without git there is no repository to speak of.
func inGit(ctx context.Context, path string) gitPlace {
	if code, err := git(ctx, path, "ls-files", "--error-unmatch", "--", filepath.Base(path)); err == nil && code == 0 {
		return tracked
	} else if err != nil || code != 1 {
		return outside // 128: no repository
	}
	if code, err := git(ctx, path, "check-ignore", "-q", "--", filepath.Base(path)); err != nil || code != 1 {
		return outside
	}
	return untracked
}

func git(ctx context.Context, path string, args ...string) (code int, err error) {
	// A repository can name a program to be run as its file watcher.
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "core.fsmonitor=false", "-C", filepath.Dir(path)}, args...)...)
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// checkLog looks whether the log, which people send to each other, holds the secrets that are configured.
func checkLog(ctx context.Context, env Getenv) []Finding {
	cfg := LoadConfig(env, ProjectDir(env))
	var r Redactor
	r.HideConfigured(env, cfg)
	r.hideCredentials(cfg.CredentialsFile)
	for _, path := range []string{LogPath(env), LogPath(env) + ".1"} {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		b, _ := io.ReadAll(io.LimitReader(f, maxLog+secretMax))
		f.Close()
		if ctx.Err() == nil && r.finds(b) {
			return []Finding{failure("the log holds a secret: "+path,
				"a person who gets the log can post as you; please report it as a bug",
				"rm "+ShellQuoted(path)+", and make a new webhook or key")}
		}
	}
	return Fine("the log holds no secret")
}

// hideCredentials makes the secrets of a credentials file unreadable. Of a private key each line is one: in a log its ends
// of lines are escaped in some way or another.
func (r *Redactor) hideCredentials(path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		return
	}
	var file struct {
		Refresh string `json:"refresh_token"`
		Client  string `json:"client_secret"`
		Key     string `json:"private_key"`
	}
	_ = json.Unmarshal(b, &file)
	r.Hide(file.Refresh)
	r.Hide(file.Client)
	for line := range strings.Lines(file.Key) {
		if !strings.Contains(line, "-----") {
			r.Hide(strings.TrimSpace(line))
		}
	}
}

// finds says whether a text holds one of the secrets.
func (r *Redactor) finds(b []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.secrets {
		if bytes.Contains(b, []byte(s)) {
			return true
		}
	}
	return false
}
