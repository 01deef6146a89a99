package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"gchat-hooks/state"
)

// terminalWidth is how many columns a terminal has; 0 for what is none: programs read whole lines.
func terminalWidth(out io.Writer) int {
	columns := 0
	if f, isFile := out.(*os.File); isFile {
		columns, _, _ = term.GetSize(int(f.Fd()))
	}
	return columns
}

// printHelp prints a help text as wide as the terminal is.
func printHelp(out io.Writer, template string, about any) {
	var text bytes.Buffer
	cli.HelpPrinterCustom(&text, template, about, nil)
	_, _ = io.WriteString(out, wrap(text.String(), terminalWidth(out)))
}

// beforeLast is a line up to its last column: blanks, and a flag or what an example is for.
var beforeLast = state.Pattern(`^ *(?:\S+(?: \S+)* {2,})?`)

// wrap breaks lines at blanks, so that none is wider than that. What is broken off stands below the line's last column. A word that
// is too long stays whole. Where columns are none or very few, nothing is broken.
func wrap(text string, columns int) string {
	var wrapped strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.TrimSuffix(line, "\n"), line[len(strings.TrimSuffix(line, "\n")):]
		head := beforeLast().FindString(line)
		if len(head) > columns/2 {
			head = ""
		}
		if width := columns - len(head); width >= narrowest {
			pieces := regexp.MustCompile(fmt.Sprintf(`(\S{%[1]d,}|.{1,%[1]d})(?: +|$)`, min(width, 1000)))
			below := "\n" + strings.Repeat(" ", len(head))
			line = head + strings.TrimSuffix(pieces.ReplaceAllString(line[len(head):], "$1"+below), below)
		}
		wrapped.WriteString(line + end)
	}
	return wrapped.String()
}

// narrowest is the width below which broken lines are harder to read than wide ones.
const narrowest = 10
