package e2e

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// These tests are about the harness: what it claims to show is there, and what
// it starts is gone afterwards.

var deployQuestion = question{
	Question: "Which deployment approach should we use?", Header: "Deploy",
	Options: []option{
		{Label: "Blue-green deployment", Description: "Zero downtime with instant rollback."},
		{Label: "Rolling deployment", Description: "Gradual rollout."},
		{Label: "Canary", Description: "Small slice first."},
	},
}

const firstOption = "❯ 1. Blue-green deployment"

func TestHarnessReachesOnlyLoopback(t *testing.T) {
	requireIsolation(t)
	// 192.0.2.0/24 is nobody's; without a route it is refused here, at once.
	conn, err := net.DialTimeout("tcp", "192.0.2.1:443", time.Second)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("dial an address outside: %v", err)
	}
}

func TestHarnessAnswersInTheTerminal(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		s := startSession(t, c, config{Script: []turn{
			{textBlock("I need to ask you something."), questionCall(deployQuestion)},
			{textBlock("Rolling it is.")},
			{textBlock("Again: rolling.")},
		}})
		s.Prompt("go ahead")
		s.Choose(firstOption, "2")
		if got := s.API.WaitToolResult(t, 1); !strings.Contains(got.Text, "Rolling deployment") {
			t.Errorf("the model was told %q", got.Text)
		}
		s.WaitScreen("Rolling it is.")
		s.Prompt("go ahead") // the same words a second time are a second prompt
		s.WaitScreen("Again: rolling.")
	})
}

func TestHarnessAnswersFromAHook(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		rec := newRecorder(t)
		answers := filepath.Join(t.TempDir(), "answers.json")
		h := rec.Hooks("SessionStart", "PreToolUse", "PostToolUse", "Stop")
		h["PermissionRequest"] = []hook{{Matcher: "AskUserQuestion", Command: rec.Answer(answers), Timeout: 60}}
		s := startSession(t, c, config{Hooks: h, Script: []turn{{questionCall(deployQuestion)}, {textBlock("A canary, then.")}}})
		s.Prompt("go ahead")
		s.WaitScreen(firstOption) // the hook waits beside the open dialog
		writeFile(t, answers, map[string]string{deployQuestion.Question: "Canary"})
		if got := s.API.WaitToolResult(t, 1); !strings.Contains(got.Text, "Canary") {
			t.Errorf("the model was told %q", got.Text)
		}
		s.WaitScreen("A canary, then.")
		rec.Wait(t, "Stop")

		var names []string
		for _, e := range rec.Events() {
			names = append(names, e.Name)
		}
		if got, want := strings.Join(names, " "), "SessionStart PreToolUse PermissionRequest PostToolUse Stop"; got != want {
			t.Errorf("hook events: %s, want %s", got, want)
		}
		var payload struct {
			Input struct{ Questions []question } `json:"tool_input"`
		}
		if err := json.Unmarshal(rec.Wait(t, "PermissionRequest").Payload, &payload); err != nil || len(payload.Input.Questions) != 1 {
			t.Errorf("PermissionRequest payload: %v, %d questions", err, len(payload.Input.Questions))
		}
	})
}

// However Claude Code ends, nothing of it is left when the test is over, not even
// what a hook started behind its back.
func TestHarnessLeavesNothing(t *testing.T) {
	t.Parallel()
	endings := map[string]func(*session){
		"esc": func(s *session) {
			s.Choose(firstOption, "Escape")
			s.WaitIdle()
		},
		"exit": func(s *session) {
			s.Choose(firstOption, "Escape")
			s.Quit()
			s.WaitScreen("claude exited: 0")
		},
		"kill": func(s *session) {
			s.Kill(syscall.SIGKILL)
			s.WaitExit()
			s.WaitScreen("claude exited: 137")
		},
		"open": func(*session) {}, // the test ends first
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, testedVersions, func(t *testing.T, c claude) {
				rec := newRecorder(t)
				never := filepath.Join(t.TempDir(), "never")
				var s *session
				t.Cleanup(func() { checkNothingLeft(t, s) }) // registered first, runs last
				s = startSession(t, c, config{
					Script: []turn{{questionCall(deployQuestion)}},
					Hooks: hooks{
						"SessionStart":      {{Command: "setsid sleep 600 </dev/null >/dev/null 2>&1 & " + rec.Command()}},
						"PermissionRequest": {{Command: rec.Answer(never)}},
					},
				})
				rec.Wait(t, "SessionStart")
				if n := len(markedProcesses(sessionVariable + "=" + s.processMark)); n < 4 {
					// tmux, shell, Claude Code, sleep
					t.Fatalf("%d processes carry the session's mark", n)
				}
				s.Prompt("go ahead")
				rec.Wait(t, "PermissionRequest")
				s.WaitScreen(firstOption)
				end(s)
				if name == "esc" {
					rec.WaitFor(t, "of a hook that was stopped", func(e event) bool { return e.Stopped })
				}
			})
		})
	}
}

func checkNothingLeft(t *testing.T, s *session) {
	if s == nil {
		return
	}
	for _, p := range markedProcesses(sessionVariable + "=" + s.processMark) {
		t.Errorf("still there: %s", p)
	}
	if _, err := os.Stat(s.tmux.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the session's folder: %v", err)
	}
	if out, err := s.tmux.run("list-sessions"); err == nil {
		t.Errorf("the tmux server answers: %s", out)
	}
}

func TestHarnessReadsThePrompt(t *testing.T) {
	rule := strings.Repeat("─", 40) + "\n"
	tests := []struct {
		name, screen string
		boxed        string
		idle         bool
	}{
		{"empty", rule + "❯\u00a0\n" + rule + "  ? for shortcuts\n", "", true},
		{"typed", rule + "❯ go ahead\n" + rule, "goahead", true},
		{"wrapped", rule + "❯ go\n  ahead\n\n" + rule, "goahead", true},
		{"busy", rule + "❯ \n" + rule + "  esc to interrupt\n", "", false},
		{"busy, without the hint", "✻ Choreographing… (3s · ↓ 8 tokens)\n" + rule + "❯ \n" + rule, "", false},
		{"done", "✻ Crunched for 0s · done\n" + rule + "❯ \n" + rule, "", true},
		{"dialog", rule + " ☐ Deploy\n\n❯ 1. Canary\n" + rule + "  2. Chat about this\n", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kit.Equalf(t, inputText(tt.screen), tt.boxed, "in the prompt")
			kit.Equalf(t, isIdle(tt.screen), tt.idle, "idle")
		})
	}
}
