package gchat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// Hub is what a machine holds of the hub that it joined, and what its requests go through: a credentials file, whose token is for
// that hub alone. The hub stands before Google for the app's team, and takes the same calls.
type Hub struct {
	Type    string        `json:"type"`
	URL     string        `json:"hub"`
	Machine string        `json:"machine"` // how the hub calls this machine: 12 hex digits
	Token   string        `json:"token"`   // a secret
	Expires time.Time     `json:"expires"` // by the hub's clock
	Renew   time.Time     `json:"renew"`   // by this machine's clock: half of the token's life is over then
	Ahead   time.Duration `json:"ahead"`   // how far the hub's clock was ahead of ours, in nanoseconds
	Version string        `json:"version"` // of the hub

	file string     // "" before it is saved
	mu   sync.Mutex // of the token
}

// Joined is what a hub answers to a machine that joins, or renews its token.
type Joined struct {
	Token        string    `json:"token"` // a secret
	Expires      time.Time `json:"expires"`
	Machine      string    `json:"machine"`
	User         string    `json:"user"` // users/ID: whose machine it is
	Email        string    `json:"email"`
	Space        string    `json:"space"`        // spaces/S
	Subscription string    `json:"subscription"` // projects/P/subscriptions/S
	Deciders     []string  `json:"deciders"`     // users/ID: who else may answer there
	Version      string    `json:"version"`
	Time         time.Time `json:"time"` // the hub's clock
}

const (
	// renewPause is how long a token is used on after the hub could not renew it.
	renewPause = time.Minute
	// policyTimeout bounds reading the policy: a hook that is about to ask waits for it.
	policyTimeout = 3 * time.Second
	// clocksApart is from when on a clock is wrong.
	clocksApart = 2 * time.Minute
	// joinAnew is how a person gets a token.
	joinAnew = "write join to the app in Google Chat, and paste the line that it answers with within ten minutes"
)

// errNoHub is an answer that no hub gives.
var errNoHub = errors.New("there is no hub")

// ReadHub reads a credentials file; nil where it is none of a hub.
func ReadHub(file string) *Hub {
	b, err := state.ReadLinked(file, 1<<20)
	h := &Hub{file: file}
	if err != nil || json.Unmarshal(b, h) != nil || h.Type != config.HubCredentials {
		return nil
	}
	return h
}

// JoinHub exchanges a code for a token. The same nonce gets the same answer again: this machine may be killed before it wrote the
// token down. Errors are *state.UserError, and *APIError of a hub in trouble.
func JoinHub(ctx context.Context, base, code, nonce, version string) (*Hub, *Joined, error) {
	h := &Hub{Type: config.HubCredentials, URL: strings.TrimRight(base, "/")}
	j, err := h.join(ctx, "", map[string]string{"code": code, "nonce": nonce, "version": version})
	switch {
	case AlreadyExists(err):
		return nil, nil, &state.UserError{Err: errors.New("join the hub: another machine used that code"), Hint: joinAnew, Code: 1}
	case err != nil:
		return nil, nil, h.failed(fmt.Errorf("join the hub: %w", err))
	}
	h.Machine = j.Machine
	h.take(j)
	return h, j, nil
}

// Save writes the credentials file, readable by its owner only.
func (h *Hub) Save(file string) error {
	h.file = file
	b, _ := json.MarshalIndent(h, "", "  ") // texts and times encode
	return config.WriteSecret(file, append(b, '\n'))
}

// What a hub answers is written into the person's configuration: machine, space, subscription and token, and who may answer.
var (
	joinedForm = state.Pattern(`^[0-9a-f]{12} spaces/[\w-]+ projects/[\w.:~+%-]+/subscriptions/[\w.~+%-]+ [!-~]+$`)
	userForm   = state.Pattern(`^users/[\w-]{1,40}$`)
)

// join asks the hub for a token, with a code or for an earlier token. Errors are *APIError, errNoHub and of the transport.
func (h *Hub) join(ctx context.Context, token string, in any) (*Joined, error) {
	base, err := ParseEndpoint(h.URL)
	if err != nil || base == nil {
		return nil, fmt.Errorf("%w: %q is neither https nor on this machine", errNoHub, h.URL)
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	body, _ := json.Marshal(in) // texts encode
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base.String()+"/hub/join", bytes.NewReader(body))
	if err != nil {
		return nil, errNoHub
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := answerOf(h.transport(r.URL), r)
	if err != nil {
		return nil, err
	}
	j := &Joined{}
	err = json.Unmarshal(answer, j)
	stranger := slices.ContainsFunc(append(j.Deciders, j.User), func(who string) bool { return !userForm().MatchString(who) })
	well := joinedForm().MatchString(strings.Join([]string{j.Machine, j.Space, j.Subscription, j.Token}, " "))
	if err != nil || stranger || !well || j.Time.IsZero() || !j.Expires.After(j.Time) {
		return nil, fmt.Errorf("%w: %w", errNoHub, ErrNonsense)
	}
	return j, nil
}

// answerOf makes a request to a hub, and reads the answer. Errors are *APIError, errNoHub and of the transport.
func answerOf(by http.RoundTripper, r *http.Request) ([]byte, error) {
	resp, err := by.RoundTrip(r) // which follows no redirect
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, 1<<16))
	if err == nil && resp.StatusCode != http.StatusOK {
		e := answeredError(resp.StatusCode, resp.Header, answer)
		if e.Status == "" && !Overloaded(e) || e.HTTP == http.StatusNotFound {
			return nil, fmt.Errorf("%w: %w", errNoHub, e)
		}
		return nil, e
	}
	return answer, err
}

// transport is what a request to the hub goes by: HTTP/2 notices a connection that leads nowhere, see pingAfter.
func (h *Hub) transport(u *url.URL) http.RoundTripper {
	if u.Scheme == "https" {
		return limitBodies{http.DefaultTransport}
	}
	return noRedirects.Transport
}

// take keeps what the hub said.
func (h *Hub) take(j *Joined) {
	now := time.Now()
	h.Token, h.Expires, h.Version = j.Token, j.Expires, j.Version
	h.Ahead = j.Time.Sub(now).Round(time.Second)
	h.Renew = now.Add(max(j.Expires.Sub(j.Time)/2, renewPause)).Round(time.Second)
}

// RoundTrip takes a request to the hub, with the token. One that the hub refuses is renewed, and the request made again: this
// machine's clock may have been set.
func (h *Hub) RoundTrip(r *http.Request) (*http.Response, error) {
	base, err := ParseEndpoint(h.URL)
	if err != nil || base == nil || r.URL.Scheme != base.Scheme || r.URL.Host != base.Host {
		err := fmt.Errorf("%w: the token is for the hub %s alone", ErrCredentials, h.URL)
		return nil, &state.UserError{Err: err, Hint: "api_endpoint and pubsub_endpoint have to be " + h.URL + " (GCHAT_API_ENDPOINT, " +
			"GCHAT_PUBSUB_ENDPOINT), or credentials_file another one; to join anew, " + joinAnew, Code: 1}
	}
	token, err := h.fresh(r.Context(), "")
	if err != nil {
		return nil, err
	}
	resp, err := h.send(r, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || r.GetBody == nil && r.Body != nil {
		return resp, err
	}
	resp.Body.Close()
	if token, err = h.fresh(r.Context(), token); err != nil {
		return nil, err
	}
	if r.GetBody != nil {
		r = r.Clone(r.Context())
		if r.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return h.send(r, token)
}

func (h *Hub) send(r *http.Request, token string) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return h.transport(r.URL).RoundTrip(r)
}

// fresh is a token that the hub takes: the one at hand in the first half of its life, unless the hub refused it, else the one that
// another process wrote into the file, else a new one, which is written there. Of two processes that renew at once both have
// a good one. Its errors are *state.UserError, where the machine has to join anew, and those of join.
func (h *Hub) fresh(ctx context.Context, refused string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Token != refused && time.Now().Before(h.Renew) {
		return h.Token, nil
	}
	if kept := ReadHub(h.file); kept != nil && kept.URL == h.URL && kept.Machine == h.Machine && kept.Token != h.Token {
		h.Token, h.Expires, h.Renew, h.Ahead, h.Version = kept.Token, kept.Expires, kept.Renew, kept.Ahead, kept.Version
		if h.Token != refused && time.Now().Before(h.Renew) {
			return h.Token, nil
		}
	}
	old := h.Token
	j, err := h.join(ctx, old, struct{}{})
	switch {
	case err == nil && j.Machine != h.Machine:
		return "", h.failed(fmt.Errorf("%w: renew the token: the hub calls this machine %s", errNoHub, j.Machine))
	case err == nil:
		h.take(j)
	case refused == "" && answered(err).HTTP != http.StatusUnauthorized: // the token may still be good
		h.Renew = time.Now().Add(renewPause)
		return old, nil
	default:
		return "", h.failed(fmt.Errorf("renew the token: %w", err))
	}
	// Where this machine joined anew meanwhile, the file is that token's. One that cannot be written is renewed by the next process.
	if kept := ReadHub(h.file); kept != nil && kept.Machine == h.Machine && kept.Token == old {
		_ = h.Save(h.file)
	}
	return h.Token, nil
}

// mayPull has the hub make a new token, also in the first half of the old one's life: then it knows this machine, and its
// subscription stands.
func (h *Hub) mayPull(ctx context.Context) error {
	h.mu.Lock()
	token := h.Token
	h.mu.Unlock()
	_, err := h.fresh(ctx, token)
	return err
}

// Wrong says what was not as it should be when the hub last gave a token: the clocks, and the versions. Each is a *state.UserError.
func (h *Hub) Wrong(version string) (wrong []error) {
	if h != nil && h.Ahead.Abs() > clocksApart {
		wrong = append(wrong, &state.UserError{Err: fmt.Errorf("this machine's clock is %s off the hub's", h.Ahead.Abs()),
			Hint: "have the system set its clock; then gchat-hooks doctor compares them again"})
	}
	if h != nil && h.Version != version {
		wrong = append(wrong, &state.UserError{Err: fmt.Errorf("the hub has version %s of gchat-hooks, and this machine %s",
			Line(Cut(h.Version, 40)), version), Hint: "have the older one updated; then gchat-hooks doctor compares them again"})
	}
	return wrong
}

// ReadPolicy asks the hub of a credentials file for its policy, see config.ReadPolicy. Errors are ErrCredentials, those of answerOf
// and of RoundTrip, and ErrNonsense.
func ReadPolicy(ctx context.Context, credentialsFile string) (json.RawMessage, error) {
	h := ReadHub(credentialsFile)
	if h == nil {
		return nil, fmt.Errorf("%w: %s is no file of a hub", ErrCredentials, credentialsFile)
	}
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/hub/policy", nil)
	if err != nil {
		return nil, errNoHub
	}
	var answer struct{ Policy json.RawMessage }
	b, err := answerOf(h, r)
	if err == nil && (json.Unmarshal(b, &answer) != nil || len(answer.Policy) == 0) {
		err = ErrNonsense
	}
	return answer.Policy, err
}

// failed gives an error of the hub a hint that knows nothing of Google's console.
func (h *Hub) failed(err error) error {
	hint := ""
	switch e := answered(err); {
	case errors.As(err, new(*state.UserError)):
		return err
	case errors.Is(err, errNoHub):
		hint = "see that this is the hub's address: " + h.URL + "; or " + joinAnew
	case e.HTTP == http.StatusUnauthorized:
		hint = joinAnew
	case e.HTTP == http.StatusForbidden, e.HTTP == http.StatusNotFound:
		hint = "this machine was revoked, did not run for a month, or asks for what is another's: " + joinAnew
	case e.HTTP == 0 && !errors.Is(err, ErrNonsense):
		hint = "the hub " + h.URL + " cannot be reached: check the network, or ask who runs it; it is tried again"
	default:
		return err
	}
	return &state.UserError{Err: err, Hint: hint, Code: 1}
}
