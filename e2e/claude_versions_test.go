package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"gchat-hooks/state"
)

// Versions the tests are run on.
const (
	newestVersion = state.NewestClaude
	olderVersion  = state.OlderClaude
)

var (
	bothVersions = []string{newestVersion, olderVersion}
	// testedVersions is for the tests in which both versions did the same whenever they were
	// compared. What each version does by itself, TestClaudeCheck_AllHolds and the tests
	// with bothVersions show on both. GCHAT_E2E_BOTH=1 runs all tests on both.
	testedVersions = func() []string {
		if os.Getenv("GCHAT_E2E_BOTH") != "" {
			return bothVersions
		}
		return bothVersions[:1]
	}()
)

// claude is an installed Claude Code.
type claude struct {
	Version string
	Argv    []string // what to run, without arguments of ours
}

// claudePackage is where the program comes from: DIR/VERSION/node_modules/PACKAGE/claude.
const claudePackage = "@anthropic-ai/claude-code-linux-x64"

// withoutTmux is a Claude Code that does not know of the tmux that it runs in.
func (c claude) withoutTmux() claude {
	return claude{c.Version, append([]string{"env", "-u", "TMUX", "-u", "TMUX_PANE"}, c.Argv...)}
}

// findClaude returns an installed version, or
// skips the test with the command that installs it.
func findClaude(t *testing.T, version string) claude {
	t.Helper()
	requireIsolation(t)
	if _, err := exec.LookPath("tmux"); err != nil {
		skip(t, "tmux is not installed")
	}
	if runtime.GOARCH != "amd64" {
		skip(t, "Claude Code "+version+": only the x64 package is known to these tests")
	}
	dir := filepath.Join(claudeDir(), version)
	file := filepath.Join(dir, "node_modules", filepath.FromSlash(claudePackage), "claude")
	if _, err := os.Stat(file); err != nil {
		skip(t, fmt.Sprintf("Claude Code %s is not installed; to install it: npm install --ignore-scripts --prefix %s %s@%s",
			version, strconv.Quote(dir), claudePackage, version))
	}
	return claude{version, []string{file}}
}

// eachClaude runs a test on several versions side by side, and beside other tests: most
// of a session's time is waiting.
func eachClaude(t *testing.T, versions []string, test func(*testing.T, claude)) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			test(t, findClaude(t, v))
		})
	}
}

// eachCase runs a test for each case on each version.
func eachCase[C any](t *testing.T, versions []string, cases map[string]C,
	test func(*testing.T, claude, C)) {
	t.Parallel()
	for name, c := range cases {
		for _, v := range versions {
			t.Run(name+"/"+v, func(t *testing.T) {
				t.Parallel()
				test(t, findClaude(t, v), c)
			})
		}
	}
}

// claudeDir is asked for before the tests start and handed to the inner process
// by name, since by then HOME may be somebody else's. A HOME made up for the
// test run has no cache; the person's own has.
func claudeDir() string {
	if dir := os.Getenv("GCHAT_E2E_CLAUDE_DIR"); dir != "" {
		return dir
	}
	const sub = ".cache/gchat-hooks-e2e"
	home, _ := os.UserHomeDir()
	dir := filepath.Join(home, sub)
	if _, err := os.Stat(dir); err != nil {
		if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
			return filepath.Join(u.HomeDir, sub)
		}
	}
	return dir
}

// personEnv is the environment of a person's shell, in which this Claude Code is found.
func personEnv(c claude, home string) []string {
	return []string{
		"HOME=" + home, "PATH=" + filepath.Dir(c.Argv[len(c.Argv)-1]) + ":/usr/bin:/bin",
		"TMPDIR=" + os.TempDir(),
	}
}
