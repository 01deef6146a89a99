package state

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/e2e/kit"
)

// Await ends with an error where no poller can be started, and where each poller that is
// started ends at once.
func TestAwait_EndsWithoutAPoller(t *testing.T) {
	ends, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	for name, self := range map[string]string{
		"none can be started": "/nothing/is/here", "each ends at once": ends,
	} {
		env := envOf(t)
		q := newIndexed(t, env)
		synctest.Test(t, func(t *testing.T) {
			_, err := Await(t.Context(), env, self, q.Path, func(*Question) bool { return false })
			kit.True(t, errors.Is(err, ErrNoPoller) &&
				errors.Is(err, errNotServed) == (self == ends),
				"%s: %v", name, err)
		})
	}
}

func TestAwait_ReturnsTheFinalRecord(t *testing.T) {
	env := envOf(t)
	q := newIndexed(t, env)
	serving := tryLock(t, IndexFile(env, q.Path)) // as the poller does
	got := make(chan *Question)
	go func() {
		q, err := Await(t.Context(), env, "", q.Path,
			func(q *Question) bool { return q.Status == Answered })
		kit.True(t, err == nil, "%v", err)
		got <- q
	}()
	update(t, q.Path, func(q *Question) error {
		q.Answers = map[string]string{"Which?": "A"}
		return q.MoveTo(Answered, asked)
	})
	serving.Unlock()
	kit.Equal(t, (<-got).Status, Answered)
}

// When the message is sent, the poller lets go of the index entry for a moment only. A
// process that misses that moment must still see the change.
func TestAwait_SeesAChangeWithoutAWake(t *testing.T) {
	env := envOf(t)
	q := newIndexed(t, env)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	looks, pauses := 0, make(chan bool, 1)
	go func() {
		<-pauses
		time.Sleep(30 * time.Millisecond) // of a pause of 160
		serving, err := TryLock(IndexFile(env, q.Path))
		if err == nil {
			t.Cleanup(serving.Unlock)
			_, err = UpdateQuestion(q.Path,
				func(q *Question) error { q.IsMessageSent = true; return nil })
		}
		kit.True(t, err == nil, "%v", err)
	}()
	_, err := Await(ctx, env, "", q.Path, func(q *Question) bool {
		if looks++; looks == 5 {
			pauses <- true
		}
		return q.IsMessageSent
	})
	kit.NoError(t, err)
}

func TestAwait_EndsWithItsContext(t *testing.T) {
	env := envOf(t)
	q := newIndexed(t, env)
	never := func(*Question) bool { return false }
	serving := tryLock(t, IndexFile(env, q.Path))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Await(ctx, env, "", q.Path, never)
	kit.True(t, errors.Is(err, context.Canceled), "told to end: %v", err)
	os.Remove(q.Path)
	serving.Unlock()
	_, err = Await(t.Context(), env, "", q.Path, never)
	kit.True(t, errors.Is(err, ErrUnserved), "without the record: %v", err)
}
