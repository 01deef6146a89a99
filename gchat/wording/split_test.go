package wording

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func TestSplit_Table(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		name, header, text string
		want               []string
	}{
		{"nothing", "", "", nil},
		{"header only", "[Done] a", "", []string{"[Done] a"}},
		{"text only", "", "a", []string{"a"}},
		{"both", "[Done] a", "b", []string{"[Done] a\n\nb"}},
		{"paragraphs", "[Done] a", x(100) + "\n\n" + x(50) + "\n" + x(50) + "\n\n" + x(150),
			[]string{"[Done] a (1/2)\n\n" + x(100) + "\n\n" + x(50) + "\n" + x(50) + "\n\n",
				"[Done] a (2/2)\n\n" + x(150)}},
		{"no header", "", x(200) + "\n\n" + x(200),
			[]string{"(1/2)\n" + x(200) + "\n\n", "(2/2)\n" + x(200)}},
		{"lines", "", x(100) + "\n" + x(100) + "\n" + x(100),
			[]string{"(1/2)\n" + x(100) + "\n" + x(100) + "\n", "(2/2)\n" + x(100)}},
		{"words", "", x(200) + " " + x(200),
			[]string{"(1/2)\n" + x(200) + " ", "(2/2)\n" + x(200)}},
		{"characters", "", x(300), []string{"(1/2)\n" + x(234), "(2/2)\n" + x(66)}},
		{"code", "", "a\n```\n" + x(100) + "\n\n" + x(100) + "\n" + x(100) + "\n```\nb",
			[]string{"(1/2)\na\n```\n" + x(100) + "\n\n" + x(100) + "\n```",
				"(2/2)\n```\n" + x(100) + "\n```\nb"}},
		{"a long line of code", "", "```\n" + x(300) + "\n```",
			[]string{"(1/2)\n```\n" + x(230) + "\n```", "(2/2)\n```\n" + x(70) + "\n```"}},
		{"no empty block", "", x(200) + "\n```\n" + x(100) + "\n```",
			[]string{"(1/2)\n" + x(200) + "\n", "(2/2)\n```\n" + x(100) + "\n```"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := splitMessage(tt.header, "\n\n", tt.text, 256)
			kit.True(t, slices.Equal(got, tt.want), "got\n%q\nwant\n%q", got, tt.want)
		})
	}
}

// checkSplit fails unless the parts hold the whole text, in order, under their headers.
func checkSplit(t *testing.T, parts []string, header, distance, text string, limit int) {
	t.Helper()
	open := false
	for i, part := range parts {
		kit.True(t, len(part) <= max(limit, 256), "part %d has %d bytes", i+1, len(part))
		top := header
		if len(parts) > 1 {
			top = fmt.Sprintf("%s (%d/%d)", header, i+1, len(parts))
			if header == "" {
				top, distance = top[1:], "\n"
			}
		} else if header == "" {
			distance = ""
		}
		rest, ok := strings.CutPrefix(part, top)
		kit.Must(t, ok, "part %d does not begin with %q: %.80q", i+1, top, part)
		if rest == "" && text == "" {
			continue
		}
		rest, ok = strings.CutPrefix(rest, distance)
		kit.Must(t, ok, "part %d is not %q below its header", i+1, distance)
		if open {
			rest, ok = strings.CutPrefix(rest, fence+"\n")
			kit.Must(t, ok, "part %d does not open the block again: %.80q", i+1, part)
		}
		piece := rest
		kit.Must(t, open == (strings.Count(rest, fence)%2 == 1) || i+1 >= len(parts),
			"part %d leaves a block open", i+1)
		open = false
		if !strings.HasPrefix(text, piece) { // it ends with a fence of ours
			piece = strings.TrimSuffix(piece, fence)
			if !strings.HasPrefix(text, piece) {
				piece = strings.TrimSuffix(piece, "\n")
			}
			open = true
		}
		text, ok = strings.CutPrefix(text, piece)
		kit.Must(t, ok, "part %d has other text: %q", i+1, piece)
	}
	kit.True(t, text == "", "%d bytes are lost: %.80q", len(text), text)
}

func TestSplit_AllSizes(t *testing.T) {
	text := strings.Repeat("Some wörds 👩‍💻.\n\nA line\n```\ncode\n\ncode\n```\n", 60) +
		strings.Repeat("漢", 400)
	for limit := 0; limit < 1500; limit += 7 {
		for _, header := range []string{"", "[Done] orch-epic4"} {
			parts := splitMessage(header, "\n\n", text, limit)
			checkSplit(t, parts, header, "\n\n", text, limit)
			for _, p := range parts {
				kit.Must(t, utf8.ValidString(p), "limit %d cuts badly: %q", limit, p)
			}
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("[Done] a", "text\n\nmore", 256, uint16(100))
	f.Add("", "```\ncode\n\n```\n", 300, uint16(80))
	f.Add("h", "<https://x.example|label> 👩‍💻e\u0301", 0, uint16(300))
	f.Add("", "\xff\xfe``", -1, uint16(500))
	f.Add(strings.Repeat("h", 600), "a b\t", 512, uint16(900))
	f.Fuzz(func(t *testing.T, header, text string, limit int, times uint16) {
		text = strings.Repeat(text, min(int(times), 1+50000/(len(text)+1)))
		parts := splitMessage(header, "\n\n", text, limit)
		for i, p := range parts {
			kit.True(t, len(p) <= max(limit, 256),
				"part %d has %d bytes, limit %d", i+1, len(p), limit)
			kit.True(t, !utf8.ValidString(header) || !utf8.ValidString(text) || utf8.ValidString(p),
				"part %d is no UTF-8: %q", i+1, p)
			kit.True(t, strings.Contains(header+text, "`") || !strings.Contains(p, "`"),
				"part %d has a fence", i+1)
			if strings.Contains(text, "````") || strings.Contains(header, "`") ||
				strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
				continue // how many fences a longer run is depends on where it begins
			}
			kit.True(t, len(parts) <= 1 || i+1 >= len(parts) || strings.Count(p, fence)%2 != 1,
				"part %d leaves a block open: %q", i+1, p)
		}
		if len(header) < 100 && !strings.Contains(text, "`") && (header != "" || text != "") {
			checkSplit(t, parts, header, "\n\n", text, limit)
		}
	})
}

func TestSplit_CutLineForgesNothing(t *testing.T) {
	texts := ReportTexts(state.Report{Type: state.ReportPlain,
		Text: strings.Repeat("x", MaxText-100) + " [Done]" + strings.Repeat("y", 300)})
	kit.True(t, len(texts) == 2 && strings.HasPrefix(texts[1], "(2/2)\n(Done)y"),
		"%d texts, …%.40q", len(texts), texts[len(texts)-1])
}
