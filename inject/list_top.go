package inject

import "slices"

// listTop is where the rows begin: below a blank line. But there can be blank lines in the list too, of a text that a person
// types, so the row before the first one is looked for above the blank line. It must be drawn as that one is:
// a question can hold numbered lines.
func listTop(lines []line, multi bool) int {
	top := runTop(lines, len(lines))
	for top > 1 {
		first, found := firstRow(lines[top:], multi)
		if found && (first.number == 1 || first.mark == "↑") {
			return top
		}
		before := runTop(lines, top-1)
		earlier, ok := lastRow(lines[before:top-1], multi)
		alike := earlier.grey.fg == first.grey.fg && earlier.grey.bold == first.grey.bold
		if !ok || found && !(alike && earlier.number == first.number-1) {
			break
		}
		top = before
	}
	if indented(lines[:top]) {
		return 0 // the rest of a row whose beginning is not on the screen
	}
	return top
}

// runTop is the first line of those without a blank one, or a rule, between them and end.
func runTop(lines []line, end int) int {
	top := end
	for top > 0 && !lines[top-1].blank() && !lines[top-1].rule() {
		top--
	}
	return top
}

// underRule is the first line below the last rule.
func underRule(lines []line) int {
	top := len(lines)
	for top > 0 && !lines[top-1].rule() {
		top--
	}
	return top
}

func indented(lines []line) bool {
	return !slices.ContainsFunc(lines, func(l line) bool { return !l.blank() && l.indent() < 2 })
}

func firstRow(lines []line, multi bool) (start, bool) {
	for _, l := range lines {
		if s, ok := listRow(l, 0, multi); ok {
			return s, true
		}
	}
	return start{}, false
}

func lastRow(lines []line, multi bool) (start, bool) {
	for i := len(lines) - 1; i >= 0; i-- {
		if s, ok := listRow(lines[i], 0, multi); ok {
			return s, true
		}
	}
	return start{}, false
}
