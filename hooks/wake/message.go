package wake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

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
	s := p.read
	return slices.ContainsFunc(strings.Split(told, "\n\nQuestion: ")[1:], func(question string) bool {
		return s.Shows == inject.Review || s.Shows == inject.Question && (s.Cut || inject.Begins(s.Question, question))
	})
}

func hash(texts ...string) string { return state.Hash(12, strings.Join(texts, "\x00")) }

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
	known := make([]bool, len(is))
	for i, l := range is {
		known[i] = left[l] > 0
		if known[i] {
			left[l]--
		} else {
			least--
		}
	}
	for i, l := range slices.Backward(is) {
		if known[i] {
			least--
		}
		if !known[i] || least >= 0 {
			told = append(told, l)
		}
	}
	slices.Reverse(told)
	return told
}

// message is the wake message, version 2 of its format: sections with a headline in brackets, one blank line between them.
// A question has a section of its own in place of the content, and says nothing of the context's pressure.
func (f *fire) message(c content) string {
	var sections []string
	add := func(name, text string) { sections = append(sections, "["+name+"]\n"+text) }
	add("SESSION IDENTITY", fmt.Sprintf("agent_id: %s\ntmux_session_name: %s\ntimestamp: %s",
		oneLine(f.agent.id), oneLine(f.pane.Session), f.began.UTC().Format(time.RFC3339)))
	add("TRIGGER", "type: "+f.trigger.name)
	if f.trigger.name == askTrigger {
		add("ASK USER QUESTION", c.text)
		add("STATE HINT", "state: "+f.state)
	} else {
		add("CONTENT", c.text)
		add("STATE HINT", "state: "+f.state)
		add("CONTEXT PRESSURE", f.pressure)
	}
	if f.state != terminatedState { // else nothing can be done
		add("AVAILABLE ACTIONS", actionLines(f.pane.Session, f.Env("TMUX_PANE")))
	}
	return strings.Join(sections, "\n\n")
}

// actionLines are commands that can be pasted into a shell. menu-driver finds the session by its name, but for one that reads
// like an option or a pane.
func actionLines(session, pane string) string {
	if strings.HasPrefix(session, "-") || strings.HasPrefix(session, "%") {
		session = pane
	}
	var lines []string
	for _, a := range []string{"choose <n>", "type <text>", "clear_then <command>", "enter", "esc", "submit", "snapshot"} {
		lines = append(lines, "menu-driver.sh "+state.ShellQuoted(session)+" "+a)
	}
	return strings.Join(lines, "\n")
}

// tellChat puts the same event into Google Chat's outbox, for the session's thread: what Claude said as the Markdown that
// it is, and a screen or a question as it stands.
func (f *fire) tellChat(c content) error {
	shown := c.text
	if c.source != "transcript" {
		shown = "```\n" + strings.ReplaceAll(shown, "```", "'''") + "\n```"
	}
	about := f.trigger.name + ", " + f.state
	if f.pressure != "unknown" {
		about += ", context " + f.pressure
	}
	return f.Tell(f.event, "wake", state.Report{
		Type: state.Plain, Prefix: "[Wake]", Session: f.pane.Session, About: about, Text: shown,
	})
}

// rawChars is how much of an input is told that holds no question which can be read.
const rawChars = 2000

// questions are those of an AskUserQuestion call, for an agent to read. Where they cannot be read it gets the input as it came.
func questions(toolInput []byte) string {
	var in struct {
		Questions []state.Prompt `json:"questions"`
	}
	err := json.Unmarshal(toolInput, &in)
	noText := func(q state.Prompt) bool { return q.Question == "" }
	if err != nil || len(in.Questions) == 0 || slices.ContainsFunc(in.Questions, noText) {
		return strings.TrimSpace("(could not parse questions)\n" + cutEnd(readable(string(toolInput)), rawChars))
	}
	var all []string
	for _, q := range in.Questions {
		lines := []string{"Question: " + readable(q.Question)}
		if h := oneLine(q.Header); h != "" {
			lines = append(lines, "Header: "+h)
		}
		lines = append(lines, "Multi-select: "+map[bool]string{true: "yes", false: "no"}[q.MultiSelect])
		if len(q.Options) > 0 {
			lines = append(lines, "Options:")
		}
		for i, o := range q.Options {
			line := fmt.Sprintf("  %d. %s", i+1, oneLine(o.Label))
			if d := oneLine(o.Description); d != "" {
				line += ": " + d
			}
			lines = append(lines, line)
		}
		all = append(all, strings.Join(lines, "\n"))
	}
	return cutEnd(strings.Join(all, "\n\n"), mostChars)
}

// readable is a text as an agent is told it, without the line breaks at its end.
func readable(s string) string {
	s = state.Clean(state.ForAgent, s)
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return strings.TrimRight(s, "\n")
}

// oneLine is a readable text on one line. Its blanks stay: they are a part of a session's name, and of a label on the screen.
func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\t", " ").Replace(readable(s)) }

func cutFront(s string, chars int) string {
	runes := []rune(s)
	return string(runes[max(0, len(runes)-chars):])
}

func cutEnd(s string, chars int) string {
	runes := []rune(s)
	return string(runes[:min(chars, len(runes))])
}
