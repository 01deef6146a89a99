package state

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// checkSecretPlaces looks for secrets in the files of a project that others get with it, in those of ours that are in a
// repository (of dotfiles, say), and in Claude Code's settings, which it copies into the environment of everything it runs.
// It reads only files that a bridge reads anyway, and a project's .env: no shell history, no mail.
func checkSecretPlaces(ctx context.Context, env Getenv) (found []Finding) {
	project := ProjectDir(env)
	for _, name := range []string{".mcp.json", ".claude/gchat-hooks.json", ".claude/settings.json", ".claude/settings.local.json", ".env"} {
		path := filepath.Join(project, filepath.FromSlash(name))
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		what := secretIn(b[:min(len(b), secretMax)])
		if what == "" {
			continue
		}
		switch inGit(ctx, path) {
		case tracked:
			found = append(found, Finding{Level: LevelFail, What: what + " stands in " + path + ", which git tracks", Means: "everybody who gets the repository can use it",
				Mend: "make a new one (the old one stays in the history), put it into ~/.config/gchat-hooks/config.json, and take it out of " + name})
		case untracked:
			found = append(found, Finding{Level: LevelWarn, What: what + " stands in " + path + ", which git does not ignore", Means: "the next `git add .` publishes it",
				Mend: "put it into ~/.config/gchat-hooks/config.json, or: echo " + name + " >> " + ShellQuoted(filepath.Join(project, ".gitignore"))})
		}
	}
	own := []string{ConfigFile(env), LoginFile(env)}
	if file := LoadConfig(env, project).CredentialsFile; file != "" && file != own[1] {
		own = append(own, file)
	}
	for _, path := range own {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		real, err := filepath.EvalSymlinks(path) // git keeps a link, and not what it leads to
		if what := secretIn(b[:min(len(b), secretMax)]); what != "" && err == nil && inGit(ctx, real) == tracked {
			found = append(found, Finding{Level: LevelFail, What: what + " stands in " + real + ", which git tracks", Means: "everybody who gets the repository can use it",
				Mend: "git -C " + ShellQuoted(filepath.Dir(real)) + " rm --cached " + ShellQuoted(filepath.Base(real)) + ", then make a new one: the old one stays in the history"})
		}
	}
	settings := filepath.Join(claudeDir(env), "settings.json")
	if b, err := os.ReadFile(settings); err == nil {
		if what := secretIn(b[:min(len(b), secretMax)]); what != "" {
			found = append(found, Finding{Level: LevelWarn, What: what + " stands in " + settings, Means: "every command that Claude runs gets it in its environment, and can print it",
				Mend: "move it to ~/.config/gchat-hooks/config.json"})
		}
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
