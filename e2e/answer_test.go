package e2e

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
)

var (
	features = question{
		Question: "Which features do you want to enable?", Header: "Features", MultiSelect: true,
		Options: []option{{Label: "Auth", Description: "Sign-in"}, {Label: "Billing", Description: "Stripe"}, {Label: "Search", Description: "Full text"}},
	}
	database = question{
		Question: "Which DB?", Header: "DB",
		Options: []option{{Label: "Postgres", Description: "relational"}, {Label: "SQLite", Description: "embedded"}},
	}
	thanks = turn{say("Thanks, understood.")}
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
		"single choice": {[]question{deploy}, "2", []string{`"="Rolling deployment"`}, []string{"Selected: Rolling deployment"}},
		"multi-select":  {[]question{features}, "1,3", []string{`"="Auth, Search"`}, []string{"Selected: Auth, Search"}},
		"two questions": {[]question{database, features}, "Q1: sqlite\nQ2: 3, 1", []string{`"Which DB?"="SQLite"`, `"="Auth, Search"`},
			[]string{"Selected: SQLite", "Selected: Auth, Search"}},
		"free text": {[]question{deploy}, "neither: use \"$HOME/canary\" & 'wait'\n然后 日本語 ✅",
			[]string{"neither: use \"$HOME/canary\" & 'wait'\n然后 日本語 ✅"}, []string{"Custom response:", "日本語"}},
		"a remark": {[]question{deploy}, "2 - but keep the old one", []string{"Rolling deployment", "notes: but keep the old one"},
			[]string{"Selected: Rolling deployment", "Note: but keep the old one"}},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, both, func(t *testing.T, cl claude) {
				b := connect(t, cl, config{Script: []turn{{say("A question."), ask(c.asks...)}, thanks}}, all...)
				b.Prompt("go ahead")
				q := b.await("[AskUserQuestion]", c.asks[0].Question)
				b.WaitScreen(c.asks[0].Options[0].Label) // the dialog stands open beside it
				b.reply(q, c.reply)
				b.told(1, c.told...)
				if got := b.await("[Answered]", c.says...); got.Thread.Name != q.Thread.Name {
					t.Errorf("confirmed in %s, asked in %s", got.Thread.Name, q.Thread.Name)
				}
				b.WaitScreen("Thanks, understood.")
			})
		})
	}
}

// A question that was cut within an emoji: Claude Code takes an answer only by the question's text as it has it.
func TestHalfACharacterIsAnswered(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		half := ask(question{Question: "Which HALF?", Header: "Pick", Options: []option{{Label: "Red HALF", Description: "r"}, {Label: "Blue", Description: "b"}}})
		half.Input = bytes.ReplaceAll(half.Input, []byte("HALF"), []byte(`\ud83d`))
		b := connect(t, c, config{Script: []turn{{half}, thanks}}, all...)
		b.Prompt("go ahead")
		b.reply(b.await("[AskUserQuestion]", "Which"), "1")
		b.told(1, `"="Red`)
		b.await("[Answered]", "Selected: Red")
		b.WaitScreen("Thanks, understood.")
	})
}

func TestPreviewOfTheChosenOptionIsPassedOn(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		layout := question{Question: "Which layout?", Header: "Layout", Options: []option{
			{Label: "Side bar", Description: "left", Preview: "|nav|page|"}, {Label: "Top bar", Description: "above", Preview: "==nav==\npage"}}}
		b := connect(t, c, config{Script: []turn{{ask(layout)}, thanks}}, all...)
		b.Prompt("go ahead")
		b.reply(b.await("[AskUserQuestion]"), "top")
		b.told(1, "Top bar", "selected preview", "==nav==")
	})
}

func TestTwoQuestionsInOneTurnStayApart(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := connect(t, c, config{Script: []turn{{ask(database), ask(deploy)}, thanks}}, all...)
		b.Prompt("go ahead")
		second := b.await("[AskUserQuestion]", deploy.Question)
		b.reply(second, "3")
		b.reply(b.await("[AskUserQuestion]", database.Question), "2")
		b.toldOfBoth(`"Which DB?"="SQLite"`, `"Which deployment approach should we use?"="Canary"`)
		b.await("[Answered]", "Selected: SQLite")
		b.await("[Answered]", "Selected: Canary")
	})
}

func TestTerminalAnswersFirst(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := connect(t, c, config{Script: []turn{{ask(deploy)}, thanks, {ask(database)}, thanks}}, all...)
		b.Prompt("go ahead")
		q := b.await("[AskUserQuestion]")
		b.Choose(firstOption, "3")
		b.told(1, "Canary")
		b.await("[Answered]", "Selected: Canary", "Answered in the terminal.")
		// A reply that comes too late changes nothing, and the next question of the session tells its person.
		b.reply(q, "1")
		b.WaitScreen("Thanks, understood.")
		b.Prompt("and again")
		b.reply(b.await("[AskUserQuestion]", database.Question), "1")
		b.told(2, "Postgres")
		b.await("[Not used]", "already answered")
	})
}

func TestDismissedInTheTerminal(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"Esc": "Escape", "chat about this": "5"} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, both, func(t *testing.T, c claude) {
				b := connect(t, c, config{Script: []turn{{ask(deploy)}, thanks, thanks}}, all...)
				b.Prompt("go ahead")
				q := b.await("[AskUserQuestion]")
				b.Choose(firstOption, key)
				b.WaitIdle()
				if got := b.await("[Cancelled]"); got.Thread.Name != q.Thread.Name {
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
			eachClaude(t, ours, func(t *testing.T, c claude) {
				b := connect(t, c, config{Script: []turn{{ask(deploy)}, thanks}}, all...)
				b.Prompt("go ahead")
				b.await("[AskUserQuestion]")
				b.WaitScreen(firstOption)
				b.Kill(sig)
				b.WaitExit()
				// The hook outlives a killed Claude Code; it sees the end itself, tells the thread and goes.
				b.await("[Cancelled]")
				b.noWaiter()
			})
		})
	}
}

func TestPermissionModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"default", "auto", "bypassPermissions"} {
		t.Run(mode, func(t *testing.T) {
			versions := both
			if mode == "auto" {
				versions = []string{newest}
			}
			eachClaude(t, versions, func(t *testing.T, c claude) {
				b := connect(t, c, config{Script: []turn{{ask(deploy)}, thanks}, Env: []string{"IS_SANDBOX=1"}, Args: []string{"--permission-mode", mode}}, all...)
				b.Prompt("go ahead")
				b.reply(b.await("[AskUserQuestion]"), "blue")
				b.told(1, "Blue-green deployment")
				b.await("[Answered]", "Selected: Blue-green deployment")
			})
		})
	}
}

func TestOneHookIsEnough(t *testing.T) {
	t.Parallel()
	t.Run("PermissionRequest", func(t *testing.T) {
		eachClaude(t, ours, func(t *testing.T, c claude) {
			b := connect(t, c, config{Script: []turn{{ask(deploy)}, thanks}}, "PermissionRequest")
			b.Prompt("go ahead")
			b.reply(b.await("[AskUserQuestion]"), "2")
			b.told(1, "Rolling deployment")
		})
	})
	t.Run("PreToolUse", func(t *testing.T) {
		eachClaude(t, ours, func(t *testing.T, c claude) {
			b := connect(t, c, config{Script: []turn{{ask(deploy)}, thanks}}, "PreToolUse")
			b.Prompt("go ahead")
			b.await("[AskUserQuestion]")
			b.Choose(firstOption, "2")
			b.told(1, "Rolling deployment")
		})
	})
}

// noWaiter checks that no waiting hook of the session is left.
func (b *bridge) noWaiter() {
	b.t.Helper()
	b.WaitScreenFunc("the end of the waiting hook", func(string) bool {
		for _, p := range marked(sessionVar + "=" + b.mark) {
			if strings.Contains(p.String(), "gchat-ask-user-forward") {
				return false
			}
		}
		return true
	})
}
