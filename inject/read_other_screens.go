package inject

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// readReview reads the page that shows the answers before they are submitted. Its two
// rows end the screen, without a hint.
func readReview(lines []line) (Screen, bool) {
	n := len(lines)
	if n < 4 {
		return Screen{}, false
	}
	_, rows, ok := splitRows(lines[n-2:], 0, false)
	if !ok || len(rows) != 2 || rows[0].number != 1 || !lines[n-3].endsList() {
		return Screen{}, false
	}
	s := Screen{Shows: Review, Rows: []Row{rows[0].toRow(OptionRow), rows[1].toRow(OptionRow)}}
	if s.Rows[0].Label != "Submit answers" || s.Rows[1].Label != "Cancel" {
		return Screen{}, false
	}
	page := lines[:n-3]
	top := belowLastRule(page)
	body, hasTitle := s.reviewLines(page[top:])
	s.Answers, s.IsCut = joinLines(body), !hasTitle
	if s.cursorCount() != 1 || top > 0 && !hasTitle {
		return unknownScreen(oddDialogText), true
	}
	return s, true
}

// reviewLines is the page's answers, " ● question" and " → answer", without its tabs, its
// title and its last line. 2.1.329 draws a bar before a question of several lines.
func (s *Screen) reviewLines(page []line) (body []line, hasTitle bool) {
	for _, l := range page {
		switch {
		case l.text == "Ready to submit your answers?":
			return body, hasTitle
		case body == nil && l.text == "Review your answers":
			hasTitle = true
		case body == nil && (l.isBlank() || s.readTitle(l)):
		case l.charAt(1) == "│":
			body = append(body, l.fromColumn(2))
		default:
			body = append(body, l)
		}
	}
	return body, hasTitle
}

// The lines below the input box: the mode, hints and notices of Claude Code, or the
// person's own status line, of which nothing is known but that Claude Code indents it by
// two columns. The list that completes a command is there too, but then the box holds a
// draft.
const (
	statusLines = 12 // below an empty box; "?" shows a help of nine
	listLines   = 40
)

// readInputBox reads the box between two rules that a person types instructions into. It
// is the last thing on the screen, but for status lines.
func readInputBox(lines []line) (Screen, bool) {
	bottom := belowLastRule(lines) - 1
	top := bottom - 1
	for top >= 0 && !IsBoxRule(lines[top].text) {
		top--
	}
	if top < 0 || bottom-top < 2 || len(lines)-bottom > listLines+1 ||
		lines[top].width() != lines[bottom].width() {
		return Screen{}, false
	}
	text, ok := boxText(lines[top+1 : bottom])
	if !ok {
		return Screen{}, false
	}
	below := lines[bottom+1:]
	textBelow := joinLines(below)
	// 2.1.197 does not indent the list that completes a command; nor does a shell its
	// prompt.
	hasUnindented := slices.ContainsFunc(
		below,
		func(l line) bool { return !l.isBlank() && l.indent() < 2 },
	)
	mayComplete := strings.HasPrefix(text, "/") || strings.Contains(text, "@")
	switch {
	case hasUnindented && mayComplete && !shellPrompt().MatchString(textBelow):
		return Screen{Why: "a list of commands or files below the input box", Draft: text}, true
	case hasUnindented || text == "" && len(below) > statusLines:
		return Screen{}, false
	case len(below) > 0 && shellPrompt().MatchString(below[len(below)-1].text):
		return unknownScreen("a shell"), true
	case strings.Contains(comparable(textBelow), "searchprompts:"): // 2.1.197, ctrl+r
		return unknownScreen("a search through earlier prompts"), true
	}
	s := Screen{
		Shows:    Prompt,
		Busy:     isBusy(lines[:top], below),
		LimitEnd: limitEnd(lines[:top], below),
		Draft:    text,
	}
	if text != "" {
		s.Shows = Draft
	}
	return s, true
}

// IsBoxRule says whether a line is a rule of the input box. Later versions write into the
// upper one: "─── History 3/3 ──────" while a person goes back through prompts, and the
// session's name, "──── my session ─", or in a narrow pane " my sess… ─" (2.1.332).
func IsBoxRule(line string) bool {
	isLong := utf8.RuneCountInString(line) >= 8
	return isLong && strings.HasSuffix(line, "─") &&
		(strings.HasPrefix(line, "───") || strings.HasSuffix(line, " ─"))
}

// boxText is what is typed in the box. The lines after the first are indented by two
// columns.
func boxText(lines []line) (string, bool) {
	var texts []string
	isTyped := false
	for i, l := range lines {
		switch first := l.charAt(0); {
		case i == 0 && first == "❯" || i > 0 && first == " " && l.indent() >= 2:
			l = l.fromColumn(2)
		case i == 0 && first == "!": // a shell command
			isTyped = true
		case !l.isBlank():
			return "", false
		}
		// A placeholder is dim, but for the first character, which is inverse where the
		// keys go to that field.
		isTyped = isTyped || !l.isBlank() && !l.isStyled(func(k style) bool { return k.dim })
		texts = append(texts, l.text)
	}
	switch {
	case isTyped:
		return strings.TrimRight(strings.Join(texts, "\n"), "\n"), true
	case len(texts) > 1: // empty it has one line: a line break is in it
		return "\n", true
	}
	return "", true
}

// spinnerLine is the line of a turn under way: "✻ Choreographing… (3s · ↓ 20 tokens)".
// 2.1.329 does not say "esc to interrupt" all the while.
var (
	spinnerLine   = pattern(`^[·✢✳✶✻✽*+] \S.*…( \(.*)?$`)
	interruptHint = pattern(`esc to interrupt|esc to inter…|\besc to…`)
)

// limitLine is the line that stands by the box while Claude waits for the end of a usage
// limit, and goes on by itself (2.1.332).
var limitLine = pattern(`Continuing automatically (.+?) · Esc to cancel`)

// limitEnd is until when Claude waits so; "" where it does not.
func limitEnd(above, below []line) string {
	for _, l := range append(slices.Clone(below), above[max(0, len(above)-5):]...) {
		if match := limitLine().FindStringSubmatch(l.text); match != nil {
			return match[1]
		}
	}
	return ""
}

// isBusy finds the spinner between the box and the last thing that was said, or the hint
// below the box.
func isBusy(above, below []line) bool {
	if slices.ContainsFunc(
		below,
		func(l line) bool { return interruptHint().MatchString(l.text) },
	) {
		return true
	}
	for _, l := range slices.Backward(above[max(0, len(above)-19):]) {
		switch l.charAt(0) {
		case "●", "⏺", "❯", "─":
			return false
		}
		if spinnerLine().MatchString(l.text) {
			return true
		}
	}
	return false
}

var (
	// permissionQuestions are what Claude Code asks above the rows of its other dialogs,
	// as one text. Where the pane is small only the question's end may be on the screen.
	permissionQuestions = pattern(`(Do you want to [^?]*|Would you like to proceed)\?$|` +
		`wants to (exit|enter) plan mode$|ready to code\?|means the full history gets re-read[^.]*\.$`)

	// permissionHint is how the text below the rows begins: "Esc to cancel · Tab to
	// amend".
	permissionHint = pattern(`^(Esc to cancel|ctrl[+-]g to edit|Enter to confirm)( |$)`)
)

// SwitchModelQuestion is what Claude Code asks after /model in a conversation that is
// cached (2.1.197, 2.1.330). It lets Claude do nothing.
const SwitchModelQuestion = "Switch model?"

// readPermission reads another dialog that wants a choice: numbered rows under a question
// that is known.
func readPermission(lines []line) (Screen, bool) {
	first, last, mark := cursorBlock(lines)
	if last == 0 {
		return Screen{}, false
	}
	// What is below the rows is Claude Code's: indented, unlike the lines of a shell.
	hintLines := slices.DeleteFunc(slices.Clone(lines[last:]), line.endsList)
	isForeign := func(l line) bool { return l.indent() == 0 || shellPrompt().MatchString(l.text) }
	if len(hintLines) > 0 &&
		(slices.ContainsFunc(hintLines, isForeign) || !permissionHint().MatchString(joinLines(hintLines))) {
		return Screen{}, false
	}
	above, rows, ok := splitRows(lines[first:last], mark, false)
	first += len(above)
	question := permissionQuestions().FindString(joinLines(lines[max(0, first-4):first]))
	if !ok || len(rows) == 0 || question == "" {
		return Screen{}, false
	}
	if strings.HasPrefix(question, "means the full history") {
		question = SwitchModelQuestion
	}
	s := Screen{
		Shows:        Permission,
		Question:     question,
		HasRowsAbove: rows[0].number > 1,
		HasRowsBelow: rows[len(rows)-1].mark == "↓",
	}
	for _, r := range rows {
		s.Rows = append(s.Rows, r.toRow(OptionRow))
	}
	for _, l := range lines[belowLastRule(lines):] {
		s.Text += l.text + "\n"
	}
	return s, s.cursorCount() == 1
}

// cursorBlock finds the last row with the cursor and the lines around it, up to blank
// ones or what is drawn over one. mark is the cursor's column; last is 0 where there is
// no such row.
func cursorBlock(lines []line) (first, last, mark int) {
	const farthest = 30 // lines from the bottom
	for cursor := len(lines) - 1; cursor >= max(0, len(lines)-farthest); cursor-- {
		mark = lines[cursor].indent()
		if _, ok := readRowStart(lines[cursor], mark); !ok || lines[cursor].charAt(mark) != "❯" {
			continue
		}
		for last = cursor + 1; last < len(lines) && !lines[last].endsList(); last++ {
		}
		for first = cursor; first > 0 && !lines[first-1].endsList(); first-- {
		}
		return first, last, mark
	}
	return 0, 0, 0
}
