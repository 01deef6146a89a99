package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/inject"
)

// untyped gives an answer that must not be typed where at points, and checks that nothing was.
func (y *typing) untyped(t *testing.T, at inject.Target, why string, choices ...inject.Choice) inject.Outcome {
	t.Helper()
	before := y.held()
	out := y.Answer(t.Context(), at, choices)
	t.Logf("%s: %s", out.Result, out.Why)
	if out.Result != inject.Unchanged || out.Keys != 0 || y.keys.Load() != 0 {
		t.Errorf("%s, %d keys %q, %d announced: %s", out.Result, out.Keys, out.Steps, y.keys.Load(), out.Why)
	}
	if !strings.Contains(out.Why, why) {
		t.Errorf("why: %q, want %q", out.Why, why)
	}
	if after := y.held(); after != before {
		t.Errorf("the screen changed from\n%s\nto\n%s", before, after)
	}
	return out
}

// still is the screen once it has stood for a moment.
func (s *session) still() string {
	s.t.Helper()
	last, since := "", time.Now()
	s.WaitScreenFunc("a screen that stands", func(screen string) bool {
		if screen = strings.ReplaceAll(screen, "●", " "); screen != last { // it blinks beside a tool that waits
			last, since = screen, time.Now()
		}
		return time.Since(since) > 600*time.Millisecond
	})
	return last
}

// held is what the screen says of Claude Code's dialog or input box, without the hints and notices around it, which come
// and go; all of the screen where it is neither.
func (s *session) held() string {
	s.t.Helper()
	text := s.still()
	screen := inject.ReadScreen(s.command("capture-pane", "-p", "-e", "-t", "=claude:"))
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
			y := typist(t, s)
			at := y.target()
			s.Quit()
			y.untyped(t, at, "has ended", pick(deploy, 2))
			s.Type("less /etc/passwd")
			s.Keys("Enter")
			s.WaitScreen("/etc/passwd")
			y.untyped(t, at, "has ended", pick(deploy, 2))
		},
		"after Claude was started anew": func(t *testing.T, s *session) {
			y := typist(t, s)
			at := y.target()
			s.Quit()
			s.API.Script(turn{ask(deploy)})
			s.Type(shellLine(s.Claude.Argv...) + " 'go ahead'")
			s.Keys("Enter")
			s.WaitScreen("Esc to cancel")
			y.untyped(t, at, "has ended", pick(deploy, 2))
		},
		"another question": func(t *testing.T, s *session) {
			s.dialog(deploy)
			y := typist(t, s)
			y.untyped(t, y.target(), "another question is open", pick(database, 2))
			changed := deploy
			changed.Options = deploy.Options[:2]
			y.untyped(t, y.target(), "other options", pick(changed, 2))
			many := deploy
			many.MultiSelect = true
			y.untyped(t, y.target(), "another dialog", pick(many, 2))
		},
		"another session": func(t *testing.T, s *session) {
			s.dialog(deploy)
			y := typist(t, s)
			at := y.target()
			at.ClaudeStart = "at another time"
			y.untyped(t, at, "has ended", pick(deploy, 2))
			at = y.target()
			at.ClaudePID = 1
			y.untyped(t, at, "", pick(deploy, 2))
			at.Pane = "%77"
			y.untyped(t, at, "closed", pick(deploy, 2))
		},
		"no dialog, and a draft": func(t *testing.T, s *session) {
			y := typist(t, s)
			if out := y.untyped(t, y.target(), "not open any more", pick(deploy, 2)); !out.Gone {
				t.Error("the dialog is gone, which the outcome does not say")
			}
			s.Type("I was thinking")
			s.WaitScreen("I was thinking")
			y.untyped(t, y.target(), "not open any more", pick(deploy, 2))
		},
		"a permission dialog": func(t *testing.T, s *session) {
			s.API.Script(turn{call("Bash", map[string]any{"command": "touch something", "description": "Makes a file"})}, thanks)
			s.Prompt("go ahead")
			s.WaitScreen("Do you want to proceed?")
			y := typist(t, s)
			y.untyped(t, y.target(), "another dialog is open", pick(deploy, 2))
		},
		"what a person has begun": func(t *testing.T, s *session) {
			s.dialog(features)
			s.still()
			s.Keys("2")
			s.WaitScreen("[✔] Billing")
			y := typist(t, s)
			y.untyped(t, y.target(), "changed in the terminal", choice(features, labels("Auth")))
			s.Keys("Escape")
			s.WaitIdle()
			s.API.mu.Lock()
			s.API.script = s.API.script[:s.API.played]
			s.API.mu.Unlock()
			s.dialog(database, deploy)
			s.still()
			s.Keys("1")
			s.WaitScreen(deploy.Question)
			y.untyped(t, y.target(), "another question is open", pick(database, 2), pick(deploy, 2))
		},
		"a pane that somebody is at": func(t *testing.T, s *session) {
			s.dialog(deploy)
			y := typist(t, s)
			desk := s.sitDown(t)
			desk("send-keys", "Down")
			s.WaitScreen("❯ 2.")
			y.untyped(t, y.target(), "a person is typing", pick(deploy, 2))
			desk("send-keys", "C-b")
			desk("send-keys", "[")
			s.untilMode("1")
			y.untyped(t, y.target(), "scrolled back", pick(deploy, 2))
			// Nobody has touched it for a while: then it is set right, and answered.
			y.Idle, y.Quiet = time.Millisecond, time.Millisecond
			y.answered(t, 1, []string{"Rolling deployment"}, pick(deploy, 2))
		},
		"a pane left scrolled back": func(t *testing.T, s *session) {
			s.dialog(deploy)
			s.command("copy-mode", "-t", "=claude:")
			y := typist(t, s)
			y.answered(t, 1, []string{"Rolling deployment"}, pick(deploy, 2))
		},
		"a dry run": func(t *testing.T, s *session) {
			s.dialog(database, features)
			y := typist(t, s)
			y.DryRun = true
			out := y.untyped(t, y.target(), "", pick(database, 2), choice(features, labels("Auth", "Search")))
			if got := strings.Join(out.Steps, "; "); got != "SQLite; Auth, Search" {
				t.Errorf("it would type %q", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, ours, func(t *testing.T, cl claude) { test(t, start(t, cl, config{})) })
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
	s.WaitScreenFunc("a terminal", func(string) bool { return s.command("list-clients") != "" })
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
		return s.command("display-message", "-p", "-t", "=claude:", "#{pane_in_mode}") == want
	})
}
