package gchat

import "strings"

// maxMarkdown is how much text is read as Markdown, in bytes: eight messages full.
const maxMarkdown = 256 << 10

// tooHard says that reading this text as Markdown would take long, or deep recursion. The parser compares each mark with
// all that are open in its paragraph, looks from each link to its line's end, and goes through all open lists and
// quotes at each line; so a hostile text of 500 KB could keep it busy for minutes. Such a text is shown as it is.
func tooHard(source string) bool {
	if len(source) > maxMarkdown {
		return true
	}
	const (
		deepest   = 50
		mostSteps = 400 << 20 // about a second
	)
	steps, marks, links := 0, 0, 0
	for l := range strings.SplitSeq(source, "\n") {
		if depth(l) > deepest {
			return true
		}
		if beginsBlock(l) {
			marks, links = 0, 0
		}
		for i := range len(l) {
			switch l[i] {
			case '*', '_', '~', '[', '<', '`':
				if i == 0 || l[i-1] != l[i] || l[i] == '[' {
					marks++
					steps += marks
				}
			case '(':
				if i > 0 && l[i-1] == ']' {
					links++
				}
			}
		}
		if steps += links * len(l); steps > mostSteps {
			return true
		}
	}
	return false
}

// beginsBlock says that this line surely goes on with no paragraph: it is blank, a heading, or an item of a list.
func beginsBlock(l string) bool {
	words := strings.TrimSpace(l)
	if len(words) == 0 {
		return true
	}
	mark, rest, _ := strings.Cut(words, " ")
	return (mark == "-" || mark == "*" || mark == "+" || mark == "#" || mark == "##" || mark == "###") &&
		strings.TrimSpace(rest) != "" && strings.Index(l, mark) <= 3
}

// depth is how many lists and quotes a line can be in, by the markers and the spaces that it begins with.
func depth(l string) (n int) {
	spaces := 0
	for i := 0; i < len(l); i++ {
		switch c := l[i]; {
		case c == ' ':
			spaces++
		case c == '\t':
			spaces += 4
		case c == '>':
			n++
		case strings.ContainsRune("-*+.)", rune(c)):
			if i+1 == len(l) || l[i+1] == ' ' || l[i+1] == '\t' {
				n++
			} else {
				i = len(l)
			}
		case c >= '0' && c <= '9':
		default:
			i = len(l)
		}
	}
	if n == 0 {
		return 0 // indented text
	}
	return n + spaces/2
}
