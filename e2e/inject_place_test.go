package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
)

// checkUntyped gives an answer that must not be typed where at points, and checks that
// nothing was.
func (y *typistSession) checkUntyped(t *testing.T, at inject.Target, why string, choices ...inject.Choice) inject.Outcome {
	t.Helper()
	before := y.heldKeys()
	out := y.AnswerDialog(t.Context(), at, choices)
	t.Logf("%s: %s", out.Result, out.Why)
	if out.Result != inject.Unchanged || out.KeyCount != 0 || y.keys.Load() != 0 {
		t.Errorf("%s, %d keys %q, %d announced: %s", out.Result, out.KeyCount, out.Steps, y.keys.Load(), out.Why)
	}
	kit.Containsf(t, out.Why, why, "why")
	if after := y.heldKeys(); after != before {
		t.Errorf("the screen changed from\n%s\nto\n%s", before, after)
	}
	return out
}

// awaitStill is the screen once it has stood for a moment.
func (s *session) awaitStill() string {
	s.t.Helper()
	last, since := "", time.Now()
	s.WaitScreenFunc("a screen that stands", func(screen string) bool {
		if screen = strings.ReplaceAll(screen, "●", " "); screen != last {
			// it blinks beside a tool that waits
			last, since = screen, time.Now()
		}
		return time.Since(since) > 600*time.Millisecond
	})
	return last
}

// heldKeys is what the screen says of Claude Code's dialog or input box, without the
// hints and notices around it, which come and go; all of the screen where it is neither.
func (s *session) heldKeys() string {
	s.t.Helper()
	text := s.awaitStill()
	screen := inject.ReadScreen(s.runTmux("capture-pane", "-p", "-e", "-t", "=claude:"))
	if screen.Shows == inject.Unknown {
		return text
	}
	screen.Busy = false
	return fmt.Sprintf("%#v", screen)
}

func TestNothingIsTypedElsewhere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *session){
		"after Claude has quit, and where less runs": func(t *testing.T, s *session) {
			y := newTypistSession(t, s)
			at := y.target()
			s.Quit()
			y.checkUntyped(t, at, "has ended", pickOption(deployQuestion, 2))
			s.Type("less /etc/passwd")
			s.Keys("Enter")
			s.WaitScreen("/etc/passwd")
			y.checkUntyped(t, at, "has ended", pickOption(deployQuestion, 2))
		},
		"after Claude was started anew": func(t *testing.T, s *session) {
			y := newTypistSession(t, s)
			at := y.target()
			s.Quit()
			s.API.AddTurns(turn{questionCall(deployQuestion)})
			s.Type(shellLine(s.Claude.Argv...) + " 'go ahead'")
			s.Keys("Enter")
			s.WaitScreen("Esc to cancel")
			y.checkUntyped(t, at, "has ended", pickOption(deployQuestion, 2))
		},
		"another question": func(t *testing.T, s *session) {
			s.showDialog(deployQuestion)
			y := newTypistSession(t, s)
			y.checkUntyped(t, y.target(), "another question is open", pickOption(databaseQuestion, 2))
			changed := deployQuestion
			changed.Options = deployQuestion.Options[:2]
			y.checkUntyped(t, y.target(), "other options", pickOption(changed, 2))
			many := deployQuestion
			many.MultiSelect = true
			y.checkUntyped(t, y.target(), "another dialog", pickOption(many, 2))
		},
		"another session": func(t *testing.T, s *session) {
			s.showDialog(deployQuestion)
			y := newTypistSession(t, s)
			at := y.target()
			at.ClaudeStart = "at another time"
			y.checkUntyped(t, at, "has ended", pickOption(deployQuestion, 2))
			at = y.target()
			at.ClaudePID = 1
			y.checkUntyped(t, at, "", pickOption(deployQuestion, 2))
			at.Pane = "%77"
			y.checkUntyped(t, at, "closed", pickOption(deployQuestion, 2))
		},
		"no dialog, and a draft": func(t *testing.T, s *session) {
			y := newTypistSession(t, s)
			if out := y.checkUntyped(t, y.target(), "no longer open", pickOption(deployQuestion, 2)); !out.DialogGone {
				t.Error("the dialog is gone, which the outcome does not say")
			}
			s.Type("I was thinking")
			s.WaitScreen("I was thinking")
			y.checkUntyped(t, y.target(), "no longer open", pickOption(deployQuestion, 2))
		},
		"a permission dialog": func(t *testing.T, s *session) {
			s.API.AddTurns(turn{toolCall("Bash", map[string]any{"command": "touch something", "description": "Makes a file"})}, thanksTurn)
			s.Prompt("go ahead")
			s.WaitScreen("Do you want to proceed?")
			y := newTypistSession(t, s)
			y.checkUntyped(t, y.target(), "another dialog is open", pickOption(deployQuestion, 2))
		},
		"what a person has begun": func(t *testing.T, s *session) {
			s.showDialog(featuresQuestion)
			s.awaitStill()
			s.Keys("2")
			s.WaitScreen("[✔] Billing")
			y := newTypistSession(t, s)
			y.checkUntyped(t, y.target(), "changed in the terminal", choiceOf(featuresQuestion, labelAnswer("Auth")))
			s.Keys("Escape")
			s.WaitIdle()
			s.API.mu.Lock()
			s.API.script = s.API.script[:s.API.played]
			s.API.mu.Unlock()
			s.showDialog(databaseQuestion, deployQuestion)
			s.awaitStill()
			s.Keys("1")
			s.WaitScreen(deployQuestion.Question)
			y.checkUntyped(t, y.target(), "another question is open", pickOption(databaseQuestion, 2), pickOption(deployQuestion, 2))
		},
		"a pane that somebody is at": func(t *testing.T, s *session) {
			s.showDialog(deployQuestion)
			y := newTypistSession(t, s)
			desk := s.sitDown(t)
			desk("send-keys", "Down")
			s.WaitScreen("❯ 2.")
			y.checkUntyped(t, y.target(), "a person is typing", pickOption(deployQuestion, 2))
			desk("send-keys", "C-b")
			desk("send-keys", "[")
			s.untilMode("1")
			y.checkUntyped(t, y.target(), "scrolled back", pickOption(deployQuestion, 2))
			// Nobody has touched it for a while: then it is set right, and answered.
			y.IdleTime, y.QuietTime = time.Millisecond, time.Millisecond
			y.checkAnswered(t, 1, []string{"Rolling deployment"}, pickOption(deployQuestion, 2))
		},
		"a pane left scrolled back": func(t *testing.T, s *session) {
			s.showDialog(deployQuestion)
			s.runTmux("copy-mode", "-t", "=claude:")
			y := newTypistSession(t, s)
			y.checkAnswered(t, 1, []string{"Rolling deployment"}, pickOption(deployQuestion, 2))
		},
		"a dry run": func(t *testing.T, s *session) {
			s.showDialog(databaseQuestion, featuresQuestion)
			y := newTypistSession(t, s)
			y.DryRun = true
			out := y.checkUntyped(t, y.target(), "", pickOption(databaseQuestion, 2), choiceOf(featuresQuestion, labelAnswer("Auth", "Search")))
			kit.Equalf(t, strings.Join(out.Steps, "; "), "SQLite; Auth, Search", "it would type")
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, testedVersions, func(t *testing.T, cl claude) { test(t, startSession(t, cl, config{})) })
		})
	}
}

// sitDown attaches a terminal to the session: the pane of a second server plays it.
func (s *session) sitDown(t *testing.T) (command func(...string)) {
	desk := tmux{socket: s.tmux.socket + "-desk", dir: s.tmux.dir, env: s.tmux.env}
	socket, _, _ := strings.Cut(s.TMUX(), ",")
	if _, err := desk.run("new-session", "-d", "-x", "120", "-y", "45", "unset TMUX; exec tmux -u -S "+filepath.Clean(socket)+" attach -t =claude"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = desk.run("kill-server") })
	s.WaitScreenFunc("a terminal", func(string) bool { return s.runTmux("list-clients") != "" })
	return func(args ...string) {
		t.Helper()
		if _, err := desk.run(args...); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *session) untilMode(want string) {
	s.t.Helper()
	s.WaitScreenFunc("copy mode", func(string) bool {
		return s.runTmux("display-message", "-p", "-t", "=claude:", "#{pane_in_mode}") == want
	})
}
