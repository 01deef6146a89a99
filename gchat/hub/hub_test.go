package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/api/option"
	"google.golang.org/api/pubsub/v1"
)

// Only whole addresses of a domain may join; where a domain was left empty, nobody may by it.
func TestWhoMayJoin(t *testing.T) {
	h := &Hub{Options: Options{Domains: []string{"example.com", ""}}}
	if !h.mayJoin("Ann@Example.com") {
		t.Error("Ann may not")
	}
	for _, email := range []string{
		"", "example.com", "@example.com.evil.org", `"a@example.com"@evil.org`, "a@example.com@evil.org", "a@sub.example.com", "@",
	} {
		if h.mayJoin(email) {
			t.Errorf("%q may join", email)
		}
	}
}

// While Google does not say whether a machine stands, one that stood does for a while, and no longer. One that was gone does not.
func TestGoogleDoesNotSayWhoStands(t *testing.T) {
	var answer atomic.Int32
	answer.Store(http.StatusTooManyRequests)
	google := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(answer.Load()))
		_, _ = w.Write([]byte(`{}`))
	}))
	defer google.Close()
	events, err := pubsub.NewService(t.Context(), option.WithEndpoint(google.URL), option.WithHTTPClient(google.Client()))
	if err != nil {
		t.Fatal(err)
	}
	h := New(t.Context(), Options{Topic: "projects/p/topics/t", PubSub: events})
	for stood, want := range map[time.Duration]bool{0: true, 2 * standsFor: true, 2 * troubleFor: false} {
		h.stands[h.subscriptionOf("m")] = standing{true, time.Now().Add(-stood)}
		if err := h.joined(t.Context(), &Claims{Machine: "m"}); (err == nil) != want {
			t.Errorf("it stood %v ago: %v", stood, err)
		}
	}
	h.stands[h.subscriptionOf("m")] = standing{true, time.Now().Add(-2 * standsFor)}
	answer.Store(http.StatusNotFound)
	if err := h.joined(t.Context(), &Claims{Machine: "m"}); err == nil {
		t.Error("it is gone")
	}
	answer.Store(http.StatusTooManyRequests)
	if err := h.joined(t.Context(), &Claims{Machine: "m"}); err == nil {
		t.Error("it was gone")
	}
}

// A policy that was broken while the hub runs is told to no machine, and no code is spent on it; a mended one counts at once.
func TestThePolicyIsBrokenWhileTheHubRuns(t *testing.T) {
	var log bytes.Buffer
	file := filepath.Join(t.TempDir(), "policy.json")
	h := New(t.Context(), Options{Policy: file, Key: []byte("k"), Log: zerolog.New(&log)})
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"never_remot": ["Bash"]}`)
	told := &refusal{}
	if _, err := h.policy(nil); !errors.As(err, &told) || told.Code != http.StatusServiceUnavailable {
		t.Errorf("a broken policy: %v", err)
	}
	if !strings.Contains(log.String(), `"level":"error"`) || !strings.Contains(log.String(), "never_remot") {
		t.Errorf("the log says %s", &log)
	}
	code := h.Sign(Claims{Is: isCode, Machine: "m", Until: time.Now().Add(time.Minute).Unix()})
	join := httptest.NewRequest(http.MethodPost, "/hub/join", strings.NewReader(`{"code": "`+code+`", "nonce": "n"}`))
	if _, _, err := h.join(join); !errors.As(err, &told) || told.Code != http.StatusServiceUnavailable {
		t.Errorf("join: %v", err)
	}
	write(`{"never_remote": ["Bash"], "spaces": {"spaces/A": ["users/1"]}}`)
	got, err := h.policy(nil)
	if b, _ := json.Marshal(got); err != nil || !strings.Contains(string(b), `"policy":{"never_remote":["Bash"]}`) {
		t.Errorf("mended: %s, %v", b, err)
	}
}
