package cli

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gchat-hooks/e2e/bound"
)

// ptyDialog is a person's ptyDialog with a program in it: what they see, and what they type.
type ptyDialog struct {
	t    *testing.T
	pty  *os.File
	cmd  *exec.Cmd
	mu   sync.Mutex
	seen strings.Builder // all of it
	from int             // what expect has not passed yet
}

// inTerminal starts a program on a ptyDialog of its own.
func inTerminal(t *testing.T, env []string, name string, args ...string) *ptyDialog {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals to be had: ", err)
	}
	n, err := unix.IoctlGetInt(int(pty.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(pty.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals to be had: ", err)
	}
	defer tty.Close()
	x := &ptyDialog{t: t, pty: pty, cmd: exec.Command(name, args...)}
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr, x.cmd.Env = tty, tty, tty, env
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := pty.Read(buf)
			x.mu.Lock()
			x.seen.Write(buf[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill()
		_ = x.cmd.Wait()
		pty.Close()
		<-read
	})
	return x
}

func (x *ptyDialog) screen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.ReplaceAll(x.seen.String(), "\r\n", "\n")
}

// expect waits until something that matches shows, below what the last one found.
func (x *ptyDialog) expect(pattern string) string {
	x.t.Helper()
	re := regexp.MustCompile(pattern)
	var screen string
	var at []int
	shows := bound.Soon(bound.Patience, func() bool {
		screen = x.screen()
		at = re.FindStringIndex(screen[x.from:])
		return at != nil
	})
	if !shows {
		x.t.Fatalf("%q does not show below %q:\n%s\n%s", pattern, screen[max(0, x.from-60):x.from], screen, x.stands())
	}
	found := screen[x.from+at[0] : x.from+at[1]]
	x.from += at[1]
	return found
}

// stands ends the program, and returns what it did and, from its terminal, its goroutines.
func (x *ptyDialog) stands() string {
	before := len(x.screen())
	saw := bound.End(x.cmd.Process.Pid)
	return saw + x.screen()[before:]
}

func (x *ptyDialog) typed(text string) {
	x.t.Helper()
	if _, err := x.pty.WriteString(text); err != nil {
		x.t.Fatal(err)
	}
}

// answer types a line when the question shows.
func (x *ptyDialog) answer(question, line string) {
	x.t.Helper()
	x.expect(question)
	x.typed(line + "\n")
}

// ends waits for the program, and returns its exit code.
func (x *ptyDialog) ends() int {
	x.t.Helper()
	done := make(chan error, 1)
	go func() { done <- x.cmd.Wait() }()
	select {
	case <-done:
		return x.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		x.t.Fatalf("it does not end:\n%s\n%s", x.screen(), x.stands())
		return -1
	}
}
