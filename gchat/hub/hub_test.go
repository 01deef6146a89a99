package hub

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

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
