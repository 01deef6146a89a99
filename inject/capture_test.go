package inject

import (
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

func TestCapture_IsParsed(t *testing.T) {
	tests := []struct {
		name, capture string
		column        int
		want          style
		text          string
		width         int
	}{
		{"plain", "ab  ", 1, style{}, "ab", 2},
		{"dim ends", "\x1b[2ma\x1b[22mb", 1, style{}, "ab", 2},
		{"bold ends", "\x1b[1ma\x1b[22mb", 1, style{}, "ab", 2},
		{"reset and set in one", "\x1b[1ma\x1b[0;2mb", 1, style{dim: true}, "ab", 2},
		{"of 256 colours", "\x1b[38;5;246ma", 0, style{colour: "38;5;246"}, "a", 1},
		{"of all colours", "\x1b[38;2;2;7;1ma", 0, style{colour: "38;2;2;7;1"}, "a", 1},
		{"of all colours, with colons", "\x1b[48:2:2:7:1ma", 0, style{}, "a", 1},
		{"of 16 colours", "\x1b[90;41ma\x1b[39mb", 1, style{}, "ab", 2},
		{"over the end of a line", "\x1b[7m\na\x1b[27m", 0, style{inverse: true}, "a", 1},
		{"a hyperlink", "\x1b]8;;http://x\x1b\\a\x1b]8;;\x1b\\b", 1, style{}, "ab", 2},
		{"a joined emoji", "👩\u200d💻b", 2, style{}, "👩\u200d💻b", 3},
		{"a combining accent", "e\u0301b", 1, style{}, "e\u0301b", 2},
		{"a wide character", "全b", 2, style{}, "全b", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines := readCapture(tt.capture)
			l := lines[len(lines)-1]
			kit.True(t, l.text == tt.text && l.width() == tt.width,
				"text %q, %d columns; want %q, %d", l.text, l.width(), tt.text, tt.width)
			rest := l.fromColumn(tt.column)
			kit.True(t, !rest.isBlank() && rest.cells[0].style == tt.want,
				"column %d: %+v, want %+v", tt.column, rest.cells, tt.want)
		})
	}
}

func TestCapture_IsTheLiveScreen(t *testing.T) {
	w, p := newTestTmux(t, `seq 1 100; printf '\033[31mred\033[0m 日本 👩‍💻'; sleep 600`)
	w.awaitText(p.ID, "red")
	live, err := w.Capture(t.Context(), p.ID)
	kit.True(t, err == nil && strings.Contains(live, "\x1b[31mred") &&
		strings.Count(live, "\n") == 24 && strings.Contains(live, "日本"),
		"%v: %q", err, live)
	w.tmux("copy-mode", "-t", p.ID)
	w.tmux("send-keys", "-t", p.ID, "-X", "history-top")
	again, err := w.Capture(t.Context(), p.ID)
	kit.True(t, err == nil && again == live, "scrolled back: %v: %q", err, again)
	w.tmux("copy-mode", "-q", "-t", p.ID)

	for lines, first := range map[int]string{3: "99", 101: "1", 1000: "1"} {
		got, err := w.Snapshot(t.Context(), p.ID, lines)
		kit.True(t, err == nil && got.Lines[0] == first &&
			got.Lines[len(got.Lines)-1] == "red 日本 👩‍💻" && len(got.Lines) <= lines,
			"%d lines: %v: %q", lines, err, got.Lines)
	}
}
