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

// Chat's syntax has no escapes: it shows a backslash or "&lt;" unchanged. So foreign
// text, which others wrote, is changed where it would have an effect: "<users/all>"
// mentions everybody, "<url|label>" shows a false link, and a ``` without a second one
// turns the lines after it into code. Text that is changed like this is called neutral.

// SafeLine makes foreign text safe for the inside of a line of a message. The result has
// no newline, and no whitespace at its ends.
func SafeLine(s string) string {
	return neutralise(strings.Join(strings.Fields(state.Clean(state.ForChat, s)), " "))
}

// SafeBlock makes foreign text of several lines safe for a message. All lines but the
// first are indented by two spaces, so that none of them can pass for a line of ours
// ("[Answered] …", "Thread key: …", "4. …").
func SafeBlock(s string) string {
	lines := strings.Split(strings.TrimSpace(state.Clean(state.ForChat, s)), "\n")
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

// neutralise removes the effect of "<" and of an unpaired ``` in a text.
func neutralise(s string) string {
	s = neutraliseAngles(s)
	if i := strings.LastIndex(s, fence); strings.Count(s, fence)%2 == 1 {
		s = s[:i] + "'''" + s[i+len(fence):]
	}
	return s
}

// neutraliseAngles replaces each "<" that could open a mention or a link. It keeps those
// that can only mean "less than" or belong to an arrow.
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

// neutraliseLastAngle replaces a "<" at the end of a neutral text. It is needed if
// another character than a space is to follow the text.
func neutraliseLastAngle(s string) string {
	if before, isCut := strings.CutSuffix(s, "<"); isCut {
		return before + "‹"
	}
	return s
}

// normalise returns a text in the form in which labels are compared: as Chat shows it, in
// one case, with plain quotes and dashes. Phones replace those while a person types.
func normalise(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '‘', '’', '‚', '‛', '′', '`':
			return '\''
		case '“', '”', '„', '‟', '″':
			return '"'
		case '‐', '‑', '‒', '–', '—', '―', '−':
			return '-'
		case '‹': // SafeLine puts it in place of "<", and people copy what they see
			return '<'
		}
		folded := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			folded = min(folded, f)
		}
		return folded
	}, SafeLine(s))
}

// ownPrefixPattern matches the tag that our messages begin with, such as "[Answered]",
// even behind marks of quotes, lists or bold text. People trust these tags, so no line of
// foreign text may begin with one.
var ownPrefixPattern = sync.OnceValue(func() *regexp.Regexp {
	kinds := ""
	for _, kind := range state.Kinds {
		kinds += "|" + strings.ReplaceAll(kind.Traits().Title, " ", `\s+`)
	}
	return regexp.MustCompile(`(?i)^([\s\pZ>*_~•\x60-]*)\[([\s\pZ*_~]*(?:` +
		`Allowed|Answered|Asks\s+again|AskUserQuestion|BLOCKED|Cancelled|Changed|` +
		`Digest|Done|Error|Gone\s+on|Heartbeat|Help|In\s+the\s+terminal|Kept|Look|` +
		`More|Muted|New\s+session|Not\s+known|Not\s+read|Not\s+started|Not\s+used|` +
		`Notification|Progress|Reminder|Screen|Sent|Session|Session\s+End|` +
		`Sessions|Session\s+Start|Setup|Started|Status|Stopped|Subagent\s+Done|Task\s+Done|` +
		`Timeout|Turn\s+Done|Verify|Watch|Waiting|Wake|Words\s+only` + kinds +
		`)[\s\pZ*_~]*)\]`)
})

var threadKeyPattern = state.LazyPattern(`(?i)^([\s\pZ>*_~•\x60-]*thread\s+key[\s\pZ*_~]*):`)

// disarm changes a line that would pass for one of ours: it replaces the square brackets
// of a tag with round ones, and the colon of "Thread key:" with a dash.
func disarm(line string) string {
	line = ownPrefixPattern().ReplaceAllString(line, "$1($2)")
	return threadKeyPattern().ReplaceAllString(line, "$1 -")
}
