package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gchat-hooks/state"
)

// What the configuration does not show stands in the user state as empty files: setup goes by them when it goes on.
const (
	notTried  = "setup-not-tried"  // what is posted or read with is new
	wasTried  = "setup-tried"      // a message went there and back, or was not to
	noService = "setup-no-service" // the person does not want it
)

func (s *setup) markFile(name string) string { return filepath.Join(state.UserState(s.env), name) }

func (s *setup) marked(name string) bool {
	_, err := os.Lstat(s.markFile(name))
	return err == nil
}

func (s *setup) mark(name string) error {
	if err := s.begun(); err != nil {
		return err
	}
	if err := os.WriteFile(s.markFile(name), nil, 0o600); err != nil {
		return fmt.Errorf("note how far setup is: %w", err)
	}
	return nil
}

func (s *setup) unmark(name string) error {
	if err := os.Remove(s.markFile(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("note how far setup is: %w", err)
	}
	return nil
}
