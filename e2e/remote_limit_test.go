package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

// Where only an organization's rules allow anything, "always" is not offered: Claude Code
// would take it round them.
func TestRemoteLimit_NoAlwaysBesideManagedRules(t *testing.T) {
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

// Beside never_remote nothing is offered that would go round it: neither "always" for all
// edits, nor "yes, auto" for a plan.
func TestRemoteLimit_NoAlwaysForEdits(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		cfg := config{Args: []string{"--permission-mode", "plan"}, Script: []turn{
			{textBlock("Hm.")}, {toolCall("ExitPlanMode", map[string]any{"plan": "# The plan"})}, {}, {bash("mkdir out")}, {bash("touch a.txt")}, thanksTurn,
		}}
		cfg.Prepare = func(home, project string) {
			cfg.Script[2] = turn{toolCall("Write", map[string]string{"file_path": filepath.Join(project, "a.md"), "content": "x\n"})}
			writeFile(t, filepath.Join(home, ".config", "gchat-hooks", "config.json"), map[string]any{"never_remote": []string{"Write(*secrets.env)", "Bash(rm *)"}})
		}
		b := startApproving(t, c, cfg)
		b.awaitPlan("# The plan")
		b.Prompt("go ahead")
		q := b.awaitPost("[Plan] Session:")
		if strings.Contains(q.Text, "auto") {
			t.Errorf("offered: %s", q.Text)
		}
		b.reply(q, "yes, auto")
		b.awaitPost("[Not used]")
		b.reply(q, "yes")
		q = b.awaitPost("[Permission]", "Write: a.md")
		if strings.Contains(q.Text, "always") {
			t.Errorf("offered: %s", q.Text)
		}
		b.reply(q, "always")
		b.reply(q, "yes")
		for _, command := range []string{"mkdir out", "touch a.txt"} {
			// each is asked for: the mode is still the usual one
			b.reply(b.awaitPost("[Permission]", command), "no")
		}
		b.awaitResult(4, "denied this from the chat page")
	})
}

// A skill that asks allows tools itself, and runs commands when it is loaded: beside
// never_remote only the terminal allows it.
func TestRemoteLimit_SkillOnlyInTerminal(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		cfg := config{Script: []turn{{toolCall("Skill", map[string]string{"skill": "deploy"})}, thanksTurn}}
		cfg.Prepare = func(home, project string) {
			const skill = "---\nname: deploy\ndescription: deploys\nallowed-tools: Bash(touch *)\n---\nhello !`touch made`\n"
			file := filepath.Join(project, ".claude", "skills", "deploy", "SKILL.md")
			kit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(skill), 0o600)))
			writeFile(t, filepath.Join(home, ".config", "gchat-hooks", "config.json"), map[string]any{"never_remote": []string{"Bash(touch*)"}})
		}
		b := startApproving(t, c, cfg)
		b.Prompt("go ahead")
		q := b.awaitPost("[Permission]", `"skill": "deploy"`, "Only the terminal can allow this.")
		b.reply(q, "yes")
		b.awaitPost("[Not used]")
		b.reply(q, "no")
		b.awaitResult(1, "denied this from the chat page")
		if _, err := os.Stat(filepath.Join(b.Dir, "made")); err == nil {
			t.Error("its command ran")
		}
	})
}

// never_remote is the person's: what it names is shown, and only the terminal allows it.
func TestRemoteLimit_CommandOnlyInTerminal(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{{bash("cd . && mkdir out")}, thanksTurn}, Prepare: func(home, project string) {
			for path, text := range map[string]string{
				filepath.Join(home, ".config", "gchat-hooks", "config.json"): `{"never_remote": ["Bash(mkdir*)"]}`,
				filepath.Join(project, ".claude", "gchat-hooks.json"):        `{"never_remote": [], "approvers": ["users/9"]}`,
			} {
				kit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
			}
		}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Permission]", "Only the terminal can allow this.")
		for _, reply := range []string{"yes", "always", "1"} {
			b.reply(q, reply)
		}
		b.awaitPost("[Not used]", "Only the terminal can allow this")
		b.reply(q, "no, not now")
		b.awaitResult(1, "not now")
		if _, err := os.Stat(filepath.Join(b.Dir, "out")); err == nil {
			t.Error("it was allowed")
		}
	})
}
