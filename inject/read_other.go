package inject

import (
	"regexp"
	"strings"
	"sync"
)

const (
	reviewTitle = "Review your answers"
	reviewReady = "Ready to submit your answers?"
)

// readReview reads the page that shows the answers before they are submitted. Its two rows are the last thing on the
// screen, without a hint.
func readReview(lines []line) (Screen, bool) {
	n := len(lines)
	if n < 4 {
		return Screen{}, false
	}
	_, rows, ok := splitRows(lines[n-2:], 0, false)
	if !ok || len(rows) != 2 || rows[0].number != 1 || rows[0].first() != "Submit answers" || rows[1].first() != "Cancel" {
		return Screen{}, false
	}
	s := Screen{Kind: Review, Rows: []Row{rows[0].row(OptionRow, false), rows[1].row(OptionRow, false)}}
	if s.cursors() != 1 {
		return unknown("a review page without one cursor"), true
	}
	page := lines[:n-2]
	if last := page[len(page)-1]; !last.blank() && !hiddenAbove().MatchString(last.text) {
		return Screen{}, false
	}
	page = page[:len(page)-1]
	top := len(page) - 1
	for top >= 0 && !page[top].rule() {
		top--
	}
	if top >= 0 {
		body, ok := s.reviewHead(page[top+1:])
		if !ok {
			return unknown("a menu I do not know: Submit answers"), true
		}
		page = body
	} else if body, ok := s.reviewHead(page); ok {
		page = body
	} else {
		s.Cut = true
	}
	if !s.readAnswers(page) {
		return unknown("a review page that can be read in two ways"), true
	}
	return s, true
}

// reviewHead takes the tabs and the title from the page.
func (s *Screen) reviewHead(lines []line) ([]line, bool) {
	for i, l := range lines {
		switch {
		case l.blank() || s.readTitle(l):
		case l.text == reviewTitle:
			return lines[i+1:], true
		default:
			return nil, false
		}
	}
	return nil, false
}

// readAnswers reads " ● question" and "   → answer". 2.1.329 draws a bar before a question of several lines. The lines of
// an answer cannot be told from an arrow in it by their place, so an answer is known by its colour, and without colours
// only one arrow may follow a question. An entry whose beginning is not on the screen is left out.
func (s *Screen) readAnswers(lines []line) bool {
	var question, answer []line
	var green ink
	flush := func() {
		if question != nil {
			s.Answers = append(s.Answers, Reviewed{joined(question), joined(answer)})
		}
		question, answer = nil, nil
	}
	for _, l := range lines {
		text := l
		if l.at(1) == "│" {
			text = l.from(2)
		}
		switch t := strings.TrimSpace(text.text); {
		case t == reviewReady && l.at(0) == "R":
		case strings.HasPrefix(t, "⚠") && question == nil:
			s.Missing = true
		case text.indent() == 1 && text.at(1) == "●" && (answer != nil || question == nil):
			flush()
			question = []line{text.from(3)}
		case question == nil:
		case l.indent() == 3 && l.at(3) == "→" && (answer == nil || l.cells[3].ink == green && green.colour == ""):
			if answer != nil {
				return false
			}
			answer, green = []line{l.from(5)}, l.cells[3].ink
		case answer != nil:
			answer = append(answer, l)
		default:
			question = append(question, text)
		}
	}
	flush()
	return true
}

// The lines below the input box: the mode, hints and notices of Claude Code, or the person's own status line, of which
// nothing is known but that Claude Code indents it by two columns. The list that completes a command is there too, but
// then the box holds a draft.
const (
	statusLines = 12 // below an empty box; "?" shows a help of nine
	listLines   = 40
)

var interrupt = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`esc to interrupt|esc to inter…|\besc to…`)
})

// readInputBox reads the box between two rules that a person types instructions into. It is the last thing on the
// screen, but for status lines.
func readInputBox(lines []line) (Screen, bool) {
	bottom := len(lines) - 1
	listed := false // 2.1.197 does not indent the list that completes a command; nor does a shell its prompt
	for bottom >= 0 && !lines[bottom].rule() && len(lines)-bottom <= listLines {
		listed = listed || !lines[bottom].blank() && lines[bottom].indent() < 2
		bottom--
	}
	top := bottom - 1
	for top >= 0 && !boxTop(lines[top]) {
		top--
	}
	if top < 0 || bottom-top < 2 || !lines[bottom].rule() || lines[top].width() != lines[bottom].width() {
		return Screen{}, false
	}
	text, ok := boxText(lines[top+1 : bottom])
	if !ok {
		return Screen{}, false
	}
	below := lines[bottom+1:]
	switch {
	case listed && (strings.HasPrefix(text, "/") || strings.Contains(text, "@")) && !shellPrompt().MatchString(joined(below)):
		s := unknown("a list of commands or files below the input box")
		s.Draft = text
		return s, true
	case listed || text == "" && len(below) > statusLines:
		return Screen{}, false
	case len(below) > 0 && shellPrompt().MatchString(below[len(below)-1].text):
		return unknown("a shell"), true
	case strings.Contains(squeeze(joined(below)), "searchprompts:"): // 2.1.197, ctrl+r
		return unknown("a search through earlier prompts"), true
	}
	s := Screen{Kind: Prompt, Busy: busy(lines[:top], below)}
	if text != "" {
		s.Kind, s.Draft = Draft, text
	}
	return s, true
}

// boxTop is the upper rule. Later versions write into it, e.g. "─── History 3/3 ──────" while a person goes back through
// earlier prompts.
func boxTop(l line) bool {
	return l.rule() || len(l.cells) >= 8 && strings.HasPrefix(l.text, "───") && strings.HasSuffix(l.text, "──")
}

// boxText is what is typed in the box. The lines after the first are indented by two columns.
func boxText(lines []line) (string, bool) {
	var texts []string
	typed := false
	for i, l := range lines {
		switch first := l.at(0); {
		case i == 0 && first == "❯" || i > 0 && first == " " && l.indent() >= 2:
			l = l.from(2)
		case i == 0 && (first == "!" || first == "#"): // a shell command, or in older versions a memory
			typed = true
		case l.blank():
		default:
			return "", false
		}
		typed = typed || !l.blank() && !placeholder(l)
		texts = append(texts, l.text)
	}
	if !typed && len(texts) > 1 { // empty it has one line: a line break is in it
		return "\n", true
	}
	if !typed {
		return "", true
	}
	return strings.TrimRight(strings.Join(texts, "\n"), "\n"), true
}

// placeholder says whether a text in a field stands for none: it is dim, but for the first character, which is
// inverse where the keys go to that field.
func placeholder(l line) bool { return l.drawn(func(k ink) bool { return k.dim }) }

// busy looks for the spinner between the box and the last thing that was said, and for the hint below the box.
func busy(above, below []line) bool {
	for _, l := range below {
		if interrupt().MatchString(l.text) {
			return true
		}
	}
	for i := len(above) - 1; i >= 0 && len(above)-i < 20; i-- {
		switch above[i].at(0) {
		case "●", "⏺", "❯", "─":
			return false
		}
		if spinner().MatchString(above[i].text) {
			return true
		}
	}
	return false
}

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
