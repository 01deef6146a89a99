package migrate

import (
	"slices"
	"strings"
)

// markdown is a text with its blocks: enough of Markdown to know what a line is, and where the thing it belongs to ends.
type markdown struct {
	*text
	kinds  []lineKind
	fences []fence

	sums    int       // the tables whose totals were looked for
	amounts []amounts // in prose, once sums is not 0
	noTotal span      // the lines, from start to before end, that tell no total
}

type lineKind int

const (
	prose lineKind = iota
	heading
	table
	code        // within a fence
	fenceMark   // its first and last line
	frontMatter // YAML at the start of a skill or a style
)

// fence is a fenced code block: the lines of its two marks, and the words behind the first.
type fence struct {
	open, shut int // shut is len(lines) when nothing closes it
	info       string
}

var (
	fenceLine   = lazy("^(?:[ \t>]|[-*+] |[0-9]+[.)] )*(`{3,}|~{3,})[ \t]*([^`]*)$")
	headingLine = lazy(`^ {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$`)
	tableRule   = lazy(`^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$`)
)

func newMarkdown(t *text) *markdown {
	m := &markdown{text: t, kinds: make([]lineKind, len(t.lines))}
	i := 0
	if strings.TrimPrefix(t.words(0), "\ufeff") == "---" {
		for end := 1; end < len(t.lines); end++ {
			if t.words(end) == "---" {
				for ; i <= end; i++ {
					m.kinds[i] = frontMatter
				}
				break
			}
		}
	}
	for ; i < len(t.lines); i++ {
		if mark := fenceLine().FindStringSubmatch(t.words(i)); mark != nil {
			i = m.fence(i, mark[1], mark[2])
			continue
		}
		switch {
		case headingLine().MatchString(t.words(i)):
			m.kinds[i] = heading
		case i > 0 && m.kinds[i-1] == table && strings.Contains(t.words(i), "|"):
			m.kinds[i] = table
		case strings.Contains(t.words(i), "|") && strings.Contains(t.words(i+1), "|") && tableRule().MatchString(t.words(i+1)):
			m.kinds[i], m.kinds[i+1] = table, table
			i++
		}
	}
	return m
}

// fence notes the block that begins at line i with mark and gives its last line.
func (m *markdown) fence(i int, mark, info string) int {
	f := fence{open: i, shut: len(m.lines), info: strings.TrimSpace(info)}
	for j := i + 1; j < len(m.lines); j++ {
		end := strings.Trim(m.words(j), " \t>")
		if len(end) >= len(mark) && strings.Trim(end, mark[:1]) == "" {
			f.shut = j
			break
		}
	}
	for j := i; j <= f.shut && j < len(m.lines); j++ {
		m.kinds[j] = code
	}
	m.kinds[i] = fenceMark
	if f.shut < len(m.lines) {
		m.kinds[f.shut] = fenceMark
	}
	m.fences = append(m.fences, f)
	return f.shut
}

// fenceAt finds the code block that line i is in.
func (m *markdown) fenceAt(i int) *fence {
	at := slices.IndexFunc(m.fences, func(f fence) bool { return f.open < i && i < f.shut })
	if at < 0 {
		return nil
	}
	return &m.fences[at]
}

// level is a heading's, 1 to 6; 0 for another line.
func (m *markdown) level(i int) int {
	if i >= len(m.kinds) || m.kinds[i] != heading {
		return 0
	}
	return len(headingLine().FindStringSubmatch(m.words(i))[1])
}

// sectionEnd is the line behind the section that the heading at line i begins, subsections included.
func (m *markdown) sectionEnd(i int) int {
	for j := i + 1; j < len(m.lines); j++ {
		if l := m.level(j); l > 0 && l <= m.level(i) {
			return j
		}
	}
	return len(m.lines)
}

// between gives the source of the lines from first to before last.
func (m *markdown) between(first, last int) string {
	if first >= last || first >= len(m.lines) {
		return ""
	}
	return m.src[m.lines[first].start:m.lines[last-1].next]
}
