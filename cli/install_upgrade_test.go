package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An upgrade where claude is not on the PATH, as of an editor's, keeps the hooks that its version takes.
func TestAnUpgradeWithoutClaudeKeepsTheHooks(t *testing.T) {
	n := newNewcomer(t, "/usr/bin:/bin")
	n.does(program(t), "install", "--preset", "approve", "--claude-version", "2.1.329")
	if out := n.does(program(t), "install", "--keep"); !strings.Contains(out, "settings.json: nothing to change") {
		t.Errorf("it says\n%s", out)
	}
}

// Hooks in a project that nothing was asked in go with a purge, too: they would start a program that is gone.
func TestAPurgeFindsTheHooksOfAFreshProject(t *testing.T) {
	n := newNewcomer(t, "/usr/bin:/bin")
	n.has("mine/", "")
	n.env = append(n.env, "CLAUDE_PROJECT_DIR="+filepath.Join(n.home, "mine"))
	n.does(program(t), "install", "--project")
	n.does(program(t), "install", "--local")
	n.env = n.env[:len(n.env)-1]
	n.does(program(t), "uninstall", "--purge", "--yes")
	for _, name := range []string{"settings.json", "settings.local.json"} {
		if b, err := os.ReadFile(filepath.Join(n.home, "mine", ".claude", name)); err == nil {
			t.Errorf("%s is left:\n%s", name, b)
		}
	}
}
