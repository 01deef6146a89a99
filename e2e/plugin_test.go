package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Claude Code itself says whether the plugin is one.
func TestPluginIsValid(t *testing.T) {
	eachClaude(t, []string{newest}, func(t *testing.T, c claude) {
		requireIsolation(t)
		takeSeat(t)
		plugin, err := filepath.Abs("../plugin")
		if err != nil {
			t.Fatal(err)
		}
		s := &session{t: t, Claude: c, API: newAnthropic(t), Home: t.TempDir()}
		s.tmux.dir = t.TempDir()
		cmd := exec.CommandContext(t.Context(), c.Argv[0], append(c.Argv[1:], "plugin", "validate", plugin)...)
		cmd.Env = s.environ(nil)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Validation passed") || !strings.Contains(string(out), "PermissionRequest AskUserQuestion") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}
