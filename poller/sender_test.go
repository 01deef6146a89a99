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

// The space cannot be read. Its "already exists" counts as the receipt.
func TestSender_AlreadyExistsIsReceipt(t *testing.T) {
	o := newSendTest(t)
	o.findStatus = http.StatusForbidden
	message := o.enqueueReport("a", "x")
	o.setFault(breakAfterStore)
	o.send()
	o.setFault(answerWithError(409, "ALREADY_EXISTS", "it is there"))
	o.sendAfter(time.Minute)
	o.checkTexts("x")
	message = o.reloadMessage(message)
	kit.True(t, !message.SentAt.IsZero() && len(o.posts) == 2,
		"posted %d times, last error %q", len(o.posts), message.LastError)
}

// The post of a message was cut, and Chat fails at first when the poller searches for the
// message.
func TestSender_LooksForTriedUntilAnswered(t *testing.T) {
	o := newSendTest(t)
	q := o.addTestQuestion()
	o.setFault(breakAfterStore)
	o.send()
	o.setFault(nil)
	o.findStatus, o.posts = http.StatusServiceUnavailable, nil
	for range 3 {
		o.sendAfter(maxBackoff)
	}
	n := len(o.posts)
	kit.True(t, n == 0, "posted %d times more", n)
	message := o.enqueueReport("b", "another")
	o.send()
	kit.True(t, o.reloadMessage(message).IsFinal(), "the others wait for it")
	o.findStatus = 0
	o.sendAfter(maxBackoff)
	q, _ = state.LoadQuestion(q.Path)
	kit.True(t, q.IsMessageSent && q.ThreadName != "" && len(o.texts()) == 2,
		"sent: %v, in thread %q; in the space: %q", q.IsMessageSent, q.ThreadName, o.texts())
}

// With a login, Chat may not find a webhook's message by the id that it was posted with.
// The poller then finds it in the list, even among messages with the same text.
func TestSender_FindsTriedInList(t *testing.T) {
	o := newSendTest(t)
	o.isUnfindable = true
	q := o.addTestQuestion()
	o.setFault(breakAfterStore)
	o.send()
	there := o.space.Messages()[0]
	_, err := o.space.PostAs(nil, "", there.Text)
	kit.NoError(t, err)
	o.setFault(nil)
	o.sendAfter(maxBackoff)
	q, _ = state.LoadQuestion(q.Path)
	kit.True(t, q.MessageName == there.Name && q.ThreadName == there.Thread.Name &&
		len(o.posts) == 1,
		"it is %s in %q, want %s; posted %d times", q.MessageName, q.ThreadName, there.Name,
		len(o.posts))
	message := o.enqueueReport("a", "x")
	o.setFault(func(string, http.ResponseWriter, func()) bool { panic(http.ErrAbortHandler) })
	o.send()
	o.setFault(nil)
	o.posts, o.findCount = nil, 0
	o.sendAfter(maxBackoff)
	message = o.reloadMessage(message)
	kit.True(t, !message.SentAt.IsZero() && len(o.posts) == 1 && o.findCount == 2,
		"what is not there: posted %d times more, asked for %d times, last error %q", len(o.posts),
		o.findCount, message.LastError)
}

// Chat answers that the message exists, and fails when the poller asks for its thread.
func TestSender_FindsThreadOfExisting(t *testing.T) {
	o := newSendTest(t)
	q := o.addTestQuestion()
	exists := answerWithError(409, "ALREADY_EXISTS", "it is there")
	o.setFault(func(text string, w http.ResponseWriter, store func()) bool {
		store()
		return exists(text, w, store)
	})
	o.findStatus = http.StatusServiceUnavailable
	o.send()
	q, _ = state.LoadQuestion(q.Path)
	kit.True(t, !q.IsMessageSent, "it counts as sent")
	o.findStatus = 0
	o.sendAfter(time.Minute)
	q, _ = state.LoadQuestion(q.Path)
	kit.True(t, q.ThreadName != "" && len(o.posts) == 1,
		"thread %q, posted %d times", q.ThreadName, len(o.posts))
}

func TestSender_LeavesOtherEnvironments(t *testing.T) {
	o := newSendTest(t)
	message := o.enqueueReport("a", "x")
	o.sender.environment = "other"
	o.send()
	o.checkTexts()
	kit.True(t, !o.reloadMessage(message).IsFinal(), "it is final")
	o.sendAfter(maxMessageAge + time.Hour)
	kit.True(t, o.reloadMessage(message).SetAsideReason != "", "after a week it still waits")
}

func TestSender_SendsFilesOfEarlierVersions(t *testing.T) {
	o := newSendTest(t)
	file := filepath.Join(o.poller.userStateDir, "outbox", "0000000000000000001-client-1.json")
	old := `{"message_id":"client-1","key":"client-1","kind":"task_done","chat":"",
		"parts":["one","two"],"parts_sent":1,
		"thread_key":"session-a","created_at":"` + o.now().UTC().Format(time.RFC3339Nano) + `"}`
	kit.WriteFile(t, file, old, 0o600)
	o.send()
	o.checkTexts("two")
}

func TestSender_KeepsItsPace(t *testing.T) {
	o := newSendTest(t)
	for i := range 30 {
		o.enqueueReport(fmt.Sprint("s", i), "x")
	}
	urgent := o.enqueueReport("u", "urgent", func(message *state.Message) {
		message.IsUrgent = true
	})
	next := o.send()
	n := len(o.posts) // the urgent one may be written last, as the one more that it is allowed
	kit.True(t, n >= maxBurst && n <= maxBurst+1 && o.reloadMessage(urgent).IsFinal(),
		"%d at once, want %d, and the urgent one among them", n, maxBurst)
	wait := next.Sub(o.now())
	kit.True(t, wait > 0 && wait <= time.Duration(1+n-maxBurst)*time.Second, "the next in %v", wait)
	q := o.addTestQuestion()
	o.send()
	q, _ = state.LoadQuestion(q.Path)
	kit.True(t, q.IsMessageSent, "a question waits behind a flood of reports")
	o.posts = nil
	for range 10 {
		o.sendAfter(time.Second)
	}
	n = len(o.posts)
	kit.True(t, n >= 7 && n <= 10, "%d in ten seconds at 60 a minute", n)
}

func TestSender_QuietHoursHoldReports(t *testing.T) {
	o := newSendTest(t)
	now := o.now()
	quiet := fmt.Sprintf(`{"quiet_hours":{"from":%q,"to":%q}}`,
		now.Add(-time.Hour).Format("15:04"), now.Add(time.Hour).Format("15:04"))
	o.writeConfig(quiet)
	o.enqueueReport("a", "can wait")
	o.enqueueReport("a", "urgent", func(message *state.Message) { message.IsUrgent = true })
	next := o.send()
	o.checkTexts("urgent")
	wait := next.Sub(now)
	kit.True(t, wait >= 50*time.Minute && wait <= time.Hour, "it goes in %v", wait)
	o.sendAfter(time.Hour)
	o.checkTexts("urgent", "can wait")
}

func TestSender_HeldLetsOthersPass(t *testing.T) {
	o := newSendTest(t)
	o.enqueueReport("a", "held", func(message *state.Message) {
		message.NotBefore = o.now().Add(time.Hour)
	})
	o.enqueueReport("a", "now")
	next := o.send()
	kit.True(t, next.Sub(o.now()).Round(time.Second) == time.Hour, "next in %v", next.Sub(o.now()))
	o.checkTexts("now")
}

func TestSender_DigestIsOneMessage(t *testing.T) {
	o := newSendTest(t)
	at := o.now().Add(time.Hour)
	var held []*state.Message
	for i := range 3 {
		held = append(held, o.enqueueReport(fmt.Sprint("s", i), fmt.Sprint("news ", i),
			func(message *state.Message) {
				message.IsDigest, message.ThreadKey, message.NotBefore =
					true, "digest-2026-11-22", at
			}))
	}
	o.advance(time.Hour)
	o.setFault(answerWithError(429, "RESOURCE_EXHAUSTED", "slow"))
	o.send() // a digest that is put off is worded again
	o.setFault(breakAfterStore)
	o.sendAfter(time.Minute)
	o.setFault(nil)
	o.enqueueReport("late", "late", func(message *state.Message) {
		message.IsDigest, message.ThreadKey = true, "digest-2026-11-22"
	})
	o.sendAfter(time.Minute)
	o.checkTexts("[Digest] 3 messages\n\nnews 0\n\nnews 1\n\nnews 2", "[Digest] 1 message\n\nlate")
	n := len(o.reloadMessage(held[0]).MergedMessages)
	kit.True(t, n == 2, "it names %d others", n)
	for _, message := range held {
		message = o.reloadMessage(message)
		kit.True(t, message.MessageName == o.space.Messages()[0].Name,
			"%s has the receipt %q", message.Key, message.MessageName)
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
	o.send()
	o.sender = o.poller.newSender() // another process goes on
	o.sendAfter(time.Minute)
	message = o.reloadMessage(message)
	all := o.space.Messages()
	kit.Must(t, len(all) >= 2 && len(all) == len(message.Parts) &&
		message.MessageName == all[0].Name,
		"%d messages of %d parts, the first %s", len(all), len(message.Parts), message.MessageName)
	for i, one := range all {
		kit.True(t, one.Thread.Name == all[0].Thread.Name &&
			strings.HasPrefix(one.Text, fmt.Sprintf("(%d/%d)", i+1, len(all))),
			"part %d is in thread %s: %.20q", i, one.Thread.Name, one.Text)
	}
}

// A direct conversation with an app has no thread keys. Reports and the "next
// instruction" question of a session, and messages to a key that was used before or is a
// question's, go into the threads whose names are known.
func TestSender_DirectMessageKeepsThreads(t *testing.T) {
	o := newSendTest(t, strict.DirectMessage)
	endpoint, _, _ := strings.Cut(o.vars["GOOGLE_CHAT_WEBHOOK_URL"], "v1/spaces/")
	for name, value := range map[string]string{
		"GOOGLE_CHAT_SPACE_ID": "spaces/local", "GCHAT_PUBSUB_SUBSCRIPTION": space.Subscription,
		"GCHAT_API_ENDPOINT": endpoint, "GCHAT_PUBSUB_ENDPOINT": endpoint,
	} {
		o.vars[name] = value
	}
	o.poller = newPoller(o.poller.Options)
	o.sender = o.poller.newSender()
	thread := func(message *state.Message) string {
		t.Helper()
		o.send()
		message = o.reloadMessage(message)
		kit.Must(t, !message.SentAt.IsZero(), "%s is not sent: %s", message.Key, message.LastError)
		return message.ThreadName
	}
	one, two := thread(o.enqueueReport("a", "one")), thread(o.enqueueReport("a", "two"))
	other := thread(o.enqueueReport("b", "other"))
	kit.True(t, one == two && other != one,
		"of one session: %s and %s; of another: %s", one, two, other)
	next := o.addTestQuestion(func(q *state.Question) {
		q.Kind, q.ThreadKey, q.SessionID, q.ClaudeSessionID, q.QuestionID =
			state.KindNext, "session-a", "a", "a", "99999999-q"
	})
	o.send()
	next, _ = state.LoadQuestion(next.Path)
	kit.True(t, next.ThreadName == one,
		"what comes next is asked in %s, and reported in %s", next.ThreadName, one)
	keyed := func(text, key string) *state.Message {
		return o.enqueueReport("", text, func(message *state.Message) { message.ThreadKey = key })
	}
	first, second := thread(keyed("first", "K")), thread(keyed("second", "K"))
	kit.True(t, first == second, "to one key: %s and %s", first, second)
	q := o.addTestQuestion()
	o.send()
	kit.NoError(t, state.AddQuestionToIndex(o.env, q))
	q, _ = state.LoadQuestion(q.Path)
	got := thread(keyed("more", q.ThreadKey))
	kit.True(t, got == q.ThreadName && got != "",
		"to a question's key: %s, and the question is in %s", got, q.ThreadName)
	_, err := o.sessions().Change("b", func(session *state.Session) {
		session.ThreadName = "spaces/OLD/threads/T"
	})
	kit.NoError(t, err)
	got = thread(o.enqueueReport("b", "moved"))
	kit.True(t, strings.HasPrefix(got, "spaces/local/"), "after the space changed: %s", got)
}

// A process waits for a receipt as commands do.
func TestSender_WakesWaitingProcess(t *testing.T) {
	o := newSendTest(t)
	o.setFault(answerWithError(503, "UNAVAILABLE", "sorry"))
	message := o.enqueueReport("a", "x")
	kit.NoError(t, state.AddToIndex(o.env, state.IndexEntry{
		RecordType: state.IndexedMessage, Path: message.Path,
	}))
	o.poller.readIndex()
	o.send()
	kit.True(t, state.IsLocked(state.IndexFile(o.env, message.Path)),
		"a waiting process would not block")
	got := make(chan *state.Message)
	go func() {
		message, _ := state.Await(t.Context(), o.env, "", message.Path, (*state.Message).IsFinal)
		got <- message
	}()
	o.setFault(nil)
	o.sendAfter(time.Minute)
	message = <-got
	kit.True(t, message != nil && message.MessageName != "", "it woke with %+v", message)
}

// A thousand messages are sent in fifty lanes. Meanwhile Chat answers 429 and 500, hangs,
// and cuts the connection after it stored a message, and the poller is killed many times.
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
	o.vars["GCHAT_ALLOWED_USERS"] = "" // as the child has it
	for i := range messages {
		o.enqueueReport(fmt.Sprint("s", i%lanes), fmt.Sprint(i))
	}
	const mostKills = 25 // then it may come to its end
	kills := 0
	for ended := false; !ended; {
		cmd := bound.Within(t, 3*bound.Patience, os.Args[0]) // the last one sends all that is left
		cmd.Env = append(os.Environ(), childDir+"="+o.vars["HOME"],
			"GCHAT_TEST_WEBHOOK="+o.vars["GOOGLE_CHAT_WEBHOOK_URL"])
		kit.NoError(t, cmd.Start())
		if kills < mostKills {
			kill := time.AfterFunc(time.Duration(100+rand.IntN(900))*time.Millisecond, func() {
				_ = cmd.Process.Kill()
			})
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
		kit.True(t, !seen[m.Text], "%d is there twice", n)
		seen[m.Text] = true
		kit.True(t, n >= last[m.Thread.Name], "%d stands behind %d", n, last[m.Thread.Name])
		last[m.Thread.Name] = n
	}
	kit.True(t, len(seen) == messages && len(last) == lanes,
		"%d messages in %d threads, want %d in %d", len(seen), len(last), messages, lanes)
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
	_, isBusy := o.sender.dispatch(t.Context())
	o.sender.goroutines.Wait()
	n := broken()
	kit.True(t, n <= maxReadPerStep && isBusy, "one step read %d broken files, busy %v", n, isBusy)
	got := o.texts()
	kit.True(t, len(got) == 1 && o.loadQuestion(q).IsMessageSent,
		"prompts %q, the question is sent: %v", got, o.loadQuestion(q).IsMessageSent)
	o.send()
	got = o.texts()
	kit.True(t, len(got) == 3 && strings.Contains(got[1], "first") &&
		strings.Contains(got[2], "second"),
		"prompts %q", got)
	kit.Equalf(t, broken(), maxReadPerStep+1, "broken files were set aside")
}

func TestSender_MutedSessionsReportsWait(t *testing.T) {
	o := newSendTest(t)
	sessions := o.sessions()
	mute := func(until time.Time) {
		_, err := sessions.Change("a", func(session *state.Session) { session.MutedUntil = until })
		kit.NoError(t, err)
	}
	o.advance(0)
	mute(o.now().Add(time.Hour))
	mine := func(message *state.Message) { message.SessionID = "a" }
	o.enqueueReport("a", "can wait", mine)
	o.enqueueReport("a", "urgent", mine, func(message *state.Message) { message.IsUrgent = true })
	o.enqueueReport("b", "another session's", func(message *state.Message) {
		message.SessionID = "b"
	})
	o.send()
	got := o.texts()
	kit.True(t, len(got) == 2 && !slices.Contains(got, "can wait"), "in the space: %q", got)
	mute(time.Time{})
	o.sendAfter(muteCheckInterval)
	kit.True(t, slices.Contains(o.texts(), "can wait"), "in the space after the end: %q", o.texts())
	mute(o.now().Add(time.Hour))
	for kind, want := range map[state.Kind]bool{
		state.KindQuestion: false, state.KindPermission: false, state.KindPlan: false,
		state.KindNext: true,
	} {
		q := o.addTestQuestion(func(q *state.Question) {
			q.Kind, q.QuestionID = kind, "id-"+string(kind)
		})
		message, err := o.sender.outbox.FindByKey(messageKey(firstMessageKey, q))
		kit.NoError(t, err)
		message.SessionID = "a"
		kit.Equalf(t, !message.IsUrgent && !o.sender.quietUntil(message, &config.Config{}).IsZero(),
			want,
			"%s is muted", kind)
	}
}
