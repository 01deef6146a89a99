package inject

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"

	"gchat-hooks/state"
)

// style is how a cell is drawn, as far as it tells one text from another. Claude Code
// draws a placeholder dim or, like the rows' numbers and descriptions, in the theme's
// grey; the place where a person types is one inverse cell.
type style struct {
	colour             string // the SGR parameters, e.g. "38;5;246"; "" is the terminal's own
	bold, dim, inverse bool
}

// cell is one column of a line: a character with what combines with it, or "", the right
// half of a wide one.
type cell struct {
	text  string
	style style
}

func (c cell) isBlank() bool { return c.text != "" && strings.TrimSpace(c.text) == "" }

// line is one line of a pane, without the blanks at its end.
type line struct {
	cells []cell // one a column
	text  string
}

func newLine(cells []cell) line {
	var l line
	end := 0
	for i, c := range cells {
		if !c.isBlank() {
			end = i + 1
		}
	}
	l.cells = cells[:end:end]
	var b strings.Builder
	for _, c := range l.cells {
		b.WriteString(c.text)
	}
	l.text = b.String()
	return l
}

func (l line) isBlank() bool { return len(l.cells) == 0 }

// indent counts the columns before the text.
func (l line) indent() int {
	return max(0, slices.IndexFunc(l.cells, func(c cell) bool { return !c.isBlank() }))
}

func (l line) width() int { return len(l.cells) }

// fromColumn is the line's text beginning at a column.
func (l line) fromColumn(column int) line { return newLine(l.cells[min(column, len(l.cells)):]) }

// beforeColumn is the line's text up to a column.
func (l line) beforeColumn(column int) line { return newLine(l.cells[:min(column, len(l.cells))]) }

// charAt is the character at a column; "" behind the end, and in the right half of a wide
// one.
func (l line) charAt(column int) string {
	if column >= len(l.cells) {
		return ""
	}
	return l.cells[column].text
}

// isStyled says whether the line has text beside the typing mark, and all of that is
// drawn as ok wants it.
func (l line) isStyled(matches func(style) bool) bool {
	hasText := false
	for _, c := range l.cells {
		if c.isBlank() || c.style.inverse {
			continue
		}
		if !matches(c.style) {
			return false
		}
		hasText = true
	}
	return hasText
}

// isRule says whether the line is a rule over the whole pane, as above a dialog and
// around the input box.
func (l line) isRule() bool { return len(l.cells) >= 8 && strings.Trim(l.text, "─") == "" }

// joinLines is the text of several lines, as one.
func joinLines(lines []line) string {
	var texts []string
	for _, l := range lines {
		if t := strings.TrimSpace(l.text); t != "" {
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, " ")
}

// readCapture takes a capture apart. A style lasts over the end of a line until it is
// changed, as tmux prints it. Of escape sequences only SGR means something here; the
// others are hyperlinks (OSC 8) and what a program might have left.
func readCapture(capture string) (lines []line) {
	const longestEscape = 1024 // bytes of one sequence, a hyperlink's address included
	var cells []cell
	var current style
	for len(capture) > 0 {
		if capture[0] == '\x1b' {
			escape := state.EscapeSequencePattern().
				FindString(capture[:min(len(capture), longestEscape)])
			capture = capture[len(escape):]
			if parameters, isSGR := strings.CutSuffix(escape, "m"); isSGR &&
				strings.HasPrefix(escape, "\x1b[") {
				current.applySGR(parameters[2:])
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(capture)
		text := capture[:size]
		capture = capture[size:]
		previous := len(cells) - 1 // the last character's
		if previous > 0 && cells[previous].text == "" {
			previous--
		}
		// tmux keeps what a zero width joiner joins in one cell.
		joins := previous >= 0 && strings.HasSuffix(cells[previous].text, "\u200d")
		switch {
		case r == '\n':
			lines, cells = append(lines, newLine(cells)), nil
		case r == '\t': // tmux stores no tabs; a saved screen may
			cells = append(cells, cell{" ", current})
		case r < ' ' || r == 0x7f:
		case joins || runeWidth(r) == 0 && previous >= 0:
			cells[previous].text += text
		case runeWidth(r) == 2:
			cells = append(cells, cell{text, current}, cell{"", current})
		case runeWidth(r) == 1:
			cells = append(cells, cell{text, current})
		}
	}
	return trimBlankLines(append(lines, newLine(cells)))
}

// trimBlankLines are the lines without the blank ones at their end.
func trimBlankLines(lines []line) []line {
	for len(lines) > 0 && lines[len(lines)-1].isBlank() {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// applySGR changes the style by the parameters of one SGR sequence. A background says
// nothing that is asked for here.
func (k *style) applySGR(parameters string) {
	fields := strings.FieldsFunc(parameters, func(r rune) bool { return r == ';' || r == ':' })
	if len(fields) == 0 {
		*k = style{}
	}
	for i := 0; i < len(fields); i++ {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return
		}
		switch {
		case n == 0:
			*k = style{}
		case n == 1:
			k.bold = true
		case n == 2:
			k.dim = true
		case n == 7 || n == 27:
			k.inverse = n == 7
		case n == 22:
			k.bold, k.dim = false, false
		case n == 38 || n == 48: // 38;5;N or 38;2;R;G;B
			size := 3
			if i+1 < len(fields) && fields[i+1] == "2" {
				size = 5
			}
			end := min(len(fields), i+size)
			if n == 38 {
				k.colour = strings.Join(fields[i:end], ";")
			}
			i = end - 1
		case n == 39:
			k.colour = ""
		case n >= 30 && n <= 37 || n >= 90 && n <= 97:
			k.colour = fields[i]
		}
	}
}

// SameText says whether a text on the screen is the text that was meant: wrapping may
// have taken or added white space (Claude Code wraps at spaces, and CJK and long words
// anywhere), so none of it counts. Nor do the marks that say how the character before is
// drawn: 2.1.329 leaves U+FE0F out, 2.1.332 a skin tone with what is joined to it, tmux
// 3.3a the fourth of a family. A letter and its accent are drawn as one character.
func SameText(shown, meant string) bool { return comparable(shown) == comparable(meant) }

// IsStartOf says whether shown, which may end in "…" or just be cut, is a beginning of
// meant. No text is no beginning.
func IsStartOf(shown, meant string) bool {
	start := strings.TrimSuffix(comparable(shown), "…")
	return start != "" && strings.HasPrefix(comparable(meant), start)
}

// IsEndOf says whether shown, whose beginning is not on the screen, is an end of meant.
// No text is no end.
func IsEndOf(shown, meant string) bool {
	end := comparable(shown)
	return end != "" && strings.HasSuffix(comparable(meant), end)
}

// joinedSymbol is a skin tone, or a symbol that is joined to the one before.
var joinedSymbol = pattern(`[\x{1f3fb}-\x{1f3ff}]|\x{200d}\p{So}?`)

func comparable(text string) string {
	text = joinedSymbol().ReplaceAllString(norm.NFC.String(text), "")
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == 0x200b || r == 0xfeff ||
			r >= 0xfe00 && r <= 0xfe0f {
			return -1
		}
		return r
	}, text)
}

// runeWidth is how many columns a character takes: two for Unicode's East Asian Width W
// and F, which the emoji have. tmux 3.3a and Claude Code agree on those that labels are
// made of; where they do not, a dialog with previews is not read (its box is no longer
// straight).
func runeWidth(r rune) int {
	switch {
	case r == 0x200b,
		r == 0x200d,
		r == 0xfeff,
		r >= 0xfe00 && r <= 0xfe0f,
		r >= 0x1f3fb && r <= 0x1f3ff,
		unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r < 0x1100:
		return 1
	case r >= 0x1f1e6 && r <= 0x1f1ff: // a letter of a flag
		return 2
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
