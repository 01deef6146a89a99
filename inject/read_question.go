package inject

import (
	"slices"
	"strings"
)

var (
	// dialogHint is the last line of every AskUserQuestion dialog; narrow panes wrap it.
	// What is between the two ends depends on the version, the question and the row, e.g.
	// "Tab/Arrow keys to navigate" or "ctrl+g to edit in Vim".
	dialogHint = pattern(`^Enter to select · (\S.* · )?Esc to cancel$`)

	// hiddenLinesMark is drawn by 2.1.329 over the line above what it keeps at the
	// bottom, when the dialog is longer than the pane.
	hiddenLinesMark = pattern(`^ ↑ \d+ more lines?$`)

	chipLine = pattern(`^ [☐☒✔] \S.*$`)
	tabsLine = pattern(`^← .* →$|^←  ?[☐☒✔].*$`)
	tabMark  = pattern(`[☐☒✔] `) // one tab of "←  ☒ DB  ☐ Features  ✔ Submit  →"
)

const (
	chatLabel     = "Chat about this"
	oddDialogText = "a dialog of Claude Code's that is half drawn, too large for its pane, or holds a note"
)

// endsList says whether a line ends a list: a blank one, or what is drawn over it.
func (l line) endsList() bool { return l.isBlank() || hiddenLinesMark().MatchString(l.text) }

// dialogParts is an AskUserQuestion dialog cut into its parts, from the bottom up.
type dialogParts struct {
	above     []line // everything above the rule under the list of rows
	below     []line // the rows under it: "Chat about this" and others
	ruleWidth int    // of the rule
}

// readQuestion reads an AskUserQuestion dialog that shows one of its questions.
func readQuestion(lines []line) (Screen, bool) {
	d, ok := splitDialog(lines)
	if !ok {
		return Screen{}, false
	}
	below, first, ok := readRowsBelow(d.below)
	if !ok {
		return Screen{}, false
	}
	s := Screen{Shows: Question, HasPreview: first == 0}
	if s.HasPreview {
		ok = s.readPreview(d)
	} else {
		ok = s.readList(d, first-1)
	}
	if slices.ContainsFunc(below, func(r Row) bool { return r.Cursor }) {
		// The option that was left keeps its ❯, and so does a multi-select's Submit
		// (2.1.197).
		for i := range s.Rows {
			s.Rows[i].Cursor = s.Rows[i].Cursor && !s.HasPreview && s.Rows[i].Role != SubmitRow
		}
	}
	s.Rows = append(s.Rows, below...)
	if n := s.cursorCount(); !ok || n > 1 || n == 0 && !s.HasRowsAbove && !s.HasRowsBelow {
		return unknownScreen(oddDialogText), true
	}
	return s, true
}

// splitDialog finds, from the bottom: the hint, a blank line, the rows below the rule,
// the rule.
func splitDialog(lines []line) (d dialogParts, ok bool) {
	end := len(lines)
	for end > 0 && !lines[end-1].endsList() && len(lines)-end < 8 {
		end--
	}
	if end == 0 || !dialogHint().MatchString(joinLines(lines[end:])) {
		return d, false
	}
	bottom := end - 1
	rule := bottom - 1
	for rule >= 0 && !lines[rule].isRule() {
		if lines[rule].isBlank() || bottom-rule > 12 {
			return d, false
		}
		rule--
	}
	if rule < 1 {
		return d, false
	}
	return dialogParts{
		above:     lines[:rule],
		below:     lines[rule+1 : bottom],
		ruleWidth: lines[rule].width(),
	}, true
}

// readRowsBelow reads the rows below the rule. number is the first one's, 0 in a dialog
// with previews, where they have none.
func readRowsBelow(lines []line) (rows []Row, number int, ok bool) {
	if len(lines) == 0 {
		return nil, 0, false
	}
	if _, isNumbered := readRowStart(lines[0], 0); isNumbered {
		above, numberedRows, ok := splitRows(lines, 0, false)
		if !ok || len(above) > 0 {
			return nil, 0, false
		}
		number = numberedRows[0].number
		for _, r := range numberedRows {
			rows = append(rows, r.toRow(BelowRow))
		}
		return rows, number, rows[0].Label == chatLabel
	}
	for _, l := range lines {
		mark, label := l.charAt(0), l.fromColumn(2)
		if mark != "❯" && mark != " " || l.charAt(1) != " " || label.indent() != 0 {
			return nil, 0, false
		}
		rows = append(rows, Row{Role: BelowRow, Label: label.text, Cursor: mark == "❯"})
	}
	return rows, 0, rows[0].Label == chatLabel
}

func (s *Screen) cursorCount() (n int) {
	for _, r := range s.Rows {
		if r.Cursor {
			n++
		}
	}
	return n
}

// readPreview reads a list with previews: the options on the left, a box with the preview
// of one on the right, and under the box the field for notes. Descriptions and the field
// for the person's own words are not there.
func (s *Screen) readPreview(d dialogParts) bool {
	top, column := len(d.above)-1, -1
	for ; top >= 0 && !d.above[top].isRule(); top-- {
		column = boxCorner(d.above[top])
		if column >= 0 && d.above[top].width() <= d.ruleWidth {
			break
		}
	}
	if column < 4 {
		return false
	}
	var left, right []line
	for _, l := range d.above[top:] {
		before := l.beforeColumn(column)
		if l.width() > column && !l.cells[column-1].isBlank() {
			return false // the box is not straight
		}
		left, right = append(left, before), append(right, l.fromColumn(column))
	}
	above, rows, ok := splitRows(left, 0, false)
	if !ok || len(above) > 0 || len(rows) == 0 || rows[0].number != 1 || !hasNoNotes(right) {
		return false
	}
	hasMark := slices.ContainsFunc(rows, func(r rowLines) bool { return r.mark == "❯" })
	for _, r := range rows {
		row := Row{Role: OptionRow, Number: r.number, Label: joinLines(r.lines)}
		// 2.1.197 draws no ❯ before a label of several lines, only its bold type.
		row.Cursor = r.mark == "❯" ||
			!hasMark && r.lines[0].isStyled(func(k style) bool { return k.bold })
		s.Rows = append(s.Rows, row)
	}
	return s.readHead(d.above[:top], d.ruleWidth)
}

// boxCorner is the column of the preview's upper left corner, -1 for none: "❯ 1. Side bar
// ┌─────┐".
func boxCorner(l line) int {
	column := slices.IndexFunc(l.cells, func(c cell) bool { return c.text == "┌" })
	if column < 0 || !strings.HasSuffix(l.text, "┐") ||
		strings.Trim(l.fromColumn(column+1).text, "─┐") != "" {
		return -1
	}
	return column
}

// hasNoNotes says whether the box is closed, and the field under it says how to write a
// note: then it takes no keys and holds none.
func hasNoNotes(right []line) bool {
	i := 1
	for ; i < len(right) && !strings.HasPrefix(right[i].text, "└"); i++ {
		if c := right[i].charAt(0); c != "│" && c != "├" && c != "" {
			// 2.1.197 leaves a line out beside a label of several
			return false
		}
	}
	return i < len(right) && SameText(joinLines(right[i+1:]), "Notes: press n to add notes")
}

// readList reads a list without previews. other is the number of its field for own words.
func (s *Screen) readList(d dialogParts, fieldNumber int) bool {
	lines := d.above
	for len(lines) > 0 && lines[len(lines)-1].isBlank() { // of a text that a person types
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return false
	}
	submit, isSubmit := readSubmitRow(lines[len(lines)-1])
	s.MultiSelect = isSubmit && isMulti(lines, submit)
	if s.MultiSelect {
		lines = lines[:len(lines)-1]
	}
	top := listTop(lines, s.MultiSelect)
	above, rows, ok := splitRows(lines[top:], 0, s.MultiSelect)
	if !ok || !s.MultiSelect && isSubmitMissing(rows, isSubmit) || !s.addRows(rows, fieldNumber) {
		return false
	}
	if s.MultiSelect {
		s.Rows = append(s.Rows, submit)
	}
	return s.noteHiddenAbove(above, rows, top) && s.readHead(lines[:top], d.ruleWidth)
}

// isMulti reports whether the last line, which reads like the Submit of a multi-select,
// is that. It may be the end of a description, or of what was typed: then no row has a
// tick box.
func isMulti(lines []line, submit Row) bool {
	last := lines[len(lines)-1]
	if submit.Cursor || last.isStyled(func(k style) bool { return k.bold }) {
		return true
	}
	return slices.ContainsFunc(lines[belowLastRule(lines):], func(l line) bool {
		_, hasTickBox := readListRow(l, 0, true)
		return hasTickBox
	})
}

// isSubmitMissing reports whether the rows of a list that was read as one for a single
// choice are those of a multi-select whose Submit was not read as such.
func isSubmitMissing(rows []rowLines, isSubmit bool) bool {
	if len(rows) == 0 {
		return isSubmit
	}
	return !slices.ContainsFunc(rows, func(r rowLines) bool { return r.tickBox == "" })
}

// noteHiddenAbove notes whether the list goes on above its drawn rows. It reports whether
// the screen shows that: where something else is above them, they begin with the first,
// or with a mark.
func (s *Screen) noteHiddenAbove(above []line, rows []rowLines, top int) bool {
	isText := slices.ContainsFunc(above, func(l line) bool { return !l.isBlank() })
	s.HasRowsAbove = isText || len(rows) == 0 || rows[0].number > 1
	if top == 0 || !s.HasRowsAbove {
		return true
	}
	return !isText && len(rows) > 0 && (rows[0].mark == "↑" || rows[0].mark == "❯")
}

// addRows turns the drawn rows into what they are for. The field for the person's own
// words has the number before the first one below the rule.
func (s *Screen) addRows(rows []rowLines, fieldNumber int) bool {
	for _, r := range rows {
		row, ok := r.toRow(OptionRow), r.number < fieldNumber
		if r.number == fieldNumber {
			row, ok = r.readField()
		}
		if !ok {
			return false
		}
		s.Rows = append(s.Rows, row)
	}
	if len(rows) == 0 {
		s.HasRowsBelow = true
		return true
	}
	last := rows[len(rows)-1]
	s.HasRowsBelow = last.number < fieldNumber
	return !s.HasRowsBelow || last.mark == "↓" || last.mark == "❯"
}

// readField reads the row for the person's own words. Empty, it shows a placeholder in
// grey; what is typed takes its place and is drawn as text, so that a person can type the
// placeholder's own words.
func (r rowLines) readField() (Row, bool) {
	row := r.toRow(OtherRow)
	row.Label = joinLines(r.lines)
	// a multi-select's has no full stop
	isPlaceholder := strings.TrimSuffix(row.Label, ".") == "Type something"
	isGrey := r.hasNumberStyle() &&
		!slices.ContainsFunc(r.lines, func(l line) bool { return !r.isGrey(l) })
	if isGrey || !r.hasNumberStyle() && isPlaceholder {
		return row, isPlaceholder
	}
	row.Text = row.Label
	return row, true
}

// readSubmitRow reads the row below the last one of a multi-select. It says "Next" where
// another question follows, and is bold: a description that says "Submit" is not.
func readSubmitRow(l line) (Row, bool) {
	label := l.fromColumn(2)
	text, hasCursor := strings.TrimSpace(label.text), l.charAt(0) == "❯"
	if !hasCursor && l.charAt(0) != " " || l.charAt(1) != " " || label.indent() != 3 ||
		text != "Submit" && text != "Next" {
		return Row{}, false
	}
	isDescription := label.isStyled(
		func(k style) bool { return k.colour != "" && !k.bold && !hasCursor },
	)
	return Row{Role: SubmitRow, Label: text, Cursor: hasCursor}, !isDescription
}

// readHead reads what is above the rows: a rule, the tabs or the chip, and the question.
// Where the pane is too small, the upper part of it is not on the screen, and the rest
// begins at the screen's top.
func (s *Screen) readHead(lines []line, width int) bool {
	top := belowLastRule(lines)
	isWhole := top > 0
	if isWhole && lines[top-1].width() != width {
		return false
	}
	lines = lines[top:]
	hasGap := false // a blank line at the screen's top: the question begins below it
	for len(lines) > 0 && lines[0].isBlank() {
		lines, hasGap = lines[1:], true
	}
	hasTitle := len(lines) > 0 && s.readTitle(lines[0])
	if hasTitle {
		lines = lines[1:]
	}
	text, hasBar := questionText(lines)
	s.Question = text
	// Only behind the bar a blank line is never the question's own.
	s.IsCut = !hasTitle && !(hasGap && hasBar) || s.Question == ""
	return !isWhole || hasTitle && s.Question != ""
}

// readTitle reads the line under the dialog's rule: the tabs, or the chip of a single
// question.
func (s *Screen) readTitle(l line) bool {
	if chipLine().MatchString(l.text) {
		return true
	}
	if !tabsLine().MatchString(l.text) {
		return false
	}
	text := strings.TrimSuffix(l.text, "→")
	marks := tabMark().FindAllString(text, -1)
	for i, title := range tabMark().Split(text, -1)[1:] {
		title = strings.TrimSpace(title)
		mark := strings.TrimSpace(marks[i])
		s.Tabs = append(
			s.Tabs,
			Tab{Title: title, Answered: mark == "☒", Submit: mark == "✔" && title == "Submit"},
		)
	}
	if n := len(s.Tabs); n > 0 && !s.Tabs[n-1].Submit {
		s.Tabs = nil // cut, or something else
	}
	return len(s.Tabs) > 0
}

// questionText takes away the bar that 2.1.329 draws before a question of several lines.
func questionText(lines []line) (text string, hasBar bool) {
	lines = slices.DeleteFunc(slices.Clone(lines), line.isBlank)
	hasBar = len(lines) > 0 &&
		!slices.ContainsFunc(lines, func(l line) bool { return l.charAt(0) != "│" })
	for i := range lines {
		if hasBar {
			lines[i] = lines[i].fromColumn(1)
		}
	}
	return joinLines(lines), hasBar
}
