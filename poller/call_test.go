package poller

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// topic is an ntfy topic that checks each message against ntfy's documents
// (docs.ntfy.sh/publish). Messages with one sequence id replace each other.
type topic struct {
	*httptest.Server
	mu     sync.Mutex
	status int // the answer; 0 is 200
	tries  int
	lines  map[string]string // "PRIORITY TITLE: TEXT", by sequence id
	calls  []string          // all of them, in order
}

func newTopic(t *testing.T) *topic {
	n := &topic{lines: map[string]string{}}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		title, err := new(mime.WordDecoder).DecodeHeader(r.Header.Get("Title"))
		isPublish := r.Method == http.MethodPost && r.URL.Path == "/gchat-x1" && r.URL.RawQuery == ""
		kit.True(t, isPublish && err == nil && len(body) <= 4096, "%s %s, title %q, %d bytes", r.Method, r.URL, title, len(body))
		kit.Equalf(t, r.Header.Get("Authorization"), "Bearer tk_secret", "token")
		for _, values := range r.Header {
			kit.True(t, !strings.ContainsFunc(values[0], func(c rune) bool { return c > '~' }), "header %q", values[0])
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.tries++
		if n.status != 0 {
			w.WriteHeader(n.status)
			return
		}
		line := fmt.Sprintf("%s %s: %s", r.Header.Get("Priority"), title, body)
		n.lines[r.Header.Get("X-Sequence-ID")] = line
		n.calls = append(n.calls, line)
	}))
	t.Cleanup(n.Close)
	return n
}

func (n *topic) setting(after string) string {
	return fmt.Sprintf(`{"notify": {"url": "%s/gchat-x1", "token": "tk_secret"}, "notify_after": %q}`, n.URL, after)
}

func (n *topic) all() (calls []string, shown int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.calls...), len(n.lines)
}

// Nobody answers a question within notify_after: one line calls the person, and another
// one with the same id says that it is over.
func TestCall_OnceAndWhenItIsOver(t *testing.T) {
	t.Parallel()
	d, n := newTestMachine(t), newTopic(t)
	d.writeConfig(n.setting("1s"))
	q := d.addQuestion(func(q *state.Question) {
		q.SessionName, q.SubQuestions[0].Header = "größe", "Deploy"
	})
	d.runPoller(Options{})
	bound.Until(t, "the person is called", func() bool {
		calls, _ := n.all()
		return len(calls) == 1
	})
	q = d.awaitQuestion(q, "the call is recorded", func(q *state.Question) bool {
		return q.CalledAt != nil && q.IsMessageSent
	})
	d.reply(q.ThreadName, space.PersonName, "2")
	d.awaitQuestion(q, "the reply counts", isAnsweredWith("Two"))
	bound.Until(t, "the end is told", func() bool {
		calls, _ := n.all()
		return len(calls) == 2
	})
	calls, shown := n.all()
	kit.Equal(t, calls, []string{"4 größe: Question: Deploy", "1 größe: Over: Question: Deploy"})
	kit.Equalf(t, shown, 1, "notifications")
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
	d, n := newTestMachine(t), newTopic(t)
	d.writeConfig(n.setting("1h"))
	q := d.addQuestion(nil)
	d.runPoller(Options{})
	q = d.awaitQuestion(q, "it is posted", isSent)
	d.reply(q.ThreadName, space.PersonName, "2")
	d.awaitQuestion(q, "the reply counts", isAnsweredWith("Two"))
	calls, _ := n.all()
	kit.Equalf(t, len(calls), 0, "calls")
}

// A call that the server cannot take waits; the question and its answer do not. Once the
// question is over, the person is not called for it.
func TestCall_ServerIsDown(t *testing.T) {
	t.Parallel()
	d, n := newTestMachine(t), newTopic(t)
	n.status = http.StatusServiceUnavailable
	d.writeConfig(n.setting("1s"))
	q := d.addQuestion(nil)
	d.runPoller(Options{})
	bound.Until(t, "a call is tried", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.tries > 0
	})
	q = d.awaitQuestion(q, "it is posted", isSent)
	d.reply(q.ThreadName, space.PersonName, "2")
	d.awaitQuestion(q, "the reply counts", isAnsweredWith("Two"))
	n.mu.Lock()
	n.status = 0
	n.mu.Unlock()
	bound.Until(t, "the call is dropped", func() bool {
		message, err := d.outbox().FindByKey("call-" + q.QuestionID)
		return err == nil && message != nil && message.IsFinal()
	})
	calls, _ := n.all()
	kit.Equalf(t, len(calls), 0, "calls")
}

// What the server refuses is set aside with its reason, and not tried again.
func TestCall_ServerRefuses(t *testing.T) {
	t.Parallel()
	d, n := newTestMachine(t), newTopic(t)
	n.status = http.StatusForbidden
	d.writeConfig(n.setting("1s"))
	q := d.addQuestion(nil)
	d.runPoller(Options{})
	bound.Until(t, "the call is set aside", func() bool { return len(d.outbox().SetAside()) == 1 })
	kit.Contains(t, d.outbox().SetAside()[0].SetAsideReason, "403")
	kit.Equalf(t, d.loadQuestion(q).Status, state.Pending, "status")
}
