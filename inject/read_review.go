package inject

import "strings"

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
		case l.indent() == 3 && l.at(3) == "→" && (answer == nil || l.cells[3].ink == green && green.fg == ""):
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
