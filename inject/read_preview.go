package inject

import (
	"slices"
	"strings"
)

// readPreview reads a list with previews: the options on the left, a box with the preview of one on the right, and
// under the box the field for notes. Descriptions and the field for the person's own words are not there.
func (s *Screen) readPreview(d dialog) string {
	s.Preview = true
	top, column := len(d.above)-1, -1
	for ; top >= 0 && !d.above[top].rule(); top-- {
		if column = boxCorner(d.above[top]); column >= 0 && d.above[top].width() <= d.width {
			break
		}
	}
	if column < 4 {
		return "a dialog with previews in a pane too small for it"
	}
	var left, right []line
	for _, l := range d.above[top:] {
		s.Noting = s.Noting || l.typing
		b := l.before(column)
		if l.at(column) != "" && column > 0 && b.width() == column && l.at(column-1) != " " {
			return "a dialog with previews that is not straight"
		}
		left, right = append(left, b), append(right, l.from(column))
	}
	if !s.readNotes(right) {
		return "a dialog with previews that is half drawn"
	}
	for len(left) > 0 && left[len(left)-1].blank() {
		left = left[:len(left)-1]
	}
	above, rows, ok := splitRows(left, 0, false)
	if !ok || len(above) > 0 || len(rows) == 0 || rows[0].number != 1 {
		return "a dialog with previews in a pane too small for it"
	}
	marked := slices.ContainsFunc(rows, func(r rowLines) bool { return r.mark == "❯" })
	for _, r := range rows {
		// 2.1.197 draws no ❯ before a label of several lines, only its bold type.
		focus := r.mark == "❯" || !marked && r.lines[0].drawn(func(k ink) bool { return k.bold })
		label := joined(r.lines)
		s.Rows = append(s.Rows, Row{
			Kind: OptionRow, Number: r.number, Label: label, Cursor: focus, Cut: strings.HasSuffix(label, "…"),
		})
	}
	return s.readHead(d.above[:top], d.width)
}

// boxCorner is the column of the preview's upper left corner, -1 for none: "❯ 1. Side bar        ┌─────┐".
func boxCorner(l line) int {
	if !strings.HasSuffix(l.text, "┐") {
		return -1
	}
	at, corner := 0, -1
	for _, c := range l.cells {
		switch {
		case c.text == "┌":
			corner = at
		case c.text != "─" && c.text != "┐":
			corner = -1
		}
		at += c.width
	}
	return corner
}

// readNotes checks that the box is closed and reads the field for notes under it.
func (s *Screen) readNotes(right []line) bool {
	i := 1
	for ; i < len(right) && !strings.HasPrefix(right[i].text, "└"); i++ {
		if c := right[i].at(0); c != "│" && c != "├" && c != "" { // 2.1.197 leaves a line out beside a label of several
			return false
		}
	}
	for i++; i < len(right) && right[i].blank(); i++ {
	}
	if i >= len(right) || !strings.HasPrefix(right[i].text, "Notes:") {
		return false
	}
	notes := append([]line{right[i].from(len("Notes:"))}, right[i+1:]...)
	s.Notes = joined(notes)
	return true
}
