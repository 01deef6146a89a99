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

// HubClient is what a machine holds of the hub that it joined, and what its requests go
// through: a credentials file, whose token is for that hub alone. The hub stands before
// Google for the app's team, and takes the same calls.
type HubClient struct {
	Type string `json:"type"` // config.HubCredentialsType
	URL  string `json:"hub"`
	// by this machine's clock, when the hub answered what follows
	ReceivedAt   time.Time `json:"got"`
	JoinResponse           // its token is renewed

	file          string // "" before it is saved
	mu            sync.Mutex
	renewFailedAt time.Time // when the token could not be renewed
}

// JoinResponse is what a hub answers to a machine that joins, or renews its token.
type JoinResponse struct {
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
	// renewRetryPause is how long a token is used on after the hub could not renew it.
	renewRetryPause = time.Minute
	// policyTimeout bounds reading the policy: a hook that is about to ask waits for it.
	policyTimeout      = 3 * time.Second
	maxClockDifference = 2 * time.Minute
	joinAgainHint      = "write join to the app in Google Chat, and paste the line that it answers with within ten minutes"
)

// errNotAHub is about an answer that no hub gives.
var errNotAHub = errors.New("there is no hub")

// LoadHubClient reads a credentials file; nil where it is none of a hub.
func LoadHubClient(file string) *HubClient {
	b, err := state.ReadPlainOrLink(file, 1<<20)
	h := &HubClient{file: file}
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
func JoinHub(ctx context.Context, base, code, nonce, version string) (*HubClient, error) {
	h := &HubClient{Type: config.HubCredentialsType, URL: strings.TrimRight(base, "/")}
	if err := h.join(ctx, "", map[string]string{"code": code, "nonce": nonce, "version": version}); err != nil {
		return nil, h.withHubHint(fmt.Errorf("join the hub: %w", err))
	}
	return h, nil
}

// Save writes the credentials file, readable by its owner only.
func (h *HubClient) Save(file string) error {
	h.file = file
	b, _ := json.MarshalIndent(h, "", "  ") // texts and times encode
	return config.WriteSecretFile(file, append(b, '\n'))
}

// What a hub answers is written into the person's configuration: machine, space,
// subscription and token, and who may answer.
var joinResponsePattern = state.LazyPattern(
	`^[0-9a-f]{12} spaces/[\w-]+ projects/[\w.:~+%-]+/subscriptions/[\w.~+%-]+ [!-~]+$`,
)

// join takes the hub's answer to a code, or to an earlier token. Errors are *APIError,
// errNotAHub and of the transport.
func (h *HubClient) join(ctx context.Context, token string, request map[string]string) error {
	base, err := ParseEndpoint(h.URL)
	if err != nil || base == nil {
		return fmt.Errorf("%w: %q is neither https nor on this machine", errNotAHub, h.URL)
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	// Texts encode, and the address was parsed.
	requestBody, _ := json.Marshal(request)
	httpRequest, _ := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		base.String()+"/hub/join",
		bytes.NewReader(requestBody),
	)
	httpRequest.Header.Set("Content-Type", "application/json")
	body, err := readResponse(h.sendRequest(httpRequest, token))
	if err != nil {
		return err
	}
	var response JoinResponse
	err = json.Unmarshal(body, &response)
	hasBadUserName := slices.ContainsFunc(
		append(response.Deciders, response.User),
		func(name string) bool {
			return !config.UserNamePattern().MatchString(name)
		},
	)
	isWellFormed := joinResponsePattern().MatchString(strings.Join([]string{response.Machine, response.Space, response.Subscription, response.Token}, " "))
	isOtherMachine := h.Machine != "" && response.Machine != h.Machine
	if err != nil || hasBadUserName || isOtherMachine || !isWellFormed || response.Time.IsZero() ||
		!response.Expires.After(response.Time) {
		return fmt.Errorf("%w: %w", errNotAHub, ErrBadResponse)
	}
	// of a monotonic clock a laptop's sleep would be left out
	h.JoinResponse, h.ReceivedAt = response, time.Now().Round(0)
	return nil
}

// readResponse is what a hub answered. Errors are *APIError, errNotAHub and of the
// transport.
func readResponse(resp *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	apiErr := readAPIError(resp.StatusCode, resp.Header, body)
	switch {
	case err != nil || apiErr.HTTP == http.StatusOK:
		return body, err
	case apiErr.Status == "" && !IsOverloaded(apiErr) || apiErr.HTTP == http.StatusNotFound:
		return nil, fmt.Errorf("%w: %w", errNotAHub, apiErr)
	}
	return nil, apiErr
}

// sendRequest makes a request with a token; none is "".
func (h *HubClient) sendRequest(r *http.Request, token string) (*http.Response, error) {
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return bodyLimiter{http.DefaultTransport}.RoundTrip(r) // it follows no redirect
}

// RoundTrip takes a request to the hub, with the token.
func (h *HubClient) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.String(), h.URL+"/") {
		err := fmt.Errorf("%w: the token is for the hub %s alone", ErrCredentials, h.URL)
		hint := "api_endpoint and pubsub_endpoint (GCHAT_API_ENDPOINT, GCHAT_PUBSUB_ENDPOINT) have to be " + h.URL +
			", or credentials_file another one; to join anew, " + joinAgainHint
		return nil, &state.UserError{Err: err, Hint: hint, Code: 1}
	}
	token, err := h.freshToken(r.Context(), false)
	if err != nil {
		return nil, err
	}
	return h.sendRequest(r.Clone(r.Context()), token)
}

// needsRenewal says that the token is in the second half of its life, or that its age is
// not known: the clock was set back to before it.
func (h *HubClient) needsRenewal() bool {
	age := time.Since(h.ReceivedAt)
	return (age < 0 || age >= h.tokenLife()/2) &&
		time.Since(h.renewFailedAt).Abs() > renewRetryPause
}

func (h *HubClient) tokenLife() time.Duration { return h.Expires.Sub(h.Time) }

// freshToken is a token that the hub takes: the one at hand in the first half of its
// life, else the one that another process wrote into the file, else a new one, which is
// written there; now wants a new one in any case. Of processes that renew at once each
// has a good one.
func (h *HubClient) freshToken(ctx context.Context, force bool) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !force && !h.needsRenewal() {
		return h.Token, nil
	}
	if stored := LoadHubClient(h.file); stored != nil && stored.URL == h.URL &&
		stored.Machine == h.Machine {
		h.JoinResponse, h.ReceivedAt = stored.JoinResponse, stored.ReceivedAt
	}
	if !force && !h.needsRenewal() {
		return h.Token, nil
	}
	oldToken := h.Token
	err := h.join(ctx, oldToken, map[string]string{})
	if err != nil && !force && asAPIError(err).HTTP != http.StatusUnauthorized &&
		time.Since(h.ReceivedAt) < h.tokenLife() {
		h.renewFailedAt = time.Now()
		return oldToken, nil
	}
	if err != nil {
		return "", h.withHubHint(fmt.Errorf("renew the token: %w", err))
	}
	// Where this machine joined anew meanwhile, the file is of that. One that cannot be
	// written is renewed by the next process.
	if stored := LoadHubClient(h.file); stored != nil && stored.Machine == h.Machine &&
		stored.Token == oldToken {
		_ = h.Save(h.file)
	}
	return h.Token, nil
}

// Problems says what was not as it should be when the hub last gave a token: the clocks,
// the versions. Each is a *state.UserError.
func (h *HubClient) Problems(version string) (problems []error) {
	if h == nil {
		return nil
	}
	if difference := h.Time.Sub(h.ReceivedAt).Abs().Round(time.Second); difference > maxClockDifference {
		problems = append(
			problems,
			&state.UserError{
				Err:  fmt.Errorf("this machine's clock is %s off the hub's", difference),
				Hint: "have the system set its clock; then gchat-hooks doctor compares them again",
			},
		)
	}
	if h.Version != version {
		problems = append(
			problems,
			&state.UserError{Err: fmt.Errorf(
				"the hub has version %s of gchat-hooks, and this machine %s",
				wording.SafeLine(wording.Cut(h.Version, 40)),
				version,
			), Hint: "have the older one updated; then gchat-hooks doctor compares them again"},
		)
	}
	return problems
}

// ReadPolicy asks the hub of a credentials file for its policy, see
// config.PolicyReader. Errors are ErrCredentials, those of readResponse and of RoundTrip,
// and ErrBadResponse.
func ReadPolicy(ctx context.Context, credentialsFile string) (json.RawMessage, error) {
	h := LoadHubClient(credentialsFile)
	if h == nil {
		return nil, fmt.Errorf("%w: %s is no file of a hub", ErrCredentials, credentialsFile)
	}
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	// it was parsed
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/hub/policy", nil)
	var answer struct{ Policy json.RawMessage }
	body, err := readResponse(h.RoundTrip(r))
	if err == nil && (json.Unmarshal(body, &answer) != nil || len(answer.Policy) == 0) {
		err = ErrBadResponse
	}
	return answer.Policy, err
}

// withHubHint gives an error of the hub a hint that knows nothing of Google's console.
func (h *HubClient) withHubHint(err error) error {
	hint := ""
	switch e := asAPIError(err); {
	case errors.As(err, new(*state.UserError)):
		return err
	case errors.Is(err, errNotAHub):
		hint = "see that this is the hub's address: " + h.URL + "; or " + joinAgainHint
	case e.HTTP == http.StatusUnauthorized, IsAlreadyExists(err):
		// of joining: another machine used the code
		hint = joinAgainHint
	case e.HTTP == http.StatusForbidden, e.HTTP == http.StatusNotFound:
		hint = "the app is no longer in that space, or this machine asks for what is another's: add the app, or " + joinAgainHint
	case e.HTTP == 0 && !errors.Is(err, ErrBadResponse) && NetworkHint(err) == "":
		hint = "the hub " + h.URL + " cannot be reached: check the network, or ask who runs it; it is tried again"
	default:
		return err
	}
	return &state.UserError{Err: err, Hint: hint, Code: 1}
}
