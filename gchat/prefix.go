package gchat

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// ownPrefixes are the words in brackets that begin our messages. A reader trusts them, so no line of a report's foreign
// text may begin with one of them, or with what looks like it.
var ownPrefixes = [...]string{
	"[Done]", "[Progress]", "[BLOCKED]", "[Heartbeat]", "[Session Start]", "[Session End]", "[Session]", "[Error]",
	"[Subagent Done]", "[Task Done]", "[Permission]", "[Notification]", "[Digest]", "[AskUserQuestion]", "[Answered]", "[Cancelled]",
	"[Not used]", "[Not read]", "[Kept]", "[Waiting]", "[Look]", "[Changed]", "[Timeout]", "[Verify]", "[Wake]", "[Setup]",
}

// forgeries are the letters of ownPrefixes, as lettersOf gives them.
var forgeries = sync.OnceValue(func() map[string]bool {
	m := map[string]bool{}
	for _, p := range ownPrefixes {
		word, _ := lettersOf(p, len("["))
		m[word] = true
	}
	return m
})

var threadKeyLetters = sync.OnceValue(func() string {
	word, _ := lettersOf("thread key", 0)
	return word
})

const longestForgery = len("askuserquestion")

// disarm gives a line that begins like a message of ours round brackets, and one that begins like the line of a thread
// key no colon. It works on a line before settle: a link's URL is not seen.
func disarm(line string) string {
	return forgeryAt(line, 0).in(line)
}

// disarmAll does so at every place of a line: one that is too long for a message is cut, and goes on at the start of the
// next message.
func disarmAll(line string) string {
	var all edits
	for i := 0; ; {
		r, at, after := nextShown(line, i)
		if r == 0 {
			return all.in(line)
		}
		if found := forgeryAt(line, at); found != nil {
			all = append(all, found...)
			after = found[len(found)-1].end
		}
		i = after
	}
}

// edits are replacements in a text, in order.
type edits []struct {
	start, end int
	text       string
}

func (e edits) in(s string) string {
	if len(e) == 0 {
		return s
	}
	var b strings.Builder
	done := 0
	for _, one := range e {
		b.WriteString(s[done:one.start])
		b.WriteString(one.text)
		done = one.end
	}
	b.WriteString(s[done:])
	return b.String()
}

// forgeryAt tells what must be changed when one of our prefixes is the first that a reader sees at byte i; nil when none
// is.
func forgeryAt(line string, i int) edits {
	r, at, after := nextShown(line, i)
	switch looksLike(r) {
	case '[':
		word, end := lettersOf(line, after)
		last, lastAt, lastAfter := nextShown(line, end)
		if looksLike(last) == ']' && forgeries()[word] {
			return edits{{at, after, "("}, {lastAt, lastAfter, ")"}}
		}
	case 't':
		word, end := lettersOf(line, at)
		last, lastAt, lastAfter := nextShown(line, end)
		if looksLike(last) == ':' && word == threadKeyLetters() {
			return edits{{lastAt, lastAfter, " -"}}
		}
	}
	return nil
}

// lettersOf reads the letters from byte i on, as they look and without what stands between them, up to the first rune
// that is none. It reads no more than the longest prefix has.
func lettersOf(line string, i int) (word string, end int) {
	var b strings.Builder
	for b.Len() <= longestForgery {
		r, _, after := nextShown(line, i)
		c := looksLike(r)
		if c < 'a' || c > 'z' {
			break
		}
		if c == 'l' { // capital I, small l and 1 are one stroke in many fonts
			c = 'i'
		}
		b.WriteByte(byte(c))
		i = after
	}
	return b.String(), i
}

// nextShown is the first rune at byte i or later that tells one text from another: no space, no markup, no mark above or
// below a letter, nothing of a link but its label. At the end of the line r is 0.
func nextShown(line string, i int) (r rune, at, after int) {
	for i < len(line) {
		r, size := utf8.DecodeRuneInString(line[i:])
		switch {
		case r == linkOpen:
			if bar := strings.IndexByte(line[i:], '|'); bar >= 0 {
				size = bar + 1
			}
		case !passedOver(r):
			return r, i, i + size
		}
		i += size
	}
	return 0, i, i
}

func passedOver(r rune) bool {
	if r > ' ' && r <= '~' {
		return strings.ContainsRune("*_~`>-", r)
	}
	return unicode.IsSpace(r) || unicode.In(r, unicode.M, unicode.Cf) || isOwn(r) || r == '•' || r == 0
}
