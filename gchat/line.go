package gchat

import (
	"strings"
	"unicode/utf8"
)

// Markup of ours stands in a line as noncharacters until the line is settled: dropInvisible takes these out of foreign
// text, so that every "<", ">" and "`" which is still in a line is foreign.
const (
	linkOpen  = '\uFDD0' // < of <url|label>
	linkClose = '\uFDD1' // > of it
	codeTick  = '\uFDD2' // ` around code
)

func isOwn(r rune) bool { return r >= linkOpen && r <= codeTick }

// line is a line of a message in the making. Code is a line of a code block, or one of its fences.
type line struct {
	text string
	code bool
}

const fence = "```"

// codeBlock gives code between fences, which the code cannot close. Blank code is no block.
func codeBlock(code string) []line {
	code = strings.TrimRight(code, "\n")
	if strings.TrimSpace(code) == "" {
		return nil
	}
	lines := []line{{fence, true}}
	for l := range strings.SplitSeq(strings.ReplaceAll(code, fence, "'''"), "\n") {
		lines = append(lines, line{l, true})
	}
	return append(lines, line{fence, true})
}

// longLine is from how many bytes on a line may be cut when a text is split: then any of its words can begin a line.
// Shorter ones are not, because there is a line's end nearby to cut at.
const longLine = 8 << 10

// settle makes the message's text out of its lines: all that is foreign is neutral then.
func settle(lines []line) string {
	out := make([]string, len(lines))
	for i, l := range lines {
		text := fuse(l.text)
		if !l.code { // code is drawn as a box, where nothing passes for a message of ours
			if len(text) > longLine {
				text = disarmAll(text)
			} else {
				text = disarm(text)
			}
			text = noFence(text)
		}
		out[i] = strings.Map(ownMarkup, shut(text))
	}
	return strings.Join(out, "\n")
}

func ownMarkup(r rune) rune {
	switch r {
	case linkOpen:
		return '<'
	case linkClose:
		return '>'
	case codeTick:
		return '`'
	}
	return r
}

// noFence makes apostrophes of the foreign backticks in a run of three or more, where ours count too: such a run would
// open or close a code block.
func noFence(s string) string {
	if !strings.Contains(s, "`") {
		return s
	}
	var b strings.Builder
	for s != "" {
		n := 0
		for n < len(s) && strings.HasPrefix(s[n:], "`") || strings.HasPrefix(s[n:], string(codeTick)) {
			_, size := utf8.DecodeRuneInString(s[n:])
			n += size
		}
		run := s[:n]
		if utf8.RuneCountInString(run) >= len(fence) {
			run = strings.ReplaceAll(run, "`", "'")
		}
		b.WriteString(run)
		if s = s[n:]; s != "" {
			_, size := utf8.DecodeRuneInString(s)
			b.WriteString(s[:size])
			s = s[size:]
		}
	}
	return b.String()
}

// paragraphs gives text that is no Markdown as lines, with single blank lines.
func paragraphs(text string) (lines []line) {
	for l := range strings.SplitSeq(text, "\n") {
		l = strings.TrimRight(l, " \t")
		if l == "" && (len(lines) == 0 || lines[len(lines)-1].text == "") {
			continue
		}
		lines = append(lines, line{text: l})
	}
	return trimBlank(lines)
}

// trimBlank takes away the blank lines at both ends.
func trimBlank(lines []line) []line {
	empty := func(l line) bool { return !l.code && strings.TrimSpace(l.text) == "" }
	for len(lines) > 0 && empty(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 0 && empty(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	return lines
}
