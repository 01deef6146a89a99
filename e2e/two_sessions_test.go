package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
)

// Two sessions at once, and each gets what was said to it.
func TestTwoSessions_DecidedCrosswise(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		one := startApproving(t, c, config{Script: []turn{{bash("mkdir one")}, askBackTurn, thanksTurn}})
		two := one.startBeside(config{Hooks: approveHooks(t), Script: []turn{{bash("mkdir two")}, askBackTurn, {textBlock("Bye.")}}})
		one.Prompt("go ahead")
		two.Prompt("go ahead")
		first, second := one.awaitPost("[Permission]", "mkdir one"), one.awaitPost("[Permission]", "mkdir two")
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
			said := s.API.maxCount("alpha-one") > 0
			if said == (s.API.maxCount("beta-two") > 0) {
				t.Error("a session has both instructions, or none")
			}
		}
	})
}

// Plans, edits and what is always allowed, of two sessions at once: each reply reaches
// its own.
func TestTwoSessions_PlansAndEditsCrosswise(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		plan := turn{toolCall("ExitPlanMode", map[string]any{"plan": "# The plan"})}
		write := func(project, name string) turn {
			return turn{toolCall("Write", map[string]string{"file_path": filepath.Join(project, name), "content": "x\n"})}
		}
		first := config{Args: []string{"--permission-mode", "plan"}, Script: []turn{{textBlock("Hm.")}, plan, plan, {}, {}, thanksTurn}}
		first.Prepare = func(_, dir string) { first.Script[3], first.Script[4] = write(dir, "a.txt"), write(dir, "b.txt") }
		second := config{Hooks: approveHooks(t), Args: first.Args, Script: []turn{{textBlock("Hm.")}, plan, {}, {}, {textBlock("Bye.")}}}
		second.Prepare = func(_, dir string) { second.Script[2], second.Script[3] = write(dir, "a.txt"), write(dir, "b.txt") }
		one := startApproving(t, c, first)
		two := one.startBeside(second)
		one.awaitPlan("# The plan")
		two.awaitPlan("# The plan")
		one.Prompt("go ahead")
		two.Prompt("go ahead")

		ones, twos := one.awaitNthPost(1, "[Plan]"), two.awaitNthPost(1, "[Plan]")
		one.reply(twos, "yes")
		one.reply(ones, "no, shorter")
		ones, twos = one.awaitNthPost(2, "[Plan]"), two.awaitNthPost(1, "[Permission]", "Write: a.txt")
		one.reply(twos, "no, elsewhere")
		one.reply(ones, "yes")
		ones, twos = one.awaitNthPost(1, "[Permission]", "Write: a.txt"), two.awaitNthPost(2, "[Permission]", "Write: b.txt")
		one.reply(ones, "always")
		one.reply(twos, "yes")

		one.awaitResult(1, "shorter")
		two.awaitResult(2, "elsewhere")
		one.WaitScreen("Thanks, understood.")
		two.WaitScreen("Bye.")
		for s, want := range map[*hookedSession]string{one: "a.txt b.txt", two: "b.txt"} {
			files, _ := filepath.Glob(filepath.Join(s.Dir, "*.txt"))
			for i := range files {
				files[i] = filepath.Base(files[i])
			}
			kit.Equalf(t, strings.Join(files, " "), want, "%s", s.Dir)
		}
		kit.Equalf(t, one.countPosts("[Permission]"), 3, "asked")
	})
}

// What is done in one session's terminal, and to it, leaves the other one alone.
func TestTwoSessions_OneAtTheTerminal(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		one := startApproving(t, c, config{Script: []turn{{bash("mkdir a")}, askBackTurn, {bash("mkdir b")}, {textBlock("Well then.")}, {bash("mkdir c")}}})
		two := one.startBeside(config{Hooks: approveHooks(t), Script: []turn{{bash("mkdir a")}, askBackTurn, {bash("mkdir b")}, {bash("mkdir c")}, {textBlock("Bye.")}}})
		one.Prompt("go ahead")
		two.Prompt("go ahead")
		ones, twos := one.awaitNthPost(1, "[Permission]"), two.awaitNthPost(1, "[Permission]")
		one.Choose("❯ 1. Yes", "1") // in the terminal first, and the other from Chat
		one.reply(twos, "yes")
		one.awaitPostInThread(ones, "[Answered]", "Answered in the terminal.")
		two.WaitScreen("Shall I commit?")
		one.WaitScreen("Shall I commit?")

		var waits []*chat.Message // a draft in one, while the other goes on
		one.WaitIdle()
		one.Type("half a thought")
		one.WaitScreen("half a thought")
		waits = one.awaitTwoPosts("[Waiting for you]")
		one.reply(waits[0], "go on")
		one.reply(waits[1], "go on")
		two.awaitNthPost(2, "[Permission]", "mkdir b")
		if screen := one.Screen(); !strings.Contains(screen, "half a thought") || strings.Contains(screen, "go on") {
			t.Errorf("the draft was touched:\n%s", screen)
		}
		one.Keys("C-u")

		ones, twos = one.awaitNthPost(2, "[Permission]", "mkdir b"), two.awaitNthPost(2, "[Permission]", "mkdir b")
		one.Choose("❯ 1. Yes", "Escape")
		one.reply(twos, "yes")
		one.awaitPostInThread(ones, "[Cancelled]", "Dismissed in the terminal.")
		twos = two.awaitNthPost(3, "[Permission]", "mkdir c")
		one.Kill(syscall.SIGKILL)
		one.reply(twos, "yes")
		two.WaitScreen("Bye.")
		for name, want := range map[*hookedSession]string{one: "a", two: "a b c"} {
			var made []string
			for _, dir := range []string{"a", "b", "c"} {
				if _, err := os.Stat(filepath.Join(name.Dir, dir)); err == nil {
					made = append(made, dir)
				}
			}
			kit.Equalf(t, strings.Join(made, " "), want, "%s", name.Dir)
		}
	})
}

// Two sessions ask two questions each; the replies come crosswise.
func TestTwoSessions_RepliesReachTheirOwn(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		a := startDenying(t, c, config{Script: []turn{{questionCall(deployQuestion), questionCall(databaseQuestion)}, goOnTurn, actTurn, actTurn}, Env: []string{"CLAUDE_SESSION_ID=s3-a"}})
		b := a.startBeside(config{Script: []turn{{questionCall(deployQuestion), questionCall(databaseQuestion)}, goOnTurn, actTurn, actTurn}, Hooks: denyHooks(t), Env: []string{"CLAUDE_SESSION_ID=s3-b", "GCHAT_ASK_MODE=deny"}})
		a.Prompt("go ahead")
		b.Prompt("go ahead")
		a2 := a.awaitPost("[AskUserQuestion] Session: s3-a", databaseQuestion.Question)
		b1 := a.awaitPost("[AskUserQuestion] Session: s3-b", deployQuestion.Question)
		a1 := a.awaitPost("[AskUserQuestion] Session: s3-a", deployQuestion.Question)
		b2 := a.awaitPost("[AskUserQuestion] Session: s3-b", databaseQuestion.Question)
		for _, s := range []*hookedSession{a, b} {
			s.WaitScreen("I go on meanwhile.")
		}
		a.reply(b2, "2")
		a.reply(a1, "1")
		a.reply(a2, "1")
		a.reply(b1, "3")
		a.API.WaitText(t, `="Blue-green deployment"`)
		a.API.WaitText(t, `="Postgres"`)
		b.API.WaitText(t, `="Canary"`)
		b.API.WaitText(t, `="SQLite"`)
		for s, wrong := range map[*hookedSession][]string{a: {`="Canary"`, `="SQLite"`}, b: {`="Blue-green deployment"`, `="Postgres"`}} {
			for _, w := range wrong {
				if n := s.API.maxCount(w); n > 0 {
					t.Errorf("%s reached the wrong session", w)
				}
			}
		}
	})
}
