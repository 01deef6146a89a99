package cli

import (
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

// padded is s with spaces up to so many columns.
func padded(s string, columns int) string {
	return s + strings.Repeat(" ", max(0, columns-inject.Width(s)))
}
