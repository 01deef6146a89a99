package inject

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text safe to put into a terminal and leaves what a person can read as it is. Gone are control characters,
// escape sequences as a whole, bytes that are not UTF-8, and characters that reorder or hide text (bidi overrides,
// zero-width spaces, tags, joiners that join nothing). "\r\n" and "\r" become "\n", a tab becomes a blank. removed says that
// something is gone. What comes out is clean: Clean of it changes nothing.
func Clean(text string) (clean string, removed bool) {
	plain, removed := withoutControls(text)
	return withoutHidden(plain, removed)
}

func withoutControls(text string) (string, bool) {
	var b strings.Builder
	removed := false
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1: // not UTF-8
			removed = true
		case r == '\n':
			b.WriteByte('\n')
		case r == '\r':
			if b.WriteByte('\n'); strings.HasPrefix(text[i+n:], "\n") {
				n++
			}
		case r == '\t':
			b.WriteByte(' ')
		case r == '\u2028', r == '\u2029': // line and paragraph separator
			b.WriteByte('\n')
		case r == '\x1b':
			n += escaped(text[i+n:])
			removed = true
		case r == '\u009b': // CSI in one character
			n += controlSequence(text[i+n:])
			removed = true
		case r == '\u0090', r == '\u0098', r == '\u009d', r == '\u009e', r == '\u009f': // DCS, SOS, OSC, PM, APC
			n += controlString(text[i+n:])
			removed = true
		case unicode.IsControl(r), invisible(r):
			removed = true
		default:
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String(), removed
}

// escaped is how many bytes after ESC belong to the sequence (ECMA-48; what xterm and tmux read).
func escaped(after string) int {
	if after == "" {
		return 0
	}
	switch c := after[0]; {
	case c == '[':
		return 1 + controlSequence(after[1:])
	case c == ']', c == 'P', c == 'X', c == '^', c == '_':
		return 1 + controlString(after[1:])
	case c == 'N', c == 'O': // single shift: the arrows of a terminal in application mode
		if len(after) > 1 && after[1] >= ' ' && after[1] <= '~' {
			return 2
		}
		return 1
	case c >= '0' && c <= '~':
		return 1
	}
	n := span(after, 0, ' ', '/')
	return span(after, n, '0', '~', 1)
}

// controlSequence is the length of what follows CSI: parameters, intermediates, one final byte.
func controlSequence(s string) int {
	n := span(s, 0, '0', '?')
	n = span(s, n, ' ', '/')
	return span(s, n, '@', '~', 1)
}

// span moves from n over bytes from lo to hi, over at most one where most is given.
func span(s string, n int, lo, hi byte, most ...int) int {
	start := n
	for n < len(s) && s[n] >= lo && s[n] <= hi && (len(most) == 0 || n-start < most[0]) {
		n++
	}
	return n
}

// controlString is the length of what follows OSC and its like, its end (BEL or ST) included. Without an end only the
// introducer is dropped: a terminal would swallow the rest of the text, a person would miss it.
func controlString(s string) int {
	for i, r := range s {
		switch {
		case r == '\a':
			return i + 1
		case r == '\u009c':
			return i + len("\u009c")
		case r == '\x1b':
			if strings.HasPrefix(s[i:], "\x1b\\") {
				return i + 2
			}
			return i // another sequence cuts it short
		case r == '\n', r == '\r':
			return 0
		}
	}
	return 0
}

// invisible are characters that show nothing and change how the rest is read.
func invisible(r rune) bool {
	switch {
	case r == '\u00ad', r == '\u061c', r == '\u180e', r == '\ufeff', // soft hyphen, Arabic mark, Mongolian separator, BOM
		r == '\u200b', r == '\u200e', r == '\u200f', // zero-width space, left-to-right and right-to-left marks
		r >= '\u202a' && r <= '\u202e', r >= '\u2060' && r <= '\u206f', // embeddings, overrides, isolates, word joiner
		r >= '\ufff9' && r <= '\ufffb', // interlinear annotation
		r >= 0x1d173 && r <= 0x1d17a,   // musical beams
		r == 0xe0001:
		return true
	}
	return false
}
