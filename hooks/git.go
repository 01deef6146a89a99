package hooks

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	gitQuick = 300 * time.Millisecond // for a hook
	gitBound = 5 * time.Second        // for the poller
	maxNew   = 10_000                 // of new files
)

// inGit says whether dir is in a working tree, without starting a process: most often it costs a few looks.
func inGit(dir string) bool {
	if !filepath.IsAbs(dir) {
		return false
	}
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return false
		}
		dir = up
	}
}

// git runs git in dir. It takes no lock, starts none of the programs that a repository can name for hooks, diffs and
// signatures, asks for no password, fetches nothing, and is gone with its children at ctx's end.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	options := []string{"--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
		"-c", "color.ui=false", "-c", "log.showSignature=false", "-c", "protocol.allow=never"}
	cmd := exec.CommandContext(ctx, "git", append(options, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = gitQuick
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.ToValidUTF8(string(out), "\uFFFD"), nil
}

// headOf is the branch and the commit that dir is at; "" for what git does not say in that time.
func headOf(ctx context.Context, dir string, bound time.Duration) (branch, commit string) {
	if !inGit(dir) {
		return "", ""
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	out, err := git(ctx, dir, "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
	if err != nil { // before the first commit
		return "", ""
	}
	commit, branch, _ = strings.Cut(strings.TrimSpace(out), "\n")
	return branch, commit
}

// changes is what became of a working tree since a commit.
type changes struct {
	branch   string
	stat     string   // "5 files changed, 120 insertions(+), 8 deletions(-)"
	files    []string // committed or not
	subjects []string // of the commits, the newest first
}

// commitID keeps anything else from being read as an option or a range.
var commitID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40,64}$`) })

// changesSince asks git what happened since a commit and its time; what it does not answer is left out. ok is false
// outside git.
func changesSince(ctx context.Context, dir, commit string, began time.Time) (c changes, ok bool) {
	if !inGit(dir) {
		return c, false
	}
	ctx, cancel := context.WithTimeout(ctx, gitBound)
	defer cancel()
	c.branch, _ = headOf(ctx, dir, gitBound)
	if !commitID().MatchString(commit) {
		return c, c.branch != ""
	}
	c.subjects = gitList(ctx, dir, "log", "-z", "--format=%s", commit+"..HEAD", "--")
	diff := []string{"diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"}
	if out, err := git(ctx, dir, append(diff, "--shortstat", commit, "--")...); err == nil {
		c.stat = strings.TrimSpace(out)
	}
	c.files = gitList(ctx, dir, append(diff, "--name-only", "-z", commit, "--")...)
	// A diff knows nothing of files that were never added. What is in .claude is our own and other tools'.
	for _, f := range gitList(ctx, dir, "ls-files", "--others", "--exclude-standard", "-z", "--", ".", ":(exclude).claude") {
		info, err := os.Lstat(filepath.Join(dir, f))
		if err == nil && !info.ModTime().Before(began) && len(c.files) < maxNew {
			c.files = append(c.files, f)
		}
	}
	return c, true
}

// gitList is what git answers with -z; none where it fails.
func gitList(ctx context.Context, dir string, args ...string) []string {
	out, err := git(ctx, dir, args...)
	if err != nil || out == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
}
