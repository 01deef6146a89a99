package wake

import (
	"strings"

	"gchat-hooks/gchat"
)

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
