package wake

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"gchat-hooks/hooks"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// content is what a message carries, from one source: Claude's words, a question, or else lines of the pane.
type content struct {
	source string // transcript, question, pane, none
	text   string
	new    bool // the agent does not know it yet, or may not
	told   bool // it is in the outbox
}

// content works out what there is to tell, and updates what the agent knows. In doubt it says that it is new.
func (f *fire) content(known *state.WakeMemory) content {
	to := f.agent.to
	if f.trigger.name == askTrigger {
		c := content{source: "question", text: questions(f.event.ToolInput)}
		asked := f.event.ToolUseID + "\n\n" + c.text
		c.new = f.event.ToolUseID == "" || asked != known.Question || to != known.To // a doubled install tells once
		known.Question, known.To = asked, to
		return c
	}
	if f.trigger.name == permissionTrigger && f.agent.dedup && to == known.To && f.pane.shows(known.Question) {
		return content{source: "question"} // Claude Code notifies of a question, too, 6 s after its dialog is drawn
	}
	// A session's end and a compaction are news whatever the pane shows; and a pane that cannot be seen may have any.
	always := f.trigger.name == endTrigger || f.trigger.name == compactTrigger
	said := f.lastWords(known)
	c := content{new: always || f.pane.Screen == "" || to != known.To}
	known.To = to
	if said != "" {
		id := textID(said)
		c.new, known.Text = c.new || id != known.Text, id
		c.source, c.text = "transcript", cutFront(said, f.agent.extractChars)
	}
	if f.pane.Screen != "" {
		id := hash(f.pane.Lines...) // a bar that fills is another pane
		last := f.pane.told[max(0, len(f.pane.told)-deltaLines):]
		c.new, known.Pane = c.new || id != known.Pane, id
		if said == "" {
			c.source, c.text = "pane", strings.Join(delta(known.Lines, last, f.agent.minLines), "\n")
		}
		known.Lines, known.CapturedAt = append([]string{}, last...), f.pane.answered
	}
	if c.text == "" {
		c.source, c.text = "none", "(no text in the transcript, and none on the screen)"
	}
	return c
}

// shows says whether the pane shows one of the questions that were told, or the page on which their answers are reviewed.
func (p pane) shows(told string) bool {
	s := inject.ReadScreen(p.Screen)
	return slices.ContainsFunc(strings.Split(told, "\n\nQuestion: ")[1:], func(question string) bool {
		return s.Kind == inject.Review || s.Kind == inject.Question && (s.Cut || inject.Begins(s.Question, question))
	})
}

// hash tells texts apart.
func hash(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:12])
}

// textID tells words apart, and not by their margins: an event trims them.
func textID(words string) string { return hash(strings.TrimSpace(words)) }

// lastWords is what Claude said last, by the event or the transcript; "" when it said nothing, or that cannot be read, or when
// this is a notification and they are known: what the session waits for is on the screen.
func (f *fire) lastWords(known *state.WakeMemory) string {
	path := string(f.event.Transcript)
	if said := readable(string(f.event.LastWords)); said != "" || path == "" {
		return said
	}
	words, err := hooks.LastWords(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a session's first hooks come before its first line
		f.Log().Error().Err(err).Msg("transcript not read; the message shows the screen instead")
	}
	words = readable(words)
	if f.trigger.event == "Notification" && textID(words) == known.Text {
		return ""
	}
	return words
}

// delta are the lines that are new since the pane was last told of, in their order, and as many of the last ones besides
// that at least so many are told; at the first time (was is nil) only those.
func delta(was, is []string, least int) (told []string) {
	if was == nil && least > 0 {
		return is[max(0, len(is)-least):]
	}
	left := map[string]int{} // of the lines before
	for _, l := range was {
		left[l]++
	}
	fresh, count := make([]bool, len(is)), 0
	for i, l := range is {
		if left[l] > 0 {
			left[l]--
			continue
		}
		fresh[i] = true
		count++
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
