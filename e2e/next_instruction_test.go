package e2e

import (
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

func TestNextInstruction_TypedIntoTmux(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Script: []turn{askBackTurn, thanksTurn, {textBlock("Bye.")}},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]", "Shall I commit?", "next instruction")
		b.reply(q, "yes, and push \"it\"\nwith $care; Enter 然后")
		b.WaitScreen("Thanks, understood.")
		b.API.WaitText(t, "with $care; Enter 然后")
		b.awaitPostInThread(q, "[Sent]")
		b.WaitIdle()
		b.checkPosts(1, "[Waiting for you]")
	})
}

// What the prompt would not take as a text is asked back, and what follows is typed.
func TestNextInstruction_AskedBackOrSent(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Script: []turn{askBackTurn, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]")
		for i, prompt := range []string{"exit", ":wq!", "\u0301abc", "go on with @/etc/hosts"} {
			b.reply(q, prompt)
			bound.Until(t, prompt+" is asked back",
				func() bool { return b.countPosts("[Not used]") > i })
		}
		b.WaitIdle()
		b.reply(q, "go on with /etc/hosts")
		b.WaitScreen("Thanks, understood.")
		b.API.WaitText(t, "go on with /etc/hosts")
		b.awaitPost("[Sent]")
	})
}

// Outside of tmux, a reply wakes the session as a hook's message. The thread says before
// they are written that they are no approval.
func TestNextInstruction_WakesOutsideTmux(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c.withoutTmux(), config{
			Env:    []string{"GCHAT_IDLE=on"},
			Script: []turn{thanksTurn, askBackTurn},
		})
		b.Prompt("go ahead")
		const beforehand = "a message from a hook, which does not count as your approval"
		b.awaitPost("[Session Start]", beforehand)
		q := b.awaitPost("[Waiting for you]", "Thanks, understood.", beforehand)
		b.reply(q, "run the tests")
		b.WaitScreen("Shall I commit?")
		b.API.WaitText(t, "this is the next instruction: run the tests")
		b.awaitPost("[Sent]")
	})
}

func TestNextInstruction_KeepsADraft(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Script: []turn{askBackTurn, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]")
		b.WaitIdle()
		b.Type("half a thought")
		b.WaitScreen("half a thought")
		b.reply(q, "commit it")
		if m := b.awaitPost("[Kept]",
			"Someone is typing"); strings.Contains(m.Text, "half a thought") {
			t.Errorf("the space reads the draft: %q", m.Text)
		}
		kit.Equalf(t, inputText(b.Screen()), "halfathought", "the draft")
		b.Keys("C-u") // the person gives it up
		b.WaitScreen("Thanks, understood.")
		b.API.WaitText(t, "commit it")
	})
}

func TestNextInstruction_ClosedByTheTerminal(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Script: []turn{askBackTurn, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]")
		b.Prompt("no, wait")
		b.WaitScreen("Thanks, understood.")
		b.awaitPostInThread(q, "[Answered]", "You went on in the terminal.")
	})
}
