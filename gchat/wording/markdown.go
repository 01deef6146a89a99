package wording

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gchat-hooks/state"
)

// renderMarkdown renders Claude's Markdown in Chat's own syntax: *bold*, _italic_,
// ~struck~, `code`, "* " before items, four spaces before nested items, "> " before
// quotes. Chat has no headings and no tables. The source must be clean text; see
// state.Clean. Text without Markdown keeps its lines unchanged. Foreign text is neutral
// in the result.
//
// It reads the Markdown that Claude writes in a report: paragraphs, headings, lists,
// quotes, tables, fenced code and horizontal rules, and within a line bold, italic,
// struck, code and links. Any other Markdown stays unchanged, as text. It reads each line
// by itself and only once, so time and memory grow linearly even with hostile text.
func renderMarkdown(source string) string {
	if !markupPattern().MatchString(source) {
		return fenceReplacer.Replace(renderChatSyntax(source))
	}
	return parseMarkdown(source)
}

// markupPattern matches whatever may mean something in Markdown. Most texts have no
// match: they consist of plain lines and paragraphs in Markdown as well.
var markupPattern = state.LazyPattern(`(?m)^(?:[ \t#>=+-]|\d{1,9}[.)])|[*_~\x60\[<&|\\]|\n\n\n`)

func parseMarkdown(source string) string {
	d := &document{}
	for lines := strings.Split(strings.Trim(source, "\n"), "\n"); len(lines) > 0; {
		lines = lines[d.readBlock(lines):]
	}
	return d.neutralText()
}

// renderChatSyntax returns clean text in Chat's own syntax as neutral text. It keeps the
// lines and the code blocks.
func renderChatSyntax(source string) string {
	lines := strings.Split(strings.Trim(source, "\n"), "\n")
	for i, l := range lines {
		lines[i] = disarm(strings.TrimRight(l, blanks))
	}
	return neutralise(strings.TrimRight(strings.Join(lines, "\n"), "\n"))
}

// line is a line of a message.
type line struct {
	text   string
	isCode bool // a line of a code block, or one of its fences
}

// document is a message while its Markdown is read.
type document struct {
	lines []line
	// the indents, in columns, of the nested list items that the last line belongs to
	itemIndents []int
}

const blanks = " \t"

var (
	codeFencePattern      = state.LazyPattern("^([ \t]*)(`{3,})([^`]*)$")
	languagePattern       = state.LazyPattern(`^[A-Za-z0-9+#-]{0,12}$`)
	quotePattern          = state.LazyPattern(`^ {0,3}>[> ]*`)
	horizontalRulePattern = state.LazyPattern(
		`^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$`)
	headingPattern = state.LazyPattern(`^ {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?$`)
	// tableRulePattern matches the line below a table's header, such as "|---|:-:|".
	tableRulePattern = state.LazyPattern(`^[-:| \t]*(?:\|[-:| \t]*-|-[-:| \t]*\|)[-:| \t]*$`)
	itemPattern      = state.LazyPattern(`^[ \t]*([-+*]|\d{1,9}[.)])[ \t]+(.*)$`)
)

// readBlock reads a table, a block of code or a single line from the start of lines. It
// returns how many lines it read.
func (d *document) readBlock(lines []string) (n int) {
	text := strings.TrimRight(lines[0], blanks)
	if opening := codeFencePattern().FindStringSubmatch(text); opening != nil {
		return d.readCode(lines, opening[1], opening[2], strings.Trim(opening[3], blanks))
	}
	if len(lines) > 1 && strings.Contains(text, "|") && tableRulePattern().MatchString(lines[1]) {
		for n = 2; n < len(lines) && strings.Contains(lines[n], "|"); n++ {
		}
		d.writeCode(alignColumns(lines[:n]))
		return n
	}
	d.readLine(text)
	return 1
}

// readCode reads a block of code up to its closing fence, or to the end of the text.
// margin is the indent of the opening fence, and info is the text behind that fence: it
// is shown unless it only names a language. It returns how many lines it read.
func (d *document) readCode(lines []string, margin, fence, info string) (n int) {
	var code []string
	for n = 1; n < len(lines); n++ {
		closing := strings.Trim(lines[n], blanks)
		if strings.HasPrefix(closing, fence) && strings.Trim(closing, "`") == "" {
			n++
			break
		}
		code = append(code, strings.TrimPrefix(lines[n], margin))
	}
	if len(code) == 0 || !languagePattern().MatchString(info) {
		code = slices.Insert(code, 0, info)
	}
	d.writeCode(strings.Join(code, "\n"))
	return n
}

// readLine reads a line outside of code blocks and tables.
func (d *document) readLine(text string) {
	marker := quotePattern().FindString(text)
	text = text[len(marker):]
	quote := strings.Repeat("> ", strings.Count(marker, ">"))
	title, item := headingPattern().FindStringSubmatch(text), itemPattern().FindStringSubmatch(text)
	switch {
	case strings.Trim(text, blanks) == "":
		if quote != "" || len(d.lines) > 0 && d.lines[len(d.lines)-1].text != "" {
			d.writeLine(quote)
		}
	case horizontalRulePattern().MatchString(text):
		d.itemIndents = nil
		d.writeLine(quote + strings.Repeat("─", 12))
	case title != nil:
		d.itemIndents = nil
		heading := renderInline(title[1])
		if !strings.Contains(heading, "*") { // bold cannot contain bold text or asterisks
			heading = "*" + heading + "*"
		}
		d.writeLine(quote + heading)
	case item != nil:
		const leastNested = 2 // columns
		d.endItems(indentColumns(text) - leastNested + 1)
		margin := quote + strings.Repeat("    ", len(d.itemIndents))
		d.itemIndents = append(d.itemIndents, indentColumns(text))
		if strings.Contains("-+*", item[1]) {
			item[1] = "*"
		}
		d.writeLine(margin + item[1] + " " + renderInline(item[2]))
	default:
		d.endItems(indentColumns(text))
		if len(d.itemIndents) > 0 {
			text = strings.Repeat("    ", len(d.itemIndents)) + strings.TrimLeft(text, blanks)
		}
		d.writeLine(quote + renderInline(text))
	}
}

// endItems ends the list items that are indented by this many columns or more.
func (d *document) endItems(columns int) {
	end := slices.IndexFunc(d.itemIndents, func(item int) bool { return item >= columns })
	if end >= 0 {
		d.itemIndents = d.itemIndents[:end]
	}
}

func (d *document) writeLine(text string) {
	d.lines = append(d.lines, line{text: strings.TrimRight(text, blanks)})
}

// indentColumns returns how many columns of blanks a line begins with. Each tab counts as
// four columns.
func indentColumns(text string) int {
	before := text[:len(text)-len(strings.TrimLeft(text, blanks))]
	return len(before) + 3*strings.Count(before, "\t")
}

const fence = "```"

// writeCode adds code between fences. The code cannot close them. It adds nothing if the
// code is blank.
func (d *document) writeCode(code string) {
	code = strings.TrimRight(code, "\n")
	if strings.TrimSpace(code) == "" {
		return
	}
	d.lines = append(d.lines, line{fence, true})
	for l := range strings.SplitSeq(fenceReplacer.Replace(code), "\n") {
		d.lines = append(d.lines, line{l, true})
	}
	d.lines = append(d.lines, line{fence, true})
}

// CodeBlock returns Markdown that shows a text unchanged: a code block with a fence that
// is longer than any in the text.
func CodeBlock(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence
}

// unwrapCell returns a table's cell without the bold or code marks around the whole cell.
func unwrapCell(cell string) string {
	for _, mark := range []string{"`", "**"} {
		inner, isOpened := strings.CutPrefix(cell, mark)
		inner, isClosed := strings.CutSuffix(inner, mark)
		if isOpened && isClosed && inner != "" && !strings.Contains(inner, mark) {
			return inner
		}
	}
	return cell
}

// alignColumns pads a table's cells so that its columns are aligned. A cell that is wider
// than maxWidth shifts the rest of its own row only.
func alignColumns(rows []string) string {
	const maxColumns, maxWidth = 32, 200
	var widths [maxColumns]int
	table := make([][]string, len(rows))
	for i, row := range rows {
		row = strings.NewReplacer(`\|`, "¦", "\t", " ").Replace(strings.TrimSpace(row))
		row = strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|")
		table[i] = strings.SplitN(row, "|", maxColumns)
		for j, cell := range table[i] {
			cell = unwrapCell(strings.TrimSpace(cell))
			if i == 1 {
				cell = strings.Repeat("-", len(cell))
			}
			table[i][j] = cell
			widths[j] = min(max(widths[j], utf8.RuneCountInString(cell)), maxWidth)
		}
	}
	var b strings.Builder
	for _, cells := range table {
		for j, cell := range cells {
			cells[j] = fmt.Sprintf("%-*s", widths[j], cell)
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, "  "), " ") + "\n")
	}
	return b.String()
}

// tokenPattern matches the parts of a line that are not plain text: an escaped character,
// backticks, a link or an image, a URL, or marks of emphasis. A link's label may contain
// pairs of brackets, and its URL pairs of parentheses.
var tokenPattern = state.LazyPattern("\\\\[!-/:-@\\[-`{-~]" + "|`+" +
	`|!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^\s()]*(?:\([^\s()]*\)[^\s()]*)*)\)` +
	"|https?://[^\\s`]*[^\\s`*_~]" + `|\*+|_+|~~+`)

// renderInline renders a line's text.
func renderInline(text string) string {
	p := &inlineRenderer{unclosedRuns: map[int]bool{}}
	at := 0
	for _, m := range tokenPattern().FindAllStringSubmatchIndex(text, -1) {
		if m[0] < at { // it is in a code span
			continue
		}
		p.add(text[at:m[0]])
		token := text[m[0]:m[1]]
		at = m[1]
		switch {
		case token[0] == '\\':
			p.add(token[1:])
		case token[0] == '`':
			at = p.addCode(text, m[0], len(token))
		case m[2] >= 0:
			p.add(renderLink(text[m[2]:m[3]], text[m[4]:m[5]]))
		default:
			p.addMark(token, text[:m[0]], text[at:])
		}
	}
	p.add(text[at:])
	return strings.Join(p.pieces, "")
}

// inlineRenderer collects the rendered text of one line.
type inlineRenderer struct {
	pieces []string
	// indexes of the pieces that are opening marks without a closing one; no two of them
	// are the same mark
	openMarks []int
	// lengths of runs of backticks that do not occur in the rest of the line
	unclosedRuns map[int]bool
}

func (p *inlineRenderer) add(piece string) { p.pieces = append(p.pieces, piece) }

// addCode adds the code span that begins at start with n backticks. The span ends with
// the next run of n backticks. If there is none, addCode adds the n backticks as text. It
// returns where the rest of the line begins.
func (p *inlineRenderer) addCode(text string, start, n int) (end int) {
	for end = start + n; !p.unclosedRuns[n]; {
		offset := strings.IndexByte(text[end:], '`')
		if offset < 0 {
			p.unclosedRuns[n] = true
			break
		}
		end += offset
		run := len(text[end:]) - len(strings.TrimLeft(text[end:], "`"))
		if run == n {
			p.add("`" + strings.ReplaceAll(text[start+n:end], "`", "'") + "`")
			return end + n
		}
		end += run
	}
	p.add(text[start : start+n])
	return start + n
}

// chatMarks holds Chat's opening mark for each of Markdown's.
var chatMarks = map[string]string{"*": "_", "_": "_", "**": "*", "__": "*", "***": "_*", "~~": "~"}

// addMark adds what may be a mark of emphasis. A mark inside a word stays unchanged, as
// in "2*3*4" and file_name: Chat would show its own mark as a character there, too.
func (p *inlineRenderer) addMark(mark, textBefore, textAfter string) {
	before, _ := utf8.DecodeLastRuneInString(textBefore)
	after, _ := utf8.DecodeRuneInString(textAfter)
	openIndex := slices.IndexFunc(p.openMarks, func(i int) bool { return p.pieces[i] == mark })
	chatMark := chatMarks[mark]
	switch {
	case chatMark == "":
	case openIndex >= 0 && !unicode.IsSpace(before) && !isInWord(after):
		p.pieces[p.openMarks[openIndex]] = chatMark
		p.openMarks = p.openMarks[:openIndex]
		mark = chatMark[len(chatMark)-1:] + chatMark[:len(chatMark)-1]
	case !isInWord(before) && !unicode.IsSpace(after):
		if openIndex >= 0 {
			p.openMarks = slices.Delete(p.openMarks, openIndex, openIndex+1)
		}
		p.openMarks = append(p.openMarks, len(p.pieces))
	}
	p.add(mark)
}

// isInWord reports whether a mark beside this character is inside a word. Letters of
// scripts without upper case do not count: most of these scripts have no spaces, so one
// cannot see where a word ends.
func isInWord(r rune) bool {
	return unicode.IsLetter(r) && !unicode.Is(unicode.Lo, r) || unicode.IsNumber(r)
}

// renderLink renders a link as its label and its target. With Chat's "<url|label>", the
// label could pretend that the link leads elsewhere.
func renderLink(label, target string) string {
	switch {
	case label == target, target == "":
		return renderInline(label)
	case label == "":
		return target
	}
	return renderInline(label) + " (" + target + ")"
}

// neutralText joins the lines to the message's text. Nothing foreign in it has an effect
// in Chat.
func (d *document) neutralText() string {
	var out []string
	for _, line := range d.lines {
		text := state.Clean(state.ForChat, line.text)
		if !line.isCode { // Chat draws code in a box, where no line can pass for ours
			text = fenceReplacer.Replace(disarm(text))
		}
		out = append(out, text)
	}
	return neutraliseAngles(strings.TrimRight(strings.Join(out, "\n"), "\n"))
}

// fenceReplacer replaces three backticks, which would open or close a code block, with
// apostrophes.
var fenceReplacer = strings.NewReplacer(fence, "'''")
