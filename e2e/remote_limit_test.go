package e2e

import (
	"path/filepath"
	"testing"

	"gchat-hooks/e2e/kit"
)

// Where only an organization's rules allow anything, "always" is not offered: Claude Code
// would take it round them.
func TestRemoteLimit_NoAlwaysBesideManagedRules(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		managed := t.TempDir()
		kit.WriteFile(t, filepath.Join(managed, "managed-settings.json"),
			`{"allowManagedPermissionRulesOnly": true}`, 0o600)
		b := startApproving(t, c.withManagedSettings(t, managed), config{
			Script: []turn{{bash("make one")}, {bash("make two")}, thanksTurn},
		})
		b.Prompt("go ahead")
		q := b.awaitPost("[Permission]", "make one")
		checkLacks(t, q.Text, "always")
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
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		cfg := inPlanMode(planTurn("# The plan"), turn{writeCall("a.md")}, turn{bash("mkdir out")},
			turn{bash("touch a.txt")}, thanksTurn)
		cfg.Files = map[string]string{
			personalConfig: `{"never_remote": ["Write(*secrets.env)", "Bash(rm *)"]}`,
		}
		b := startApproving(t, c, cfg)
		b.promptPlan("# The plan")
		q := b.awaitPost("[Plan] Session:")
		checkLacks(t, q.Text, "auto")
		b.reply(q, "yes, auto")
		b.awaitPost("[Not used]")
		b.reply(q, "yes")
		q = b.awaitPost("[Permission]", "Write: a.md")
		checkLacks(t, q.Text, "always")
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
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		const skill = "---\nname: deploy\ndescription: deploys\nallowed-tools: Bash(touch *)\n---\nhello !`touch made`\n"
		cfg := config{
			Script: []turn{{toolCall("Skill", map[string]string{"skill": "deploy"})}, thanksTurn},
			Files: map[string]string{
				".claude/skills/deploy/SKILL.md": skill,
				personalConfig:                   `{"never_remote": ["Bash(touch*)"]}`,
			},
		}
		b := startApproving(t, c, cfg)
		b.Prompt("go ahead")
		q := b.awaitPost("[Permission]", `"skill": "deploy"`, "Only the terminal")
		b.reply(q, "yes")
		b.awaitPost("[Not used]")
		b.reply(q, "no")
		b.awaitResult(1, "denied this from the chat page")
		b.checkMade(false, "made")
	})
}

// never_remote is the person's: what it names is shown, and only the terminal allows it.
func TestRemoteLimit_CommandOnlyInTerminal(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Script: []turn{{bash("cd . && mkdir out")}, thanksTurn},
		Files: map[string]string{
			personalConfig:             `{"never_remote": ["Bash(mkdir*)"]}`,
			".claude/gchat-hooks.json": `{"never_remote": [], "approvers": ["users/9"]}`,
		},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Permission]", "Only the terminal")
		for _, reply := range []string{"yes", "always", "1"} {
			b.reply(q, reply)
		}
		b.awaitPost("[Not used]", "Only the terminal")
		b.reply(q, "no, not now")
		b.awaitResult(1, "not now")
		b.checkMade(false, "out")
	})
}
