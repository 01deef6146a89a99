package poller

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// sendTest is a machine whose poller's clock the test sets, with a space that answers
// posts as the test says.
type sendTest struct {
	*testMachine
	poller       *Poller
	sender       *sender
	findStatus   int  // the status that reading a message is answered with; 0 for none
	isUnfindable bool // a message is not found by the id that it was posted with

	mu        sync.Mutex
	clock     time.Time
	posts     []string // texts that were asked to be posted
	findCount int      // messages that were asked for by id
	fault     func(text string, w http.ResponseWriter, store func()) (handled bool)
}

func newSendTest(t *testing.T, rules ...strict.Rule) *sendTest {
	t.Helper()
	o := &sendTest{clock: time.Now()}
	o.testMachine = newMachineWith(t, space.Options{}, o, rules...)
	o.vars["GCHAT_ALLOWED_USERS"] = "users/1"
	o.poller = newPoller(Options{Env: o.env, Now: o.now, Log: state.NewLog(o.env, "test")})
	o.sender = o.poller.newSender()
	return o
}

// send sends what can be sent, and returns when the sender looks again.
func (o *sendTest) send() (next time.Time) { return o.sender.sendUntilIdle(o.t.Context()) }

// sendAfter lets time pass, and sends.
func (o *sendTest) sendAfter(d time.Duration) (next time.Time) {
	o.advance(d)
	return o.send()
}

func (o *sendTest) now() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.clock
}

func (o *sendTest) advance(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clock = o.clock.Add(d)
}

func (o *sendTest) setFault(fault func(text string, w http.ResponseWriter, store func()) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fault = fault
}

func (o *sendTest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		o.mu.Lock()
		o.findCount++
		o.mu.Unlock()
		if o.findStatus != 0 {
			w.WriteHeader(o.findStatus)
			return
		}
		if o.isUnfindable && strings.Contains(r.URL.Path, "/messages/client-") {
			answerWithError(404, "NOT_FOUND", "no such message")("", w, nil)
			return
		}
		o.space.Handler().ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var m struct{ Text string }
	_ = json.Unmarshal(body, &m)
	o.mu.Lock()
	o.posts = append(o.posts, m.Text)
	fault := o.fault
	o.mu.Unlock()
	real := func(w http.ResponseWriter) {
		r.Body = io.NopCloser(bytes.NewReader(body))
		o.space.Handler().ServeHTTP(w, r)
	}
	if fault == nil || !fault(m.Text, w, func() { real(httptest.NewRecorder()) }) {
		real(w)
	}
}

// answerWithError answers each post with an error.
func answerWithError(code int, status, message string, header ...string) func(string,
	http.ResponseWriter, func()) bool {
	return func(_ string, w http.ResponseWriter, _ func()) bool {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"error":{"code":%d,"status":%q,"message":%q}}`, code, status, message)
		return true
	}
}

// breakAfterStore breaks the connection after it stored the message.
func breakAfterStore(_ string, _ http.ResponseWriter, store func()) bool {
	store()
	panic(http.ErrAbortHandler)
}

// enqueueReport enqueues a plain report.
func (o *sendTest) enqueueReport(session, text string,
	also ...func(*state.Message)) *state.Message {
	o.t.Helper()
	message := &state.Message{
		ID: state.MessageID("report", session, text), Type: state.MessageReport, SessionID: session,
		Report: &state.Report{Type: state.ReportPlain, Text: text}, CreatedAt: o.now(),
	}
	if session != "" {
		message.ThreadKey = "session-" + session
	}
	for _, f := range also {
		f(message)
	}
	message, _, err := o.outbox().Enqueue(o.env, message, 0)
	kit.NoError(o.t, err)
	return message
}

// addTestQuestion adds a question in native mode, and enqueues its message.
func (o *sendTest) addTestQuestion(also ...func(*state.Question)) *state.Question {
	o.t.Helper()
	q := o.writeQuestion(func(q *state.Question) {
		q.Mode, q.AskedAt = state.ModeNative, o.now()
		for _, f := range also {
			f(q)
		}
	})
	kit.NoError(o.t, o.poller.enqueueQuestion(q, &state.IndexEntry{}, firstMessageKey))
	return q
}

func (o *sendTest) reloadMessage(message *state.Message) *state.Message {
	o.t.Helper()
	now, err := o.outbox().FindByKey(message.Key)
	kit.Must(o.t, err == nil && now != nil, "message %s: %v, %v", message.Key, now, err)
	return now
}

func (o *sendTest) texts() (texts []string) {
	for _, m := range o.space.Messages() {
		texts = append(texts, m.Text)
	}
	return texts
}

func (o *sendTest) checkTexts(texts ...string) {
	o.t.Helper()
	kit.Equalf(o.t, o.texts(), texts, "in the space")
}
