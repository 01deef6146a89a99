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

// style is how a cell is drawn, as far as that distinguishes texts. Claude Code draws a
// placeholder dim, or in the theme's grey, in which it also draws row numbers and
// descriptions. The place where a person types is one inverse cell.
type style struct {
	colour             string // the SGR parameters, e.g. "38;5;246"; "" is the default colour
	bold, dim, inverse bool
}

// cell is one column of a line. Its text is a character with its combining marks, or ""
// in the right half of a wide character.
type cell struct {
	text  string
	style style
}

func (c cell) isBlank() bool { return c.text != "" && strings.TrimSpace(c.text) == "" }

// line is one line of a pane, without the blanks at its end.
type line struct {
	cells []cell // one for each column
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

// fromColumn returns the part of the line that begins at a column.
func (l line) fromColumn(column int) line { return newLine(l.cells[min(column, len(l.cells)):]) }

// beforeColumn returns the part of the line up to a column.
func (l line) beforeColumn(column int) line { return newLine(l.cells[:min(column, len(l.cells))]) }

// charAt returns the character at a column. It is "" after the line's end and in the
// right half of a wide character.
func (l line) charAt(column int) string {
	if column >= len(l.cells) {
		return ""
	}
	return l.cells[column].text
}

// isStyled reports whether all text of the line matches a style. Inverse cells, where a
// person types, do not count. A line without other text is not styled.
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

// isRule reports whether the line is a horizontal rule, as above a dialog and around the
// input box.
func (l line) isRule() bool { return len(l.cells) >= 8 && strings.Trim(l.text, "─") == "" }

// joinLines returns the text of several lines as one line.
func joinLines(lines []line) string {
	var texts []string
	for _, l := range lines {
		if t := strings.TrimSpace(l.text); t != "" {
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, " ")
}

// readCapture splits tmux's capture of a pane into lines of styled cells. A style lasts
// across line ends until it changes, as tmux prints it. SGR is the only escape sequence
// that matters here. Others are hyperlinks (OSC 8) and leftovers of other programs.
func readCapture(capture string) (lines []line) {
	const longestEscape = 1024 // bytes of one sequence, a hyperlink's address included
	var cells []cell
	var current style
	for len(capture) > 0 {
		if capture[0] == '\x1b' {
			escape := state.EscapeSequencePattern().
				FindString(capture[:min(len(capture), longestEscape)])
			capture = capture[len(escape):]
			parameters, isSGR := strings.CutSuffix(escape, "m")
			if isSGR && strings.HasPrefix(escape, "\x1b[") {
				current.applySGR(parameters[2:])
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(capture)
		text := capture[:size]
		capture = capture[size:]
		previous := len(cells) - 1 // of the character before this one
		if previous > 0 && cells[previous].text == "" {
			previous--
		}
		// tmux keeps everything that a zero width joiner connects in one cell.
		joins := previous >= 0 && strings.HasSuffix(cells[previous].text, "\u200d")
		switch {
		case r == '\n':
			lines, cells = append(lines, newLine(cells)), nil
		case r == '\t': // tmux stores no tabs, but a saved screen may have some
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

// trimBlankLines returns the lines without the blank ones at their end.
func trimBlankLines(lines []line) []line {
	for len(lines) > 0 && lines[len(lines)-1].isBlank() {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// applySGR changes the style by the parameters of one SGR sequence. It ignores the
// background colour, which nothing here asks about.
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

// SameText reports whether a text on the screen is the expected text. White space does
// not count, since wrapping may have added or removed some: Claude Code wraps at spaces,
// and CJK text and long words anywhere. Marks that change how the previous character is
// drawn do not count either. Claude Code 2.1.329 omits U+FE0F, 2.1.332 omits a skin tone
// and what is joined to it, and tmux 3.3a omits the fourth member of a family. A letter
// with a combining accent equals the accented letter.
func SameText(shown, meant string) bool { return comparableText(shown) == comparableText(meant) }

// IsStartOf reports whether shown is a beginning of meant. shown may end in "…" or be cut
// off. The empty text is not a beginning.
func IsStartOf(shown, meant string) bool {
	start := strings.TrimSuffix(comparableText(shown), "…")
	return start != "" && strings.HasPrefix(comparableText(meant), start)
}

// IsEndOf reports whether shown, whose beginning is not on the screen, is an end of
// meant. The empty text is not an end.
func IsEndOf(shown, meant string) bool {
	end := comparableText(shown)
	return end != "" && strings.HasSuffix(comparableText(meant), end)
}

// joinedSymbol matches a skin tone, or a symbol that is joined to the one before.
var joinedSymbol = pattern(`[\x{1f3fb}-\x{1f3ff}]|\x{200d}\p{So}?`)

// comparableText returns a text without everything that SameText ignores.
func comparableText(text string) string {
	text = joinedSymbol().ReplaceAllString(norm.NFC.String(text), "")
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == 0x200b || r == 0xfeff ||
			r >= 0xfe00 && r <= 0xfe0f {
			return -1
		}
		return r
	}, text)
}

// runeWidth returns how many columns a character takes: two for Unicode's East Asian
// Width W and F, which emoji have. tmux 3.3a and Claude Code agree on the characters that
// labels consist of. If they disagree, the box of a dialog with previews is not straight,
// and the dialog is not read.
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
