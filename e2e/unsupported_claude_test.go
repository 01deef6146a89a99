package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/cli/claudecheck"
	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// recordCheck records that these contracts do not hold with the session's Claude Code.
func (b *hookedSession) recordCheck(broken ...string) {
	b.t.Helper()
	report := claudecheck.Report{Version: b.Claude.Version}
	for _, id := range broken {
		finding := claudecheck.Finding{ID: id, Verdict: claudecheck.Broken}
		report.Findings = append(report.Findings, finding)
	}
	result := report.Result(state.ClaudeCheck{}, time.Now())
	kit.NoError(b.t, state.SaveClaudeCheck(lookupIn(b.tmux.env), b.Claude.Version, result))
}

// awaitLeft waits for the message of a question that is left to the terminal, and checks
// that no hook waits.
func (b *hookedSession) awaitLeft(beginning string, parts ...string) *chat.Message {
	b.t.Helper()
	m := b.awaitPost(beginning, append(parts, "answer it ")...)
	b.checkNoWaiter()
	return m
}

// What does not hold with a Claude Code takes another way: a question is typed, and what
// cannot be typed is left to the terminal, which is never held up. The session is told
// why, once. After a check by which all holds, everything is answered from Chat again, and
// the daemon is the same.
func TestUnsupportedClaude_FallsBack(t *testing.T) {
	eachClaude(t, []string{newestVersion}, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{
			Args:    append([]string{"--permission-mode", "plan"}, allowFormTool...),
			Prepare: serveForms(nameForm),
			Env:     []string{"PATH=" + filepath.Dir(c.Argv[0]) + ":" + os.Getenv("PATH")},
			Script: []turn{
				{textBlock("Hm.")}, planTurn("# The plan"),
				{questionCall(deployQuestion)}, {bash("mkdir one")}, {fakemodel.FormCall()}, thanksTurn,
				{questionCall(databaseQuestion)}, thanksTurn,
				{agentCall("mkdir two")}, {textBlock("I wait for it.")}, {textBlock("It is made.")},
				{questionCall(featuresQuestion)}, {bash("mkdir three")}, {fakemodel.FormCall()},
				{textBlock("All is well.")},
			},
		})
		d := b.startDaemon()
		d.awaitPolling()
		b.recordCheck(state.ContractQuestion, state.ContractPermission, state.ContractPlan,
			state.ContractForm)
		b.promptPlan("# The plan")
		q := b.awaitLeft("[Plan] Session:", "The plan",
			"Claude Code "+c.Version+" does not take this answer from here")
		b.Choose("Yes, manually approve edits", "2")
		b.awaitPostInThread(q, "[Answered]", "in the terminal")
		b.reply(b.awaitPost("[AskUserQuestion]"), "2") // it is typed
		b.awaitResult(2, "Rolling deployment")
		q = b.awaitLeft("[Permission] Session:", "mkdir one", "In the terminal since")
		b.reply(q, "yes")
		b.awaitPostInThread(q, "[Not used]", "answer it there")
		b.checkMade(false, "one")
		b.Choose("❯ 1. Yes", "1")
		b.awaitPostInThread(q, "[Answered]", "in the terminal")
		b.awaitLeft("[Form]", "In the terminal since")
		kit.Containsf(t, b.runCommand("status"), "In tmux, the answer is typed", "status")
		b.Choose(drawnForm, "Escape")
		b.WaitDone("Thanks, understood.")

		// Nor can an answer be typed.
		b.recordCheck(state.ContractQuestion, state.ContractTyped, state.ContractAgent)
		b.Prompt("ask again")
		b.awaitLeft("[AskUserQuestion]", databaseQuestion.Question, "In the terminal since")
		b.Choose("❯ 1. Postgres", "1")
		b.awaitResult(5, "Postgres")
		b.Prompt("start an agent")
		q = b.awaitLeft("[Permission] Session:", "mkdir two", "In the terminal since")
		b.Choose("❯ 1. Yes", "1")
		b.awaitMade("two")
		b.awaitPostInThread(q, "[Answered]", "in the terminal")
		b.WaitDone("It is made.")
		kit.Containsf(t, b.runCommand("doctor"), "Answers cannot be typed", "doctor")
		b.checkPosts(0, "[In the terminal]")

		b.recordCheck()
		b.Prompt("all holds again")
		b.reply(b.awaitPost("[AskUserQuestion]", featuresQuestion.Question), "1, 3")
		b.reply(b.awaitPost("[Permission] Session:", "mkdir three", "Reply yes"), "yes")
		b.awaitMade("three")
		b.reply(b.awaitPost("[Form]", "Reply with a line"), "name: Ann")
		b.WaitDone("All is well.")
		questions := b.loadQuestions()
		last := questions[len(questions)-1]
		kit.True(t, last.Mode == state.ModeNative && last.IsPrinted, "a hook answered: %+v", last)
		checkLacks(t, b.runCommand("status")+b.runCommand("doctor"), "In tmux, the answer is typed")
		kit.True(t, !d.hasEnded(), "the daemon ended")
	})
}
