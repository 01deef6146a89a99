package inject

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// isAlive reports whether a process exists and has not ended.
func isAlive(pid int) bool {
	p, exists := processOf(pid)
	return exists && !p.dead
}

// listProcesses reads the process table, as far as it can be read.
func listProcesses() (map[int]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make(map[int]process, len(entries))
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, exists := processOf(pid); exists {
				all[pid] = p
			}
		}
	}
	return all, nil
}

// processOf reads /proc/PID/stat (proc(5)). The name in it may contain blanks and
// parentheses.
func processOf(pid int) (p process, exists bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if err != nil || open < 0 || end < open {
		return p, false
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return p, false
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(f[i])
		return n
	}
	p = process{
		pid:        pid,
		parent:     number(1),
		group:      number(2),
		foreground: number(5),
		terminal:   f[4],
		name:       string(b[open+1 : end]),
		stopped:    f[0] == "T" || f[0] == "t",
		dead:       f[0] == "Z" || f[0] == "X",
		start:      f[19],
	}
	if p.terminal == "0" {
		p.terminal = ""
	}
	return p, true
}

// argsOf returns the arguments with which a process was started, or nil.
func argsOf(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
}
