package gchat

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// What answers a message, to whatever is posted, lets the webhook in; any other 2xx is not Chat's, and a redirect is none.
func TestProbeTakesAMessageForALetIn(t *testing.T) {
	for _, c := range []struct {
		name, body string
		code       int
		nonsense   bool
	}{
		{"a message", `{"name": "spaces/A/messages/m", "thread": {"name": "spaces/A/threads/t"}}`, 200, false},
		{"created", `{"name": "spaces/A/messages/m"}`, 201, false},
		{"another name", `{"name": "projects/A"}`, 200, true},
		{"no name", `{}`, 200, true},
		{"no object", `"spaces/A/messages/m"`, 200, true},
		{"a page", `<html>spaces/A/messages/m</html>`, 200, true},
		{"a message behind a redirect", `{"name": "spaces/A/messages/m"}`, 302, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			}))
			defer server.Close()
			hook, err := ParseWebhook(server.URL+"/v1/spaces/A/messages?key=k&token=t", "")
			if err != nil {
				t.Fatal(err)
			}
			_, clock, err := hook.Probe(t.Context())
			if errors.Is(err, ErrNonsense) != c.nonsense || !c.nonsense && err != nil || !clock {
				t.Errorf("clock told: %v; %v", clock, err)
			}
		})
	}
}
