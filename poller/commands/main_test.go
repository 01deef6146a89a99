package commands

import (
	"os"
	"testing"

	"gchat-hooks/e2e/underlock"
)

// These tests fail if anything slow happens while a record is locked.
func TestMain(m *testing.M) { os.Exit(underlock.Run(m)) }
