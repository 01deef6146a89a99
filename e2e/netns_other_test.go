//go:build !linux

package e2e

import (
	"runtime"
	"testing"
)

const runVariable = "GCHAT_E2E_RUN"

func runIsolated(m *testing.M) int {
	noNamespace = "there are none on " + runtime.GOOS
	return m.Run()
}
