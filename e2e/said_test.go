package e2e

import (
	"strings"
	"testing"
	"time"
)

// What a person writes in a session's thread while Claude works is typed, and Claude Code queues it: in order, once, and told once.
func TestWordsWhileClaudeWorks(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := approve(t, c, config{Args: []string{"--allowedTools", "Bash(sleep:*)"}, Script: []turn{
			asksBack, {bash("sleep 12")}, {say("Heard.")},
		}})
		b.Prompt("go ahead")
		q := b.await("[Waiting for you]")
		b.reply(q, "yes, commit")
		b.await("[Sent]")
		b.WaitScreen("sleep 12")
		for _, words := range []string{"first: push \"it\" too", "second: and tag it", "third: then rest"} {
			b.reply(q, words)
		}
		b.WaitScreen("Heard.")
		text := b.API.lastMain()
		at := 0
		for _, words := range []string{"first: push", "second: and tag", "third: then rest"} {
			if n := strings.Count(text, words); n != 1 {
				t.Errorf("Claude has %q %d times", words, n)
			}
			i := strings.Index(text, words)
			if i < at {
				t.Errorf("%q came too early", words)
			}
			at = i
		}
		for deadline := time.Now().Add(patience); b.count("[Sent]") < 4 && time.Now().Before(deadline); time.Sleep(glance) {
		}
		if n, queued := b.count("[Sent]"), b.count("[Sent] Typed. Claude is working"); n != 4 || queued != 3 {
			t.Errorf("told %d times that it is sent, %d times that Claude is working", n, queued)
		}
	})
}

// Words that are said while a dialog is open wait for it.
func TestWordsWaitForADialog(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := approve(t, c, config{Script: []turn{asksBack, {bash("mkdir one")}, {say("Made.")}, {say("Heard.")}}})
		b.Prompt("go ahead")
		q := b.await("[Waiting for you]")
		b.reply(q, "yes")
		p := b.await("[Permission]", "mkdir one")
		b.reply(q, "then push")
		b.await("[Kept]", "the dialog")
		b.reply(p, "yes")
		b.API.WaitText(t, "then push")
		if n := b.API.count("then push"); n != 1 {
			t.Errorf("Claude has it %d times", n)
		}
	})
}

// Outside tmux, words that are said while Claude works reach it when its turn ends.
func TestWordsOutsideTmuxWaitForTheTurnsEnd(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := approve(t, c, config{
			Env: []string{"TMUX=", "TMUX_PANE=", "GCHAT_IDLE=on"}, Args: []string{"--allowedTools", "Bash(sleep:*)"},
			Script: []turn{thanks, {bash("sleep 8")}, {say("Slept.")}, {say("Heard.")}},
		})
		b.Prompt("go ahead")
		q := b.await("[Waiting for you]")
		b.reply(q, "rest")
		b.WaitScreen("sleep 8")
		b.reply(q, "and then tag")
		b.await("[Kept]", "when its turn ends")
		b.WaitScreen("Heard.")
		b.API.WaitText(t, "and then tag")
	})
}

// Claude Code's own commands are typed as they are when Claude is idle, and the thread is told what the terminal says of them.
func TestClaudesOwnCommands(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := approve(t, c, config{Script: []turn{asksBack, thanks, asksBack}})
		b.Prompt("go ahead")
		q := b.await("[Waiting for you]")
		b.reply(q, "/model haiku")
		b.await("[Sent] /model haiku", "Haiku")
		b.reply(q, "/compact keep the names")
		b.await("[Sent] /compact keep the names")
		b.reply(q, "/clear")
		b.await("[Sent] /clear")
		b.reply(q, "/exit")
		b.await("[Not used] There is no command /exit")
		b.reply(q, "now the next")
		b.WaitScreen("Thanks, understood.")
		if b.proc.Exited(0) {
			t.Error("Claude Code has ended")
		}
		for _, m := range b.chat.Messages() {
			t.Logf("%s %q", m.Thread.Name, m.Text)
		}
	})
}
