package gchat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// policyTimeout bounds reading a hub's policy: a hook that is about to ask waits for it.
const policyTimeout = 3 * time.Second

// ReadPolicy asks the hub of a credentials file for its policy. Errors are ErrCredentials, ErrEndpoint, *APIError, ErrNonsense and
// the network's.
func ReadPolicy(ctx context.Context, credentialsFile string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	hub, token, err := hubToken(credentialsFile)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(hub.String(), "/")+"/hub/policy", nil)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := noRedirects.Do(r)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", unquote(err))
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	var answer struct{ Policy json.RawMessage }
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("read policy: %w", answeredError(resp.StatusCode, resp.Header, b))
	case cmp.Or(err, json.Unmarshal(b, &answer)) != nil || len(answer.Policy) == 0:
		return nil, fmt.Errorf("read policy: %w", ErrNonsense)
	}
	return answer.Policy, nil
}

// hubToken reads where a hub is, and the token that goes there and nowhere else.
func hubToken(file string) (hub *url.URL, token string, err error) {
	var joined struct{ Hub, Token string }
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &joined)
	}
	if err != nil || joined.Token == "" {
		return nil, "", fmt.Errorf("%w: %s has no hub's token", ErrCredentials, file)
	}
	hub, err = ParseEndpoint(joined.Hub)
	if err == nil && hub == nil {
		err = ErrEndpoint
	}
	return hub, joined.Token, err
}
