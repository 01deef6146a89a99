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

// "yes, auto" approves the plan, and edits need no permission from then on.
func TestPlan_ApprovedWithEdits(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		cfg := inPlanMode(planTurn("# The plan"), turn{writeCall("a.txt")}, thanksTurn)
		b := startApproving(t, c, cfg)
		b.promptPlan("# The plan")
		b.reply(b.awaitPost("[Plan] Session:", "common file commands"), "Yes, auto")
		b.WaitScreen("Thanks, understood.")
		b.checkMade(true, "a.txt")
		b.awaitPost("[Answered]",
			"From now on edits and common file commands such as rm, mv and cp need no permission.")
		b.checkPosts(0, "[Permission]")
	})
}

// planTurn is a turn that presents a plan.
func planTurn(plan string) turn {
	return turn{toolCall("ExitPlanMode", map[string]any{"plan": plan})}
}

// inPlanMode is a session in plan mode, for [session.promptPlan], with these turns.
func inPlanMode(turns ...turn) config {
	return config{
		Args:   []string{"--permission-mode", "plan"},
		Script: append([]turn{{textBlock("Hm.")}}, turns...),
	}
}

// promptPlan has a session in plan mode end a turn, which says "Hm.", with a plan in its
// file, and go ahead.
func (s *session) promptPlan(plan string) {
	s.t.Helper()
	s.Prompt("think")
	s.WaitDone("Hm.")
	s.writePlan(plan)
	s.Prompt("go ahead")
}

// writePlan writes the plan into the file that the session keeps it in, as the model does
// (2.1.329).
func (s *session) writePlan(text string) {
	s.t.Helper()
	named := regexp.MustCompile(`"planFilePath":"([^"]+)"`)
	var plan string
	bound.Until(s.t, "the transcript names the plan's file", func() bool {
		if m := named.FindStringSubmatch(s.readTranscripts()); m != nil {
			plan = m[1]
		}
		return plan != ""
	})
	kit.NoError(s.t,
		errors.Join(os.MkdirAll(filepath.Dir(plan), 0o700),
			os.WriteFile(plan, []byte(text), 0o600)))
}
