package e2e

import (
	"strings"
	"testing"
)

// Claude Code goes on by itself where nobody answers (2.1.200). What was answered to one of two questions goes to Claude as words.
func TestClaudeGoesOnWithoutAnAnswer(t *testing.T) {
	eachClaude(t, both[:1], func(t *testing.T, c claude) {
		b := approve(t, c, config{Env: []string{"CLAUDE_AFK_TIMEOUT_MS=25000"}, Script: []turn{
			{say("Shall I begin?")}, {ask(database, deploy)}, {say("I go on, then.")}, {say("SQLite it is.")},
		}})
		b.Prompt("hello")
		b.await("[Waiting for you]", "Shall I begin?") // it takes words from now on
		b.Prompt("go ahead")
		q := b.await("[AskUserQuestion]", database.Question)
		b.reply(q, "Q1: 2")
		b.await("[Kept]", "Still missing: Q2")
		b.told(1, "No response after")
		note := b.await("[Timeout]", "Claude Code went on after 25 s without an answer.", "Your answer: SQLite", `Reply "send"`)
		if note.Thread.Name != q.Thread.Name {
			t.Errorf("told in %s, asked in %s", note.Thread.Name, q.Thread.Name)
		}
		b.WaitScreen("I go on, then.")
		b.WaitIdle()
		b.reply(q, "send")
		b.await("[Kept]", "with the next instruction")
		b.WaitScreen("SQLite it is.")
		said := false
		for _, r := range b.API.Requests() {
			for _, m := range r.Messages {
				said = said || strings.Contains(m.Content.Text(), `You asked "Which DB?". The answer: SQLite.`)
			}
		}
		if !said {
			t.Error("Claude was not told what was answered")
		}
		for _, m := range b.chat.Messages() {
			if strings.Contains(m.Text, "Answered in the terminal") {
				t.Errorf("told %q", m.Text)
			}
		}
	})
}
