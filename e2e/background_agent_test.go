package e2e

import (
	"gchat-hooks/cli/claudecheck/fakemodel"

	"testing"

	"google.golang.org/api/chat/v1"
)

// startWithAgent starts a session that has an agent in the background run a command, and
// returns the message that asks for it.
func startWithAgent(t *testing.T, c claude, more ...turn) *hookedSession {
	b := startApproving(t, c, config{
		Script: append([]turn{
			{agentCall("mkdir out")}, {textBlock("I wait for it. What else?")},
		}, more...),
	})
	b.Prompt("go ahead")
	b.WaitScreen("I wait for it.")
	return b
}

// While nobody is at the keyboard, a background agent's permission is decided in Chat.
// The session's own dialogs, prompts and turns do not end it.
func TestAgent_PermissionDecidedInChat(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithAgent(t, c, turn{bash("mkdir own")},
			turn{textBlock("Mine is made. And now?")}, turn{textBlock("I hear you.")},
			turn{textBlock("It is over.")})
		next := b.awaitPost("[Waiting for you]", "I wait for it. What else?")
		q := b.awaitPost("[Permission]", "mkdir out", "From the agent general-purpose: help",
			"does not show it")
		b.checkNotShown(permissionDialog)
		// The session's own dialog comes and goes, by a prompt that was typed from Chat.
		b.reply(next, "make your own")
		b.Choose("❯ 1. Yes", "1")
		b.WaitScreen("Mine is made.")
		b.awaitPostInOtherThread(q, "[Answered]")
		b.awaitPost("[Waiting for you]", "Mine is made. And now?")
		b.reply(next, "please say something")
		b.WaitScreen("I hear you.")
		b.reply(q, "yes")
		b.awaitPostInThread(q, "[Answered]", "Allowed: Bash: mkdir out")
		b.awaitMade("out")
		b.WaitScreen("It is over.")
	})
}

// Whoever comes to the keyboard gets the dialog, and from then on it is the terminal's
// alone.
func TestAgent_PermissionGoesToTheKeyboard(t *testing.T) {
	eachCase(t, testedVersions, map[string]func(b *hookedSession, q *chat.Message){
		"a terminal is attached": func(b *hookedSession, _ *chat.Message) {
			b.sitDown(b.t)
		},
		"a prompt, where no key is seen": func(b *hookedSession, _ *chat.Message) {
			b.Prompt("what is it doing?")
		},
	}, func(t *testing.T, c claude, come func(b *hookedSession, q *chat.Message)) {
		b := startWithAgent(t, c, turn{textBlock("It waits.")}, turn{textBlock("It is over.")},
			turn{textBlock("It is over.")})
		q := b.awaitPost("[Permission]", "mkdir out")
		come(b, q)
		b.WaitScreen(permissionDialog)
		b.awaitPostInThread(q, "[In the terminal]", "answer it there")
		b.reply(q, "yes")
		b.awaitPostInThread(q, "[Not used]", "In the terminal since")
		b.checkMade(false, "out")
		b.Choose("❯ 1. Yes", "1")
		b.awaitPostInThread(q, "[Answered]", "Bash: mkdir out", "in the terminal")
		b.awaitMade("out")
	})
}

// A person who types a line and Enter allows nothing with that: the dialog is drawn when
// no key came for a while.
func TestAgent_TypingAllowsNothing(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithAgent(t, c, turn{textBlock("One.")}, turn{textBlock("Two.")},
			turn{textBlock("Three.")})
		b.awaitPost("[Permission]", "mkdir out")
		desk := b.sitDown(t)
		for _, line := range []string{"1 is the first", "1", "so"} {
			for _, key := range line {
				desk("send-keys", "-l", string(key))
			}
			desk("send-keys", "Enter")
		}
		b.WaitScreen(permissionDialog)
		b.checkMade(false, "out")
		desk("send-keys", "Escape")
		b.awaitPost("[Answered]", "in the terminal")
		b.checkMade(false, "out")
	})
}

// No hook is told of an agent that a person stops, but for the one that waits: what it
// asked in the terminal is over all the same.
func TestAgent_StoppedCancelsItsPermission(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithAgent(t, c, turn{textBlock("It was stopped.")})
		q := b.awaitPost("[Permission]", "mkdir out")
		b.reply(q, "terminal")
		b.WaitScreen(permissionDialog)
		for range 2 {
			b.Keys("C-x")
			b.Keys("C-k")
		}
		b.awaitPostInThread(q, "[Cancelled]", "The agent that asked has ended.")
	})
}

// The form of an agent in the background outlives its session's turns, and is filled in
// from Chat.
func TestAgent_FormOutlivesTheTurn(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Args:    allowFormTool,
		Prepare: serveForms(nameForm),
		Script: []turn{
			{agentCall(fakemodel.FillForm)}, {textBlock("I wait for it. What else?")},
			{textBlock("Done meanwhile. What else?")}, {textBlock("It is over.")},
		},
	}, func(t *testing.T, b *hookedSession) {
		next := b.awaitPost("[Waiting for you]", "I wait for it. What else?")
		q := b.awaitPost("[Form]", "Who are you?")
		b.reply(next, "do something")
		b.awaitPost("[Waiting for you]", "Done meanwhile.")
		b.reply(q, "name: Ann")
		b.awaitPostInThread(q, "[Answered]", "Accepted.")
		b.WaitScreen("It is over.")
	})
}

// A teammate in a tmux pane of its own asks its leader, whose terminal draws the dialog:
// no PermissionRequest comes in either. The leader's thread is told, once, with the
// teammate's name, and it is taken back when it is over.
func TestAgent_TeammatesPermissionNoted(t *testing.T) {
	eachClaude(t, bothVersions[:1], func(t *testing.T, c claude) {
		task := toolCall("Agent", map[string]any{
			"description": "research", "prompt": fakemodel.Errand + "mkdir team",
			"subagent_type": "general-purpose", "name": "researcher",
		})
		b := startApproving(t, c, config{
			Env:    []string{"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1"},
			Script: []turn{{task}, {textBlock("I wait for it.")}},
			Prepare: func(t *testing.T, home, _ string) {
				amendSettings(t, home,
					map[string]any{"teammateMode": "tmux"})
			},
		})
		b.Prompt("go ahead")
		note := b.awaitPost("[Permission]", "waits for a permission",
			"researcher needs permission for Bash")
		b.WaitScreen("researcher")
		b.reply(note, "then run the tests")
		b.awaitPostAfter(note, "[Kept]")
		b.Choose("❯ 1. Yes", "1")
		b.awaitPostAfter(note, "[Gone on]")
		b.awaitMade("team")
		b.API.WaitText(t, "then run the tests")
		b.checkPosts(1, "[Permission]")
	})
}
