package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
)

// Where only an organization's rules allow anything, "always" is not offered: Claude Code would take it round them.
func TestAlwaysIsNotOfferedBesideManagedRules(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		managed := t.TempDir()
		put(t, filepath.Join(managed, "managed-settings.json"), `{"allowManagedPermissionRulesOnly": true}`)
		b := approve(t, c.managed(t, managed), config{Script: []turn{{bash("make one")}, {bash("make two")}, thanks}})
		b.Prompt("go ahead")
		q := b.await("[Permission]", "make one")
		if strings.Contains(q.Text, "always") {
			t.Errorf("offered: %q", q.Text)
		}
		b.reply(q, "always")
		b.await("[Not used]", "yes or no")
		b.reply(q, "yes")
		b.reply(b.await("[Permission]", "make two"), "yes")
		b.told(2)
		b.WaitScreen("Thanks, understood.")
	})
}

// From a worktree, "always" says whose rules are written, as this version does it.
func TestWhereARuleOfAWorktreeLands(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		main := ""
		b := approve(t, c, config{Script: []turn{{bash("make one")}, thanks}, Prepare: func(home, project string) {
			main = filepath.Join(filepath.Dir(project), "main")
			script := `git init -q "$0" && cd "$0" && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git worktree add -q "$1"`
			cmd := bound.Command(t, "sh", "-c", script, main, project)
			cmd.Env = append(os.Environ(), "HOME="+home)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}})
		said, file, other := "in the main checkout ("+filepath.Join(main, ".claude", "settings.local.json")+")", main, b.Dir
		if c.Version == older {
			said, file, other = "in this worktree (.claude/settings.local.json)", b.Dir, main
		}
		b.Prompt("go ahead")
		b.reply(b.await("[Permission]", "make one", said), "always")
		b.told(1)
		b.await("[Answered]", "Always allowed from now on:", said)
		if got := contents(t, filepath.Join(file, ".claude", "settings.local.json")); !strings.Contains(got, "make") {
			t.Errorf("the file has %s", got)
		}
		if _, err := os.Stat(filepath.Join(other, ".claude", "settings.local.json")); err == nil {
			t.Error("it was written there, too")
		}
	})
}
