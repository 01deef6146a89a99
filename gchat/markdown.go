package gchat

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gchat-hooks/state"
)

// markdown renders Claude's Markdown, which is visible text, in Chat's own syntax: *bold*, _italic_, ~struck~, `code`,
// "* " before items, 4 spaces before nested ones, "> " before quotes. Chat has no headings and no tables. Ordinary text
// is Markdown too, and comes out as it is, with its lines. All that is foreign in it is neutral then.
//
// It is CommonMark with tables, without HTML, which is text for us, and without link definitions, which would make a line such as
// "[Done]: yes" vanish. Hostile text takes time and memory by its length, too: all that looks back or nests is bounded.
func markdown(source string) string {
	if !marks().MatchString(source) {
		return plain(source)
	}
	return parsed(source)
}

// marks are what Markdown may read something into. A text without them, as most are, is lines and paragraphs for it, too.
var marks = state.Pattern(`(?m)^(?:[ \t#>=+-]|\d{1,9}[.)])|[*_~\x60\[<&|\\]|\n\n\n`)

func parsed(source string) string {
	d := &document{open: make([]container, 1)}
	for text := range strings.SplitSeq(strings.TrimRight(source, "\n"), "\n") {
		d.read(text)
	}
	d.close(1)
	return settle(d.lines)
}

// plain is visible text with its lines as they are, neutral.
func plain(source string) string { return noFence.Replace(inChatSyntax(source)) }

// inChatSyntax is plain of text in Chat's own syntax: its code blocks stay code, too.
func inChatSyntax(source string) string {
	lines := strings.Split(strings.Trim(source, "\n"), "\n")
	for i, l := range lines {
		lines[i] = disarm(strings.TrimRight(l, blanks))
	}
	return inert(strings.TrimRight(strings.Join(lines, "\n"), "\n"))
}

// line is a line of a message. Code is a line of a code block, or one of its fences.
type line struct {
	text string
	code bool
}

// document reads lines as blocks, and writes each block when it ends.
type document struct {
	lines   []line
	marker  string      // begins the next line, which is the first of a list's item
	open    []container // the document, and the quotes and items that are open in each other
	matched int         // how many of them the line goes on with
	leaf    leaf        // the open paragraph or block of code
	blank   bool        // a blank line came after the last block began
}

// container is a quote, or an item of a list.
type container struct {
	margin string // before its lines in the message
	width  int    // the columns that an item's lines are indented by
	kind   byte   // what an item's marker ends in
	number int    // of an item
	filled bool   // a block has begun in it
}

// leaf is a paragraph or a block of code. Indented code has no fence.
type leaf struct {
	text        []string
	code        bool
	fence, info string
}

const (
	blanks  = " \t"
	deepest = 20 // more lists and quotes in each other than people write: the markers of deeper ones are text
)

var (
	quoteMarker = state.Pattern(`^ {0,3}> ?`)
	itemMarker  = state.Pattern(`^( {0,3}(?:[-+*]|(\d{1,9})[.)]))([ \t]*)(.*)$`)
	heading     = state.Pattern(`^ {0,3}#{1,6}(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*$`)
	underline   = state.Pattern(`^ {0,3}(?:=+|-+)[ \t]*$`)
	codeFence   = state.Pattern("^ {0,3}(?:(`{3,})([^`]*)|(~{3,})(.*))$")
	across      = state.Pattern(`^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$`)
)

// read takes the next line.
func (d *document) read(text string) {
	text = d.match(text)
	isBlank := strings.Trim(text, blanks) == ""
	d.blank = d.blank || isBlank
	if d.leaf.code && d.matched == len(d.open) && d.codeLine(text, isBlank) {
		return
	}
	for more := !isBlank; more; {
		text, more = d.enter(text)
	}
	switch {
	case strings.Trim(text, blanks) == "":
		d.close(d.matched)
	case d.block(text):
	default: // a paragraph's line, which may lack the markers of what the paragraph stands in
		if !d.inParagraph() {
			d.begin()
		}
		d.leaf.text = append(d.leaf.text, strings.TrimLeft(text, blanks))
	}
}

func (d *document) inParagraph() bool { return len(d.leaf.text) > 0 && !d.leaf.code }

// match takes the markers of the open containers off a line, as far as it goes on with them.
func (d *document) match(text string) string {
	d.matched = 1
	for _, c := range d.open[1:] {
		marker := quoteMarker().FindString(text)
		isBlank := strings.Trim(text, blanks) == ""
		switch {
		case c.width == 0 && marker != "":
			text = text[len(marker):]
		case c.width > 0 && (isBlank && c.filled || !isBlank && indent(text) >= c.width):
			text = unindent(text, c.width)
		default:
			return text
		}
		d.matched++
	}
	return text
}

// indent is how many columns of blanks a line begins with. A tab is 4 of them, wherever it begins.
func indent(text string) int {
	before := text[:len(text)-len(strings.TrimLeft(text, blanks))]
	return len(before) + 3*strings.Count(before, "\t")
}

// unindent takes so many columns of blanks off a line.
func unindent(text string, columns int) string {
	for columns > 0 && indent(text) > 0 {
		columns -= indent(text[:1])
		text = text[1:]
	}
	return text
}

// enter opens the quote or the item that a line begins with, and takes its marker off.
func (d *document) enter(text string) (rest string, entered bool) {
	quote, item := quoteMarker().FindString(text), itemMarker().FindStringSubmatch(text)
	margin := d.open[d.matched-1].margin
	switch {
	case d.matched > deepest, quote == "" && (item == nil || !d.isItem(text, item)):
		return text, false
	case quote != "":
		d.begin()
		if d.marker != "" {
			d.marker += "> "
		}
		d.push(container{margin: margin + "> "})
		return text[len(quote):], true
	}
	c := container{margin: margin + "    ", kind: item[1][len(item[1])-1]}
	marker := margin + "* "
	if item[2] != "" {
		fmt.Sscan(item[2], &c.number)
		if d.matched < len(d.open) && d.open[d.matched].kind == c.kind {
			c.number = d.open[d.matched].number + 1
		}
		marker = fmt.Sprintf("%s%d%c ", margin, c.number, c.kind)
	}
	space := item[3]
	if len(space) > 4 || item[4] == "" { // code, or nothing
		space = space[:min(1, len(space))]
	}
	c.width = len(item[1]) + max(1, len(space))
	d.begin()
	d.flushMarker()
	d.push(c)
	d.marker = marker
	return text[len(item[1])+len(space):], true
}

// isItem says whether what looks like an item is one: neither a line across nor, as "2026. We" may be, more of a paragraph.
func (d *document) isItem(text string, item []string) bool {
	if item[3] == "" && item[4] != "" || across().MatchString(text) {
		return false
	}
	return !d.inParagraph() || d.matched < len(d.open) || item[4] != "" && (item[2] == "" || item[2] == "1")
}

func (d *document) push(c container) {
	d.open = append(d.open, c)
	d.matched = len(d.open)
}

// block takes a line that is no paragraph's.
func (d *document) block(text string) bool {
	title, code := heading().FindStringSubmatch(text), codeFence().FindStringSubmatch(text)
	switch {
	case underline().MatchString(text) && d.isTitle():
		title := strings.Join(d.leaf.text, "\n")
		d.leaf = leaf{}
		d.write(marked(inlines(title, bold), "*"))
	case across().MatchString(text):
		d.begin()
		d.write(strings.Repeat("─", 12))
	case title != nil:
		d.begin()
		d.write(marked(inlines(title[1], bold), "*"))
	case code != nil:
		d.begin()
		d.leaf = leaf{code: true, fence: text[:indent(text)] + code[1] + code[3], info: strings.Trim(code[2]+code[4], blanks)}
	case indent(text) > 3 && !d.inParagraph():
		d.begin()
		d.leaf = leaf{code: true, text: []string{unindent(text, 4)}}
	default:
		return false
	}
	return true
}

// isTitle says whether a line below the open paragraph may make a heading of it.
func (d *document) isTitle() bool {
	return d.inParagraph() && d.matched == len(d.open) && table(d.leaf.text) == len(d.leaf.text)
}

// codeLine takes a line of the open block of code.
func (d *document) codeLine(text string, isBlank bool) bool {
	margin := indent(d.leaf.fence)
	fence := d.leaf.fence[margin:]
	closing := strings.Trim(text, blanks)
	switch {
	case fence == "" && !isBlank && indent(text) < 4:
		return false
	case fence == "":
		text = unindent(text, 4)
	case indent(text) < 4 && strings.HasPrefix(closing, fence) && strings.Trim(closing, fence[:1]) == "":
		d.close(d.matched)
		d.blank = len(d.open) == 1 // what follows stands apart
		return true
	}
	d.leaf.text = append(d.leaf.text, unindent(text, margin))
	d.blank = isBlank
	return true
}

// begin ends what a line does not go on with, and leaves a blank line where the author left some.
func (d *document) begin() {
	d.close(d.matched)
	within := &d.open[d.matched-1]
	last := len(d.lines) - 1
	if d.blank && within.filled && last >= 0 && d.lines[last].text != strings.TrimRight(within.margin, " ") {
		d.write("")
	}
	d.blank, within.filled = false, true
}

// close writes the open leaf, and ends containers until so many are open.
func (d *document) close(open int) {
	text := d.leaf.text
	switch {
	case d.leaf.code && len(text) == 0: // "```ls -l" and nothing else
		d.writeCode(d.leaf.info)
	case d.leaf.code:
		d.writeCode(strings.Join(text, "\n"))
	case len(text) > 0:
		d.writeParagraph(text)
	}
	d.leaf = leaf{}
	if len(d.open) > open {
		d.flushMarker()
	}
	d.open = d.open[:open]
}

// writeParagraph writes text and the table that it may end in.
func (d *document) writeParagraph(lines []string) {
	header := table(lines)
	if header > 0 {
		d.write(inlines(strings.Join(lines[:header], "\n"), 0))
	}
	if header < len(lines) {
		d.writeCode(columns(lines[header:]))
	}
}

// table is where a paragraph's table begins: a header, a line such as "|---|:-:|", and rows. Without one it is the end.
func table(lines []string) int {
	for i, bars := range lines[1:] {
		isBars := strings.Contains(bars, "|") && strings.Contains(bars, "-") && strings.Trim(bars, "-:| \t") == ""
		if isBars && strings.Contains(lines[i], "|") {
			return i
		}
	}
	return len(lines)
}

// write adds the lines of text, each behind the margin, the first one behind the marker where there is one.
func (d *document) write(text string) {
	for l := range strings.SplitSeq(text, "\n") {
		before := d.open[len(d.open)-1].margin
		if d.marker != "" {
			before, d.marker = d.marker, ""
		}
		d.lines = append(d.lines, line{text: strings.TrimRight(before+l, blanks)})
	}
}

// flushMarker writes the marker of an item that does not begin with text.
func (d *document) flushMarker() {
	if d.marker != "" {
		d.write("")
	}
}

const fence = "```"

// writeCode adds code between fences, which the code cannot close. It stands at the margin: within its box, the sign of a
// quote would be a character of the code. Blank code is no block.
func (d *document) writeCode(code string) {
	code = strings.TrimRight(code, "\n")
	if strings.TrimSpace(code) == "" {
		return
	}
	d.flushMarker()
	d.lines = append(d.lines, line{fence, true})
	for l := range strings.SplitSeq(noFence.Replace(code), "\n") {
		d.lines = append(d.lines, line{l, true})
	}
	d.lines = append(d.lines, line{fence, true})
}

// CodeBlock is Markdown that shows text as it stands: a fenced block, whose fence is longer than any in the text.
func CodeBlock(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence
}

// columns lines a table's cells up. Wider ones than widest move what stands behind them, and not the other rows.
func columns(rows []string) string {
	const maxColumns, widest = 32, 200
	var widths [maxColumns]int
	table := make([][]string, len(rows))
	for i, row := range rows {
		row = strings.NewReplacer(`\|`, "¦", "\t", " ", "**", "", "`", "").Replace(strings.TrimSpace(row))
		table[i] = strings.SplitN(strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|"), "|", maxColumns)
		for j, cell := range table[i] {
			cell = strings.TrimSpace(cell)
			if i == 1 {
				cell = strings.Repeat("-", len(cell))
			}
			table[i][j] = cell
			widths[j] = min(max(widths[j], utf8.RuneCountInString(cell)), widest)
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

// piece is a part of a paragraph: text, a link, or a run of asterisks or underscores.
type piece struct {
	text              string // of a run, what is no emphasis
	label, target     string // of a link
	char              byte   // of a run
	length            int    // of a run, at first
	mayOpen, mayClose bool
	opens, closes     []style // the innermost first
}

// style is a set of what surrounds a piece of text already: bold in bold is no more than bold. Its bits are the levels of
// Markdown's emphasis.
type style uint8

const italic, bold style = 1, 2

// inlines renders a paragraph's text.
func inlines(text string, in style) string {
	p := &phrase{text: " " + text + " ", from: 1, at: 1}
	for p.at <= len(text) {
		p.next(p.text[p.at:])
	}
	p.add(0, piece{})
	pair(p.pieces)
	return render(p.pieces, in)
}

// phrase divides a paragraph's text, which has a blank at each end, into pieces.
type phrase struct {
	text     string
	from, at int // text between them is no piece yet
	pieces   []piece
	unclosed [10]bool // no run of so many backticks comes any more
}

// link is a link, an image or a URL in brackets. In a label brackets stand in pairs, in a URL parentheses do.
var link = state.Pattern(`(?s)^(?:!?\[((?:\x60[^\x60]*\x60|\\.|[^\[\]\\\x60]` +
	`|\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*\])*)\]` +
	`\(\s*(?:<((?:\\.|[^<>\n])*)>|((?:\\\S|[^\s()]|\((?:\\\S|[^\s()]|\((?:\\\S|[^\s()])*\))*\))*))` +
	`(?:\s+(?:"(?:\\.|[^"])*"|'(?:\\.|[^'])*'|\((?:\\.|[^()])*\)))?\s*\)` +
	`|<([A-Za-z][\w+.-]{1,31}:[^\s<>]*|[\w.!#$%&'*+/=?^{|}~\x60-]+@[\w.-]+)>)`)

// next goes behind what the rest of the text begins with.
func (p *phrase) next(rest string) {
	switch rest[0] {
	case '\\':
		p.at += 2
	case '`':
		p.code(rest)
	case '*', '_':
		p.run(rest)
	case '!', '[', '<':
		m := link().FindStringSubmatch(rest)
		if m == nil {
			p.at++
			return
		}
		target := strings.TrimPrefix(strings.TrimSpace(literal(m[2]+m[3]+m[4])), "mailto:")
		p.add(len(m[0]), piece{label: m[1], target: target})
	default:
		p.at++
	}
}

// add adds the text so far, and a piece that is so many bytes of it.
func (p *phrase) add(size int, next piece) {
	words := strings.ReplaceAll(literal(p.text[p.from:p.at]), "~~", "~") // struck
	p.pieces = append(p.pieces, piece{text: words}, next)
	p.at += size
	p.from = p.at
}

// runLength is how often a text's first byte is repeated.
func runLength(text string) int { return len(text) - len(strings.TrimLeft(text, text[:1])) }

// code takes a code span, which reaches to a run of as many backticks.
func (p *phrase) code(rest string) {
	n := runLength(rest)
	if n >= len(p.unclosed) || p.unclosed[n] {
		p.at += n
		return
	}
	for end := n; ; end += runLength(rest[end:]) {
		tick := strings.IndexByte(rest[end:], '`')
		if tick < 0 {
			p.unclosed[n] = true
			p.at += n
			return
		}
		end += tick
		if runLength(rest[end:]) == n {
			code := strings.NewReplacer("\n", " ", "`", "'").Replace(rest[n:end])
			if strings.Trim(code, " ") != "" && code[0] == ' ' && code[len(code)-1] == ' ' {
				code = code[1 : len(code)-1]
			}
			p.add(end+n, piece{text: "`" + code + "`"})
			return
		}
	}
}

// run takes a run of asterisks or underscores. What stands beside it says whether it may open emphasis, or close it.
func (p *phrase) run(rest string) {
	n := runLength(rest)
	before, _ := utf8.DecodeLastRuneInString(p.text[:p.at])
	after, _ := utf8.DecodeRuneInString(rest[n:])
	left, right := flanks(before, after), flanks(after, before)
	run := piece{text: rest[:n], char: rest[0], length: n, mayOpen: left, mayClose: right}
	if rest[0] == '_' {
		run.mayOpen = left && (!right || isPunct(before))
		run.mayClose = right && (!left || isPunct(after))
	}
	p.add(n, run)
}

// flanks says whether a run of marks between two characters belongs to the second.
func flanks(outer, inner rune) bool {
	return !unicode.IsSpace(inner) && (!isPunct(inner) || unicode.IsSpace(outer) || isPunct(outer))
}

func isPunct(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }

// pair finds what opens and closes emphasis, as CommonMark does.
func pair(pieces []piece) {
	var openers []*piece
	for i := range pieces {
		closer := &pieces[i]
		for at := partner(openers, closer); at >= 0; at = partner(openers, closer) {
			opener, level := openers[at], italic
			if len(opener.text) > 1 && len(closer.text) > 1 {
				level = bold
			}
			opener.text, opener.opens = opener.text[level:], append(opener.opens, level)
			closer.text, closer.closes = closer.text[level:], append(closer.closes, level)
			openers = openers[:at+1]
			if opener.text == "" {
				openers = openers[:at]
			}
		}
		if closer.mayOpen && closer.text != "" {
			openers = append(openers, closer)
		}
	}
}

// partner is the last of the openers that a run closes, or -1. It looks at no more of them than people leave open.
func partner(openers []*piece, closer *piece) int {
	const most = 100
	for i := len(openers) - 1; i >= max(0, len(openers)-most) && closer.mayClose && closer.text != ""; i-- {
		o := openers[i]
		inner := (o.mayClose || closer.mayOpen) && (o.length+closer.length)%3 == 0 && closer.length%3 != 0
		if o.char == closer.char && !inner {
			return i
		}
	}
	return -1
}

// render writes pieces.
func render(pieces []piece, in style) string {
	var out []byte
	var starts []int // of open emphasis in out
	for i, p := range pieces {
		for _, level := range p.closes {
			start := starts[len(starts)-1]
			starts = starts[:len(starts)-1]
			if start >= 0 {
				in &^= level
				mark := strings.Repeat(string(p.char), int(level))
				out = append(out[:start], emphasis(out[:start], string(out[start:]), mark, pieces[i+1].text)...)
			}
		}
		out = append(out, p.text...)
		if p.label+p.target != "" {
			out = append(out, labelled(inlines(p.label, in), p.target)...)
		}
		for _, level := range slices.Backward(p.opens) {
			start := len(out)
			if in&level != 0 {
				start = -1
			}
			starts = append(starts, start)
			in |= level
		}
	}
	return string(out)
}

// emphasis puts Chat's marks around words. Chat shows them as characters inside a word, so there, and in a URL, the
// author's own stay: "2*3*4" and "https://example.com/__init__.py" are no emphasis, although Markdown takes them for some.
func emphasis(written []byte, words, mark, after string) string {
	const longestURL = 300 // bytes back to its start
	before := string(written[max(0, len(written)-longestURL):])
	last, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(after)
	switch {
	case strings.TrimSpace(words) == "":
		return words
	case inWord(last), inWord(next), strings.Contains(before[strings.LastIndexAny(before, " \n")+1:], "://"):
		return mark + words + mark
	case len(mark) == int(bold):
		return marked(words, "*")
	}
	return marked(words, "_")
}

// inWord is true for what a word goes on with. Scripts without upper case mostly have no spaces either: there, words
// cannot be told.
func inWord(r rune) bool {
	return unicode.IsLetter(r) && !unicode.Is(unicode.Lo, r) || unicode.IsNumber(r)
}

// marked puts a mark around each line, since Chat's do not reach over lines.
func marked(text, mark string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		l = strings.TrimSpace(l)
		if l != "" {
			lines[i] = mark + l + mark
		}
	}
	return strings.Join(lines, "\n")
}

// labelled gives a link as its label and its target: Chat's "<url|label>" would let the label claim another target.
func labelled(label, target string) string {
	switch {
	case label == target, target == "":
		return label
	case label == "":
		return target
	}
	return label + " (" + target + ")"
}

var escape = state.Pattern(`\\[!-/:-@\[-\x60{-~\n]|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);`)

// literal gives text as the author means it: "\*" is an asterisk, "&lt;" a bracket. What comes out is foreign still, and may hide
// something.
func literal(text string) string {
	return escape().ReplaceAllStringFunc(text, func(s string) string {
		r := strings.ReplaceAll(html.UnescapeString(s), "\n", " ")
		switch {
		case s[0] == '\\':
			return s[1:]
		case len(r) > 1 && strings.HasSuffix(r, ";"): // "&notin" of "&nothing;"
			return s
		}
		return r
	})
}

// settle makes the message's text out of its lines: all that is foreign is neutral then.
func settle(lines []line) string {
	var out []string
	for _, l := range lines {
		text := strings.ReplaceAll(state.Clean(state.ForChat, l.text), "\n", " ")
		if !l.code { // code is drawn as a box, where nothing passes for a message of ours
			text = noFence.Replace(disarm(text))
		}
		out = append(out, text)
	}
	return shut(strings.TrimRight(strings.Join(out, "\n"), "\n"))
}

// noFence makes apostrophes of three backticks, which would open or close a code block.
var noFence = strings.NewReplacer(fence, "'''")
