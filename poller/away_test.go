package poller

import (
	"slices"
	"testing"
	"time"

	"gchat-hooks/state"
)

// A person answered some questions before Claude Code continued without the rest. Those
// answers go to Claude as a prompt when the person says so.
func TestAnswersThatDidNotReachClaudeAreSentOn(t *testing.T) {
	for name, c := range map[string]struct {
		sender, text string
		listens      bool
		said         []string
		note         string
	}{
		"send":          {"", "Send.", true, []string{`You asked "Which?". The answer: Two. but why?`}, state.NoteSendUnsent},
		"other words":   {"", "hello", true, nil, state.NoteLate},
		"a stranger":    {"users/9", "send", true, nil, state.NoteRefused},
		"it takes none": {"", "send", false, nil, state.NoteLate},
	} {
		x := newTestSession(t, nil)
		q := x.addQuestion(func(q *state.Question) {
			x.markPosted(q)
			q.SessionID, q.ClaudeSessionID, q.Mode, q.Status, q.ResolvedBy = x.sessionID, x.sessionID, state.ModeNative, state.Cancelled, state.EndedAway
			q.ResolvedAt, q.AcceptsPrompts, q.AwayAfter = new(time.Now()), c.listens, time.Minute
			q.SubQuestions = append(q.SubQuestions, state.SubQuestion{Question: "When?"})
			q.PartialAnswers = map[int]state.Answer{0: {Labels: []string{"Two"}, Notes: "but why?"}}
		})
		m := x.testMachine.startThread(q)
		for range 2 {
			x.reply(m.Thread.Name, c.sender, c.text)
			x.readNotes()
			x.readNotes()
		}
		if got := x.waitingPrompts(); !slices.Equal(got, c.said) {
			t.Errorf("%s: said %q, want %q", name, got, c.said)
		}
		if notes := x.noteKinds(q); !slices.Contains(notes, c.note) || slices.Contains(notes, state.NoteSendUnsent) != (c.said != nil) {
			t.Errorf("%s: told %q", name, notes)
		}
	}
}
