package hub

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/api/chat/v1"
	"google.golang.org/api/option"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// Who has shown no token has a small body read, and only so many are read at once: what
// they hold back costs the hub little, and a colleague joins meanwhile.
func TestHub_SlowJoins(t *testing.T) {
	h := New(t.Context(), Options{SigningKey: []byte("k"), Log: zerolog.Nop()})
	server := httptest.NewServer(h.Handler())
	defer server.Close()
	large, err := http.Post(server.URL+"/hub/join", "application/json", strings.NewReader(`{"code": "`+strings.Repeat("x", maxJoinBodyBytes)+`"}`))
	kit.NoError(t, err)
	defer large.Body.Close()
	if said, _ := io.ReadAll(large.Body); large.StatusCode != http.StatusBadRequest {
		t.Errorf("a body of over 4 kB: %d: %s", large.StatusCode, said)
	}
	for range maxJoining { // requests that are being read
		h.joinSlots <- struct{}{}
	}
	answer := func() int {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		kit.NoError(t, err)
		defer conn.Close()
		_, _ = io.WriteString(conn, "POST /hub/join HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n{")
		b := make([]byte, len("HTTP/1.1 503"))
		if _, err := io.ReadFull(conn, b); err != nil {
			t.Errorf("no answer: %v", err)
		}
		code, _ := strconv.Atoi(string(b[len(b)-3:]))
		return code
	}
	kit.Equalf(t, answer(), http.StatusServiceUnavailable, "one more")
	<-h.joinSlots
	// It is read now, and its time is up before the byte that it holds back comes.
	kit.Equalf(t, answer(), http.StatusBadRequest, "one that is read")
}

// A flood of refusals leaves some lines in the log, and how many it left out. What a
// machine calls its version cannot colour or reorder them.
func TestHub_CountsRefusals(t *testing.T) {
	var log bytes.Buffer
	h := New(t.Context(), Options{SigningKey: []byte("k"), Log: zerolog.New(&log)})
	const requests = 500
	for range requests {
		r := httptest.NewRequest(http.MethodGet, "/hub/policy", nil)
		h.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	lines := strings.Count(log.String(), "\n")
	if lines == 0 || lines > maxLoggedRefusals {
		t.Errorf("%d requests left %d lines", requests, lines)
	}
	if left := int64(requests - lines); h.unloggedRefusals.Load() != left {
		t.Errorf("%d refusals are counted, want %d", h.unloggedRefusals.Load(), left)
	}
	if got := logText("1.0\x1b[2J\u202eevil"); strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("the log shows %q", got)
	}
}

// One person who writes join 200 times keeps no colleague waiting, also where Chat is
// slow.
func TestHub_JoinsOfOnePersonLeaveRoom(t *testing.T) {
	slow := make(chan struct{})
	var colleague atomic.Bool
	google := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(r.URL.Path, "spaces/flood/"):
			<-slow
		case strings.Contains(r.URL.Path, "spaces/colleague/"):
			colleague.Store(strings.Contains(string(body), "setup --hub"))
		}
		_, _ = w.Write([]byte(`{}`))
	}))
	defer google.Close()
	defer close(slow)
	at := []option.ClientOption{option.WithEndpoint(google.URL), option.WithHTTPClient(google.Client())}
	messages, err := chat.NewService(t.Context(), at...)
	kit.NoError(t, err)
	events, err := pubsub.NewService(t.Context(), at...)
	kit.NoError(t, err)
	h := New(t.Context(), Options{
		Chat: messages, PubSub: events, SigningKey: []byte("k"), Domains: []string{"example.com"}, Log: zerolog.Nop(),
	})
	join := func(user, space, id string) {
		e := &chat.DeprecatedEvent{
			Type:    "MESSAGE",
			Space:   &chat.Space{Name: space, SingleUserBotDm: true},
			User:    &chat.User{Name: user, Email: "x@example.com"},
			Message: &chat.Message{Text: "join"},
		}
		data, _ := json.Marshal(e)
		h.startGreeting(e, &pubsub.ReceivedMessage{Message: &pubsub.PubsubMessage{
			MessageId: id, Data: base64.StdEncoding.EncodeToString(data),
		}})
	}
	for n := range 200 {
		join("users/1", "spaces/flood", strconv.Itoa(n))
	}
	join("users/2", "spaces/colleague", "c")
	bound.Until(t, "the colleague is answered", colleague.Load)
	if n := len(h.greetSlots); n > maxGreetings+1 {
		t.Errorf("%d answers to one person are under way", n)
	}
}
