package inject

import (
	"regexp"
	"strings"
	"sync"
)

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
