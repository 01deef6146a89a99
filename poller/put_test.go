package poller

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (o *office) load(q *state.Question) *state.Question {
	o.t.Helper()
	q, err := state.LoadQuestion(q.Path)
	if err != nil {
		o.t.Fatal(err)
	}
	return q
}

func TestQuestionGetsItsReceipt(t *testing.T) {
	o := newOffice(t)
	q := o.question()
	if err := o.putQuestion(q, &state.IndexEntry{}, firstMessage); err != nil { // twice is once
		t.Fatal(err)
	}
	o.newSender().pass(t.Context())
	all := o.space.Messages()
	if len(all) != 1 || !strings.Contains(all[0].Text, "Which?") {
		t.Fatalf("in the space: %q", o.texts())
	}
	q = o.load(q)
	if !q.IsMessageSent || q.MessageName != all[0].Name || q.ThreadName != all[0].Thread.Name || q.Space != "spaces/local" ||
		!strings.HasSuffix(q.Chat, "/spaces/local") || q.PostedAt == nil {
		t.Errorf("the question knows %+v", q)
	}
	if m, err := state.OutboxIn(o.user).FindByKey(messageKey(firstMessage, q)); err != nil || m == nil || m.MessageName != q.MessageName || m.ThreadName != q.ThreadName {
		t.Errorf("its message knows %+v, %v", m, err)
	}
}

// A question that was to be denied and is asked in the terminal instead has one message, whenever that leaves.
func TestAQuestionThatWasToBeDeniedHasOneMessage(t *testing.T) {
	for _, tt := range []struct {
		name string
		sent func(o *office, move func())
	}{
		{"before it was tried", func(o *office, move func()) { move(); o.newSender().pass(o.t.Context()) }},
		{"before it was tried, and the sender had it", func(o *office, move func()) {
			s := o.newSender()
			s.readOutbox()
			move()
			s.pass(o.t.Context())
		}},
		{"in flight", func(o *office, move func()) {
			o.answers(func(string, http.ResponseWriter, func()) bool { o.answers(nil); move(); return false })
			o.newSender().pass(o.t.Context())
		}},
		{"after a try that may have arrived", func(o *office, move func()) {
			o.answers(cut)
			s := o.newSender()
			s.pass(o.t.Context())
			o.answers(nil)
			move()
			o.later(time.Hour)
			s.pass(o.t.Context())
		}},
		{"after its receipt", func(o *office, move func()) { o.newSender().pass(o.t.Context()); move() }},
		{"after it had to wait, since no reply to a denied question could be used", func(o *office, move func()) {
			o.env["GCHAT_ALLOWED_USERS"] = ""
			s := o.newSender()
			s.pass(o.t.Context())
			move()
			o.later(retryPause)
			s.pass(o.t.Context())
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOffice(t)
			q := o.question(func(q *state.Question) {
				q.Mode, q.QuestionID, q.ThreadKey = state.ModeDeny, "ask-s-01234567", "ask-s-01234567"
			})
			tt.sent(o, func() {
				native, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { q.Mode = state.ModeNative; return nil })
				if err == nil {
					err = o.putQuestion(native, &state.IndexEntry{}, firstMessage)
				}
				if err != nil {
					t.Error(err)
				}
			})
			o.newSender().pass(t.Context())
			all, is := o.space.Messages(), o.load(q)
			if len(all) != 1 || !is.IsMessageSent || is.MessageName != all[0].Name || is.ThreadName != all[0].Thread.Name ||
				is.Space != "spaces/local" || !strings.HasSuffix(is.Chat, "/spaces/local") {
				t.Errorf("%d messages; the question knows %v %q %q %q", len(all), is.IsMessageSent, is.MessageName, is.ThreadName, is.Chat)
			}
		})
	}
}

func TestQuestionSaysWhyItIsNotPosted(t *testing.T) {
	o := newOffice(t)
	o.answers(refuse(403, "PERMISSION_DENIED", "no"))
	q := o.question()
	s := o.newSender()
	s.pass(t.Context())
	if q = o.load(q); !strings.Contains(q.PostError, "403") {
		t.Errorf("post error %q", q.PostError)
	}
	o.answers(nil)
	o.later(time.Minute)
	s.pass(t.Context())
	if q = o.load(q); q.PostError != "" || !q.IsMessageSent {
		t.Errorf("post error %q, sent %v", q.PostError, q.IsMessageSent)
	}
}

func TestQuestionThatIsOverIsDroppedUnlessItWasTried(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(string, http.ResponseWriter, func()) bool
		posts int
	}{
		"never tried":          {refuse(429, "RESOURCE_EXHAUSTED", "slow"), 0},
		"it may be there":      {refuse(503, "UNAVAILABLE", "sorry"), 1},
		"it is, and cut after": {cut, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			q := o.question()
			o.answers(c.fault)
			s := o.newSender()
			s.pass(t.Context())
			if ended, err := state.CloseQuestion(q.Path, state.Cancelled, "signal", nil); !ended || err != nil {
				t.Fatal(ended, err)
			}
			owed := o.load(q).OwedNotes[0]
			if done, err := o.putNote(o.load(q), &state.IndexEntry{}, owed); done || err != nil {
				t.Errorf("the note is struck off before its question's message is over: %v, %v", done, err)
			}
			o.answers(nil)
			o.later(time.Minute)
			s.pass(t.Context())
			if done, err := o.putNote(o.load(q), &state.IndexEntry{}, owed); !done || err != nil {
				t.Errorf("the note is not struck off: %v, %v", done, err)
			}
			s.pass(t.Context())
			all := o.space.Messages()
			if len(all) != 2*c.posts {
				t.Fatalf("in the space: %q", o.texts())
			}
			if c.posts > 0 && (!strings.HasPrefix(all[1].Text, "[Cancelled] shop") || all[1].Thread.Name != all[0].Thread.Name) {
				t.Errorf("the thread is told %q", all[1].Text)
			}
		})
	}
}

// A question that was to be denied, and was answered in the terminal, is not posted later; one that was posted learns its thread.
func TestQuestionThatIsOverInTheTerminal(t *testing.T) {
	for _, posted := range []bool{false, true} {
		o := newOffice(t)
		s := o.newSender()
		q := o.question(func(q *state.Question) { q.QuestionID, q.Mode = q.ThreadKey, state.ModeDeny })
		if posted {
			s.pass(t.Context())
		}
		native, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { q.Mode = state.ModeNative; return nil })
		if err == nil {
			err = o.putQuestion(native, &state.IndexEntry{}, firstMessage)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := state.CloseQuestion(q.Path, state.Resolved, "terminal", nil); err != nil {
			t.Fatal(err)
		}
		s.pass(t.Context())
		if is := o.load(q); is.IsMessageSent != posted || (is.ThreadName != "") != posted || len(o.texts()) != b2i(posted) {
			t.Errorf("posted %v: sent %v, in thread %q; in the space: %q", posted, is.IsMessageSent, is.ThreadName, o.texts())
		}
	}
}

func TestNoteIsToldOnce(t *testing.T) {
	o := newOffice(t)
	q := o.question()
	s := o.newSender()
	s.pass(t.Context())
	q = o.load(q)
	for _, owed := range []state.OwedNote{{About: state.NoteNoWaiter}, {About: state.NoteNoWaiter}, {About: "unknown"}} {
		if done, err := o.putNote(q, &state.IndexEntry{}, owed); !done || err != nil {
			t.Errorf("%+v: %v, %v", owed, done, err)
		}
	}
	s.pass(t.Context())
	for _, now := range []state.Status{state.TimedOut, state.Answered, state.Resolved} { // a late reply counted
		if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { return q.MoveTo(now, o.time()) }); err != nil {
			t.Fatal(err)
		}
		if done, err := o.putNote(o.load(q), &state.IndexEntry{}, state.OwedNote{About: state.NoteClosed}); !done || err != nil {
			t.Error(done, err)
		}
	}
	s.pass(t.Context())
	if all := o.texts(); len(all) != 4 || !strings.HasPrefix(all[2], "[Timeout]") || !strings.HasPrefix(all[3], "[Answered]") {
		t.Errorf("in the space: %q", all)
	}
	if all := o.texts(); !strings.HasPrefix(all[1], "[Not read] Please answer in the terminal. No hook") {
		t.Errorf("in the space: %q", all)
	}
}

// TestDenyQuestionThatNoReplyCouldAnswer goes to the terminal at once: its record says why it is not sent.
func TestDenyQuestionThatNoReplyCouldAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*office)
		why    string
	}{
		"a reply can be used": {func(*office) {}, ""},
		"nobody may answer":   {func(o *office) { o.env["GCHAT_ALLOWED_USERS"] = "" }, "nobody is on allowed_users"},
		"no webhook":          {func(o *office) { delete(o.env, "GOOGLE_CHAT_WEBHOOK_URL") }, "no webhook"},
		"no credentials": {func(o *office) {
			o.env["GOOGLE_CHAT_WEBHOOK_URL"] = "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"
		}, "no usable Google credentials"},
		"the space is unreadable": {func(o *office) {
			chat := o.gateway(context.Background(), configured{}).transport.Chat()
			_, _ = state.SpacesIn(o.user).Change(chat, func(s *state.Space) {
				s.ReadTrouble = &state.ReadTrouble{IsRefused: true, Why: "403"}
			})
		}, "403"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			c.change(o)
			o.environment = state.Environment(o.Env)
			q := o.question(func(q *state.Question) { q.Mode = state.ModeDeny })
			o.newSender().pass(t.Context())
			m, err := state.OutboxIn(o.user).FindByKey(messageKey(firstMessage, q))
			if err != nil || m == nil || m.IsFinal() != (c.why == "") || !strings.Contains(m.LastError, c.why) {
				t.Errorf("its message: %+v, %v", m, err)
			}
			is := o.load(q)
			if is.IsMessageSent != (c.why == "") || len(o.posts) != b2i(is.IsMessageSent) || !strings.Contains(is.PostError, c.why) {
				t.Errorf("sent %v, posts %q, %s", is.IsMessageSent, o.posts, is.PostError)
			}
		})
	}
}

func TestWordingIsPaidForOnce(t *testing.T) {
	for name, c := range map[string]struct{ answer, in string }{
		"worded":         {`[\"Which one shall it be?\"]`, "Which one shall it be?"},
		"of no use":      {`sorry`, "Which?"},
		"too many texts": {`[\"a\",\"b\"]`, "Which?"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				_, _ = w.Write([]byte(`{"type":"message","model":"m","content":[{"type":"text","text":"` + c.answer +
					`"}],"stop_reason":"end_turn","usage":{"input_tokens":1000,"output_tokens":200}}`))
			}))
			defer model.Close()
			o := newOffice(t)
			o.env["GCHAT_FORMAT"], o.env["ANTHROPIC_API_KEY"], o.env["ANTHROPIC_BASE_URL"] = "haiku", "k", model.URL
			o.environment = state.Environment(o.Env)
			o.answers(refuse(429, "RESOURCE_EXHAUSTED", "slow"))
			q := o.question()
			s := o.newSender()
			s.pass(t.Context())
			o.answers(nil)
			o.later(time.Minute)
			s.pass(t.Context())
			if all := o.texts(); len(all) != 1 || !strings.Contains(all[0], c.in) {
				t.Errorf("in the space: %q", all)
			}
			if q = o.load(q); asked != 1 || q.WordingCostUSD != 0.002 {
				t.Errorf("asked %d times for %v USD", asked, q.WordingCostUSD)
			}
		})
	}
}

func TestReportRulesHold(t *testing.T) {
	o := newOffice(t)
	conf := filepath.Join(o.env["HOME"], ".config", "gchat-hooks")
	if err := os.MkdirAll(conf, 0o700); err != nil {
		t.Fatal(err)
	}
	rules := `{"reports":{"session_end":"off","task_done":"digest"}}`
	if err := os.WriteFile(filepath.Join(conf, "config.json"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	one := &state.Session{ID: "a"}
	for i, r := range []state.Report{
		{Type: state.ReportSessionEnded, Text: "off"},
		{Type: state.ReportProgressUpdate, RuleKind: "task_done", Text: "later"},
		{Type: state.ReportPlain, Text: "now"},
	} {
		m := &state.Message{Report: &r, SessionID: one.ID, Key: string(rune('a' + i)), CreatedAt: o.Now().UTC()}
		if _, err := config.EnqueueReport(o.Env, o.config(configured{}), m, ""); err != nil {
			t.Fatal(err)
		}
	}
	s := o.newSender()
	s.pass(t.Context())
	o.want("now")
	o.later(time.Hour)
	s.pass(t.Context())
	o.want("now", "[Digest] 1 message\n\n[Progress]\n\nlater")
}
