package e2e

import (
	"testing"

	"gchat-hooks/e2e/bound"
)

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

// Outside tmux, a hook wakes Claude with the next instruction. The person interrupts that
// turn and types another prompt. The instruction was sent all the same.
func TestNextInstruction_WokenThenInterrupted(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c.withoutTmux(), config{
			Args:   allowSleep,
			Script: []turn{askBackTurn, {bash("sleep 20")}, {textBlock("Heard.")}},
		})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "rest")
		b.WaitScreen("sleep 20")
		b.awaitPostInThread(q, "[Sent]")
		b.Keys("Escape")
		b.WaitIdle()
		b.Prompt("mind the style")
		b.awaitPost("[Turn Done]", "Heard.")
		b.checkPosts(0, "[Cancelled]")
	})
}
