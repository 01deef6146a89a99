package space

import (
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
