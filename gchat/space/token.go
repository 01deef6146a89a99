package space

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// KeptToken is the token of a space that is reachable from other machines: made once and kept in the data folder, so
// that the link on a phone goes on working.
func KeptToken(data string) (string, error) {
	path := filepath.Join(data, "page-token")
	if b, err := os.ReadFile(path); err == nil && tokenForm().MatchString(strings.TrimSpace(string(b))) {
		return strings.TrimSpace(string(b)), nil
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return "", fmt.Errorf("keep token: %w", err)
	}
	token := randomText(24)
	if err := renameio.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep token: %w", err)
	}
	return token, nil
}

// KeptWebhookURL is the address to post to of the space that is kept in the data folder, for a server at base, also while
// another process has it open. Its errors are those of reading.
func KeptWebhookURL(data, base string) (string, error) {
	b, err := os.ReadFile(filepath.Join(data, secretsFile))
	if err != nil {
		return "", fmt.Errorf("read the space's webhook: %w", err)
	}
	s := &Space{}
	if err := json.Unmarshal(b, &s.secrets); err != nil || s.secrets.Key == "" || s.secrets.Token == "" {
		return "", fmt.Errorf("read the space's webhook: %s is damaged", filepath.Join(data, secretsFile))
	}
	return s.WebhookURL(base), nil
}
