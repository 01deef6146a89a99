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

// HubClient is the hub that this machine has joined. Between a team's machines and Google
// stands a hub, which accepts the same calls as Google. HubClient is both the content of
// the credentials file, whose token is for that hub only, and the transport that sends
// requests with the token.
type HubClient struct {
	Type string `json:"type"` // config.HubCredentialsType
	URL  string `json:"hub"`
	// ReceivedAt is when the hub's response arrived, by this machine's clock.
	ReceivedAt time.Time `json:"got"`
	// JoinResponse is the hub's last response. Each renewal of the token replaces it.
	JoinResponse

	file          string // "" before Save
	mu            sync.Mutex
	renewFailedAt time.Time // when the last renewal failed
}

// JoinResponse is a hub's response to a machine that joins or renews its token.
type JoinResponse struct {
	Token   string    `json:"token"` // a secret
	Expires time.Time `json:"expires"`
	// Machine is the hub's name for this machine: 12 hex digits.
	Machine      string `json:"machine"`
	User         string `json:"user"`            // users/ID of the machine's owner
	Email        string `json:"email,omitempty"` // "" if Chat does not give it
	Space        string `json:"space"`           // spaces/S
	Subscription string `json:"subscription"`    // projects/P/subscriptions/S
	// Deciders are the users/ID of the others who may answer in the space. The response
	// to a renewal has none.
	Deciders []string  `json:"deciders,omitempty"`
	Version  string    `json:"version"` // of the hub
	Time     time.Time `json:"time"`    // by the hub's clock, like Expires
}

const (
	// renewRetryPause is how long this process waits after a failed renewal before it
	// tries another one. Meanwhile it uses the old token.
	renewRetryPause = time.Minute
	// policyTimeout is short because a hook reads the policy before it asks.
	policyTimeout      = 3 * time.Second
	maxClockDifference = 2 * time.Minute
	joinAgainHint      = "write join to the app in Google Chat, " +
		"and paste the line that it answers with within ten minutes"
)

// errNotAHub means that the response is one that no hub gives.
var errNotAHub = errors.New("there is no hub at this address")

// LoadHubClient reads a credentials file. It returns nil if the file is not a hub's.
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

// JoinHub exchanges a code for a token. A second call with the same nonce gets the same
// response, because this machine may be killed before it has saved the token. Errors are
// *state.UserError, and *APIError if the hub has trouble.
func JoinHub(ctx context.Context, base, code, nonce, version string) (*HubClient, error) {
	h := &HubClient{Type: config.HubCredentialsType, URL: strings.TrimRight(base, "/")}
	err := h.join(ctx, "", map[string]string{"code": code, "nonce": nonce, "version": version})
	if err != nil {
		return nil, h.withHubHint(fmt.Errorf("join the hub: %w", err))
	}
	return h, nil
}

// Save writes the credentials file, which only its owner can read.
func (h *HubClient) Save(file string) error {
	h.file = file
	b, _ := json.MarshalIndent(h, "", "  ") // texts and times always encode
	return config.WriteSecretFile(file, append(b, '\n'))
}

// joinResponsePattern is what a response's machine, space, subscription and token have to
// match. They are checked because setup writes them into the person's configuration.
var joinResponsePattern = state.LazyPattern(
	`^[0-9a-f]{12} spaces/[\w-]+ projects/[\w.:~+%-]+/subscriptions/[\w.~+%-]+ [!-~]+$`,
)

// join exchanges a code, or an earlier token, for the hub's response, and stores that in
// h. Errors are *APIError, errNotAHub and errors of the connection.
func (h *HubClient) join(ctx context.Context, token string, request map[string]string) error {
	base, err := ParseEndpoint(h.URL)
	if err != nil || base == nil {
		return fmt.Errorf("%w: %q is neither https nor on this machine", errNotAHub, h.URL)
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	// Neither call can fail: texts always encode, and the address was parsed.
	requestBody, _ := json.Marshal(request)
	httpRequest, _ := http.NewRequestWithContext(ctx, http.MethodPost,
		base.String()+"/hub/join", bytes.NewReader(requestBody))
	httpRequest.Header.Set("Content-Type", "application/json")
	body, err := readResponse(h.sendRequest(httpRequest, token))
	if err != nil {
		return err
	}
	var response JoinResponse
	err = json.Unmarshal(body, &response)
	hasBadUserName := slices.ContainsFunc(append(response.Deciders, response.User),
		func(name string) bool { return !config.UserNamePattern().MatchString(name) })
	isWellFormed := joinResponsePattern().MatchString(response.Machine + " " + response.Space +
		" " + response.Subscription + " " + response.Token)
	isOtherMachine := h.Machine != "" && response.Machine != h.Machine
	hasBadTime := response.Time.IsZero() || !response.Expires.After(response.Time)
	if err != nil || hasBadUserName || isOtherMachine || !isWellFormed || hasBadTime {
		return fmt.Errorf("%w: %w", errNotAHub, ErrBadResponse)
	}
	// Round removes the monotonic clock, which does not count a laptop's sleep.
	h.JoinResponse, h.ReceivedAt = response, time.Now().Round(0)
	return nil
}

// readResponse returns the body of a hub's response. Errors are *APIError, errNotAHub and
// errors of the connection.
func readResponse(resp *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	apiErr := readAPIError(resp.StatusCode, resp.Header, body)
	isUnknownForm := apiErr.Status == "" && !IsOverloaded(apiErr)
	switch {
	case err != nil || apiErr.HTTP == http.StatusOK:
		return body, err
	case isUnknownForm || apiErr.HTTP == http.StatusNotFound:
		return nil, fmt.Errorf("%w: %w", errNotAHub, apiErr)
	}
	return nil, apiErr
}

// sendRequest makes a request with a token. If token is "", the request has none.
func (h *HubClient) sendRequest(r *http.Request, token string) (*http.Response, error) {
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return bodyLimiter{http.DefaultTransport}.RoundTrip(r) // RoundTrip follows no redirect
}

// RoundTrip sends a request to the hub, with the token. It refuses a request to any other
// address, which would get the token.
func (h *HubClient) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.String(), h.URL+"/") {
		err := fmt.Errorf("%w: the token is only for the hub %s", ErrCredentials, h.URL)
		hint := "set api_endpoint and pubsub_endpoint (GCHAT_API_ENDPOINT, " +
			"GCHAT_PUBSUB_ENDPOINT) to " + h.URL + ", or credentials_file to another file; " +
			"to join again, " + joinAgainHint
		return nil, &state.UserError{Err: err, Hint: hint, Code: 1}
	}
	token, err := h.freshToken(r.Context(), false)
	if err != nil {
		return nil, err
	}
	return h.sendRequest(r.Clone(r.Context()), token)
}

// needsRenewal reports whether the token is in the second half of its life, or its age is
// unknown because the clock was set back. For a while after a failed renewal it is false.
func (h *HubClient) needsRenewal() bool {
	age := time.Since(h.ReceivedAt)
	return (age < 0 || age >= h.tokenLife()/2) &&
		time.Since(h.renewFailedAt).Abs() > renewRetryPause
}

func (h *HubClient) tokenLife() time.Duration { return h.Expires.Sub(h.Time) }

// freshToken returns a token that the hub accepts. It prefers h's token in the first half
// of its life, then the token that another process saved in the file, then a new one,
// which it saves there. With force it always gets a new one. If several processes renew
// at the same time, the token of each is valid.
func (h *HubClient) freshToken(ctx context.Context, force bool) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !force && !h.needsRenewal() {
		return h.Token, nil
	}
	stored := LoadHubClient(h.file)
	if stored != nil && stored.URL == h.URL && stored.Machine == h.Machine {
		h.JoinResponse, h.ReceivedAt = stored.JoinResponse, stored.ReceivedAt
	}
	if !force && !h.needsRenewal() {
		return h.Token, nil
	}
	oldToken := h.Token
	err := h.join(ctx, oldToken, map[string]string{})
	isRefused := asAPIError(err).HTTP == http.StatusUnauthorized
	if err != nil && !force && !isRefused && time.Since(h.ReceivedAt) < h.tokenLife() {
		h.renewFailedAt = time.Now()
		return oldToken, nil
	}
	if err != nil {
		return "", h.withHubHint(fmt.Errorf("renew the token: %w", err))
	}
	// If this machine joined again meanwhile, the file belongs to that join. If the file
	// cannot be written, the next process renews its token.
	stored = LoadHubClient(h.file)
	if stored != nil && stored.Machine == h.Machine && stored.Token == oldToken {
		_ = h.Save(h.file)
	}
	return h.Token, nil
}

// Problems returns what was wrong when the hub last gave a token: the clocks differ, or
// the versions do. Each is a *state.UserError.
func (h *HubClient) Problems(version string) (problems []error) {
	if h == nil {
		return nil
	}
	difference := h.Time.Sub(h.ReceivedAt).Abs().Round(time.Second)
	if difference > maxClockDifference {
		problems = append(problems, &state.UserError{
			Err:  fmt.Errorf("this machine's clock is %s off the hub's", difference),
			Hint: "let the system set its clock; then run gchat-hooks doctor again",
		})
	}
	if h.Version != version {
		problems = append(problems, &state.UserError{
			Err: fmt.Errorf("the hub has version %s of gchat-hooks, and this machine %s",
				wording.SafeLine(wording.Cut(h.Version, 40)), version),
			Hint: "update the older one; then run gchat-hooks doctor again",
		})
	}
	return problems
}

// ReadPolicy asks the hub of a credentials file for its policy. It is a
// config.PolicyReader. Errors are ErrCredentials, ErrBadResponse, and those of
// readResponse and RoundTrip.
func ReadPolicy(ctx context.Context, credentialsFile string) (json.RawMessage, error) {
	h := LoadHubClient(credentialsFile)
	if h == nil {
		return nil, fmt.Errorf("%w: %s is not a hub's file", ErrCredentials, credentialsFile)
	}
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	// The request cannot fail: LoadHubClient parsed the address.
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/hub/policy", nil)
	var answer struct{ Policy json.RawMessage }
	body, err := readResponse(h.RoundTrip(r))
	if err == nil && (json.Unmarshal(body, &answer) != nil || len(answer.Policy) == 0) {
		err = ErrBadResponse
	}
	return answer.Policy, err
}

// withHubHint gives an error of a hub a hint of its own, which does not send the person
// to Google's console.
func (h *HubClient) withHubHint(err error) error {
	hint := ""
	switch e := asAPIError(err); {
	case errors.As(err, new(*state.UserError)):
		return err
	case errors.Is(err, errNotAHub):
		hint = "check that this is the hub's address: " + h.URL + "; or " + joinAgainHint
	case e.HTTP == http.StatusUnauthorized, IsAlreadyExists(err):
		// A join fails with 409 if another machine used the code.
		hint = joinAgainHint
	case e.HTTP == http.StatusForbidden, e.HTTP == http.StatusNotFound:
		hint = "the app was removed from that space, or the request was for another machine's " +
			"message or space: add the app, or " + joinAgainHint
	case e.HTTP == 0 && !errors.Is(err, ErrBadResponse) && NetworkHint(err) == "":
		hint = "the hub " + h.URL + " cannot be reached: check the network, " +
			"or ask the person who runs the hub; gchat-hooks tries again"
	default:
		return err
	}
	return &state.UserError{Err: err, Hint: hint, Code: 1}
}
