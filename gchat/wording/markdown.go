package wording

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gchat-hooks/state"
)

// renderMarkdown renders Claude's Markdown, which is visible text, in Chat's own syntax:
// *bold*, _italic_, ~struck~, `code`, "* " before items, 4 spaces before nested ones, ">
// " before quotes. Chat has no headings and no tables. Ordinary text is Markdown too, and
// comes out as it is, with its lines. All that is foreign in it is neutral then.
//
// It reads what Claude writes in a report: paragraphs, headings, lists, quotes, tables,
// fenced code and lines across, and in a line what is bold, italic, struck, code or a
// link. The rest of Markdown is text, as it was written. Each line is read by itself,
// once, so hostile text takes time and memory by its length, too.
func renderMarkdown(source string) string {
	if !markupPattern().MatchString(source) {
		return fenceReplacer.Replace(renderChatSyntax(source))
	}
	return parseMarkdown(source)
}

// markupPattern are what Markdown may read something into. A text without them, as most
// are, is lines and paragraphs for it, too.
var markupPattern = state.LazyPattern(`(?m)^(?:[ \t#>=+-]|\d{1,9}[.)])|[*_~\x60\[<&|\\]|\n\n\n`)

func parseMarkdown(source string) string {
	d := &document{}
	for lines := strings.Split(strings.Trim(source, "\n"), "\n"); len(lines) > 0; {
		lines = lines[d.readBlock(lines):]
	}
	return d.neutralText()
}

// renderChatSyntax is visible text with its lines as they are, neutral. Its code blocks
// stay code.
func renderChatSyntax(source string) string {
	lines := strings.Split(strings.Trim(source, "\n"), "\n")
	for i, l := range lines {
		lines[i] = disarm(strings.TrimRight(l, blanks))
	}
	return neutralise(strings.TrimRight(strings.Join(lines, "\n"), "\n"))
}

// line is a line of a message. Code is a line of a code block, or one of its fences.
type line struct {
	text   string
	isCode bool
}

type document struct {
	lines       []line
	itemIndents []int // how far the list items are indented that the last line is in
}

const blanks = " \t"

var (
	codeFencePattern      = state.LazyPattern("^([ \t]*)(`{3,})([^`]*)$")
	languagePattern       = state.LazyPattern(`^[A-Za-z0-9+#-]{0,12}$`)
	quotePattern          = state.LazyPattern(`^ {0,3}>[> ]*`)
	horizontalRulePattern = state.LazyPattern(
		`^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$`,
	)
	headingPattern = state.LazyPattern(`^ {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?$`)
	// "|---|:-:|", below a table's header
	tableRulePattern = state.LazyPattern(`^[-:| \t]*(?:\|[-:| \t]*-|-[-:| \t]*\|)[-:| \t]*$`)
	itemPattern      = state.LazyPattern(`^[ \t]*([-+*]|\d{1,9}[.)])[ \t]+(.*)$`)
)

// readBlock takes the next lines: a table, a block of code, or one line. It says how many
// they are.
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

// readCode takes a block of code to its end, or to that of the text. What stands beside
// its first fence is shown where it is more than a language.
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

// readLine takes a line that is no code.
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
		words := renderInline(title[1])
		if !strings.Contains(words, "*") { // else a part of it is bold, or has stars
			words = "*" + words + "*"
		}
		d.writeLine(quote + words)
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
		if words := strings.TrimLeft(text, blanks); len(d.itemIndents) > 0 {
			text = strings.Repeat("    ", len(d.itemIndents)) + words
		}
		d.writeLine(quote + renderInline(text))
	}
}

// endItems ends the items that are not less indented than so many columns.
func (d *document) endItems(columns int) {
	end := slices.IndexFunc(d.itemIndents, func(item int) bool { return item >= columns })
	if end >= 0 {
		d.itemIndents = d.itemIndents[:end]
	}
}

func (d *document) writeLine(text string) {
	d.lines = append(d.lines, line{text: strings.TrimRight(text, blanks)})
}

// indentColumns is how many columns of blanks a line begins with. A tab is 4 of them,
// wherever it begins.
func indentColumns(text string) int {
	before := text[:len(text)-len(strings.TrimLeft(text, blanks))]
	return len(before) + 3*strings.Count(before, "\t")
}

const fence = "```"

// writeCode adds code between fences, which the code cannot close. Blank code is no
// block.
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

// CodeBlock is Markdown that shows text as it stands: a fenced block, whose fence is
// longer than any in the text.
func CodeBlock(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence
}

// unwrapCell is a table's cell without the marks of bold or code that embrace all of it.
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

// alignColumns lines a table's cells up. Wider ones than widest move what stands behind
// them, and not the other rows.
func alignColumns(rows []string) string {
	const maxColumns, maxWidth = 32, 200
	var widths [maxColumns]int
	table := make([][]string, len(rows))
	for i, row := range rows {
		row = strings.NewReplacer(`\|`, "¦", "\t", " ").Replace(strings.TrimSpace(row))
		table[i] = strings.SplitN(
			strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|"),
			"|",
			maxColumns,
		)
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

// tokenPattern is what a line's text may have beside words: an escaped character,
// backticks, a link or an image, a URL, or marks of emphasis. In a label brackets stand
// in pairs, in a link's URL parentheses do.
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

type inlineRenderer struct {
	pieces []string
	// those of the pieces that are marks which something may close, each another one
	openMarks    []int
	unclosedRuns map[int]bool // no run of so many backticks comes any more
}

func (p *inlineRenderer) add(piece string) { p.pieces = append(p.pieces, piece) }

// addCode takes a code span, which reaches to a run of as many backticks, and says where
// it ends.
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

// chatMarks are Chat's marks for those of Markdown, as they begin.
var chatMarks = map[string]string{"*": "_", "_": "_", "**": "*", "__": "*", "***": "_*", "~~": "~"}

// addMark takes what may be a mark of emphasis. Chat shows its own as characters inside a
// word, so there the author's stay: "2*3*4" and file_name are no emphasis.
func (p *inlineRenderer) addMark(mark, textBefore, textAfter string) {
	before, _ := utf8.DecodeLastRuneInString(textBefore)
	after, _ := utf8.DecodeRuneInString(textAfter)
	openIndex := slices.IndexFunc(
		p.openMarks,
		func(piece int) bool { return p.pieces[piece] == mark },
	)
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

// isInWord is true for what a word goes on with. Scripts without upper case mostly have
// no spaces either: there, words cannot be told.
func isInWord(r rune) bool {
	return unicode.IsLetter(r) && !unicode.Is(unicode.Lo, r) || unicode.IsNumber(r)
}

// renderLink gives a link as its label and its target: Chat's "<url|label>" would let the
// label claim another target.
func renderLink(label, target string) string {
	switch {
	case label == target, target == "":
		return renderInline(label)
	case label == "":
		return target
	}
	return renderInline(label) + " (" + target + ")"
}

// neutralText makes the message's text out of its lines: nothing foreign in it acts.
func (d *document) neutralText() string {
	var out []string
	for _, line := range d.lines {
		text := state.Clean(state.ForChat, line.text)
		if !line.isCode { // code is drawn as a box, where nothing passes for a message of ours
			text = fenceReplacer.Replace(disarm(text))
		}
		out = append(out, text)
	}
	return neutraliseAngles(strings.TrimRight(strings.Join(out, "\n"), "\n"))
}

// fenceReplacer makes apostrophes of three backticks, which would open or close a code
// block.
var fenceReplacer = strings.NewReplacer(fence, "'''")
