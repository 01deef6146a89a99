package inject

import (
	"regexp"
	"sync"
)

// permissionQuestions are what Claude Code asks above the rows of its other dialogs, as one text. Where the pane is small
// only the question's end may be on the screen.
var permissionQuestions = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`Do you want to [^?]*\?$|Would you like to proceed\?$|wants to (exit|enter) plan mode$|` +
		`Claude has written up a plan and is ready to execute\. Would you like to proceed\?$|ready to code\?`)
})

// permissionHint is how the text below the rows begins: "Esc to cancel · Tab to amend".
var permissionHint = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(Esc to cancel|ctrl[+-]g to edit)( |$)`)
})

// permissionFoot says whether the lines below the rows are Claude Code's: indented, unlike those of a shell.
func permissionFoot(lines []line) bool {
	var foot []line
	for _, l := range lines {
		if l.blank() || hiddenAbove().MatchString(l.text) {
			continue
		}
		if l.indent() == 0 || shellPrompt().MatchString(l.text) {
			return false
		}
		foot = append(foot, l)
	}
	return len(foot) == 0 || permissionHint().MatchString(joined(foot))
}

// readPermission reads another dialog that wants a choice: numbered rows under a question that is known.
func readPermission(lines []line) (Screen, bool) {
	first, last, mark := cursorBlock(lines)
	if mark < 0 {
		return Screen{}, false
	}
	if !permissionFoot(lines[last:]) {
		return Screen{}, false
	}
	_, rows, ok := splitRows(lines[first:last], mark, false)
	if !ok || len(rows) == 0 {
		return Screen{}, false
	}
	s := Screen{Kind: Permission}
	for _, r := range rows {
		s.Rows = append(s.Rows, r.row(OptionRow, false))
	}
	if s.cursors() != 1 || !permissionQuestions().MatchString(joined(lines[max(0, first-4):first])) {
		return Screen{}, false
	}
	s.Above, s.Below = rows[0].number > 1, rows[len(rows)-1].mark == "↓"
	return s, true
}

// cursorBlock finds the last row with the cursor and the rows around it, up to a blank line or what is drawn over one.
// mark is the cursor's column, -1 for no such row.
func cursorBlock(lines []line) (first, last, mark int) {
	cursor := len(lines) - 1
	for ; cursor >= 0 && len(lines)-cursor < 30; cursor-- {
		if l := lines[cursor]; l.at(l.indent()) == "❯" {
			if _, ok := rowStart(l, l.indent()); ok {
				break
			}
		}
	}
	if cursor < 0 || len(lines)-cursor >= 30 {
		return 0, 0, -1
	}
	mark = lines[cursor].indent()
	for last = cursor + 1; last < len(lines) && !lines[last].blank() && !hiddenAbove().MatchString(lines[last].text); last++ {
	}
	first = cursor
	for i := cursor - 1; i >= 0 && !lines[i].blank(); i-- {
		if s, ok := rowStart(lines[i], mark); ok {
			first = i
			if s.number == 1 {
				break
			}
		}
	}
	return first, last, mark
}
