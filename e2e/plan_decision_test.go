package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

func TestPlan_DecidedInChat(t *testing.T) {
	const text = "# The plan\n\n1. do *this*\n2. do that"
	plan := map[string]any{"plan": text}
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Args: []string{"--permission-mode", "plan"}, Script: []turn{
			{textBlock("Hm.")}, {toolCall("ExitPlanMode", plan)}, {toolCall("ExitPlanMode", plan)}, thanksTurn,
		}})
		b.awaitPlan(text)
		b.Prompt("go ahead")
		q := b.awaitPost("[Plan] Session:", "The plan", "do that")
		b.reply(q, "no, leave the second step out")
		b.awaitResult(1, "leave the second step out")
		b.awaitPost("[Answered]", "Sent the plan back.", "leave the second step out")
		b.reply(b.awaitPostInOtherThread(q, "[Plan] Session:"), "yes")
		b.awaitResult(2, "approved")
		b.awaitPost("[Answered]", "Approved the plan.")
		b.WaitScreen("Thanks, understood.")
	})
}

// "yes, auto" approves the plan, and edits need no permission from then on.
func TestPlan_ApprovedWithEdits(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		cfg := config{Args: []string{"--permission-mode", "plan"}, Script: []turn{
			{textBlock("Hm.")}, {toolCall("ExitPlanMode", map[string]any{"plan": "# The plan"})}, {}, thanksTurn,
		}}
		cfg.Prepare = func(_, project string) {
			cfg.Script[2] = turn{toolCall("Write", map[string]string{"file_path": filepath.Join(project, "a.txt"), "content": "x"})}
		}
		b := startApproving(t, c, cfg)
		b.awaitPlan("# The plan")
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[Plan] Session:", "common file commands"), "Yes, auto")
		b.WaitScreen("Thanks, understood.")
		if _, err := os.Stat(filepath.Join(b.Dir, "a.txt")); err != nil {
			t.Error(err)
		}
		b.awaitPost("[Answered]", "From now on edits and common file commands such as rm, mv and cp need no permission.")
		kit.Equalf(t, b.countPosts("[Permission]"), 0, "asked")
	})
}

// awaitPlan has a session in plan mode end a turn, which says "Hm.", with a plan in its
// file.
func (b *hookedSession) awaitPlan(plan string) {
	b.t.Helper()
	b.Prompt("think")
	b.WaitScreen("Hm.")
	b.WaitIdle()
	b.writePlan(plan)
}

// writePlan writes the plan into the file that the session keeps it in, as the model does
// (2.1.329).
func (b *hookedSession) writePlan(text string) {
	b.t.Helper()
	named := regexp.MustCompile(`"planFilePath":"([^"]+)"`)
	var plan string
	bound.Until(b.t, "the transcript names the plan's file", func() bool {
		files, _ := filepath.Glob(filepath.Join(b.Home, ".claude", "projects", "*", "*.jsonl"))
		for _, file := range files {
			raw, _ := os.ReadFile(file)
			if m := named.FindSubmatch(raw); m != nil {
				plan = string(m[1])
			}
		}
		return plan != ""
	})
	kit.NoError(b.t, errors.Join(os.MkdirAll(filepath.Dir(plan), 0o700), os.WriteFile(plan, []byte(text), 0o600)))
}
