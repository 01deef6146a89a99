package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// text is a file's words and what is to become of them. Every rule asks for its edits here; one that would touch what
// another took already is refused, so that no rule sees another's half-done work.
type text struct {
	path  string
	src   string
	eol   string // what the file's lines end with
	lines []line
	edits []edit
	held  []bool // the bytes that an edit replaces; nil before the first
	look  []Look
}

// line is a line's place in the source; end is before its line ending.
type line struct{ start, end, next int }

type edit struct {
	start, end int
	words      string
	why        string
}

func newText(path, src string) *text {
	t := &text{path: path, src: src, eol: "\n"}
	if n := strings.Count(src, "\r\n"); n > 0 && n*2 > strings.Count(src, "\n") {
		t.eol = "\r\n"
	}
	for at := 0; at < len(src); {
		next := len(src)
		if i := strings.IndexByte(src[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		end := next
		if strings.HasSuffix(src[at:end], "\n") {
			end--
		}
		if strings.HasSuffix(src[at:end], "\r") {
			end--
		}
		t.lines = append(t.lines, line{at, end, next})
		at = next
	}
	return t
}

// words gives line i without its ending; "" behind the last.
func (t *text) words(i int) string {
	if i < 0 || i >= len(t.lines) {
		return ""
	}
	return t.src[t.lines[i].start:t.lines[i].end]
}

func (t *text) blank(i int) bool { return strings.TrimSpace(t.words(i)) == "" }

// lineAt is the number, from 0, of the line that holds the byte at.
func (t *text) lineAt(at int) int {
	i := sort.Search(len(t.lines), func(i int) bool { return t.lines[i].start > at })
	return max(i-1, 0)
}

// taken says whether an edit replaces any byte of start to end, or, where both are the same, what is around them.
func (t *text) taken(start, end int) bool {
	if start == end {
		return slices.ContainsFunc(t.edits, func(e edit) bool { return e.start < start && start < e.end })
	}
	return t.held != nil && slices.Contains(t.held[start:end], true)
}

// replace asks for other words from start to end, and says whether it gets them.
func (t *text) replace(start, end int, words, why string) bool {
	if t.taken(start, end) {
		return false
	}
	if t.held == nil {
		t.held = make([]bool, len(t.src))
	}
	for i := start; i < end; i++ {
		t.held[i] = true
	}
	t.edits = append(t.edits, edit{start, end, strings.ReplaceAll(words, "\n", t.eol), why})
	return true
}

// forget takes back all edits: a rule that changes all or nothing came upon something that it does not understand.
func (t *text) forget() { t.edits, t.held = nil, nil }

// cut takes the lines from first to before last away, and one of two blank lines that would then meet.
func (t *text) cut(first, last int, why string) bool {
	last = min(last, len(t.lines))
	if (first == 0 || t.blank(first-1)) && last < len(t.lines) && t.blank(last) {
		last++
	} else if last == len(t.lines) {
		for first > 0 && t.blank(first-1) && !t.taken(t.lines[first-1].start, t.lines[first-1].next) {
			first--
		}
	}
	start, end := t.lines[first].start, len(t.src)
	if last < len(t.lines) {
		end = t.lines[last].start
	} else if !strings.HasSuffix(t.src, "\n") && first > 0 {
		start = t.lines[first-1].end // the file goes on ending as it did: without a line ending
	}
	return t.replace(start, end, "", why)
}

// see lists line i, from 0, for a person, once.
func (t *text) see(i int, why string) {
	if !slices.ContainsFunc(t.look, func(l Look) bool { return l.Line == i+1 }) {
		t.look = append(t.look, Look{t.path, i + 1, why, shown(t.words(i))})
	}
}

// sort puts the edits in the order of the text; an insertion comes before what is replaced at the same place.
func (t *text) sort() {
	slices.SortStableFunc(t.edits, func(a, b edit) int { return cmp.Or(a.start-b.start, a.end-b.end) })
}

// result is the text with its edits.
func (t *text) result() string {
	t.sort()
	var b strings.Builder
	at := 0
	for _, e := range t.edits {
		b.WriteString(t.src[at:e.start])
		b.WriteString(e.words)
		at = e.end
	}
	b.WriteString(t.src[at:])
	return b.String()
}

// whys are the reasons of the edits, in the order of the text.
func (t *text) whys() []string {
	t.sort()
	var all []string
	for _, e := range t.edits {
		if e.why != "" {
			all = append(all, fmt.Sprintf("line %d: %s", t.lineAt(e.start)+1, e.why))
		}
	}
	return all
}

// shown makes a foreign line fit to be printed: short, and no control character steers a terminal.
func shown(s string) string {
	s = visible(strings.TrimSpace(s))
	if r := []rune(s); len(r) > 100 {
		s = string(r[:99]) + "…"
	}
	return s
}

// visible replaces control characters by their pictures; tabs and line endings stay.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return r
		case r < 0x20:
			return 0x2400 + r
		case r == 0x7f:
			return 0x2421
		case r >= 0x80 && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return '\ufffd' // C1 controls, and what turns the direction of a line
		}
		return r
	}, s)
}
