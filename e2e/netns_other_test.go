//go:build !linux

package e2e

import (
	"runtime"
	"testing"
)

const runVar = "GCHAT_E2E_RUN"

func isolated(m *testing.M) int {
	noNamespace = "there are none on " + runtime.GOOS
	return m.Run()
}
