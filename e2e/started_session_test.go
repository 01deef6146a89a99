package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// allowStarts has the person of a test want sessions to be started.
func allowStarts(t *testing.T, more func(home, project string)) func(home, project string) {
	return func(home, project string) {
		t.Helper()
		writeFile(t, filepath.Join(home, ".config", "gchat-hooks", "config.json"), map[string]any{"start_sessions": true})
		if more != nil {
			more(home, project)
		}
	}
}

// runOwnTmux asks our own tmux server.
func (b *hookedSession) runOwnTmux(args ...string) string {
	socket := filepath.Join(b.Home, ".local", "state", "gchat-hooks", "tmux")
	out, err := exec.Command("tmux", append([]string{"-S", socket}, args...)...).CombinedOutput()
	if err != nil {
		return err.Error() + ": " + string(out)
	}
	return string(out)
}

// Words in the thread of a session that has ended resume it, once, also where two write,
// and go in as its next instruction.
func TestStart_PromptResumesSession(t *testing.T) {
	for name, end := range map[string]func(*hookedSession){
		"left": func(b *hookedSession) { b.Quit() },
		"killed": func(b *hookedSession) {
			b.WaitIdle()
			// What 2.1.197 had not written down yet when it was killed, it cannot resume.
			bound.Until(b.t, "the transcript has the turn", func() bool {
				files, _ := filepath.Glob(filepath.Join(b.Home, ".claude", "projects", "*", "*.jsonl"))
				return slices.ContainsFunc(files, func(file string) bool {
					raw, _ := os.ReadFile(file)
					return strings.Contains(string(raw), "Shall I commit?")
				})
			})
			b.Kill(syscall.SIGKILL)
			b.WaitExit()
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, bothVersions, func(t *testing.T, c claude) {
				b := startApproving(t, c, config{Prepare: allowStarts(t, nil), Script: []turn{askBackTurn, askBackTurn, {textBlock("Heard both.")}, {textBlock("Bye.")}}})
				b.Prompt("go ahead")
				q := b.awaitPost("[Waiting for you]")
				end(b)
				b.awaitPost("[Cancelled]")
				b.reply(q, "first: commit it")
				b.reply(q, "second: push it")
				b.awaitPost("[Started]", "attach")
				b.API.WaitText(t, "first: commit it")
				b.API.WaitText(t, "second: push it")
				bound.Until(t, "both told", func() bool { return b.countPosts("[Sent]") == 2 })
				kit.Equalf(t, b.countPosts("[Started]"), 1, "started")
				for _, words := range []string{"first: commit it", "second: push it"} {
					kit.Equalf(t, b.API.maxCount(words), 1, "Claude has %q", words)
				}
				for _, m := range b.space.Messages() {
					kit.Equalf(t, m.Thread.Name, q.Thread.Name, "%q is in another thread", m.Text)
				}
				windows, err := b.tmux.run("list-windows", "-t", "=claude", "-F", "#{pane_start_command}")
				if err != nil || strings.Count(windows, "--resume") != 1 || strings.Contains(windows, "commit") {
					t.Errorf("windows %q, %v", windows, err)
				}
			})
		})
	}
}

// /new begins a session in a project by the beginning of its name, in our own tmux
// server; its thread begins with what was asked.
func TestStart_NewSession(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Prepare: allowStarts(t, nil), Script: []turn{
			{questionCall(databaseQuestion)}, thanksTurn, {textBlock("The new one is at work.")}, {textBlock("And goes on.")},
		}})
		defer b.runOwnTmux("kill-server")
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[AskUserQuestion]"), "1") // by which the project is known
		b.WaitScreen("Thanks, understood.")
		for text, told := range map[string]string{"/new nothing here": "No project here is called nothing", "/new": "• "} {
			if _, err := b.space.PostAs(space.Person(), "", text); err != nil {
				t.Fatal(err)
			}
			b.awaitPost("[Not used]", told)
		}
		words := "--dangerously-skip-permissions is what I ask; about"
		m, err := b.space.PostAs(space.Person(), "", "/new proj "+words)
		kit.NoError(t, err)
		head := b.awaitPost("[New session] project", words)
		if head.Thread.Name == m.Thread.Name {
			t.Error("it has no thread of its own")
		}
		b.awaitPost("[Started]", "attach")
		b.API.WaitText(t, words)
		if got := b.awaitPost("[Sent]"); got.Thread.Name != head.Thread.Name {
			t.Errorf("told in %s", got.Thread.Name)
		}
		if got := b.runOwnTmux("list-panes", "-a", "-F", "#{pane_start_command} #{pane_current_path}"); strings.Contains(got, "danger") || !strings.Contains(got, b.Dir) {
			t.Errorf("it runs as %q", got)
		}
		b.reply(head, "go on then")
		b.API.WaitText(t, "go on then")
	})
}

// A direct message to the app begins one, too, by this machine's name.
func TestStart_NewSessionByDirectMessage(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{App: true, Prepare: allowStarts(t, nil), Script: []turn{{questionCall(databaseQuestion)}, thanksTurn, {textBlock("At work.")}}})
		defer b.runOwnTmux("kill-server")
		b.Prompt("go ahead")
		b.reply(b.awaitPostFunc("the question", func(m *chat.Message) bool { return len(m.CardsV2) > 0 }), "1")
		b.WaitScreen("Thanks, understood.")
		if _, err := b.space.PostAs(space.Person(), "", "/new "+state.MachineName()+" project tidy up"); err != nil {
			t.Fatal(err)
		}
		head := b.awaitPost("[New session] project", "tidy up")
		b.API.WaitText(t, "tidy up")
		if got := b.awaitPost("[Sent]"); got.Thread.Name != head.Thread.Name {
			t.Errorf("told in %s", got.Thread.Name)
		}
	})
}

// Where a session cannot be started, its thread says why, and nothing is started.
func TestStart_RefusalNamesReason(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*testing.T, *hookedSession)
		told   string
	}{
		"trust withdrawn": {func(t *testing.T, b *hookedSession) {
			kit.NoError(t, os.WriteFile(filepath.Join(b.Home, ".claude.json"), []byte(`{"projects":{}}`), 0o600))
		}, "trust"},
		"folder gone": {func(t *testing.T, b *hookedSession) {
			kit.NoError(t, os.Rename(b.Dir, b.Dir+".old"))
		}, "folder is gone"},
		"transcript gone": {func(t *testing.T, b *hookedSession) {
			kit.NoError(t, os.RemoveAll(filepath.Join(b.Home, ".claude", "projects")))
		}, "transcript is gone"},
		"off": {func(t *testing.T, b *hookedSession) {
			writeFile(t, filepath.Join(b.Home, ".config", "gchat-hooks", "config.json"), map[string]any{})
		}, "claude --resume"},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, testedVersions, func(t *testing.T, cl claude) {
				b := startApproving(t, cl, config{Prepare: allowStarts(t, nil), Script: []turn{askBackTurn, askBackTurn}})
				b.Prompt("go ahead")
				q := b.awaitPost("[Waiting for you]")
				b.Quit()
				b.awaitPost("[Cancelled]")
				c.before(t, b)
				b.reply(q, "go on")
				b.awaitPostFunc("why not", func(m *chat.Message) bool {
					return (strings.HasPrefix(m.Text, "[Not started]") || strings.HasPrefix(m.Text, "[Not read]")) && strings.Contains(m.Text, c.told)
				})
				if n := b.API.maxCount("go on"); n > 0 {
					t.Error("Claude has the words")
				}
			})
		})
	}

}

// Words that are written while Claude Code ends, and while it begins, go to it as well.
func TestStart_PromptsWhileClaudeEnds(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Prepare: allowStarts(t, nil), Script: []turn{
			askBackTurn, askBackTurn, {textBlock("Heard both.")}, {textBlock("Bye.")},
		}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Waiting for you]")
		b.Quit()
		b.reply(q, "first: commit it")
		b.awaitPost("[Started]", "attach")
		b.reply(q, "second: push it")
		b.API.WaitText(t, "first: commit it")
		b.API.WaitText(t, "second: push it")
		for _, m := range b.space.Messages() {
			if strings.HasPrefix(m.Text, "[Not") {
				t.Errorf("told %q", m.Text)
			}
		}
	})
}

// Its project switched the hooks off meanwhile: no hook proves that the words arrived.
func TestStart_PromptOnceWithoutHooks(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Prepare: allowStarts(t, nil), Script: []turn{
			{questionCall(databaseQuestion)}, thanksTurn, {textBlock("One.")}, {textBlock("Two.")}, {textBlock("Three.")}, {textBlock("Four.")},
		}})
		defer b.runOwnTmux("kill-server")
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[AskUserQuestion]"), "1")
		b.WaitScreen("Thanks, understood.")
		writeFile(t, filepath.Join(b.Dir, ".claude", "settings.local.json"), map[string]any{"disableAllHooks": true})
		if _, err := b.space.PostAs(space.Person(), "", "/new proj count to three"); err != nil {
			t.Fatal(err)
		}
		b.API.WaitText(t, "count to three")
		time.Sleep(25 * time.Second)
		kit.Equalf(t, b.API.maxCount("count to three"), 1, "Claude has it")
	})
}
