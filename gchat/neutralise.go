package gchat

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Chat text has no escape: a backslash or "&lt;" is shown as it stands. So text that others wrote is altered where it
// would act: "<users/all>" mentions everybody, "<url|label>" shows a false link, an odd ``` swallows the lines after it.

// Line makes foreign text safe to stand inside one line of a message. It has no newline and no outer whitespace.
func Line(s string) string {
	return inert(strings.Join(strings.Fields(visible(s)), " "))
}

// Block makes foreign text of several lines safe to stand in a message, from the start of a line. Lines after the first
// begin with two spaces, so that none of them can pass for one of ours ("[Answered] …", "Thread key: …", "4. …").
func Block(s string) string {
	lines := strings.Split(strings.TrimSpace(visible(s)), "\n")
	for i, l := range lines {
		l = strings.TrimRightFunc(l, unicode.IsSpace)
		if i > 0 && l != "" {
			l = "  " + l
		}
		lines[i] = l
	}
	lines = slices.CompactFunc(lines, func(a, b string) bool { return a == "" && b == "" })
	return inert(strings.Join(lines, "\n"))
}

// CleanReply takes out of a person's message what no reader sees: control characters, and the invisible letters that
// survive a round trip through Chat and could carry words that only a model reads. The rest stays verbatim.
func CleanReply(s string) string {
	return fuse(dropInvisible(strings.ReplaceAll(s, "\r\n", "\n")))
}

// inert takes the power out of visible text.
func inert(s string) string {
	s = shut(s)
	if strings.Count(s, fence)%2 == 1 {
		i := strings.LastIndex(s, fence)
		s = s[:i] + "'''" + s[i+len(fence):]
	}
	return s
}

// shut changes "<" where it would open something. It stays where it can only mean "less than" or an arrow.
func shut(s string) string {
	if !strings.Contains(s, "<") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '<' && opens(s[i+1:]) {
			b.WriteString("‹")
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func opens(rest string) bool {
	r, size := utf8.DecodeRuneInString(rest)
	return size > 0 && r != '=' && r != '-' && !unicode.IsSpace(r)
}

// closed makes neutral text ready to be followed by something else than a space.
func closed(s string) string { return strings.TrimSuffix(shut(s+"."), ".") }

// blank says that a reader would see nothing.
func blank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Variation_Selector, r)
	}) < 0
}

// normal gives text as labels are compared: as it is shown, without regard to case and to what phones do to
// quotes and dashes.
func normal(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '‘', '’', '‚', '‛', '′', '`':
			return '\''
		case '“', '”', '„', '‟', '″':
			return '"'
		case '‐', '‑', '‒', '–', '—', '―', '−':
			return '-'
		case '‹': // Line made it of "<", and people copy what they see
			return '<'
		}
		low := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			low = min(low, f)
		}
		return low
	}, Line(s))
}

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
var terminalControl = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\))")
})

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
		unicode.Is(unicode.Noncharacter_Code_Point, r) || // a program's own marks
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
	return r > '~' && r != nonJoiner && r != joiner && !unicode.IsSpace(r)
}

// ownPrefix is how our messages begin, behind a quote's sign or a mark of bold or not. A reader trusts these words: no line of a
// report's foreign text may begin with one of them in square brackets.
var ownPrefix = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^([\s\pZ>*_~•\x60-]*)\[([\s\pZ*_~]*(?:` +
		`Answered|AskUserQuestion|BLOCKED|Cancelled|Changed|Digest|Done|Error|Heartbeat|Help|Kept|Look|More|Muted|` +
		`Not\s+read|Not\s+used|Notification|Permission|Plan|Progress|Reminder|Screen|Sent|Session|Status|` +
		`Stopped|Session\s+End|Session\s+Start|Setup|Subagent\s+Done|Task\s+Done|` +
		`Timeout|Verify|Waiting|Waiting\s+for\s+you|Wake)[\s\pZ*_~]*)\]`)
})

var threadKeyLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^([\s\pZ>*_~•\x60-]*thread\s+key[\s\pZ*_~]*):`)
})

// disarm gives a line that begins like a message of ours round brackets, and one that begins like the line of a thread
// key no colon.
func disarm(line string) string {
	return threadKeyLine().ReplaceAllString(ownPrefix().ReplaceAllString(line, "$1($2)"), "$1 -")
}
