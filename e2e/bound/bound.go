// Package bound waits for what a test needs, for so long and no longer: it ends a process
// that stands still, and says what that was doing. Only tests import it.
package bound

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// Patience is how long a process of a test may run, where the test does not say
	// otherwise.
	Patience = time.Minute
	// BuildPatience is how long the Go tool has for gchat-hooks, where all of it is to be
	// compiled.
	BuildPatience = 5 * time.Minute
	// printWait is how long a process has to print its goroutines, and how long its
	// output may stay open after its end.
	printWait = 5 * time.Second
)

// Until waits until something is so. The test fails after Patience, and says what it
// waited for.
func Until(t testing.TB, what string, isSo func() bool) {
	t.Helper()
	if !WaitFor(Patience, isSo) {
		t.Fatalf("not within %v: %s", Patience, what)
	}
}

// WaitFor says whether something is so within a time. It looks at least once, after ten
// milliseconds, and then ever less often: a look may cost more than the wait.
func WaitFor(timeout time.Duration, isSo func() bool) bool {
	deadline, interval := time.Now().Add(timeout), 10*time.Millisecond
	for !isSo() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(interval)
		interval = min(interval*5/4, 50*time.Millisecond)
	}
	return true
}

// Command is exec.Command for a process that is over within Patience. One that is not is
// ended, and the test fails: it prints what the process did, its goroutines and its log.
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	return Within(t, Patience, name, args...)
}

// Within is Command for a process that may take longer, or less long.
func Within(t testing.TB, timeout time.Duration, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.WaitDelay = 2 * printWait
	t.Cleanup(watchDeadline(t, cmd, timeout))
	return cmd
}

// Wait is cmd.Wait for a process that was told to end: it has Patience for that.
func Wait(t testing.TB, cmd *exec.Cmd) error {
	t.Helper()
	defer watchDeadline(t, cmd, Patience)()
	return cmd.Wait()
}

// watchDeadline fails a test whose process is there after a time, and ends that. stop
// ends the watch; it says what the process printed.
func watchDeadline(t testing.TB, cmd *exec.Cmd, timeout time.Duration) (stop func()) {
	dumps := make(chan string, 1)
	timer := time.AfterFunc(timeout, func() {
		dump := ""
		if cmd.Process != nil && cmd.Process.Signal(syscall.Signal(0)) == nil {
			// it was started, and not waited for
			dump = Kill(cmd.Process.Pid)
		}
		dumps <- dump
	})
	return func() {
		if timer.Stop() {
			return
		}
		dump := <-dumps
		for _, w := range []any{cmd.Stdout, cmd.Stderr} {
			if buffer, ok := w.(interface{ Bytes() []byte }); ok && dump != "" {
				// also what exec.Cmd.Output makes
				dump += "it printed\n" + string(bytes.ToValidUTF8(buffer.Bytes(), []byte("?")))
			}
		}
		if dump != "" {
			t.Errorf("%q did not end within %v:\n%s", cmd.Args, timeout, dump)
		}
	}
}

// Build builds gchat-hooks, as the README says; with more flags of `go build` where a
// test says so.
func Build(path string, flags ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), BuildPatience)
	defer cancel()
	args := append([]string{"build", "-tags", "urfave_cli_no_docs", "-o", path}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "gchat-hooks")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build gchat-hooks: %w: %s", err, out)
	}
	return nil
}

// Kill ends a process and all that have its home folder, where that is a test's: a poller
// is no child of the hook that started it. It returns what they were, and the end of
// their log. A program in Go prints its goroutines to its standard error first. A hook
// does not: it ends with 0 at every signal, so that Claude Code goes on.
func Kill(pid int) (report string) {
	pids := []int{pid}
	for _, variable := range strings.Split(readProc(pid, "environ"), "\x00") {
		home, ok := strings.CutPrefix(variable, "HOME=")
		if ok && strings.HasPrefix(home, os.TempDir()) && home != os.Getenv("HOME") {
			pids = append(pids, pidsWith(variable)...)
			log, _ := os.ReadFile(filepath.Join(home, ".claude", "logs", "gchat-hooks.log"))
			report = fmt.Sprintf("the log of %s ends:\n%s\n", home, log[max(0, len(log)-16<<10):])
		}
	}
	slices.Sort(pids)
	pids = slices.Compact(pids)
	for _, pid := range pids {
		report += fmt.Sprintf("%d is %q\n", pid, strings.ReplaceAll(readProc(pid, "cmdline"), "\x00", " "))
		_ = syscall.Kill(pid, syscall.SIGQUIT)
	}
	lives := func(pid int) bool {
		return syscall.Kill(pid, 0) == nil && !strings.Contains(readProc(pid, "status"), "(zombie)")
	}
	WaitFor(printWait, func() bool { return !slices.ContainsFunc(pids, lives) })
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return report
}

func pidsWith(variable string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if slices.Contains(strings.Split(readProc(pid, "environ"), "\x00"), variable) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// readProc is a file of a process in /proc; "" where there is none.
func readProc(pid int, name string) string {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	return string(b)
}
