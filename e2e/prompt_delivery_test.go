package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// What a person writes in a session's thread while Claude works is typed, and Claude Code
// queues it: in order, once, and told once.
func TestPrompt_QueuedWhileClaudeWorks(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Args: []string{"--allowedTools", "Bash(sleep:*)"}, Script: []turn{
			askBackTurn, {bash("sleep 12")}, {textBlock("Heard.")},
		}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "yes, commit")
		b.awaitPost("[Sent]")
		b.WaitScreen("sleep 12")
		for _, words := range []string{"first: push \"it\" too", "second: and tag it", "third: then rest"} {
			b.reply(q, words)
		}
		b.WaitScreen("Heard.")
		text := b.API.lastMainText()
		at := 0
		for _, words := range []string{"first: push", "second: and tag", "third: then rest"} {
			kit.Equalf(t, strings.Count(text, words), 1, "Claude has %q", words)
			i := strings.Index(text, words)
			if i < at {
				t.Errorf("%q came too early", words)
			}
			at = i
		}
		bound.Until(t, "four times told that it is sent", func() bool { return b.countPosts("[Sent]") == 4 })
		if n := b.countPosts("[Sent] Queued. Claude reads it"); n < 3 {
			t.Errorf("told %d times that Claude is working", n)
		}
	})
}

// Words that are said while a dialog is open wait for it.
func TestPrompt_WaitsForADialog(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{askBackTurn, {bash("mkdir one")}, {textBlock("Made.")}, {textBlock("Heard.")}}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "yes")
		p := b.awaitPost("[Permission]", "mkdir one")
		b.WaitScreen("Do you want to proceed?")
		b.reply(q, "then push")
		b.awaitPost("[Kept]", "the dialog")
		b.reply(p, "yes")
		b.API.WaitText(t, "then push")
		kit.Equalf(t, b.API.maxCount("then push"), 1, "Claude has it")
	})
}

// Words that are typed a moment before a dialog opens are queued: the dialog stands, and
// what it asks is answered in Chat.
func TestPrompt_JustBeforeADialog(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{
			Args:   []string{"--allowedTools", "Bash(sleep:*)"},
			Script: []turn{askBackTurn, {bash("sleep 6")}, {bash("mkdir one")}, {textBlock("Made.")}, {textBlock("Heard.")}},
		})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "yes")
		p := b.awaitPost("[Permission]", "mkdir one")
		b.reply(q, "then push") // the dialog may be drawn, or not yet
		bound.Until(t, "the thread is told of the words", func() bool { return b.countPosts("[Sent]")+b.countPosts("[Kept]") == 2 })
		b.reply(p, "yes")
		b.API.WaitText(t, "then push")
		kit.Equalf(t, b.API.maxCount("then push"), 1, "Claude has it")
		if b.countPosts("[Cancelled]") > 0 {
			t.Error("the permission was cancelled")
		}
	})
}

// Outside tmux, words that are said while Claude works reach it when its turn ends.
func TestPrompt_OutsideTmuxWaitsForTurnEnd(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c.withoutTmux(), config{
			Env: []string{"GCHAT_IDLE=on"}, Args: []string{"--allowedTools", "Bash(sleep:*)"},
			Script: []turn{thanksTurn, {bash("sleep 8")}, {textBlock("Slept.")}, {textBlock("Heard.")}},
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

// How long words on the page take until the poller has typed them, with Enter, and until
// a real Claude Code asks the model with them. It is asked for by their number, and only
// prints.
func TestPrompt_MeasuresSpeed(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("GCHAT_WORDS_SPEED"))
	if n == 0 {
		t.Skip("GCHAT_WORDS_SPEED=20 measures it")
	}
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		var script []turn
		for i := range n {
			script = append(script, turn{textBlock(fmt.Sprintf("Turn %d. Shall I go on?", i))})
		}
		b := startWithApp(t, c, config{Script: append(script, thanksTurn)})
		b.Prompt("go ahead")
		var typed, asked []time.Duration
		for i := range n {
			q := b.awaitPost("[Waiting for you]", fmt.Sprintf("Turn %d.", i))
			words := fmt.Sprintf("yes, words %d of it", i)
			b.WaitIdle() // nobody writes while Claude Code still ends its turn
			began := time.Now()
			b.reply(q, words)
			b.API.WaitText(t, words)
			for _, r := range b.API.Requests() {
				if r.Main && r.At.After(began) {
					asked = append(asked, r.At.Sub(began))
					break
				}
			}
			bound.Until(t, "the log says that they were typed", func() bool {
				var line struct {
					Time    time.Time
					Message string
				}
				log, _ := os.ReadFile(filepath.Join(b.Home, ".claude", "logs", "gchat-hooks.log"))
				for text := range strings.Lines(string(log)) {
					if json.Unmarshal([]byte(text), &line) == nil && line.Message == "next instruction typed" && line.Time.After(began) {
						typed = append(typed, line.Time.Sub(began))
						return true
					}
				}
				return false
			})
		}
		for what, took := range map[string][]time.Duration{"typed": typed, "asked": asked} {
			slices.Sort(took)
			t.Logf("%s: p50 %v, p95 %v, most %v", what, took[n/2], took[n*95/100], took[n-1])
		}
	})
}

// 2.1.330 tells of a longer paste with marks around it.
func TestPrompt_LongWhileClaudeWorks(t *testing.T) {
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

func TestPrompt_EqualDraftNotSent(t *testing.T) {
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

func TestPrompt_LongAtIdle(t *testing.T) {
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

// A session has a thread from its first prompt on: words in it count in the first turn,
// and after a turn that asks for nothing, which leaves one line there.
func TestPrompt_ThreadFromTheFirst(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Args: []string{"--allowedTools", "Bash(sleep:*)"}, Script: []turn{
			{bash("sleep 8")}, {textBlock("Done, all tests pass.")}, thanksTurn,
		}})
		b.Prompt("go ahead")
		begun := b.awaitPost("[Session Start]", filepath.Base(b.Dir))
		b.WaitScreen("sleep 8")
		b.reply(begun, "and tag it")
		b.awaitPost("[Sent]")
		b.API.WaitText(t, "and tag it")
		done := b.awaitPost("[Turn Done]", "Done, all tests pass.")
		if done.Thread.Name != begun.Thread.Name {
			t.Errorf("told in %s, begun in %s", done.Thread.Name, begun.Thread.Name)
		}
		b.WaitIdle()
		b.reply(done, "now the next")
		b.API.WaitText(t, "now the next")
		bound.Until(t, "told that it is sent", func() bool { return b.countPosts("[Sent]") == 2 })
		if b.countPosts("[Session Start]") != 1 || b.countPosts("[Not read]") != 0 || b.countPosts("[Waiting for you]") != 0 {
			t.Errorf("the thread says:\n%s", b.postTexts())
		}
	})
}

// After /branch, words in the session's thread go to the branch at once.
func TestPrompt_ReachesABranch(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{{textBlock("Done.")}, thanksTurn}})
		b.Prompt("go ahead")
		begun := b.awaitPost("[Session Start]")
		b.awaitPost("[Turn Done]")
		b.WaitIdle()
		b.Type("/branch")
		b.WaitScreen("/branch")
		b.Keys("Enter")
		b.WaitScreen("Branched ")
		b.WaitIdle()
		b.reply(begun, "and on with the branch")
		b.API.WaitText(t, "and on with the branch")
		if n := b.countPosts("[Not read]"); n > 0 {
			t.Errorf("the thread says:\n%s", b.postTexts())
		}
	})
}
