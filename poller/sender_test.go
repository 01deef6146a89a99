package poller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/e2e/underlock"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// sendTest is a poller whose clock the test sets, with a space that answers as the test
// says.
type sendTest struct {
	*Poller
	t            *testing.T
	space        *space.Space
	env          map[string]string
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
	s, err := space.Open(space.Options{})
	kit.NoError(t, err)
	o := &sendTest{t: t, space: s, clock: time.Now()}
	server := httptest.NewServer(strict.CheckRequests(t, o, append(rules, strict.Embedded)...))
	t.Cleanup(func() { server.Close(); s.Close() })
	dir := t.TempDir()
	o.env = map[string]string{
		"HOME": dir, "XDG_STATE_HOME": dir, "GOOGLE_CHAT_WEBHOOK_URL": s.WebhookURL(server.URL), "GCHAT_ALLOWED_USERS": "users/1",
	}
	env := func(name string) string { return o.env[name] }
	o.Poller = newPoller(Options{Env: env, Now: o.now, Log: state.NewLog(env, "test")})
	return o
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
func answerWithError(code int, status, message string, header ...string) func(string, http.ResponseWriter, func()) bool {
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
func (o *sendTest) enqueueReport(session, text string, also ...func(*state.Message)) *state.Message {
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
	message, _, err := state.OutboxIn(o.userStateDir).Enqueue(o.Env, message, 0)
	kit.NoError(o.t, err)
	return message
}

func (o *sendTest) addTestQuestion(also ...func(*state.Question)) *state.Question {
	o.t.Helper()
	q, err := state.QuestionsIn(filepath.Join(o.env["HOME"], "project")).Record("s", func([]*state.Question) *state.Question {
		q := &state.Question{
			QuestionID: "01234567-q", SessionID: "s", SessionName: "shop", AskedAt: o.now(), Status: state.Pending, Mode: state.ModeNative,
			ThreadKey:    "ask-user-01234567",
			SubQuestions: []state.SubQuestion{{Question: "Which?", Options: []state.Option{{Label: "A"}, {Label: "B"}}, OptionCount: 2}},
		}
		for _, f := range also {
			f(q)
		}
		return q
	})
	kit.NoError(o.t, err)
	kit.NoError(o.t, o.enqueueQuestion(q, &state.IndexEntry{}, firstMessageKey))
	return q
}

func (o *sendTest) reloadMessage(message *state.Message) *state.Message {
	o.t.Helper()
	now, err := state.OutboxIn(o.userStateDir).FindByKey(message.Key)
	if err != nil || now == nil {
		o.t.Fatalf("message %s: %v, %v", message.Key, now, err)
	}
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
	if got := o.texts(); !slices.Equal(got, texts) {
		o.t.Errorf("in the space: %q, want %q", got, texts)
	}
}

// In TestWhatAFailureMeans, Chat fails on the first message of three lanes and then
// works.
func TestWhatAFailureMeans(t *testing.T) {
	hangUp := func(string, http.ResponseWriter, func()) bool { panic(http.ErrAbortHandler) }
	for _, c := range []struct {
		name   string
		fault  func(string, http.ResponseWriter, func()) bool
		others bool          // messages of other lanes go meanwhile
		after  time.Duration // when the first goes
		aside  bool
		notice string
		found  bool // it is asked for before it is sent again
	}{
		{"wrong token", answerWithError(403, "PERMISSION_DENIED", "no"), false, time.Minute, false, "nothing can be sent", false},
		{"wrong key", answerWithError(400, "INVALID_ARGUMENT", "API key not valid"), false, time.Minute, false, "nothing can be sent", false},
		{"refused", answerWithError(400, "INVALID_ARGUMENT", "no such field"), true, 0, true, "was refused", false},
		{"space gone", answerWithError(404, "NOT_FOUND", "no"), true, 0, true, "was refused", false},
		{"too many", answerWithError(429, "RESOURCE_EXHAUSTED", "slow"), false, time.Second, false, "", false},
		{"too many, says when", answerWithError(429, "RESOURCE_EXHAUSTED", "slow", "Retry-After", "77"),
			false, 77 * time.Second, false, "", false},
		{"stumbles", answerWithError(503, "UNAVAILABLE", "sorry"), true, time.Second, false, "", true},
		{"hangs up", hangUp, false, time.Second, false, "", true},
		{"cut after storing", breakAfterStore, false, time.Second, false, "", true},
		{"a hotel's network", func(_ string, w http.ResponseWriter, _ func()) bool { fmt.Fprint(w, "<html>"); return true },
			false, time.Second, false, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newSendTest(t)
			s := o.newSender()
			first := o.enqueueReport("a", "first")
			o.setFault(c.fault)
			next := s.sendUntilIdle(t.Context())
			if got := o.reloadMessage(first); (got.SetAsideReason != "") != c.aside || got.LastError == "" {
				t.Errorf("set aside: %q, last error: %q", got.SetAsideReason, got.LastError)
			}
			if c.after > 0 && next.Sub(o.now()).Round(time.Second) != c.after {
				t.Errorf("next in %v, want %v", next.Sub(o.now()), c.after)
			}
			text := state.SessionsIn(o.userStateDir).TakeNotices("a")
			if (c.notice == "") != (text == "") || !strings.Contains(text, c.notice) {
				t.Errorf("notice %q, want %q", text, c.notice)
			}
			o.setFault(nil)
			second, other := o.enqueueReport("a", "second"), o.enqueueReport("b", "other")
			s.sendUntilIdle(t.Context())
			kit.Equalf(t, o.reloadMessage(other).IsFinal(), c.others, "the other lane's message sent")
			kit.Equalf(t, o.reloadMessage(second).IsFinal(), c.aside, "the same lane's message sent")
			o.findCount = 0
			o.advance(c.after)
			s.sendUntilIdle(t.Context())
			if !o.reloadMessage(first).IsFinal() || !o.reloadMessage(second).IsFinal() || !o.reloadMessage(other).IsFinal() {
				t.Error("something still waits")
			}
			if n := o.findCount; (n > 0) != c.found {
				t.Errorf("asked for %d times", n)
			}
			seen := o.texts()
			if slices.Contains(seen, "first") == c.aside || len(seen) != 3-intOf(c.aside) {
				t.Errorf("in the space: %q", seen)
			}
			kit.Equalf(t, state.SessionsIn(o.userStateDir).TakeNotices("a"), "", "told again")
			space := state.SpacesIn(o.userStateDir).Get(s.gatewayFor(t.Context(), configSource{}).transport.Chat())
			if space.Failures > 0 || len(space.PausedWebhooks) > 0 {
				t.Errorf("the space is still in trouble: %+v", space)
			}
		})
	}
}

func intOf(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestPausesGrow(t *testing.T) {
	o := newSendTest(t)
	s := o.newSender()
	message := o.enqueueReport("a", "x")
	o.setFault(answerWithError(500, "INTERNAL", "no"))
	for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		if next := s.sendUntilIdle(t.Context()); next.Sub(o.now()).Round(time.Second) != time.Duration(want)*time.Second {
			t.Errorf("after %d tries: %v, want %d s", o.reloadMessage(message).FailedTries, next.Sub(o.now()), want)
		}
		o.advance(time.Duration(want) * time.Second)
	}
	kit.Equalf(t, len(o.posts), 11, "tries")
}

// In TestLanesThatFailAtOnceAreOneFailure, the connections of eight lanes break at once.
func TestLanesThatFailAtOnceAreOneFailure(t *testing.T) {
	o := newSendTest(t)
	var together sync.WaitGroup
	together.Add(maxParallelLanes)
	o.setFault(func(string, http.ResponseWriter, func()) bool {
		together.Done()
		together.Wait()
		panic(http.ErrAbortHandler)
	})
	for i := range maxParallelLanes {
		o.enqueueReport(fmt.Sprint(i), "x")
	}
	if next := o.newSender().sendUntilIdle(t.Context()); next.Sub(o.now()).Round(time.Second) != time.Second {
		t.Errorf("next in %v", next.Sub(o.now()))
	}
}

// In TestSameIDIsSentAgain, the space cannot be read. Its "already exists" counts as the
// receipt.
func TestSameIDIsSentAgain(t *testing.T) {
	o := newSendTest(t)
	o.findStatus = http.StatusForbidden
	message := o.enqueueReport("a", "x")
	o.setFault(breakAfterStore)
	s := o.newSender()
	s.sendUntilIdle(t.Context())
	o.setFault(answerWithError(409, "ALREADY_EXISTS", "it is there"))
	o.advance(time.Minute)
	s.sendUntilIdle(t.Context())
	o.checkTexts("x")
	if message = o.reloadMessage(message); message.SentAt.IsZero() || len(o.posts) != 2 {
		t.Errorf("posted %d times, last error %q", len(o.posts), message.LastError)
	}
}

// In TestTriedIsAskedForUntilChatSays, the post of a message was cut, and Chat fails at
// first when the poller searches for the message.
func TestTriedIsAskedForUntilChatSays(t *testing.T) {
	o := newSendTest(t)
	q := o.addTestQuestion()
	s := o.newSender()
	o.setFault(breakAfterStore)
	s.sendUntilIdle(t.Context())
	o.setFault(nil)
	o.findStatus, o.posts = http.StatusServiceUnavailable, nil
	for range 3 {
		o.advance(maxBackoff)
		s.sendUntilIdle(t.Context())
	}
	if n := len(o.posts); n > 0 {
		t.Errorf("posted %d times more", n)
	}
	message := o.enqueueReport("b", "another")
	if s.sendUntilIdle(t.Context()); !o.reloadMessage(message).IsFinal() {
		t.Error("the others wait for it")
	}
	o.findStatus = 0
	o.advance(maxBackoff)
	s.sendUntilIdle(t.Context())
	if q, _ = state.LoadQuestion(q.Path); !q.IsMessageSent || q.ThreadName == "" || len(o.texts()) != 2 {
		t.Errorf("sent: %v, in thread %q; in the space: %q", q.IsMessageSent, q.ThreadName, o.texts())
	}
}

// With a login, Chat may not find a webhook's message by the id that it was posted with.
// The poller then finds it in the list, even among messages with the same text.
func TestTriedIsFoundInTheList(t *testing.T) {
	o := newSendTest(t)
	o.isUnfindable = true
	s := o.newSender()
	q := o.addTestQuestion()
	o.setFault(breakAfterStore)
	s.sendUntilIdle(t.Context())
	there := o.space.Messages()[0]
	if _, err := o.space.PostAs(nil, "", there.Text); err != nil {
		t.Fatal(err)
	}
	o.setFault(nil)
	o.advance(maxBackoff)
	s.sendUntilIdle(t.Context())
	if q, _ = state.LoadQuestion(q.Path); q.MessageName != there.Name || q.ThreadName != there.Thread.Name || len(o.posts) != 1 {
		t.Errorf("it is %s in %q, want %s; posted %d times", q.MessageName, q.ThreadName, there.Name, len(o.posts))
	}
	message := o.enqueueReport("a", "x")
	o.setFault(func(string, http.ResponseWriter, func()) bool { panic(http.ErrAbortHandler) })
	s.sendUntilIdle(t.Context())
	o.setFault(nil)
	o.posts, o.findCount = nil, 0
	o.advance(maxBackoff)
	s.sendUntilIdle(t.Context())
	if message = o.reloadMessage(message); message.SentAt.IsZero() || len(o.posts) != 1 || o.findCount != 2 {
		t.Errorf("what is not there: posted %d times more, asked for %d times, last error %q", len(o.posts), o.findCount, message.LastError)
	}
}

// In TestThreadOfWhatIsThereAlready, Chat answers that the message exists, and fails when
// the poller asks for its thread.
func TestThreadOfWhatIsThereAlready(t *testing.T) {
	o := newSendTest(t)
	q := o.addTestQuestion()
	s := o.newSender()
	exists := answerWithError(409, "ALREADY_EXISTS", "it is there")
	o.setFault(func(text string, w http.ResponseWriter, store func()) bool { store(); return exists(text, w, store) })
	o.findStatus = http.StatusServiceUnavailable
	s.sendUntilIdle(t.Context())
	if q, _ = state.LoadQuestion(q.Path); q.IsMessageSent {
		t.Error("it counts as sent")
	}
	o.findStatus = 0
	o.advance(time.Minute)
	s.sendUntilIdle(t.Context())
	if q, _ = state.LoadQuestion(q.Path); q.ThreadName == "" || len(o.posts) != 1 {
		t.Errorf("thread %q, posted %d times", q.ThreadName, len(o.posts))
	}
}

func TestPausedWebhookIsTriedByOneMessageAMinute(t *testing.T) {
	o := newSendTest(t)
	o.setFault(answerWithError(403, "PERMISSION_DENIED", "no"))
	for i := range 5 {
		o.enqueueReport(fmt.Sprint(i), "x")
	}
	o.newSender().sendUntilIdle(t.Context()) // all lanes are under way before the first answer
	o.posts = nil
	for minute := range 4 {
		o.advance(time.Minute)
		s := o.newSender() // also a poller that is begun anew keeps to it
		for range 3 {
			s.sendUntilIdle(t.Context())
			o.advance(time.Second)
		}
		if n := len(o.posts); n != minute+1 {
			t.Errorf("%d tries in %d minutes", n, minute+1)
		}
	}
}

// A person asks for another try with `gchat-hooks flush`. A running poller then sends the
// message at once, whatever pause it had noted.
func TestAPersonEndsAPause(t *testing.T) {
	for name, fault := range map[string]func(string, http.ResponseWriter, func()) bool{
		"the webhook was wrong": answerWithError(http.StatusForbidden, "PERMISSION_DENIED", "no"), "too many": answerWithError(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", "slower"),
	} {
		t.Run(name, func(t *testing.T) {
			o := newSendTest(t)
			sender := o.newSender()
			message := o.enqueueReport("a", "first")
			o.setFault(fault)
			sender.sendUntilIdle(t.Context())
			o.setFault(nil)
			if sender.sendUntilIdle(t.Context()); o.reloadMessage(message).IsFinal() {
				t.Fatal("it does not wait")
			}
			o.advance(time.Millisecond)
			message = o.reloadMessage(message)
			if _, err := sender.outbox.Change(message.Path, func(message *state.Message) { message.NotBefore = o.now().UTC() }); err != nil {
				t.Fatal(err)
			}
			hook := sender.gatewayFor(t.Context(), configSource{message.ProjectDir, message.IsTrusted}).transport
			if _, err := sender.spaces.Change(hook.Chat(), func(s *state.Space) { s.NotBefore, s.PausedWebhooks = time.Time{}, nil }); err != nil {
				t.Fatal(err)
			}
			if sender.sendUntilIdle(t.Context()); !o.reloadMessage(message).IsFinal() {
				t.Error("it still waits")
			}
		})
	}
}

func TestNoWebhookIsSaidOnce(t *testing.T) {
	o := newSendTest(t)
	url := o.env["GOOGLE_CHAT_WEBHOOK_URL"]
	delete(o.env, "GOOGLE_CHAT_WEBHOOK_URL")
	s := o.newSender()
	message, env := o.enqueueReport("a", "x", func(message *state.Message) { message.Environment = "" }), o.environment
	s.environment = message.Environment
	for i := range 3 {
		s.sendUntilIdle(t.Context())
		if text := state.SessionsIn(o.userStateDir).TakeNotices("a"); strings.Contains(text, "no webhook") != (i == 0) {
			t.Errorf("pass %d: %q", i, text)
		}
		o.advance(2 * time.Minute)
	}
	o.env["GOOGLE_CHAT_WEBHOOK_URL"] = url
	s.sendUntilIdle(t.Context())
	o.checkTexts("x")
	if env == message.Environment {
		t.Error("two environments are one")
	}
}

// A poller that ends interrupts the command for the webhook. The webhook does not count
// as broken.
func TestACommandThatIsCutIsNoFault(t *testing.T) {
	o := newSendTest(t)
	delete(o.env, "GOOGLE_CHAT_WEBHOOK_URL")
	conf := filepath.Join(o.env["HOME"], ".config", "gchat-hooks")
	kit.NoError(t, os.MkdirAll(conf, 0o700))
	kit.NoError(t, os.WriteFile(filepath.Join(conf, "config.json"), []byte(`{"webhook_url_command": "sleep 5"}`), 0o600))
	o.environment = state.Environment(o.Env)
	message := o.enqueueReport("a", "x")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	s := o.newSender()
	s.dispatch(ctx)
	s.goroutines.Wait()
	if text := state.SessionsIn(o.userStateDir).TakeNotices("a"); text != "" || o.reloadMessage(message).LastError != "" || len(o.gateways.bySource) > 0 {
		t.Errorf("told %q; last error %q; %d gateways kept", text, o.reloadMessage(message).LastError, len(o.gateways.bySource))
	}
}

func TestAnotherEnvironmentsMessageIsLeft(t *testing.T) {
	o := newSendTest(t)
	message := o.enqueueReport("a", "x")
	o.newSender().environment = "other"
	s := o.newSender()
	s.environment = "other"
	s.sendUntilIdle(t.Context())
	if o.checkTexts(); o.reloadMessage(message).IsFinal() {
		t.Error("it is final")
	}
	o.advance(maxMessageAge + time.Hour)
	s.sendUntilIdle(t.Context())
	if o.reloadMessage(message).SetAsideReason == "" {
		t.Error("after a week it still waits")
	}
}

func TestFilesOfEarlierVersionsAreSent(t *testing.T) {
	o := newSendTest(t)
	dir := filepath.Join(o.userStateDir, "outbox")
	kit.NoError(t, os.MkdirAll(dir, 0o700))
	old := `{"message_id":"client-1","key":"client-1","kind":"task_done","chat":"","parts":["one","two"],"parts_sent":1,
		"thread_key":"session-a","created_at":"` + o.now().UTC().Format(time.RFC3339Nano) + `"}`
	kit.NoError(t, os.WriteFile(filepath.Join(dir, "0000000000000000001-client-1.json"), []byte(old), 0o600))
	o.newSender().sendUntilIdle(t.Context())
	o.checkTexts("two")
}

func TestPace(t *testing.T) {
	o := newSendTest(t)
	s := o.newSender()
	for i := range 30 {
		o.enqueueReport(fmt.Sprint("s", i), "x")
	}
	urgent := o.enqueueReport("u", "urgent", func(message *state.Message) { message.IsUrgent = true })
	next := s.sendUntilIdle(t.Context())
	n := len(o.posts) // the urgent one may be written last, as the one more that it is allowed
	if n < maxBurst || n > maxBurst+1 || !o.reloadMessage(urgent).IsFinal() {
		t.Errorf("%d at once, want %d, and the urgent one among them", n, maxBurst)
	}
	if wait := next.Sub(o.now()); wait <= 0 || wait > time.Duration(1+n-maxBurst)*time.Second {
		t.Errorf("the next in %v", wait)
	}
	q := o.addTestQuestion()
	s.sendUntilIdle(t.Context())
	if q, _ = state.LoadQuestion(q.Path); !q.IsMessageSent {
		t.Error("a question waits behind a flood of reports")
	}
	o.posts = nil
	for range 10 {
		o.advance(time.Second)
		s.sendUntilIdle(t.Context())
	}
	if n := len(o.posts); n < 7 || n > 10 {
		t.Errorf("%d in ten seconds at 60 a minute", n)
	}
}

func TestQuietHoursHoldWhatWaits(t *testing.T) {
	o := newSendTest(t)
	now := o.now()
	conf := filepath.Join(o.env["HOME"], ".config", "gchat-hooks")
	quiet := fmt.Sprintf(`{"quiet_hours":{"from":%q,"to":%q}}`,
		now.Add(-time.Hour).Format("15:04"), now.Add(time.Hour).Format("15:04"))
	kit.NoError(t, os.MkdirAll(conf, 0o700))
	kit.NoError(t, os.WriteFile(filepath.Join(conf, "config.json"), []byte(quiet), 0o600))
	s := o.newSender()
	o.enqueueReport("a", "can wait")
	o.enqueueReport("a", "urgent", func(message *state.Message) { message.IsUrgent = true })
	next := s.sendUntilIdle(t.Context())
	o.checkTexts("urgent")
	if wait := next.Sub(now); wait < 50*time.Minute || wait > time.Hour {
		t.Errorf("it goes in %v", wait)
	}
	o.advance(time.Hour)
	s.sendUntilIdle(t.Context())
	o.checkTexts("urgent", "can wait")
}

func TestHeldBackLetsOthersPass(t *testing.T) {
	o := newSendTest(t)
	s := o.newSender()
	o.enqueueReport("a", "held", func(message *state.Message) { message.NotBefore = o.now().Add(time.Hour) })
	o.enqueueReport("a", "now")
	if next := s.sendUntilIdle(t.Context()); next.Sub(o.now()).Round(time.Second) != time.Hour {
		t.Errorf("next in %v", next.Sub(o.now()))
	}
	o.checkTexts("now")
}

func TestDigestIsOneMessage(t *testing.T) {
	o := newSendTest(t)
	s := o.newSender()
	at := o.now().Add(time.Hour)
	var held []*state.Message
	for i := range 3 {
		held = append(held, o.enqueueReport(fmt.Sprint("s", i), fmt.Sprint("news ", i), func(message *state.Message) {
			message.IsDigest, message.ThreadKey, message.NotBefore = true, "digest-2026-11-22", at
		}))
	}
	o.advance(time.Hour)
	o.setFault(answerWithError(429, "RESOURCE_EXHAUSTED", "slow"))
	s.sendUntilIdle(t.Context()) // a digest that is put off is worded again
	o.setFault(breakAfterStore)
	o.advance(time.Minute)
	s.sendUntilIdle(t.Context())
	o.setFault(nil)
	o.enqueueReport("late", "late", func(message *state.Message) { message.IsDigest, message.ThreadKey = true, "digest-2026-11-22" })
	o.advance(time.Minute)
	s.sendUntilIdle(t.Context())
	o.checkTexts("[Digest] 3 messages\n\nnews 0\n\nnews 1\n\nnews 2", "[Digest] 1 message\n\nlate")
	if n := len(o.reloadMessage(held[0]).MergedMessages); n != 2 {
		t.Errorf("it names %d others", n)
	}
	for _, message := range held {
		if message = o.reloadMessage(message); message.MessageName != o.space.Messages()[0].Name {
			t.Errorf("%s has the receipt %q", message.Key, message.MessageName)
		}
	}
}

func TestPartsAreOneThread(t *testing.T) {
	o := newSendTest(t)
	long := strings.Repeat("word ", 10_000)
	message := o.enqueueReport("", long)
	failed := false
	o.setFault(func(text string, w http.ResponseWriter, store func()) bool {
		if !strings.HasPrefix(text, "(2/") || failed {
			return false
		}
		failed = true
		return breakAfterStore(text, w, store)
	})
	s := o.newSender()
	s.sendUntilIdle(t.Context())
	o.advance(time.Minute)
	o.newSender().sendUntilIdle(t.Context()) // another process goes on
	message = o.reloadMessage(message)
	all := o.space.Messages()
	if len(all) < 2 || len(all) != len(message.Parts) || message.MessageName != all[0].Name {
		t.Fatalf("%d messages of %d parts, the first %s", len(all), len(message.Parts), message.MessageName)
	}
	for i, one := range all {
		if one.Thread.Name != all[0].Thread.Name || !strings.HasPrefix(one.Text, fmt.Sprintf("(%d/%d)", i+1, len(all))) {
			t.Errorf("part %d is in thread %s: %.20q", i, one.Thread.Name, one.Text)
		}
	}
}

// A direct conversation with an app has no thread keys. Reports and the "next
// instruction" question of a session, and messages to a key that was used before or is a
// question's, go into the threads whose names are known.
func TestADirectMessageKeepsItsThreads(t *testing.T) {
	o := newSendTest(t, strict.DirectMessage)
	endpoint, _, _ := strings.Cut(o.env["GOOGLE_CHAT_WEBHOOK_URL"], "v1/spaces/")
	for name, value := range map[string]string{
		"GOOGLE_CHAT_SPACE_ID": "spaces/local", "GCHAT_PUBSUB_SUBSCRIPTION": space.Subscription,
		"GCHAT_API_ENDPOINT": endpoint, "GCHAT_PUBSUB_ENDPOINT": endpoint,
	} {
		o.env[name] = value
	}
	o.Poller = newPoller(o.Options)
	s := o.newSender()
	thread := func(message *state.Message) string {
		t.Helper()
		s.sendUntilIdle(t.Context())
		if message = o.reloadMessage(message); message.SentAt.IsZero() {
			t.Fatalf("%s is not sent: %s", message.Key, message.LastError)
		}
		return message.ThreadName
	}
	one, two := thread(o.enqueueReport("a", "one")), thread(o.enqueueReport("a", "two"))
	if other := thread(o.enqueueReport("b", "other")); one != two || other == one {
		t.Errorf("of one session: %s and %s; of another: %s", one, two, other)
	}
	next := o.addTestQuestion(func(q *state.Question) {
		q.Kind, q.ThreadKey, q.SessionID, q.ClaudeSessionID, q.QuestionID = state.KindNext, "session-a", "a", "a", "99999999-q"
	})
	s.sendUntilIdle(t.Context())
	if next, _ = state.LoadQuestion(next.Path); next.ThreadName != one {
		t.Errorf("what comes next is asked in %s, and reported in %s", next.ThreadName, one)
	}
	keyed := func(text, key string) *state.Message {
		return o.enqueueReport("", text, func(message *state.Message) { message.ThreadKey = key })
	}
	if first, second := thread(keyed("first", "K")), thread(keyed("second", "K")); first != second {
		t.Errorf("to one key: %s and %s", first, second)
	}
	q := o.addTestQuestion()
	s.sendUntilIdle(t.Context())
	kit.NoError(t, state.AddQuestionToIndex(o.Env, q))
	q, _ = state.LoadQuestion(q.Path)
	if got := thread(keyed("more", q.ThreadKey)); got != q.ThreadName || got == "" {
		t.Errorf("to a question's key: %s, and the question is in %s", got, q.ThreadName)
	}
	if _, err := state.SessionsIn(o.userStateDir).Change("b", func(session *state.Session) {
		session.ThreadName = "spaces/OLD/threads/T"
	}); err != nil {
		t.Fatal(err)
	}
	if got := thread(o.enqueueReport("b", "moved")); !strings.HasPrefix(got, "spaces/local/") {
		t.Errorf("after the space changed: %s", got)
	}
}

// In TestKilledBeforeTheReceipt, a message is in the space, and the outbox knows only
// that it was tried.
func TestKilledBeforeTheReceipt(t *testing.T) {
	o := newSendTest(t)
	message := o.enqueueReport("a", "x")
	o.newSender().sendUntilIdle(t.Context())
	sent := o.reloadMessage(message)
	box := state.OutboxIn(o.userStateDir)
	if _, err := box.Change(sent.Path, func(message *state.Message) {
		message.SentAt, message.EndedAt, message.MessageName = time.Time{}, time.Time{}, ""
	}); err != nil {
		t.Fatal(err)
	}
	o.posts = nil
	o.newSender().sendUntilIdle(t.Context())
	if got := o.reloadMessage(message); got.MessageName != sent.MessageName || len(o.posts) > 0 {
		t.Errorf("receipt %q, want %q; posted again: %q", got.MessageName, sent.MessageName, o.posts)
	}
	if session, err := state.SessionsIn(o.userStateDir).Get("a"); err != nil || session.ThreadName != sent.ThreadName || session.Chat == "" {
		t.Errorf("the session knows of %+v, %v", session, err)
	}
}

// A message to a thread of another space is not lost. It goes into the thread of its key,
// or into a new one. A message that Chat refuses for another reason is tried twice at
// most.
func TestAThreadOfAnotherSpaceLosesNoMessage(t *testing.T) {
	o := newSendTest(t, strict.OtherThreads)
	keyed := o.enqueueReport("a", "keyed", func(message *state.Message) { message.ThreadName = "spaces/OLD/threads/T" })
	alone := o.enqueueReport("", "alone", func(message *state.Message) { message.ThreadName = "spaces/OLD/threads/T" })
	s := o.newSender()
	s.sendUntilIdle(t.Context())
	keyed, alone = o.reloadMessage(keyed), o.reloadMessage(alone)
	if keyed.SentAt.IsZero() || alone.SentAt.IsZero() || keyed.ThreadName == alone.ThreadName {
		t.Errorf("keyed: %q in %s; alone: %q in %s", keyed.LastError, keyed.ThreadName, alone.LastError, alone.ThreadName)
	}
	if session, err := state.SessionsIn(o.userStateDir).Get("a"); err != nil || session.ThreadName != keyed.ThreadName {
		t.Errorf("the session knows %q, want %q (%v)", session.ThreadName, keyed.ThreadName, err)
	}
	o.posts = nil
	o.setFault(answerWithError(400, "INVALID_ARGUMENT", "no"))
	bad := o.enqueueReport("b", "bad", func(message *state.Message) { message.ThreadName = keyed.ThreadName })
	for range 3 {
		s.sendUntilIdle(t.Context())
		o.advance(maxBackoff)
	}
	if n := len(o.posts); n != 2 || o.reloadMessage(bad).SetAsideReason == "" {
		t.Errorf("posted %d times, set aside: %q", n, o.reloadMessage(bad).SetAsideReason)
	}
}

// In TestWaitingProcessWakes, a process waits for a receipt as commands do.
func TestWaitingProcessWakes(t *testing.T) {
	o := newSendTest(t)
	o.setFault(answerWithError(503, "UNAVAILABLE", "sorry"))
	message := o.enqueueReport("a", "x")
	kit.NoError(t, state.AddToIndex(o.Env, state.IndexEntry{RecordType: state.IndexedMessage, Path: message.Path}))
	o.readIndex()
	s := o.newSender()
	s.sendUntilIdle(t.Context())
	if !state.IsLocked(state.IndexFile(o.Env, message.Path)) {
		t.Error("a waiting process would not block")
	}
	got := make(chan *state.Message)
	go func() {
		message, _ := state.Await(t.Context(), o.Env, "", message.Path, (*state.Message).IsFinal)
		got <- message
	}()
	o.setFault(nil)
	o.advance(time.Minute)
	s.sendUntilIdle(t.Context())
	if message := <-got; message == nil || message.MessageName == "" {
		t.Errorf("it woke with %+v", message)
	}
}

// childDir is the variable that names, to a copy of this test program, the folder whose
// outbox it has to send.
const childDir = "GCHAT_TEST_SENDER"

func TestMain(m *testing.M) {
	if os.Getenv("GCHAT_TEST_POLLER") != "" { // see TestEventsOutliveKilledPollers
		fmt.Println(Run(context.Background(), Options{Env: os.Getenv, Log: state.NewLog(os.Getenv, "poller"), Daemon: true}))
		os.Exit(1)
	}
	dir := os.Getenv(childDir)
	if dir == "" {
		os.Exit(underlock.Run(m))
	}
	env := map[string]string{
		"HOME": dir, "XDG_STATE_HOME": dir, "GOOGLE_CHAT_WEBHOOK_URL": os.Getenv("GCHAT_TEST_WEBHOOK"),
		"GCHAT_WRITES_PER_MINUTE": "60000",
	}
	getenv := func(name string) string { return env[name] }
	p := newPoller(Options{Env: getenv, Log: state.NewLog(getenv, "test")})
	s := p.newSender()
	for waiting := true; waiting; {
		next := s.sendUntilIdle(context.Background())
		all, _ := s.outbox.Waiting()
		if waiting = len(all) > 0; waiting && !next.IsZero() {
			time.Sleep(time.Until(next))
		}
	}
	os.Exit(0)
}

// TestNoneLostNoneTwice sends a thousand messages in fifty lanes. Meanwhile Chat answers
// 429 and 500, hangs, and cuts the connection after it stored a message, and the poller
// is killed many times.
func TestNoneLostNoneTwice(t *testing.T) {
	t.Parallel()
	messages, lanes := 1000, 50
	if testing.Short() {
		messages = 150
	}
	o := newSendTest(t)
	o.setFault(func(text string, w http.ResponseWriter, store func()) bool {
		switch n := rand.IntN(100); {
		case n < 3:
			return answerWithError(429, "RESOURCE_EXHAUSTED", "slow")(text, w, store)
		case n < 6:
			return answerWithError(500, "INTERNAL", "no")(text, w, store)
		case n < 9:
			return breakAfterStore(text, w, store)
		case n < 10:
			store()
			time.Sleep(100 * time.Millisecond)
			panic(http.ErrAbortHandler)
		}
		return false
	})
	o.env["GCHAT_ALLOWED_USERS"] = "" // as the child has it
	for i := range messages {
		o.enqueueReport(fmt.Sprint("s", i%lanes), fmt.Sprint(i))
	}
	const mostKills = 25 // then it may come to its end
	kills := 0
	for ended := false; !ended; {
		cmd := bound.Within(t, 3*bound.Patience, os.Args[0]) // the last one sends all that is left
		cmd.Env = append(os.Environ(), childDir+"="+o.env["HOME"], "GCHAT_TEST_WEBHOOK="+o.env["GOOGLE_CHAT_WEBHOOK_URL"])
		kit.NoError(t, cmd.Start())
		if kills < mostKills {
			kill := time.AfterFunc(time.Duration(100+rand.IntN(900))*time.Millisecond, func() { _ = cmd.Process.Kill() })
			defer kill.Stop()
		}
		if ended = cmd.Wait() == nil; !ended {
			kills++
		}
	}
	o.mu.Lock() // of a poller that was killed a request may still be under way
	t.Logf("%d kills, %d posts for %d messages", kills, len(o.posts), messages)
	o.mu.Unlock()
	last, seen := map[string]int{}, map[string]bool{}
	for _, m := range o.space.Messages() {
		n, _ := strconv.Atoi(m.Text)
		if seen[m.Text] {
			t.Errorf("%d is there twice", n)
		}
		seen[m.Text] = true
		if n < last[m.Thread.Name] {
			t.Errorf("%d stands behind %d", n, last[m.Thread.Name])
		}
		last[m.Thread.Name] = n
	}
	if len(seen) != messages || len(last) != lanes {
		t.Errorf("%d messages in %d threads, want %d in %d", len(seen), len(last), messages, lanes)
	}
}
