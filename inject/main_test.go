package inject

import (
	"os"
	"testing"

	"gchat-hooks/e2e/underlock"
)

// Nothing slow happens under a record's lock in these tests.
func TestMain(m *testing.M) { os.Exit(underlock.Run(m)) }
