package state

import (
	"errors"
	"os/exec"
	"testing"
	"testing/synctest"

	"gchat-hooks/e2e/kit"
)

// A process waits only while a poller has its record, or may come: not where none can be
// started, and not where each that is started ends at once.
func TestAwait_EndsWithoutAPoller(t *testing.T) {
	ends, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	for name, self := range map[string]string{
		"none can be started": "/nothing/is/here", "each ends at once": ends,
	} {
		env := envOf(t)
		q := record(t, QuestionsIn(t.TempDir()), question("s"))
		kit.NoError(t, AddQuestionToIndex(env, q))
		synctest.Test(t, func(t *testing.T) {
			_, err := Await(t.Context(), env, self, q.Path, func(*Question) bool { return false })
			if !errors.Is(err, ErrNoPoller) || errors.Is(err, errNotServed) != (self == ends) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
