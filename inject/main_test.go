package inject

import (
	"os"
	"testing"

	"gchat-hooks/e2e/underlock"
)

// TestMain fails the tests if anything slow happens while a record is locked.
func TestMain(m *testing.M) { os.Exit(underlock.Run(m)) }
