package inject

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/golden"
	"gchat-hooks/e2e/kit"
)

var escapePattern = regexp.MustCompile("\x1b\\[[0-9;]*m")

func stripEscapes(capture string) string { return escapePattern.ReplaceAllString(capture, "") }

// recordedScreens returns the captures of one version of Claude Code, by name. They are
// `tmux capture-pane -p -e` of real sessions with a scripted model. The name says what
// was asked, the size of the pane (110×40 by default), and the key that was pressed last.
func recordedScreens(t testing.TB, version string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "screens", version, "*.ansi"))
	kit.Must(t, err == nil && len(files) >= 50,
		"%d recorded screens of %s: %v", len(files), version, err)
	screens := map[string]string{}
	for _, file := range files {
		screens[strings.TrimSuffix(filepath.Base(file), ".ansi")] = kit.ReadFile(t, file)
	}
	return screens
}

func runForVersions(t *testing.T, test func(t *testing.T, version string)) {
	for _, v := range []string{"2.1.197", "2.1.329"} {
		t.Run(v, func(t *testing.T) { test(t, v) })
	}
}

// want.txt holds one printed screen for every capture. A person compared it with the
// captures.
func TestReadScreen_Recorded(t *testing.T) {
	runForVersions(t, func(t *testing.T, version string) {
		screens := recordedScreens(t, version)
		file := filepath.Join("testdata", "screens", version, "want.txt")
		if *golden.Update {
			writeWant(t, file, screens)
			return
		}
		want := readWant(t, file)
		for name, capture := range screens {
			got := printScreen(ReadScreen(capture))
			kit.True(t, got == want[name],
				"%s is read as\n%s\nwant\n%s\non the screen:\n%s", name, got, want[name],
				stripEscapes(capture))
			delete(want, name)
		}
		for name := range want {
			t.Errorf("no capture %s", name)
		}
	})
}

func writeWant(t *testing.T, file string, screens map[string]string) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(screens)) {
		fmt.Fprintf(&b, "== %s\n%s\n", name, printScreen(ReadScreen(screens[name])))
	}
	kit.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
}

func readWant(t *testing.T, file string) map[string]string {
	t.Helper()
	raw := kit.ReadFile(t, file)
	want := map[string]string{}
	for _, section := range strings.Split(raw, "== ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		want[name] = strings.TrimSuffix(text, "\n")
	}
	return want
}

// If any line follows a dialog, ReadScreen must not read the dialog: the line may be a
// shell's.
func TestReadScreen_DialogAboveOtherText(t *testing.T) {
	after := map[string]string{
		"a shell":          "\nuser@host:~/x$",
		"a root shell":     "\n#",
		"output":           "\nclaude exited: 137\n# ",
		"a coloured shell": "\n\x1b[32m➜\x1b[39m  x \x1b[34mgit:(\x1b[31mmain\x1b[34m)\x1b[39m",
		"less":             "\n:",
		"less at the end":  "\n\x1b[7m(END)",
		"vim":              "\n~\n~\n~\n\"screen.txt\" 41L, 2034B                                        1,1           All",
		"a pager's status": "\n\nlines 1-24",
		"a word":           "\n\n\nx",
	}
	runForVersions(t, func(t *testing.T, version string) {
		for name, capture := range recordedScreens(t, version) {
			if k := ReadScreen(capture).Shows; k != Question && k != Review && k != Permission {
				continue
			}
			for what, text := range after {
				if s := ReadScreen(strings.TrimRight(capture, "\n") + "\x1b[0m\n" + text); s.Shows != Unknown {
					t.Errorf("%s with %s below it is a %s", name, what, s.Shows)
				} else if s.Why == "" {
					t.Errorf("%s with %s below it: no reason", name, what)
				}
			}
		}
	})
}

// Claude Code draws from the top, so a half-drawn dialog lacks its end. A scrolled dialog
// lacks its beginning. It is read as cut or not at all.
func TestReadScreen_HalfDrawnDialogs(t *testing.T) {
	runForVersions(t, func(t *testing.T, version string) {
		for name, capture := range recordedScreens(t, version) {
			whole := ReadScreen(capture)
			if whole.Shows != Question && whole.Shows != Review {
				continue
			}
			lines := strings.Split(strings.TrimRight(stripEscapes(capture), "\n "), "\n")
			for n := max(1, len(lines)-20); n < len(lines); n++ {
				s := ReadScreen(strings.Join(lines[:n], "\n"))
				switch {
				case s.Shows == Question, s.Shows == Review, s.Shows == Permission:
					t.Errorf("%s without its last %d lines is a %s", name, len(lines)-n, s.Shows)
				case s.Shows == Unknown && s.Why == "":
					t.Errorf("%s without its last %d lines: no reason", name, len(lines)-n)
				}
			}
			styled := strings.Split(strings.TrimRight(capture, "\n "), "\n")
			for n := max(1, len(styled)-30); n < len(styled); n += 2 {
				s := ReadScreen(strings.Join(styled[n:], "\n"))
				kit.True(t, s.Shows != Question || s.Question == whole.Question || s.IsCut,
					"%s without its first %d lines has the question %q, want %q", name, n,
					s.Question, whole.Question)
			}
		}
	})
}
