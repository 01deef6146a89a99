package e2e

import (
	"strings"
	"testing"
)

// Claude Code goes on by itself where nobody answers (2.1.200). What was answered to one
// of two questions goes to Claude as words.
func TestClaudeGoesOnWithoutAnAnswer(t *testing.T) {
	eachClaude(t, bothVersions[:1], func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Env: []string{"CLAUDE_AFK_TIMEOUT_MS=25000"}, Script: []turn{
			{textBlock("Shall I begin?")}, {questionCall(databaseQuestion, deployQuestion)}, {textBlock("I go on, then.")}, {textBlock("SQLite it is.")},
		}})
		b.Prompt("hello")
		b.awaitPost("[Waiting for you]", "Shall I begin?") // it takes words from now on
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]", databaseQuestion.Question)
		b.reply(q, "Q1: 2")
		b.awaitPost("[Kept]", "Still missing: Q2")
		b.awaitResult(1, "No response after")
		note := b.awaitPost("[Timeout]", "Claude Code went on after 25 s without an answer.", "Your answer: SQLite", `Reply "send"`)
		if note.Thread.Name != q.Thread.Name {
			t.Errorf("told in %s, asked in %s", note.Thread.Name, q.Thread.Name)
		}
		b.WaitScreen("I go on, then.")
		b.WaitIdle()
		b.reply(q, "send")
		b.awaitPost("[Kept]", "with the next instruction")
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
		for _, m := range b.space.Messages() {
			if strings.Contains(m.Text, "Answered in the terminal") {
				t.Errorf("told %q", m.Text)
			}
		}
	})
}
