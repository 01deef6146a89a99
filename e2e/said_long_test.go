package e2e

import (
	"strings"
	"testing"
	"time"
)

// 2.1.330 tells of a longer paste with marks around it.
func TestLongWordsWhileClaudeWorks(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := approve(t, c, config{Args: []string{"--allowedTools", "Bash(sleep:*)"}, Script: []turn{
			asksBack, {bash("sleep 12")}, {say("Heard.")}, {say("Heard.")},
		}})
		b.Prompt("go ahead")
		q := b.await("[Waiting for you]")
		b.reply(q, "yes, commit")
		b.await("[Sent]")
		b.WaitScreen("sleep 12")
		b.reply(q, "longwords begin\n"+strings.Repeat("a line of what is to be done next, in so many words\n", 25)+"longwords end")
		b.WaitScreen("Heard.")
		time.Sleep(8 * time.Second)
		if b.count("[Look]") > 0 {
			t.Errorf("told to look")
		}
	})
}

func TestADraftOfTheSameWords(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := approve(t, c, config{Script: []turn{asksBack, asksBack, asksBack}})
		b.Prompt("go ahead")
		q := b.await("[Waiting for you]")
		b.Type("go on")
		b.WaitScreen("go on")
		b.reply(q, "go on")
		time.Sleep(8 * time.Second)
		if n := b.API.count("go on"); n > 0 {
			t.Errorf("the person's draft was sent: %d", n)
		}
	})
}

func TestLongWordsAtAnIdlePrompt(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := approve(t, c, config{Args: []string{"--allowedTools", "Bash(sleep:*)"}, Script: []turn{
			asksBack, thanks, {bash("sleep 20")}, {say("Heard.")}, {say("Again.")}, {say("Again.")}, {say("Again.")},
		}})
		b.Prompt("go ahead")
		q := b.await("[Waiting for you]")
		b.reply(q, "yes, commit")
		b.WaitScreen("Thanks, understood.")
		b.WaitIdle()
		b.reply(q, "longwords begin\n"+strings.Repeat("a line of what is to be done next, in so many words\n", 25)+"longwords end")
		b.WaitScreen("Heard.")
		time.Sleep(6 * time.Second)
		text := b.API.lastMain()
		n := strings.Count(text, "longwords begin")
		if n != 1 {
			t.Errorf("Claude has it %d times", n)
		}
	})
}
