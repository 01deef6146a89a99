package inject

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// rowStart is the first line of a numbered row: "❯ 1. [ ] Auth".
type rowStart struct {
	mark        string // ❯, or a blank, or ↑ or ↓ if more rows are hidden on that side
	number      int
	column      int   // where the label begins, or the tick box
	numberStyle style // of the number; Claude Code draws the row's description alike
}

var rowNumber = pattern(`^(\d{1,2})\.( |$)?`)

// readRowStart reads a line as the beginning of a row whose mark is in that column. A
// blank follows the mark, and another one follows the number. If a text is longer than a
// line, Claude Code may leave out either: " 2. Top bar with …" beside a preview, "❯
// 1.Lock the table …" (2.1.197, 2.1.329).
func readRowStart(l line, mark int) (rowStart, bool) {
	s := rowStart{mark: l.charAt(mark)}
	if l.indent() < mark || s.mark != "❯" && s.mark != "↑" && s.mark != "↓" && s.mark != " " {
		return rowStart{}, false
	}
	number := mark + 1
	if l.charAt(number) == " " {
		number++
	}
	rest := l.fromColumn(number)
	m := rowNumber().FindStringSubmatch(rest.text)
	if m == nil {
		return rowStart{}, false
	}
	s.number, _ = strconv.Atoi(m[1])
	s.column = number + len(m[0])
	s.numberStyle = rest.cells[0].style
	return s, true
}

// isGrey reports whether a line is drawn like the row's number, as descriptions and
// placeholders are. On a screen without styles no line is grey.
func (s rowStart) isGrey(l line) bool {
	return l.isStyled(func(k style) bool {
		isLikeNumber := s.hasNumberStyle() && k.colour == s.numberStyle.colour && !k.bold
		return k.dim || isLikeNumber
	})
}

func (s rowStart) hasNumberStyle() bool { return s.numberStyle.colour != "" || s.numberStyle.dim }

// readListRow is readRowStart for a list that is known to be a multi-select or not. In a
// multi-select, 2.1.197 begins descriptions in the same column as rows. There a line is a
// row only if it has a tick box that is not grey.
func readListRow(l line, mark int, multi bool) (rowStart, bool) {
	s, ok := readRowStart(l, mark)
	if ok && multi {
		first := l.fromColumn(s.column)
		ok = tickBoxPattern().MatchString(first.text) && !(s.hasNumberStyle() && s.isGrey(first))
	}
	return s, ok
}

// rowLines is one row as drawn: its first line without mark, number and tick box, and the
// lines after that.
type rowLines struct {
	rowStart
	tickBox string // "[ ] " or "[✔] " of a row that can be ticked, else ""
	ticked  bool
	lines   []line
}

// 2.1.197 leaves out the blank after the box if a text is longer than a line.
var tickBoxPattern = pattern(`^\[([ ✔])\]( |$)?`)

// splitRows splits a list into rows whose mark is in that column. above holds lines of a
// row whose beginning is not on the screen. splitRows fails on a list that can be read in
// two ways, because a row's text looks like the next row.
func splitRows(lines []line, mark int, multi bool) (above []line, rows []rowLines, ok bool) {
	leastIndent := mark + 3 // the indent of a row's further lines
	if multi {
		leastIndent = mark + 2
	}
	for _, l := range lines {
		if s, isStart := readListRow(l, mark, multi); isStart {
			if len(rows) > 0 && s.number != rows[len(rows)-1].number+1 {
				return nil, nil, false
			}
			first := l.fromColumn(s.column)
			row := rowLines{rowStart: s, tickBox: tickBoxPattern().FindString(first.text)}
			if multi {
				row.ticked = strings.HasPrefix(row.tickBox, "[✔]")
				first = first.fromColumn(utf8.RuneCountInString(row.tickBox))
			}
			row.lines = []line{first}
			rows = append(rows, row)
			continue
		}
		if len(rows) == 0 {
			above = append(above, l)
			continue
		}
		if !l.isBlank() && l.indent() < leastIndent {
			return nil, nil, false
		}
		last := &rows[len(rows)-1]
		last.lines = append(last.lines, l)
	}
	return above, rows, true
}

// toRow returns the row's text. The label ends where the grey begins. On a screen without
// styles it is the first line.
func (r rowLines) toRow(role Role) Row {
	out := Row{Role: role, Number: r.number, Cursor: r.mark == "❯", Ticked: r.ticked}
	n := 1
	for n < len(r.lines) && r.hasNumberStyle() && !r.isGrey(r.lines[n]) {
		n++
	}
	out.Label = joinLines(r.lines[:n])
	return out
}

// listTop returns the line where the rows begin. They are numbered without a gap, from
// the last one up to number 1, or up to a row that hides others (↑). A list can have
// blank lines in a text that a person types, and a question can have numbered lines.
func listTop(lines []line, multi bool) int {
	top := len(lines)
	var first rowStart
	highest := belowLastRule(lines)
	for i := len(lines) - 1; i >= highest && first.number != 1 && first.mark != "↑"; i-- {
		row, ok := readListRow(lines[i], 0, multi)
		if !ok {
			continue
		}
		// A row that is drawn alike but leaves a gap is included: splitRows then fails.
		isAlike := row.hasNumberStyle() && row.numberStyle == first.numberStyle
		if first.number != 0 && row.number != first.number-1 && !isAlike {
			break
		}
		top, first = i, row
	}
	for _, l := range lines[:top] {
		if !l.isBlank() && l.indent() < 2 {
			return top
		}
	}
	return 0 // everything above belongs to a row whose beginning is not on the screen
}

// belowLastRule returns the index of the first line below the last rule.
func belowLastRule(lines []line) int {
	top := len(lines)
	for top > 0 && !lines[top-1].isRule() {
		top--
	}
	return top
}
