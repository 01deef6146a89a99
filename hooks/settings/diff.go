package settings

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Diff shows the change as a unified diff, "" when there is none. Of a long line, as in a file that is all in one, it shows
// the part that changes.
func (c *Change) Diff() string {
	if c.Nothing() {
		return ""
	}
	name, to := c.Path, c.Path
	if c.Old == nil {
		name = "/dev/null"
	}
	if c.New == nil {
		to = "/dev/null"
	}
	// An end of line must not turn up as a difference in every line, and means something else to a terminal.
	clean := func(b []byte) []byte { return bytes.ReplaceAll(noBOM(b), []byte("\r\n"), []byte("\n")) }
	out := diff.Diff(name, clean(c.Old), to, clean(c.New))
	if out == nil {
		return fmt.Sprintf("--- %s\n+++ %s\n", name, to)
	}
	lines := strings.SplitAfter(string(out), "\n")[1:] // the first repeats the names
	for i := 2; i < len(lines); i++ {
		next := i + 1
		if next < len(lines) && strings.HasPrefix(lines[next], "\\") { // "No newline at end of file"
			next++
		}
		if next < len(lines) && strings.HasPrefix(lines[i], "-") && strings.HasPrefix(lines[next], "+") {
			lines[i], lines[next] = shortened(lines[i], lines[next])
			i = next
		} else if line := lines[i]; len(line) > longLine {
			lines[i] = strings.ToValidUTF8(line[:around]+" …\n", "")
		}
	}
	return strings.Join(lines, "")
}

const (
	longLine = 400 // bytes of a line that are shown whole
	around   = 60  // bytes of a longer one beside what changes
)

// shortened are an old line and a new one without what both begin and end with.
func shortened(a, b string) (string, string) {
	if len(a) <= longLine && len(b) <= longLine {
		return a, b
	}
	x, y := a[1:], b[1:]
	begin := 0
	for begin < min(len(x), len(y)) && x[begin] == y[begin] {
		begin++
	}
	end := 0
	for end < min(len(x), len(y))-begin && x[len(x)-1-end] == y[len(y)-1-end] {
		end++
	}
	cut := func(s string) string {
		from, to := max(begin-around, 0), min(len(s)-end+around, len(s))
		head, tail := "", ""
		if from > 0 {
			head = "… "
		}
		if to < len(s) {
			tail = " …\n"
		}
		return strings.ToValidUTF8(head+s[from:to]+tail, "")
	}
	return a[:1] + cut(x), b[:1] + cut(y)
}
