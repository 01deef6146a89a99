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

// newWaitHome is a user's environment, and a question for which gchat-wait waits in it.
func newWaitHome(t *testing.T, q *state.Question) state.Getenv {
	t.Helper()
	dir := t.TempDir()
	q.QuestionID, q.SessionID, q.AskedAt = "ask-s", "s", time.Now().UTC()
	q.SubQuestions = []state.SubQuestion{{Question: "A?"}}
	kit.NoError(t, state.MarkersIn(filepath.Join(dir, "shop")).Create(q.QuestionID, q))
	return getenvOf([]string{"HOME=" + dir, "XDG_STATE_HOME=" + dir})
}

// gchat-wait prints an answer that is recorded after its wait ends and before it closes
// the question.
func TestWait_PrintsALateAnswer(t *testing.T) {
	for _, mode := range []state.Mode{state.ModeDeny, state.ModeThread} {
		t.Run(string(mode), func(t *testing.T) {
			answer := "yes"
			q := &state.Question{
				Mode: mode, Status: state.Answered, Response: &answer,
				Answers: map[string]string{"A?": answer},
			}
			env := newWaitHome(t, q)
			stale := *q
			stale.Status, stale.Response, stale.Answers = state.Pending, nil, nil
			var out bytes.Buffer
			program := Program{self: filepath.Join(t.TempDir(), "no-program"), env: env, out: &out}
			w := &waiter{Program: program, timeout: time.Minute, question: &stale}
			w.lock, _ = state.LockWaiter(env, q.Path)
			kit.NoError(t, w.printTimeout())
			w.stopWaiting()
			kit.Equalf(t, out.String(), "GCHAT_RESPONSE: yes\n", "it prints")
		})
	}
}

// The timeout is no error.
func TestWait_EndsAtItsTimeout(t *testing.T) {
	q := &state.Question{Mode: state.ModeDeny, Status: state.Pending}
	env := newWaitHome(t, q)
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			w := &waiter{Program: Program{env: env}, timeout: 3 * time.Second, question: q}
			if err := w.awaitReply(t.Context()); err != nil || w.hasReply() {
				t.Fatalf("ended with %v, %s", err, w.question.Status)
			}
		})
	}
}
