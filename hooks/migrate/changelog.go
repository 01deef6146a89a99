package migrate

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

var (
	entryHead = lazy(`^(#{2,3})[ \t]+(.*)$`)
	isoDate   = lazy(`\b\d{4}-\d{2}-\d{2}\b`)
)

const changelogMark = relay + " gave way to gchat-hooks"

// changelog puts an entry into the harness's changelog: once, and only where there is one.
func (h *harness) changelog(p *Plan, now time.Time) {
	if len(p.Changes) == 0 {
		return
	}
	var logs []*file
	for _, f := range h.files {
		if f.text != nil && strings.HasSuffix(strings.ToUpper(path.Base(f.path)), "CHANGELOG.MD") && strings.HasPrefix(f.path, ".claude/") && f.closed == "" {
			logs = append(logs, f)
		}
	}
	// SYSTEM3_CHANGELOG.md in the documentation, or else the one that is nearest to it.
	slices.SortStableFunc(logs, func(a, b *file) int { return cmp.Compare(rank(a.path), rank(b.path)) })
	if len(logs) == 0 {
		p.Notes = append(p.Notes, "No changelog was found in .claude; none is begun.")
		return
	}
	f := logs[0]
	if strings.Contains(f.text.src, changelogMark) {
		return
	}
	f.text.logEntry(p, now)
	p.add(h, f)
}

func rank(p string) int {
	switch {
	case path.Base(p) == "SYSTEM3_CHANGELOG.md":
		return 0
	case strings.HasPrefix(p, ".claude/documentation/"):
		return 1
	}
	return 2
}

// logEntry writes the entry where the newest one stands: at the top, unless the dates grow downwards.
func (t *text) logEntry(p *Plan, now time.Time) {
	m := newMarkdown(t)
	hashes, bracket, first, last, firstDate, lastDate := "##", false, -1, -1, "", ""
	for i := range m.lines {
		head := entryHead().FindStringSubmatch(m.words(i))
		if m.level(i) == 0 || head == nil || !isoDate().MatchString(head[2]) {
			continue
		}
		date := isoDate().FindString(head[2])
		if first < 0 {
			first, firstDate, hashes = i, date, head[1]
			bracket = strings.Contains(head[2], "["+date+"]")
		}
		last, lastDate = i, date
	}
	date := now.Format(time.DateOnly)
	if bracket {
		date = "[" + date + "]"
	}
	entry := fmt.Sprintf("%s %s - %s\n\n%s", hashes, date, changelogMark, entryLines(p))
	const why = "an entry about the migration"
	if first >= 0 && (first == last || firstDate >= lastDate) {
		t.replace(t.lines[first].start, t.lines[first].start, entry+"\n", why)
		return
	}
	end := len(strings.TrimRight(t.src, " \t\r\n"))
	t.replace(end, end, "\n\n"+strings.TrimSuffix(entry, "\n"), why)
}

func entryLines(p *Plan) string {
	var b strings.Builder
	b.WriteString("- Messages to the user go out with `gchat-send`, at no tokens; questions and replies travel by hooks.\n")
	for _, c := range p.Changes {
		switch {
		case c.Folder:
			fmt.Fprintf(&b, "- `%s` is kept in `%s`.\n", c.Path, c.To)
		case c.To != "":
			fmt.Fprintf(&b, "- `%s` is `%s`: any persistent agent keeps the session's team alive.\n", c.Path, path.Base(c.To))
		}
	}
	b.WriteString("- Taken back with `gchat-hooks migrate s3-communicator --harness DIR --revert`.\n")
	return b.String()
}
