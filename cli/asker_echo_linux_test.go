package cli

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// echoes waits until the terminal shows what is typed, or does not. Meanwhile it does what it is told again and again.
func (x *ptyDialog) echoes(want bool, meanwhile func()) {
	x.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		is, err := unix.IoctlGetTermios(int(x.pty.Fd()), unix.TCGETS)
		if err != nil {
			x.t.Fatal(err)
		}
		if is.Lflag&unix.ECHO != 0 == want {
			return
		}
		if time.Now().After(end) {
			x.t.Fatalf("echo does not become %v:\n%s", want, x.screen())
		}
		meanwhile()
	}
}

func nothing() {}

// Who leaves the question for a secret with Ctrl-Z sees what they type, and types the secret unseen when they are back.
func TestSecretThatWaits(t *testing.T) {
	s := newSettler(t)
	x := inTerminal(t, []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb"}, "/bin/sh", "-c", `"$0" setup; true`, s.program)
	for range 2 {
		x.expect("Paste its URL here")
		x.echoes(false, nothing)
		x.typed("\x1a")
		x.echoes(true, nothing)
		x.echoes(false, func() { _ = syscall.Kill(-x.cmd.Process.Pid, syscall.SIGCONT) })
		x.typed("nonsense\n")
	}
	x.answer("Paste its URL here", s.url)
	x.expect("ok    webhook")
	x.echoes(true, nothing)
	if strings.Contains(x.screen(), secretOf(s.url)) || strings.Contains(x.screen(), "nonsense") {
		t.Errorf("the secret is shown:\n%s", x.screen())
	}
}

// Without a shell above nothing is stopped by Ctrl-Z, for nobody could make it go on. Ctrl-\ ends it, and in good order.
func TestSecretThatIsQuit(t *testing.T) {
	s := newSettler(t)
	x := s.setup()
	x.expect("Paste its URL here")
	x.echoes(false, nothing)
	x.typed("\x1a")
	x.typed("nonsense\n")
	x.expect("That does not work")
	x.expect("Paste its URL here")
	x.echoes(false, nothing)
	x.typed("\x1c")
	if code := x.ends(); code != 131 || strings.Contains(x.screen(), "goroutine") {
		t.Errorf("exit code %d:\n%s", code, x.screen())
	}
	x.echoes(true, nothing)
}
