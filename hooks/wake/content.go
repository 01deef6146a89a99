package wake

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"gchat-hooks/hooks"
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

// content works out what there is to tell, and what will be known then. words are Claude's last ones.
func (f *fire) content(words string, known *state.WakeMemory) content {
	if f.trigger.name == askTrigger {
		c := content{source: "question", text: questions(f.event.ToolInput)}
		id := hash(f.event.ToolUseID, c.text)
		c.new, known.Question = id != known.Question, id // a doubled install tells once
		return c
	}
	// A session's end and a compaction are news whatever the pane shows; and a pane that nobody can look at may have any.
	c := content{new: f.trigger.name == endTrigger || f.trigger.name == compactTrigger || f.sight.screen == ""}
	if words != "" {
		id := textID(words)
		c.new, known.Text = c.new || id != known.Text, id
		c.source, c.text = "transcript", cutFront(words, f.agent.extractChars)
	}
	if f.sight.screen != "" {
		pane, last := hash(f.sight.lines...), f.sight.lines[max(0, len(f.sight.lines)-deltaLines):]
		c.new, known.Pane = c.new || pane != known.Pane, pane
		if words == "" {
			c.source, c.text = "pane", strings.Join(delta(known.Lines, last, f.agent.minLines), "\n")
		}
		known.Lines, known.CapturedAt = append([]string{}, last...), f.sight.seen
	}
	if c.text == "" {
		c.source, c.text = "none", "(nothing to be read, neither in the transcript nor on the screen)"
	}
	return c
}

// A turn's end can be told before the transcript says what Claude said: 2.1.45, which does not say it in the event, writes it
// 30 to 450 ms later, on a busy machine 800.
const (
	transcriptLag  = 2 * time.Second
	transcriptLook = 10 * time.Millisecond
)

// lastWords is what Claude said last in this turn; "" when it said nothing, or that cannot be read.
func (f *fire) lastWords() string {
	if said := readable(text(f.news.LastWords)); said != "" {
		return said
	}
	path := text(f.news.Transcript)
	if path == "" {
		return ""
	}
	known := state.PeekWakeMemory(state.UserState(f.Env), f.sight.session, f.Env("TMUX_PANE")).Text
	for deadline := f.transcriptDeadline(path); ; time.Sleep(transcriptLook) {
		said, last, err := hooks.LastWords(path, false)
		said = readable(said)
		there := last && textID(said) != known
		if !there && time.Now().Before(deadline) && (err == nil || errors.Is(err, fs.ErrNotExist)) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a session's first hooks come before its first line
			f.Log().Error().Err(err).Msg("transcript not read; the message tells what is on the screen")
		}
		if f.trigger.event == "Notification" && !there {
			return "" // what the session waits for is on the screen
		}
		return said
	}
}

// transcriptDeadline is how long the transcript may lag behind this event. Only an old version's lags: it says neither the
// last words nor a prompt's id.
func (f *fire) transcriptDeadline(path string) time.Time {
	old := f.trigger.event == "Stop" && len(f.news.LastWords) == 0 && f.event.PromptID == "" && len(f.news.Mode) > 0
	if !old || !mayCome(path) {
		return time.Time{}
	}
	return time.Now().Add(transcriptLag)
}

// mayCome says whether Claude Code may still write this transcript: its folder is there, or is one of the projects' folders
// that it makes with a session's first line, in a folder of its configuration that is there.
func mayCome(path string) bool {
	dir := filepath.Dir(path)
	if projects := filepath.Dir(dir); filepath.Base(projects) == "projects" {
		dir = filepath.Dir(projects)
	}
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// textID tells words apart, and not by their margins: an event trims them.
func textID(words string) string { return hash(strings.TrimSpace(words)) }

// readable is a text as it is, without what a command line or a reader cannot take: it is to be exactly what Claude said.
func readable(s string) string {
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
