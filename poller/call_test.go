package poller

import (
	"fmt"
	"net/http"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// notifyBy is the configuration that calls the person by a topic of a server.
func notifyBy(server *strict.CallServer, after string) string {
	return fmt.Sprintf(`{"notify": {"url": %q, "token": %q}, "notify_after": %q}`,
		server.URL+"/gchat-x1", strict.CallToken, after)
}

// newCalledMachine returns a machine whose person is called by a server if nobody answers
// within this time, and the server. The server answers with this status.
func newCalledMachine(t *testing.T, after string, status int) (*testMachine, *strict.CallServer) {
	t.Helper()
	d, server := newTestMachine(t), strict.NewCallServer(t)
	server.AnswerWith(status)
	d.writeConfig(notifyBy(server, after))
	return d, server
}

// startCalling is newCalledMachine with an open question and a poller that runs.
func startCalling(t *testing.T, after string, status int) (
	*testMachine, *strict.CallServer, *state.Question,
) {
	t.Helper()
	d, server := newCalledMachine(t, after, status)
	q := d.addQuestion(nil)
	d.runPoller(Options{})
	return d, server, q
}

// Nobody answers a question within notify_after: one line calls the person, and another
// one with the same id says that it is over.
func TestCall_OnceAndWhenItIsOver(t *testing.T) {
	t.Parallel()
	d, server := newCalledMachine(t, "1s", http.StatusOK)
	q := d.addQuestion(func(q *state.Question) {
		q.SessionName, q.SubQuestions[0].Header = "größe", "Deploy"
	})
	d.runPoller(Options{})
	bound.Until(t, "the person is called", func() bool {
		return len(server.Lines()) == 1
	})
	q = d.awaitQuestion(q, "the call is recorded", func(q *state.Question) bool {
		return q.CalledAt != nil && q.IsMessageSent
	})
	d.reply(q.ThreadName, space.PersonName, "2")
	d.awaitQuestion(q, "the reply counts", isAnsweredWith("Two"))
	bound.Until(t, "the end is told", func() bool {
		return len(server.Lines()) == 2
	})
	want := []string{"4 größe: Question: Deploy", "1 größe: Over: Question: Deploy"}
	kit.Equal(t, server.Lines(), want)
	kit.Equalf(t, server.Shown(), 1, "notifications")
}

func TestCall_LinkIsForAPhone(t *testing.T) {
	const page, chat = "https://box.example/", "https://chat.google.com/room/A/T"
	const local = "http://127.0.0.1:8765/#T"
	for _, c := range []struct{ page, thread, want string }{
		{page, local, page + "#T"}, {page, chat, chat}, {page, "", page}, {"", local, local},
		{page + "#mine", local, page + "#mine"}, {"", chat, chat}, {"", "", ""},
	} {
		kit.Equalf(t, callLink(c.page, c.thread), c.want, "page %q, thread %q", c.page, c.thread)
	}
}

// What is answered in time calls nobody.
func TestCall_NotIfAnsweredInTime(t *testing.T) {
	t.Parallel()
	d, server, q := startCalling(t, "1h", http.StatusOK)
	q = d.awaitQuestion(q, "it is posted", isSent)
	d.reply(q.ThreadName, space.PersonName, "2")
	d.awaitQuestion(q, "the reply counts", isAnsweredWith("Two"))
	kit.Equalf(t, len(server.Lines()), 0, "calls")
}

// A call that the server cannot take waits; the question and its answer do not. Once the
// question is over, the person is not called for it.
func TestCall_ServerIsDown(t *testing.T) {
	t.Parallel()
	d, server, q := startCalling(t, "1s", http.StatusServiceUnavailable)
	bound.Until(t, "a call is tried", func() bool {
		return server.Tries() > 0
	})
	q = d.awaitQuestion(q, "it is posted", isSent)
	d.reply(q.ThreadName, space.PersonName, "2")
	d.awaitQuestion(q, "the reply counts", isAnsweredWith("Two"))
	server.AnswerWith(http.StatusOK)
	bound.Until(t, "the call is dropped", func() bool {
		message, err := d.outbox().FindByKey("call-" + q.QuestionID)
		return err == nil && message != nil && message.IsFinal()
	})
	kit.Equalf(t, len(server.Lines()), 0, "calls")
}

// What the server refuses is set aside with its reason, and not tried again.
func TestCall_ServerRefuses(t *testing.T) {
	t.Parallel()
	d, _, q := startCalling(t, "1s", http.StatusForbidden)
	bound.Until(t, "the call is set aside", func() bool { return len(d.outbox().SetAside()) == 1 })
	kit.Contains(t, d.outbox().SetAside()[0].SetAsideReason, "403")
	kit.Equalf(t, d.loadQuestion(q).Status, state.Pending, "status")
}
