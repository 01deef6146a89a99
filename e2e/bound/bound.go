// Package bound ends a process of a test that stands still, and says what it was doing. Only tests import it.
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
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience is how long a process of a test may run, where the test does not say otherwise.
const Patience = time.Minute

// printWait is how long a process has to print its goroutines.
const printWait = 5 * time.Second

// pipesWait is how long the output of a process may stay open after its end: a poller that it started must not hold it.
const pipesWait = 10 * time.Second

// Command is exec.Command for a process that is over within Patience. One that is not is ended, and the test fails: it prints
// what the process did, its goroutines and its log.
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	return Within(t, Patience, name, args...)
}

// Within is Command for a process that may take longer, or less long.
func Within(t testing.TB, most time.Duration, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	cmd := exec.CommandContext(ctx, name, args...)
	var mu sync.Mutex
	var saw string
	cmd.Cancel = func() error {
		if ctx.Err() != context.DeadlineExceeded {
			return cmd.Process.Kill()
		}
		mu.Lock()
		defer mu.Unlock()
		saw = End(cmd.Process.Pid)
		return nil
	}
	cmd.WaitDelay = pipesWait
	t.Cleanup(func() {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		if saw != "" {
			t.Errorf("%q did not end within %v:\n%sit printed\n%s%s", cmd.Args, most, saw, printed(cmd.Stdout), printed(cmd.Stderr))
		}
	})
	return cmd
}

// BuildPatience is how long the Go tool has for gchat-hooks, where all of it is to be compiled.
const BuildPatience = 5 * time.Minute

// Build builds gchat-hooks, as the README says.
func Build(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), BuildPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "urfave_cli_no_docs", "-o", path, "gchat-hooks")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	saw := ""
	cmd.Cancel = func() error {
		saw = End(cmd.Process.Pid)
		return nil
	}
	cmd.WaitDelay = pipesWait
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build gchat-hooks: %w: %s%s", err, out, saw)
	}
	return nil
}

// Wait is cmd.Wait for a process that was told to end: it has Patience for that.
func Wait(t testing.TB, cmd *exec.Cmd) error {
	t.Helper()
	saw := make(chan string, 1)
	late := time.AfterFunc(Patience, func() { saw <- End(cmd.Process.Pid) })
	err := cmd.Wait()
	if !late.Stop() {
		t.Errorf("%q did not end within %v:\n%sit printed\n%s%s", cmd.Args, Patience, <-saw, printed(cmd.Stdout), printed(cmd.Stderr))
	}
	return err
}

// Children ends those processes that this program started with a variable, such as "WORK=/tmp/x", and that are there after
// Patience. It tells what they did. The caller's stop ends the watch. It needs /proc.
func Children(variable string, tell func(string)) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		since := map[int]time.Time{}
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			for _, p := range processes() {
				if p.parent != os.Getpid() || !slices.Contains(p.environ(), variable) {
					continue
				}
				if since[p.pid].IsZero() {
					since[p.pid] = time.Now()
				}
				if time.Since(since[p.pid]) > Patience {
					delete(since, p.pid)
					tell(fmt.Sprintf("%s did not end within %v:\n%s", p.command(), Patience, End(p.pid)))
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// End ends a process and all that it started, and returns what they did and their logs. A program in Go prints its goroutines to
// its standard error first. A hook does not: it ends with 0 at every signal, so that Claude Code goes on.
func End(pid int) string {
	all := processes()
	ours := all.below(pid)
	var b strings.Builder
	var homes []string
	for _, p := range ours {
		if home := p.home(); strings.HasPrefix(home, os.TempDir()) && home != os.Getenv("HOME") && !slices.Contains(homes, home) {
			homes = append(homes, home)
		}
	}
	for _, p := range all { // a poller is no child of the hook that started it
		if slices.Contains(homes, p.home()) && !slices.Contains(ours, p) {
			ours = append(ours, p)
		}
	}
	for _, p := range ours {
		p.describe(&b)
	}
	for _, home := range homes {
		fmt.Fprintf(&b, "the log of %s ends:\n%s\n", home, logOf(home))
	}
	if len(ours) == 0 {
		ours = []process{{pid: pid}} // no /proc
	}
	for _, p := range ours {
		_ = syscall.Kill(p.pid, syscall.SIGQUIT)
	}
	lives := func(p process) bool { return slices.Contains(processes(), p) }
	for end := time.Now().Add(printWait); slices.ContainsFunc(ours, lives) && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	for _, p := range ours {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	return b.String()
}

// logOf is the end of the log of gchat-hooks.
func logOf(home string) string {
	b, err := os.ReadFile(filepath.Join(home, ".claude", "logs", "gchat-hooks.log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-16<<10):])
}

// printed is what a command wrote into a buffer of the test.
func printed(w any) string {
	switch w := w.(type) {
	case interface{ Bytes() []byte }: // also what exec.Cmd.Output makes
		return string(bytes.ToValidUTF8(w.Bytes(), []byte("?")))
	case fmt.Stringer:
		return w.String()
	}
	return ""
}

// process is one of /proc.
type process struct{ pid, parent int }

type processList []process

func processes() (all processList) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		b, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " ") // the name before may hold anything
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		p := process{}
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
		p.parent, _ = strconv.Atoi(fields[1])
		all = append(all, p)
	}
	return all
}

// below are a process and all that it started, as far as their parents live.
func (all processList) below(pid int) (tree processList) {
	for _, p := range all {
		if p.pid == pid {
			tree = append(tree, p)
		}
	}
	for i := 0; i < len(tree); i++ {
		for _, p := range all {
			if p.parent == tree[i].pid {
				tree = append(tree, p)
			}
		}
	}
	return tree
}

func (p process) read(name string) string {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), name))
	return string(b)
}

func (p process) environ() []string { return strings.Split(p.read("environ"), "\x00") }

func (p process) home() (home string) {
	for _, variable := range p.environ() {
		if value, ok := strings.CutPrefix(variable, "HOME="); ok {
			home = value
		}
	}
	return home
}

func (p process) command() string {
	return fmt.Sprintf("%d %q", p.pid, strings.Split(strings.TrimSuffix(p.read("cmdline"), "\x00"), "\x00"))
}

// describe says where the threads of a process wait in the kernel, and what it has open.
func (p process) describe(b *strings.Builder) {
	fmt.Fprintf(b, "%s, of %d\n  waits in", p.command(), p.parent)
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", p.pid))
	for _, file := range threads {
		at, _ := os.ReadFile(file)
		fmt.Fprintf(b, " %s", at)
	}
	fmt.Fprint(b, "\n  has open")
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
	for _, file := range open {
		to, _ := os.Readlink(file)
		fmt.Fprintf(b, " %s:%s", filepath.Base(file), to)
	}
	fmt.Fprintln(b)
}
