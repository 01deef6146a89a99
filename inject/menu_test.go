package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// showRecordedScreen opens a pane with a screen that Claude Code 2.1.329 drew. A program
// of its name runs there, records every key and changes nothing. What the real Claude
// Code does with the keys is tested in e2e.
func (w testTmux) showRecordedScreen(screen string) Pane {
	w.t.Helper()
	drawn := kit.ReadFile(w.t, filepath.Join("testdata", "menu", screen+".ansi"))
	kit.WriteFile(w.t, filepath.Join(w.dir, screen), strings.TrimSuffix(drawn, "\n"), 0o600)
	kit.WriteFile(w.t, filepath.Join(w.dir, "claude"), kit.ReadFile(w.t, "/bin/cat"), 0o700)
	id := w.tmux("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", screen, "-x", "110", "-y", "40", "-c", w.dir, "sh", "-c",
		// The last claude stands in for a shell.
		"cat "+screen+"; stty raw -echo; : >got; ./claude >got; stty sane; echo ended; exec ./claude")
	w.awaitProcess(w.pane(id), "claude")
	want := ReadScreen(drawn)
	bound.Until(w.t, "the screen is there", func() bool {
		now, err := w.Capture(w.t.Context(), id)
		return err == nil && ReadScreen(now).Shows == want.Shows
	})
	kit.Must(w.t, want.Shows != Unknown, "%s is not read: %s", screen, want.Why)
	return w.pane(id)
}

// awaitFrontProgram waits until the program that replaces a pane's shell runs and tmux
// names it. While a program is being replaced, tmux 3.3a names the first word of the
// pane's command.
func (w testTmux) awaitFrontProgram(pane, name string) {
	w.t.Helper()
	w.awaitProcess(w.pane(pane), name)
	bound.Until(w.t, "tmux says "+name,
		func() bool { return filepath.Base(w.pane(pane).Program) == name })
}

// getenv reads the environment of a program in one of the server's panes.
func (w testTmux) getenv(name string) string {
	switch name {
	case "TMUX":
		return w.Socket + ",1,0"
	case "HOME":
		return w.dir
	}
	return os.Getenv(name)
}

func (w testTmux) sentKeys() string {
	b, _ := os.ReadFile(filepath.Join(w.dir, "got"))
	return string(b)
}

// runMenu runs menu-driver once.
func (w testTmux) runMenu(session, action string, args ...string) (code int, said string) {
	w.t.Helper()
	var out bytes.Buffer
	m := Menu{UserState: filepath.Join(w.dir, "state"), Out: &out, Env: w.getenv,
		EffectTimeout: time.Millisecond}
	err := m.Run(w.t.Context(), session, action, args)
	if err == nil {
		return 0, out.String()
	}
	var coded *state.UserError
	if !errors.As(err, &coded) || coded.Hint == "" {
		w.t.Errorf("%s %s %q: no exit code or hint: %v", session, action, args, err)
		return -1, err.Error()
	}
	return coded.Code, err.Error()
}

// exitCode is what menu-driver exits with; 0 for none of its own.
func exitCode(err error) int {
	var coded *state.UserError
	if errors.As(err, &coded) {
		return coded.Code
	}
	return 0
}

// runAsClaude runs a shell script that draws a box, under the name of Claude Code.
func (w testTmux) runAsClaude(script string) Pane {
	w.t.Helper()
	kit.WriteFile(w.t, filepath.Join(w.dir, "claude"), kit.ReadFile(w.t, "/bin/sh"), 0o700)
	kit.NoError(w.t, os.WriteFile(filepath.Join(w.dir, "script"), []byte(script), 0o600))
	p := w.newSession("box", "exec ./claude script")
	w.awaitText(p.ID, "❯")
	return p
}

// A refused action sends nothing. An allowed action sends these keys and reports that
// they had no effect, because this program ignores them.
func TestMenu_EveryScreen(t *testing.T) {
	const refused, sent = 2, 3
	type does struct {
		action string
		code   int
		keys   string // that the program receives
		says   string
	}
	const paste = "hello" // without brackets, since this program does not ask for them
	for screen, table := range map[string][]does{
		"idle": {
			{"choose 1", refused, "", "no dialog is open; the screen shows an empty input box"},
			{"enter", refused, "",
				"there is nothing that Enter would answer or send; the screen shows an empty input box"},
			{"esc", refused, "", "nothing to leave or to interrupt"},
			{"submit", refused, "", "nothing to submit"},
			{"type hello", sent, paste,
				"text: hello was sent, but the screen still shows an empty input box"},
			{"clear_then hello", sent, "/clear", "text: /clear was sent"},
		},
		"busy": {
			{"clear_then hello", refused, "",
				"Claude is not idle at an empty input box; the screen shows Claude at work"},
			{"choose 1", refused, "", "no dialog is open; the screen shows Claude at work"},
			{"esc", sent, "\x1b", "Escape was sent, but the screen still shows Claude at work"},
		},
		"draft": {
			{"choose 1", refused, "",
				"no dialog is open; the screen shows a text in the input box"},
			{"type hello", refused, "", "nothing was typed: there already is a text, \"go ahead\""},
			{"clear_then hello", refused, "", "not idle at an empty input box"},
			{"esc", refused, "", "nothing to leave"},
			{"enter", sent, "\r", "Enter was sent"},
			{"submit", sent, "\r", "Enter was sent"},
		},
		"single": {
			{"choose 7", refused, "", "no row is numbered 7"},
			{"type hello", sent, "\x1b[B", "Down was sent, but"},
			{"submit", refused, "", "nothing to submit"},
			{"clear_then hello", refused, "", "not idle"},
			{"choose 2", sent, "2", "2 was sent, but"},
			{"choose 4", sent, "\x1b[B", "was sent, but"},
			{"enter", sent, "\r", "Enter was sent"},
			{"esc", sent, "\x1b", "Escape was sent"},
		},
		"single-field": {
			{"choose 2", sent, "\x1b[A", "was sent, but"}, // a digit would be text
			{"submit", refused, "", "nothing to submit"},
			{"type hello", sent, "hello", "text: hello was sent"},
		},
		"single-typed": {
			{"choose 2", refused, "", "would be lost"},
			{"type hello", refused, "", "nothing was typed: there already is a text"},
			{"submit", sent, "\r", "Enter was sent"},
		},
		"multi": {
			{"type hello", sent, "\x1b[B", "Down was sent, but"},
			{"choose 2", sent, "2", "2 was sent"},
			{"submit", sent, "\x1b[B", "was sent, but"},
		},
		"review": {
			{"type hello", refused, "", "no place for a text"},
			{"clear_then hello", refused, "", "not idle"},
			{"choose 3", refused, "", "no row is numbered 3"},
			{"submit", sent, "1", "1 was sent"},
			{"choose 2", sent, "2", "2 was sent"},
		},
		"permission": {
			{"type hello", refused, "", "no place for a text"},
			{"submit", refused, "", "nothing to submit"},
			{"clear_then hello", refused, "", "not idle"},
			{"choose 5", refused, "", "no row is numbered 5"},
			{"choose 2", refused, "",
				"menu-driver does not decide what Claude may do; the screen shows the dialog \"Do you want to proceed?\""},
			{"enter", refused, "", "menu-driver does not decide what Claude may do"},
			{"esc", sent, "\x1b", "Escape was sent"},
		},
	} {
		t.Run(screen, func(t *testing.T) {
			t.Parallel()
			w, _ := newTestTmux(t, "exec sleep 600")
			w.showRecordedScreen(screen)
			want := ""
			for _, d := range table {
				f := strings.SplitN(d.action, " ", 2)
				code, said := w.runMenu(screen, f[0], f[1:]...)
				kit.True(t, code == d.code && strings.Contains(said, d.says),
					"%s: exit %d: %s; want %d: %s", d.action, code, said, d.code, d.says)
				want += d.keys
				bound.Until(t, d.action+" has sent its keys",
					func() bool { return len(w.sentKeys()) >= len(want) })
			}
			kit.NoError(t, w.PasteText(t.Context(),
				w.tmux("list-panes", "-t", "="+screen, "-F", "#{pane_id}"), "."))
			w.checkReceived(want + ".")
		})
	}
}

func TestMenu_GuardsThePane(t *testing.T) {
	actions := []string{"choose 1", "enter", "esc", "type hello", "submit", "clear_then hello"}
	for name, c := range map[string]struct {
		screen string
		set    func(w testTmux, p Pane)
		says   string
	}{
		"another program": {"single", func(w testTmux, p Pane) {
			w.copyProgram("editor")
			w.tmux("respawn-pane", "-k", "-t", p.ID, "cat single; exec ./editor 600")
			w.awaitFrontProgram(p.ID, "editor")
		}, "no Claude Code to type to: the pane runs editor"},
		"scrolled back": {"single", func(w testTmux, p Pane) { w.tmux("copy-mode", "-t", p.ID) },
			"takes no keys"},
		"input off": {"single",
			func(w testTmux, p Pane) { w.tmux("select-pane", "-d", "-t", p.ID) },
			"input is switched off"},
		"synchronized": {"single",
			func(w testTmux, p Pane) {
				w.tmux("set-option", "-w", "-t", p.ID, "synchronize-panes",
					"on")
			}, "goes to all panes"},
		"dead": {"single", func(w testTmux, p Pane) {
			w.tmux("set-option", "-w", "-t", p.ID, "remain-on-exit", "on")
			w.tmux("respawn-pane", "-k", "-t", p.ID, "true")
			bound.Until(w.t, "it is dead", func() bool { return w.pane(p.ID).Dead })
		}, "has ended"},
		"another of ours types": {"single", lockPane,
			"gchat-hooks is typing into this pane already"},
		"unknown screen": {"single", func(w testTmux, p Pane) {
			w.tmux("respawn-pane", "-k", "-t", p.ID,
				"echo Pick a model:; stty raw -echo; exec ./claude >got")
			w.awaitFrontProgram(p.ID, "claude")
			w.awaitText(p.ID, "Pick")
		}, "the screen shows no dialog of Claude Code"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := newTestTmux(t, "exec sleep 600")
			p := w.showRecordedScreen(c.screen)
			c.set(w, p)
			for _, action := range actions {
				f := strings.SplitN(action, " ", 2)
				code, said := w.runMenu(c.screen, f[0], f[1:]...)
				wrong := !strings.Contains(said, c.says)
				if name == "scrolled back" {
					// tmux refuses the first key, or the screen is refused before that.
					wrong = wrong && !strings.Contains(said, "the screen shows")
				}
				kit.True(t, code == 2 && !wrong,
					"%s: exit %d: %s; want %q", action, code, said, c.says)
			}
			kit.Equalf(t, w.sentKeys(), "", "keys were sent")
			code, said := w.runMenu(c.screen, "snapshot")
			kit.True(t, code == 0, "snapshot: exit %d: %s", code, said)
		})
	}
}

func TestMenu_WrongArguments(t *testing.T) {
	w, _ := newTestTmux(t, "exec sleep 600")
	for _, args := range [][]string{{"dance"}, {""}, {"choose"}, {"choose", "0"}, {"choose", "10"},
		{"choose", "x"}, {"choose", "1", "2"}, {"type"}, {"type", " "},
		{"type", "\x1b[A"}, {"clear_then"}, {"enter", "x"}, {"esc", "x"}, {"submit", "x"},
		{"snapshot", "x"}} {
		code, said := w.runMenu("main", args[0], args[1:]...)
		kit.True(t, code == 4, "%q: exit %d: %s", args, code, said)
	}
	for _, session := range []string{"none", "", "%999", "main:0.0"} {
		code, said := w.runMenu(session, "snapshot")
		kit.True(t, code == 1, "%q: exit %d: %s", session, code, said)
	}
	w.tmux("kill-server")
	bound.Until(t, "the server is gone",
		func() bool { _, err := w.Panes(t.Context()); return errors.Is(err, ErrNoServer) })
	code, said := w.runMenu("main", "enter")
	kit.True(t, code == 1, "no server: exit %d: %s", code, said)
}

func TestMenu_FindsThePaneWithClaude(t *testing.T) {
	w, shell := newTestTmux(t, "echo the shell; exec sleep 600")
	w.copyProgram("claude")
	w.tmux("split-window", "-d", "-t", shell.ID, "-c", w.dir, "sh", "-c",
		"echo the first; exec ./claude 600")
	w.tmux("split-window", "-d", "-t", shell.ID, "-c", w.dir, "sh", "-c",
		"echo the editor; exec sleep 600")
	var first Pane
	bound.Until(t, "the first one has the keyboard", func() bool {
		panes, _ := w.Panes(t.Context())
		for _, p := range panes {
			if _, err := p.FindClaude(0, ""); err == nil {
				first = p
			}
		}
		return first.ID != ""
	})
	w.awaitText(first.ID, "the first")
	for _, name := range []string{"main", "mai", first.ID} {
		code, said := w.runMenu(name, "snapshot")
		kit.True(t, code == 0 && said == "the first\n", "%s: exit %d: %q", name, code, said)
	}
	w.awaitText(shell.ID, "the shell")
	code, said := w.runMenu(shell.ID, "snapshot")
	kit.True(t, code == 0 && said == "the shell\n", "by its number: exit %d: %q", code, said)
	second := w.tmux("split-window", "-d", "-P", "-F", "#{pane_id}", "-t", shell.ID, "-c", w.dir,
		"sh", "-c", "exec ./claude 600")
	bound.Until(t, "the second one has the keyboard",
		func() bool { _, err := w.pane(second).FindClaude(0, ""); return err == nil })
	code, said = w.runMenu("main", "enter")
	kit.True(t, code == 2 && strings.Contains(said, first.ID) && strings.Contains(said, second),
		"two: exit %d: %s", code, said)
	w.tmux("kill-pane", "-t", first.ID)
	w.tmux("kill-pane", "-t", second)
	code, said = w.runMenu("main", "enter")
	kit.True(t, code == 2 && strings.Contains(said, "2 panes, 0 with Claude Code"),
		"none: exit %d: %s", code, said)
}

func TestMenu_ServerFromTheEnvironment(t *testing.T) {
	w, _ := newTestTmux(t, "echo here; exec sleep 600")
	p := w.newSession("only-here", "echo here; exec sleep 600")
	w.awaitText(p.ID, "here")
	var out bytes.Buffer
	m := Menu{UserState: w.dir, Out: &out, Env: w.getenv}
	err := m.Run(t.Context(), "only-here", "snapshot", nil)
	kit.True(t, err == nil && out.String() == "here\n", "by $TMUX: %v: %q", err, out.String())
	t.Setenv("TMUX_TMPDIR", w.dir)
	m.Env = func(string) string { return "" }
	err = m.Run(t.Context(), "only-here", "snapshot", nil)
	kit.True(t, errors.Is(err, ErrNoServer), "the default one of an empty folder: %v", err)
}

func TestMenu_LocksThePane(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	kit.NoError(t, os.WriteFile(socket, nil, 0o600))
	link := filepath.Join(dir, "link")
	kit.NoError(t, os.Symlink(dir, link))
	l, err := LockPane(dir, Server{Socket: socket}, "%1")
	kit.NoError(t, err)
	_, err = LockPane(dir, Server{Socket: filepath.Join(link, "s")}, "%1")
	kit.True(t, errors.Is(err, state.ErrLocked), "the same pane by another path: %v", err)
	for _, free := range []struct {
		s    Server
		pane string
	}{{Server{Socket: socket}, "%11"}, {Server{Socket: filepath.Join(dir, "s2")}, "%1"}} {
		other, err := LockPane(dir, free.s, free.pane)
		kit.NoError(t, err)
		other.Unlock()
	}
	l.Unlock()
	l, err = LockPane(dir, Server{Socket: socket}, "%1")
	kit.NoError(t, err)
	l.Unlock()
}

// With InterruptOnly, esc leaves an open dialog alone. It presses nothing in the pane of
// another Claude Code.
func TestMenu_InterruptsOnlyWhatIsMeant(t *testing.T) {
	w, _ := newTestTmux(t, "exec sleep 600")
	p := w.showRecordedScreen("permission")
	for name, m := range map[string]Menu{
		"a dialog":       {InterruptOnly: true},
		"another Claude": {ClaudePID: os.Getpid(), ClaudeStart: ProcessStart(os.Getpid())},
	} {
		m.UserState, m.Env, m.EffectTimeout = filepath.Join(w.dir,
			"state"), w.getenv, time.Millisecond
		err := m.Run(t.Context(), p.ID, "esc", nil)
		kit.True(t, exitCode(err) == exitRefused, "%s: %v", name, err)
	}
	kit.Equalf(t, w.sentKeys(), "", "keys")
}

// Without MayDecide, menu-driver chooses nothing in any dialog that lets Claude act, and
// nothing in an unknown dialog.
func TestMenu_DecidesInNoRecordedDialog(t *testing.T) {
	runForVersions(t, func(t *testing.T, version string) {
		seen := 0
		for name, capture := range recordedScreens(t, version) {
			s := ReadScreen(capture)
			if s.Shows != Permission && !strings.HasPrefix(name, "trust") {
				continue
			}
			seen++
			for action, args := range map[string][]string{"choose": {"1"}, "enter": nil,
				"submit": nil, "type": {"yes"}, "clear_then": {"yes"}} {
				d := menuRun{Menu: Menu{Env: func(string) string { return "" }},
					keyboard: keyboard{screen: s}}
				do, err := d.findAction(action, args)
				kit.NoError(t, err)
				err = do(t.Context())
				kit.True(t, exitCode(err) == exitRefused,
					"%s in %s: %v", action, name, err)
			}
		}
		kit.True(t, seen >= 15, "%d dialogs", seen)
	})
}

// With MayDecide, menu-driver chooses in such dialogs. It logs each decision before it
// presses the key.
func TestMenu_DecidesAndReportsIt(t *testing.T) {
	w, _ := newTestTmux(t, "exec sleep 600")
	p := w.showRecordedScreen("permission")
	run := func(pane Pane, env state.Getenv, args ...string) error {
		m := Menu{UserState: filepath.Join(w.dir, "state"), Env: env,
			EffectTimeout: time.Millisecond, MayDecide: true}
		return m.Run(t.Context(), pane.ID, args[0], args[1:])
	}
	itself := func(name string) string {
		if name == "CLAUDE_PID" {
			return strconv.Itoa(w.awaitProcess(p, "claude"))
		}
		return w.getenv(name)
	}
	err := run(p, itself, "choose", "1")
	kit.True(t, exitCode(err) == exitRefused &&
		strings.Contains(err.Error(), "a session does not decide"),
		"for itself: %v", err)
	noLog := func(name string) string {
		return map[string]string{"TMUX": w.Socket + ",1,0", "HOME": os.DevNull}[name]
	}
	err = run(p, noLog, "choose", "1")
	kit.True(t, exitCode(err) == exitRefused &&
		strings.Contains(err.Error(), "nothing was pressed"),
		"without the log: %v", err)
	// The program ignores the keys.
	kit.Equal(t, exitCode(run(p, w.getenv, "choose", "2")), exitUnseen)
	kit.Equal(t, exitCode(run(p, w.getenv, "enter")), exitUnseen)
	w.checkReceived("2\r")
	other, _ := newTestTmux(t, "exec sleep 600")
	p = other.showRecordedScreen("plan")
	sameLog := func(name string) string {
		if name == "HOME" {
			return w.dir
		}
		return other.getenv(name)
	}
	kit.Equal(t, exitCode(run(p, sameLog, "choose", "1")), exitUnseen)
	other.checkReceived("1")
	b := kit.ReadFile(t, state.AuditPath(w.getenv))
	var got []string
	for text := range strings.Lines(b) {
		var l state.AuditLine
		err := json.Unmarshal([]byte(text), &l)
		kit.True(t, err == nil && l.By == "menu-driver", "%s: %v", text, err)
		want := map[string]string{"permission": "git push --force origin main",
			"plan": "Would you like to proceed?"}[l.Kind]
		kit.True(t, strings.Contains(l.ShownText, want), "%s shows %q", l.Kind, l.ShownText)
		got = append(got,
			fmt.Sprintf("%s %s: %s: %.20s", l.SessionName, l.Kind, l.ReplyText, l.ClaudeText))
	}
	want := []string{"permission permission: choose 2: Yes, and don't ask a",
		"permission permission: enter: Yes", "plan plan: choose 1: Yes, and use auto mo"}
	kit.Equalf(t, got, want, "the log")
}

// Claude Code ends between our last look and the paste, and another program then has the
// keyboard.
func TestMenu_TypesOnlyToTheClaudeSeen(t *testing.T) {
	w, _ := newTestTmux(t, "exec sleep 600")
	p := w.showRecordedScreen("idle")
	w.copyProgram("editor")
	w.tmux("respawn-pane", "-k", "-t", p.ID,
		"cat idle; stty raw -echo; ./claude >got; ./editor 0.1; exec cat >other")
	pid := w.awaitProcess(w.pane(p.ID), "claude")
	w.awaitText(p.ID, "❯")
	end := fmt.Sprintf("kill %d; until [ -e %s/other ]; do sleep 0.01; done", pid, w.dir)
	w.tmux("set-hook", "-g", "after-load-buffer", "run-shell '"+end+"'")
	code, said := w.runMenu(p.ID, "type", "rm -rf build")
	kit.True(t, code == exitRefused && strings.Contains(said, "another program has its keyboard"),
		"exit %d: %s", code, said)
	kit.NoError(t, w.PasteText(t.Context(), p.ID, "."))
	other := func() string { b, _ := os.ReadFile(filepath.Join(w.dir, "other")); return string(b) }
	bound.Until(t, "the other program got a key", func() bool { return other() != "" })
	kit.Equalf(t, other(), ".", "the other program")
}

// If Enter does not send a text, menu-driver removes it, so that the box is empty for the
// next text. This also works with a Claude Code that lags behind its keys.
func TestMenu_RemovesUnsentText(t *testing.T) {
	rule := strings.Repeat("─", 80)
	for name, clears := range map[string]string{
		"in time":                      `text=`,
		"a later key has the old text": `old=$text; text=`,
		"the first key is lost":        `[ "$lost" ] && text=; lost=1`,
	} {
		w, _ := newTestTmux(t, "exec sleep 600")
		script := `stty raw -echo; clear=$(printf '\025'); enter=$(printf '\r'); back=$(printf '\177')
while :; do
	printf '\033[2J\033[H` + rule + `\r\n❯ %s\r\n` + rule + `' "$text"
	key=$(dd bs=1 count=1 2>/dev/null; echo .)
	case $key in
	"$enter".) ;;
	"$clear".) ` + clears + ` ;;
	"$back".) text=${old:-$text}; text=${text%?} ;;
	*) text=$text${key%.} ;;
	esac
done`
		p := w.runAsClaude(script)
		m := Menu{UserState: filepath.Join(w.dir, "state"), Env: w.getenv,
			EffectTimeout: time.Second}
		err := m.Run(t.Context(), p.ID, "type", []string{"hello"})
		kit.True(t, exitCode(err) == exitUnseen,
			"%s: not sent: %v", name, err)
		now, err := w.Capture(t.Context(), p.ID)
		kit.True(t, err == nil && ReadScreen(now).Shows == Prompt,
			"%s: the box is not empty (%v):\n%s", name, err, strings.TrimSpace(now))
	}
}

// A question opens just before the paste, so the text goes into its field for own words.
// With PromptOnly, menu-driver removes it. Otherwise a person's Enter would answer the
// question with it.
func TestMenu_RemovesTextFromADialog(t *testing.T) {
	w, _ := newTestTmux(t, "exec sleep 600")
	rule := strings.Repeat("─", 80)
	const above, below = "Which one?\\r\\n\\r\\n  1. Blue\\r\\n  2. Green\\r\\n", "Enter to select · ↑/↓ to navigate · ctrl+g to edit in Vim · Esc to cancel"
	script := `stty raw -echo; text=; clear=$(printf '\025'); back=$(printf '\177')
printf '\033[2J\033[H` + rule + `\r\n❯ \r\n` + rule + `'
while :; do
	key=$(dd bs=1 count=1 2>/dev/null; echo .)
	printf %s "${key%.}" >>got
	case $key in "$clear".) text= ;; "$back".) ;; *) text=$text${key%.} ;; esac
	printf '\033[2J\033[H` + rule + `\r\n ☐ Deploy\r\n\r\n` + above + `❯ 3. %s\r\n` + rule + `\r\n  4. Chat about this\r\n\r\n` + below + `' "${text:-Type something.}"
done`
	p := w.runAsClaude(script)
	m := Menu{UserState: filepath.Join(w.dir, "state"), Env: w.getenv, PromptOnly: true,
		EffectTimeout: time.Second}
	err := m.Run(t.Context(), p.ID, "type", []string{"hello"})
	kit.True(t, exitCode(err) == exitRefused, "%v", err)
	now, err := w.Capture(t.Context(), p.ID)
	s := ReadScreen(now)
	kit.True(t, err == nil && s.Shows == Question && s.cursorRow().Text == "" &&
		s.cursorRow().Role == OtherRow,
		"%v, %+v", err, s)
	const pasted, taken = "hello", "\x15"
	bound.Until(t, "the keys are written down", func() bool { return w.sentKeys() == pasted+taken })
}

// Where the box breaks a line, it does not draw the blank. A draft that differs in any
// other way is another text.
func TestMenu_Wraps(t *testing.T) {
	for _, test := range []struct {
		draft, text string
		want        bool
	}{
		{"yes, publish", "yes, publish", true},
		{"yes, publish", "yes, publish ", true}, // the blank prevents a completion
		{"yes,\npublish", "yes, publish", true},
		{"yes,\npublish", "yes,\npublish", true},
		{"ye\ns", "yes", true},
		{"yes", "yes!", false},
		{"yes!", "yes", false},
		{"yes  publish", "yes publish", false},
		{"yes,\n\npublish", "yes, publish", false},
		{"Yes", "yes", false},
		{"yes\n", "yes", false},
		{"[Pasted text #1 +4 lines]", "a\nb\nc\nd\ne", false},
	} {
		kit.Equalf(t, isDraftOf(test.draft, test.text), test.want, "wraps(%q, %q)", test.draft,
			test.text)
	}
}
