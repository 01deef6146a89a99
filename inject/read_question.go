package inject

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

var (
	// hint is the last line of every AskUserQuestion dialog; narrow panes wrap it. What is between the two ends depends
	// on the version, the question and the row, e.g. "Tab/Arrow keys to navigate" or "ctrl+g to edit in Vim".
	hint = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^Enter to select · (\S.* · )?Esc to cancel$`)
	})

	// hiddenAbove is drawn by 2.1.329 over the line above what it keeps at the bottom, when the dialog is longer than the pane.
	hiddenAbove = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ ↑ \d+ more lines?$`) })

	chatLabel = "Chat about this"
)

// dialog is an AskUserQuestion dialog cut into its parts, from the bottom up.
type dialog struct {
	above []line // everything above the list of rows
	extra []line // the rows below the rule: "Chat about this" and others
	width int    // of the rule
	hint  string
}

// readQuestion reads an AskUserQuestion dialog that shows one of its questions.
func readQuestion(lines []line) (Screen, bool) {
	d, ok := cutDialog(lines)
	if !ok {
		return Screen{}, false
	}
	s := Screen{Kind: Question}
	extra, firstBelow, ok := readExtra(d.extra)
	if !ok {
		return Screen{}, false
	}
	why := ""
	if firstBelow == 0 {
		why = s.readPreview(d)
	} else {
		why = s.readList(d, firstBelow)
	}
	if why != "" {
		return unknown(why), true
	}
	s.Rows = append(s.Rows, extra...)
	s.oneCursor()
	if n := s.cursors(); n > 1 || n == 0 && !s.Above && !s.Below {
		return unknown("a dialog of Claude Code's without one cursor"), true
	}
	return s, true
}

// cutDialog finds, from the bottom: the hint, a blank line, the rows below the rule, the rule.
func cutDialog(lines []line) (dialog, bool) {
	var d dialog
	end := len(lines)
	i := end
	for i > 0 && !lines[i-1].blank() && !hiddenAbove().MatchString(lines[i-1].text) && end-i < 8 {
		i--
	}
	d.hint = joined(lines[i:])
	if i == 0 || !hint().MatchString(d.hint) {
		return d, false
	}
	bottom := i - 1
	rule := bottom - 1
	for rule >= 0 && !lines[rule].rule() {
		if lines[rule].blank() || bottom-rule > 12 {
			return d, false
		}
		rule--
	}
	if rule < 1 {
		return d, false
	}
	d.width = lines[rule].width()
	d.extra = lines[rule+1 : bottom]
	d.above = lines[:rule]
	return d, true
}

// readExtra reads the rows below the rule. number is the first one's, 0 in a dialog with previews, where they have none.
func readExtra(lines []line) (rows []Row, number int, ok bool) {
	if len(lines) == 0 {
		return nil, 0, false
	}
	if _, numbered := rowStart(lines[0], 0); !numbered {
		for _, l := range lines {
			mark := l.at(0)
			if mark != "❯" && mark != " " || l.at(1) != " " || l.from(2).indent() != 0 {
				return nil, 0, false
			}
			rows = append(rows, extraRow(Row{Label: l.from(2).text, Cursor: mark == "❯"}))
		}
	} else {
		above, drawn, ok := splitRows(lines, 0, false)
		if !ok || len(above) > 0 {
			return nil, 0, false
		}
		number = drawn[0].number
		for _, r := range drawn {
			rows = append(rows, extraRow(r.row(ChatRow, false)))
		}
	}
	return rows, number, rows[0].Kind == ChatRow
}

func extraRow(r Row) Row {
	r.Kind = PlanRow
	if r.Label == chatLabel {
		r.Kind = ChatRow
	}
	return r
}

func (s *Screen) cursors() int {
	n := 0
	for _, r := range s.Rows {
		if r.Cursor {
			n++
		}
	}
	return n
}

// oneCursor: with previews the option that was left keeps its ❯ while the cursor stands on "Chat about this".
func (s *Screen) oneCursor() {
	if !s.Preview || s.cursors() != 2 {
		return
	}
	below := false
	for _, r := range s.Rows {
		below = below || r.Cursor && r.Kind != OptionRow
	}
	for i := range s.Rows {
		if below && s.Rows[i].Kind == OptionRow {
			s.Rows[i].Cursor = false
		}
	}
}

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

// The wording of the field for the person's own words while it is empty: single choice and multi-select.
var emptyField = map[string]bool{"Type something.": true, "Type something": true}

// readList reads a list without previews; it says what is wrong with one that is not as it should be.
func (s *Screen) readList(d dialog, firstBelow int) string {
	end := len(d.above)
	for end > 0 && d.above[end-1].blank() { // of a text that a person types
		end--
	}
	if end == 0 {
		return "a dialog of Claude Code's that is half drawn"
	}
	submit, isSubmit := submitRow(d.above[end-1])
	if isSubmit {
		// Or the last line of a description, or of what was typed: then no row has a tick box.
		_, s.Multi = firstRow(d.above[underRule(d.above):end], true)
		s.Multi = s.Multi || submit.Cursor || d.above[end-1].drawn(func(k ink) bool { return k.bold })
	}
	if s.Multi {
		end--
	}
	top := listTop(d.above[:end], s.Multi)
	above, rows, ok := splitRows(d.above[top:end], 0, s.Multi)
	if !ok || isSubmit && !s.Multi && len(rows) == 0 {
		return "a dialog of Claude Code's whose rows can be read in two ways"
	}
	if !s.Multi && len(rows) > 0 && !slices.ContainsFunc(rows, func(r rowLines) bool { return r.tick == "" }) {
		return "a dialog of Claude Code's that is half drawn" // a multi-select without its Submit
	}
	if why := s.addRows(rows, firstBelow-1); why != "" {
		return why
	}
	if s.Multi {
		s.Rows = append(s.Rows, submit)
	}
	above = slices.DeleteFunc(above, line.blank)
	if len(above) > 0 || len(rows) == 0 || rows[0].number > 1 {
		s.Above = true
	}
	if s.Above && top > 0 && (len(rows) == 0 || rows[0].mark != "↑" && rows[0].mark != "❯") {
		return "a dialog of Claude Code's that is half drawn"
	}
	if len(above) > 0 && top > 0 { // what does not belong to a row stands where only the screen's edge may be
		return "a dialog of Claude Code's that is half drawn"
	}
	return s.readHead(d.above[:top], d.width)
}

// addRows turns the drawn rows into what they are for. The field for the person's own words has the number before
// the first one below the rule.
func (s *Screen) addRows(rows []rowLines, other int) string {
	last := 0
	for _, r := range rows {
		if r.number > other {
			return "a dialog of Claude Code's whose rows are not numbered as they should be"
		}
		if r.number == other {
			row, ok := r.field(s.Multi)
			if !ok {
				return "a dialog of Claude Code's whose last row I do not know: " + shorten(row.Label, 40)
			}
			s.Rows = append(s.Rows, row)
		} else {
			s.Rows = append(s.Rows, r.row(OptionRow, s.Multi))
		}
		last = r.number
	}
	if len(rows) == 0 {
		s.Below = true
	} else if end := rows[len(rows)-1].mark; last < other {
		s.Below = true
		if end != "↓" && end != "❯" {
			return "a dialog of Claude Code's that is half drawn"
		}
	}
	return ""
}

// field reads the row for the person's own words. Empty, it shows a placeholder in grey; what is typed takes its place
// and is drawn as text, so that a person can type the placeholder's own words.
func (r rowLines) field(multi bool) (Row, bool) {
	row := r.row(OtherRow, multi)
	lines := append([]line(nil), r.lines...)
	if multi {
		lines[0] = lines[0].from(utf8.RuneCountInString(r.tick))
	}
	text := joined(lines)
	row.Label, row.Description, row.Cut = text, "", false
	if !r.coloured() {
		if !emptyField[text] {
			row.Text = text
		}
		return row, true
	}
	for _, l := range lines {
		if !r.greyer(l) {
			row.Text = text
			return row, true
		}
	}
	return row, emptyField[text]
}

// submitRow reads the row below the last one of a multi-select. It says "Next" where another question follows, and is
// bold: a description that says "Submit" is not.
func submitRow(l line) (Row, bool) {
	label := l.from(2)
	text := strings.TrimSpace(label.text)
	if l.at(0) != "❯" && l.at(0) != " " || l.at(1) != " " || label.indent() != 3 || text != "Submit" && text != "Next" {
		return Row{}, false
	}
	if label.drawn(func(k ink) bool { return k.colour != "" && !k.bold && l.at(0) != "❯" }) {
		return Row{}, false
	}
	return Row{Kind: SubmitRow, Label: text, Cursor: l.at(0) == "❯"}, true
}

var (
	chipPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ ([☐☒✔]) (\S.*)$`) })
	tabsPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^← .* →$|^←  ?[☐☒✔].*$`) })
)

// readHead reads what is above the rows: a rule, the tabs or the chip, and the question. Where the pane is too small,
// the upper part of it is not on the screen, and the rest begins at the screen's top.
func (s *Screen) readHead(lines []line, width int) string {
	for len(lines) > 0 && lines[len(lines)-1].blank() {
		lines = lines[:len(lines)-1]
	}
	top := len(lines) - 1
	for top >= 0 && !lines[top].rule() {
		top--
	}
	whole := top >= 0
	if whole && lines[top].width() != width {
		return "no dialog of Claude Code's"
	}
	lines = lines[top+1:]
	gap := false // a blank line at the screen's top: the question begins below it
	for len(lines) > 0 && lines[0].blank() {
		lines, gap = lines[1:], true
	}
	titled := len(lines) > 0 && s.readTitle(lines[0])
	if titled {
		lines = lines[1:]
	}
	if whole && !titled {
		return "a menu I do not know: " + shorten(joined(lines), 60)
	}
	text, barred := questionText(lines)
	s.Question = text
	// Only behind the bar a blank line is never the question's own.
	s.Cut = !titled && !(gap && barred) || s.Question == ""
	if whole && s.Question == "" {
		return "a dialog of Claude Code's that is half drawn"
	}
	return ""
}

// readTitle reads the line under the dialog's rule: the tabs, or the chip of a single question.
func (s *Screen) readTitle(l line) bool {
	if m := chipPattern().FindStringSubmatch(l.text); m != nil {
		s.Header = strings.TrimSpace(m[2])
		return true
	}
	if !tabsPattern().MatchString(l.text) {
		return false
	}
	s.readTabs(l)
	return len(s.Tabs) > 0
}

// readTabs reads "←  ☒ DB  ☐ Features  ✔ Submit  →". The current one has a background.
func (s *Screen) readTabs(l line) {
	var tab *Tab
	end := func() {
		if tab != nil {
			tab.Title = strings.TrimSpace(tab.Title)
			tab.Submit = tab.Submit && tab.Title == "Submit"
		}
		tab = nil
	}
	for i, c := range l.cells {
		box := c.text == "☐" || c.text == "☒" || c.text == "✔"
		if next := i + 1; box && next < len(l.cells) && l.cells[next].blank() && (i == 0 || l.cells[i-1].blank()) {
			end()
			s.Tabs = append(s.Tabs, Tab{Answered: c.text == "☒", Submit: c.text == "✔"})
			tab = &s.Tabs[len(s.Tabs)-1]
			continue
		}
		if tab != nil && c.text != "→" {
			tab.Title += c.text
		}
	}
	end()
	if n := len(s.Tabs); n > 0 && !s.Tabs[n-1].Submit {
		s.Tabs = nil // cut, or something else
	}
}

// questionText takes away the bar that 2.1.329 draws before a question of several lines.
func questionText(lines []line) (text string, barred bool) {
	for _, l := range lines {
		if l.blank() {
			continue
		}
		if barred = l.at(0) == "│"; !barred {
			break
		}
	}
	var own []line
	for _, l := range lines {
		if barred {
			l = l.from(1)
		}
		own = append(own, l)
	}
	return joined(own), barred
}
