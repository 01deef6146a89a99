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
