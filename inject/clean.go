package inject

import (
	"strings"
	"unicode"
)

// escapeSequence is an escape sequence as a whole (ECMA-48; what xterm and tmux read): CSI; OSC and its like up to their end,
// without which only the introducer goes, for a terminal would swallow the rest and a person would miss it; the others.
var escapeSequence = pattern(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]?` +
	`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}\x{9e}\x{9f}])(?:[^\a\x1b\x{9c}\r\n]*(?:\a|\x{9c}|\x1b\\))?` +
	`|\x1b[NO][ -~]?|\x1b[ -/]*[0-~]?`)

// lineBreaks are written as "\n", a tab as a blank.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n", "\t", " ")

// Clean makes text safe to put into a terminal and leaves what a person can read as it is. Gone are control characters,
// escape sequences as a whole, bytes that are not UTF-8, and characters that reorder or hide text (bidi overrides,
// zero-width spaces, tags, joiners that join nothing). "\r\n" and "\r" become "\n", a tab becomes a blank. removed says that
// something is gone. What comes out is clean: Clean of it changes nothing.
func Clean(text string) (clean string, removed bool) {
	text = lineBreaks.Replace(text)
	plain := escapeSequence().ReplaceAllString(strings.ToValidUTF8(text, ""), "")
	runes := []rune(plain)
	var b strings.Builder
	before := ' '
	for i, r := range runes {
		after := ' '
		if i+1 < len(runes) {
			after = runes[i+1]
		}
		if r == '\n' || !unicode.IsControl(r) && !invisible(r) && joinsOrShows(r, before, after) {
			b.WriteRune(r)
			before = r
		}
	}
	return b.String(), b.String() != text
}

// invisible are characters that show nothing and change how the rest is read, or could carry a text that no person sees:
// Unicode's format characters, but for the joiners and for the signs that embrace a number; tags; variants of ideographs.
func invisible(r rune) bool {
	format := unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) && !joiner(r)
	return format || r >= 0xe0000 && r <= 0xe01ef || r == '\u180e' // a separator of Mongolian, Cf until Unicode 6.3
}

func joiner(r rune) bool { return r == 0x200c || r == 0x200d } // keeps letters apart (Persian); makes one picture of several
func shape(r rune) bool  { return r >= 0xfe00 && r <= 0xfe0f } // 15 and 16: as text, as a picture

// joinsOrShows is false for a joiner or a variation selector that does nothing between these two.
func joinsOrShows(r, before, after rune) bool {
	switch {
	case shape(r):
		return before > ' ' && !shape(before) && !joiner(before) // also after a digit: 1️⃣
	case joiner(r):
		letter := func(r rune) bool {
			return r > 0x7f && !unicode.IsSpace(r) && !unicode.IsControl(r) && !joiner(r) && !invisible(r)
		}
		return letter(before) && letter(after) && !shape(after)
	}
	return true
}
