package migrate

import (
	"slices"
	"strconv"
	"strings"
)

var wholeNumber = lazy(`^\d+$`)

// row is a line of a table: its cells, trimmed, and where they stand in the source.
type row struct {
	line  int
	cells []cell
}

type cell struct {
	words      string
	start, end int
}

// rows takes the relay's rows out of tables of agents and costs, and its cost out of their totals.
func (m *markdown) rows() {
	for i := 0; i < len(m.lines); i++ {
		if m.kinds[i] != table {
			continue
		}
		first := i
		for i < len(m.lines) && m.kinds[i] == table {
			i++
		}
		m.tableRows(first+2, i)
	}
}

func (m *markdown) tableRows(first, end int) {
	var body []row
	var gone []int
	for i := first; i < end; i++ {
		r := m.row(i)
		if r.aboutRelay() {
			gone = append(gone, len(body))
		}
		body = append(body, r)
	}
	switch {
	case len(gone) == 0:
		return
	case len(gone) == len(body):
		m.see(body[0].line, "a table of nothing but the relay")
		return
	}
	for _, g := range gone {
		m.cutRow(body[g])
	}
	m.recount(body, gone)
	m.totals(body, gone)
	if slices.ContainsFunc(gone, func(g int) bool { return money().MatchString(m.words(body[g].line)) }) {
		m.proseTotals(body, gone)
		m.seeTotal(end - 1)
	}
}

// cutRow takes one line away, and no blank one beside it: a table ends at the first.
func (m *markdown) cutRow(r row) {
	l := m.lines[r.line]
	start := l.start
	if l.end == l.next {
		start = m.lines[r.line-1].end // the file's last line, without an ending: its new last line has none either
	}
	m.replace(start, l.next, "", "the relay's row goes")
}

// aboutRelay: the first cell is about it, or the second behind a number is.
func (r row) aboutRelay() bool {
	for i, c := range r.cells {
		if i == 1 && !wholeNumber().MatchString(r.cells[0].words) || i > 1 {
			return false
		}
		if aboutRelay(c.words) || names(c.words) && costOnly(r) && !goesOn().MatchString(c.words) && !otherAgents(c.words) && !settled().MatchString(c.words) {
			return true
		}
	}
	return false
}

// costOnly says that a row tells what one thing costs: "| GChat relay (s3-communicator) | ~$0.20-$0.50/day |".
func costOnly(r row) bool {
	for _, c := range r.cells[1:] {
		if money().MatchString(c.words) {
			return len(r.cells) <= 4
		}
	}
	return false
}

// row splits line i at its bars; those that are escaped or in a code span separate nothing.
func (m *markdown) row(i int) row {
	r := row{line: i}
	l := m.lines[i]
	s, from, inCode := m.src[l.start:l.end], 0, false
	add := func(to int) {
		start, end := from, to
		for start < end && strings.IndexByte(" \t", s[start]) >= 0 {
			start++
		}
		for end > start && strings.IndexByte(" \t", s[end-1]) >= 0 {
			end--
		}
		r.cells = append(r.cells, cell{s[start:end], l.start + start, l.start + end})
	}
	for at := 0; at < len(s); at++ {
		switch {
		case s[at] == '\\':
			at++
		case s[at] == '`':
			inCode = !inCode
		case s[at] == '|' && !inCode:
			if strings.TrimSpace(s[:at]) != "" {
				add(at)
			}
			from = at + 1
		}
	}
	if strings.TrimSpace(s[from:]) != "" || len(r.cells) == 0 {
		add(len(s))
	}
	return r
}

// recount lets a first column of 1, 2, 3 … go on without holes. A row without a number, as a total is, does not count.
func (m *markdown) recount(body []row, gone []int) {
	count := 0
	var left []cell
	for i, r := range body {
		first := r.cells[0]
		if !wholeNumber().MatchString(first.words) {
			continue
		}
		if count++; first.words != strconv.Itoa(count) {
			return
		}
		if !slices.Contains(gone, i) {
			left = append(left, first)
		}
	}
	for i, c := range left {
		if n := strconv.Itoa(i + 1); n != c.words {
			m.replace(c.start, c.end, n, "")
		}
	}
}
