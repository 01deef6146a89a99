package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// Where only an organization's rules allow anything, "always" is not offered: Claude Code
// would take it round them.
func TestAlwaysIsNotOfferedBesideManagedRules(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		managed := t.TempDir()
		writeText(t, filepath.Join(managed, "managed-settings.json"), `{"allowManagedPermissionRulesOnly": true}`)
		b := startApproving(t, c.withManagedSettings(t, managed), config{Script: []turn{{bash("make one")}, {bash("make two")}, thanksTurn}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Permission]", "make one")
		if strings.Contains(q.Text, "always") {
			t.Errorf("offered: %q", q.Text)
		}
		b.reply(q, "always")
		b.awaitPost("[Not used]", "yes or no")
		b.reply(q, "yes")
		b.reply(b.awaitPost("[Permission]", "make two"), "yes")
		b.awaitResult(2)
		b.WaitScreen("Thanks, understood.")
	})
}

// From a worktree, "always" says whose rules are written, as this version does it.
func TestWhereARuleOfAWorktreeLands(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		main := ""
		b := startApproving(t, c, config{Script: []turn{{bash("make one")}, thanksTurn}, Prepare: func(home, project string) {
			main = filepath.Join(filepath.Dir(project), "main")
			script := `git init -q "$0" && cd "$0" && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git worktree add -q "$1"`
			cmd := bound.Command(t, "sh", "-c", script, main, project)
			cmd.Env = append(os.Environ(), "HOME="+home)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}})
		said, file, other := "in the main checkout ("+filepath.Join(main, ".claude", "settings.local.json")+")", main, b.Dir
		if c.Version == olderVersion {
			said, file, other = "in this worktree (.claude/settings.local.json)", b.Dir, main
		}
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[Permission]", "make one", said), "always")
		b.awaitResult(1)
		b.awaitPost("[Answered]", "Always allowed from now on:", said)
		kit.Containsf(t, readFiles(t, filepath.Join(file, ".claude", "settings.local.json")), "make", "the file")
		if _, err := os.Stat(filepath.Join(other, ".claude", "settings.local.json")); err == nil {
			t.Error("it was written there, too")
		}
	})
}
