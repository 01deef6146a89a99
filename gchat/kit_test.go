package gchat

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/e2e/underlock"
	"gchat-hooks/state/config"
)

// TestMain fails the tests if anything slow happens while a record is locked.
func TestMain(m *testing.M) { os.Exit(underlock.Run(m)) }

// nobodyListens is a port of this machine at which no program listens.
const nobodyListens = "https://127.0.0.1:1/"

// chatServer answers with f every request that Google would accept.
func chatServer(t *testing.T, f http.HandlerFunc) *httptest.Server {
	return kit.NewServer(t, strict.CheckRequests(t, f))
}

// tokenServer answers in place of Google's token endpoint.
func tokenServer(t *testing.T, f http.HandlerFunc) *httptest.Server { return kit.NewServer(t, f) }

func newReader(t *testing.T, endpoint, file string) *API {
	t.Helper()
	r, err := NewReader(t.Context(), endpoint, file)
	kit.NoError(t, err)
	return r
}

// listAll lists a space and returns its messages.
func listAll(t *testing.T, r *API) (all []Message, err error) {
	err = r.ListSince(t.Context(), "spaces/AAA", time.Now(), func(page []Message) {
		all = append(all, page...)
	})
	return all, err
}

// newTestApp is an app in spaces/AAA. An endpoint of "" is Google's.
func newTestApp(t *testing.T, endpoint, file string) *App {
	t.Helper()
	app, err := NewApp(t.Context(), &config.Config{
		SpaceID: "spaces/AAA", Subscription: "projects/p/subscriptions/s", CredentialsFile: file,
		APIEndpoint: endpoint, PubSubEndpoint: endpoint,
	})
	kit.NoError(t, err)
	return app
}

// newWebhook is the webhook of spaces/AAA at a server.
func newWebhook(t *testing.T, server string) *Webhook {
	t.Helper()
	w, err := ParseWebhook(&config.Config{},
		server+"/v1/spaces/AAA/messages?key=K%2BK&token=secret%3D")
	kit.NoError(t, err)
	return w
}
