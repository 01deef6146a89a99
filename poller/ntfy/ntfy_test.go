package ntfy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func noEnv(name string) string { return map[string]string{"HOME": os.TempDir()}[name] }

var testCall = &state.Call{ID: "call-1", Title: "shop", Text: "Permission", Link: "https://chat.example/1", Priority: 5}

// A command gets the call on its stdin and runs without a shell. Its exit code decides.
func TestCommand_GetsTheCall(t *testing.T) {
	out := filepath.Join(t.TempDir(), "$(id) out")
	notify := &config.Notify{Command: []string{"sh", "-c", `{ cat; echo "$GCHAT_CALL_ID $GCHAT_CALL_PRIORITY"; } >"$1"`, "sh", out}}
	kit.NoError(t, Send(t.Context(), noEnv, notify, testCall))
	kit.Equal(t, kit.ReadFile(t, out), "shop\nPermission\nhttps://chat.example/1\ncall-1 5\n")
	notify.Command = []string{"sh", "-c", "echo 'no network' >&2; exit 3"}
	err := Send(t.Context(), noEnv, notify, testCall)
	kit.True(t, err != nil, "no error")
	kit.Contains(t, err.Error(), "no network")
}

// A command that hangs is ended, with its children.
func TestCommand_Hangs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	notify := &config.Notify{Command: []string{"sh", "-c", "sleep 60 & wait"}}
	kit.True(t, Send(ctx, noEnv, notify, testCall) != nil, "no error")
}

// What another try cannot change is refused; the rest is tried again. A redirect is not
// followed: it could lead the token elsewhere.
func TestTopic_Answers(t *testing.T) {
	for status, isRefused := range map[int]bool{
		200: false, 301: true, 400: true, 401: true, 403: true, 404: true, 408: false, 413: true, 429: false, 500: false, 503: false,
	} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}))
		err := Send(t.Context(), noEnv, &config.Notify{URL: server.URL + "/x", Token: "tk"}, testCall)
		server.Close()
		kit.Equalf(t, errors.Is(err, ErrRefused), isRefused, "%d: refused", status)
		kit.Equalf(t, err == nil, status == 200, "%d: sent", status)
		kit.Equalf(t, requests, 1, "%d: requests", status)
	}
}

// An error says what to do, and never has the topic's name.
func TestTopic_ErrorsAreForPeople(t *testing.T) {
	status, body := 0, ""
	server := kit.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{403, `{"code":40301,"http":403,"error":"forbidden"}`, "403: forbidden (the topic is protected"},
		{404, "<html>" + strings.Repeat("x", 9999), "404: <html>x"},
		{429, `{"error":"limit reached"}`, "429: limit reached (the server has had too many notifications"},
		{500, "", "500 (the server is in trouble"},
		{302, "", "302 (the server has moved"},
	} {
		status, body = c.status, c.body
		err := Send(t.Context(), noEnv, &config.Notify{URL: server.URL + "/secret-topic"}, testCall)
		kit.Contains(t, err.Error(), c.want)
		kit.True(t, len(err.Error()) < 400, "%d bytes", len(err.Error()))
	}
	err := Send(t.Context(), noEnv, &config.Notify{URL: "http://127.0.0.1:1/secret-topic"}, testCall)
	kit.Contains(t, err.Error(), "connection refused")
	kit.True(t, !strings.Contains(err.Error(), "secret-topic"), "it has the topic: %v", err)
}
