package cli

import (
	"bytes"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// An answer that is written down between the end of the wait and the closing of the
// question is printed.
func TestWait_PrintsALateAnswer(t *testing.T) {
	for _, mode := range []state.Mode{state.ModeDeny, state.ModeThread} {
		t.Run(string(mode), func(t *testing.T) {
			dir := t.TempDir()
			vars := map[string]string{"HOME": dir, "XDG_STATE_HOME": dir}
			env := func(name string) string { return vars[name] }
			said := "yes"
			q := &state.Question{
				QuestionID: "ask-s", SessionID: "s", AskedAt: time.Now().UTC(), Mode: mode, Status: state.Answered, Response: &said,
				Answers: map[string]string{"A?": said}, SubQuestions: []state.SubQuestion{{Question: "A?"}},
			}
			kit.NoError(t, state.MarkersIn(filepath.Join(dir, "shop")).Create(q.QuestionID, q))
			stale := *q
			stale.Status, stale.Response, stale.Answers = state.Pending, nil, nil
			var out bytes.Buffer
			w := &waiter{Program: Program{self: filepath.Join(dir, "no-program"), env: env, out: &out}, timeout: time.Minute, question: &stale}
			w.lock, _ = state.LockWaiter(env, q.Path)
			err := w.printTimeout()
			w.stopWaiting()
			if got := out.String(); err != nil || got != "GCHAT_RESPONSE: yes\n" {
				t.Errorf("prints %q, %v", got, err)
			}
		})
	}
}

// The end of the time is no error.
func TestWait_EndsAtItsTimeout(t *testing.T) {
	dir := t.TempDir()
	vars := map[string]string{"HOME": dir, "XDG_STATE_HOME": dir}
	env := func(name string) string { return vars[name] }
	q := &state.Question{
		QuestionID: "ask-s", SessionID: "s", AskedAt: time.Now().UTC(), Mode: state.ModeDeny, Status: state.Pending,
		SubQuestions: []state.SubQuestion{{Question: "A?"}},
	}
	kit.NoError(t, state.MarkersIn(filepath.Join(dir, "shop")).Create(q.QuestionID, q))
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			w := &waiter{Program: Program{env: env}, timeout: 3 * time.Second, question: q}
			if err := w.awaitReply(t.Context()); err != nil || w.hasReply() {
				t.Fatalf("ended with %v, %s", err, w.question.Status)
			}
		})
	}
}
