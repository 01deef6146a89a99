// Package hub stands between a team's machines and Google, so that only the hub needs the
// Chat app's key. To a machine it looks like Google at another address. It has the same
// paths, bodies and errors, but only for the machine's own spaces, messages and
// subscription. A hub stores nothing: everything durable is in Chat and in Pub/Sub. So
// several replicas can run at once, and each may be killed at any line.
package hub

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
	"google.golang.org/api/chat/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// Options are an administrator's settings for a hub.
type Options struct {
	URL          string   // where machines reach the hub, https://hub.example.com
	Subscription string   // projects/P/subscriptions/S, which delivers the app's events
	Topic        string   // projects/P/topics/T, where the hub publishes events for machines
	Domains      []string // people with an e-mail address in one of these may join
	Policy       string   // the file with a config.HubPolicy; "" for none
	Version      string   // of this program
	SigningKey   []byte   // signs codes and tokens
	Log          zerolog.Logger

	Chat   *chat.Service
	PubSub *pubsub.Service
}

// Hub serves machines, and relays the app's events to them.
type Hub struct {
	Options
	drainContext     context.Context // ends when this replica should end
	greetGroup       sync.WaitGroup
	greetSlots       chan struct{} // has an element for each running greet
	joinSlots        chan struct{} // has an element for each request to join that is being read
	unloggedRefusals atomic.Int64  // refusals since the last logged one
	// failedRounds counts the relay's failed rounds in a row. Before the first round that
	// succeeds, it is one higher, so that a new replica is unhealthy after one failure.
	failedRounds atomic.Int32

	mu            sync.Mutex
	subscriptions map[string]subscriptionState // by subscription
	callsInFlight map[string]int               // calls by machine, and greetings by person
	limiters      map[string]*rate.Limiter     // of calls and log lines by machine, and of writes
	// writableThreads has the threads in which a machine may write, as machine + " " +
	// thread.
	writableThreads map[string]bool
}

// subscriptionState is what Google last said about a machine's subscription.
type subscriptionState struct {
	isValid   bool // it exists, and is not revoked
	checkedAt time.Time
}

const (
	// callTimeout bounds a request together with the calls of Google that it needs.
	// pullTimeout bounds a pull, which Google holds open for about 90 seconds.
	callTimeout, pullTimeout = 30 * time.Second, 2 * time.Minute
	// stateMaxAge is how long a revoked machine may still be served.
	stateMaxAge = time.Minute
	// staleStateMaxAge is how long a machine whose subscription was valid is served while
	// Google does not answer.
	staleStateMaxAge = 10 * time.Minute
	// maxBodyBytes bounds a machine's request. Chat accepts messages of 32,000 bytes. The
	// hub checks the token before it reads the body.
	maxBodyBytes = 256 << 10
	// maxJoinBodyBytes bounds a request to join, which the hub reads before it has seen a
	// code or a token. It reads maxJoining of them at once, each within joinReadTimeout.
	maxJoinBodyBytes, maxJoining, joinReadTimeout = 4 << 10, 256, 5 * time.Second
)

// New returns a hub. When ctx ends, the hub drains: it finishes what it has begun.
func New(ctx context.Context, options Options) *Hub {
	h := &Hub{
		Options:         options,
		drainContext:    ctx,
		greetSlots:      make(chan struct{}, 16),
		joinSlots:       make(chan struct{}, maxJoining),
		subscriptions:   map[string]subscriptionState{},
		callsInFlight:   map[string]int{},
		limiters:        map[string]*rate.Limiter{},
		writableThreads: map[string]bool{},
	}
	h.failedRounds.Store(1)
	return h
}

// Handler returns the handler of all calls that a hub has. Any other path is 404.
func (h *Hub) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, method := range map[string]struct {
		serve func(*call) (any, error)
		query []string // the allowed query names
	}{
		"POST /v1/spaces/{space}/messages": {
			h.createMessage, []string{"messageId", "requestId", "messageReplyOption"},
		},
		"GET /v1/spaces/{space}/messages/{message}":      {h.getMessage, nil},
		"PATCH /v1/spaces/{space}/messages/{message}":    {h.patchMessage, []string{"updateMask"}},
		"GET /v1/spaces/{space}":                         {h.getSpace, nil},
		"GET /v1/media/{resource...}":                    {h.openFile, []string{"message"}},
		"POST /v1/projects/{project}/subscriptions/{to}": {h.callSubscription, nil},
		"GET /hub/policy":                                {h.getPolicy, nil},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			claims, err := h.authenticate(r)
			c := &call{Request: r, writer: w, claims: claims, query: r.URL.Query()}
			if err == nil {
				err = c.checkAllowed(method.query)
			}
			var response any
			if err == nil {
				response, err = method.serve(c)
			}
			h.respond(w, r, claims, response, err)
		})
	}
	mux.HandleFunc("POST /hub/join", func(w http.ResponseWriter, r *http.Request) {
		var claims *Claims
		var response any
		request, err := h.readJoinRequest(w, r)
		if err == nil {
			claims, response, err = h.issueToken(r, request)
		}
		h.respond(w, r, claims, response, err)
	})
	// A replica is unhealthy while it drains, and after two failed rounds of the relay in
	// a row. A new replica is unhealthy after one.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if h.drainContext.Err() != nil || h.failedRounds.Load() > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.respond(w, r, nil, nil, newRefusal(http.StatusNotFound, gchat.HubHasNoSuchCall))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timeout := callTimeout
		if strings.HasSuffix(r.URL.Path, ":pull") {
			timeout = pullTimeout
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// refusal is an error that the hub answers with, in the form of Google's errors.
type refusal struct {
	Code    int    `json:"code"`
	Status  string `json:"status"`
	Message string `json:"message"`

	retryAfter time.Duration // for the header Retry-After; 0 for none
}

func (r *refusal) Error() string { return r.Message }

func newRefusal(code int, message string) *refusal {
	status := map[int]string{
		400: "INVALID_ARGUMENT",
		401: "UNAUTHENTICATED",
		403: "PERMISSION_DENIED",
		404: "NOT_FOUND",
		409: "ALREADY_EXISTS",
		429: "RESOURCE_EXHAUSTED",
		503: "UNAVAILABLE",
	}
	return &refusal{Code: code, Status: status[code], Message: message}
}

// respond answers a request with response or err. It passes Google's errors on to the
// machine, but not a 401: that means that Google refuses the hub's own credentials.
func (h *Hub) respond(
	w http.ResponseWriter, r *http.Request, claims *Claims, response any, err error,
) {
	if file, isFile := response.(io.ReadCloser); isFile {
		relayFile(w, file)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if err == nil {
		_ = json.NewEncoder(w).Encode(response)
		return
	}
	line := h.refusalLogLine(r, claims)
	ours := &refusal{}
	googleErr := &googleapi.Error{}
	isForMachine := errors.As(err, &googleErr) && googleErr.Code != http.StatusUnauthorized &&
		json.Valid([]byte(googleErr.Body))
	switch {
	case errors.As(err, &ours):
	case isForMachine:
		line.Int("code", googleErr.Code).Str("error", logText(googleErr.Message)).
			Msg("refused by Google")
		if after := googleErr.Header.Get("Retry-After"); after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(googleErr.Code)
		_, _ = w.Write([]byte(googleErr.Body))
		return
	default:
		ours = newRefusal(http.StatusServiceUnavailable, "the hub cannot reach Google")
	}
	if !errors.Is(err, context.Canceled) { // otherwise the machine ended the request itself
		line.Int("code", ours.Code).Str("error", logText(err.Error())).Msg("refused")
	}
	if ours.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(ours.retryAfter/time.Second)+1))
	}
	if claims == nil {
		// Without this, the server would wait for the rest of a body that nobody reads.
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(ours.Code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": ours})
}

// relayFile passes a file on while it comes, and keeps none of it. The byte after the
// longest file tells the machine that the file is too long.
func relayFile(w http.ResponseWriter, file io.ReadCloser) {
	defer file.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if _, err := io.Copy(w, io.LimitReader(file, gchat.MaxFileBytes+1)); err != nil {
		// Without this, the machine would take a part for the whole file.
		panic(http.ErrAbortHandler)
	}
}

// maxLoggedRefusals is how many refusals of one machine are logged in a minute. All
// callers without a valid token count as one machine. The others are only counted.
const maxLoggedRefusals = 60

// refusalLogLine begins a refusal's line in the log. After many refusals it returns nil,
// which writes nothing. The next line that is written says how many were left out.
func (h *Hub) refusalLogLine(r *http.Request, claims *Claims) *zerolog.Event {
	machine := ""
	if claims != nil {
		machine = claims.Machine
	}
	if h.limitRate("log of "+machine, maxLoggedRefusals) != nil {
		h.unloggedRefusals.Add(1)
		return nil
	}
	line := h.Log.Warn().Str("method", r.Method).Str("from", r.RemoteAddr)
	if n := h.unloggedRefusals.Swap(0); n > 0 {
		line = line.Int64("refused_unlogged", n)
	}
	if claims != nil {
		line = line.Str("machine", claims.Machine).Str("user", claims.User).
			Str("path", logText(r.URL.Path))
	}
	return line
}

// logText returns the first 200 bytes of untrusted text, as one line for the log. It
// removes characters that control a terminal or reorder text.
func logText(s string) string { return state.OneLine(s[:min(len(s), 200)]) }

// authenticate returns the claims of the machine that makes a request. It returns an
// error if the token has expired, too many calls are under way, or the machine's
// subscription is not valid.
func (h *Hub) authenticate(r *http.Request) (*Claims, error) {
	claims, err := h.bearerClaims(r)
	if err == nil && claims.isExpired(tokenLife) {
		err = newRefusal(http.StatusUnauthorized, "the token has expired: renew it at /hub/join")
	}
	if err == nil {
		err = h.reserveCall(r.Context(), claims.Machine, maxCallsInFlight)
	}
	if err == nil {
		err = h.checkSubscription(r.Context(), claims)
	}
	return claims, err
}

// bearerClaims returns the claims in a request's token.
func (h *Hub) bearerClaims(r *http.Request) (*Claims, error) {
	return h.verifyClaims(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), tokenKind)
}

// checkSubscription returns an error if a machine's subscription was revoked or does not
// exist. It asks Google once in stateMaxAge.
func (h *Hub) checkSubscription(ctx context.Context, claims *Claims) error {
	name := h.subscriptionName(claims.Machine)
	h.mu.Lock()
	known := h.subscriptions[name]
	h.mu.Unlock()
	if time.Since(known.checkedAt) > stateMaxAge {
		sub, err := h.PubSub.Projects.Subscriptions.Get(name).Context(ctx).Do()
		switch {
		case err == nil || googleStatus(err) == http.StatusNotFound:
			known = subscriptionState{err == nil && sub.Labels[revokedLabel] == "", time.Now()}
			h.mu.Lock()
			h.subscriptions[name] = known
			h.mu.Unlock()
		case !known.isValid || time.Since(known.checkedAt) > staleStateMaxAge:
			// Google did not answer, and what is known is no reason to serve the machine.
			return err
		}
	}
	if !known.isValid {
		return newRefusal(http.StatusUnauthorized,
			"the machine's access was revoked, or it was not used for a month: write join to the app again")
	}
	return nil
}

// googleStatus returns the HTTP status of Google's error, or 0 if err is none of
// Google's.
func googleStatus(err error) int {
	googleErr := &googleapi.Error{}
	errors.As(err, &googleErr)
	return googleErr.Code
}

// readPolicyFile reads the administrator's policy. While the file cannot be read,
// machines use the last policy that they got.
func (h *Hub) readPolicyFile() (*config.HubPolicy, error) {
	p, err := config.ReadHubPolicy(h.Policy)
	if err != nil {
		h.Log.Error().Str("file", h.Policy).Str("error", logText(err.Error())).
			Msg("the policy cannot be read: correct the file")
		return nil, newRefusal(http.StatusServiceUnavailable,
			"the hub's policy cannot be read: tell the person who runs the hub")
	}
	return p, nil
}

func (h *Hub) getPolicy(*call) (any, error) {
	p, err := h.readPolicyFile()
	if err != nil {
		return nil, err
	}
	return map[string]any{"policy": p.Policy, "version": h.Version, "time": time.Now().UTC()}, nil
}
