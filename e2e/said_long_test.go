package e2e

import (
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// 2.1.330 tells of a longer paste with marks around it.
func TestLongWordsWhileClaudeWorks(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Args: []string{"--allowedTools", "Bash(sleep:*)"}, Script: []turn{
			askBackTurn, {bash("sleep 12")}, {textBlock("Heard.")}, {textBlock("Heard.")},
		}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "yes, commit")
		b.awaitPost("[Sent]")
		b.WaitScreen("sleep 12")
		b.reply(q, "longwords begin\n"+strings.Repeat("a line of what is to be done next, in so many words\n", 25)+"longwords end")
		b.WaitScreen("Heard.")
		time.Sleep(8 * time.Second)
		if b.countPosts("[Look]") > 0 {
			t.Errorf("told to look")
		}
	})
}

func TestADraftOfTheSameWords(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{askBackTurn, askBackTurn, askBackTurn}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]")
		b.Type("go on")
		b.WaitScreen("go on")
		b.reply(q, "go on")
		time.Sleep(8 * time.Second)
		if n := b.API.maxCount("go on"); n > 0 {
			t.Errorf("the person's draft was sent: %d", n)
		}
	})
}

func TestLongWordsAtAnIdlePrompt(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Args: []string{"--allowedTools", "Bash(sleep:*)"}, Script: []turn{
			askBackTurn, thanksTurn, {bash("sleep 20")}, {textBlock("Heard.")}, {textBlock("Again.")}, {textBlock("Again.")}, {textBlock("Again.")},
		}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "yes, commit")
		b.WaitScreen("Thanks, understood.")
		b.WaitIdle()
		b.reply(q, "longwords begin\n"+strings.Repeat("a line of what is to be done next, in so many words\n", 25)+"longwords end")
		b.WaitScreen("Heard.")
		time.Sleep(6 * time.Second)
		text := b.API.lastMainText()
		n := strings.Count(text, "longwords begin")
		kit.Equalf(t, n, 1, "Claude has it")
	})
}
