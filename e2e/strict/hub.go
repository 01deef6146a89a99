package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"
)

// Hub stands in for a team's hub, in front of a stand-in for Google: it takes what the hub takes of one machine, and refuses the
// rest as the hub does.
type Hub struct {
	URL, Space, Subscription string
	Machine, User            string
	Deciders                 []string
	Version                  string
	Policy                   string // JSON

	mu       sync.Mutex
	next     http.Handler
	now      func() time.Time
	life     time.Duration
	codes    map[string]string // code → the nonce that used it
	tokens   map[string]time.Time
	revoked  bool
	trap     int             // a status that joining is answered with
	threads  map[string]bool // that messages of the machine are in
	joined   int             // tokens that were given
	requests []string        // that had a good token
	refused  []string        // requests of a good token that the hub does not let through
}

// NewHub has a hub serve the code "good". Next is Google's stand-in, with its paths.
func NewHub(t testing.TB, space, subscription string, next http.Handler) *Hub {
	h := &Hub{
		Space: space, Subscription: subscription, Machine: "0123456789ab", User: "users/1", Version: "(devel)",
		next: next, Policy: "{}",
		now: time.Now, life: 24 * time.Hour, codes: map[string]string{"good": ""}, tokens: map[string]time.Time{},
		threads: map[string]bool{},
	}
	server := httptest.NewServer(h)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	h.URL = server.URL
	return h
}

// Set changes the hub.
func (h *Hub) Set(change func(*HubState)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &HubState{Now: h.now, Life: h.life, Revoked: h.revoked, Trap: h.trap}
	change(s)
	h.now, h.life, h.revoked, h.trap = s.Now, s.Life, s.Revoked, s.Trap
	if s.Forget {
		clear(h.tokens)
	}
}

// HubState is what a test changes of a hub.
type HubState struct {
	Now     func() time.Time // its clock
	Life    time.Duration    // of the next tokens
	Revoked bool             // the machine is: its subscription is gone
	Trap    int              // joining is answered with this status; 0 for none
	Forget  bool             // the tokens are none of this hub's any more
}

// Seen are the tokens that were given, the requests that had a good one, and those of these that were refused.
func (h *Hub) Seen() (joined int, requests, refused []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.joined, slices.Clone(h.requests), slices.Clone(h.refused)
}

func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	no := h.answer(w, r, body)
	if no != nil {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		w.WriteHeader(no.Code)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": no})
	}
}

// answer serves a request, or says why it does not.
func (h *Hub) answer(w http.ResponseWriter, r *http.Request, body []byte) *refusal {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if r.Method == http.MethodPost && r.URL.Path == "/hub/join" {
		return h.join(w, token, body)
	}
	h.mu.Lock()
	if until, ok := h.tokens[token]; !ok || !h.now().Before(until) {
		h.mu.Unlock()
		return &refusal{401, "UNAUTHENTICATED", "The token is forged or expired."}
	}
	h.requests = append(h.requests, r.Method+" "+r.URL.Path)
	if r.Method+r.URL.Path == "GET/hub/policy" {
		h.mu.Unlock()
		fmt.Fprintf(w, `{"policy": %s, "version": %q, "time": %q}`, h.Policy, h.Version, h.now().UTC().Format(time.RFC3339))
		return nil
	}
	no := h.check(r, body)
	if no != nil {
		h.refused = append(h.refused, r.Method+" "+r.URL.RequestURI()+": "+no.Message)
	}
	h.mu.Unlock()
	if no != nil {
		return no
	}
	r.Header.Del("Authorization")
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer := &kept{ResponseWriter: w}
	h.next.ServeHTTP(answer, r)
	var m chat.Message
	if json.Unmarshal(answer.body.Bytes(), &m) == nil && m.Thread != nil && r.Method == http.MethodPost {
		h.mu.Lock()
		h.threads[m.Thread.Name] = true
		h.mu.Unlock()
	}
	return nil
}

// check says why the hub lets the machine's request not through.
func (h *Hub) check(r *http.Request, body []byte) *refusal {
	query, path := r.URL.Query(), strings.TrimPrefix(r.URL.Path, "/v1/")
	for name := range query {
		known := []string{"alt", "prettyPrint", "messageId", "requestId", "messageReplyOption", "updateMask"}
		if !slices.Contains(known, name) {
			return invalid("Unknown query name " + name)
		}
	}
	message, ofMessage := strings.CutPrefix(path, h.Space+"/messages/")
	own := func(id string) bool { return strings.HasPrefix(id, "client-"+h.Machine+"-") && len(id) <= 63 }
	switch {
	case r.Method == http.MethodPost && path == h.Space+"/messages":
		return h.create(query, body, own)
	case ofMessage && (r.Method == http.MethodPatch || r.Method == http.MethodGet):
		if !own(message) {
			return denied("The message is none of this machine's: " + message)
		}
		return nil
	case r.Method == http.MethodPost && (path == h.Subscription+":pull" || path == h.Subscription+":acknowledge"):
		if h.revoked {
			return &refusal{404, "NOT_FOUND", "Resource not found."}
		}
		return nil
	case r.Method == http.MethodGet && path == h.Space:
		return nil
	}
	return denied("The hub does not serve that.")
}

func (h *Hub) create(query url.Values, body []byte, own func(string) bool) *refusal {
	var m chat.Message
	if err := json.Unmarshal(body, &m); err != nil {
		return invalid(err.Error())
	}
	id := query.Get("messageId")
	switch {
	case !own(id) || query.Get("requestId") != id:
		return invalid("The message id is none of this machine's: " + id)
	case m.Thread != nil && m.Thread.Name != "" && !h.threads[m.Thread.Name]:
		return invalid("The thread is none of this machine's")
	}
	return nil
}

// join gives a token, for a code or for an earlier token.
func (h *Hub) join(w http.ResponseWriter, token string, body []byte) *refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	var in struct{ Code, Nonce, Version string }
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return invalid(err.Error())
	}
	deciders := h.Deciders
	switch {
	case h.trap != 0:
		return &refusal{h.trap, "UNAVAILABLE", "The hub has trouble."}
	case token != "":
		if _, ok := h.tokens[token]; !ok || h.revoked {
			return &refusal{401, "UNAUTHENTICATED", "The token was revoked, or ran out: join again."}
		}
		deciders = nil
	default:
		used, ok := h.codes[in.Code]
		if !ok {
			return &refusal{401, "UNAUTHENTICATED", "The code is forged or expired."}
		}
		if used != "" && used != in.Nonce || in.Nonce == "" {
			return &refusal{409, "ALREADY_EXISTS", "The code was used."}
		}
		h.codes[in.Code] = in.Nonce
	}
	h.joined++
	now := h.now().UTC()
	fresh := fmt.Sprintf("token-%d", h.joined)
	h.tokens[fresh] = now.Add(h.life)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"token": fresh, "expires": now.Add(h.life), "machine": h.Machine, "user": h.User, "email": "ann@example.com",
		"space": h.Space, "subscription": h.Subscription, "deciders": deciders, "version": h.Version, "time": now,
	})
	return nil
}

// kept keeps what is answered.
type kept struct {
	http.ResponseWriter
	body bytes.Buffer
}

func (k *kept) Write(b []byte) (int, error) {
	k.body.Write(b)
	return k.ResponseWriter.Write(b)
}
