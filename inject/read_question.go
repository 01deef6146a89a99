package inject

import (
	"regexp"
	"sync"
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
