package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

var allowSleep = []string{"--allowedTools", "Bash(sleep:*)"}

// What a person writes in a session's thread while Claude works is typed, and Claude Code
// queues it: in order, once, and told once.
func TestPrompt_QueuedWhileClaudeWorks(t *testing.T) {
	eachSession(t, bothVersions, startApproving, config{
		Args:   allowSleep,
		Script: []turn{askBackTurn, {bash("sleep 12")}, {textBlock("Heard.")}},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "yes, commit")
		b.awaitPost("[Sent]")
		b.WaitScreen("sleep 12")
		for _, prompt := range []string{
			"first: push \"it\" too", "second: and tag it", "third: then rest",
		} {
			b.reply(q, prompt)
		}
		b.WaitScreen("Heard.")
		text := b.API.lastMainText()
		inOrder := regexp.MustCompile("first: push|second: and tag|third: then rest").FindAllString(text, -1)
		kit.Equalf(t, inOrder, []string{"first: push", "second: and tag", "third: then rest"},
			"Claude has")
		b.awaitPosts(4, "[Sent]")
		kit.Equalf(t, b.countPosts("[Sent] Queued.") >= 3, true, "three are queued")
	})
}

// A prompt that comes while a dialog is open waits for it.
func TestPrompt_WaitsForADialog(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Script: []turn{
			askBackTurn, {bash("mkdir one")}, {textBlock("Made.")}, {textBlock("Heard.")},
		},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "yes")
		p := b.awaitPost("[Permission]", "mkdir one")
		b.WaitScreen(permissionDialog)
		b.reply(q, "then push")
		b.awaitPost("[Kept]", "the dialog")
		b.reply(p, "yes")
		b.API.WaitTextOnce(t, "then push")
	})
}

// A prompt that is typed a moment before a dialog opens is queued: the dialog stands, and
// what it asks is answered in Chat.
func TestPrompt_JustBeforeADialog(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Args: allowSleep,
		Script: []turn{
			askBackTurn, {bash("sleep 6")}, {bash("mkdir one")}, {textBlock("Made.")},
			{textBlock("Heard.")},
		},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "yes")
		p := b.awaitPost("[Permission]", "mkdir one")
		b.reply(q, "then push") // the dialog may be drawn, or not yet
		bound.Until(t, "the thread is told of the words",
			func() bool { return b.countPosts("[Sent]")+b.countPosts("[Kept]") == 2 })
		b.reply(p, "yes")
		b.API.WaitTextOnce(t, "then push")
		b.checkPosts(0, "[Cancelled]")
	})
}

// Outside tmux, a prompt that comes while Claude works reaches it when its turn ends.
func TestPrompt_OutsideTmuxWaitsForTurnEnd(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c.withoutTmux(), config{
			Env:  []string{"GCHAT_IDLE=on"},
			Args: allowSleep,
			Script: []turn{
				thanksTurn, {bash("sleep 8")}, {textBlock("Slept.")}, {textBlock("Heard.")},
			},
		})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "rest")
		b.WaitScreen("sleep 8")
		b.reply(q, "and then tag")
		b.awaitPost("[Kept]", "when its turn ends")
		b.WaitScreen("Heard.")
		b.API.WaitText(t, "and then tag")
	})
}

var longPrompt = "the long prompt\n" +
	strings.Repeat("a line of what is to be done next, in so many words\n", 25) + "is over"

// 2.1.330 tells of a longer paste with marks around it.
func TestPrompt_LongWhileClaudeWorks(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Args: allowSleep,
		Script: []turn{
			askBackTurn, {bash("sleep 12")}, {textBlock("Heard.")}, {textBlock("Heard.")},
		},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "yes, commit")
		b.awaitPost("[Sent]")
		b.WaitScreen("sleep 12")
		b.reply(q, longPrompt)
		b.WaitScreen("Heard.")
		time.Sleep(8 * time.Second)
		b.checkPosts(0, "[Look]")
	})
}

func TestPrompt_EqualDraftNotSent(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Script: []turn{askBackTurn, askBackTurn, askBackTurn},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]")
		b.Type("go on")
		b.WaitScreen("go on")
		b.reply(q, "go on")
		time.Sleep(8 * time.Second)
		kit.Equalf(t, b.API.CountText("go on"), 0, "the person's draft was sent")
	})
}

func TestPrompt_LongAtIdle(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Args: allowSleep,
		Script: []turn{
			askBackTurn, thanksTurn, {bash("sleep 20")}, {textBlock("Heard.")},
			{textBlock("Again.")},
			{textBlock("Again.")}, {textBlock("Again.")},
		},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "yes, commit")
		b.WaitDone("Thanks, understood.")
		b.reply(q, longPrompt)
		b.WaitScreen("Heard.")
		time.Sleep(6 * time.Second)
		kit.Equalf(t, strings.Count(b.API.lastMainText(), "the long prompt"), 1, "Claude has it")
	})
}

// A session has a thread from its first prompt on: what is written there counts in the
// first turn, and after a turn that asks for nothing, which leaves one line there.
func TestPrompt_ThreadFromTheFirst(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Args:   allowSleep,
		Script: []turn{{bash("sleep 8")}, {textBlock("Done, all tests pass.")}, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		begun := b.awaitPost("[Session Start]", filepath.Base(b.Dir))
		b.WaitScreen("sleep 8")
		b.reply(begun, "and tag it")
		b.awaitPost("[Sent]")
		b.API.WaitText(t, "and tag it")
		done := b.awaitPostInThread(begun, "[Turn Done]", "Done, all tests pass.")
		b.WaitIdle()
		b.reply(done, "now the next")
		b.API.WaitText(t, "now the next")
		b.awaitPosts(2, "[Sent]")
		b.checkPosts(1, "[Session Start]")
		b.checkNoPost("[Not read]", "[Waiting for you]")
	})
}

// After /branch, what is written in the session's thread goes to the branch at once.
func TestPrompt_ReachesABranch(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Script: []turn{{textBlock("Done.")}, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		begun := b.awaitPost("[Session Start]")
		b.awaitPost("[Turn Done]")
		b.WaitIdle()
		b.Type("/branch")
		b.WaitScreen("/branch")
		b.Keys("Enter")
		b.WaitDone("Branched ")
		b.reply(begun, "and on with the branch")
		b.API.WaitText(t, "and on with the branch")
		b.checkPosts(0, "[Not read]")
	})
}
