package gchat

import (
	"strings"
	"unicode"
)

// What a reader cannot see must not reach a message: hidden runes hide a mention from the checks here, smuggle words
// past the reader to a model, or turn the direction of a line. Some of them belong to scripts and emoji, and stay where
// these need them.

const (
	nonJoiner    = '\u200C' // ZWNJ, of Persian and Indic scripts
	joiner       = '\u200D' // ZWJ, of emoji too
	textSelector = '\uFE0E'
	emoji        = '\uFE0F'
)

// visible drops what a reader cannot see, and gives every kind of line break as \n.
func visible(s string) string {
	if strings.ContainsRune(s, '\x1b') { // a program's colours
		s = terminalControl().ReplaceAllString(s, "")
	}
	return fuse(dropInvisible(strings.ReplaceAll(s, "\r\n", "\n")))
}

// terminalControl are ECMA-48's control sequences and operating system commands.
var terminalControl = lazy("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\))")

func dropInvisible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= ' ' && r <= '~', r == '\n', r == '\t':
			return r
		case r == '\r', r == '\u2028', r == '\u2029':
			return '\n'
		case r == '\u2800': // Braille without a dot
			return ' '
		case isInvisible(r):
			return -1
		}
		return r // invalid bytes come as U+FFFD
	}, s)
}

func isInvisible(r rune) bool {
	switch {
	case r == nonJoiner, r == joiner, r == textSelector, r == emoji:
		return false // fuse judges them by their neighbours
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false // Arabic signs below and around numbers are seen, although they are format characters
	}
	return unicode.IsControl(r) ||
		unicode.Is(unicode.Cf, r) || // soft hyphen, bidi, zero width, tags
		unicode.Is(unicode.Variation_Selector, r) || // VS1 to VS14 and VS17 to VS256: no phone shows a difference
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || // fillers, unassigned but ignorable
		unicode.Is(unicode.Noncharacter_Code_Point, r) || // a program's own marks, such as ours
		r == '\U0001D159' // a note without a head
}

// fuse keeps joiners only between two runes that they can join, one at a time, and a variation selector only behind what
// has variants. Elsewhere they are hidden letters.
func fuse(s string) string {
	if !strings.ContainsAny(s, "\u200C\u200D\uFE0E\uFE0F") {
		return s
	}
	runes := []rune(s)
	kept := runes[:0]
	var last rune
	for i, r := range runes {
		switch r {
		case nonJoiner, joiner:
			if i+1 == len(runes) || !fuses(last) || !fuses(runes[i+1]) || isSelector(runes[i+1]) {
				continue
			}
		case textSelector, emoji:
			if isSelector(last) || !fuses(last) && !strings.ContainsRune("0123456789#*", last) { // keycaps are ASCII
				continue
			}
		}
		kept = append(kept, r)
		last = r
	}
	return string(kept)
}

func isSelector(r rune) bool { return r == textSelector || r == emoji }

func fuses(r rune) bool {
	return r > '~' && r != nonJoiner && r != joiner && !unicode.IsSpace(r) && !isOwn(r)
}
