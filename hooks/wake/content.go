package wake

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"gchat-hooks/hooks"
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

// spoken is what Claude said last, as far as it is to be told.
type spoken struct {
	words      string // "" when it said nothing, or that cannot be read
	entry      string // of the transcript, that the words are from; "" for those of the event itself
	transcript string // its size and time
}

// lastWords is what Claude said last. Words of an earlier turn count where no message has carried them: they may be all that
// this turn had to say, and a screen says less.
func (f *fire) lastWords() spoken {
	path := text(f.news.Transcript)
	if said := readable(text(f.news.LastWords)); said != "" {
		return spoken{words: said, transcript: fingerprint(path)}
	}
	if path == "" {
		return spoken{}
	}
	known := state.PeekWakeMemory(state.UserState(f.Env), f.sight.session, f.Env("TMUX_PANE"))
	now := spoken{transcript: fingerprint(path)} // before it is read: what is written meanwhile is new
	said, err := hooks.LastWords(path)
	words := readable(said.Text)
	fresh := said.Entry != known.Said
	if said.Entry == "" || known.Said == "" {
		fresh = textID(words) != known.Text
	}
	if there := words != "" && said.Last && !said.Earlier && fresh; !there {
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a session's first hooks come before its first line
			f.Log().Error().Err(err).Msg("transcript not read; the message tells what is on the screen")
		}
		if f.trigger.event == "Notification" || !fresh && said.Earlier {
			return now // what the session waits for, or has done, is on the screen
		}
	}
	now.words, now.entry = words, said.Entry
	return now
}

// fingerprint tells one state of a file from another.
func fingerprint(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "none"
	}
	return fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano())
}

// clean makes lines of a pane ready to be told: without boxes, hidden characters and blank lines.
func clean(lines []string) (kept []string) {
	for _, l := range lines {
		l, _ = inject.Clean(l)
		boxed := false
		l = strings.Map(func(r rune) rune {
			if r >= 0x2500 && r <= 0x259f { // box drawing and block elements
				boxed = true
				return ' '
			}
			return r
		}, l)
		if boxed { // what was a frame leaves blanks of no meaning
			l = strings.Join(strings.Fields(l), " ")
		}
		if l = strings.TrimRight(l, " "); l != "" {
			kept = append(kept, l)
		}
	}
	return kept
}

// delta are the lines that are new since the pane was last told of, in their order, and as many of the last ones besides
// that at least so many are told; at the first time (was is nil) only those.
func delta(was, is []string, least int) (told []string) {
	if was == nil && least > 0 {
		return is[max(0, len(is)-least):]
	}
	fresh := newIn(was, is)
	count := 0
	for _, n := range fresh {
		if n {
			count++
		}
	}
	for i := len(is) - 1; i >= 0 && count < least; i-- {
		if !fresh[i] {
			fresh[i] = true
			count++
		}
	}
	for i, l := range is {
		if fresh[i] {
			told = append(told, l)
		}
	}
	return told
}

// newIn says of each line whether it is none of a longest common subsequence with the lines before.
func newIn(was, is []string) []bool {
	longest := make([][]int, len(was)+1) // of the ends from there on
	for i := range longest {
		longest[i] = make([]int, len(is)+1)
	}
	for i := len(was) - 1; i >= 0; i-- {
		for j := len(is) - 1; j >= 0; j-- {
			if was[i] == is[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	fresh := make([]bool, len(is))
	i := 0
	for j := range is {
		for i < len(was) && was[i] != is[j] && longest[i+1][j] == longest[i][j] {
			i++
		}
		if i < len(was) && was[i] == is[j] {
			i++
		} else {
			fresh[j] = true
		}
	}
	return fresh
}
