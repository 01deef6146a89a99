// Package bound waits for what a test needs, for so long and no longer: it ends a process that stands still, and says what that
// was doing. Only tests import it.
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
	// Patience is how long a process of a test may run, where the test does not say otherwise.
	Patience = time.Minute
	// BuildPatience is how long the Go tool has for gchat-hooks, where all of it is to be compiled.
	BuildPatience = 5 * time.Minute
	// printWait is how long a process has to print its goroutines, and how long its output may stay open after its end.
	printWait = 5 * time.Second
)

// Until waits until something is so. The test fails after Patience, and says what it waited for.
func Until(t testing.TB, what string, so func() bool) {
	t.Helper()
	if !Soon(Patience, so) {
		t.Fatalf("not within %v: %s", Patience, what)
	}
}

// Soon says whether something is so within a time. It looks every ten milliseconds, and at least once.
func Soon(most time.Duration, so func() bool) bool {
	for end := time.Now().Add(most); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Command is exec.Command for a process that is over within Patience. One that is not is ended, and the test fails: it prints
// what the process did, its goroutines and its log.
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	return Within(t, Patience, name, args...)
}

// Within is Command for a process that may take longer, or less long.
func Within(t testing.TB, most time.Duration, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.WaitDelay = 2 * printWait
	t.Cleanup(late(t, cmd, most))
	return cmd
}

// Wait is cmd.Wait for a process that was told to end: it has Patience for that.
func Wait(t testing.TB, cmd *exec.Cmd) error {
	t.Helper()
	defer late(t, cmd, Patience)()
	return cmd.Wait()
}

// late fails a test whose process is there after a time, and ends that. stop ends the watch; it says what the process printed.
func late(t testing.TB, cmd *exec.Cmd, most time.Duration) (stop func()) {
	saw := make(chan string, 1)
	timer := time.AfterFunc(most, func() {
		said := ""
		if cmd.Process != nil && cmd.Process.Signal(syscall.Signal(0)) == nil { // it was started, and not waited for
			said = End(cmd.Process.Pid)
		}
		saw <- said
	})
	return func() {
		if timer.Stop() {
			return
		}
		said := <-saw
		for _, w := range []any{cmd.Stdout, cmd.Stderr} {
			if buffer, ok := w.(interface{ Bytes() []byte }); ok && said != "" { // also what exec.Cmd.Output makes
				said += "it printed\n" + string(bytes.ToValidUTF8(buffer.Bytes(), []byte("?")))
			}
		}
		if said != "" {
			t.Errorf("%q did not end within %v:\n%s", cmd.Args, most, said)
		}
	}
}

// Build builds gchat-hooks, as the README says; with more flags of `go build` where a test says so.
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

// End ends a process and all that have its home folder, where that is a test's: a poller is no child of the hook that started it.
// It returns what they were, and the end of their log. A program in Go prints its goroutines to its standard error first. A hook
// does not: it ends with 0 at every signal, so that Claude Code goes on.
func End(pid int) (said string) {
	all := []int{pid}
	for _, variable := range strings.Split(read(pid, "environ"), "\x00") {
		home, ok := strings.CutPrefix(variable, "HOME=")
		if ok && strings.HasPrefix(home, os.TempDir()) && home != os.Getenv("HOME") {
			all = append(all, with(variable)...)
			log, _ := os.ReadFile(filepath.Join(home, ".claude", "logs", "gchat-hooks.log"))
			said = fmt.Sprintf("the log of %s ends:\n%s\n", home, log[max(0, len(log)-16<<10):])
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for _, pid := range all {
		said += fmt.Sprintf("%d is %q\n", pid, strings.ReplaceAll(read(pid, "cmdline"), "\x00", " "))
		_ = syscall.Kill(pid, syscall.SIGQUIT)
	}
	lives := func(pid int) bool {
		return syscall.Kill(pid, 0) == nil && !strings.Contains(read(pid, "status"), "(zombie)")
	}
	Soon(printWait, func() bool { return !slices.ContainsFunc(all, lives) })
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return said
}

func with(variable string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if slices.Contains(strings.Split(read(pid, "environ"), "\x00"), variable) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// read is a file of a process in /proc; "" where there is none.
func read(pid int, name string) string {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	return string(b)
}
