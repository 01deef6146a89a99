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

// terminalWidth is how many columns a terminal has; 0 for what is none: programs read
// whole lines.
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
	_, _ = io.WriteString(out, wrapText(text.String(), terminalWidth(out)))
}

// indentPattern is a line up to its last column: blanks, and a flag or what an example is
// for.
var indentPattern = state.LazyPattern(`^ *(?:\S+(?: \S+)* {2,})?`)

// wrapText breaks lines at blanks, so that none is wider than that. What is broken off
// stands below the line's last column. A word that is too long stays whole. Where columns
// are none or very few, nothing is broken.
func wrapText(text string, columns int) string {
	var wrapped strings.Builder
	for line := range strings.Lines(text) {
		line, lineEnd := strings.TrimSuffix(line, "\n"), line[len(strings.TrimSuffix(line, "\n")):]
		indent := indentPattern().FindString(line)
		if len(indent) > columns/2 {
			indent = ""
		}
		if width := columns - len(indent); width >= minWrapWidth {
			piecePattern := regexp.MustCompile(
				fmt.Sprintf(`(\S{%[1]d,}|.{1,%[1]d})(?: +|$)`, min(width, 1000)),
			)
			lineBreak := "\n" + strings.Repeat(" ", len(indent))
			line = indent + strings.TrimSuffix(
				piecePattern.ReplaceAllString(line[len(indent):], "$1"+lineBreak),
				lineBreak,
			)
		}
		wrapped.WriteString(line + lineEnd)
	}
	return wrapped.String()
}

// minWrapWidth is the width below which broken lines are harder to read than wide ones.
const minWrapWidth = 10
