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
)

// Versions the tests are run on: the newest, one from the middle, and the
// oldest whose questions a hook can answer.
const (
	newest = "2.1.329"
	middle = "2.1.197"
	oldest = "2.1.45"
)

// claude is an installed Claude Code.
type claude struct {
	Version string
	Argv    []string // what to run, without arguments of ours
}

// where a version lies in its folder, and the package it comes from. Newer
// packages are the program itself, older ones are run with node.
var layout = map[string]struct{ pkg, file string }{
	newest: {"@anthropic-ai/claude-code-linux-x64", "claude"},
	middle: {"@anthropic-ai/claude-code-linux-x64", "claude"},
	oldest: {"@anthropic-ai/claude-code", "cli.js"},
}

// findClaude returns an installed version, DIR/VERSION/node_modules/PACKAGE, or
// skips the test with the command that installs it.
func findClaude(t *testing.T, version string) claude {
	t.Helper()
	requireIsolation(t)
	if _, err := exec.LookPath("tmux"); err != nil {
		skip(t, "tmux is not installed")
	}
	at, ok := layout[version]
	if !ok {
		t.Fatalf("no layout for Claude Code %s", version)
	}
	native := filepath.Ext(at.file) != ".js"
	if native && runtime.GOARCH != "amd64" {
		skip(t, "Claude Code "+version+": only the x64 package is known to these tests")
	}
	dir := filepath.Join(claudeDir(), version)
	file := filepath.Join(dir, "node_modules", filepath.FromSlash(at.pkg), at.file)
	if _, err := os.Stat(file); err != nil {
		skip(t, fmt.Sprintf("Claude Code %s is not installed; to install it: npm install --ignore-scripts --prefix %s %s@%s",
			version, strconv.Quote(dir), at.pkg, version))
	}
	if native {
		return claude{version, []string{file}}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		skip(t, "Claude Code "+version+" needs node, which is not installed")
	}
	return claude{version, []string{node, file}}
}

// eachClaude runs a test on several versions side by side, and beside other tests: most of a session's time is waiting.
func eachClaude(t *testing.T, versions []string, test func(*testing.T, claude)) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			test(t, findClaude(t, v))
		})
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
