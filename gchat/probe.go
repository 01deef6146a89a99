package gchat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Probe asks Chat whether it lets the webhook in, and posts nothing: it posts an empty message, which Chat refuses as empty
// ("Message cannot be empty.") once key and token are right, and with other words when they are not. ahead is how far
// Chat's clock is ahead of ours, to about a second, where it told (clock). Errors are those of Post. What stands in for Chat
// may take the empty message and tell its name: it let the webhook in, too.
//
// That Google looks at the token before it looks at the message is what its answers suggest; only a message that comes
// back proves it.
func (w *Webhook) Probe(ctx context.Context) (ahead time.Duration, clock bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader([]byte("{}")))
	if err != nil {
		return 0, false, ErrNotWebhook
	}
	req.Header.Set("Content-Type", "application/json; charset=UTF-8")
	client := w.Client
	if client == nil {
		client = noRedirects
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, false, fmt.Errorf("reach webhook: %w", unquote(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return 0, false, fmt.Errorf("reach webhook: read answer: %w", unquote(err))
	}
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		ahead, clock = time.Until(t), true
	}
	answer := answeredError(resp.StatusCode, resp.Header, body)
	switch {
	case resp.StatusCode == http.StatusBadRequest && !answer.badKey() && answer.Status == "INVALID_ARGUMENT":
		return ahead, clock, nil // refused as empty: let in
	case resp.StatusCode >= 200 && resp.StatusCode < 300 && namesMessage(body):
		return ahead, clock, nil
	case resp.StatusCode < 400:
		return ahead, clock, fmt.Errorf("reach webhook: %w", ErrNonsense)
	}
	return ahead, clock, fmt.Errorf("reach webhook: %w", answer)
}

// namesMessage says that an answer is a message of some space.
func namesMessage(body []byte) bool {
	var created struct {
		Name string `json:"name"`
	}
	return json.Unmarshal(body, &created) == nil && strings.HasPrefix(created.Name, "spaces/")
}
