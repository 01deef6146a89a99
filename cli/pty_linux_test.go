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
	"gchat-hooks/e2e/kit"
)

// ptyDialog is a person's ptyDialog with a program in it: what they see, and what they
// type.
type ptyDialog struct {
	t          *testing.T
	pty        *os.File
	cmd        *exec.Cmd
	mu         sync.Mutex
	output     strings.Builder // all of it
	expectFrom int             // what expect has not passed yet
}

// startInTerminal starts a program on a ptyDialog of its own.
func startInTerminal(t *testing.T, env []string, name string, args ...string) *ptyDialog {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals to be had: ", err)
	}
	n, err := unix.IoctlGetInt(int(pty.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(pty.Fd()), unix.TIOCSPTLCK, 0)
	}
	kit.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals to be had: ", err)
	}
	defer tty.Close()
	dialog := &ptyDialog{t: t, pty: pty, cmd: exec.Command(name, args...)}
	dialog.cmd.Stdin, dialog.cmd.Stdout, dialog.cmd.Stderr, dialog.cmd.Env = tty, tty, tty, env
	dialog.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	kit.NoError(t, dialog.cmd.Start())
	readDone := make(chan struct{})
	go func() {
		defer close(readDone)
		buf := make([]byte, 4096)
		for {
			n, err := pty.Read(buf)
			dialog.mu.Lock()
			dialog.output.Write(buf[:n])
			dialog.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = dialog.cmd.Process.Kill()
		_ = dialog.cmd.Wait()
		pty.Close()
		<-readDone
	})
	return dialog
}

func (dialog *ptyDialog) screen() string {
	dialog.mu.Lock()
	defer dialog.mu.Unlock()
	return strings.ReplaceAll(dialog.output.String(), "\r\n", "\n")
}

// expect waits until something that matches shows, below what the last one found.
func (dialog *ptyDialog) expect(pattern string) string {
	dialog.t.Helper()
	re := regexp.MustCompile(pattern)
	var screen string
	var match []int
	isShown := bound.WaitFor(bound.Patience, func() bool {
		screen = dialog.screen()
		match = re.FindStringIndex(screen[dialog.expectFrom:])
		return match != nil
	})
	if !isShown {
		dialog.t.Fatalf("%q does not show below %q:\n%s\n%s", pattern, screen[max(0, dialog.expectFrom-60):dialog.expectFrom], screen, dialog.killAndDump())
	}
	found := screen[dialog.expectFrom+match[0] : dialog.expectFrom+match[1]]
	dialog.expectFrom += match[1]
	return found
}

// killAndDump ends the program, and returns what it did and, from its terminal, its
// goroutines.
func (dialog *ptyDialog) killAndDump() string {
	before := len(dialog.screen())
	report := bound.Kill(dialog.cmd.Process.Pid)
	return report + dialog.screen()[before:]
}

func (dialog *ptyDialog) typeText(text string) {
	dialog.t.Helper()
	if _, err := dialog.pty.WriteString(text); err != nil {
		dialog.t.Fatal(err)
	}
}

// answerPrompt types a line when the question shows.
func (dialog *ptyDialog) answerPrompt(question, line string) {
	dialog.t.Helper()
	dialog.expect(question)
	dialog.typeText(line + "\n")
}

// waitExit waits for the program, and returns its exit code.
func (dialog *ptyDialog) waitExit() int {
	dialog.t.Helper()
	done := make(chan error, 1)
	go func() { done <- dialog.cmd.Wait() }()
	select {
	case <-done:
		return dialog.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		dialog.t.Fatalf("it does not end:\n%s\n%s", dialog.screen(), dialog.killAndDump())
		return -1
	}
}
