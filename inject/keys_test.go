package inject

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// byteRecorder writes every byte that reaches its terminal into a file. The terminal is
// in raw mode, so it changes none of them.
const byteRecorder = `stty raw -echo; printf '\033[?2004h%s' ready; cat >got`

const plainByteRecorder = `stty raw -echo; printf ready; cat >got`

func (w testTmux) checkReceived(want string) {
	w.t.Helper()
	var got []byte
	bound.Until(w.t, "all bytes are there", func() bool {
		got, _ = os.ReadFile(filepath.Join(w.dir, "got"))
		return len(got) >= len(want)
	})
	if string(got) != want {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		w.t.Errorf("the pane got %d bytes, want %d; at %d: %.80q, want %.80q", len(got), len(want),
			at, got[at:], want[at:])
	}
}

var awkwardTexts = []string{
	"C-c", "Enter", ";", "a;", "a\\;", ";;", "$(rm -rf ~)", "{}", "}", "{ kill-server }", `"`, `'`,
	`it's "so"`, "`x`", "-t", "-l", "--", "-",
	"#{pane_id}", "#(touch x)", "%1", "~", "!", "\\", `\n`, "日本語のテキスト", "👩‍👩‍👧‍👦 ❤️",
	" two  blanks ", "0x41", "61 62", "e\u0301",
}

func TestKeys_PasteRefuses(t *testing.T) {
	w, p := newTestTmux(t, plainByteRecorder)
	w.awaitText(p.ID, "ready")
	for _, text := range []string{"a\x1b[A", "a\rb", "\x03", "a\xff", "a\tb", "a\x1b[201~b"} {
		err := w.PasteText(t.Context(), p.ID, text)
		kit.True(t, err != nil, "%q was pasted", text)
	}
	for _, pane := range []string{"", "main", "=main:", "%", "%0 -l; kill-server", "%0\n", "%999"} {
		err := w.PasteText(t.Context(), pane, "x")
		kit.True(t, errors.Is(err, ErrNoPane), "pane %q: %v", pane, err)
		err = w.PressKey(t.Context(), pane, KeyEnter)
		kit.True(t, errors.Is(err, ErrNoPane), "pane %q: %v", pane, err)
	}
	kit.NoError(t, w.PasteText(t.Context(), p.ID, "."))
	w.checkReceived(".")
}

func TestKeys_ArriveAsSent(t *testing.T) {
	w, p := newTestTmux(t, plainByteRecorder)
	w.awaitText(p.ID, "ready")
	keys := []struct {
		key  Key
		want string
	}{
		{KeyUp, "\x1b[A"}, {KeyDown, "\x1b[B"}, {KeyEnter, "\r"}, {KeyTab, "\t"},
		{KeyClear, "\x15"}, {KeyDigit(1), "1"}, {KeyDigit(9), "9"}, {KeyEscape, "\x1b"},
	}
	var want strings.Builder
	for _, k := range keys {
		kit.NoError(t, w.PressKey(t.Context(), p.ID, k.key))
		want.WriteString(k.want)
	}
	for _, bad := range []Key{"", "C-c", "C-d", "y", "0", "10", "F1", "-X", "Enter; kill-server",
		"Up Down", KeyDigit(0), KeyDigit(10)} {
		err := w.PressKey(t.Context(), p.ID, bad)
		kit.True(t, err != nil, "%q was pressed", bad)
	}
	w.checkReceived(want.String())
}

// If tmux would keep keys from a pane's program, none are sent, and none arrive later.
func TestKeys_PanesThatTakeNone(t *testing.T) {
	give := map[string]func(testTmux, Pane) error{
		"key": func(w testTmux, p Pane) error {
			return w.PressKey(w.t.Context(), p.ID,
				KeyDigit(1))
		},
		"paste": func(w testTmux, p Pane) error { return w.PasteText(w.t.Context(), p.ID, "text") },
	}
	states := []struct {
		name     string
		on, off  []string
		is       func(Pane) bool
		thenLive bool
	}{
		{"scrolled back", []string{"copy-mode"}, []string{"copy-mode", "-q"},
			func(p Pane) bool { return p.InMode }, true},
		{"clock", []string{"clock-mode"}, []string{"copy-mode", "-q"},
			func(p Pane) bool { return p.InMode }, true},
		{"input off", []string{"select-pane", "-d"}, []string{"select-pane", "-e"},
			func(p Pane) bool { return p.InputOff }, true},
		{"dead", []string{"respawn-pane", "-k"}, nil, func(p Pane) bool { return p.Dead }, false},
	}
	for _, s := range states {
		t.Run(s.name, func(t *testing.T) {
			w, p := newTestTmux(t, plainByteRecorder)
			w.awaitText(p.ID, "ready")
			on := append([]string{s.on[0], "-t", p.ID}, s.on[1:]...)
			if s.name == "dead" {
				w.tmux("set-option", "-w", "-t", p.ID, "remain-on-exit", "on")
				on = append(on, "true")
			}
			w.tmux(on...)
			bound.Until(t, "the pane is so", func() bool { return s.is(w.pane(p.ID)) })
			for name, f := range give {
				err := f(w, p)
				kit.True(t, errors.Is(err, ErrNoKeys), "%s: %v", name, err)
			}
			kit.True(t, s.is(w.pane(p.ID)), "the pane is not so any more")
			kit.Equalf(t, w.tmux("list-buffers"), "", "buffers")
			if s.thenLive {
				w.tmux(append([]string{s.off[0], "-t", p.ID}, s.off[1:]...)...)
				kit.NoError(t, w.PasteText(t.Context(), p.ID, "."))
				w.checkReceived(".")
			}
		})
	}
}

func TestKeys_Paste(t *testing.T) {
	for name, c := range map[string]struct{ program, open, close string }{
		"bracketed": {byteRecorder, "\x1b[200~", "\x1b[201~"},
		"plain":     {plainByteRecorder, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := newTestTmux(t, c.program)
			w.awaitText(p.ID, "ready")
			w.tmux("set-buffer", "-b", "mine", "a person's")
			var want strings.Builder
			for _, text := range append(awkwardTexts, "two\nlines;\n",
				strings.Repeat("line 日本語;\n", 1000), "") {
				kit.NoError(t, w.PasteText(t.Context(), p.ID, text))
				if text != "" {
					want.WriteString(c.open + text + c.close)
				}
			}
			w.checkReceived(want.String())
			err := w.PasteText(t.Context(), "%999", "text")
			kit.True(t, errors.Is(err, ErrNoPane), "no pane: %v", err)
			kit.Equalf(t, w.tmux("list-buffers", "-F", "#{buffer_name}"), "mine", "buffers")
			kit.True(t, w.sentKeys() == want.String(), "a refused paste left something")
		})
	}
}

// Claude Code can end between our last look and a key. Then tmux does not press the key,
// so the shell does not get it.
func TestKeys_OnlyForTheProgramInFront(t *testing.T) {
	w, p := newTestTmux(t, "stty raw -echo; printf ready; cat >got")
	w.awaitText(p.ID, "ready") // before, the pane may have the name of tmux itself
	ours := Server{Socket: w.Socket, FrontProgram: w.pane(p.ID).Program}
	other := Server{Socket: w.Socket, FrontProgram: "claude"}
	for name, press := range map[string]func(Server) error{
		"a key":   func(s Server) error { return s.PressKey(t.Context(), p.ID, KeyDigit(2)) },
		"a paste": func(s Server) error { return s.PasteText(t.Context(), p.ID, "rm\nls") },
	} {
		err := press(other)
		kit.True(t, errors.Is(err, ErrNoKeys) &&
			strings.Contains(err.Error(), "another program has its keyboard"),
			"%s for another program: %v", name, err)
	}
	kit.NoError(t, ours.PressKey(t.Context(), p.ID, KeyDigit(7)))
	w.checkReceived("7")
}

// tmux does not press a key or paste a text after its deadline, because by then the pane
// may show another screen.
func TestKeys_LateOnesAreNotPressed(t *testing.T) {
	w, p := newTestTmux(t, plainByteRecorder)
	w.awaitText(p.ID, "ready")
	past, future := time.Now().Add(-2*time.Second), time.Now().Add(time.Minute)
	for name, press := range map[string]func(until time.Time) error{
		"key": func(until time.Time) error {
			return w.pressKeyGuarded(t.Context(), p.ID, KeyEnter, guard{until: until})
		},
		"text": func(until time.Time) error {
			return w.pasteTextGuarded(t.Context(), p.ID, "late",
				guard{until: until})
		},
	} {
		err := press(past)
		kit.True(t, errors.Is(err, ErrLate) && errors.Is(err, ErrNoKeys), "%s: %v", name, err)
	}
	kit.Equalf(t, w.tmux("list-buffers"), "", "buffers are left")
	kit.NoError(t, w.pressKeyGuarded(t.Context(), p.ID, KeyDigit(3), guard{until: future}))
	w.checkReceived("3")
}

// tmux does not press a key for a dialog if another dialog has replaced it, or if a
// person has pressed a key since.
func TestKeys_OnlyForTheDialogSeen(t *testing.T) {
	w, p := newTestTmux(t,
		`stty raw -echo; printf 'Which %s?\r\n❯ 1. {#H} "a" $HOME\r\n  2. b\\;,*\r\n' DB; cat >got`)
	w.awaitText(p.ID, "2. b")
	capture, err := w.Capture(t.Context(), p.ID)
	kit.NoError(t, err)
	seen := guard{dialog: lastLines(capture)}
	kit.NoError(t, w.pressKeyGuarded(t.Context(), p.ID, KeyDigit(1), seen))
	kit.Equalf(t, len(seen.dialog), 3, "lines of %q", seen.dialog)
	for _, other := range []string{"Which DB?\n❯ 1. {#H}\n  2. c", "❯ 1. Yes\n  2. No"} {
		gone := guard{dialog: lastLines(other)}
		err := w.pressKeyGuarded(t.Context(), p.ID, KeyDigit(2), gone)
		kit.True(t, errors.Is(err, ErrNoKeys), "%q does not stand there: %v", gone.dialog, err)
	}

	typed := seen
	typed.activity, err = w.sessionActivity(t.Context(), p.ID)
	kit.NoError(t, err)
	kit.NoError(t, w.pressKeyGuarded(t.Context(), p.ID, KeyDigit(3), typed)) // nobody typed
	desk, person := newTestTmux(t, "unset TMUX; exec tmux -u -S "+w.Socket+" attach -t =main")
	bound.Until(t, "a person's key is seen", func() bool {
		kit.NoError(t, desk.PressKey(t.Context(), person.ID, KeyDigit(9)))
		now, err := w.sessionActivity(t.Context(), p.ID)
		return err == nil && now != typed.activity
	})
	err = w.pressKeyGuarded(t.Context(), p.ID, KeyDigit(4), typed)
	kit.True(t, errors.Is(err, ErrNoKeys) && strings.Contains(err.Error(), "a person is typing"),
		"a person typed: %v", err)
	kit.True(t, !strings.ContainsAny(w.sentKeys(), "24"), "arrived: %q", w.sentKeys())
}

// If a dialog is redrawn between our look and the key, we look again. If it is the same
// dialog, it gets the key. Another dialog gets nothing.
func TestKeys_ADialogDrawnAgain(t *testing.T) {
	for then, want := range map[string]string{"single": "2", "permission": ""} {
		w, _ := newTestTmux(t, "exec sleep 600")
		p := w.showRecordedScreen("single")
		tty := w.tmux("display-message", "-p", "-t", p.ID, "#{pane_tty}")
		draw := func(lines string) {
			kit.NoError(t, os.WriteFile(tty, []byte("\x1b[2J\x1b[H"+lines), 0))
		}
		capture, err := w.Capture(t.Context(), p.ID)
		kit.NoError(t, err)
		next := kit.ReadFile(t, filepath.Join("testdata", "menu", then+".ansi"))
		first, looks := ReadScreen(capture), 0
		k := keyboard{server: w.Server, pane: p.ID, effectTimeout: bound.Patience}
		k.checkReady = func(context.Context, keyStep) error { return nil }
		err = k.doStep(t.Context(), keyStep{key: KeyDigit(2),
			checkEffect: requireScreen(Screen.IsDialog), whyNot: func(now Screen) string {
				switch looks++; looks {
				case 1:
					draw("half")
					w.awaitText(p.ID, "half")
				case 2:
					draw(strings.ReplaceAll(strings.TrimSuffix(next, "\n"), "\n", "\r\n"))
				}
				return requireUnchanged(first)(now)
			}})
		pressed := err == nil
		kit.Must(t, pressed == (want != ""), "then %s: %v", then, err)
		w.checkReceived(want)
	}
}
