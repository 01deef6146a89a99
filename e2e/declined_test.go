package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"

	"gchat-hooks/state"
)

// clarify is how "Chat about this" in the terminal begins what it tells Claude (2.1.197, 2.1.332).
const clarify = "The user wants to clarify these questions.\n" +
	"    This means they may have additional information, context or questions for you.\n" +
	"    Take their response into account and then reformulate the questions if appropriate.\n" +
	"    Start by asking them what they would like to clarify.\n\n    Questions asked:\n- \""

var talk = question{
	Question: "Where do we talk?", Header: "Talk",
	Options: []option{{Label: "Chat", Description: "in the space"}, {Label: "Skip", Description: "not at all"}},
}

// A question is turned down from Chat: Claude is told what the terminal's own row tells it, and the person's words.
func TestTurnedDownFromChat(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{"native": nil, "hold": {"GCHAT_ASK_MODE=hold"}} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, both, func(t *testing.T, c claude) {
				script := []turn{{ask(database, deploy)}, thanks, {ask(talk)}, thanks}
				b := connect(t, c, config{Script: script, Env: env}, all...)
				b.Prompt("go ahead")
				q := b.await("[AskUserQuestion]")
				b.reply(q, "Q1: 1")
				b.await("[Kept]")
				b.reply(q, "chat: what is a canary?\nAnd who pays?")
				b.told(1, clarify+database.Question+"\"\n  Answer: Postgres\n- \""+deploy.Question+"\"\n  (No answer provided)",
					"The user wrote: what is a canary?\nAnd who pays?")
				b.awaitIn(q, "[Cancelled]", "Claude was told that you want to talk about it first.")
				b.WaitIdle()
				b.Prompt("again")
				b.reply(b.await("[AskUserQuestion]", talk.Question), "chat") // a label named so wins
				b.told(2, `"Where do we talk?"="Chat"`)
			})
		})
	}
}

// What a person leaves to the terminal is answered there, and only there.
func TestLeftToTheTerminal(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"native": nil, "hold": {"GCHAT_ASK_MODE=hold"}, "inject": {"GCHAT_ASK_MODE=inject"},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, both, func(t *testing.T, c claude) {
				b := connect(t, c, config{Script: []turn{{ask(deploy)}, thanks}, Env: env}, all...)
				b.Prompt("go ahead")
				q := b.await("[AskUserQuestion]")
				b.reply(q, "?")
				b.awaitIn(q, "[Not used]", "Reply with the option number", "`skip` leaves it to the terminal")
				b.reply(q, "skip")
				b.awaitIn(q, "[In the terminal]", "In the terminal since ", ": answer it there.")
				b.WaitScreen(firstOption)
				b.noWaiter()
				b.reply(q, "1")
				b.awaitIn(q, "[Not used]", "In the terminal since ", ": answer it there.")
				b.becomes("open in the terminal", func(q *state.Question) bool { return q.Status == state.Pending })
				b.Choose(firstOption, "3")
				b.told(1, `="Canary"`)
				b.awaitIn(q, "[Answered]", "Selected: Canary", "Answered in the terminal.")
				if e := b.questions()[0].Ending(); e.EndedBy != "terminal" || e.By != "" || e.Late != 1 || e.NotUsed != 1 {
					t.Errorf("ended as %+v", e) // "?" was not used, and "1" came too late
				}
			})
		})
	}
}

// A denied session has no dialog: it is woken with what the person said.
func TestTurnedDownMeanwhile(t *testing.T) {
	t.Parallel()
	for reply, told := range map[string][]string{
		"chat about this: not yet": {"GCHAT_RESPONSE: " + clarify + deploy.Question, "The user wrote: not yet"},
		"cancel":                   {"GCHAT_RESPONSE: The user skipped these questions", deploy.Question},
	} {
		t.Run(reply, func(t *testing.T) {
			eachClaude(t, both, func(t *testing.T, c claude) {
				b := denying(t, c, config{Script: []turn{{ask(deploy)}, goOn, acts}})
				b.Prompt("go ahead")
				q := b.await("[AskUserQuestion]")
				b.denied(1)
				b.WaitScreen("I go on meanwhile.")
				b.WaitIdle()
				b.reply(q, reply)
				for _, text := range told {
					b.API.WaitText(t, text)
				}
				b.WaitScreen("Acting on it.")
				b.awaitIn(q, "[Cancelled]", "Claude was told that you ")
				b.noRewaker()
			})
		})
	}
}

// In inject mode the poller chooses the dialog's own row.
func TestTurnedDownAtTheKeyboard(t *testing.T) {
	t.Parallel()
	for name, asks := range map[string][]question{
		"single choice": {deploy}, "multi-select": {features}, "previews": {layouts}, "two questions": {features, database},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, both, func(t *testing.T, c claude) {
				b := typed(t, c, turn{ask(asks...)}, thanks)
				b.Prompt("go ahead")
				q := b.await("[AskUserQuestion]")
				b.WaitScreen("Chat about this")
				b.reply(q, "chat: why?")
				b.told(1, clarify+asks[0].Question, "(No answer provided)")
				b.awaitIn(q, "[Cancelled]", `Chosen in the terminal: "Chat about this".`, "Claude was not told them.")
				b.WaitIdle()
				if rest := boxed(b.Screen()); rest != "" {
					t.Errorf("in the input box: %q", rest)
				}
			})
		})
	}
}

// A card has a button for both.
func TestTurnedDownWithATap(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := app(t, c, config{Script: []turn{{ask(deploy)}, thanks, {ask(database)}, thanks}})
		b.Prompt("go ahead")
		card := b.await("[AskUserQuestion]", deploy.Question)
		b.tap(card, "chat", map[string][]string{"w1": {"what is a canary?"}})
		b.told(1, clarify+deploy.Question, "The user wrote: what is a canary?")
		b.over(card, "Claude was told that you want to talk about it first.")
		b.WaitIdle()
		b.Prompt("again")
		card = b.await("[AskUserQuestion]", database.Question)
		b.tap(card, "skip", nil)
		b.over(card, "In the terminal since ")
		b.Choose("Postgres", "2")
		b.told(2, `="SQLite"`)
		b.over(card, "Selected: SQLite", "Answered in the terminal.")
	})
}

// In a question's thread our commands are commands, and "help" and "?" ask what to write: Claude gets the answer alone.
func TestCommandsInAQuestionsThread(t *testing.T) {
	t.Parallel()
	for name, onPage := range map[string]bool{"chat": false, "page": true} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, both, func(t *testing.T, c claude) {
				b := approve(t, c, config{App: onPage, Script: []turn{asksBack, {ask(deploy)}, thanks}})
				b.Prompt("go ahead")
				b.reply(b.await("[Waiting for you]"), "yes")
				q := b.await("[AskUserQuestion]", deploy.Question)
				b.WaitScreen(firstOption)
				say := func(text string) { b.reply(q, text) }
				if onPage {
					p := b.browser()
					say = func(text string) {
						p.words(text)
						p.answer(`#send`)
					}
				}
				say("/status")
				b.awaitIn(q, "[Status]", "A dialog is open in the terminal", deploy.Question)
				say("/stop")
				b.awaitIn(q, "[Not used]", "A dialog is open in the terminal: answer it first.")
				for range 2 {
					say("help")
					b.awaitIn(q, "[Not used]", "Reply with the option number", "`chat` tells Claude")
				}
				say("3")
				b.told(1, `="Canary"`)
				b.awaitIn(q, "[Answered]", "Selected: Canary")
			})
		})
	}
}

// The page has a button for both, and takes the words of its box along.
func TestTurnedDownOnThePage(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := connect(t, c, config{App: true, Script: []turn{{ask(deploy)}, thanks, {ask(talk)}, {ask(database)}, thanks}}, all...)
		p := b.browser()
		b.Prompt("go ahead")
		p.words("what is a canary?")
		p.answer(`[data-choice="chat"]`)
		b.told(1, clarify+deploy.Question, "The user wrote: what is a canary?")
		b.await("[Cancelled]", "Claude was told that you want to talk about it first.")
		p.do(chromedp.Navigate(p.page))
		p.open = false
		b.WaitIdle()
		b.Prompt("again")
		p.answer(`[data-option="2"]`) // "Skip" is an option, and no button of ours stands beside it
		p.do(chromedp.WaitNotPresent(chromedp.CSS(`[data-choice="skip"]`)))
		b.told(2, `="Skip"`)
		p.do(chromedp.Navigate(p.page))
		p.open = false
		p.answer(`[data-choice="skip"]`)
		p.do(chromedp.WaitVisible(chromedp.CSS(`#thread-state[data-state="terminal"]`)))
		b.Choose("Postgres", "2")
		b.told(3, `="SQLite"`)
		p.do(chromedp.WaitVisible(chromedp.CSS(`#thread-state[data-state="answered"]`)))
	})
}
