package poller

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

func running(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	f := statFields(pid)
	return len(f) == 0 || f[0] != "Z"
}

// statFields are the fields of /proc/PID/stat after the command name, which may hold spaces and parentheses.
func statFields(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// startOf is when the process started, in clock ticks since boot.
func startOf(pid int) string {
	if f := statFields(pid); len(f) > 19 {
		return f[19]
	}
	return ""
}

// claudeAncestor finds the Claude Code above this process; before 2.1.214 no variable names it. 0 when there is none.
func claudeAncestor() int {
	pid := os.Getppid()
	for range 6 {
		if pid <= 1 {
			return 0
		}
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if strings.TrimSpace(string(comm)) == "claude" { // also what the npm package's cli.js calls its process
			return pid
		}
		f := statFields(pid)
		if len(f) < 2 {
			return 0
		}
		pid, _ = strconv.Atoi(f[1])
	}
	return 0
}
