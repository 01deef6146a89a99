package gchat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// Hub is what a machine holds of the hub that it joined, and what its requests go
// through: a credentials file, whose token is for that hub alone. The hub stands before
// Google for the app's team, and takes the same calls.
type Hub struct {
	Type   string    `json:"type"` // config.HubCredentialsType
	URL    string    `json:"hub"`
	Got    time.Time `json:"got"` // by this machine's clock, when the hub answered what follows
	Joined           // its token is renewed

	file  string // "" before it is saved
	mu    sync.Mutex
	tried time.Time // when the token could not be renewed
}

// Joined is what a hub answers to a machine that joins, or renews its token.
type Joined struct {
	Token   string    `json:"token"` // a secret
	Expires time.Time `json:"expires"`
	// how the hub calls this machine: 12 hex digits
	Machine      string `json:"machine"`
	User         string `json:"user"`            // users/ID: whose machine it is
	Email        string `json:"email,omitempty"` // where Chat told it
	Space        string `json:"space"`           // spaces/S
	Subscription string `json:"subscription"`    // projects/P/subscriptions/S
	// users/ID: who else may answer there; not told with a renewal
	Deciders []string  `json:"deciders,omitempty"`
	Version  string    `json:"version"` // of the hub
	Time     time.Time `json:"time"`    // by the hub's clock, as Expires
}

const (
	// renewPause is how long a token is used on after the hub could not renew it.
	renewPause = time.Minute
	// policyTimeout bounds reading the policy: a hook that is about to ask waits for it.
	policyTimeout = 3 * time.Second
	clocksApart   = 2 * time.Minute
	joinAnew      = "write join to the app in Google Chat, and paste the line that it answers with within ten minutes"
)

// errNoHub is about an answer that no hub gives.
var errNoHub = errors.New("there is no hub")

// ReadHub reads a credentials file; nil where it is none of a hub.
func ReadHub(file string) *Hub {
	b, err := state.ReadPlainOrLink(file, 1<<20)
	h := &Hub{file: file}
	if err != nil || json.Unmarshal(b, h) != nil || h.Type != config.HubCredentialsType {
		return nil
	}
	if base, err := ParseEndpoint(h.URL); err != nil || base == nil {
		return nil
	}
	return h
}

// JoinHub exchanges a code for a token. The same nonce gets the same answer again: this
// machine may be killed before it wrote the token down. Errors are *state.UserError, and
// *APIError of a hub in trouble.
func JoinHub(ctx context.Context, base, code, nonce, version string) (*Hub, error) {
	h := &Hub{Type: config.HubCredentialsType, URL: strings.TrimRight(base, "/")}
	if err := h.join(ctx, "", map[string]string{"code": code, "nonce": nonce, "version": version}); err != nil {
		return nil, h.failed(fmt.Errorf("join the hub: %w", err))
	}
	return h, nil
}

// Save writes the credentials file, readable by its owner only.
func (h *Hub) Save(file string) error {
	h.file = file
	b, _ := json.MarshalIndent(h, "", "  ") // texts and times encode
	return config.WriteSecretFile(file, append(b, '\n'))
}

// What a hub answers is written into the person's configuration: machine, space,
// subscription and token, and who may answer.
var joinedForm = state.LazyPattern(
	`^[0-9a-f]{12} spaces/[\w-]+ projects/[\w.:~+%-]+/subscriptions/[\w.~+%-]+ [!-~]+$`,
)

// join takes the hub's answer to a code, or to an earlier token. Errors are *APIError,
// errNoHub and of the transport.
func (h *Hub) join(ctx context.Context, token string, in map[string]string) error {
	base, err := ParseEndpoint(h.URL)
	if err != nil || base == nil {
		return fmt.Errorf("%w: %q is neither https nor on this machine", errNoHub, h.URL)
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	// Texts encode, and the address was parsed.
	body, _ := json.Marshal(in)
	r, _ := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		base.String()+"/hub/join",
		bytes.NewReader(body),
	)
	r.Header.Set("Content-Type", "application/json")
	answer, err := answerOf(h.send(r, token))
	if err != nil {
		return err
	}
	var j Joined
	err = json.Unmarshal(answer, &j)
	stranger := slices.ContainsFunc(append(j.Deciders, j.User), func(who string) bool {
		return !config.UserNamePattern().MatchString(who)
	})
	well := joinedForm().MatchString(strings.Join([]string{j.Machine, j.Space, j.Subscription, j.Token}, " "))
	another := h.Machine != "" && j.Machine != h.Machine
	if err != nil || stranger || another || !well || j.Time.IsZero() || !j.Expires.After(j.Time) {
		return fmt.Errorf("%w: %w", errNoHub, ErrNonsense)
	}
	// of a monotonic clock a laptop's sleep would be left out
	h.Joined, h.Got = j, time.Now().Round(0)
	return nil
}

// answerOf is what a hub answered. Errors are *APIError, errNoHub and of the transport.
func answerOf(resp *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	e := answeredError(resp.StatusCode, resp.Header, answer)
	switch {
	case err != nil || e.HTTP == http.StatusOK:
		return answer, err
	case e.Status == "" && !Overloaded(e) || e.HTTP == http.StatusNotFound:
		return nil, fmt.Errorf("%w: %w", errNoHub, e)
	}
	return nil, e
}

// send makes a request with a token; none is "".
func (h *Hub) send(r *http.Request, token string) (*http.Response, error) {
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return limitBodies{http.DefaultTransport}.RoundTrip(r) // it follows no redirect
}

// RoundTrip takes a request to the hub, with the token.
func (h *Hub) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.String(), h.URL+"/") {
		err := fmt.Errorf("%w: the token is for the hub %s alone", ErrCredentials, h.URL)
		hint := "api_endpoint and pubsub_endpoint (GCHAT_API_ENDPOINT, GCHAT_PUBSUB_ENDPOINT) have to be " + h.URL +
			", or credentials_file another one; to join anew, " + joinAnew
		return nil, &state.UserError{Err: err, Hint: hint, Code: 1}
	}
	token, err := h.fresh(r.Context(), false)
	if err != nil {
		return nil, err
	}
	return h.send(r.Clone(r.Context()), token)
}

// due says that the token is in the second half of its life, or that its age is not
// known: the clock was set back to before it.
func (h *Hub) due() bool {
	age := time.Since(h.Got)
	return (age < 0 || age >= h.life()/2) && time.Since(h.tried).Abs() > renewPause
}

func (h *Hub) life() time.Duration { return h.Expires.Sub(h.Time) }

// fresh is a token that the hub takes: the one at hand in the first half of its life,
// else the one that another process wrote into the file, else a new one, which is written
// there; now wants a new one in any case. Of processes that renew at once each has a good
// one.
func (h *Hub) fresh(ctx context.Context, now bool) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !now && !h.due() {
		return h.Token, nil
	}
	if kept := ReadHub(h.file); kept != nil && kept.URL == h.URL && kept.Machine == h.Machine {
		h.Joined, h.Got = kept.Joined, kept.Got
	}
	if !now && !h.due() {
		return h.Token, nil
	}
	old := h.Token
	err := h.join(ctx, old, map[string]string{})
	if err != nil && !now && answered(err).HTTP != http.StatusUnauthorized &&
		time.Since(h.Got) < h.life() {
		h.tried = time.Now()
		return old, nil
	}
	if err != nil {
		return "", h.failed(fmt.Errorf("renew the token: %w", err))
	}
	// Where this machine joined anew meanwhile, the file is of that. One that cannot be
	// written is renewed by the next process.
	if kept := ReadHub(h.file); kept != nil && kept.Machine == h.Machine && kept.Token == old {
		_ = h.Save(h.file)
	}
	return h.Token, nil
}

// Wrong says what was not as it should be when the hub last gave a token: the clocks, the
// versions. Each is a *state.UserError.
func (h *Hub) Wrong(version string) (wrong []error) {
	if h == nil {
		return nil
	}
	if off := h.Time.Sub(h.Got).Abs().Round(time.Second); off > clocksApart {
		wrong = append(
			wrong,
			&state.UserError{Err: fmt.Errorf("this machine's clock is %s off the hub's", off),
				Hint: "have the system set its clock; then gchat-hooks doctor compares them again"},
		)
	}
	if h.Version != version {
		wrong = append(
			wrong,
			&state.UserError{Err: fmt.Errorf(
				"the hub has version %s of gchat-hooks, and this machine %s",
				wording.Line(
					wording.Cut(h.Version, 40),
				),
				version,
			), Hint: "have the older one updated; then gchat-hooks doctor compares them again"},
		)
	}
	return wrong
}

// PolicyReader asks the hub of a credentials file for its policy, see
// config.PolicyReader. Errors are ErrCredentials, those of answerOf and of RoundTrip, and
// ErrNonsense.
func ReadPolicy(ctx context.Context, credentialsFile string) (json.RawMessage, error) {
	h := ReadHub(credentialsFile)
	if h == nil {
		return nil, fmt.Errorf("%w: %s is no file of a hub", ErrCredentials, credentialsFile)
	}
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	// it was parsed
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/hub/policy", nil)
	var answer struct{ Policy json.RawMessage }
	b, err := answerOf(h.RoundTrip(r))
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
	case e.HTTP == http.StatusUnauthorized, AlreadyExists(err):
		// of joining: another machine used the code
		hint = joinAnew
	case e.HTTP == http.StatusForbidden, e.HTTP == http.StatusNotFound:
		hint = "the app is no longer in that space, or this machine asks for what is another's: add the app, or " + joinAnew
	case e.HTTP == 0 && !errors.Is(err, ErrNonsense) && NetworkHint(err) == "":
		hint = "the hub " + h.URL + " cannot be reached: check the network, or ask who runs it; it is tried again"
	default:
		return err
	}
	return &state.UserError{Err: err, Hint: hint, Code: 1}
}
