package inject

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"gchat-hooks/state"
)

// LockPane makes its holder the only one of ours, in any process of this person, that types into the pane;
// state.ErrLocked when another does. Servers are told apart by the socket's real path: /tmp is a link on macOS.
func LockPane(userState string, s Server, pane string) (*state.Lock, error) {
	socket := s.socket()
	if real, err := filepath.EvalSymlinks(socket); err == nil {
		socket = real
	}
	sum := sha256.Sum256([]byte(socket + "\x00" + pane))
	l, err := state.TryLock(filepath.Join(userState, "panes", hex.EncodeToString(sum[:8])+".lock"))
	if err != nil {
		return nil, fmt.Errorf("take pane %s: %w", pane, err)
	}
	return l, nil
}
