package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
)

// sent is a call of the tool that starts an agent in the background, which runs these commands.
func sent(commands ...string) block {
	return call("Agent", map[string]any{
		"description": "help", "prompt": errand + strings.Join(commands, "\n"), "subagent_type": "general-purpose",
		"run_in_background": true,
	})
}

// withAgent starts a session that has an agent in the background run a command, and returns
// the message that asks for it.
func withAgent(t *testing.T, c claude, more ...turn) *bridge {
	b := approve(t, c, config{Script: append([]turn{{sent("mkdir out")}, {say("I wait for it. What else?")}}, more...)})
	b.Prompt("go ahead")
	b.WaitScreen("I wait for it.")
	return b
}

// isMade reports whether a folder is in the project.
func (b *bridge) isMade(name string) bool {
	_, err := os.Stat(filepath.Join(b.Dir, name))
	return err == nil
}

// dialogOf is what a permission's dialog says of an agent, in both versions.
const dialogOf = "Do you want to proceed?"

// While nobody is at the keyboard, a background agent's permission is decided in Chat. The
// session's own dialogs, prompts and turns do not end it.
func TestABackgroundAgentsPermissionIsDecidedFromChat(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := withAgent(t, c, turn{bash("mkdir own")}, turn{say("Mine is made. And now?")}, turn{say("I hear you.")}, turn{say("It is over.")})
		next := b.await("[Waiting for you]", "I wait for it. What else?")
		q := b.await("[Permission]", "mkdir out", "From the agent general-purpose: help", "The terminal shows nothing of it")
		if strings.Contains(b.Screen(), dialogOf) {
			t.Error("its dialog is drawn")
		}
		// The session's own dialog comes and goes, by a prompt that was typed from Chat.
		b.reply(next, "make your own")
		b.Choose("❯ 1. Yes", "1")
		b.WaitScreen("Mine is made.")
		b.awaitOther(q, "[Answered]")
		b.await("[Waiting for you]", "Mine is made. And now?")
		b.reply(next, "please say something")
		b.WaitScreen("I hear you.")
		b.reply(q, "yes")
		b.awaitIn(q, "[Answered]", "Allowed: Bash: mkdir out")
		bound.Until(t, "the folder", func() bool { return b.isMade("out") })
		b.WaitScreen("It is over.")
	})
}

// Whoever comes to the keyboard gets the dialog, and from then on it is the terminal's alone.
func TestABackgroundAgentsPermissionGoesToWhoeverIsThere(t *testing.T) {
	t.Parallel()
	for name, come := range map[string]func(b *bridge, q *chat.Message){
		"a terminal is attached":         func(b *bridge, _ *chat.Message) { b.sitDown(b.t) },
		"a reply asks for it":            func(b *bridge, q *chat.Message) { b.reply(q, "terminal") },
		"a prompt, where no key is seen": func(b *bridge, _ *chat.Message) { b.Prompt("what is it doing?") },
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, both, func(t *testing.T, c claude) {
				b := withAgent(t, c, turn{say("It waits.")}, turn{say("It is over.")}, turn{say("It is over.")})
				q := b.await("[Permission]", "mkdir out")
				come(b, q)
				b.WaitScreen(dialogOf)
				b.awaitIn(q, "[In the terminal]", "answer it there")
				b.reply(q, "yes")
				b.awaitIn(q, "[Not used]", "In the terminal since", "answer it there")
				if b.isMade("out") {
					t.Error("the reply allowed it")
				}
				b.Choose("❯ 1. Yes", "1")
				b.awaitIn(q, "[Answered]", "Bash: mkdir out", "Answered in the terminal.")
				bound.Until(t, "the folder", func() bool { return b.isMade("out") })
			})
		})
	}
}

// A person who types words and Enter allows nothing with that: the dialog is drawn when no key
// came for a while.
func TestTypingAnswersNoDialogThatIsHandedOver(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := withAgent(t, c, turn{say("One.")}, turn{say("Two.")}, turn{say("Three.")})
		b.await("[Permission]", "mkdir out")
		desk := b.sitDown(t)
		for _, words := range []string{"1 is the first", "1", "so"} {
			for _, key := range words {
				desk("send-keys", "-l", string(key))
			}
			desk("send-keys", "Enter")
		}
		b.WaitScreen(dialogOf)
		if b.isMade("out") {
			t.Error("it was allowed")
		}
		desk("send-keys", "Escape")
		b.await("[Answered]", "Answered in the terminal.")
		if b.isMade("out") {
			t.Error("it was allowed")
		}
	})
}

// No hook is told of an agent that a person stops, but for the one that waits: what it asked in
// the terminal is over all the same.
func TestAnAgentThatIsStoppedAsksNoMore(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := withAgent(t, c, turn{say("It was stopped.")})
		q := b.await("[Permission]", "mkdir out")
		b.reply(q, "terminal")
		b.WaitScreen(dialogOf)
		for range 2 {
			b.Keys("C-x")
			b.Keys("C-k")
		}
		b.awaitIn(q, "[Cancelled]", "The agent that asked has ended.")
	})
}

// A question in hold mode goes to whoever comes to the keyboard, too.
func TestAHeldQuestionGoesToWhoeverIsThere(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := connect(t, c, config{Env: []string{"GCHAT_ASK_MODE=hold"}, Script: []turn{{ask(deploy)}, thanks}}, all...)
		b.Prompt("go ahead")
		q := b.await("[AskUserQuestion]", deploy.Question)
		if strings.Contains(b.Screen(), firstOption) {
			t.Error("its dialog is drawn")
		}
		b.sitDown(t)
		b.WaitScreen(firstOption)
		b.awaitIn(q, "[In the terminal]", "answer it there")
		b.reply(q, "3")
		b.awaitIn(q, "[Not used]", "In the terminal since")
		b.Choose(firstOption, "2")
		b.told(1, "Rolling deployment")
		b.awaitIn(q, "[Answered]", "Selected: Rolling deployment", "Answered in the terminal.")
	})
}
