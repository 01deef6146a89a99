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

const (
	joiner    = '\u200d' // makes one picture of several: 👩‍💻
	nonJoiner = '\u200c' // keeps letters apart that would join, in Persian and in India
	blackFlag = '\U0001f3f4'
	tagEnd    = '\U000e007f'
)

// withoutHidden drops joiners, variation selectors and tags where they join and vary nothing: there they could carry a
// text that no person sees.
func withoutHidden(text string, removed bool) (string, bool) {
	if strings.IndexFunc(text, hidden) < 0 {
		return text, removed
	}
	runes := []rune(text)
	var out []rune
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		if !hidden(r) {
			out = append(out, r)
			continue
		}
		var before, after rune
		if len(out) > 0 {
			before = out[len(out)-1]
		}
		if i+1 < len(runes) {
			after = runes[i+1]
		}
		if tag(r) {
			if n := flagTags(runes[i:]); n > 0 && before == blackFlag {
				out = append(out, runes[i:i+n]...)
				i += n - 1
				continue
			}
		} else if belongs(r, before, after) {
			out = append(out, r)
			continue
		}
		removed = true
	}
	return string(out), removed
}

func hidden(r rune) bool {
	return r == joiner || r == nonJoiner || shape(r) || idealVariant(r) || tag(r)
}

func shape(r rune) bool        { return r >= '\ufe00' && r <= '\ufe0f' } // 15 and 16: as text, as a picture
func idealVariant(r rune) bool { return r >= 0xe0100 && r <= 0xe01ef }   // a Chinese character as a name writes it
func tag(r rune) bool          { return r >= 0xe0000 && r <= 0xe007f }

// belongs says whether a hidden character does something between these two.
func belongs(r, before, after rune) bool {
	switch {
	case shape(r):
		return before > ' ' && !hidden(before) // also after a digit: 1️⃣
	case idealVariant(r):
		return unicode.Is(unicode.Han, before)
	}
	joins := func(r rune) bool { return r > 0x7f && !unicode.IsSpace(r) && !hidden(r) }
	return (joins(before) || shape(before)) && joins(after)
}

// flagTags is the length of the tags that make a black flag England's, Scotland's or Wales': five letters and an end; a
// region's code may have up to six.
func flagTags(runes []rune) int {
	for n, r := range runes[:min(len(runes), 7)] {
		if r == tagEnd && n > 2 {
			return n + 1
		}
		if r == tagEnd || !tag(r) || r < 0xe0030 || r > 0xe007a {
			return 0
		}
	}
	return 0
}
