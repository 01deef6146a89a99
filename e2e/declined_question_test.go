package e2e

import (
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// clarifyText is how "Chat about this" in the terminal begins what it tells Claude
// (2.1.197, 2.1.332).
const clarifyText = "The user wants to clarify these questions.\n" +
	"    This means they may have additional information, context or questions for you.\n" +
	"    Take their response into account and then reformulate the questions if appropriate.\n" +
	"    Start by asking them what they would like to clarify.\n\n    Questions asked:\n- \""

var talkQuestion = question{
	Question: "Where do we talk?",
	Header:   "Talk",
	Options: []option{
		{Label: "Chat", Description: "in the space"}, {Label: "Skip", Description: "not at all"},
	},
}

// A question is declined from Chat: Claude is told what the terminal's own row tells it,
// and what the person wrote.
func TestDecline_ChatTellsClaude(t *testing.T) {
	eachCase(t, testedVersions, map[string][]string{
		"native": nil, "hold": {"GCHAT_ASK_MODE=hold"},
	}, func(t *testing.T, c claude, env []string) {
		script := []turn{
			{questionCall(databaseQuestion, deployQuestion)}, thanksTurn,
			{questionCall(talkQuestion)}, thanksTurn,
		}
		b := startAsking(t, c, config{Script: script, Env: env})
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]")
		b.reply(q, "Q1: 1")
		b.awaitPost("[Kept]")
		b.reply(q, "chat: what is a canary?\nAnd who pays?")
		b.awaitResult(1, clarifyText+databaseQuestion.Question+"\"\n  Answer: Postgres\n- \""+
			deployQuestion.Question+"\"\n  (No answer provided)",
			"The user wrote: what is a canary?\nAnd who pays?")
		b.awaitPostInThread(q, "[Cancelled]",
			"Claude was told that you want to talk about it first.")
		b.WaitIdle()
		b.Prompt("again")
		// a label named so wins
		b.reply(b.awaitPost("[AskUserQuestion]", talkQuestion.Question), "chat")
		b.awaitResult(2, `"Where do we talk?"="Chat"`)
	})
}

// What a person leaves to the terminal is answered there, and only there.
func TestDecline_SkipLeavesTheTerminal(t *testing.T) {
	eachCase(t, testedVersions, map[string][]string{
		"native": nil, "hold": {"GCHAT_ASK_MODE=hold"}, "inject": {"GCHAT_ASK_MODE=inject"},
	}, func(t *testing.T, c claude, env []string) {
		b := startAsking(t, c, config{Script: deployScript, Env: env})
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]")
		b.reply(q, "?")
		b.awaitPostInThread(q, "[Not used]", "option number", "`skip`")
		b.reply(q, "skip")
		b.awaitPostInThread(q, "[In the terminal]", "In the terminal since")
		b.WaitScreen(firstOption)
		b.checkNoWaiter()
		b.reply(q, "1")
		b.awaitPostInThread(q, "[Not used]", "In the terminal since")
		b.awaitQuestion("open in the terminal",
			func(q *state.Question) bool { return q.Status == state.Pending })
		b.Choose(firstOption, "3")
		b.awaitResult(1, `="Canary"`)
		b.awaitPostInThread(q, "[Answered]", "Selected: Canary", "in the terminal")
		if e := b.loadQuestions()[0].Ending(); e.EndedBy != "terminal" || e.AnsweredBy != "" ||
			e.LateReplies != 1 || e.UnusedReplies != 1 {
			t.Errorf("ended as %+v", e) // "?" was not used, and "1" came too late
		}
	})
}

// A denied session has no dialog: it is woken with what the person said.
func TestDecline_WakesDeniedSession(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startDenying(t, c, config{Script: []turn{
			{questionCall(deployQuestion)}, goOnTurn, actTurn,
			{questionCall(talkQuestion)}, goOnTurn, actTurn,
		}})
		for i, decline := range []struct {
			asks         question
			reply, wakes string
			says         string
		}{
			{deployQuestion, "chat about this: not yet",
				"GCHAT_RESPONSE: " + clarifyText + deployQuestion.Question, "The user wrote: not yet"},
			{talkQuestion, "cancel",
				"GCHAT_RESPONSE: The user skipped these questions", talkQuestion.Question},
		} {
			b.Prompt("go ahead")
			q := b.awaitPost("[AskUserQuestion]", decline.asks.Question)
			b.awaitDenial(i + 1)
			b.WaitDone("I go on meanwhile.")
			b.reply(q, decline.reply)
			b.API.WaitText(t, decline.wakes)
			b.API.WaitText(t, decline.says)
			b.WaitDone("Acting on it.")
			b.awaitPostInThread(q, "[Cancelled]", "Claude was told that you ")
			b.checkNoRewaker()
		}
	})
}

// In inject mode the poller chooses the dialog's own row.
func TestDecline_TypesTheDialogsRow(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		dialogs := [][]question{
			{deployQuestion}, {featuresQuestion}, {layoutsQuestion}, // one has previews
			{featuresQuestion, databaseQuestion},
		}
		script := []turn{}
		for _, asks := range dialogs {
			script = append(script, turn{questionCall(asks...)}, thanksTurn)
		}
		b := startInject(t, c, config{Script: script})
		for i, asks := range dialogs {
			b.Prompt("go ahead")
			q := b.awaitPostNumber(i+1, "[AskUserQuestion]")
			b.WaitScreen("Chat about this")
			b.reply(q, "chat: why?")
			b.awaitResult(i+1, clarifyText+asks[0].Question, "(No answer provided)")
			b.awaitPostInThread(q, "[Cancelled]", `Chosen in the terminal: "Chat about this".`,
				"Claude did not get your words.")
			b.WaitIdle()
			kit.Equalf(t, inputText(b.Screen()), "", "in the input box")
		}
	})
}
