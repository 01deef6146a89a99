//go:build !linux

package poller

import (
	"errors"
	"syscall"
)

func running(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// Without /proc the start time costs a process to ask; a reused pid is taken for Claude Code until the hook's own end.
func startOf(int) string { return "" }

func claudeAncestor() int { return 0 }
