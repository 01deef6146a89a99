package cli

import (
	"slices"
	"testing"
	"time"

	"gchat-hooks/state"
)

// Of the questions of the index, those that can still be answered are shown, the oldest first, each with who delivers its answer.
func TestOpenQuestionsSayWhoDelivers(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	folder := state.QuestionsIn(t.TempDir())
	for i, q := range []state.Question{
		{QuestionID: "typed", Mode: state.Inject, Status: state.Pending, TmuxPane: "%1", Questions: []state.Prompt{{Question: "?"}}},
		{QuestionID: "denied", Mode: state.Deny, Status: state.Pending},
		{QuestionID: "native", Mode: state.Native, Status: state.Pending},
		{QuestionID: "over", Mode: state.Native, Status: state.Resolved},
	} {
		q.SessionID, q.AskedAt = "s", time.Now().Add(time.Duration(i-10)*time.Minute)
		if err := folder.Create(q.QuestionID, &q); err != nil {
			t.Fatal(err)
		}
		if err := state.AnnounceQuestion(env, &q); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	open, bad := openQuestions(env, time.Now(), &state.Redactor{})
	for _, q := range open {
		got = append(got, q.QuestionID+" "+q.Waiter)
	}
	if want := []string{"typed poller", "denied later", "native terminal"}; len(bad) > 0 || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, bad, want)
	}
}
