package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// terminal is how a person's screen shows what we print. The zero value is no terminal: a file, a pipe, another program.
type terminal struct {
	width, height int // in cells; 0 for no terminal
	colour        bool
}

// terminalOf finds out where out leads to. Colour is left out where NO_COLOR is set (no-color.org) or the terminal is dumb.
func terminalOf(out io.Writer, env state.Getenv) terminal {
	f, ok := out.(*os.File)
	if !ok {
		return terminal{}
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return terminal{}
	}
	t := terminal{width: int(size.Col), height: int(size.Row), colour: env("NO_COLOR") == "" && env("TERM") != "dumb"}
	if t.width == 0 { // a serial line does not say
		t.width, t.height = 80, 24
	}
	return t
}

// tone is how much a line matters.
type tone int

const (
	calm tone = iota
	head      // begins a block
	warn
	bad
)

func (t terminal) paint(s string, how tone) string {
	if code := [...]string{calm: "", head: "1", warn: "33", bad: "31"}[how]; t.colour && code != "" && s != "" {
		return "\x1b[" + code + "m" + s + "\x1b[0m"
	}
	return s
}

// cut shortens a line to the screen's width, by the columns that its characters take.
func (t terminal) cut(s string) string {
	if t.width == 0 || inject.Width(s) <= t.width {
		return s
	}
	var b strings.Builder
	left := t.width - 1
	for _, r := range s {
		if left -= inject.Width(string(r)); left < 0 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}

// fit is what of a text has room on the screen, without a last newline, which would scroll it.
func (t terminal) fit(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	most, used := max(t.height, 2), 0
	for i, line := range lines {
		rows := 1
		if !strings.Contains(line, "\x1b") { // a painted line was cut; a link was not
			rows = max(1, (inject.Width(line)+t.width-1)/t.width)
		}
		if used += rows; used > most-1 && (i < len(lines)-1 || used > most) {
			return strings.Join(append(lines[:i:i], t.cut(fmt.Sprintf("… %d more lines; Ctrl-C ends", len(lines)-i))), "\n")
		}
	}
	return strings.Join(lines, "\n")
}

// nobodyReads says whether the other end of a pipe is closed. A process that waits for something to print would hear of it
// only when there is something, and wait in vain until then.
func nobodyReads(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	pipe := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLHUP}} // macOS looks at nothing that is not asked for
	n, err := unix.Poll(pipe, 0)
	return err == nil && n > 0 && pipe[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
