package wake

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// actions are what menu-driver can do in a session.
var actions = []string{"choose <n>", "type <text>", "clear_then <command>", "enter", "esc", "submit", "snapshot"}

// message is the wake message, version 2 of its format: sections with a headline in brackets, one blank line between them.
// A question has a section of its own in place of the content, and says nothing of the context's pressure.
func (f *fire) message(c content) string {
	sections := [][2]string{
		{"SESSION IDENTITY", fmt.Sprintf("agent_id: %s\ntmux_session_name: %s\ntimestamp: %s",
			oneLine(f.agent.id), oneLine(f.sight.session), f.began.UTC().Format(time.RFC3339))},
		{"TRIGGER", "type: " + f.trigger.name},
		{"CONTENT", c.text},
		{"STATE HINT", "state: " + f.state},
		{"CONTEXT PRESSURE", f.pressure},
		{"AVAILABLE ACTIONS", actionLines(f.sight.called())},
	}
	if f.trigger.name == askTrigger {
		sections[2][0] = "ASK USER QUESTION"
		sections = append(sections[:4], sections[5])
	}
	var parts []string
	for _, s := range sections {
		parts = append(parts, "["+s[0]+"]\n"+s[1])
	}
	return strings.Join(parts, "\n\n")
}

// called is what menu-driver finds the session by: its name, but for one that reads like an option or a pane.
func (s sight) called() string {
	if s.pane != "" && (strings.HasPrefix(s.session, "-") || strings.HasPrefix(s.session, "%")) {
		return s.pane
	}
	return s.session
}

// actionLines are commands that can be pasted into a shell.
func actionLines(session string) string {
	var lines []string
	for _, a := range actions {
		lines = append(lines, "menu-driver.sh "+state.ShellQuoted(session)+" "+a)
	}
	return strings.Join(lines, "\n")
}

// oneLine is a text on one line, with blanks for line breaks and tabs and without other control characters. Its own blanks
// stay: they are a part of a session's name, and of a label that is to be found on the screen.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\u0085', r == '\u2028', r == '\u2029':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// cutEnd is the beginning of s, at most so many characters.
func cutEnd(s string, chars int) string {
	n := 0
	for i := range s {
		if n++; n > chars {
			return s[:i]
		}
	}
	return s
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
	return f.Tell(f.event, "wake", gchat.Report{
		Type: gchat.Plain, Prefix: "[Wake]", Session: f.sight.session, About: about, Text: shown,
	})
}
