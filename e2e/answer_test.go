package e2e

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
)

var (
	featuresQuestion = question{
		Question: "Which features do you want to enable?", Header: "Features", MultiSelect: true,
		Options: []option{{Label: "Auth", Description: "Sign-in"}, {Label: "Billing", Description: "Stripe"}, {Label: "Search", Description: "Full text"}},
	}
	databaseQuestion = question{
		Question: "Which DB?", Header: "DB",
		Options: []option{{Label: "Postgres", Description: "relational"}, {Label: "SQLite", Description: "embedded"}},
	}
	thanksTurn = turn{textBlock("Thanks, understood.")}
)

// The replies of a person on the phone, and what the model is told.
func TestAnsweredFromChat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asks  []question
		reply string
		told  []string
		says  []string // by the thread
	}{
		"single choice": {[]question{deployQuestion}, "2", []string{`"="Rolling deployment"`}, []string{"Selected: Rolling deployment"}},
		"multi-select":  {[]question{featuresQuestion}, "1,3", []string{`"="Auth, Search"`}, []string{"Selected: Auth, Search"}},
		"two questions": {[]question{databaseQuestion, featuresQuestion}, "Q1: sqlite\nQ2: 3, 1", []string{`"Which DB?"="SQLite"`, `"="Auth, Search"`},
			[]string{"Selected: SQLite", "Selected: Auth, Search"}},
		"free text": {[]question{deployQuestion}, "neither: use \"$HOME/canary\" & 'wait'\n然后 日本語 ✅",
			[]string{"neither: use \"$HOME/canary\" & 'wait'\n然后 日本語 ✅"}, []string{"Custom response:", "日本語"}},
		"a remark": {[]question{deployQuestion}, "2 - but keep the old one", []string{"Rolling deployment", "notes: but keep the old one"},
			[]string{"Selected: Rolling deployment", "Note: but keep the old one"}},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, bothVersions, func(t *testing.T, cl claude) {
				b := startAsking(t, cl, config{Script: []turn{{textBlock("A question."), questionCall(c.asks...)}, thanksTurn}}, questionEvents...)
				b.Prompt("go ahead")
				q := b.awaitPost("[AskUserQuestion]", c.asks[0].Question)
				b.WaitScreen(c.asks[0].Options[0].Label) // the dialog stands open beside it
				b.reply(q, c.reply)
				b.awaitResult(1, c.told...)
				if got := b.awaitPost("[Answered]", c.says...); got.Thread.Name != q.Thread.Name {
					t.Errorf("confirmed in %s, asked in %s", got.Thread.Name, q.Thread.Name)
				}
				b.WaitScreen("Thanks, understood.")
			})
		})
	}
}

// A question that was cut within an emoji: Claude Code takes an answer only by the
// question's text as it has it.
func TestHalfACharacterIsAnswered(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		half := questionCall(question{Question: "Which HALF?", Header: "Pick", Options: []option{{Label: "Red HALF", Description: "r"}, {Label: "Blue", Description: "b"}}})
		half.Input = bytes.ReplaceAll(half.Input, []byte("HALF"), []byte(`\ud83d`))
		b := startAsking(t, c, config{Script: []turn{{half}, thanksTurn}}, questionEvents...)
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[AskUserQuestion]", "Which"), "1")
		b.awaitResult(1, `"="Red`)
		b.awaitPost("[Answered]", "Selected: Red")
		b.WaitScreen("Thanks, understood.")
	})
}

func TestPreviewOfTheChosenOptionIsPassedOn(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		layout := question{Question: "Which layout?", Header: "Layout", Options: []option{
			{Label: "Side bar", Description: "left", Preview: "|nav|page|"}, {Label: "Top bar", Description: "above", Preview: "==nav==\npage"}}}
		b := startAsking(t, c, config{Script: []turn{{questionCall(layout)}, thanksTurn}}, questionEvents...)
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[AskUserQuestion]"), "top")
		b.awaitResult(1, "Top bar", "selected preview", "==nav==")
	})
}

func TestTwoQuestionsInOneTurnStayApart(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startAsking(t, c, config{Script: []turn{{questionCall(databaseQuestion), questionCall(deployQuestion)}, thanksTurn}}, questionEvents...)
		b.Prompt("go ahead")
		second := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		b.reply(second, "3")
		b.reply(b.awaitPost("[AskUserQuestion]", databaseQuestion.Question), "2")
		b.awaitResults(`"Which DB?"="SQLite"`, `"Which deployment approach should we use?"="Canary"`)
		b.awaitPost("[Answered]", "Selected: SQLite")
		b.awaitPost("[Answered]", "Selected: Canary")
	})
}

func TestTerminalAnswersFirst(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startAsking(t, c, config{Script: []turn{{questionCall(deployQuestion)}, thanksTurn, {questionCall(databaseQuestion)}, thanksTurn}}, questionEvents...)
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]")
		b.Choose(firstOption, "3")
		b.awaitResult(1, "Canary")
		b.awaitPost("[Answered]", "Selected: Canary", "Answered in the terminal.")
		// A reply that comes too late changes nothing, and the next question of the
		// session tells its person.
		b.reply(q, "1")
		b.WaitScreen("Thanks, understood.")
		b.Prompt("and again")
		b.reply(b.awaitPost("[AskUserQuestion]", databaseQuestion.Question), "1")
		b.awaitResult(2, "Postgres")
		b.awaitPost("[Not used]", "already answered")
	})
}

func TestDismissedInTheTerminal(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"Esc": "Escape", "chat about this": "5"} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, bothVersions, func(t *testing.T, c claude) {
				b := startAsking(t, c, config{Script: []turn{{questionCall(deployQuestion)}, thanksTurn, thanksTurn}}, questionEvents...)
				b.Prompt("go ahead")
				q := b.awaitPost("[AskUserQuestion]")
				b.Choose(firstOption, key)
				b.WaitIdle()
				if got := b.awaitPost("[Cancelled]"); got.Thread.Name != q.Thread.Name {
					t.Errorf("told in %s, asked in %s", got.Thread.Name, q.Thread.Name)
				}
			})
		})
	}
}

func TestClaudeKilled(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"by the system": syscall.SIGKILL, "by a person": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, testedVersions, func(t *testing.T, c claude) {
				b := startAsking(t, c, config{Script: []turn{{questionCall(deployQuestion)}, thanksTurn}}, questionEvents...)
				b.Prompt("go ahead")
				b.awaitPost("[AskUserQuestion]")
				b.WaitScreen(firstOption)
				b.Kill(sig)
				b.WaitExit()
				// The hook outlives a killed Claude Code; it sees the end itself, tells
				// the thread and goes.
				b.awaitPost("[Cancelled]")
				b.checkNoWaiter()
			})
		})
	}
}

func TestPermissionModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"default", "auto", "bypassPermissions"} {
		t.Run(mode, func(t *testing.T) {
			versions := bothVersions
			if mode == "auto" {
				versions = []string{newestVersion}
			}
			eachClaude(t, versions, func(t *testing.T, c claude) {
				b := startAsking(t, c, config{Script: []turn{{questionCall(deployQuestion)}, thanksTurn}, Env: []string{"IS_SANDBOX=1"}, Args: []string{"--permission-mode", mode}}, questionEvents...)
				b.Prompt("go ahead")
				b.reply(b.awaitPost("[AskUserQuestion]"), "blue")
				b.awaitResult(1, "Blue-green deployment")
				b.awaitPost("[Answered]", "Selected: Blue-green deployment")
			})
		})
	}
}

func TestOneHookIsEnough(t *testing.T) {
	t.Parallel()
	t.Run("PermissionRequest", func(t *testing.T) {
		eachClaude(t, testedVersions, func(t *testing.T, c claude) {
			b := startAsking(t, c, config{Script: []turn{{questionCall(deployQuestion)}, thanksTurn}}, "PermissionRequest")
			b.Prompt("go ahead")
			b.reply(b.awaitPost("[AskUserQuestion]"), "2")
			b.awaitResult(1, "Rolling deployment")
		})
	})
	t.Run("PreToolUse", func(t *testing.T) {
		eachClaude(t, testedVersions, func(t *testing.T, c claude) {
			b := startAsking(t, c, config{Script: []turn{{questionCall(deployQuestion)}, thanksTurn}}, "PreToolUse")
			b.Prompt("go ahead")
			b.awaitPost("[AskUserQuestion]")
			b.Choose(firstOption, "2")
			b.awaitResult(1, "Rolling deployment")
		})
	})
}

// checkNoWaiter checks that no waiting hook of the session is left.
func (b *hookedSession) checkNoWaiter() {
	b.t.Helper()
	b.WaitScreenFunc("the end of the waiting hook", func(string) bool {
		for _, p := range markedProcesses(sessionVariable + "=" + b.processMark) {
			if strings.Contains(p.String(), "gchat-ask-user-forward") {
				return false
			}
		}
		return true
	})
}
