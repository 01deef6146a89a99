package poller

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/gchat/space"
)

// What makes correlation fail has to fail the check, with a sentence that names it.
func TestVerifySeesWhatIsWrong(t *testing.T) {
	isOurs := func(m *chat.Message) bool { return m.Sender != nil && m.Sender.Type == "BOT" }
	for _, c := range []struct {
		name     string
		harm     func(*verified)
		statuses string
		says     string // in the first failure
	}{
		{"keys are ignored", func(v *verified) {
			v.posted = func(_ int, q map[string][]string, _ *chat.Message) { delete(q, "messageReplyOption") }
		}, "fail fail skipped fail", "thread keys are not kept to"},
		{"all keys are one", func(v *verified) {
			v.posted = func(_ int, _ map[string][]string, m *chat.Message) { m.Thread = &chat.Thread{ThreadKey: "one"} }
		}, "pass fail skipped pass", "were mapped to one thread"},
		{"a message goes into the other thread", func(v *verified) {
			v.posted = func(n int, _ map[string][]string, m *chat.Message) {
				if n == 6 { // the second of b
					m.Thread.ThreadKey = strings.TrimSuffix(m.Thread.ThreadKey, "b") + "a"
				}
			}
		}, "pass fail skipped pass", "thread keys are not kept to"},
		{"the list shows a message in the other thread", func(v *verified) {
			v.list = func(_ int, ms []*chat.Message) ([]*chat.Message, int) {
				for _, m := range ms {
					if strings.Contains(m.Text, "-b.") {
						for _, other := range ms {
							if strings.Contains(other.Text, "-a.") {
								m.Thread = other.Thread
							}
						}
					}
				}
				return ms, 0
			}
		}, "pass fail skipped pass", "and is listed in spaces/local/threads/"},
		{"a copy is listed in the other thread", func(v *verified) {
			v.list = func(_ int, ms []*chat.Message) ([]*chat.Message, int) {
				for _, m := range ms {
					for _, other := range ms {
						if strings.Contains(m.Text, "1 of the thread") && strings.Contains(m.Text, "-b.") && strings.Contains(other.Text, "-a.") {
							twin := *m
							twin.Name, twin.Thread = m.Name+"x", other.Thread
							return append(ms, &twin), 0
						}
					}
				}
				return ms, 0
			}
		}, "pass fail skipped pass", "holds a message that the check did not post there"},
		{"the same message is listed in both threads", func(v *verified) {
			v.list = func(_ int, ms []*chat.Message) ([]*chat.Message, int) {
				for _, m := range ms {
					for _, other := range ms {
						if strings.Contains(m.Text, "1 of the thread") && strings.Contains(m.Text, "-b.") && strings.Contains(other.Text, "-a.") {
							twin := *m
							twin.Thread = other.Thread
							return append(ms, &twin), 0
						}
					}
				}
				return ms, 0
			}
		}, "pass fail skipped pass", "holds a message of another thread"},
		{"posts are doubled", func(v *verified) {
			v.posted = func(_ int, q map[string][]string, _ *chat.Message) { delete(q, "messageId"); delete(q, "requestId") }
			v.refuse, v.store = func(n int, w http.ResponseWriter) bool {
				if n == 2 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return n == 2
			}, true
		}, "fail pass skipped pass", "holds a message that the check did not post there"},
		{"bots are listed as people", func(v *verified) {
			v.list = func(_ int, ms []*chat.Message) ([]*chat.Message, int) {
				for _, m := range ms {
					m.Sender.Type = "HUMAN"
				}
				return ms, 0
			}
		}, "fail fail skipped fail", "listed as a person's"},
		{"the bot below the question is listed as a person", func(v *verified) {
			v.list = func(_ int, ms []*chat.Message) ([]*chat.Message, int) {
				for _, m := range ms {
					if strings.HasPrefix(m.Text, "[Verify] 1.") {
						m.Sender.Type, m.Sender.Name = "HUMAN", space.Human
					}
				}
				return ms, 0
			}
		}, "pass pass skipped fail", "it would be taken for a reply"},
		{"the bot below the question becomes a person later", func(v *verified) {
			times := 0
			v.list = func(_ int, ms []*chat.Message) ([]*chat.Message, int) {
				for _, m := range ms {
					if strings.HasPrefix(m.Text, "[Verify] 1.") {
						if times++; times > 1 {
							m.Sender.Type, m.Sender.Name = "HUMAN", space.Human
						}
					}
				}
				return ms, 0
			}
		}, "pass pass skipped fail", "it would be taken for a reply"},
		{"nothing is listed", func(v *verified) {
			v.Patience = 50 * time.Millisecond
			v.list = func(int, []*chat.Message) ([]*chat.Message, int) { return nil, 0 }
		}, "fail not run not run not run", "1 of 1 messages that Chat took could not be found by listing within 50ms"},
		{"one message is never listed", func(v *verified) {
			v.Patience = 50 * time.Millisecond
			v.list = func(_ int, ms []*chat.Message) ([]*chat.Message, int) {
				var some []*chat.Message
				for _, m := range ms {
					if !strings.Contains(m.Text, "Message 2 of the thread") || !strings.Contains(m.Text, "-a.") {
						some = append(some, m)
					}
				}
				return some, 0
			}
		}, "pass fail not run not run", "1 of 4 messages"},
		{"the question is never listed", func(v *verified) {
			v.Patience = 50 * time.Millisecond
			v.list = func(_ int, ms []*chat.Message) ([]*chat.Message, int) {
				var some []*chat.Message
				for _, m := range ms {
					if !isOurs(m) || !strings.HasPrefix(m.Text, "[AskUserQuestion]") {
						some = append(some, m)
					}
				}
				return some, 0
			}
		}, "pass pass skipped fail", "1 of 2 messages"},
		{"the answer names no thread", func(v *verified) {
			v.answer = func(_ int, m *chat.Message) { m.Thread = nil }
		}, "fail fail skipped fail", "names no thread"},
		{"the answer names a thread of another space", func(v *verified) {
			v.answer = func(_ int, m *chat.Message) { m.Thread.Name = "spaces/other/threads/T" }
		}, "fail fail skipped fail", "names no thread"},
		{"the answer names another thread than the list", func(v *verified) {
			v.answer = func(_ int, m *chat.Message) { m.Thread.Name = "spaces/local/threads/T" }
		}, "fail fail skipped fail", "was posted to spaces/local/threads/T and is listed in"},
		{"thread names are ignored", func(v *verified) {
			v.posted = func(_ int, _ map[string][]string, m *chat.Message) {
				if m.Thread.Name != "" {
					m.Thread = &chat.Thread{ThreadKey: "elsewhere"}
				}
			}
		}, "pass pass skipped fail", "thread names are not kept to"},
		{"posting is refused", func(v *verified) {
			v.refuse = func(_ int, w http.ResponseWriter) bool { w.WriteHeader(http.StatusForbidden); return true }
		}, "fail not run not run not run", "chat answered 403"},
		{"reading ends", func(v *verified) {
			v.list = func(n int, ms []*chat.Message) ([]*chat.Message, int) {
				if n > 3 {
					return nil, http.StatusForbidden
				}
				return ms, 0
			}
		}, "pass fail not run not run", "chat answered 403 X: not for you"},
		{"Chat wants to be left alone for longer than the check has patience", func(v *verified) {
			v.refuse = func(_ int, w http.ResponseWriter) bool {
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			}
		}, "fail not run not run not run", "chat answered 429"},
		{"the answer quotes the webhook's URL", func(v *verified) {
			v.refuse = func(_ int, w http.ResponseWriter) bool {
				w.WriteHeader(http.StatusBadRequest)
				b, _ := json.Marshal(map[string]any{"error": map[string]any{"message": "bad: " + v.env["GOOGLE_CHAT_WEBHOOK_URL"]}})
				_, _ = w.Write(b)
				return true
			}
		}, "fail not run not run not run", "chat answered 400: bad: "},
		{"the connection breaks", func(v *verified) {
			v.Patience = 300 * time.Millisecond
			v.refuse = func(int, http.ResponseWriter) bool { panic(http.ErrAbortHandler) }
		}, "fail not run not run not run", "post message: "},
		{"a person answers what was to be left alone", func(v *verified) {
			said := false
			v.list = func(_ int, ms []*chat.Message) ([]*chat.Message, int) {
				if th := v.asked(); th != "" && !said {
					said = true
					reply(space.Human, "1")(v, th)
				}
				return ms, 0
			}
			v.Timeout = 5 * time.Second
		}, "pass pass skipped fail", "users/local-human (Ann) replied to the question that was to be left without a reply"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVerified(t)
			c.harm(v)
			r := v.check()
			if got := v.statuses(r); got != c.statuses || r.Passed {
				t.Errorf("%s, want %s; passed: %v\n%+v", got, c.statuses, r.Passed, r.Scenarios)
			}
			for _, s := range r.Scenarios {
				if s.Status != VerifyFail {
					continue
				}
				if !strings.Contains(s.Why, c.says) || s.Hint == "" {
					t.Errorf("%s: %q, hint %q; want %q", s.Scenario, s.Why, s.Hint, c.says)
				}
				break
			}
			for _, s := range r.Scenarios {
				if s.Status == VerifyNotRun && !strings.HasPrefix(s.Why, "what stopped") {
					t.Errorf("%s is not run: %q", s.Scenario, s.Why)
				}
			}
			if strings.Contains(c.name, "left alone for longer") {
				if v.posts != 1 {
					t.Errorf("%d posts to a Chat that wants none", v.posts)
				}
				if v.outbox().Quota(r.Chat).Why(time.Now()) == "" {
					t.Error("the other processes of the machine were not told")
				}
			}
		})
	}
}
