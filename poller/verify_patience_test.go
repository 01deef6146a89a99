package poller

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// What passes by itself is waited for, and is no failure.
func TestVerifyIsPatient(t *testing.T) {
	for name, harm := range map[string]func(*verified){
		"a list that lags": func(v *verified) {
			age := map[string]int{}
			v.list = func(_ int, ms []*chat.Message) ([]*chat.Message, int) {
				var some []*chat.Message
				for _, m := range ms {
					if age[m.Name]++; age[m.Name] > 2 {
						some = append(some, m)
					}
				}
				return some, 0
			}
		},
		"too many, now and then": func(v *verified) {
			v.refuse = func(n int, w http.ResponseWriter) bool {
				if n%2 == 1 {
					w.WriteHeader(http.StatusTooManyRequests)
				}
				return n%2 == 1
			}
		},
		"too many, with the time to wait": func(v *verified) {
			v.refuse = func(n int, w http.ResponseWriter) bool {
				if n == 1 {
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(http.StatusTooManyRequests)
				}
				return n == 1
			}
		},
		"stored, and answered with an error": func(v *verified) {
			v.store = true
			v.refuse = func(n int, w http.ResponseWriter) bool {
				if n%3 == 1 {
					w.WriteHeader(http.StatusBadGateway)
				}
				return n%3 == 1
			}
		},
		"stored, answered with an error, and known by its message id only": func(v *verified) {
			v.store = true
			v.posted = func(_ int, q map[string][]string, _ *chat.Message) { delete(q, "requestId") }
			v.refuse = func(n int, w http.ResponseWriter) bool {
				if n == 1 {
					w.WriteHeader(http.StatusBadGateway)
				}
				return n == 1
			}
		},
		"lists that stumble": func(v *verified) {
			v.list = func(n int, ms []*chat.Message) ([]*chat.Message, int) {
				if n%2 == 1 {
					return nil, http.StatusServiceUnavailable
				}
				return ms, 0
			}
		},
		"a person who chats in a thread of the check": func(v *verified) {
			said := false
			v.list = func(_ int, ms []*chat.Message) ([]*chat.Message, int) {
				if len(ms) > 0 && !said {
					said = true
					reply("users/2", "what is this?")(v, ms[len(ms)-1].Thread.Name)
				}
				return ms, 0
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVerified(t)
			harm(v)
			r := v.check()
			if v.statuses(r) != "pass pass skipped pass" {
				t.Errorf("%+v", r.Scenarios)
			}
			want := ""
			if name == "a person who chats in a thread of the check" {
				want = "messages of people in the thread of verify-" + r.Run + "-thread: 1"
			}
			if got := strings.Join(r.Scenarios[0].Notes, "|"); got != want {
				t.Errorf("notes: %q, want %q", got, want)
			}
		})
	}
}

// Without a webhook, or a way to read, there is nothing to check, and nothing is posted.
func TestVerifyNeedsAWebhookAndAReader(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(*verified)
		is   func(error) bool
	}{
		"no webhook": {func(v *verified) { v.env["GOOGLE_CHAT_WEBHOOK_URL"] = "" }, func(err error) bool { return errors.Is(err, state.ErrNoWebhook) }},
		"no webhook's URL": {func(v *verified) {
			v.env["GOOGLE_CHAT_WEBHOOK_URL"] = "https://chat.googleapis.com/x?token=secret-token"
		},
			func(err error) bool { return errors.Is(err, gchat.ErrNotWebhook) }},
		"reading is refused": {func(v *verified) {
			v.list = func(int, []*chat.Message) ([]*chat.Message, int) { return nil, http.StatusForbidden }
		}, gchat.AuthFailure},
		"no credentials": {func(v *verified) {
			v.env["GCHAT_API_ENDPOINT"], v.env["GOOGLE_CHAT_CREDENTIALS_FILE"] = "https://127.0.0.1:1/", filepath.Join(v.ProjectDir, "none.json")
		}, func(err error) bool { return errors.Is(err, gchat.ErrCredentials) }},
		"nobody there to read from": {func(v *verified) { v.env["GCHAT_API_ENDPOINT"] = "http://127.0.0.1:1/" },
			func(err error) bool { return strings.Contains(VerifyHint(err), "gchat-hooks space --listen") }},
		"a report that cannot be written": {func(v *verified) { v.Keep = func(*VerifyReport) error { return os.ErrPermission } },
			func(err error) bool { return errors.Is(err, os.ErrPermission) }},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVerified(t)
			c.harm(v)
			_, err := v.Run(t.Context())
			if err == nil || !c.is(err) || VerifyHint(err) == "" || strings.Contains(err.Error(), "secret-token") {
				t.Errorf("%v", err)
			}
			if v.posts > 0 {
				t.Errorf("%d posts", v.posts)
			}
		})
	}
}
