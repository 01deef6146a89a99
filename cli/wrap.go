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

// terminalWidth is the number of a terminal's columns. For anything else it is 0: a
// program reads whole lines.
func terminalWidth(out io.Writer) int {
	columns := 0
	if f, isFile := out.(*os.File); isFile {
		columns, _, _ = term.GetSize(int(f.Fd()))
	}
	return columns
}

// printHelp prints a help text, wrapped at the terminal's width.
func printHelp(out io.Writer, template string, about any) {
	var text bytes.Buffer
	cli.HelpPrinterCustom(&text, template, about, nil)
	_, _ = io.WriteString(out, wrapText(text.String(), terminalWidth(out)))
}

// indentPattern matches a line's beginning up to its last column: blanks, then a flag or
// an example's label.
var indentPattern = state.LazyPattern(`^ *(?:\S+(?: \S+)* {2,})?`)

// wrapText breaks lines at blanks, so that none is wider than columns. The rest of a line
// continues below the line's last column. A word that is too long stays whole. If columns
// is 0 or less than minWrapWidth, the text stays as it is.
func wrapText(text string, columns int) string {
	var wrapped strings.Builder
	for line := range strings.Lines(text) {
		line, lineEnd := strings.TrimSuffix(line, "\n"), line[len(strings.TrimSuffix(line, "\n")):]
		indent := indentPattern().FindString(line)
		if len(indent) > columns/2 {
			indent = ""
		}
		if width := columns - len(indent); width >= minWrapWidth {
			expr := fmt.Sprintf(`(\S{%[1]d,}|.{1,%[1]d})(?: +|$)`, min(width, 1000))
			lineBreak := "\n" + strings.Repeat(" ", len(indent))
			pieces := regexp.MustCompile(expr).ReplaceAllString(line[len(indent):], "$1"+lineBreak)
			line = indent + strings.TrimSuffix(pieces, lineBreak)
		}
		wrapped.WriteString(line + lineEnd)
	}
	return wrapped.String()
}

// minWrapWidth is the width below which broken lines are harder to read than wide ones.
const minWrapWidth = 10
