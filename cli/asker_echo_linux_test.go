package cli

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gchat-hooks/e2e/bound"
)

// echoes waits until the terminal shows what is typed, or does not.
func (x *ptyDialog) echoes(want bool) {
	x.t.Helper()
	became := bound.Soon(bound.Patience, func() bool {
		is, err := unix.IoctlGetTermios(int(x.pty.Fd()), unix.TCGETS)
		if err != nil {
			x.t.Fatal(err)
		}
		return is.Lflag&unix.ECHO != 0 == want
	})
	if !became {
		x.t.Fatalf("echo does not become %v:\n%s", want, x.screen())
	}
}

// However a person leaves the question for a secret, the secret is not shown, and the terminal shows again what is typed.
func TestSecretIsHiddenAndTheTerminalIsNotLeftSo(t *testing.T) {
	for name, leave := range map[string]func(x *ptyDialog){
		"Ctrl-C":  func(x *ptyDialog) { x.typed("half of SECRET\x03") },
		"SIGTERM": func(x *ptyDialog) { _ = x.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSettler(t)
			x := s.setup()
			x.expect("Paste its URL here")
			x.echoes(false)
			x.typed("https://chat.googleapis.com/SECRET\n")
			x.expect("That does not work: not a Chat webhook URL")
			x.expect("Paste its URL here")
			x.echoes(false)
			leave(x)
			x.expect("the same command goes on from there")
			if code := x.ends(); code != 1 {
				t.Errorf("exit code %d:\n%s", code, x.screen())
			}
			x.echoes(true)
			if strings.Contains(x.screen(), "SECRET") {
				t.Errorf("the secret is shown:\n%s", x.screen())
			}
		})
	}
}
