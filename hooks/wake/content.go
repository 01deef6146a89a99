package wake

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// content is what a message carries, from one source: Claude's words, a question, or else lines of the pane.
type content struct {
	source string // transcript, question, pane, none
	text   string
	new    bool // the agent does not know it yet, or may not
}

// deltaLines is how much of a pane is compared.
const deltaLines = 40

// content works out what there is to tell, and what will be known then. When in doubt, it is new.
func (f *fire) content(said spoken, known *state.WakeMemory) content {
	to := f.agent.to
	known.Server = inject.ServerOf(f.Env("TMUX")).Socket
	if f.trigger.name == askTrigger {
		c := content{source: "question", text: questions(f.event.ToolInput)}
		id := hash(f.event.ToolUseID, c.text)
		c.new = f.event.ToolUseID == "" || id != known.Question || to != known.To // a doubled install tells once
		known.Question, known.To = id, to
		return c
	}
	// A session's end and a compaction are news whatever the pane shows; and a pane that cannot be seen may have any.
	c := content{new: f.trigger.name == endTrigger || f.trigger.name == compactTrigger || f.sight.screen == "" || to != known.To}
	known.Transcript, known.To = said.transcript, to
	if said.words != "" {
		id := textID(said.words)
		c.new, known.Text, known.Said = c.new || id != known.Text, id, cmp.Or(said.entry, known.Said)
		c.source, c.text = "transcript", cutFront(said.words, f.agent.extractChars)
	}
	if f.sight.screen != "" {
		pane, last := f.sight.hash(), f.sight.lines[max(0, len(f.sight.lines)-deltaLines):]
		c.new, known.Pane = c.new || pane != known.Pane, pane
		if said.words == "" {
			c.source, c.text = "pane", strings.Join(delta(known.Lines, last, f.agent.minLines), "\n")
		}
		known.Lines, known.CapturedAt = append([]string{}, last...), f.sight.seen
	}
	if c.text == "" {
		c.source, c.text = "none", "(nothing to be read, neither in the transcript nor on the screen)"
	}
	return c
}

// textID tells words apart, and not by their margins: an event trims them.
func textID(words string) string { return hash(strings.TrimSpace(words)) }

// ansi are escape sequences: colors, titles.
var ansi = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\a\x1b]*(\a|\x1b\\)?)`)
})

// readable is a text as it is, without what a command line or a reader cannot take: it is to be exactly what Claude said.
func readable(s string) string {
	if strings.Contains(s, "\x1b") {
		s = ansi().ReplaceAllString(s, "")
	}
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return strings.TrimRight(s, "\n")
}

// cutFront is the end of s, at most so many characters.
func cutFront(s string, chars int) string {
	for n := utf8.RuneCountInString(s) - chars; n > 0; n-- {
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
	return s
}

// hash tells texts apart.
func hash(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		h.Write([]byte(t))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}
