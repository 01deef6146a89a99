package e2e

import (
	"syscall"
	"testing"

	"gchat-hooks/e2e/kit"
)

// Two sessions at once, and each gets what was said to it.
func TestTwoSessions_DecidedCrosswise(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		one := startApproving(t, c, config{
			Script: []turn{{bash("mkdir one")}, askBackTurn, thanksTurn},
		})
		two := one.startBeside(config{
			Hooks:  approveHooks(t),
			Script: []turn{{bash("mkdir two")}, askBackTurn, {textBlock("Bye.")}},
		})
		one.Prompt("go ahead")
		two.Prompt("go ahead")
		first, second := one.awaitPost("[Permission]", "mkdir one"),
			one.awaitPost("[Permission]", "mkdir two")
		one.reply(second, "no, not that one")
		one.reply(first, "y")
		two.awaitResult(1, "not that one")
		one.awaitResult(1)
		one.WaitScreen("Shall I commit?")
		two.WaitScreen("Shall I commit?")
		waits := one.awaitTwoPosts("[Waiting for you]")
		for i, q := range waits {
			one.reply(q, []string{"alpha-one", "beta-two"}[i])
		}
		one.WaitScreen("Thanks, understood.")
		two.WaitScreen("Bye.")
		for _, s := range []*hookedSession{one, two} {
			kit.Equalf(t, s.API.CountText("alpha-one")+s.API.CountText("beta-two"), 1,
				"instructions of a session")
		}
	})
}

// Plans, edits and what is always allowed, of two sessions at once: each reply reaches
// its own.
func TestTwoSessions_PlansAndEditsCrosswise(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		plan, a, b := planTurn("# The plan"), turn{writeCall("a.txt")}, turn{writeCall("b.txt")}
		second := inPlanMode(plan, a, b, turn{textBlock("Bye.")})
		second.Hooks = approveHooks(t)
		one := startApproving(t, c, inPlanMode(plan, plan, a, b, thanksTurn))
		two := one.startBeside(second)
		one.promptPlan("# The plan")
		two.promptPlan("# The plan")

		ones, twos := one.awaitNthPost(1, "[Plan]"), two.awaitNthPost(1, "[Plan]")
		one.reply(twos, "yes")
		one.reply(ones, "no, shorter")
		ones, twos = one.awaitNthPost(2, "[Plan]"),
			two.awaitNthPost(1, "[Permission]", "Write: a.txt")
		one.reply(twos, "no, elsewhere")
		one.reply(ones, "yes")
		ones, twos = one.awaitNthPost(1, "[Permission]", "Write: a.txt"),
			two.awaitNthPost(2, "[Permission]", "Write: b.txt")
		one.reply(ones, "always")
		one.reply(twos, "yes")

		one.awaitResult(1, "shorter")
		two.awaitResult(2, "elsewhere")
		one.WaitScreen("Thanks, understood.")
		two.WaitScreen("Bye.")
		one.checkMade(true, "a.txt", "b.txt")
		two.checkMade(true, "b.txt")
		two.checkMade(false, "a.txt")
		one.checkPosts(3, "[Permission]")
	})
}

// What is done in one session's terminal, and to it, leaves the other one alone.
func TestTwoSessions_OneAtTheTerminal(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		one := startApproving(t, c, config{
			Script: []turn{
				{bash("mkdir a")}, askBackTurn, {bash("mkdir b")}, {textBlock("Well then.")},
				{bash("mkdir c")},
			},
		})
		two := one.startBeside(config{
			Hooks: approveHooks(t),
			Script: []turn{
				{bash("mkdir a")}, askBackTurn, {bash("mkdir b")}, {bash("mkdir c")},
				{textBlock("Bye.")},
			},
		})
		one.Prompt("go ahead")
		two.Prompt("go ahead")
		ones, twos := one.awaitNthPost(1, "[Permission]"), two.awaitNthPost(1, "[Permission]")
		one.Choose("❯ 1. Yes", "1") // in the terminal first, and the other from Chat
		one.reply(twos, "yes")
		one.awaitPostInThread(ones, "[Answered]", "in the terminal")
		two.WaitScreen("Shall I commit?")
		one.WaitScreen("Shall I commit?")

		one.WaitIdle() // a draft in one, while the other goes on
		one.Type("half a thought")
		one.WaitScreen("half a thought")
		waits := one.awaitTwoPosts("[Waiting for you]")
		one.reply(waits[0], "go on")
		one.reply(waits[1], "go on")
		two.awaitNthPost(2, "[Permission]", "mkdir b")
		kit.Equalf(t, inputText(one.Screen()), "halfathought", "the draft")
		one.Keys("C-u")

		ones, twos = one.awaitNthPost(2, "[Permission]", "mkdir b"),
			two.awaitNthPost(2, "[Permission]", "mkdir b")
		one.Choose("❯ 1. Yes", "Escape")
		one.reply(twos, "yes")
		one.awaitPostInThread(ones, "[Cancelled]", "Dismissed")
		twos = two.awaitNthPost(3, "[Permission]", "mkdir c")
		one.Kill(syscall.SIGKILL)
		one.reply(twos, "yes")
		two.WaitScreen("Bye.")
		one.checkMade(true, "a")
		one.checkMade(false, "b", "c")
		two.checkMade(true, "a", "b", "c")
	})
}

// Two sessions ask two questions each; the replies come crosswise.
func TestTwoSessions_RepliesReachTheirOwn(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		a := startDenying(t, c, config{
			Script: []turn{
				{questionCall(deployQuestion), questionCall(databaseQuestion)}, goOnTurn, actTurn,
				actTurn,
			},
			Env: []string{"CLAUDE_SESSION_ID=s3-a"},
		})
		b := a.startBeside(config{
			Script: []turn{
				{questionCall(deployQuestion), questionCall(databaseQuestion)}, goOnTurn, actTurn,
				actTurn,
			},
			Hooks: denyHooks(t),
			Env:   []string{"CLAUDE_SESSION_ID=s3-b", "GCHAT_ASK_MODE=deny"},
		})
		a.Prompt("go ahead")
		b.Prompt("go ahead")
		a2 := a.awaitPost("[AskUserQuestion] Session: s3-a", databaseQuestion.Question)
		b1 := a.awaitPost("[AskUserQuestion] Session: s3-b", deployQuestion.Question)
		a1 := a.awaitPost("[AskUserQuestion] Session: s3-a", deployQuestion.Question)
		b2 := a.awaitPost("[AskUserQuestion] Session: s3-b", databaseQuestion.Question)
		a.WaitScreen("I go on meanwhile.")
		b.WaitScreen("I go on meanwhile.")
		a.reply(b2, "2")
		a.reply(a1, "1")
		a.reply(a2, "1")
		a.reply(b1, "3")
		a.API.WaitText(t, `="Blue-green deployment"`)
		a.API.WaitText(t, `="Postgres"`)
		b.API.WaitText(t, `="Canary"`)
		b.API.WaitText(t, `="SQLite"`)
		for s, wrong := range map[*hookedSession][]string{
			a: {`="Canary"`, `="SQLite"`}, b: {`="Blue-green deployment"`, `="Postgres"`},
		} {
			for _, w := range wrong {
				kit.Equalf(t, s.API.CountText(w), 0, "%s reached the wrong session", w)
			}
		}
	})
}
