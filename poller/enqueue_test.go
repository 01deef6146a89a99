package poller

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func TestEnqueue_QuestionGetsReceipt(t *testing.T) {
	o := newSendTest(t)
	q := o.addTestQuestion()
	// a second time changes nothing
	kit.NoError(t, o.poller.enqueueQuestion(q, &state.IndexEntry{}, firstMessageKey))
	o.send()
	all := o.space.Messages()
	kit.Must(t, len(all) == 1 && strings.Contains(all[0].Text, "Which?"),
		"in the space: %q", o.texts())
	q = o.loadQuestion(q)
	kit.True(t, q.IsMessageSent && q.MessageName == all[0].Name &&
		q.ThreadName == all[0].Thread.Name && q.Space == "spaces/local" &&
		strings.HasSuffix(q.Chat, "/spaces/local") && q.PostedAt != nil, "the question knows %+v",
		q)
	message, err := o.outbox().FindByKey(messageKey(firstMessageKey, q))
	kit.True(t, err == nil && message != nil && message.MessageName == q.MessageName &&
		message.ThreadName == q.ThreadName,
		"its message knows %+v, %v", message, err)
}

// askInTerminal has a deny-mode question asked in the terminal instead.
func (o *sendTest) askInTerminal(q *state.Question) {
	o.t.Helper()
	native := o.changeQuestion(q, func(q *state.Question) { q.Mode = state.ModeNative })
	kit.NoError(o.t, o.poller.enqueueQuestion(native, &state.IndexEntry{}, firstMessageKey))
}

// A deny-mode question that is asked in the terminal instead has one message, whenever
// it is sent.
func TestEnqueue_DeniedThenAskedIsOneMessage(t *testing.T) {
	for name, send := range map[string]func(o *sendTest, move func()){
		"before it was tried": func(o *sendTest, move func()) {
			move()
			o.send()
		},
		"before it was tried, and the sender had it": func(o *sendTest, move func()) {
			o.sender.readOutbox()
			move()
			o.send()
		},
		"in flight": func(o *sendTest, move func()) {
			o.setFault(func(string, http.ResponseWriter, func()) bool {
				o.setFault(nil)
				move()
				return false
			})
			o.send()
		},
		"after a try that may have arrived": func(o *sendTest, move func()) {
			o.setFault(breakAfterStore)
			o.send()
			o.setFault(nil)
			move()
			o.sendAfter(time.Hour)
		},
		"after its receipt": func(o *sendTest, move func()) {
			o.send()
			move()
		},
		"after it had to wait, since no reply could be used": func(o *sendTest, move func()) {
			o.vars["GCHAT_ALLOWED_USERS"] = ""
			o.send()
			move()
			o.sendAfter(retryPause)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newSendTest(t)
			q := o.addTestQuestion(func(q *state.Question) {
				q.Mode, q.QuestionID, q.ThreadKey =
					state.ModeDeny, "ask-s-01234567", "ask-s-01234567"
			})
			send(o, func() { o.askInTerminal(q) })
			o.poller.newSender().sendUntilIdle(t.Context())
			all, stored := o.space.Messages(), o.loadQuestion(q)
			kit.True(t, len(all) == 1 && stored.IsMessageSent &&
				stored.MessageName == all[0].Name && stored.ThreadName == all[0].Thread.Name &&
				stored.Space == "spaces/local" && strings.HasSuffix(stored.Chat, "/spaces/local"),
				"%d messages; the question knows %v %q %q %q", len(all), stored.IsMessageSent,
				stored.MessageName, stored.ThreadName, stored.Chat)
		})
	}
}

func TestEnqueue_RecordHasPostError(t *testing.T) {
	o := newSendTest(t)
	o.setFault(answerWithError(403, "PERMISSION_DENIED", "no"))
	q := o.addTestQuestion()
	o.send()
	q = o.loadQuestion(q)
	kit.True(t, strings.Contains(q.PostError, "403"), "post error %q", q.PostError)
	o.setFault(nil)
	o.sendAfter(time.Minute)
	q = o.loadQuestion(q)
	kit.True(t, q.PostError == "" && q.IsMessageSent,
		"post error %q, sent %v", q.PostError, q.IsMessageSent)
}

func TestEnqueue_DropsEndedUnlessTried(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(string, http.ResponseWriter, func()) bool
		posts int
	}{
		"never tried":          {answerWithError(429, "RESOURCE_EXHAUSTED", "slow"), 0},
		"it may be there":      {answerWithError(503, "UNAVAILABLE", "sorry"), 1},
		"it is, and cut after": {breakAfterStore, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := newSendTest(t)
			q := o.addTestQuestion()
			o.setFault(c.fault)
			o.send()
			o.closeQuestion(q, state.Cancelled, "signal")
			owed := o.loadQuestion(q).OwedNotes[0]
			kit.Equalf(t, o.enqueueNote(o.loadQuestion(q), owed), false,
				"struck off before its question's message is over")
			o.setFault(nil)
			o.sendAfter(time.Minute)
			kit.Equalf(t, o.enqueueNote(o.loadQuestion(q), owed), true, "struck off")
			o.send()
			all := o.space.Messages()
			kit.Must(t, len(all) == 2*c.posts, "in the space: %q", o.texts())
			if c.posts > 0 {
				kit.Contains(t, all[1].Text, "[Cancelled] shop")
				kit.Equalf(t, all[1].Thread.Name, all[0].Thread.Name, "the thread")
			}
		})
	}
}

// A deny-mode question that was answered in the terminal is not posted later. One that
// was posted learns its thread.
func TestEnqueue_EndedInTerminalIsNotPosted(t *testing.T) {
	for _, posted := range []bool{false, true} {
		o := newSendTest(t)
		q := o.addTestQuestion(func(q *state.Question) {
			q.QuestionID, q.Mode = q.ThreadKey, state.ModeDeny
		})
		if posted {
			o.send()
		}
		o.askInTerminal(q)
		o.closeQuestion(q, state.Resolved, "terminal")
		o.send()
		stored := o.loadQuestion(q)
		kit.True(t, stored.IsMessageSent == posted && (stored.ThreadName != "") == posted &&
			len(o.texts()) == intOf(posted),
			"posted %v: sent %v, in thread %q; in the space: %q", posted, stored.IsMessageSent,
			stored.ThreadName, o.texts())
	}
}

// enqueueNote enqueues a note, and reports whether the record can strike it off.
func (o *sendTest) enqueueNote(q *state.Question, owed state.OwedNote) (isDone bool) {
	o.t.Helper()
	isDone, err := o.poller.enqueueNote(q, &state.IndexEntry{}, owed)
	kit.NoError(o.t, err)
	return isDone
}

func TestEnqueue_NoteIsWrittenOnce(t *testing.T) {
	o := newSendTest(t)
	q := o.addTestQuestion()
	o.send()
	q = o.loadQuestion(q)
	for _, owed := range []state.OwedNote{
		{About: state.NoteNoWaiter}, {About: state.NoteNoWaiter}, {About: "unknown"},
	} {
		kit.Equalf(t, o.enqueueNote(q, owed), true, "%+v is struck off", owed)
	}
	o.send()
	for _, now := range []state.Status{state.TimedOut, state.Answered, state.Resolved} {
		// a late reply counted as the answer
		_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			return q.MoveTo(now, o.now())
		})
		kit.NoError(t, err)
		owed := state.OwedNote{About: state.NoteClosed}
		kit.Equalf(t, o.enqueueNote(o.loadQuestion(q), owed), true, "it is struck off")
	}
	o.send()
	all := o.texts()
	kit.True(t, len(all) == 4 &&
		strings.HasPrefix(all[1], "[Not read] Please answer in the terminal. No hook") &&
		strings.HasPrefix(all[2], "[Timeout]") && strings.HasPrefix(all[3], "[Answered]"),
		"in the space: %q", all)
}

// If no reply could be read, a deny-mode question goes to the terminal at once. Its
// record says why it is not sent.
func TestEnqueue_DenyNeedsReadableReplies(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sendTest)
		why    string
	}{
		"a reply can be used": {func(*sendTest) {}, ""},
		"nobody may answer": {
			func(o *sendTest) { o.vars["GCHAT_ALLOWED_USERS"] = "" }, "nobody is on allowed_users",
		},
		"no webhook": {
			func(o *sendTest) { delete(o.vars, "GOOGLE_CHAT_WEBHOOK_URL") }, "no webhook",
		},
		"no credentials": {func(o *sendTest) {
			const url = "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"
			o.vars["GOOGLE_CHAT_WEBHOOK_URL"] = url
		}, "no usable Google credentials"},
		"the space is unreadable": {func(o *sendTest) {
			chat := o.poller.gatewayFor(context.Background(), configSource{}).transport.Chat()
			_, _ = o.spaces().Change(chat, func(s *state.Space) {
				s.ReadTrouble = &state.ReadTrouble{IsRefused: true, Why: "403"}
			})
		}, "403"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newSendTest(t)
			c.change(o)
			o.poller.environment = state.Environment(o.env)
			q := o.addTestQuestion(func(q *state.Question) { q.Mode = state.ModeDeny })
			o.send()
			message, err := o.outbox().FindByKey(messageKey(firstMessageKey, q))
			kit.True(t, err == nil && message != nil && message.IsFinal() == (c.why == "") &&
				strings.Contains(message.LastError, c.why),
				"its message: %+v, %v", message, err)
			stored := o.loadQuestion(q)
			kit.True(t, stored.IsMessageSent == (c.why == "") &&
				len(o.posts) == intOf(stored.IsMessageSent) &&
				strings.Contains(stored.PostError, c.why),
				"sent %v, posts %q, %s", stored.IsMessageSent, o.posts, stored.PostError)
		})
	}
}

func TestEnqueue_WordingIsPaidOnce(t *testing.T) {
	for name, c := range map[string]struct{ answer, in string }{
		"worded":         {`[\"Which one shall it be?\"]`, "Which one shall it be?"},
		"of no use":      {`sorry`, "Which?"},
		"too many texts": {`[\"a\",\"b\"]`, "Which?"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			answer := func(w http.ResponseWriter, _ *http.Request) {
				asked++
				_, _ = w.Write([]byte(`{"type":"message","model":"m","stop_reason":"end_turn",` +
					`"usage":{"input_tokens":1000,"output_tokens":200},` +
					`"content":[{"type":"text","text":"` + c.answer + `"}]}`))
			}
			model := kit.NewServer(t, http.HandlerFunc(answer))
			o := newSendTest(t)
			o.vars["GCHAT_FORMAT"], o.vars["ANTHROPIC_API_KEY"], o.vars["ANTHROPIC_BASE_URL"] =
				"haiku", "k", model.URL
			o.poller.environment = state.Environment(o.env)
			o.setFault(answerWithError(429, "RESOURCE_EXHAUSTED", "slow"))
			q := o.addTestQuestion()
			o.send()
			o.setFault(nil)
			o.sendAfter(time.Minute)
			all := o.texts()
			kit.True(t, len(all) == 1 && strings.Contains(all[0], c.in), "in the space: %q", all)
			q = o.loadQuestion(q)
			kit.True(t, asked == 1 && q.WordingCostUSD == 0.002,
				"asked %d times for %v USD", asked, q.WordingCostUSD)
		})
	}
}

func TestEnqueue_ReportRulesHold(t *testing.T) {
	o := newSendTest(t)
	o.writeConfig(`{"reports":{"session_end":"off","task_done":"digest"}}`)
	session := &state.Session{ID: "a"}
	for i, r := range []state.Report{
		{Type: state.ReportSessionEnded, Text: "off"},
		{Type: state.ReportProgressUpdate, RuleKind: "task_done", Text: "later"},
		{Type: state.ReportPlain, Text: "now"},
	} {
		message := &state.Message{
			Report: &r, SessionID: session.ID, Key: string(rune('a' + i)),
			CreatedAt: o.poller.Now().UTC(),
		}
		_, err := config.EnqueueReport(o.env, o.poller.loadConfig(configSource{}), message, "")
		kit.NoError(t, err)
	}
	o.send()
	o.checkTexts("now")
	o.sendAfter(time.Hour)
	o.checkTexts("now", "[Digest] 1 message\n\n[Progress]\n\nlater")
}

// The space takes no messages for a time, and a question ends meanwhile. Then its thread
// gets no late note which says that the question or a reply waits.
func TestEnqueue_NotesOfWaitingAreDropped(t *testing.T) {
	answer := func(q *state.Question) { q.Status = state.Answered }
	end := func(q *state.Question) { q.Status = state.Cancelled }
	for _, c := range []struct {
		about  string
		change func(*state.Question)
		isSent bool
	}{
		{state.NoteReminder, answer, true},
		{state.NoteReminder, end, false},
		{state.NoteNotTyped, answer, true},
		{state.NoteNotTyped, end, false},
		{state.NoteLater, answer, true},
		{state.NoteLater, func(q *state.Question) { q.Status, q.IsPrinted = state.Answered, true }, false},
		{state.NoteUnread, end, true},
	} {
		o := newSendTest(t)
		q := o.addQuestion(o.markPosted)
		owed := state.OwedNote{About: c.about, Text: "why"}
		_, err := o.poller.enqueueNote(q, &state.IndexEntry{ProjectDir: o.dir}, owed)
		kit.NoError(t, err)
		o.changeQuestion(q, c.change)
		o.send()
		kit.Equalf(t, len(o.posts), intOf(c.isSent), "%s, then %s: notes", c.about, o.loadQuestion(q).Status)
	}
}
