// Package team has a team's hub for the tests of a machine's side: the real one, in front
// of a stand-in for Google that knows one subscription. Only tests import it.
package team

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/api/chat/v1"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/hub"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state/config"
)

// Machine is how the hub calls the machine that joins with its code.
const Machine = "0123456789ab"

// OtherHubVariable is the variable that names a gchat-hooks of another version, whose hub
// is to stand in the place of the one of this version.
const OtherHubVariable = "GCHAT_TEST_HUB"

// Topic and Key are those of the hub. A code that is signed with the key is good at
// another hub that has it.
const (
	Topic = "projects/p/topics/machines"
	Key   = "q7Vt0fXbE3mJ9aKcR1sLwYhU6pZdN2gT"
)

// Hub is a hub of one space, and what it was asked for.
type Hub struct {
	URL, Space   string
	Subscription string // the machine's
	Code         string // joins it, as users/1
	Google       string // the URL of what it stands before

	// Other serves in the hub's place. Nil: the hub itself does.
	Override http.Handler

	RefusesJoins atomic.Bool  // nobody can join now
	ClockAhead   atomic.Int64 // nanoseconds that its clock is ahead, as it tells

	t                 testing.TB
	options           hub.Options
	subscriptions     *subscriptions
	current           atomic.Pointer[hub.Hub]
	mu                sync.Mutex
	joined            int
	requests, refused []string
}

// Start starts a hub that ends with the test. The space is the person's, beside their
// direct message with the app, or is that itself; app is the subscription that google
// knows.
func Start(t testing.TB, space, direct, app string, google http.Handler) *Hub {
	t.Helper()
	machines := &subscriptions{app: app, next: google}
	googleServer := httptest.NewServer(strict.CheckRequests(t, machines, strict.DirectMessage))
	messages, events, err := gchat.NewServices(t.Context(), &config.Config{APIEndpoint: googleServer.URL, PubSubEndpoint: googleServer.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &Hub{Google: googleServer.URL, Space: space, Subscription: "projects/p/subscriptions/gchat-hooks-" + Machine, t: t, subscriptions: machines}
	h.Replace(func(o *hub.Options) {
		o.Topic, o.Version, o.SigningKey = Topic, "(devel)", []byte(Key)
		o.Log, o.Chat, o.PubSub = zerolog.Nop(), messages, events
	})
	h.Code = h.current.Load().Sign(hub.Claims{
		Kind: "code", Machine: Machine, User: "users/1", Email: "ann@example.com", Space: space, DirectSpace: direct,
		ExpiresAt: time.Now().Add(10 * time.Minute).Unix(),
	})
	server := httptest.NewServer(h)
	h.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		googleServer.CloseClientConnections()
		googleServer.Close()
	})
	return h
}

// StartLocal starts a hub whose Chat is an embedded space, as the person's direct message
// with the app.
func StartLocal(t testing.TB) (*Hub, *space.Space) {
	t.Helper()
	sp, err := space.Open(space.Options{IsDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sp.Close() })
	prefix := strings.TrimPrefix(strings.TrimSuffix(sp.APIEndpoint("http://x"), "/"), "http://x")
	google := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = prefix + r.URL.Path
		sp.Handler().ServeHTTP(w, r)
	})
	return Start(t, space.Name, space.Name, space.Subscription, google), sp
}

// Replace has another replica, with other options, take the hub's place. It remembers
// nothing.
func (h *Hub) Replace(change func(*hub.Options)) {
	change(&h.options)
	h.current.Store(hub.New(h.t.Context(), h.options))
}

// Handler is that of the replica that serves.
func (h *Hub) Handler() http.Handler { return h.current.Load().Handler() }

// Revoke takes the machine's subscription away, and the hub does not remember it.
func (h *Hub) Revoke() {
	h.subscriptions.created.Clear()
	h.Replace(func(*hub.Options) {})
}

// Seen are the tokens that were given, the requests that had a good one, and those of
// these that were refused, but for a message that is there already.
func (h *Hub) Seen() (joined int, requests, refused []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.joined, slices.Clone(h.requests), slices.Clone(h.refused)
}

func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	joins := r.URL.Path == "/hub/join"
	if joins && h.RefusesJoins.Load() {
		refuse(w, http.StatusServiceUnavailable, "UNAVAILABLE")
		return
	}
	answer := httptest.NewRecorder()
	if h.Override != nil {
		h.Override.ServeHTTP(answer, r)
	} else {
		h.Handler().ServeHTTP(answer, r)
	}
	body := answer.Body.Bytes()
	h.mu.Lock()
	switch {
	case joins && answer.Code == http.StatusOK:
		h.joined++
		var j gchat.JoinResponse
		_ = json.Unmarshal(body, &j)
		j.Time, j.Expires = j.Time.Add(time.Duration(h.ClockAhead.Load())), j.Expires.Add(time.Duration(h.ClockAhead.Load()))
		body, _ = json.Marshal(j)
	case joins, answer.Code == http.StatusUnauthorized:
	default:
		h.requests = append(h.requests, r.Method+" "+r.URL.Path)
		if answer.Code >= 400 && answer.Code != http.StatusConflict {
			h.refused = append(h.refused, fmt.Sprintf("%s %s: %d %s", r.Method, r.URL.RequestURI(), answer.Code, body))
		}
	}
	h.mu.Unlock()
	maps.Copy(w.Header(), answer.Header())
	w.Header().Del("Content-Length") // the times in it may have changed
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
}

// subscriptions are the machines', in front of a stand-in that knows one: what the app
// hears, each of them hears.
type subscriptions struct {
	app     string
	next    http.Handler
	created sync.Map // name → as it was made
}

func (s *subscriptions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, call, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), ":")
	made, is := s.created.Load(name)
	switch {
	case strings.Contains(name, "/members/"):
		_ = json.NewEncoder(w).Encode(&chat.Membership{State: "JOINED"})
	case !strings.HasPrefix(name, "projects/"):
		s.next.ServeHTTP(w, r)
	case r.Method == http.MethodPut && is:
		refuse(w, http.StatusConflict, "ALREADY_EXISTS")
	case r.Method == http.MethodPut:
		made, _ := io.ReadAll(r.Body)
		s.created.Store(name, made)
		_, _ = w.Write(made)
	case !is:
		refuse(w, http.StatusNotFound, "NOT_FOUND")
	case call != "":
		s.pass(w, r, call)
	default:
		_, _ = w.Write(made.([]byte))
	}
}

// pass has the one subscription answer. An event has its id as the attribute that the hub
// gives it on its way.
func (s *subscriptions) pass(w http.ResponseWriter, r *http.Request, call string) {
	r.URL.Path = "/v1/" + s.app + ":" + call
	answer := httptest.NewRecorder()
	s.next.ServeHTTP(answer, r)
	body := answer.Body.Bytes()
	var got pubsub.PullResponse
	if call == "pull" && answer.Code == http.StatusOK && json.Unmarshal(body, &got) == nil {
		for _, m := range got.ReceivedMessages {
			m.Message.Attributes = map[string]string{"id": m.Message.MessageId}
		}
		body, _ = json.Marshal(&got)
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
}

func refuse(w http.ResponseWriter, code int, status string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"error": {"code": %d, "status": %q, "message": "refused"}}`, code, status)
}
