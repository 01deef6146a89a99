package cli

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// awaitEcho waits until the terminal shows what is typed, or does not.
func (dialog *ptyDialog) awaitEcho(want bool) {
	dialog.t.Helper()
	hasChanged := bound.WaitFor(bound.Patience, func() bool {
		termios, err := unix.IoctlGetTermios(int(dialog.pty.Fd()), unix.TCGETS)
		kit.NoError(dialog.t, err)
		return termios.Lflag&unix.ECHO != 0 == want
	})
	if !hasChanged {
		dialog.t.Fatalf("echo does not become %v:\n%s", want, dialog.screen())
	}
}

// However a person leaves the question for a secret, the secret is not shown, and the
// terminal shows again what is typed.
func TestSecretIsHiddenAndTheTerminalIsNotLeftSo(t *testing.T) {
	for name, leave := range map[string]func(dialog *ptyDialog){
		"Ctrl-C":  func(dialog *ptyDialog) { dialog.typeText("half of SECRET\x03") },
		"SIGTERM": func(dialog *ptyDialog) { _ = dialog.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetupHome(t)
			dialog := s.runSetup()
			dialog.expect("Paste its URL here")
			dialog.awaitEcho(false)
			dialog.typeText("https://chat.googleapis.com/SECRET\n")
			dialog.expect("That did not work: not a Chat webhook URL")
			dialog.expect("Paste its URL here")
			dialog.awaitEcho(false)
			leave(dialog)
			dialog.expect("run the same command again to go on")
			if code := dialog.waitExit(); code != 1 {
				t.Errorf("exit code %d:\n%s", code, dialog.screen())
			}
			dialog.awaitEcho(true)
			if strings.Contains(dialog.screen(), "SECRET") {
				t.Errorf("the secret is shown:\n%s", dialog.screen())
			}
		})
	}
}
