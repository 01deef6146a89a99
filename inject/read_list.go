package inject

import (
	"slices"
	"strings"
	"unicode/utf8"
)

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
				return "a dialog of Claude Code's whose last row I do not know: " + cutText(row.Label, 40)
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
	if label.drawn(func(k ink) bool { return k.fg != "" && !k.bold && l.at(0) != "❯" }) {
		return Row{}, false
	}
	return Row{Kind: SubmitRow, Label: text, Cursor: l.at(0) == "❯"}, true
}
