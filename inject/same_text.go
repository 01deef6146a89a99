package inject

import (
	"strings"
	"unicode"
)

// Same says whether a text on the screen is the text that was meant: wrapping may have taken or added white space
// (Claude Code wraps at spaces, and CJK and long words anywhere), so none of it counts. Nor do the marks that say how
// the character before is drawn: 2.1.329 leaves U+FE0F out.
func Same(shown, meant string) bool { return squeeze(shown) == squeeze(meant) }

// Begins says whether shown, which may end in "…" or just be cut, is a beginning of meant. No text is no beginning.
func Begins(shown, meant string) bool {
	got, want := squeeze(shown), squeeze(meant)
	if got != "" && strings.HasPrefix(want, got) {
		return true
	}
	got, cut := strings.CutSuffix(got, "…")
	return cut && got != "" && strings.HasPrefix(want, got)
}

// Ends says whether shown, whose beginning is not on the screen, is an end of meant. No text is no end.
func Ends(shown, meant string) bool {
	got := squeeze(shown)
	return got != "" && strings.HasSuffix(squeeze(meant), got)
}

func squeeze(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == 0x200b || r == 0xfeff || r >= 0xfe00 && r <= 0xfe0f {
			return -1
		}
		return r
	}, text)
}
