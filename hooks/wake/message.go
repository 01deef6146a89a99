package wake

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
)

// actions are what menu-driver can do in a session.
var actions = []string{"choose <n>", "type <text>", "clear_then <command>", "enter", "esc", "submit", "snapshot"}

// message is the wake message, version 2 of its format: sections with a headline in brackets, one blank line between them.
// A question has a section of its own in place of the content, and says nothing of the context's pressure.
func (f *fire) message(c content) string {
	sections := [][2]string{
		{"SESSION IDENTITY", fmt.Sprintf("agent_id: %s\ntmux_session_name: %s\ntimestamp: %s",
			oneLine(f.agent.id), oneLine(f.pane.Session), f.began.UTC().Format(time.RFC3339))},
		{"TRIGGER", "type: " + f.trigger.name},
		{"CONTENT", c.text},
		{"STATE HINT", "state: " + f.state},
		{"CONTEXT PRESSURE", f.pressure},
		{"AVAILABLE ACTIONS", actionLines(f.pane)},
	}
	if f.trigger.name == askTrigger {
		sections[2][0] = "ASK USER QUESTION"
		sections = append(sections[:4], sections[5])
	}
	if f.state == terminatedState { // and nothing can be done
		sections = sections[:5]
	}
	var parts []string
	for _, s := range sections {
		parts = append(parts, "["+s[0]+"]\n"+s[1])
	}
	return strings.Join(parts, "\n\n")
}

// actionLines are commands that can be pasted into a shell. menu-driver finds the session by its name, but for one that reads
// like an option or a pane.
func actionLines(p pane) string {
	session := p.Session
	if p.Pane != "" && (strings.HasPrefix(session, "-") || strings.HasPrefix(session, "%")) {
		session = p.Pane
	}
	var lines []string
	for _, a := range actions {
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
		if h := oneLine(q.Header); strings.TrimSpace(h) != "" {
			lines = append(lines, "Header: "+h)
		}
		if q.MultiSelect {
			lines = append(lines, "Multi-select: yes")
		} else {
			lines = append(lines, "Multi-select: no")
		}
		if len(q.Options) > 0 {
			lines = append(lines, "Options:")
		}
		for i, o := range q.Options {
			line := fmt.Sprintf("  %d. %s", i+1, oneLine(o.Label))
			if d := oneLine(o.Description); strings.TrimSpace(d) != "" {
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

// cutFront is the end of s, at most so many characters.
func cutFront(s string, chars int) string {
	runes := []rune(s)
	return string(runes[max(0, len(runes)-chars):])
}

// cutEnd is the beginning of s, at most so many characters.
func cutEnd(s string, chars int) string {
	runes := []rune(s)
	return string(runes[:min(chars, len(runes))])
}
