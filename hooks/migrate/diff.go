package migrate

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Diff shows the changes as a unified diff that patch -p1 takes, but for folders that move, which it only names. Control
// characters of the harness's files are shown as pictures, so that none steers a terminal.
func (p *Plan) Diff() string {
	var b strings.Builder
	for _, c := range p.Changes {
		if c.Folder {
			fmt.Fprintf(&b, "move %s/ to %s/\n", c.Path, c.To)
			continue
		}
		from, to := c.Path, c.Path
		if c.To != "" {
			to = c.To
		}
		fmt.Fprintf(&b, "diff --git a/%s b/%s\n", visible(from), visible(to))
		switch {
		case c.To != "":
			fmt.Fprintf(&b, "rename from %s\nrename to %s\n", visible(from), visible(to))
		case c.before == nil:
			fmt.Fprintf(&b, "new file mode 100%03o\n", c.mode.Perm())
		case c.after == nil:
			fmt.Fprintf(&b, "deleted file mode 100%03o\n", c.mode.Perm())
		}
		d := diff.Diff("a/"+from, c.before, "b/"+to, c.after)
		_, d, _ = bytes.Cut(d, []byte("\n")) // its own first line, which names both files
		for line := range strings.Lines(string(d)) {
			line, crlf := strings.CutSuffix(line, "\r\n")
			b.WriteString(visible(line))
			if crlf {
				b.WriteString("\r\n")
			}
		}
	}
	return b.String()
}

// Summary says in words what the plan does, what a person has to look at, and what else is worth knowing.
func (p *Plan) Summary() string {
	var b strings.Builder
	if len(p.Changes) == 0 {
		b.WriteString("Nothing to change.\n")
	}
	for _, c := range p.Changes {
		name := visible(c.Path)
		if c.To != "" {
			name += " -> " + visible(c.To)
		}
		fmt.Fprintf(&b, "%s\n", name)
		for _, why := range c.Why {
			fmt.Fprintf(&b, "    %s\n", why)
		}
	}
	b.WriteString(p.LookAt(""))
	if len(p.Notes) > 0 {
		b.WriteString("\n")
		for _, n := range p.Notes {
			fmt.Fprintf(&b, "%s\n", n)
		}
	}
	return b.String()
}

// LookAt lists what a person has to look at, with a remark on the list; "" where there is nothing.
func (p *Plan) LookAt(remark string) string {
	if len(p.Look) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nLook at this yourself%s:\n", remark)
	for _, l := range p.Look {
		fmt.Fprintf(&b, "    %s\n", visible(l.String()))
	}
	return b.String()
}
