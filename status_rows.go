package main

import (
	"slices"
	"strings"

	"gchat-hooks/inject"
)

// statusRow is a line of status: "key: cell, cell, below". On a terminal the rows of a block are aligned under their head,
// and what stands below gets lines of its own.
type statusRow struct {
	key   string
	item  bool // of the block whose head is above
	cells []string
	below []string
	link  string // never cut
	how   tone
}

// text is the report for a person. Piped, each thing is one plain line.
func (r *statusReport) text(t terminal, logPath string) string {
	var b strings.Builder
	rows := r.rows(t, logPath)
	for i := 0; i < len(rows); {
		n := 1
		for rows[i].item && i+n < len(rows) && rows[i+n].item && rows[i+n].key == rows[i].key {
			n++
		}
		if t.width == 0 {
			for _, row := range rows[i : i+n] {
				b.WriteString(row.plain() + "\n")
			}
		} else {
			t.block(&b, rows[i:i+n])
		}
		i += n
	}
	return b.String()
}

func (row statusRow) plain() string {
	all := slices.Concat(row.cells, row.below)
	if row.link != "" {
		all = append(all, row.link)
	}
	text := strings.Join(all, ", ")
	if row.key != "" {
		text = row.key + ": " + text
	}
	return text
}

// block draws rows of one kind, their cells in columns.
func (t terminal) block(b *strings.Builder, rows []statusRow) {
	var columns []int
	for _, row := range rows {
		for i, c := range row.cells {
			if i == len(columns) {
				columns = append(columns, 0)
			}
			columns[i] = max(columns[i], inject.Width(c))
		}
	}
	for _, row := range rows {
		if !row.item {
			line := t.cut(row.plain())
			if row.how == head { // the key alone stands out
				if key := row.key + ":"; strings.HasPrefix(line, key) {
					line = t.paint(key, head) + line[len(key):]
				}
			} else {
				line = t.paint(line, row.how)
			}
			b.WriteString(line + "\n")
			continue
		}
		var cells []string
		for i, c := range row.cells {
			cells = append(cells, padded(c, columns[i]))
		}
		b.WriteString(t.paint(t.cut("  "+strings.TrimRight(strings.Join(cells, "  "), " ")), row.how) + "\n")
		for _, line := range row.below {
			b.WriteString(t.cut("      "+line) + "\n")
		}
		if row.link != "" {
			b.WriteString("      " + row.link + "\n")
		}
	}
}
