// Package hub stands between the machines of a team and Google: it alone has the Chat
// app's key. To a machine it is Google, at another address: the same paths, bodies and
// errors, for the machine's own spaces, messages and subscription. It keeps nothing: what
// is durable is in Chat and in Pub/Sub, so replicas run beside each other, and one may be
// killed at any line.
package hub

import (
	"context"
	"encoding/json"
	"errors"
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

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// Options are what an administrator says of a hub.
type Options struct {
	URL          string   // where machines reach it, https://hub.example.com
	Subscription string   // projects/P/subscriptions/S: the app's events
	Topic        string   // projects/P/topics/T: to the machines
	Domains      []string // of the e-mail addresses that may join
	Policy       string   // a file, "" for none: see config.HubPolicy
	Version      string   // of this program
	SigningKey   []byte   // signs codes and tokens
	Log          zerolog.Logger

	Chat   *chat.Service
	PubSub *pubsub.Service
}

// Hub serves machines, and relays the app's events to them.
type Hub struct {
	Options
	drainContext     context.Context // has ended where this replica ends
	greetGroup       sync.WaitGroup
	greetSlots       chan struct{} // holds one for each of greets
	joinSlots        chan struct{} // holds one for each request to join that is being read
	unloggedRefusals atomic.Int64  // refusals since the last one in the log
	// rounds of the relay, one after another; before the first good one it counts one
	// more
	failedRounds atomic.Int32

	mu            sync.Mutex
	subscriptions map[string]subscriptionState // by subscription
	callsInFlight map[string]int               // calls by machine, and answers by person
	limiters      map[string]*rate.Limiter     // of calls, by machine, and of writes
	// that a machine may write in, as machine + " " + thread
	writableThreads map[string]bool
}

// subscriptionState is what Google last said of a machine's subscription.
type subscriptionState struct {
	isValid   bool
	checkedAt time.Time
}

const (
	// callTimeout is how long a request may take, with its calls of Google's, and
	// pullTimeout a pull, which Google holds open for about 90 seconds.
	callTimeout, pullTimeout = 30 * time.Second, 2 * time.Minute
	// stateMaxAge is how long a revoked machine may still be taken for one that is not.
	stateMaxAge = time.Minute
	// staleStateMaxAge is how long a machine that stood is taken to stand, while Google
	// does not say.
	staleStateMaxAge = 10 * time.Minute
	// maxBodyBytes is how large a machine's request may be, in bytes. Chat takes messages
	// of 32,000. Its token is checked before its body is read.
	maxBodyBytes = 256 << 10
	// maxJoinBodyBytes bounds a request to join, in bytes: nobody has shown a token
	// before it is read. maxJoining of them are read at once, each within
	// joinReadTimeout.
	maxJoinBodyBytes, maxJoining, joinReadTimeout = 4 << 10, 256, 5 * time.Second
)

// New prepares a hub, which drains from the end of ctx on.
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

// Handler is what machines call. What it does not name is not there.
func (h *Hub) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, method := range map[string]struct {
		serve func(*call) (any, error)
		query []string // the names that it takes
	}{
		"POST /v1/spaces/{space}/messages":               {h.createMessage, []string{"messageId", "requestId", "messageReplyOption"}},
		"GET /v1/spaces/{space}/messages/{message}":      {h.getMessage, nil},
		"PATCH /v1/spaces/{space}/messages/{message}":    {h.patchMessage, []string{"updateMask"}},
		"GET /v1/spaces/{space}":                         {h.getSpace, nil},
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
			h.response(w, r, claims, response, err)
		})
	}
	mux.HandleFunc("POST /hub/join", func(w http.ResponseWriter, r *http.Request) {
		var claims *Claims
		var response any
		request, err := h.readJoinRequest(w, r)
		if err == nil {
			claims, response, err = h.issueToken(r, request)
		}
		h.response(w, r, claims, response, err)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if h.drainContext.Err() != nil || h.failedRounds.Load() > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.response(
			w,
			r,
			nil,
			nil,
			newRefusal(http.StatusNotFound, "there is no such call at a hub"),
		)
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

// refusal is an error that is told as Google tells its own.
type refusal struct {
	Code    int    `json:"code"`
	Status  string `json:"status"`
	Message string `json:"message"`

	retryAfter time.Duration // Retry-After, where it is not 0
}

func (r *refusal) Error() string { return r.Message }

func newRefusal(code int, message string) *refusal {
	status := map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ALREADY_EXISTS",
		429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE",
	}
	return &refusal{Code: code, Status: status[code], Message: message}
}

// response tells what became of a request. What Google answered is passed on, but that it
// does not take the hub's own credentials.
func (h *Hub) response(
	w http.ResponseWriter,
	r *http.Request,
	claims *Claims,
	response any,
	err error,
) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if err == nil {
		_ = json.NewEncoder(w).Encode(response)
		return
	}
	line := h.refusalLogLine(r, claims)
	ours := &refusal{}
	google := &googleapi.Error{}
	switch {
	case errors.As(err, &ours):
	case errors.As(err, &google) && google.Code != http.StatusUnauthorized && json.Valid([]byte(google.Body)):
		line.Int("code", google.Code).Str("error", logText(google.Message)).Msg("refused by Google")
		if after := google.Header.Get("Retry-After"); after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(google.Code)
		_, _ = w.Write([]byte(google.Body))
		return
	default:
		ours = newRefusal(http.StatusServiceUnavailable, "the hub does not reach Google")
	}
	if !errors.Is(err, context.Canceled) { // else the machine has gone
		line.Int("code", ours.Code).Str("error", logText(err.Error())).Msg("refused")
	}
	if ours.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(ours.retryAfter/time.Second)+1))
	}
	if claims == nil {
		// Else the server would wait for the rest of a body that nobody reads.
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(ours.Code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": ours})
}

// maxLoggedRefusals is how many refusals of one machine stand in the log a minute, or of
// all that have shown no token. The others are counted.
const maxLoggedRefusals = 60

// refusalLogLine begins the log's line of a refusal, or returns nil, which writes
// nothing, where there were many. The next line says how many it left out.
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
		line = line.Str("machine", claims.Machine).
			Str("user", claims.User).
			Str("path", logText(r.URL.Path))
	}
	return line
}

// logText is the beginning of foreign text, for the log, without signs that a terminal
// obeys or that reorder it.
func logText(s string) string { return state.OneLine(s[:min(len(s), 200)]) }

// authenticate is who makes a request: the bearer of a token that has not ended, whose
// subscription stands.
func (h *Hub) authenticate(r *http.Request) (*Claims, error) {
	claims, err := h.bearerClaims(r)
	if err == nil && claims.isExpired(tokenLife) {
		err = newRefusal(http.StatusUnauthorized, "the token has ended: it is renewed at /hub/join")
	}
	if err == nil {
		err = h.reserveCall(r.Context(), claims.Machine, maxCallsInFlight)
	}
	if err == nil {
		err = h.checkSubscription(r.Context(), claims)
	}
	return claims, err
}

// bearerClaims is what a request's token says.
func (h *Hub) bearerClaims(r *http.Request) (*Claims, error) {
	return h.verifyClaims(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), tokenKind)
}

// checkSubscription says with its error that a machine's subscription does not stand any
// more.
func (h *Hub) checkSubscription(ctx context.Context, claims *Claims) error {
	name := h.subscriptionName(claims.Machine)
	h.mu.Lock()
	state := h.subscriptions[name]
	h.mu.Unlock()
	if time.Since(state.checkedAt) > stateMaxAge {
		sub, err := h.PubSub.Projects.Subscriptions.Get(name).Context(ctx).Do()
		switch {
		case err == nil || googleStatus(err) == http.StatusNotFound:
			state = subscriptionState{err == nil && sub.Labels[revokedLabel] == "", time.Now()}
			h.mu.Lock()
			h.subscriptions[name] = state
			h.mu.Unlock()
		case !state.isValid || time.Since(state.checkedAt) > staleStateMaxAge:
			return err
		}
	}
	if !state.isValid {
		return newRefusal(
			http.StatusUnauthorized,
			"the machine was revoked, or silent for a month: write join to the app again",
		)
	}
	return nil
}

// googleStatus is the HTTP status with which Google answered; 0 where it did not.
func googleStatus(err error) int {
	google := &googleapi.Error{}
	errors.As(err, &google)
	return google.Code
}

// readPolicyFile is the administrator's file. While it is broken, machines go on by the
// last good one.
func (h *Hub) readPolicyFile() (*config.HubPolicy, error) {
	p, err := config.ReadHubPolicy(h.Policy)
	if err != nil {
		h.Log.Error().
			Str("file", h.Policy).
			Str("error", logText(err.Error())).
			Msg("the policy cannot be read: mend the file")
		return nil, newRefusal(
			http.StatusServiceUnavailable,
			"the hub's policy cannot be read: tell who runs the hub",
		)
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
