package poller

import (
	"errors"
	"path/filepath"
	"testing"

	"gchat-hooks/state"
)

// A session's name is that session, also when its question is over: what was meant for it is no answer to another's.
func TestPickQuestion(t *testing.T) {
	dir := t.TempDir()
	vars := map[string]string{"HOME": dir, "XDG_STATE_HOME": dir, "GCHAT_STATE_DIR": filepath.Join(dir, "state")}
	env := func(name string) string { return vars[name] }
	p := &Poller{Env: env, Log: state.NewLog(env, "test")}
	for _, q := range []state.Question{
		{QuestionID: "77770000-0000-4000-8000-000000000000", SessionID: "one", SessionName: "1", Status: state.Resolved, ThreadKey: "ask-user-77770000"},
		{QuestionID: "1abc0000-0000-4000-8000-000000000000", SessionID: "bill", SessionName: "billing", Status: state.Pending, ThreadKey: "ask-user-1abc0000"},
		{QuestionID: "1fff0000-0000-4000-8000-000000000000", SessionID: "2222", SessionName: "shop", Status: state.Pending, ThreadKey: "ask-2222-1fff0000"},
		{QuestionID: "1abc5555-0000-4000-8000-000000000000", SessionID: "gone", SessionName: "1fff", Status: state.Cancelled, ThreadKey: "ask-user-1abc5555"},
	} {
		q.AskedAt = noon
		if _, err := state.QuestionsIn(vars["GCHAT_STATE_DIR"]).Record(q.SessionID, func([]*state.Question) *state.Question { return &q }); err != nil {
			t.Fatal(err)
		}
	}
	for by, want := range map[string]string{
		"1":                 "one",
		"1fff":              "gone", // a session's name, and the beginning of another's id
		"billing":           "bill",
		"2222":              "2222",
		"1abc":              "bill",
		"ask-user-1abc":     "bill",
		"ask-user-1abc5555": "gone",
		"ask-2222":          "2222",
		"1ab":               "",
		"ask-user-1ab":      "",
		"ask-user":          "",
		"ask-user-":         "",
		"ask-222":           "",
		"a":                 "",
		"":                  "",
	} {
		q, err := p.PickQuestion(by)
		if want == "" {
			if not := (*NotOne)(nil); !errors.As(err, &not) {
				t.Errorf("%q is %v, %v", by, q, err)
			}
		} else if err != nil || q.SessionID != want {
			t.Errorf("%q is %v, %v; want the one of session %s", by, q, err, want)
		}
	}
}
