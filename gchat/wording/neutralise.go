package wording

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"gchat-hooks/state"
)

// Chat text has no escape: a backslash or "&lt;" is shown as it stands. So text that
// others wrote is altered where it would act: "<users/all>" mentions everybody,
// "<url|label>" shows a false link, an odd ``` swallows the lines after it.

// SafeLine makes foreign text safe to stand inside one line of a message. It has no
// newline and no outer whitespace.
func SafeLine(s string) string {
	return neutralise(strings.Join(strings.Fields(state.Clean(state.ForChat, s)), " "))
}

// SafeBlock makes foreign text of several lines safe to stand in a message, from the
// start of a line. Lines after the first begin with two spaces, so that none of them can
// pass for one of ours ("[Answered] …", "Thread key: …", "4. …").
func SafeBlock(s string) string {
	s = strings.TrimSpace(state.Clean(state.ForChat, s))
	if !strings.Contains(s, "\n") {
		return neutralise(s)
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		l = strings.TrimRightFunc(l, unicode.IsSpace)
		if i > 0 && l != "" {
			l = "  " + l
		}
		lines[i] = l
	}
	lines = slices.CompactFunc(lines, func(a, b string) bool { return a == "" && b == "" })
	return neutralise(strings.Join(lines, "\n"))
}

func neutralise(s string) string {
	s = neutraliseAngles(s)
	if i := strings.LastIndex(s, fence); strings.Count(s, fence)%2 == 1 {
		s = s[:i] + "'''" + s[i+len(fence):]
	}
	return s
}

// neutraliseAngles changes "<" where it would open something. It stays where it can only
// mean "less than" or an arrow.
func neutraliseAngles(s string) string {
	if !strings.Contains(s, "<") {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if r == '<' {
			next, size := utf8.DecodeRuneInString(s[i+1:])
			if size > 0 && next != '=' && next != '-' && !unicode.IsSpace(next) {
				r = '‹'
			}
		}
		b.WriteRune(r)
	}
	return b.String()
}

// neutraliseLastAngle makes neutral text ready to be followed by something else than a
// space.
func neutraliseLastAngle(s string) string {
	if before, endsOpen := strings.CutSuffix(s, "<"); endsOpen {
		return before + "‹"
	}
	return s
}

// normalise gives text as labels are compared: as it is shown, without regard to case and
// to what phones do to quotes and dashes.
func normalise(s string) string {
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
		folded := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			folded = min(folded, f)
		}
		return folded
	}, SafeLine(s))
}

// ownPrefixPattern is how our messages begin, behind a quote's sign or a mark of bold or
// not. A reader trusts these words: no line of a report's foreign text may begin with one
// of them in square brackets.
var ownPrefixPattern = sync.OnceValue(func() *regexp.Regexp {
	kinds := ""
	for _, kind := range state.Kinds {
		kinds += "|" + strings.ReplaceAll(kind.Traits().Title, " ", `\s+`)
	}
	return regexp.MustCompile(`(?i)^([\s\pZ>*_~•\x60-]*)\[([\s\pZ*_~]*(?:` +
		`Answered|AskUserQuestion|BLOCKED|Cancelled|Changed|Digest|Done|Error|Heartbeat|Help|In\s+the\s+terminal|Kept|Look|More|Muted|` +
		`Not\s+read|Not\s+used|Notification|Progress|Reminder|Screen|Sent|Session|Status|` +
		`Stopped|Session\s+End|Session\s+Start|Setup|Subagent\s+Done|Task\s+Done|` +
		`Timeout|Verify|Waiting|Wake` + kinds + `)[\s\pZ*_~]*)\]`)
})

var threadKeyPattern = state.LazyPattern(`(?i)^([\s\pZ>*_~•\x60-]*thread\s+key[\s\pZ*_~]*):`)

// disarm gives a line that begins like a message of ours round brackets, and one that
// begins like the line of a thread key no colon.
func disarm(line string) string {
	return threadKeyPattern().ReplaceAllString(ownPrefixPattern().ReplaceAllString(line, "$1($2)"), "$1 -")
}
