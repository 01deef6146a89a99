package commands

import (
	"strings"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// setWatch has the session's thread show what Claude does, or ends that.
func (r Runner) setWatch(session *state.Session, argument string) string {
	switch {
	case argument != "" && argument != "off":
		return "[Not used] Write /watch, or /watch off."
	case argument == "" && !canShowProgress(r.Config):
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
	calls, words := describeTurn(r.Config, turn)
	for _, call := range calls {
		lines = append(lines, "• "+wording.SafeLine(r.Log.Redact(call)))
	}
	if words != "" {
		lines = append(lines, wording.SafeLine(r.Log.Redact(words)))
	}
	return wording.Cut(strings.Join(lines, "\n"), wording.MaxText)
}

// canShowProgress reports whether a policy lets people see outside of the terminal what
// Claude does.
func canShowProgress(cfg *config.Config) bool { return cfg.AccessTo(config.KindScreen, "").CanShow }

// describeTurn is what people see of a turn that Claude works on: the last tools by their
// names, with the names of the files, and Claude's last words.
func describeTurn(cfg *config.Config, turn inject.Turn) (calls []string, words string) {
	if !canShowProgress(cfg) {
		return nil, ""
	}
	for _, call := range turn.Calls {
		calls = append(calls, call.String())
	}
	return calls, turn.Words
}

// ThreadProgress is what the page shows of the turn that the session of a thread works
// on. Both results are empty if Claude does not work. The caller redacts them.
func ThreadProgress(
	env state.Getenv,
	cfg *config.Config,
	thread string,
) (calls []string, words string) {
	session := sessionOfThread(env, thread)
	if session == nil || !session.IsRunning() {
		return nil, ""
	}
	if isWorking, _ := inject.IsWorking(session); !isWorking {
		return nil, ""
	}
	turn, _ := inject.ReadTurn(session.TranscriptPath, inject.ProgressBytes)
	return describeTurn(cfg, turn)
}
