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
)

var asksBack = turn{say("The tests pass. Shall I commit?")}

func TestTheNextInstructionIsTypedIntoTmux(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := approve(t, c, config{Script: []turn{asksBack, thanks, {say("Bye.")}}})
		b.Prompt("go ahead")
		q := b.await("[Waiting for you]", "Shall I commit?", "Reply with the next instruction.")
		b.reply(q, "yes, and push \"it\"\nwith $care; Enter 然后")
		b.WaitScreen("Thanks, understood.")
		b.API.WaitText(t, "with $care; Enter 然后")
		if got := b.await("[Sent]"); got.Thread.Name != q.Thread.Name {
			t.Errorf("told in %s, asked in %s", got.Thread.Name, q.Thread.Name)
		}
		b.WaitIdle()
		if n := b.count("[Waiting for you]"); n != 1 { // the last words are no question
			t.Errorf("asked %d times", n)
		}
	})
}

// What the prompt would not take as words is asked back, and what follows is typed.
func TestTheNextInstructionIsAskedBackOrSent(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := approve(t, c, config{Script: []turn{asksBack, thanks}})
		b.Prompt("go ahead")
		q := b.await("[Waiting for you]")
		for i, words := range []string{"exit", ":wq!", "\u0301abc", "go on with @/etc/hosts"} {
			b.reply(q, words)
			bound.Until(t, words+" is asked back", func() bool { return b.count("[Not used]") > i })
		}
		b.WaitIdle()
		b.reply(q, "go on with /etc/hosts")
		b.WaitScreen("Thanks, understood.")
		b.API.WaitText(t, "go on with /etc/hosts")
		b.await("[Sent]")
	})
}

// Outside of tmux, words wake the session as a hook's message. The thread says before they are written that they are no approval.
func TestTheNextInstructionWakesASessionOutsideTmux(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := approve(t, c.outside(), config{Env: []string{"GCHAT_IDLE=on"}, Script: []turn{thanks, asksBack}})
		b.Prompt("go ahead")
		const beforehand = "a message from a hook, which it must not take for your approval"
		b.await("[Session Start]", beforehand)
		q := b.await("[Waiting for you]", "Thanks, understood.", beforehand)
		b.reply(q, "run the tests")
		b.WaitScreen("Shall I commit?")
		b.API.WaitText(t, "this is the next instruction: run the tests")
		b.await("[Sent]")
	})
}

func TestADraftIsPreserved(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := approve(t, c, config{Script: []turn{asksBack, thanks}})
		b.Prompt("go ahead")
		q := b.await("[Waiting for you]")
		b.WaitIdle()
		b.Type("half a thought")
		b.WaitScreen("half a thought")
		b.reply(q, "commit it")
		if m := b.await("[Kept]", "Someone is typing"); strings.Contains(m.Text, "half a thought") {
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
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := approve(t, c, config{Script: []turn{asksBack, thanks}})
		b.Prompt("go ahead")
		q := b.await("[Waiting for you]")
		b.Prompt("no, wait")
		b.WaitScreen("Thanks, understood.")
		if got := b.await("[Answered]", "You went on in the terminal."); got.Thread.Name != q.Thread.Name {
			t.Errorf("told in %s, asked in %s", got.Thread.Name, q.Thread.Name)
		}
	})
}

// count says how many messages of the space begin so.
func (b *bridge) count(beginning string) (n int) {
	for _, m := range b.chat.Messages() {
		if strings.HasPrefix(m.Text, beginning) {
			n++
		}
	}
	return n
}

// Two sessions at once, and each gets what was said to it.
func TestTwoSessionsAreDecidedCrosswise(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		one := approve(t, c, config{Script: []turn{{bash("mkdir one")}, asksBack, thanks}})
		two := one.beside(config{Hooks: approving(t), Script: []turn{{bash("mkdir two")}, asksBack, {say("Bye.")}}})
		one.Prompt("go ahead")
		two.Prompt("go ahead")
		first, second := one.await("[Permission]", "mkdir one"), one.await("[Permission]", "mkdir two")
		one.reply(second, "no, not that one")
		one.reply(first, "y")
		two.told(1, "not that one")
		one.told(1)
		one.WaitScreen("Shall I commit?")
		two.WaitScreen("Shall I commit?")
		waits := one.awaitBoth("[Waiting for you]")
		for i, q := range waits {
			one.reply(q, []string{"alpha-one", "beta-two"}[i])
		}
		one.WaitScreen("Thanks, understood.")
		two.WaitScreen("Bye.")
		for _, s := range []*bridge{one, two} {
			said := s.API.count("alpha-one") > 0
			if said == (s.API.count("beta-two") > 0) {
				t.Error("a session has both instructions, or none")
			}
		}
	})
}

// Plans, edits and what is always allowed, of two sessions at once: each reply reaches its own.
func TestTwoSessionsPlanAndEditCrosswise(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		plan := turn{call("ExitPlanMode", map[string]any{"plan": "# The plan"})}
		write := func(project, name string) turn {
			return turn{call("Write", map[string]string{"file_path": filepath.Join(project, name), "content": "x\n"})}
		}
		first := config{Args: []string{"--permission-mode", "plan"}, Script: []turn{{say("Hm.")}, plan, plan, {}, {}, thanks}}
		first.Prepare = func(_, dir string) { first.Script[3], first.Script[4] = write(dir, "a.txt"), write(dir, "b.txt") }
		second := config{Hooks: approving(t), Args: first.Args, Script: []turn{{say("Hm.")}, plan, {}, {}, {say("Bye.")}}}
		second.Prepare = func(_, dir string) { second.Script[2], second.Script[3] = write(dir, "a.txt"), write(dir, "b.txt") }
		one := approve(t, c, first)
		two := one.beside(second)
		one.thinks("# The plan")
		two.thinks("# The plan")
		one.Prompt("go ahead")
		two.Prompt("go ahead")

		ones, twos := one.nth(1, "[Plan]"), two.nth(1, "[Plan]")
		one.reply(twos, "yes")
		one.reply(ones, "no, shorter")
		ones, twos = one.nth(2, "[Plan]"), two.nth(1, "[Permission]", "Write: a.txt")
		one.reply(twos, "no, elsewhere")
		one.reply(ones, "yes")
		ones, twos = one.nth(1, "[Permission]", "Write: a.txt"), two.nth(2, "[Permission]", "Write: b.txt")
		one.reply(ones, "always")
		one.reply(twos, "yes")

		one.told(1, "shorter")
		two.told(2, "elsewhere")
		one.WaitScreen("Thanks, understood.")
		two.WaitScreen("Bye.")
		for s, want := range map[*bridge]string{one: "a.txt b.txt", two: "b.txt"} {
			files, _ := filepath.Glob(filepath.Join(s.Dir, "*.txt"))
			for i := range files {
				files[i] = filepath.Base(files[i])
			}
			if got := strings.Join(files, " "); got != want {
				t.Errorf("%s has %s, want %s", s.Dir, got, want)
			}
		}
		if n := one.count("[Permission]"); n != 3 {
			t.Errorf("asked %d times, want 3", n)
		}
	})
}

// What is done in one session's terminal, and to it, leaves the other one alone.
func TestTwoSessionsOneOfThemAtTheTerminal(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		one := approve(t, c, config{Script: []turn{{bash("mkdir a")}, asksBack, {bash("mkdir b")}, {say("Well then.")}, {bash("mkdir c")}}})
		two := one.beside(config{Hooks: approving(t), Script: []turn{{bash("mkdir a")}, asksBack, {bash("mkdir b")}, {bash("mkdir c")}, {say("Bye.")}}})
		one.Prompt("go ahead")
		two.Prompt("go ahead")
		ones, twos := one.nth(1, "[Permission]"), two.nth(1, "[Permission]")
		one.Choose("❯ 1. Yes", "1") // in the terminal first, and the other from Chat
		one.reply(twos, "yes")
		one.awaitIn(ones, "[Answered]", "Answered in the terminal.")
		two.WaitScreen("Shall I commit?")
		one.WaitScreen("Shall I commit?")

		var waits []*chat.Message // a draft in one, while the other goes on
		one.WaitIdle()
		one.Type("half a thought")
		one.WaitScreen("half a thought")
		waits = one.awaitBoth("[Waiting for you]")
		one.reply(waits[0], "go on")
		one.reply(waits[1], "go on")
		two.nth(2, "[Permission]", "mkdir b")
		if screen := one.Screen(); !strings.Contains(screen, "half a thought") || strings.Contains(screen, "go on") {
			t.Errorf("the draft was touched:\n%s", screen)
		}
		one.Keys("C-u")

		ones, twos = one.nth(2, "[Permission]", "mkdir b"), two.nth(2, "[Permission]", "mkdir b")
		one.Choose("❯ 1. Yes", "Escape")
		one.reply(twos, "yes")
		one.awaitIn(ones, "[Cancelled]", "Dismissed in the terminal.")
		twos = two.nth(3, "[Permission]", "mkdir c")
		one.Kill(syscall.SIGKILL)
		one.reply(twos, "yes")
		two.WaitScreen("Bye.")
		for name, want := range map[*bridge]string{one: "a", two: "a b c"} {
			var made []string
			for _, dir := range []string{"a", "b", "c"} {
				if _, err := os.Stat(filepath.Join(name.Dir, dir)); err == nil {
					made = append(made, dir)
				}
			}
			if got := strings.Join(made, " "); got != want {
				t.Errorf("%s has %s, want %s", name.Dir, got, want)
			}
		}
	})
}

// awaitIn is await of a message in the thread of another.
func (b *bridge) awaitIn(m *chat.Message, beginning string, parts ...string) {
	b.t.Helper()
	b.awaitMessage(fmt.Sprintf("%s with %q in the thread", beginning, parts), func(is *chat.Message) bool {
		return is.Thread.Name == m.Thread.Name && strings.HasPrefix(is.Text, beginning) && holdsAll(is.Text, parts)
	})
}

// nth waits for this session's nth message that begins so and has these parts.
func (b *bridge) nth(n int, beginning string, parts ...string) (m *chat.Message) {
	b.t.Helper()
	bound.Until(b.t, fmt.Sprintf("message %d %s with %q", n, beginning, parts), func() bool {
		mine := slices.DeleteFunc(b.chat.Messages(), func(m *chat.Message) bool {
			return !strings.HasPrefix(m.Text, beginning) || !strings.Contains(m.Text, b.Dir+"\n")
		})
		if len(mine) < n {
			return false
		}
		m = mine[n-1]
		return holdsAll(m.Text, parts)
	})
	return m
}

// awaitBoth waits for two messages that begin so, in two threads.
func (b *bridge) awaitBoth(beginning string) (both []*chat.Message) {
	b.t.Helper()
	bound.Until(b.t, "two messages "+beginning, func() bool {
		both = slices.DeleteFunc(b.chat.Messages(), func(m *chat.Message) bool { return !strings.HasPrefix(m.Text, beginning) })
		return len(both) == 2 && both[0].Thread.Name != both[1].Thread.Name
	})
	return both
}

// A session has a thread from its first prompt on: words in it count in the first turn, and after a turn that asks for nothing,
// which leaves one line there.
func TestASessionHasAThreadFromItsFirstPrompt(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := approve(t, c, config{Args: []string{"--allowedTools", "Bash(sleep:*)"}, Script: []turn{
			{bash("sleep 8")}, {say("Done, all tests pass.")}, thanks,
		}})
		b.Prompt("go ahead")
		begun := b.await("[Session Start]", filepath.Base(b.Dir))
		b.WaitScreen("sleep 8")
		b.reply(begun, "and tag it")
		b.await("[Sent]")
		b.API.WaitText(t, "and tag it")
		done := b.await("[Turn Done]", "Done, all tests pass.")
		if done.Thread.Name != begun.Thread.Name {
			t.Errorf("told in %s, begun in %s", done.Thread.Name, begun.Thread.Name)
		}
		b.WaitIdle()
		b.reply(done, "now the next")
		b.API.WaitText(t, "now the next")
		bound.Until(t, "told that it is sent", func() bool { return b.count("[Sent]") == 2 })
		if b.count("[Session Start]") != 1 || b.count("[Not read]") != 0 || b.count("[Waiting for you]") != 0 {
			t.Errorf("the thread says:\n%s", b.texts())
		}
	})
}

// After /branch, words in the session's thread go to the branch at once.
func TestWordsGoToABranchAtOnce(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := approve(t, c, config{Script: []turn{{say("Done.")}, thanks}})
		b.Prompt("go ahead")
		begun := b.await("[Session Start]")
		b.await("[Turn Done]")
		b.WaitIdle()
		b.Type("/branch")
		b.WaitScreen("/branch")
		b.Keys("Enter")
		b.WaitScreen("Branched ")
		b.WaitIdle()
		b.reply(begun, "and on with the branch")
		b.API.WaitText(t, "and on with the branch")
		if n := b.count("[Not read]"); n > 0 {
			t.Errorf("the thread says:\n%s", b.texts())
		}
	})
}
