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
	Key          []byte   // signs codes and tokens
	Log          zerolog.Logger

	Chat   *chat.Service
	PubSub *pubsub.Service
}

// Hub serves machines, and relays the app's events to them.
type Hub struct {
	Options
	drain    context.Context // has ended where this replica ends
	greets   sync.WaitGroup
	greeting chan struct{} // holds one for each of greets
	joining  chan struct{} // holds one for each request to join that is being read
	unlogged atomic.Int64  // refusals since the last one in the log
	// rounds of the relay, one after another; before the first good one it counts one
	// more
	failed atomic.Int32

	mu       sync.Mutex
	stands   map[string]standing      // by subscription
	underWay map[string]int           // calls by machine, and answers by person
	paces    map[string]*rate.Limiter // of calls, by machine, and of writes
	threads  map[string]bool          // that a machine may write in, as machine + " " + thread
}

// standing is what Google last said of a machine's subscription.
type standing struct {
	is bool
	at time.Time
}

const (
	// callBound is how long a request may take, with its calls of Google's, and pullBound
	// a pull, which Google holds open for about 90 seconds.
	callBound, pullBound = 30 * time.Second, 2 * time.Minute
	// standsFor is how long a revoked machine may still be taken for one that is not.
	standsFor = time.Minute
	// troubleFor is how long a machine that stood is taken to stand, while Google does
	// not say.
	troubleFor = 10 * time.Minute
	// mostBody is how large a machine's request may be, in bytes. Chat takes messages
	// of 32,000. Its token is checked before its body is read.
	mostBody = 256 << 10
	// mostJoinBody bounds a request to join, in bytes: nobody has shown a token before
	// it is read. mostJoining of them are read at once, each within joinBound.
	mostJoinBody, mostJoining, joinBound = 4 << 10, 256, 5 * time.Second
)

// New prepares a hub, which drains from the end of ctx on.
func New(ctx context.Context, o Options) *Hub {
	h := &Hub{
		Options:  o,
		drain:    ctx,
		greeting: make(chan struct{}, 16),
		joining:  make(chan struct{}, mostJoining),
		stands:   map[string]standing{},
		underWay: map[string]int{},
		paces:    map[string]*rate.Limiter{},
		threads:  map[string]bool{},
	}
	h.failed.Store(1)
	return h
}

// Handler is what machines call. What it does not name is not there.
func (h *Hub) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, is := range map[string]struct {
		serve func(*call) (any, error)
		query []string // the names that it takes
	}{
		"POST /v1/spaces/{space}/messages":               {h.create, []string{"messageId", "requestId", "messageReplyOption"}},
		"GET /v1/spaces/{space}/messages/{message}":      {h.get, nil},
		"PATCH /v1/spaces/{space}/messages/{message}":    {h.patch, []string{"updateMask"}},
		"GET /v1/spaces/{space}":                         {h.space, nil},
		"POST /v1/projects/{project}/subscriptions/{to}": {h.subscription, nil},
		"GET /hub/policy":                                {h.policy, nil},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			who, err := h.machine(r)
			c := &call{Request: r, w: w, who: who, query: r.URL.Query()}
			if err == nil {
				err = c.allowed(is.query)
			}
			var answer any
			if err == nil {
				answer, err = is.serve(c)
			}
			h.answer(w, r, who, answer, err)
		})
	}
	mux.HandleFunc("POST /hub/join", func(w http.ResponseWriter, r *http.Request) {
		var c *Claims
		var answer any
		in, err := h.readJoin(w, r)
		if err == nil {
			c, answer, err = h.join(r, in)
		}
		h.answer(w, r, c, answer, err)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if h.drain.Err() != nil || h.failed.Load() > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.answer(w, r, nil, nil, refuse(http.StatusNotFound, "there is no such call at a hub"))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bound := callBound
		if strings.HasSuffix(r.URL.Path, ":pull") {
			bound = pullBound
		}
		ctx, cancel := context.WithTimeout(r.Context(), bound)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// refusal is an error that is told as Google tells its own.
type refusal struct {
	Code    int    `json:"code"`
	Status  string `json:"status"`
	Message string `json:"message"`

	after time.Duration // Retry-After, where it is not 0
}

func (r *refusal) Error() string { return r.Message }

func refuse(code int, message string) *refusal {
	status := map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ALREADY_EXISTS",
		429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE",
	}
	return &refusal{Code: code, Status: status[code], Message: message}
}

// answer tells what became of a request. What Google answered is passed on, but that it
// does not take the hub's own credentials.
func (h *Hub) answer(w http.ResponseWriter, r *http.Request, c *Claims, answer any, err error) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if err == nil {
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	line := h.refused(r, c)
	told := &refusal{}
	google := &googleapi.Error{}
	switch {
	case errors.As(err, &told):
	case errors.As(err, &google) && google.Code != http.StatusUnauthorized && json.Valid([]byte(google.Body)):
		line.Int("code", google.Code).Str("error", head(google.Message)).Msg("refused by Google")
		if after := google.Header.Get("Retry-After"); after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(google.Code)
		_, _ = w.Write([]byte(google.Body))
		return
	default:
		told = refuse(http.StatusServiceUnavailable, "the hub does not reach Google")
	}
	if !errors.Is(err, context.Canceled) { // else the machine has gone
		line.Int("code", told.Code).Str("error", head(err.Error())).Msg("refused")
	}
	if told.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(told.after/time.Second)+1))
	}
	if c == nil {
		// Else the server would wait for the rest of a body that nobody reads.
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(told.Code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": told})
}

// mostLogged is how many refusals of one machine stand in the log a minute, or of all
// that have shown no token. The others are counted.
const mostLogged = 60

// refused begins the log's line of a refusal, or returns nil, which writes nothing,
// where there were many. The next line says how many it left out.
func (h *Hub) refused(r *http.Request, c *Claims) *zerolog.Event {
	machine := ""
	if c != nil {
		machine = c.Machine
	}
	if h.pace("log of "+machine, mostLogged) != nil {
		h.unlogged.Add(1)
		return nil
	}
	line := h.Log.Warn().Str("method", r.Method).Str("from", r.RemoteAddr)
	if n := h.unlogged.Swap(0); n > 0 {
		line = line.Int64("refused_unlogged", n)
	}
	if c != nil {
		line = line.Str("machine", c.Machine).Str("user", c.User).Str("path", head(r.URL.Path))
	}
	return line
}

// head is the beginning of foreign text, for the log, without signs that a terminal
// obeys or that reorder it.
func head(s string) string { return state.OneLine(s[:min(len(s), 200)]) }

// machine is who makes a request: the bearer of a token that has not ended, whose
// subscription stands.
func (h *Hub) machine(r *http.Request) (*Claims, error) {
	c, err := h.bearer(r)
	if err == nil && c.ended(tokenLife) {
		err = refuse(http.StatusUnauthorized, "the token has ended: it is renewed at /hub/join")
	}
	if err == nil {
		err = h.begin(r.Context(), c.Machine, mostUnderWay)
	}
	if err == nil {
		err = h.joined(r.Context(), c)
	}
	return c, err
}

// bearer is what a request's token says.
func (h *Hub) bearer(r *http.Request) (*Claims, error) {
	return h.read(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), isToken)
}

// joined says with its error that a machine's subscription does not stand any more.
func (h *Hub) joined(ctx context.Context, c *Claims) error {
	name := h.subscriptionOf(c.Machine)
	h.mu.Lock()
	known := h.stands[name]
	h.mu.Unlock()
	if time.Since(known.at) > standsFor {
		sub, err := h.PubSub.Projects.Subscriptions.Get(name).Context(ctx).Do()
		switch {
		case err == nil || codeOf(err) == http.StatusNotFound:
			known = standing{err == nil && sub.Labels[revokedLabel] == "", time.Now()}
			h.mu.Lock()
			h.stands[name] = known
			h.mu.Unlock()
		case !known.is || time.Since(known.at) > troubleFor:
			return err
		}
	}
	if !known.is {
		return refuse(
			http.StatusUnauthorized,
			"the machine was revoked, or silent for a month: write join to the app again",
		)
	}
	return nil
}

// codeOf is the HTTP status with which Google answered; 0 where it did not.
func codeOf(err error) int {
	google := &googleapi.Error{}
	errors.As(err, &google)
	return google.Code
}

// policyFile is the administrator's file. While it is broken, machines go on by the last
// good one.
func (h *Hub) policyFile() (*config.HubPolicy, error) {
	p, err := config.ReadHubPolicy(h.Policy)
	if err != nil {
		h.Log.Error().
			Str("file", h.Policy).
			Str("error", head(err.Error())).
			Msg("the policy cannot be read: mend the file")
		return nil, refuse(
			http.StatusServiceUnavailable,
			"the hub's policy cannot be read: tell who runs the hub",
		)
	}
	return p, nil
}

func (h *Hub) policy(*call) (any, error) {
	p, err := h.policyFile()
	if err != nil {
		return nil, err
	}
	return map[string]any{"policy": p.Policy, "version": h.Version, "time": time.Now().UTC()}, nil
}
