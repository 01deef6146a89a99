package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// allowUntilShown allows calls in auto mode, whose check cannot run here, until the
// screen shows these words.
func (b *hookedSession) allowUntilShown(prompt string) {
	b.t.Helper()
	keys := []struct{ shows, key string }{
		{"Enter to stay in auto mode", "Enter"}, {"❯ No", "Down"}, {"❯ Yes", "Enter"},
	}
	bound.Until(b.t, "the screen shows "+prompt, func() bool {
		screen := b.Screen()
		for _, k := range keys {
			if strings.Contains(screen, k.shows) {
				b.Keys(k.key)
				bound.WaitFor(2*time.Second,
					func() bool { return !strings.Contains(b.Screen(), k.shows) })
				return false
			}
		}
		return strings.Contains(screen, prompt)
	})
}

// In auto mode a subagent hands its report back by a tool (2.1.332; 2.1.197 has none):
// that is told once, with the report.
func TestReport_SubagentHandsBackByTool(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startHooked(t, c, config{
			Hooks:  reportHooks(t),
			Args:   []string{"--permission-mode", "auto"},
			Script: append(subagentTurns(c, "The sub work is done."), turn{textBlock("Over.")}),
		})
		b.Prompt("go ahead")
		b.allowUntilShown("Over.")
		b.awaitPost("[Subagent Done]", "general-purpose completed task\nThe sub work is done.")
		b.Quit()
		b.awaitPost("[Session End]")
		b.checkPosts(1, "[Subagent Done]")
	})
}

// subagent is a call of the tool that starts one.
func subagent(says string) block {
	input := map[string]any{
		"description":       "help",
		"prompt":            fakemodel.Dictation + says,
		"subagent_type":     "general-purpose",
		"run_in_background": false,
	}
	return toolCall("Agent", input)
}

// subagentTurns is a turn with a subagent. The newest version runs it in the background:
// the model is told that it was begun, pauses, and hears of its end as of a message.
func subagentTurns(c claude, says string) []turn {
	script := []turn{{textBlock("I will have help."), subagent(says)}}
	if c.Version == newestVersion {
		script = append(script, turn{textBlock("I wait for it.")})
	}
	return script
}

// gitRepository makes the project a git repository with one commit, and says that the
// start of a session is to be told.
func gitRepository(t *testing.T, _, project string) {
	writeFile(t, filepath.Join(project, ".claude", "gchat-hooks.json"), map[string]any{
		"reports": map[string]string{"session_start": "on"},
	})
	git(t, project, "init", "-q", "-b", "main")
	git(t, project, "commit", "-q", "--allow-empty", "-m", "begin")
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	who := []string{
		"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false",
	}
	runIn(t, dir,
		append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"), "git",
		append(who, args...)...)
}

func TestReport_SessionAndSubagent(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startHooked(t, c, config{
			Hooks:   reportHooks(t),
			Env:     []string{"CLAUDE_SESSION_ID=orch-epic4"},
			Prepare: gitRepository,
			Script: append(subagentTurns(c, "The *sub* work."),
				turn{textBlock("The **work** is done. <users/all>")}),
		})
		begun := b.awaitPost("[Session Start] orch-epic4 | ", "main")
		b.Prompt("go ahead")
		b.WaitScreen("is done.")
		b.awaitPostInThread(begun, "[Subagent Done] orch-epic4\ngeneral-purpose completed task")
		b.Quit()
		ended := b.awaitPostInThread(begun, "[Session End] orch-epic4 | ", "Duration: ", "Turns: 1",
			"The *work* is done. ‹users/all>")
		if !strings.Contains(ended.Text, "Agent 1") && !strings.Contains(ended.Text, "Task 1") {
			t.Errorf("the tools are missing: %q", ended.Text)
		}
		kit.Equalf(t, len(b.space.Messages()), 3, "messages")
	})
}

func TestReport_PermissionShowsTheCall(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startHooked(t, c, config{
			Hooks: reportHooks(t),
			Script: []turn{
				{
					textBlock("Now the folder."),
					toolCall("Bash", map[string]string{
						"command": "mkdir -p out/of/reach", "description": "make a folder",
					}),
				},
				thanksTurn,
			},
		})
		b.Prompt("go ahead")
		b.awaitPost("[Permission] ", "waits for a permission", "Bash", "mkdir -p out/of/reach")
	})
}

// The question says it already: a second message about the same dialog is noise.
func TestReport_NoneBesideAQuestion(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		rec := newRecorder(t)
		h := questionHooks(t, questionEvents...)
		for event, entries := range reportHooks(t) {
			h[event] = append(h[event], entries...)
		}
		h["Notification"] = append(h["Notification"], rec.Hooks("Notification")["Notification"]...)
		b := startHooked(t, c, config{Hooks: h, Script: deployScript})
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]")
		rec.Wait(t, "Notification")
		b.reply(q, "2")
		b.awaitResult(1, "Rolling deployment")
		b.awaitPost("[Answered]")
		b.Quit()
		b.awaitPost("[Session End]")
		b.checkPosts(0, "[Permission]")
	})
}

// While Chat hangs a session goes on to its end. What it reported arrives when Chat is
// back, once and in order.
func TestReport_HangingChatDelaysNobody(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startHooked(t, c, config{
			Hooks:   reportHooks(t),
			Prepare: gitRepository,
			Script:  twentyEvents(),
		})
		b.gate.holdBack()
		b.Prompt("go ahead")
		b.WaitScreen("All twenty are done.")
		b.Quit()
		b.WaitExit()
		b.checkPosts(len(b.space.Messages()), "[Session Start]") // while Chat hangs
		b.gate.open()
		b.awaitPost("[Session End]", "Turns: ")
		for n := range 20 {
			kit.Equalf(t,
				strings.Count(b.postTexts(),
					fmt.Sprintf("general-purpose completed task\nsub %02d is done", n)),
				1, "subagent %d is reported", n)
		}
	})
}

// twentyEvents is a turn with twenty hook events, one after another.
func twentyEvents() (script []turn) {
	for n := range 20 {
		script = append(script, turn{subagent(fmt.Sprintf("sub %02d is done", n))})
	}
	return append(script, turn{textBlock("All twenty are done.")})
}

// The end of a command in the background is reported once, with its exit code; that of an
// agent only as an agent's.
func TestReport_BackgroundCommandOnce(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		job := toolCall("Bash", map[string]any{
			"command":           "sleep 3; exit 3",
			"description":       "a long & <odd> job",
			"run_in_background": true,
		})
		h := reportHooks(t)
		h["UserPromptSubmit"] = h["SubagentStop"]
		script := append(subagentTurns(c, "The sub work."),
			turn{textBlock("The agent is done."), job}, turn{textBlock("It runs.")},
			turn{textBlock("I saw it end.")})
		b := startHooked(t, c, config{
			Hooks:  h,
			Args:   []string{"--allowedTools", "Bash"},
			Script: script,
		})
		b.Prompt("go ahead")
		b.awaitPost("[Task Done]", "a long & ‹odd> job", "exit code 3")
		b.WaitScreen("I saw it end.")
		b.Quit()
		b.awaitPost("[Session End]")
		b.checkPosts(1, "[Task Done]")
		b.checkPosts(1, "[Subagent Done]")
	})
}
