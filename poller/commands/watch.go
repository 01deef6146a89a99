package commands

import (
	"strings"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// maxWatchWords is how much of Claude's last words people see of a session that works.
const maxWatchWords = 200

// setWatch has the session's thread show what Claude does, or ends that.
func (r Runner) setWatch(session *state.Session, argument string) string {
	switch {
	case argument != "" && argument != "off":
		return "[Not used] Write /watch, or /watch off."
	case argument == "" && !r.canShowProgress():
		return "[Not used] A policy shows what Claude does only in the terminal."
	case argument == "" && r.WhyNoWatch != "":
		return "[Not used] The thread cannot show what Claude does: " +
			wording.SafeLine(r.WhyNoWatch) + "."
	}
	sessions := state.SessionsIn(state.UserStateDir(r.Env))
	_, err := sessions.Change(session.ID, func(s *state.Session) {
		if argument == "" && s.Watch == nil {
			s.Watch = &state.Watch{}
		}
		if s.Watch != nil {
			// copied, since the record is shared with its readers
			watch := *s.Watch
			watch.IsOver = argument == "off"
			s.Watch = &watch
		}
	})
	if err != nil {
		return "[Not used] This could not be saved: " + r.shorten(err.Error()) + "."
	}
	if argument == "off" {
		return "[Watch] Off."
	}
	return "[Watch] While Claude works, one message here shows what it does. " +
		"It changes every ten seconds at most. To end it, write /watch off."
}

// WatchText is the message that shows what Claude does.
func (r Runner) WatchText(session *state.Session, turn inject.Turn) string {
	lines := []string{"[Watch] " + wording.SafeLine(session.Name) + ": Claude works"}
	calls, words := r.progress(turn)
	for _, call := range calls {
		lines = append(lines, "• "+wording.SafeLine(call))
	}
	if words != "" {
		lines = append(lines, wording.SafeLine(words))
	}
	return wording.Cut(strings.Join(lines, "\n"), wording.MaxText)
}

// canShowProgress reports whether a policy lets people see outside of the terminal what
// Claude does.
func (r Runner) canShowProgress() bool { return r.Config.AccessTo(config.KindScreen, "").CanShow }

// progress is what people see of a turn that Claude works on: the last tools by their
// names, with the names of the files, and Claude's last words.
func (r Runner) progress(turn inject.Turn) (calls []string, words string) {
	if !r.canShowProgress() {
		return nil, ""
	}
	for _, call := range turn.Calls {
		calls = append(calls, r.Log.Redact(call.String()))
	}
	return calls, wording.Truncate(r.Log.Redact(turn.Words), maxWatchWords)
}
