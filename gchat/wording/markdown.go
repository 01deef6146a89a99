package wording

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gchat-hooks/state"
)

// markdown renders Claude's Markdown, which is visible text, in Chat's own syntax:
// *bold*, _italic_, ~struck~, `code`, "* " before items, 4 spaces before nested ones, ">
// " before quotes. Chat has no headings and no tables. Ordinary text is Markdown too, and
// comes out as it is, with its lines. All that is foreign in it is neutral then.
//
// It reads what Claude writes in a report: paragraphs, headings, lists, quotes, tables,
// fenced code and lines across, and in a line what is bold, italic, struck, code or a
// link. The rest of Markdown is text, as it was written. Each line is read by itself,
// once, so hostile text takes time and memory by its length, too.
func markdown(source string) string {
	if !marks().MatchString(source) {
		return noFence.Replace(inChatSyntax(source))
	}
	return parsed(source)
}

// marks are what Markdown may read something into. A text without them, as most are, is
// lines and paragraphs for it, too.
var marks = state.LazyPattern(`(?m)^(?:[ \t#>=+-]|\d{1,9}[.)])|[*_~\x60\[<&|\\]|\n\n\n`)

func parsed(source string) string {
	d := &document{}
	for lines := strings.Split(strings.Trim(source, "\n"), "\n"); len(lines) > 0; {
		lines = lines[d.read(lines):]
	}
	return d.neutral()
}

// inChatSyntax is visible text with its lines as they are, neutral. Its code blocks stay
// code.
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

type document struct {
	lines []line
	items []int // how far the list items are indented that the last line is in
}

const blanks = " \t"

var (
	codeFence   = state.LazyPattern("^([ \t]*)(`{3,})([^`]*)$")
	language    = state.LazyPattern(`^[A-Za-z0-9+#-]{0,12}$`)
	quoteMarker = state.LazyPattern(`^ {0,3}>[> ]*`)
	across      = state.LazyPattern(`^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$`)
	heading     = state.LazyPattern(`^ {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?$`)
	// "|---|:-:|", below a table's header
	bars       = state.LazyPattern(`^[-:| \t]*(?:\|[-:| \t]*-|-[-:| \t]*\|)[-:| \t]*$`)
	itemMarker = state.LazyPattern(`^[ \t]*([-+*]|\d{1,9}[.)])[ \t]+(.*)$`)
)

// read takes the next lines: a table, a block of code, or one line. It says how many they
// are.
func (d *document) read(lines []string) (n int) {
	text := strings.TrimRight(lines[0], blanks)
	if opening := codeFence().FindStringSubmatch(text); opening != nil {
		return d.readCode(lines, opening[1], opening[2], strings.Trim(opening[3], blanks))
	}
	if len(lines) > 1 && strings.Contains(text, "|") && bars().MatchString(lines[1]) {
		for n = 2; n < len(lines) && strings.Contains(lines[n], "|"); n++ {
		}
		d.writeCode(columns(lines[:n]))
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
	if len(code) == 0 || !language().MatchString(info) {
		code = slices.Insert(code, 0, info)
	}
	d.writeCode(strings.Join(code, "\n"))
	return n
}

// readLine takes a line that is no code.
func (d *document) readLine(text string) {
	marker := quoteMarker().FindString(text)
	text = text[len(marker):]
	quote := strings.Repeat("> ", strings.Count(marker, ">"))
	title, item := heading().FindStringSubmatch(text), itemMarker().FindStringSubmatch(text)
	switch {
	case strings.Trim(text, blanks) == "":
		if quote != "" || len(d.lines) > 0 && d.lines[len(d.lines)-1].text != "" {
			d.write(quote)
		}
	case across().MatchString(text):
		d.items = nil
		d.write(quote + strings.Repeat("─", 12))
	case title != nil:
		d.items = nil
		words := inline(title[1])
		if !strings.Contains(words, "*") { // else a part of it is bold, or has stars
			words = "*" + words + "*"
		}
		d.write(quote + words)
	case item != nil:
		const leastNested = 2 // columns
		d.leave(indent(text) - leastNested + 1)
		margin := quote + strings.Repeat("    ", len(d.items))
		d.items = append(d.items, indent(text))
		if strings.Contains("-+*", item[1]) {
			item[1] = "*"
		}
		d.write(margin + item[1] + " " + inline(item[2]))
	default:
		d.leave(indent(text))
		if words := strings.TrimLeft(text, blanks); len(d.items) > 0 {
			text = strings.Repeat("    ", len(d.items)) + words
		}
		d.write(quote + inline(text))
	}
}

// leave ends the items that are not less indented than so many columns.
func (d *document) leave(columns int) {
	end := slices.IndexFunc(d.items, func(item int) bool { return item >= columns })
	if end >= 0 {
		d.items = d.items[:end]
	}
}

func (d *document) write(text string) {
	d.lines = append(d.lines, line{text: strings.TrimRight(text, blanks)})
}

// indent is how many columns of blanks a line begins with. A tab is 4 of them, wherever
// it begins.
func indent(text string) int {
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
	for l := range strings.SplitSeq(noFence.Replace(code), "\n") {
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

// bare is a table's cell without the marks of bold or code that embrace all of it.
func bare(cell string) string {
	for _, mark := range []string{"`", "**"} {
		inner, opened := strings.CutPrefix(cell, mark)
		inner, closed := strings.CutSuffix(inner, mark)
		if opened && closed && inner != "" && !strings.Contains(inner, mark) {
			return inner
		}
	}
	return cell
}

// columns lines a table's cells up. Wider ones than widest move what stands behind them,
// and not the other rows.
func columns(rows []string) string {
	const maxColumns, widest = 32, 200
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
			cell = bare(strings.TrimSpace(cell))
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

// token is what a line's text may have beside words: an escaped character, backticks, a
// link or an image, a URL, or marks of emphasis. In a label brackets stand in pairs, in a
// link's URL parentheses do.
var token = state.LazyPattern("\\\\[!-/:-@\\[-`{-~]" + "|`+" +
	`|!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^\s()]*(?:\([^\s()]*\)[^\s()]*)*)\)` +
	"|https?://[^\\s`]*[^\\s`*_~]" + `|\*+|_+|~~+`)

// inline renders a line's text.
func inline(text string) string {
	p := &phrase{unclosed: map[int]bool{}}
	at := 0
	for _, m := range token().FindAllStringSubmatchIndex(text, -1) {
		if m[0] < at { // it is in a code span
			continue
		}
		p.add(text[at:m[0]])
		found := text[m[0]:m[1]]
		at = m[1]
		switch {
		case found[0] == '\\':
			p.add(found[1:])
		case found[0] == '`':
			at = p.code(text, m[0], len(found))
		case m[2] >= 0:
			p.add(labelled(text[m[2]:m[3]], text[m[4]:m[5]]))
		default:
			p.mark(found, text[:m[0]], text[at:])
		}
	}
	p.add(text[at:])
	return strings.Join(p.pieces, "")
}

type phrase struct {
	pieces []string
	// those of the pieces that are marks which something may close, each another one
	open     []int
	unclosed map[int]bool // no run of so many backticks comes any more
}

func (p *phrase) add(piece string) { p.pieces = append(p.pieces, piece) }

// code takes a code span, which reaches to a run of as many backticks, and says where it
// ends.
func (p *phrase) code(text string, start, n int) (end int) {
	for end = start + n; !p.unclosed[n]; {
		tick := strings.IndexByte(text[end:], '`')
		if tick < 0 {
			p.unclosed[n] = true
			break
		}
		end += tick
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

// mark takes what may be a mark of emphasis. Chat shows its own as characters inside a
// word, so there the author's stay: "2*3*4" and file_name are no emphasis.
func (p *phrase) mark(mark, textBefore, textAfter string) {
	before, _ := utf8.DecodeLastRuneInString(textBefore)
	after, _ := utf8.DecodeRuneInString(textAfter)
	opening := slices.IndexFunc(p.open, func(piece int) bool { return p.pieces[piece] == mark })
	chat := chatMarks[mark]
	switch {
	case chat == "":
	case opening >= 0 && !unicode.IsSpace(before) && !inWord(after):
		p.pieces[p.open[opening]] = chat
		p.open = p.open[:opening]
		mark = chat[len(chat)-1:] + chat[:len(chat)-1]
	case !inWord(before) && !unicode.IsSpace(after):
		if opening >= 0 {
			p.open = slices.Delete(p.open, opening, opening+1)
		}
		p.open = append(p.open, len(p.pieces))
	}
	p.add(mark)
}

// inWord is true for what a word goes on with. Scripts without upper case mostly have no
// spaces either: there, words cannot be told.
func inWord(r rune) bool {
	return unicode.IsLetter(r) && !unicode.Is(unicode.Lo, r) || unicode.IsNumber(r)
}

// labelled gives a link as its label and its target: Chat's "<url|label>" would let the
// label claim another target.
func labelled(label, target string) string {
	switch {
	case label == target, target == "":
		return inline(label)
	case label == "":
		return target
	}
	return inline(label) + " (" + target + ")"
}

// neutral makes the message's text out of its lines: nothing foreign in it acts.
func (d *document) neutral() string {
	var out []string
	for _, l := range d.lines {
		text := state.Clean(state.ForChat, l.text)
		if !l.code { // code is drawn as a box, where nothing passes for a message of ours
			text = noFence.Replace(disarm(text))
		}
		out = append(out, text)
	}
	return shut(strings.TrimRight(strings.Join(out, "\n"), "\n"))
}

// noFence makes apostrophes of three backticks, which would open or close a code block.
var noFence = strings.NewReplacer(fence, "'''")
