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
	signWaiter(q, fmt.Sprintf("%d %s\n", os.Getpid(), name))
}

func signWaiter(q *Question, words string) {
	if f, err := OpenPlain(waiterPath(q), os.O_WRONLY|os.O_TRUNC); err == nil {
		_, _ = f.WriteString(words)
		f.Close()
	}
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
	b, _ := ReadPlain(path, 200)
	first, name, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	pid, _ = strconv.Atoi(first)
	if pid <= 0 {
		return 0, ""
	}
	if err := syscall.Kill(pid, 0); err != nil && err != syscall.EPERM {
		return 0, ""
	}
	return pid, name
}
