package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/api/chat/v1"
	"google.golang.org/api/option"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// Only whole addresses of a domain may join; where a domain was left empty, nobody may by
// it.
func TestHub_WhoMayJoin(t *testing.T) {
	h := &Hub{Options: Options{Domains: []string{"example.com", "", "ms.example.com"}}}
	if !h.canJoin("Ann@Example.com") {
		t.Error("Ann may not")
	}
	for _, email := range []string{
		"", "example.com", "@example.com.evil.org", `"a@example.com"@evil.org`, "a@example.com@evil.org", "a@sub.example.com", "@",
		"a@mſ.example.com",
	} {
		if h.canJoin(email) {
			t.Errorf("%q may join", email)
		}
	}
}

// While Google does not say whether a machine stands, one that stood does for a while,
// and no longer. One that was gone does not.
func TestHub_MembersAreUnknown(t *testing.T) {
	var answer atomic.Int32
	answer.Store(http.StatusTooManyRequests)
	google := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(answer.Load()))
		_, _ = w.Write([]byte(`{}`))
	}))
	defer google.Close()
	events, err := pubsub.NewService(t.Context(), option.WithEndpoint(google.URL), option.WithHTTPClient(google.Client()))
	kit.NoError(t, err)
	h := New(t.Context(), Options{Topic: "projects/p/topics/t", PubSub: events})
	for stood, wantValid := range map[time.Duration]bool{0: true, 2 * stateMaxAge: true, 2 * staleStateMaxAge: false} {
		h.subscriptions[h.subscriptionName("m")] = subscriptionState{true, time.Now().Add(-stood)}
		if err := h.checkSubscription(t.Context(), &Claims{Machine: "m"}); (err == nil) != wantValid {
			t.Errorf("it stood %v ago: %v", stood, err)
		}
	}
	h.subscriptions[h.subscriptionName("m")] = subscriptionState{true, time.Now().Add(-2 * stateMaxAge)}
	answer.Store(http.StatusNotFound)
	if err := h.checkSubscription(t.Context(), &Claims{Machine: "m"}); err == nil {
		t.Error("it is gone")
	}
	answer.Store(http.StatusTooManyRequests)
	if err := h.checkSubscription(t.Context(), &Claims{Machine: "m"}); err == nil {
		t.Error("it was gone")
	}
}

// A policy that was broken while the hub runs is told to no machine, and no code is spent
// on it; a mended one counts at once.
func TestHub_PolicyBreaksWhileItRuns(t *testing.T) {
	var log bytes.Buffer
	file := filepath.Join(t.TempDir(), "policy.json")
	h := New(t.Context(), Options{Policy: file, SigningKey: []byte("k"), Log: zerolog.New(&log)})
	write := func(text string) {
		kit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write(`{"never_remot": ["Bash"]}`)
	refused := &refusal{}
	if _, err := h.getPolicy(nil); !errors.As(err, &refused) || refused.Code != http.StatusServiceUnavailable {
		t.Errorf("a broken policy: %v", err)
	}
	if !strings.Contains(log.String(), `"level":"error"`) || !strings.Contains(log.String(), "never_remot") {
		t.Errorf("the log says %s", &log)
	}
	code := h.Sign(Claims{Kind: codeKind, Machine: "m", ExpiresAt: time.Now().Add(time.Minute).Unix()})
	join := httptest.NewRequest(http.MethodPost, "/hub/join", nil)
	if _, _, err := h.issueToken(join, joinRequest{Code: code, Nonce: "n"}); !errors.As(err, &refused) || refused.Code != http.StatusServiceUnavailable {
		t.Errorf("join: %v", err)
	}
	write(`{"never_remote": ["Bash"], "spaces": {"spaces/A": ["users/1"]}}`)
	got, err := h.getPolicy(nil)
	if b, _ := json.Marshal(got); err != nil || !strings.Contains(string(b), `"policy":{"never_remote":["Bash"]}`) {
		t.Errorf("mended: %s, %v", b, err)
	}
}

// What people write to the hub itself, and what is for machines.
func TestHub_MessagesForTheHubItself(t *testing.T) {
	for _, c := range []struct {
		said          string
		direct, reply bool
		want          string
	}{
		{"join", true, false, "join"}, {" Join.", true, false, "join"}, {"JOIN!", true, false, "join"}, {"/join", true, false, "join"},
		{"“join”", true, true, "join"}, {"`join`", false, false, "join"}, {"join", false, true, ""}, {"join us", true, false, ""},
		{"help", true, false, "help"}, {"help", true, true, ""}, {"help", false, false, ""}, {"", true, false, ""}, {"1.", true, true, ""},
	} {
		in := &chat.Space{Name: "spaces/A", SingleUserBotDm: c.direct}
		e := &chat.DeprecatedEvent{Type: "MESSAGE", Space: in, User: &chat.User{}}
		e.Message = &chat.Message{Text: c.said, ThreadReply: c.reply}
		if got := requestedWord(e); got != c.want || isForHub(e) != (c.want != "") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// An answer that Chat has no time for is given later; one that it refuses is given up.
func TestHub_ChatRefusesAnAnswer(t *testing.T) {
	code := http.StatusTooManyRequests
	google := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	defer google.Close()
	messages, err := chat.NewService(t.Context(), option.WithEndpoint(google.URL), option.WithHTTPClient(google.Client()))
	kit.NoError(t, err)
	h := New(t.Context(), Options{Chat: messages})
	if err := h.postOnce(t.Context(), "spaces/A", "1", "hello"); err == nil {
		t.Error("429: it is not said again")
	}
	code = http.StatusForbidden
	if err := h.postOnce(t.Context(), "spaces/A", "1", "hello"); err != nil {
		t.Error(err)
	}
}

// Who asks too much goes on a second later, and has all of the minute's again only bit by
// bit.
func TestHub_Pace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(t.Context(), Options{})
		passed := func() (n int) {
			for range 100 {
				if h.limitRate("m", 60) == nil {
					n++
				}
			}
			return n
		}
		for _, want := range []int{30, 1, 1} {
			kit.Equalf(t, passed(), want, "pass")
			time.Sleep(time.Second)
		}
	})
}

// A replica is healthy while the app's events can be read: not where the first pull
// fails, nor where two do one after another.
func TestHub_Health(t *testing.T) {
	for _, c := range []struct {
		pulls []int // how they are answered; another one waits
		want  int
	}{
		{nil, 200}, {[]int{403}, 503}, {[]int{200}, 200}, {[]int{200, 403}, 200}, {[]int{200, 403, 403}, 503}, {[]int{403, 403, 200}, 200},
	} {
		t.Run(fmt.Sprint(c.pulls), func(t *testing.T) {
			t.Parallel()
			var pulled atomic.Int32
			google := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				n := int(pulled.Add(1))
				if n > len(c.pulls) {
					<-r.Context().Done()
					return
				}
				w.WriteHeader(c.pulls[n-1])
				_, _ = w.Write([]byte(`{}`))
			}))
			defer google.Close()
			events, err := pubsub.NewService(t.Context(), option.WithEndpoint(google.URL), option.WithHTTPClient(google.Client()))
			kit.NoError(t, err)
			h := New(t.Context(), Options{PubSub: events, Log: zerolog.Nop()})
			ctx, end := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); h.Relay(ctx) }()
			bound.Until(t, "all are answered", func() bool { return int(pulled.Load()) > len(c.pulls) })
			w := httptest.NewRecorder()
			h.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
			kit.Equalf(t, w.Code, c.want, "it")
			end()
			<-done
		})
	}
}
