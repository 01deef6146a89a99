package inject

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// readReview reads the page that shows the answers before they are submitted. Its two
// rows are the last lines of the screen; no hint follows.
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

// reviewLines returns the page's answers, " ● question" and " → answer", without tabs,
// title and last line. 2.1.329 draws a bar before a question of several lines.
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

// Below the input box are Claude Code's mode, hints and notices, or the person's own
// status line. All we know of that line is that Claude Code indents it by two columns.
// The list that completes a command is there too, but then the box holds a draft.
const (
	statusLines = 12 // at most, below an empty box; the help after "?" has nine
	listLines   = 40
)

// readInputBox reads the box between two rules into which a person types. Only status
// lines follow it on the screen.
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
	// 2.1.197 does not indent the list that completes a command. A shell's prompt is not
	// indented either.
	hasUnindented := slices.ContainsFunc(below, func(l line) bool {
		return !l.isBlank() && l.indent() < 2
	})
	mayComplete := strings.HasPrefix(text, "/") || strings.Contains(text, "@")
	isList := hasUnindented && mayComplete && !shellPrompt().MatchString(textBelow)
	isTooLong := text == "" && len(below) > statusLines
	switch {
	case isList:
		return Screen{Why: "a list of commands or files below the input box", Draft: text}, true
	case hasUnindented || isTooLong:
		return Screen{}, false
	case len(below) > 0 && shellPrompt().MatchString(below[len(below)-1].text):
		return unknownScreen("a shell"), true
	case strings.Contains(comparableText(textBelow), "searchprompts:"): // 2.1.197, ctrl+r
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

// IsBoxRule reports whether a line is a rule of the input box. Later versions write into
// the upper rule: "─── History 3/3 ──────" while a person goes back through prompts, and
// the session's name, "──── my session ─", or in a narrow pane " my sess… ─" (2.1.332).
func IsBoxRule(line string) bool {
	isLong := utf8.RuneCountInString(line) >= 8
	return isLong && strings.HasSuffix(line, "─") &&
		(strings.HasPrefix(line, "───") || strings.HasSuffix(line, " ─"))
}

// boxText returns the text that is typed in the box. Its lines after the first are
// indented by two columns.
func boxText(lines []line) (string, bool) {
	var texts []string
	isTyped := false
	for i, l := range lines {
		first := l.charAt(0)
		isFirst := i == 0 && first == "❯"
		isFurther := i > 0 && first == " " && l.indent() >= 2
		switch {
		case isFirst || isFurther:
			l = l.fromColumn(2)
		case i == 0 && first == "!": // a shell command
			isTyped = true
		case !l.isBlank():
			return "", false
		}
		// A placeholder is dim, except for its first character: that is inverse if the
		// field has the keys.
		isTyped = isTyped || !l.isBlank() && !l.isStyled(func(k style) bool { return k.dim })
		texts = append(texts, l.text)
	}
	switch {
	case isTyped:
		return strings.TrimRight(strings.Join(texts, "\n"), "\n"), true
	case len(texts) > 1: // an empty box has one line, so this one holds a line break
		return "\n", true
	}
	return "", true
}

// spinnerLine matches the line of a turn in progress: "✻ Choreographing… (3s · ↓ 20
// tokens)". 2.1.329 does not show "esc to interrupt" all the time.
var (
	spinnerLine   = pattern(`^[·✢✳✶✻✽*+] \S.*…( \(.*)?$`)
	interruptHint = pattern(`esc to interrupt|esc to inter…|\besc to…`)
)

// limitLine matches a line by the box that shows while Claude waits for the end of a
// usage limit. Claude then continues by itself (2.1.332).
var limitLine = pattern(`Continuing automatically (.+?) · Esc to cancel`)

// limitEnd returns the time at which that limit ends, as drawn, or "".
func limitEnd(above, below []line) string {
	for _, l := range append(slices.Clone(below), above[max(0, len(above)-5):]...) {
		if match := limitLine().FindStringSubmatch(l.text); match != nil {
			return match[1]
		}
	}
	return ""
}

// isBusy looks for the spinner between Claude's last message and the box, and for the
// hint below the box.
func isBusy(above, below []line) bool {
	isHint := func(l line) bool { return interruptHint().MatchString(l.text) }
	if slices.ContainsFunc(below, isHint) {
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
	// permissionQuestions matches what Claude Code asks above the rows of its other
	// dialogs, as one text. In a small pane only the question's end may be on the screen.
	permissionQuestions = pattern(`(Do you want to [^?]*|Would you like to proceed)\?$|` +
		`wants to (exit|enter) plan mode$|ready to code\?|means the full history gets re-read[^.]*\.$`)

	// permissionHint matches the beginning of the text below the rows: "Esc to cancel ·
	// Tab to amend".
	permissionHint = pattern(`^(Esc to cancel|ctrl[+-]g to edit|Enter to confirm)( |$)`)
)

// SwitchModelQuestion is what Claude Code asks after /model if the conversation is cached
// (2.1.197, 2.1.330). Answering it does not allow Claude to do anything.
const SwitchModelQuestion = "Switch model?"

// readPermission reads a dialog that is no AskUserQuestion: numbered rows below a
// question that Claude Code is known to ask, as for a permission.
func readPermission(lines []line) (Screen, bool) {
	first, last, mark := cursorBlock(lines)
	if last == 0 {
		return Screen{}, false
	}
	// Claude Code indents everything below the rows, unlike the lines of a shell.
	hintLines := slices.DeleteFunc(slices.Clone(lines[last:]), line.endsList)
	isForeign := func(l line) bool { return l.indent() == 0 || shellPrompt().MatchString(l.text) }
	isHint := permissionHint().MatchString(joinLines(hintLines))
	if len(hintLines) > 0 && (!isHint || slices.ContainsFunc(hintLines, isForeign)) {
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

// cursorBlock finds the last row with the cursor, and the lines around it up to lines
// that end a list. mark is the cursor's column. last is 0 if there is no such row.
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
