package inject

import (
	"slices"
	"strings"
)

var (
	// dialogHint matches the last line of every AskUserQuestion dialog, which narrow
	// panes wrap. Its middle depends on the version, the question and the row, e.g.
	// "Tab/Arrow keys to navigate" or "ctrl+g to edit in Vim".
	dialogHint = pattern(`^Enter to select · (\S.* · )?Esc to cancel$`)

	// hiddenLinesMark matches a line that 2.1.329 draws if the dialog is longer than the
	// pane. It replaces the line above the part that stays at the bottom.
	hiddenLinesMark = pattern(`^ ↑ \d+ more lines?$`)

	chipLine = pattern(`^ [☐☒✔] \S.*$`)
	tabsLine = pattern(`^← .* →$|^←  ?[☐☒✔].*$`)
	tabMark  = pattern(`[☐☒✔] `) // begins a tab of "←  ☒ DB  ☐ Features  ✔ Submit  →"
)

const (
	chatLabel     = "Chat about this"
	oddDialogText = "a dialog of Claude Code's that is half drawn, " +
		"too large for its pane, or holds a note"
)

// endsList reports whether a line ends a list: a blank one, or the mark of hidden lines.
func (l line) endsList() bool { return l.isBlank() || hiddenLinesMark().MatchString(l.text) }

// dialogParts is an AskUserQuestion dialog split into its parts.
type dialogParts struct {
	above     []line // everything above the rule below the options
	below     []line // the rows below that rule: "Chat about this" and others
	ruleWidth int
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
		// The option that the cursor has left keeps its ❯, and so does a multi-select's
		// Submit (2.1.197).
		for i := range s.Rows {
			s.Rows[i].Cursor = s.Rows[i].Cursor && !s.HasPreview && s.Rows[i].Role != SubmitRow
		}
	}
	s.Rows = append(s.Rows, below...)
	n := s.cursorCount()
	isCursorHidden := n == 0 && (s.HasRowsAbove || s.HasRowsBelow)
	if !ok || n != 1 && !isCursorHidden {
		return unknownScreen(oddDialogText), true
	}
	return s, true
}

// splitDialog finds, from the bottom up: the hint, a blank line, the rows below the rule,
// and the rule.
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

// readRowsBelow reads the rows below the rule. number is that of the first row. It is 0
// in a dialog with previews, which does not number these rows.
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

// readPreview reads a list with previews. The options are on the left, a box with the
// preview of one of them is on the right, and the field for notes is below the box. Such
// a list has no descriptions and no field for the person's own words.
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
		if l.width() > column && !l.cells[column-1].isBlank() {
			return false // the box is not straight
		}
		left = append(left, l.beforeColumn(column))
		right = append(right, l.fromColumn(column))
	}
	above, rows, ok := splitRows(left, 0, false)
	if !ok || len(above) > 0 || len(rows) == 0 || rows[0].number != 1 || !hasNoNotes(right) {
		return false
	}
	hasMark := slices.ContainsFunc(rows, func(r rowLines) bool { return r.mark == "❯" })
	for _, r := range rows {
		// Before a label of several lines 2.1.197 draws no ❯; the label is only bold.
		isBold := !hasMark && r.lines[0].isStyled(func(k style) bool { return k.bold })
		s.Rows = append(s.Rows, Row{
			Role:   OptionRow,
			Number: r.number,
			Label:  joinLines(r.lines),
			Cursor: r.mark == "❯" || isBold,
		})
	}
	return s.readHead(d.above[:top], d.ruleWidth)
}

// boxCorner returns the column of the preview's upper left corner, or -1: "❯ 1. Side bar
// ┌─────┐".
func boxCorner(l line) int {
	column := slices.IndexFunc(l.cells, func(c cell) bool { return c.text == "┌" })
	if column < 0 || !strings.HasSuffix(l.text, "┐") ||
		strings.Trim(l.fromColumn(column+1).text, "─┐") != "" {
		return -1
	}
	return column
}

// hasNoNotes reports whether the box is closed and the field below it only says how to
// write a note. Then the field has neither the keys nor a note.
func hasNoNotes(right []line) bool {
	i := 1
	for ; i < len(right) && !strings.HasPrefix(right[i].text, "└"); i++ {
		c := right[i].charAt(0)
		isSide := c == "│" || c == "├"
		if !isSide && c != "" { // 2.1.197 omits a line beside a label of several lines
			return false
		}
	}
	return i < len(right) && SameText(joinLines(right[i+1:]), "Notes: press n to add notes")
}

// readList reads a list without previews. fieldNumber is that of the row for own words.
func (s *Screen) readList(d dialogParts, fieldNumber int) bool {
	lines := d.above
	for len(lines) > 0 && lines[len(lines)-1].isBlank() { // of a text that a person is typing
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
	isMisread := !s.MultiSelect && isSubmitMissing(rows, isSubmit)
	if !ok || isMisread || !s.addRows(rows, fieldNumber) {
		return false
	}
	if s.MultiSelect {
		s.Rows = append(s.Rows, submit)
	}
	return s.noteHiddenAbove(above, rows, top) && s.readHead(lines[:top], d.ruleWidth)
}

// isMulti reports whether the last line, which reads like a multi-select's Submit, is
// one. Otherwise it is the end of a description or of typed text, and no row has a tick
// box.
func isMulti(lines []line, submit Row) bool {
	isBold := lines[len(lines)-1].isStyled(func(k style) bool { return k.bold })
	hasTickBox := func(l line) bool {
		_, isTickBox := readListRow(l, 0, true)
		return isTickBox
	}
	return submit.Cursor || isBold || slices.ContainsFunc(lines[belowLastRule(lines):], hasTickBox)
}

// isSubmitMissing reports whether a list that was read as a single choice looks like a
// multi-select whose Submit row was not recognised.
func isSubmitMissing(rows []rowLines, isSubmit bool) bool {
	if len(rows) == 0 {
		return isSubmit
	}
	return !slices.ContainsFunc(rows, func(r rowLines) bool { return r.tickBox == "" })
}

// noteHiddenAbove sets HasRowsAbove if the list begins above its drawn rows. It reports
// whether the screen is consistent with that. If something else stands above the rows,
// they must begin with the first one or with a mark.
func (s *Screen) noteHiddenAbove(above []line, rows []rowLines, top int) bool {
	isText := slices.ContainsFunc(above, func(l line) bool { return !l.isBlank() })
	s.HasRowsAbove = isText || len(rows) == 0 || rows[0].number > 1
	if top == 0 || !s.HasRowsAbove {
		return true
	}
	return !isText && len(rows) > 0 && (rows[0].mark == "↑" || rows[0].mark == "❯")
}

// addRows adds the drawn rows with their roles. The field for own words has the number
// before that of the first row below the rule.
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

// readField reads the row for the person's own words. An empty field shows a placeholder
// in grey. Typed text replaces it and is not grey, so a person may even type the words of
// the placeholder.
func (r rowLines) readField() (Row, bool) {
	row := r.toRow(OtherRow)
	row.Label = joinLines(r.lines)
	// In a multi-select the placeholder has no full stop.
	isPlaceholder := strings.TrimSuffix(row.Label, ".") == "Type something"
	isGrey := r.hasNumberStyle() &&
		!slices.ContainsFunc(r.lines, func(l line) bool { return !r.isGrey(l) })
	if isGrey || !r.hasNumberStyle() && isPlaceholder {
		return row, isPlaceholder
	}
	row.Text = row.Label
	return row, true
}

// readSubmitRow reads a multi-select's last row above the rule. It says "Submit", or
// "Next" if another question follows, and it is bold. A description that says "Submit" is
// not.
func readSubmitRow(l line) (Row, bool) {
	label := l.fromColumn(2)
	text, hasCursor := strings.TrimSpace(label.text), l.charAt(0) == "❯"
	isMark := hasCursor || l.charAt(0) == " "
	isLabel := text == "Submit" || text == "Next"
	if !isMark || !isLabel || l.charAt(1) != " " || label.indent() != 3 {
		return Row{}, false
	}
	isDescription := label.isStyled(func(k style) bool {
		return k.colour != "" && !k.bold && !hasCursor
	})
	return Row{Role: SubmitRow, Label: text, Cursor: hasCursor}, !isDescription
}

// readHead reads what is above the rows: a rule, the tabs or the chip, and the question.
// In a small pane the upper part is not on the screen, and the rest begins at the top of
// the screen.
func (s *Screen) readHead(lines []line, width int) bool {
	top := belowLastRule(lines)
	isWhole := top > 0
	if isWhole && lines[top-1].width() != width {
		return false
	}
	lines = lines[top:]
	hasGap := false // a blank line at the top of the screen: the question begins below it
	for len(lines) > 0 && lines[0].isBlank() {
		lines, hasGap = lines[1:], true
	}
	hasTitle := len(lines) > 0 && s.readTitle(lines[0])
	if hasTitle {
		lines = lines[1:]
	}
	text, hasBar := questionText(lines)
	s.Question = text
	// A blank line can belong to the question, unless a bar marks the question's lines.
	s.IsCut = !hasTitle && !(hasGap && hasBar) || s.Question == ""
	return !isWhole || hasTitle && s.Question != ""
}

// readTitle reads the line below the dialog's rule: the tabs, or the chip of a single
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
		isSubmit := mark == "✔" && title == "Submit"
		s.Tabs = append(s.Tabs, Tab{Title: title, Answered: mark == "☒", Submit: isSubmit})
	}
	if n := len(s.Tabs); n > 0 && !s.Tabs[n-1].Submit {
		s.Tabs = nil // the row of tabs is cut off, or it is something else
	}
	return len(s.Tabs) > 0
}

// questionText joins a question's lines, without the bar that 2.1.329 draws before a
// question of several lines.
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
