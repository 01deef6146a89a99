//go:build !linux

package inject

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// alive says whether a process is there. One that has ended and was not asked for its end yet counts: to tell it apart
// would cost a process every two seconds.
func alive(pid int) bool { return pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// StartOf is when the process started, to the second, in UTC; "" when that cannot be told.
func StartOf(pid int) string {
	out, err := ps("-o", "lstart=", "-p", strconv.Itoa(pid))
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(out), " ")
}

// processes is the process table.
func processes() (map[int]process, error) {
	// The name comes last: with macOS it is a path, which may hold blanks.
	out, err := ps("-axo", "pid=,ppid=,pgid=,tpgid=,tty=,stat=,comm=")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := map[int]process{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 7 {
			continue
		}
		number := func(i int) int { n, _ := strconv.Atoi(f[i]); return n }
		p := process{
			pid: number(0), parent: number(1), group: number(2), foreground: number(3), terminal: f[4],
			name: strings.Join(f[6:], " "), stopped: strings.HasPrefix(f[5], "T"), dead: strings.HasPrefix(f[5], "Z"),
		}
		if strings.Trim(p.terminal, "?-") == "" {
			p.terminal = ""
		}
		if p.pid > 0 {
			all[p.pid] = p
		}
	}
	return all, nil
}

func processOf(pid int) (process, bool) {
	all, _ := processes()
	p, ok := all[pid]
	return p, ok
}

// argsOf splits at blanks: ps does not say where an argument ends.
func argsOf(pid int) []string {
	out, err := ps("-ww", "-o", "args=", "-p", strconv.Itoa(pid))
	if err != nil {
		return nil
	}
	return strings.Fields(out)
}

// ps has words and times of its own for every language and zone: one of each makes records compare equal.
func ps(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/ps", args...)
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin"}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return string(out), err
}
