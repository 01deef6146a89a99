package cli

import (
	"bytes"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/state"
)

// An answer that is written down between the end of the wait and the closing of the question is printed.
func TestWaitPrintsTheAnswerOfTheLastMoment(t *testing.T) {
	for _, mode := range []state.Mode{state.Deny, state.Thread} {
		t.Run(string(mode), func(t *testing.T) {
			dir := t.TempDir()
			vars := map[string]string{"HOME": dir, "XDG_STATE_HOME": dir}
			env := func(name string) string { return vars[name] }
			said := "yes"
			q := &state.Question{
				QuestionID: "ask-s", SessionID: "s", AskedAt: time.Now().UTC(), Mode: mode, Status: state.Answered, Response: &said,
				Answers: map[string]string{"A?": said}, Questions: []state.Prompt{{Question: "A?"}},
			}
			if err := state.MarkersIn(filepath.Join(dir, "shop")).Create(q.QuestionID, q); err != nil {
				t.Fatal(err)
			}
			stale := *q
			stale.Status, stale.Response, stale.Answers = state.Pending, nil, nil
			var out bytes.Buffer
			w := &wait{Program: Program{self: filepath.Join(dir, "no-program"), env: env, out: &out}, timeout: time.Minute, q: &stale}
			w.lock, _ = state.LockWaiter(env, q.Path)
			err := w.sayTimeout()
			w.letGo()
			if got := out.String(); err != nil || got != "GCHAT_RESPONSE: yes\n" {
				t.Errorf("prints %q, %v", got, err)
			}
		})
	}
}

// The end of the time is no error.
func TestWaitEndsWithItsTime(t *testing.T) {
	dir := t.TempDir()
	vars := map[string]string{"HOME": dir, "XDG_STATE_HOME": dir}
	env := func(name string) string { return vars[name] }
	q := &state.Question{
		QuestionID: "ask-s", SessionID: "s", AskedAt: time.Now().UTC(), Mode: state.Deny, Status: state.Pending,
		Questions: []state.Prompt{{Question: "A?"}},
	}
	if err := state.MarkersIn(filepath.Join(dir, "shop")).Create(q.QuestionID, q); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			w := &wait{Program: Program{env: env}, timeout: 3 * time.Second, q: q}
			if err := w.await(t.Context()); err != nil || w.replied() {
				t.Fatalf("ended with %v, %s", err, w.q.Status)
			}
		})
	}
}
