package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// allowUntilShown allows calls in auto mode, whose check cannot run here, until the
// screen shows these words.
func (b *hookedSession) allowUntilShown(words string) {
	b.t.Helper()
	keys := []struct{ shows, key string }{{"Enter to stay in auto mode", "Enter"}, {"❯ No", "Down"}, {"❯ Yes", "Enter"}}
	bound.Until(b.t, "the screen shows "+words, func() bool {
		screen := b.Screen()
		for _, k := range keys {
			if strings.Contains(screen, k.shows) {
				b.Keys(k.key)
				bound.WaitFor(2*time.Second, func() bool { return !strings.Contains(b.Screen(), k.shows) })
				return false
			}
		}
		return strings.Contains(screen, words)
	})
}

// In auto mode a subagent hands its report back by a tool (2.1.332; 2.1.197 has none):
// that is told once, with the report.
func TestReport_SubagentHandsBackByTool(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startHooked(t, c, config{
			Hooks: reportHooks(t), Args: []string{"--permission-mode", "auto"},
			Script: append(subagentTurns(c, "The sub work is done."), turn{textBlock("Over.")}),
		})
		b.Prompt("go ahead")
		b.allowUntilShown("Over.")
		b.awaitPost("[Subagent Done]", "general-purpose completed task\nThe sub work is done.")
		b.Quit()
		b.awaitPost("[Session End]")
		if n := b.countPosts("[Subagent Done]"); n != 1 {
			t.Errorf("told %d times:\n%s", n, b.postTexts())
		}
	})
}

// subagent is a call of the tool that starts one.
func subagent(says string) block {
	input := map[string]any{"description": "help", "prompt": dictation + says, "subagent_type": "general-purpose", "run_in_background": false}
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
func gitRepository(t *testing.T) func(home, project string) {
	return func(_, project string) {
		writeFile(t, filepath.Join(project, ".claude", "gchat-hooks.json"), map[string]any{"reports": map[string]string{"session_start": "on"}})
		git(t, project, "init", "-q", "-b", "main")
		git(t, project, "commit", "-q", "--allow-empty", "-m", "begin")
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	who := []string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"}
	cmd := bound.Command(t, "git", append(who, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestReport_SessionAndSubagent(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startHooked(t, c, config{
			Hooks: reportHooks(t), Env: []string{"CLAUDE_SESSION_ID=orch-epic4"}, Prepare: gitRepository(t),
			Script: append(subagentTurns(c, "The *sub* work."), turn{textBlock("The **work** is done. <users/all>")}),
		})
		begun := b.awaitPost("[Session Start] orch-epic4 | ", "main")
		b.Prompt("go ahead")
		b.WaitScreen("is done.")
		sub := b.awaitPost("[Subagent Done] orch-epic4\ngeneral-purpose completed task")
		b.Quit()
		ended := b.awaitPost("[Session End] orch-epic4 | ", "Duration: ", "Turns: 1", "The *work* is done. ‹users/all>")
		if !strings.Contains(ended.Text, "Agent 1") && !strings.Contains(ended.Text, "Task 1") {
			t.Errorf("the tools are missing: %q", ended.Text)
		}
		if begun.Thread.Name != sub.Thread.Name || sub.Thread.Name != ended.Thread.Name {
			t.Errorf("one session in three threads: %s, %s, %s", begun.Thread.Name, sub.Thread.Name, ended.Thread.Name)
		}
		kit.Equalf(t, len(b.space.Messages()), 3, "messages")
	})
}

func TestReport_PermissionShowsTheCall(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startHooked(t, c, config{
			Hooks:  reportHooks(t),
			Script: []turn{{textBlock("Now the folder."), toolCall("Bash", map[string]string{"command": "mkdir -p out/of/reach", "description": "make a folder"})}, thanksTurn},
		})
		b.Prompt("go ahead")
		b.awaitPost("[Permission] ", "Claude waits for a permission in the terminal", "Bash", "mkdir -p out/of/reach")
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
		b := startHooked(t, c, config{Hooks: h, Script: []turn{{questionCall(deployQuestion)}, thanksTurn}})
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]")
		rec.Wait(t, "Notification")
		b.reply(q, "2")
		b.awaitResult(1, "Rolling deployment")
		b.awaitPost("[Answered]")
		b.Quit()
		b.awaitPost("[Session End]")
		for _, m := range b.space.Messages() {
			if strings.HasPrefix(m.Text, "[Permission]") {
				t.Errorf("said twice: %q", m.Text)
			}
		}
	})
}

// While Chat hangs a session goes on to its end. What it reported arrives when Chat is
// back, once and in order.
func TestReport_HangingChatDelaysNobody(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startHooked(t, c, config{Hooks: reportHooks(t), Prepare: gitRepository(t), Script: twentyEvents()})
		b.gate.holdBack()
		b.Prompt("go ahead")
		b.WaitScreen("All twenty are done.")
		b.Quit()
		b.WaitExit()
		for _, m := range b.space.Messages() {
			if !strings.HasPrefix(m.Text, "[Session Start]") {
				t.Errorf("while Chat hangs there is %q", m.Text)
			}
		}
		b.gate.open()
		b.awaitPost("[Session End]", "Turns: ")
		for n := range 20 {
			kit.Equalf(t, strings.Count(b.postTexts(), fmt.Sprintf("general-purpose completed task\nsub %02d is done", n)), 1, "subagent %d is reported", n)
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

// TestReport_MeasuresHangingChat measures, and asserts nothing: how long a turn with
// twenty hook events takes without hooks, with hooks that do nothing (what Claude Code
// itself needs to start them), and with ours while Chat hangs. It runs when asked for, in
// a quiet room.
func TestReport_MeasuresHangingChat(t *testing.T) {
	if os.Getenv("GCHAT_E2E_MEASURE") == "" {
		t.Skip("set GCHAT_E2E_MEASURE=1 to measure")
	}
	for _, version := range bothVersions {
		// one version after the other: side by side they would slow each other down
		c := findClaude(t, version)
		nothing := reportHooks(t)
		for event := range nothing {
			// a hook has to take its event
			nothing[event] = []hook{{Command: "cat >/dev/null", Timeout: 10}}
		}
		var none, idle, ours []time.Duration
		for range 7 {
			none = append(none, turnTime(t, c, nil))
			idle = append(idle, turnTime(t, c, nothing))
			ours = append(ours, turnTime(t, c, reportHooks(t)))
		}
		n, i, o := median(none), median(idle), median(ours)
		t.Logf("%s: a turn of 20 events takes %v without hooks, %v with hooks that do nothing, %v with ours: %v an event more than nothing", version,
			n, i, o, (o-i)/20)
	}
}

func turnTime(t *testing.T, c claude, h hooks) (took time.Duration) {
	t.Run("turn", func(t *testing.T) {
		b := startHooked(t, c, config{Hooks: h, Script: twentyEvents()})
		b.gate.holdBack()
		b.Prompt("go ahead")
		b.WaitScreen("All twenty are done.")
		took = b.API.requestSpan()
	})
	return took
}

func median(durations []time.Duration) time.Duration {
	slices.Sort(durations)
	return durations[len(durations)/2]
}

// The end of a command in the background is reported once, with its exit code; that of an
// agent only as an agent's.
func TestReport_BackgroundCommandOnce(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		job := toolCall("Bash", map[string]any{"command": "sleep 3; exit 3", "description": "a long & <odd> job", "run_in_background": true})
		h := reportHooks(t)
		h["UserPromptSubmit"] = h["SubagentStop"]
		script := append(subagentTurns(c, "The sub work."), turn{textBlock("The agent is done."), job}, turn{textBlock("It runs.")}, turn{textBlock("I saw it end.")})
		b := startHooked(t, c, config{Hooks: h, Args: []string{"--allowedTools", "Bash"}, Script: script})
		b.Prompt("go ahead")
		b.awaitPost("[Task Done]", "a long & ‹odd> job", "exit code 3")
		b.WaitScreen("I saw it end.")
		b.Quit()
		b.awaitPost("[Session End]")
		for beginning, want := range map[string]int{"[Task Done]": 1, "[Subagent Done]": 1} {
			n := 0
			for _, m := range b.space.Messages() {
				if strings.HasPrefix(m.Text, beginning) {
					n++
				}
			}
			kit.Equalf(t, n, want, "%s", beginning)
		}
	})
}
