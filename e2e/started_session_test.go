package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// allowStarts are the files of a person who wants sessions to be started.
var allowStarts = map[string]string{personalConfig: `{"start_sessions": true}`}

// runOwnTmux asks our own tmux server.
func (b *hookedSession) runOwnTmux(args ...string) string {
	socket := filepath.Join(b.Home, ".local", "state", "gchat-hooks", "tmux")
	out, err := exec.Command("tmux", append([]string{"-S", socket}, args...)...).CombinedOutput()
	if err != nil {
		return err.Error() + ": " + string(out)
	}
	return string(out)
}

// startResumable is startApproving for a person who wants sessions to be started. Claude
// asks back, and hears two prompts.
func startResumable(t *testing.T, c claude, cfg config) *hookedSession {
	t.Helper()
	cfg.Files = allowStarts
	cfg.Script = []turn{
		askBackTurn, askBackTurn, {textBlock("Heard both.")}, {textBlock("Bye.")},
	}
	return startApproving(t, c, cfg)
}

// checkResumed checks that Claude hears each prompt once, and that the session was started
// once, in its thread.
func (b *hookedSession) checkResumed(q *chat.Message, prompts ...string) {
	b.t.Helper()
	for _, prompt := range prompts {
		b.API.WaitTextOnce(b.t, prompt)
	}
	b.checkPosts(1, "[Started]")
	b.checkOneThread(q)
}

// A prompt in the thread of a session that was killed resumes it, once, also where two
// write, and goes in as its next instruction.
func TestStart_PromptResumesSession(t *testing.T) {
	eachSession(t, bothVersions, startResumable, config{}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]")
		b.WaitIdle()
		// What 2.1.197 had not written down yet when it was killed, it cannot resume.
		bound.Until(t, "the transcript has the turn", func() bool {
			return strings.Contains(b.readTranscripts(), "Shall I commit?")
		})
		b.Kill(syscall.SIGKILL)
		b.WaitExit()
		b.awaitPost("[Cancelled]")
		b.reply(q, "first: commit it")
		b.reply(q, "second: push it")
		b.awaitPost("[Started]", "attach")
		b.awaitPosts(2, "[Sent]")
		b.checkResumed(q, "first: commit it", "second: push it")
		windows := b.runTmux("list-windows", "-t", "=claude", "-F", "#{pane_start_command}")
		kit.Equalf(t, strings.Count(windows, "--resume"), 1, "resumed by %s", windows)
		checkLacks(t, windows, "commit")
	})
}

// /new begins a session in a project by the beginning of its name, in our own tmux
// server; its thread begins with what was asked.
func TestStart_NewSession(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{
			Files: allowStarts,
			Script: []turn{
				{questionCall(databaseQuestion)}, thanksTurn,
				{textBlock("The new one is at work.")},
				{textBlock("And goes on.")},
			},
		})
		defer b.runOwnTmux("kill-server")
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[AskUserQuestion]"), "1") // by which the project is known
		b.WaitScreen("Thanks, understood.")
		for text, told := range map[string]string{
			"/new nothing here": "No project here is called nothing", "/new": "• ",
		} {
			b.post("", text)
			b.awaitPost("[Not used]", told)
		}
		prompt := "--dangerously-skip-permissions is what I ask; about"
		head := b.awaitPostInOtherThread(b.postPicture("", "/new proj "+prompt),
			"[New session] project", prompt)
		b.awaitPost("[Started]", "attach")
		b.API.WaitToldFile(t, prompt)
		b.awaitPostInThread(head, "[Sent]")
		panes := b.runOwnTmux("list-panes", "-a", "-F",
			"#{pane_start_command} #{pane_current_path}")
		kit.Containsf(t, panes, b.Dir, "it runs as")
		checkLacks(t, panes, "danger")
		b.reply(head, "go on then")
		b.API.WaitText(t, "go on then")
	})
}

// A direct message to the app begins one, too, by this machine's name.
func TestStart_NewSessionByDirectMessage(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{
			App:    true,
			Files:  allowStarts,
			Script: []turn{{questionCall(databaseQuestion)}, thanksTurn, {textBlock("At work.")}},
		})
		defer b.runOwnTmux("kill-server")
		b.Prompt("go ahead")
		b.reply(
			b.awaitPostFunc("the question",
				func(m *chat.Message) bool { return len(m.CardsV2) > 0 }),
			"1")
		b.WaitScreen("Thanks, understood.")
		b.post("", "/new "+state.MachineName()+" project tidy up")
		head := b.awaitPost("[New session] project", "tidy up")
		b.API.WaitText(t, "tidy up")
		b.awaitPostInThread(head, "[Sent]")
	})
}

// What is written while Claude Code ends, and while it begins, goes to it as well.
func TestStart_PromptsWhileClaudeEnds(t *testing.T) {
	eachSession(t, testedVersions, startResumable, config{}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]")
		b.Quit()
		b.reply(q, "first: commit it")
		b.awaitPost("[Started]", "attach")
		b.reply(q, "second: push it")
		b.checkResumed(q, "first: commit it", "second: push it")
		b.checkNoPost("[Not")
	})
}

// Its project switched the hooks off meanwhile: no hook proves that the prompt arrived.
func TestStart_PromptOnceWithoutHooks(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{
			Files: allowStarts,
			Script: []turn{
				{questionCall(databaseQuestion)}, thanksTurn, {textBlock("One.")},
				{textBlock("Two.")},
				{textBlock("Three.")}, {textBlock("Four.")},
			},
		})
		defer b.runOwnTmux("kill-server")
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[AskUserQuestion]"), "1")
		b.WaitScreen("Thanks, understood.")
		writeFile(t, filepath.Join(b.Dir, ".claude", "settings.local.json"),
			map[string]any{"disableAllHooks": true})
		b.post("", "/new proj count to three")
		b.API.WaitText(t, "count to three")
		time.Sleep(25 * time.Second)
		kit.Equalf(t, b.API.CountText("count to three"), 1, "Claude has it")
	})
}
