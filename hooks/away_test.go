package hooks_test

import (
	"strings"
	"testing"
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// Nobody answers for a minute, and Claude Code goes on (2.1.332). That is not a person's
// answer.
func TestAnswered_AwayTimerIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(*state.Question)
		says   []string
	}{
		"nobody answered": {func(*state.Question) {}, nil},
		"a part was answered": {func(q *state.Question) { q.PartialAnswers = map[int]state.Answer{0: {Labels: []string{"Canary"}}} },
			[]string{"Your answer: Canary", "did not reach Claude", `Reply "send"`}},
		"a reply came too late": {func(q *state.Question) {
			q.Status, q.Answers, q.AnsweredMessage, q.AnsweredBy = state.Answered, map[string]string{singleQuestion: "Canary"}, "m", ann.Name
		}, []string{"Your reply did not reach Claude"}},
		"the sessions file told first": {func(q *state.Question) {
			q.Status, q.ResolvedBy, q.ResolvedAt = state.Resolved, "terminal", &q.AskedAt
		}, nil},
	} {
		w := newWorldWithoutPoller(t)
		w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
		q := w.question()
		if _, err := state.SessionsIn(state.UserStateDir(w.getenv)).Change(q.ClaudeSession(), func(s *state.Session) {
			s.AcceptsCommands = true
		}); err != nil {
			t.Fatal(err)
		}
		w.changeQuestion(q, c.before)
		w.runHook(answeredHook, recorded(t, "single-05-PostToolUse", "tool_response",
			map[string]any{"answers": map[string]any{}, "annotations": map[string]any{}, "afkTimeoutMs": 60000}))
		q = w.question()
		note := strings.Join(wording.NoteTexts(q, closedNote), "")
		for _, want := range append(c.says, "[Timeout]", "Claude Code went on after 60 s without an answer.") {
			if !strings.Contains(note, want) {
				t.Errorf("%s: no %q in %q", name, want, note)
			}
		}
		if strings.Contains(note, "in the terminal") || len(q.OwedNotes) != 1 {
			t.Errorf("%s: told %q, owed %v", name, note, q.OwedNotes)
		}
		counts := state.ReadStats(w.getenv, time.Now().AddDate(-1, 0, 0)).Total.Counts
		if counts["unanswered"] != 1 || counts["answered_in_the_terminal"]+counts["answered_in_chat"] > 0 {
			t.Errorf("%s: counted %v", name, counts)
		}
	}
}
