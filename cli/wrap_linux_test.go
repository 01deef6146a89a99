package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"gchat-hooks/e2e/kit"
)

// No line of a help text or an error is wider than the terminal, except a line of one
// word.
func TestWrap_HelpFitsTheTerminal(t *testing.T) {
	const columns = 60
	for _, args := range []string{
		"--help", "setup --help", "send --help", "menu --help", "setup --code x", "wait", "hook",
	} {
		h := newHome(t)
		dialog := h.startDialog("sh", "-c", `read wide; "$0" `+args+`; echo over`, h.program)
		size := &unix.Winsize{Row: 24, Col: columns}
		kit.NoError(t, unix.IoctlSetWinsize(int(dialog.pty.Fd()), unix.TIOCSWINSZ, size))
		dialog.typeText("wide\n")
		dialog.expect("\nover\n")
		for line := range strings.Lines(dialog.screen()) {
			if utf8.RuneCountInString(line) > columns+1 && len(strings.Fields(line)) > 1 {
				t.Errorf("%s: wider than the terminal: %q", args, line)
			}
		}
		dialog.wantExit(0)
	}
}
