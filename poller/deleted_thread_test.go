package poller

import (
	"slices"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// A person deleted the thread of a question in Chat, and Chat begins another one for its
// reminder. A reply there is the answer.
func TestAReminderInANewThread(t *testing.T) {
	t.Parallel()
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) {
		d.markPosted(q)
		q.RemindAfter = []time.Duration{time.Millisecond}
	})
	former := q.ThreadName // there is none in the space
	d.runPoller(Options{})
	bound.Until(t, "the reminder is in the space", func() bool { return len(d.space.Messages()) == 1 })
	d.reply(d.space.Messages()[0].Thread.Name, space.PersonName, "2")
	stored := d.awaitQuestion(q, "the reply counts", func(q *state.Question) bool { return q.Answers["Which?"] == "Two" })
	if stored.ThreadName == former || !slices.Equal(stored.FormerThreads, []string{former}) {
		t.Errorf("it is in %s, formerly in %q", stored.ThreadName, stored.FormerThreads)
	}
}
