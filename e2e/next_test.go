package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

var askBackTurn = turn{textBlock("The tests pass. Shall I commit?")}

func TestTheNextInstructionIsTypedIntoTmux(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{askBackTurn, thanksTurn, {textBlock("Bye.")}}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]", "Shall I commit?", "Reply with the next instruction.")
		b.reply(q, "yes, and push \"it\"\nwith $care; Enter 然后")
		b.WaitScreen("Thanks, understood.")
		b.API.WaitText(t, "with $care; Enter 然后")
		if got := b.awaitPost("[Sent]"); got.Thread.Name != q.Thread.Name {
			t.Errorf("told in %s, asked in %s", got.Thread.Name, q.Thread.Name)
		}
		b.WaitIdle()
		if n := b.countPosts("[Waiting for you]"); n != 1 { // the last words are no question
			t.Errorf("asked %d times", n)
		}
	})
}

// What the prompt would not take as words is asked back, and what follows is typed.
func TestTheNextInstructionIsAskedBackOrSent(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{askBackTurn, thanksTurn}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]")
		for i, words := range []string{"exit", ":wq!", "\u0301abc", "go on with @/etc/hosts"} {
			b.reply(q, words)
			bound.Until(t, words+" is asked back", func() bool { return b.countPosts("[Not used]") > i })
		}
		b.WaitIdle()
		b.reply(q, "go on with /etc/hosts")
		b.WaitScreen("Thanks, understood.")
		b.API.WaitText(t, "go on with /etc/hosts")
		b.awaitPost("[Sent]")
	})
}

// Outside of tmux, words wake the session as a hook's message. The thread says before
// they are written that they are no approval.
func TestTheNextInstructionWakesASessionOutsideTmux(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c.withoutTmux(), config{Env: []string{"GCHAT_IDLE=on"}, Script: []turn{thanksTurn, askBackTurn}})
		b.Prompt("go ahead")
		const beforehand = "a message from a hook, which does not count as your approval"
		b.awaitPost("[Session Start]", beforehand)
		q := b.awaitPost("[Waiting for you]", "Thanks, understood.", beforehand)
		b.reply(q, "run the tests")
		b.WaitScreen("Shall I commit?")
		b.API.WaitText(t, "this is the next instruction: run the tests")
		b.awaitPost("[Sent]")
	})
}

func TestADraftIsPreserved(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{askBackTurn, thanksTurn}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]")
		b.WaitIdle()
		b.Type("half a thought")
		b.WaitScreen("half a thought")
		b.reply(q, "commit it")
		if m := b.awaitPost("[Kept]", "Someone is typing"); strings.Contains(m.Text, "half a thought") {
			t.Errorf("the space reads the draft: %q", m.Text)
		}
		if screen := b.Screen(); !strings.Contains(screen, "half a thought") || strings.Contains(screen, "commit it") {
			t.Errorf("the draft was touched:\n%s", screen)
		}
		b.Keys("C-u") // the person gives it up
		b.WaitScreen("Thanks, understood.")
		b.API.WaitText(t, "commit it")
	})
}

func TestAPromptInTheTerminalClosesTheNextInstruction(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{askBackTurn, thanksTurn}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]")
		b.Prompt("no, wait")
		b.WaitScreen("Thanks, understood.")
		if got := b.awaitPost("[Answered]", "You went on in the terminal."); got.Thread.Name != q.Thread.Name {
			t.Errorf("told in %s, asked in %s", got.Thread.Name, q.Thread.Name)
		}
	})
}

// countPosts says how many messages of the space begin so.
func (b *hookedSession) countPosts(beginning string) (n int) {
	for _, m := range b.space.Messages() {
		if strings.HasPrefix(m.Text, beginning) {
			n++
		}
	}
	return n
}

// Two sessions at once, and each gets what was said to it.
func TestTwoSessionsAreDecidedCrosswise(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		one := startApproving(t, c, config{Script: []turn{{bash("mkdir one")}, askBackTurn, thanksTurn}})
		two := one.startBeside(config{Hooks: approveHooks(t), Script: []turn{{bash("mkdir two")}, askBackTurn, {textBlock("Bye.")}}})
		one.Prompt("go ahead")
		two.Prompt("go ahead")
		first, second := one.awaitPost("[Permission]", "mkdir one"), one.awaitPost("[Permission]", "mkdir two")
		one.reply(second, "no, not that one")
		one.reply(first, "y")
		two.awaitResult(1, "not that one")
		one.awaitResult(1)
		one.WaitScreen("Shall I commit?")
		two.WaitScreen("Shall I commit?")
		waits := one.awaitTwoPosts("[Waiting for you]")
		for i, q := range waits {
			one.reply(q, []string{"alpha-one", "beta-two"}[i])
		}
		one.WaitScreen("Thanks, understood.")
		two.WaitScreen("Bye.")
		for _, s := range []*hookedSession{one, two} {
			said := s.API.maxCount("alpha-one") > 0
			if said == (s.API.maxCount("beta-two") > 0) {
				t.Error("a session has both instructions, or none")
			}
		}
	})
}

// Plans, edits and what is always allowed, of two sessions at once: each reply reaches
// its own.
func TestTwoSessionsPlanAndEditCrosswise(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		plan := turn{toolCall("ExitPlanMode", map[string]any{"plan": "# The plan"})}
		write := func(project, name string) turn {
			return turn{toolCall("Write", map[string]string{"file_path": filepath.Join(project, name), "content": "x\n"})}
		}
		first := config{Args: []string{"--permission-mode", "plan"}, Script: []turn{{textBlock("Hm.")}, plan, plan, {}, {}, thanksTurn}}
		first.Prepare = func(_, dir string) { first.Script[3], first.Script[4] = write(dir, "a.txt"), write(dir, "b.txt") }
		second := config{Hooks: approveHooks(t), Args: first.Args, Script: []turn{{textBlock("Hm.")}, plan, {}, {}, {textBlock("Bye.")}}}
		second.Prepare = func(_, dir string) { second.Script[2], second.Script[3] = write(dir, "a.txt"), write(dir, "b.txt") }
		one := startApproving(t, c, first)
		two := one.startBeside(second)
		one.awaitPlan("# The plan")
		two.awaitPlan("# The plan")
		one.Prompt("go ahead")
		two.Prompt("go ahead")

		ones, twos := one.awaitNthPost(1, "[Plan]"), two.awaitNthPost(1, "[Plan]")
		one.reply(twos, "yes")
		one.reply(ones, "no, shorter")
		ones, twos = one.awaitNthPost(2, "[Plan]"), two.awaitNthPost(1, "[Permission]", "Write: a.txt")
		one.reply(twos, "no, elsewhere")
		one.reply(ones, "yes")
		ones, twos = one.awaitNthPost(1, "[Permission]", "Write: a.txt"), two.awaitNthPost(2, "[Permission]", "Write: b.txt")
		one.reply(ones, "always")
		one.reply(twos, "yes")

		one.awaitResult(1, "shorter")
		two.awaitResult(2, "elsewhere")
		one.WaitScreen("Thanks, understood.")
		two.WaitScreen("Bye.")
		for s, want := range map[*hookedSession]string{one: "a.txt b.txt", two: "b.txt"} {
			files, _ := filepath.Glob(filepath.Join(s.Dir, "*.txt"))
			for i := range files {
				files[i] = filepath.Base(files[i])
			}
			kit.Equalf(t, strings.Join(files, " "), want, "%s", s.Dir)
		}
		kit.Equalf(t, one.countPosts("[Permission]"), 3, "asked")
	})
}

// What is done in one session's terminal, and to it, leaves the other one alone.
func TestTwoSessionsOneOfThemAtTheTerminal(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		one := startApproving(t, c, config{Script: []turn{{bash("mkdir a")}, askBackTurn, {bash("mkdir b")}, {textBlock("Well then.")}, {bash("mkdir c")}}})
		two := one.startBeside(config{Hooks: approveHooks(t), Script: []turn{{bash("mkdir a")}, askBackTurn, {bash("mkdir b")}, {bash("mkdir c")}, {textBlock("Bye.")}}})
		one.Prompt("go ahead")
		two.Prompt("go ahead")
		ones, twos := one.awaitNthPost(1, "[Permission]"), two.awaitNthPost(1, "[Permission]")
		one.Choose("❯ 1. Yes", "1") // in the terminal first, and the other from Chat
		one.reply(twos, "yes")
		one.awaitPostInThread(ones, "[Answered]", "Answered in the terminal.")
		two.WaitScreen("Shall I commit?")
		one.WaitScreen("Shall I commit?")

		var waits []*chat.Message // a draft in one, while the other goes on
		one.WaitIdle()
		one.Type("half a thought")
		one.WaitScreen("half a thought")
		waits = one.awaitTwoPosts("[Waiting for you]")
		one.reply(waits[0], "go on")
		one.reply(waits[1], "go on")
		two.awaitNthPost(2, "[Permission]", "mkdir b")
		if screen := one.Screen(); !strings.Contains(screen, "half a thought") || strings.Contains(screen, "go on") {
			t.Errorf("the draft was touched:\n%s", screen)
		}
		one.Keys("C-u")

		ones, twos = one.awaitNthPost(2, "[Permission]", "mkdir b"), two.awaitNthPost(2, "[Permission]", "mkdir b")
		one.Choose("❯ 1. Yes", "Escape")
		one.reply(twos, "yes")
		one.awaitPostInThread(ones, "[Cancelled]", "Dismissed in the terminal.")
		twos = two.awaitNthPost(3, "[Permission]", "mkdir c")
		one.Kill(syscall.SIGKILL)
		one.reply(twos, "yes")
		two.WaitScreen("Bye.")
		for name, want := range map[*hookedSession]string{one: "a", two: "a b c"} {
			var made []string
			for _, dir := range []string{"a", "b", "c"} {
				if _, err := os.Stat(filepath.Join(name.Dir, dir)); err == nil {
					made = append(made, dir)
				}
			}
			kit.Equalf(t, strings.Join(made, " "), want, "%s", name.Dir)
		}
	})
}

// awaitPostInThread is await of a message in the thread of another.
func (b *hookedSession) awaitPostInThread(m *chat.Message, beginning string, parts ...string) {
	b.t.Helper()
	b.awaitPostFunc(fmt.Sprintf("%s with %q in the thread", beginning, parts), func(is *chat.Message) bool {
		return is.Thread.Name == m.Thread.Name && strings.HasPrefix(is.Text, beginning) && containsAll(is.Text, parts)
	})
}

// awaitNthPost waits for this session's nth message that begins so and has these parts.
func (b *hookedSession) awaitNthPost(n int, beginning string, parts ...string) (m *chat.Message) {
	b.t.Helper()
	bound.Until(b.t, fmt.Sprintf("message %d %s with %q", n, beginning, parts), func() bool {
		mine := slices.DeleteFunc(b.space.Messages(), func(m *chat.Message) bool {
			return !strings.HasPrefix(m.Text, beginning) || !strings.Contains(m.Text, b.Dir+"\n")
		})
		if len(mine) < n {
			return false
		}
		m = mine[n-1]
		return containsAll(m.Text, parts)
	})
	return m
}

// awaitTwoPosts waits for two messages that begin so, in two threads.
func (b *hookedSession) awaitTwoPosts(beginning string) (both []*chat.Message) {
	b.t.Helper()
	bound.Until(b.t, "two messages "+beginning, func() bool {
		both = slices.DeleteFunc(b.space.Messages(), func(m *chat.Message) bool { return !strings.HasPrefix(m.Text, beginning) })
		return len(both) == 2 && both[0].Thread.Name != both[1].Thread.Name
	})
	return both
}

// A session has a thread from its first prompt on: words in it count in the first turn,
// and after a turn that asks for nothing, which leaves one line there.
func TestASessionHasAThreadFromItsFirstPrompt(t *testing.T) {
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
func TestWordsGoToABranchAtOnce(t *testing.T) {
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
