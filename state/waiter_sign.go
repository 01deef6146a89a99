package state

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// SignWaiter writes into the question's waiter lock which process waits for the answer, and under which name. Only the
// holder of the lock calls it. It is for status alone: what cannot be written is left out.
func SignWaiter(q *Question, name string) {
	_ = os.WriteFile(waiterPath(q), fmt.Appendf(nil, "%d %s\n", os.Getpid(), name), 0o600)
}

// WaiterOf says whether a living process waits for the question's answer and, where that process signed, which: its pid and
// the name that it runs under.
func WaiterOf(q *Question) (pid int, name string, waits bool) {
	// Whoever looks whether somebody waits holds the lock for an instant, and has not signed: look again before believing it.
	for try := range 3 {
		if !HasWaiter(q) {
			return 0, "", false
		}
		if pid, name = signature(waiterPath(q)); pid != 0 {
			return pid, name, true
		}
		if try < 2 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	return 0, "", true
}

// signature is what a waiter wrote into its lock; 0 when nobody did, or when that process is gone and another one holds the
// lock for a moment.
func signature(path string) (pid int, name string) {
	b, _ := os.ReadFile(path)
	first, name, _ := strings.Cut(strings.TrimSpace(string(b[:min(len(b), 200)])), " ")
	pid, _ = strconv.Atoi(first)
	if pid <= 0 {
		return 0, ""
	}
	if err := syscall.Kill(pid, 0); err != nil && err != syscall.EPERM {
		return 0, ""
	}
	return pid, name
}
