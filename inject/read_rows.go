package inject

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// rowStart is the first line of a numbered row: "❯ 1. [ ] Auth".
type rowStart struct {
	mark        string // ❯, or ↑ ↓ where rows are hidden behind this one, or a blank
	number      int
	column      int   // where the label begins, or the tick box
	numberStyle style // how the number is drawn, and with it what is said about a label
}

var rowNumber = pattern(`^(\d{1,2})\.( |$)?`)

// readRowStart reads a line as the beginning of a row whose mark is in that column.
// Between mark and number is a blank, and another behind the number, but where a text is
// longer than a line either may be given up: " 2. Top bar with …" beside a preview, "❯
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

// isGrey says whether a line is drawn like the row's number, as descriptions and
// placeholders are. Where nothing is styled, nothing is.
func (s rowStart) isGrey(l line) bool {
	return l.isStyled(
		func(k style) bool { return k.dim || s.hasNumberStyle() && k.colour == s.numberStyle.colour && !k.bold },
	)
}

func (s rowStart) hasNumberStyle() bool { return s.numberStyle.colour != "" || s.numberStyle.dim }

// readListRow is readRowStart in a list of which it is known whether it is a
// multi-select. 2.1.197 begins descriptions where rows begin in those, so a line there is
// a row only with a tick box, and with one that is not grey.
func readListRow(l line, mark int, multi bool) (rowStart, bool) {
	s, ok := readRowStart(l, mark)
	if ok && multi {
		first := l.fromColumn(s.column)
		ok = tickBoxPattern().MatchString(first.text) && !(s.hasNumberStyle() && s.isGrey(first))
	}
	return s, ok
}

// rowLines is one row as drawn: its first line without mark, number and tick box, and the
// lines that follow.
type rowLines struct {
	rowStart
	tickBox string // "[ ] " or "[✔] ", of a row that can be ticked
	ticked  bool
	lines   []line
}

// 2.1.197 gives up the blank behind the box where a text is longer than a line.
var tickBoxPattern = pattern(`^\[([ ✔])\]( |$)?`)

// splitRows takes a list apart, whose rows have their mark in that column. above are the
// lines that belong to a row whose beginning is not on the screen. It fails on a list
// that can be read in two ways: a row's text that looks like the next row.
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

// toRow is the row's text. The label ends where the grey begins; where nothing is styled,
// with its first line.
func (r rowLines) toRow(role Role) Row {
	out := Row{Role: role, Number: r.number, Cursor: r.mark == "❯", Ticked: r.ticked}
	n := 1
	for n < len(r.lines) && r.hasNumberStyle() && !r.isGrey(r.lines[n]) {
		n++
	}
	out.Label = joinLines(r.lines[:n])
	return out
}

// listTop is where the rows begin: they are numbered without a gap, from the last one up
// to the first, or to one behind which others are hidden. There can be blank lines in a
// list, of a text that a person types, and numbered lines in a question.
func listTop(lines []line, multi bool) int {
	top := len(lines)
	var first rowStart
	for i := len(lines) - 1; i >= belowLastRule(lines) && first.number != 1 && first.mark != "↑"; i-- {
		row, ok := readListRow(lines[i], 0, multi)
		if !ok {
			continue
		}
		// then a number is missing, which splitRows says
		isAlike := row.hasNumberStyle() && row.numberStyle == first.numberStyle
		if first.number != 0 && row.number != first.number-1 && !isAlike {
			break
		}
		top, first = i, row
	}
	if !slices.ContainsFunc(
		lines[:top],
		func(l line) bool { return !l.isBlank() && l.indent() < 2 },
	) {
		return 0 // the rest of a row whose beginning is not on the screen
	}
	return top
}

// belowLastRule is the first line below the last rule.
func belowLastRule(lines []line) int {
	top := len(lines)
	for top > 0 && !lines[top-1].isRule() {
		top--
	}
	return top
}
