package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"gchat-hooks/state"
)

// Of the questions of the index, those that can still be answered are shown, the oldest first, each with who delivers its answer
// and what it asks: of a permission the command, too, of a session that waits Claude's last words.
func TestOpenQuestionsSayWhoDelivers(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	folder := state.QuestionsIn(t.TempDir())
	for i, q := range []state.Question{
		{QuestionID: "typed", Mode: state.Inject, Status: state.Pending, TmuxPane: "%1", Questions: []state.Prompt{{Question: "?"}}},
		{QuestionID: "denied", Mode: state.Deny, Status: state.Pending},
		{QuestionID: "native", Mode: state.Native, Status: state.Pending},
		{QuestionID: "next", Mode: state.Native, Kind: state.AskedNext, Status: state.Pending, TmuxPane: "%1", Shown: "Shall I push?", Questions: []state.Prompt{{Question: "What is to be done next?"}}},
		{QuestionID: "permission", Mode: state.Native, Kind: state.AskedPermission, Status: state.Pending, Tool: "Bash", Shown: "rm -rf build\nmake", About: "Clean and rebuild", Questions: []state.Prompt{{Question: "Claude wants to use Bash: Clean and rebuild"}}},
		{QuestionID: "over", Mode: state.Native, Status: state.Resolved},
	} {
		q.SessionID, q.AskedAt = "s", time.Now().Add(time.Duration(i-10)*time.Minute)
		if err := folder.Create(q.QuestionID, &q); err != nil {
			t.Fatal(err)
		}
		if err := state.AnnounceQuestion(env, &q); err != nil {
			t.Fatal(err)
		}
		if q.QuestionID == "next" { // its hook is there, and the poller types all the same
			waits := flock.New(strings.TrimSuffix(state.OpenFile(env, q.Path), ".open") + ".waiter")
			if got, err := waits.TryLock(); !got || err != nil {
				t.Fatal(err)
			}
			defer waits.Close()
		}
	}
	user := state.UserState(env)
	_, err := state.SessionsIn(user).Change("s", func(s *state.Session) { s.Name = "shop" })
	words := &state.Incoming{
		ID: "words", MessageName: "m", SessionID: "s", Text: "And the tests", Status: state.IncomingKept, SaidAt: time.Now(),
	}
	if err := errors.Join(err, state.InboxIn(user).Create("words", words)); err != nil {
		t.Fatal(err)
	}
	var got []string
	open, bad := openQuestions(env, time.Now(), &state.Redactor{})
	for _, q := range open {
		if delivers[q.Waiter] == "" {
			t.Errorf("%s: no words for %s", q.QuestionID, q.Waiter)
		}
		got = append(got, strings.TrimSpace(q.QuestionID+" "+string(q.Waiter)+" "+q.Question))
	}
	want := []string{
		"typed poller ?", "denied later", "native terminal", "next poller Shall I push?",
		"permission terminal Bash: rm -rf build make (Clean and rebuild)",
		state.MessageID("said", "m") + " later And the tests",
	}
	if len(bad) > 0 || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, bad, want)
	}
}
