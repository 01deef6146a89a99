package poller

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// In TestSender_AlreadyExistsIsReceipt, the space cannot be read. Its "already exists" counts as the
// receipt.
func TestSender_AlreadyExistsIsReceipt(t *testing.T) {
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

// In TestSender_LooksForTriedUntilAnswered, the post of a message was cut, and Chat fails at
// first when the poller searches for the message.
func TestSender_LooksForTriedUntilAnswered(t *testing.T) {
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
func TestSender_FindsTriedInList(t *testing.T) {
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

// In TestSender_FindsThreadOfExisting, Chat answers that the message exists, and fails when
// the poller asks for its thread.
func TestSender_FindsThreadOfExisting(t *testing.T) {
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

func TestSender_LeavesOtherEnvironments(t *testing.T) {
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

func TestSender_SendsFilesOfEarlierVersions(t *testing.T) {
	o := newSendTest(t)
	dir := filepath.Join(o.userStateDir, "outbox")
	kit.NoError(t, os.MkdirAll(dir, 0o700))
	old := `{"message_id":"client-1","key":"client-1","kind":"task_done","chat":"","parts":["one","two"],"parts_sent":1,
		"thread_key":"session-a","created_at":"` + o.now().UTC().Format(time.RFC3339Nano) + `"}`
	kit.NoError(t, os.WriteFile(filepath.Join(dir, "0000000000000000001-client-1.json"), []byte(old), 0o600))
	o.newSender().sendUntilIdle(t.Context())
	o.checkTexts("two")
}

func TestSender_KeepsItsPace(t *testing.T) {
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

func TestSender_QuietHoursHoldReports(t *testing.T) {
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

func TestSender_HeldLetsOthersPass(t *testing.T) {
	o := newSendTest(t)
	s := o.newSender()
	o.enqueueReport("a", "held", func(message *state.Message) { message.NotBefore = o.now().Add(time.Hour) })
	o.enqueueReport("a", "now")
	if next := s.sendUntilIdle(t.Context()); next.Sub(o.now()).Round(time.Second) != time.Hour {
		t.Errorf("next in %v", next.Sub(o.now()))
	}
	o.checkTexts("now")
}

func TestSender_DigestIsOneMessage(t *testing.T) {
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

func TestSender_PartsShareAThread(t *testing.T) {
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
func TestSender_DirectMessageKeepsThreads(t *testing.T) {
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

// In TestSender_KilledBeforeReceipt, a message is in the space, and the outbox knows only
// that it was tried.
func TestSender_KilledBeforeReceipt(t *testing.T) {
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

// In TestSender_WakesWaitingProcess, a process waits for a receipt as commands do.
func TestSender_WakesWaitingProcess(t *testing.T) {
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

// TestSender_SendsEachOnce sends a thousand messages in fifty lanes. Meanwhile Chat answers
// 429 and 500, hangs, and cuts the connection after it stored a message, and the poller
// is killed many times.
func TestSender_SendsEachOnce(t *testing.T) {
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

// The outbox is full of files. Each step reads a part of them, the newest first, so that
// a question goes at once. The others keep their order, and go once all are read.
func TestSender_FullOutboxDelaysNoQuestion(t *testing.T) {
	t.Parallel()
	o := newSendTest(t)
	first, second := o.enqueueReport("shop", "first"), o.enqueueReport("shop", "second")
	dir := filepath.Dir(first.Path)
	began := second.CreatedAt.UnixNano()
	for n := range maxReadPerStep + 1 {
		name := fmt.Sprintf("%019d-broken-%d.json", began+int64(n)+10, n)
		kit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("no message"), 0o600))
	}
	o.advance(time.Minute)
	q := o.addTestQuestion()
	broken := func() (aside int) {
		entries, err := os.ReadDir(dir)
		kit.NoError(t, err)
		for _, e := range entries {
			if strings.Contains(e.Name(), ".corrupt-") {
				aside++
			}
		}
		return aside
	}
	s := o.newSender()
	_, isBusy := s.dispatch(t.Context())
	s.goroutines.Wait()
	if n := broken(); n > maxReadPerStep || !isBusy {
		t.Errorf("one step read %d broken files, busy %v", n, isBusy)
	}
	if got := o.texts(); len(got) != 1 || !o.reloadQuestion(q).IsMessageSent {
		t.Errorf("said %q, the question is sent: %v", got, o.reloadQuestion(q).IsMessageSent)
	}
	s.sendUntilIdle(t.Context())
	if got := o.texts(); len(got) != 3 || !strings.Contains(got[1], "first") || !strings.Contains(got[2], "second") {
		t.Errorf("said %q", got)
	}
	kit.Equalf(t, broken(), maxReadPerStep+1, "broken files were set aside")
}

func TestSender_MutedSessionsReportsWait(t *testing.T) {
	o := newSendTest(t)
	s := o.newSender()
	sessions := state.SessionsIn(state.UserStateDir(o.Env))
	mute := func(until time.Time) {
		if _, err := sessions.Change("a", func(session *state.Session) { session.MutedUntil = until }); err != nil {
			t.Fatal(err)
		}
	}
	o.advance(0)
	mute(o.now().Add(time.Hour))
	mine := func(message *state.Message) { message.SessionID = "a" }
	o.enqueueReport("a", "can wait", mine)
	o.enqueueReport("a", "urgent", mine, func(message *state.Message) { message.IsUrgent = true })
	o.enqueueReport("b", "another session's", func(message *state.Message) { message.SessionID = "b" })
	s.sendUntilIdle(t.Context())
	if got := o.texts(); len(got) != 2 || slices.Contains(got, "can wait") {
		t.Errorf("in the space: %q", got)
	}
	mute(time.Time{})
	o.advance(muteCheckInterval)
	s.sendUntilIdle(t.Context())
	if !slices.Contains(o.texts(), "can wait") {
		t.Errorf("in the space after the end: %q", o.texts())
	}
	mute(o.now().Add(time.Hour))
	for kind, want := range map[state.Kind]bool{
		state.KindQuestion: false, state.KindPermission: false, state.KindPlan: false, state.KindNext: true,
	} {
		q := o.addTestQuestion(func(q *state.Question) { q.Kind, q.QuestionID = kind, "id-"+string(kind) })
		message, err := s.outbox.FindByKey(messageKey(firstMessageKey, q))
		kit.NoError(t, err)
		message.SessionID = "a"
		kit.Equalf(t, !message.IsUrgent && !s.quietUntil(message, &config.Config{}).IsZero(), want, "%s is muted", kind)
	}
}
