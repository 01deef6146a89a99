package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
)

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

func (s *session) untilMode(want string) {
	s.t.Helper()
	s.WaitScreenFunc("copy mode", func(string) bool {
		return s.runTmux("display-message", "-p", "-t", "=claude:", "#{pane_in_mode}") == want
	})
}

// inputBox is the prompt: ❯ and what is typed so far, between two rules. The
// dialogs have a ❯ too, but not under a rule.
var inputBox = regexp.MustCompile(`(?m)^─{8,}.*\n(❯[^\n]*\n(?:(?:[^─\n][^\n]*)?\n)*?)─{8,}`)

// spinner is the line of a turn under way: "✻ Choreographing… (3s · …)". 2.1.329 does
// not say "esc to interrupt" all the while.
var spinner = regexp.MustCompile(`(?m)^\S \S+…( \(|$)`)

// Screen is what a person would see in the pane.
func (s *session) Screen() string {
	s.t.Helper()
	screen, err := s.capture()
	kit.NoError(s.t, err)
	return screen
}

func (s *session) capture() (string, error) {
	return s.tmux.run("capture-pane", "-p", "-t", "=claude:")
}

// WaitScreen waits until the screen holds all parts, and returns the screen.
func (s *session) WaitScreen(parts ...string) string {
	s.t.Helper()
	return s.WaitScreenFunc(fmt.Sprintf("%q", parts),
		func(screen string) bool { return containsAll(screen, parts) })
}

// WaitScreenFunc waits until the screen is as ok wants it; what names that in
// the failure.
func (s *session) WaitScreenFunc(what string, ok func(screen string) bool) string {
	s.t.Helper()
	screen, found := s.pollScreen(patience, ok)
	if !found {
		s.t.Fatalf("the screen did not show %s in %v", what, patience)
	}
	return screen
}

func (s *session) pollScreen(d time.Duration, ok func(screen string) bool) (string, bool) {
	s.t.Helper()
	interval := pollInterval
	for deadline := time.Now().Add(d); ; time.Sleep(interval) {
		screen := s.Screen()
		if ok(screen) {
			return screen, true
		}
		if time.Now().After(deadline) {
			return screen, false
		}
		interval = min(interval*5/4, 3*pollInterval)
	}
}

// WaitDone waits until the screen holds text and Claude Code is idle.
func (s *session) WaitDone(text string) {
	s.t.Helper()
	s.WaitScreen(text)
	s.WaitIdle()
}

// WaitIdle waits until Claude Code has nothing to do but read the prompt.
func (s *session) WaitIdle() {
	s.t.Helper()
	screen := s.WaitScreenFunc("an idle prompt", func(screen string) bool {
		return isIdle(screen) || s.process.Exited(0)
	})
	if s.process.Exited(0) {
		s.t.Fatalf("Claude Code ended by itself:\n%s", screen)
	}
}

func isIdle(screen string) bool {
	return inputBox.MatchString(screen) && !spinner.MatchString(screen) &&
		!strings.Contains(screen, "esc to interrupt")
}

// Keys presses keys by tmux's names ("2", "Down", "Enter", "Escape"), whatever
// is on the screen.
func (s *session) Keys(keys ...string) {
	s.t.Helper()
	s.runTmux(append([]string{"send-keys", "-t", "=claude:"}, keys...)...)
}

// Type types text as it is.
func (s *session) Type(text string) {
	s.t.Helper()
	if rest, ok := strings.CutSuffix(text, ";"); ok {
		text = rest + `\;` // tmux takes a bare ; at the end for a command separator
	}
	s.runTmux("send-keys", "-t", "=claude:", "-l", "--", text)
}

// TypeLine types a line, and Enter.
func (s *session) TypeLine(text string) {
	s.t.Helper()
	s.Type(text)
	s.Keys("Enter")
}

// resize gives the session's window another size.
func (s *session) resize(columns, rows string) {
	s.t.Helper()
	s.runTmux("resize-window", "-t", "=claude:", "-x", columns, "-y", rows)
}

// Choose presses a key in the dialog that shows text, and returns when the text
// is gone. A dialog of 2.1.329 refuses keys in its first 150 ms, lest it swallow
// what a person was typing, so it is left standing for a moment first. A key
// without effect is pressed again, but not soon: one too many would answer the
// next dialog.
func (s *session) Choose(text, key string) {
	s.t.Helper()
	gone := func(screen string) bool { return !strings.Contains(screen, text) }
	for range 3 {
		s.WaitScreen(text)
		if _, early := s.pollScreen(300*time.Millisecond, gone); early {
			continue
		}
		s.Keys(key)
		if _, ok := s.pollScreen(retryAfter, gone); ok {
			return
		}
	}
	s.t.Fatalf("pressing %s did not close the dialog with %q", key, text)
}

// Prompt gives Claude Code one line to work on and returns when it was taken:
// the model was asked, or the line moved up into the conversation.
func (s *session) Prompt(text string) {
	s.t.Helper()
	if strings.ContainsAny(text, "\n\r") {
		s.t.Fatalf("Prompt takes one line: %q", text)
	}
	s.WaitIdle()
	asked, shown := s.API.CountText(text), countAboveInput(s.Screen(), text)
	s.submit(text, func(screen string) bool {
		return s.API.CountText(text) > asked || countAboveInput(screen, text) > shown
	})
}

// submit types a line and presses Enter in a separate call, or the two pass for
// a paste. A session that had only just drawn its prompt may lose either, so
// both are looked after and tried again.
func (s *session) submit(text string, taken func(screen string) bool) {
	s.t.Helper()
	typed := func(screen string) bool { return inputText(screen) == withoutBlanks(text) }
	for range 3 {
		s.Type(text)
		if _, ok := s.pollScreen(retryAfter, typed); !ok {
			s.Keys("C-u")
			continue
		}
		for range 3 {
			s.Keys("Enter")
			screen, ok := s.pollScreen(retryAfter, taken)
			if ok {
				return
			}
			if !typed(screen) {
				// It went somewhere, perhaps to a slow hook. Typing it
				// again now might say it twice.
				s.WaitScreenFunc(fmt.Sprintf("that %q was taken", text), taken)
				return
			}
		}
	}
	s.t.Fatalf("Claude Code did not take %q", text)
}

// inputText is what stands in the prompt, without blanks; "" when there is no prompt.
func inputText(screen string) string {
	box := inputBox.FindStringSubmatch(screen)
	if box == nil {
		return ""
	}
	return strings.TrimPrefix(withoutBlanks(box[1]), "❯")
}

// countAboveInput counts text in the conversation, that is, not in the prompt.
func countAboveInput(screen, text string) int {
	box := inputBox.FindStringIndex(screen)
	if box == nil {
		return 0 // a dialog, or a screen half drawn
	}
	return strings.Count(withoutBlanks(screen[:box[0]]), withoutBlanks(text))
}

// withoutBlanks takes the blanks out: a long line is wrapped and indented.
func withoutBlanks(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// awaitBusy waits until Claude works.
func (b *hookedSession) awaitBusy() {
	b.t.Helper()
	b.WaitScreenFunc("Claude works", func(string) bool {
		capture, err := b.capture()
		return err == nil && inject.ReadScreen(capture).Busy
	})
}

// checkNotShown checks that a text is not on the screen.
func (s *session) checkNotShown(text string) {
	s.t.Helper()
	checkLacks(s.t, s.Screen(), text)
}

// checkLacks checks that a text lacks a part.
func checkLacks(t *testing.T, text, part string) {
	t.Helper()
	if strings.Contains(text, part) {
		t.Errorf("there is %q in\n%s", part, text)
	}
}

// awaitResult checks what the model was told in its n-th tool result.
func (s *session) awaitResult(n int, parts ...string) {
	s.t.Helper()
	if got := s.API.WaitToolResult(s.t, n); !containsAll(got.Text, parts) {
		s.t.Errorf("the model was told %q, which does not hold %q", got.Text, parts)
	}
}

// isMade reports whether a file or a folder is in the project.
func (s *session) isMade(name string) bool { return fileExists(filepath.Join(s.Dir, name)) }

// checkMade checks whether files or folders are in the project.
func (s *session) checkMade(want bool, names ...string) {
	s.t.Helper()
	for _, name := range names {
		kit.Equalf(s.t, s.isMade(name), want, "%s is in the project", name)
	}
}

// awaitMade waits until a file or a folder is in the project.
func (s *session) awaitMade(name string) {
	s.t.Helper()
	bound.Until(s.t, name+" is made", func() bool { return s.isMade(name) })
}
