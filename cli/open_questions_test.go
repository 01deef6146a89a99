package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// The questions that can still be answered are listed, the oldest first, each with who
// delivers its answer and what it asks. A permission shows its command, and a session
// that waits shows Claude's last text.
func TestOpenQuestions_SayWhoDelivers(t *testing.T) {
	env := getenvOf([]string{"HOME=" + t.TempDir()})
	folder := state.QuestionsIn(t.TempDir())
	for i, q := range []state.Question{
		{
			QuestionID: "typed", Mode: state.ModeInject, Status: state.Pending, TmuxPane: "%1",
			SubQuestions: []state.SubQuestion{{Question: "?"}},
		},
		{QuestionID: "denied", Mode: state.ModeDeny, Status: state.Pending},
		{QuestionID: "native", Mode: state.ModeNative, Status: state.Pending},
		{
			QuestionID: "next", Mode: state.ModeNative, Kind: state.KindNext, Status: state.Pending,
			TmuxPane: "%1", ShownText: "Shall I push?",
			SubQuestions: []state.SubQuestion{{Question: "What is to be done next?"}},
		},
		{
			QuestionID: "permission", Mode: state.ModeNative, Kind: state.KindPermission,
			Status:   state.Pending,
			ToolName: "Bash", ShownText: "rm -rf build\nmake", About: "Clean and rebuild",
			SubQuestions: []state.SubQuestion{
				{Question: "Claude wants to use Bash: Clean and rebuild"},
			},
		},
		{QuestionID: "over", Mode: state.ModeNative, Status: state.Resolved},
	} {
		q.SessionID, q.AskedAt = "s", time.Now().Add(time.Duration(i-10)*time.Minute)
		kit.NoError(t, folder.Create(q.QuestionID, &q))
		kit.NoError(t, state.AddQuestionToIndex(env, &q))
		if q.QuestionID == "next" { // its hook is there, and the poller types all the same
			waits := flock.New(strings.TrimSuffix(state.IndexFile(env, q.Path),
				".open") + ".waiter")
			_, err := waits.TryLock()
			kit.NoError(t, err)
			defer waits.Close()
		}
	}
	user := state.UserStateDir(env)
	_, err := state.SessionsIn(user).Change("s", func(s *state.Session) { s.Name = "shop" })
	kit.NoError(t, err)
	kit.NoError(t, state.InboxIn(user).Create("prompt", &state.Incoming{
		ID: "prompt", MessageName: "m", SessionID: "s", Text: "And the tests",
		Status: state.IncomingKept, LocalCreatedAt: time.Now(),
	}))
	var got []string
	records, bad := readOpenQuestions(env, time.Now())
	open := openQuestions(env, records, &state.Redactor{})
	for _, q := range open {
		if delivererTexts[q.Deliverer] == "" {
			t.Errorf("%s: no text for %s", q.QuestionID, q.Deliverer)
		}
		got = append(got, strings.TrimSpace(q.QuestionID+" "+string(q.Deliverer)+" "+q.Question))
	}
	want := []string{
		"typed poller ?", "denied later", "native terminal", "next poller Shall I push?",
		"permission terminal Bash: rm -rf build make (Clean and rebuild)",
		state.MessageID("said", "m") + " later And the tests",
	}
	kit.Equalf(t, len(bad), 0, "unreadable questions: %v", bad)
	kit.Equalf(t, got, want, "the open questions")
}
