package gchat

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"gchat-hooks/state"
)

// maxMarkdown is how much text is read as Markdown, in bytes. goldmark looks from each bracket to its paragraph's end, and
// compares each mark with all that are open: this much hostile text keeps it busy for a second.
const maxMarkdown = 2 * MaxText

// deep is a line with more lists and quotes in each other than people write. goldmark goes through all of them at each line, and
// a few kilobytes of hostile text take it gigabytes.
var deep = state.Pattern(`(?m)^(?:[ \t]*(?:>|[*+-][ \t]|\d{1,9}[.)][ \t])){20}`)

// marks are what Markdown may read something into. A text without them, as most are, is lines and paragraphs for it, too.
var marks = state.Pattern(`(?m)^(?:[ \t#>=+-]|\d{1,9}[.)])|[*_~\x60\[<&|\\]|\n\n\n`)

// line is a line of a message. Code is a line of a code block, or one of its fences.
type line struct {
	text string
	code bool
}

// markdown renders Claude's Markdown, which is visible text, in Chat's own syntax: *bold*, _italic_, ~struck~, `code`,
// "* " before items, 4 spaces before nested ones, "> " before quotes. Chat has no headings and no tables. Ordinary text
// is Markdown too, and comes out as it is, with its lines; so does a text that is longer than maxMarkdown, or deep. All that is
// foreign in it is neutral then.
func markdown(source string) (rendered string) {
	if !marks().MatchString(source) || len(source) > maxMarkdown || deep().MatchString(source) {
		return plain(source)
	}
	defer func() {
		if recover() != nil { // a fault in the parser must not cost a report
			rendered = plain(source)
		}
	}()
	w := &walk{source: []byte(source)}
	w.blocks(markdownParser().Parse(text.NewReader(w.source)), "")
	return settle(w.lines)
}

// plain is visible text with its lines as they are, neutral.
func plain(source string) string {
	lines := strings.Split(strings.Trim(source, "\n"), "\n")
	for i, l := range lines {
		lines[i] = noFence.Replace(disarm(strings.TrimRight(l, " \t")))
	}
	return shut(strings.TrimRight(strings.Join(lines, "\n"), "\n"))
}

// markdownParser is CommonMark without HTML, which is text for us, and without link definitions, which would make a line
// such as "[Done]: yes" vanish. goldmark's package extension has tables and strikethrough; its patterns would cost each
// run of a hook half a millisecond.
var markdownParser = sync.OnceValue(func() parser.Parser {
	const htmlBlock, rawHTML = 900, 400 // the priorities that goldmark gives its parsers of HTML
	without := func(parsers []util.PrioritizedValue, priority int) []util.PrioritizedValue {
		return slices.DeleteFunc(parsers, func(v util.PrioritizedValue) bool { return v.Priority == priority })
	}
	return parser.NewParser(
		parser.WithBlockParsers(without(parser.DefaultBlockParsers(), htmlBlock)...),
		parser.WithInlineParsers(without(parser.DefaultInlineParsers(), rawHTML)...),
		parser.WithParagraphTransformers(util.Prioritized(tableFinder{}, 200)),
	)
})

// walk writes a tree of Markdown as lines.
type walk struct {
	source []byte
	lines  []line
	marker string // begins the next line, which is the first of a list's item
}

// blocks writes the children of a node, each of their lines behind margin.
func (w *walk) blocks(parent ast.Node, margin string) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		w.blank(n, margin)
		w.block(n, margin)
	}
}

// blank writes a blank line where the author left some, and between paragraphs.
func (w *walk) blank(n ast.Node, margin string) {
	before := n.PreviousSibling()
	if before == nil || !n.HasBlankPreviousLines() && !(ast.IsParagraph(n) && ast.IsParagraph(before)) {
		return
	}
	if last := len(w.lines) - 1; last >= 0 && w.lines[last].text != strings.TrimRight(margin, " ") {
		w.write(margin, "")
	}
}

func (w *walk) block(n ast.Node, margin string) {
	switch n := n.(type) {
	case *ast.Paragraph, *ast.TextBlock:
		w.write(margin, w.inlines(n, 0))
	case *ast.Heading:
		w.write(margin, marked(w.inlines(n, bold), "*"))
	case *ast.ThematicBreak:
		w.write(margin, strings.Repeat("─", 12))
	case *ast.CodeBlock:
		w.code(string(n.Lines().Value(w.source)))
	case *ast.FencedCodeBlock:
		code := n.Lines().Value(w.source)
		if len(code) == 0 && n.Info != nil { // "```ls -l" and nothing else
			code = n.Info.Segment.Value(w.source)
		}
		w.code(string(code))
	case *table:
		w.code(columns(string(n.Lines().Value(w.source))))
	case *ast.Blockquote:
		w.blocks(n, margin+"> ")
	case *ast.List:
		w.list(n, margin)
	}
}

func (w *walk) list(list *ast.List, margin string) {
	number := list.Start
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		w.blank(item, margin)
		w.flushMarker()
		w.marker = margin + "* "
		if list.IsOrdered() {
			w.marker = fmt.Sprintf("%s%d%c ", margin, number, list.Marker)
			number++
		}
		w.blocks(item, margin+"    ")
		w.flushMarker()
	}
}

// write adds the lines of text, each behind margin, the first one behind the marker where there is one.
func (w *walk) write(margin, text string) {
	for l := range strings.SplitSeq(text, "\n") {
		if w.marker != "" {
			l, w.marker = w.marker+l, ""
		} else {
			l = margin + l
		}
		w.lines = append(w.lines, line{text: strings.TrimRight(l, " \t")})
	}
}

// flushMarker writes the marker of an item that does not begin with text.
func (w *walk) flushMarker() {
	if w.marker != "" {
		w.write("", "")
	}
}

const fence = "```"

// code adds code between fences, which the code cannot close. It stands at the margin: within its box, the sign of a
// quote would be a character of the code. Blank code is no block.
func (w *walk) code(code string) {
	code = strings.TrimRight(code, "\n")
	if strings.TrimSpace(code) == "" {
		return
	}
	w.flushMarker()
	w.lines = append(w.lines, line{fence, true})
	for l := range strings.SplitSeq(noFence.Replace(code), "\n") {
		w.lines = append(w.lines, line{l, true})
	}
	w.lines = append(w.lines, line{fence, true})
}

// CodeBlock is Markdown that shows text as it stands: a fenced block, whose fence is longer than any in the text.
func CodeBlock(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence
}

// table is the lines of a table as they were written.
type table struct{ ast.CodeBlock }

// tableFinder makes a table of the last lines of a paragraph: a header, a line such as "|---|:-:|", and rows.
type tableFinder struct{}

func (tableFinder) Transform(p *ast.Paragraph, reader text.Reader, _ parser.Context) {
	lines := p.Lines()
	for i := 1; i < lines.Len(); i++ {
		header, below := lines.At(i-1), lines.At(i)
		bars := string(below.Value(reader.Source()))
		isBars := strings.Contains(bars, "|") && strings.Contains(bars, "-") && strings.Trim(bars, "-:| \t\n") == ""
		if !bytes.Contains(header.Value(reader.Source()), []byte("|")) || !isBars {
			continue
		}
		t := &table{}
		t.Lines().AppendAll(lines.Sliced(i-1, lines.Len()))
		t.SetBlankPreviousLines(i == 1 && p.HasBlankPreviousLines())
		p.Parent().InsertAfter(p.Parent(), p, t)
		if i == 1 {
			p.Parent().RemoveChild(p.Parent(), p)
			return
		}
		lines.SetSliced(0, i-1)
		last := lines.At(i - 2)
		lines.Set(i-2, last.TrimRightSpace(reader.Source()))
		return
	}
}

// columns lines a table's cells up.
func columns(rows string) string {
	const maxColumns = 32
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, row := range strings.Split(strings.TrimSpace(rows), "\n") {
		row = strings.NewReplacer(`\|`, "¦", "\t", " ", "**", "", "`", "").Replace(strings.TrimSpace(row))
		cells := strings.SplitN(strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|"), "|", maxColumns)
		for j, cell := range cells {
			cells[j] = strings.TrimSpace(cell)
			if i == 1 {
				cells[j] = strings.Repeat("-", len(cells[j]))
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush() // into memory
	return b.String()
}

// style is a set of what surrounds a piece of text already: bold in bold is no more than bold. Its bits are the levels of
// Markdown's emphasis, 1 for italic.
type style uint8

const bold style = 2

// inlines renders the children of a node.
func (w *walk) inlines(parent ast.Node, in style) string {
	var b strings.Builder
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			b.WriteString(w.words(n))
		case *ast.CodeSpan:
			b.WriteString("`" + strings.ReplaceAll(strings.ReplaceAll(w.inlines(n, in), "\n", " "), "`", "'") + "`")
		case *ast.Emphasis:
			b.WriteString(w.emphasis(n, in, b.String()))
		case *ast.Link:
			b.WriteString(labelled(w.inlines(n, in), n.Destination))
		case *ast.Image:
			b.WriteString(labelled(w.inlines(n, in), n.Destination))
		case *ast.AutoLink:
			b.WriteString(literal(n.URL(w.source)))
		}
	}
	return b.String()
}

func (w *walk) words(n *ast.Text) string {
	value := n.Segment.Value(w.source)
	if n.IsRaw() {
		return string(value)
	}
	words := strings.ReplaceAll(literal(value), "~~", "~") // struck
	if n.SoftLineBreak() || n.HardLineBreak() {
		words += "\n"
	}
	return words
}

// emphasis puts Chat's marks around words. Chat shows them as characters inside a word, so there, and in a URL, the
// author's own stay: "2*3*4" and "https://example.com/__init__.py" are no emphasis, although Markdown takes them for some.
func (w *walk) emphasis(n *ast.Emphasis, in style, before string) string {
	level := style(n.Level)
	words := w.inlines(n, in|level)
	if in&level != 0 || strings.TrimSpace(words) == "" {
		return words
	}
	const longestURL = 300 // bytes back to its start
	before = before[max(0, len(before)-longestURL):]
	last, _ := utf8.DecodeLastRuneInString(before)
	var next rune
	if after, ok := n.NextSibling().(*ast.Text); ok {
		next, _ = utf8.DecodeRune(after.Segment.Value(w.source))
	}
	if inWord(last) || inWord(next) || strings.Contains(before[strings.LastIndexAny(before, " \n")+1:], "://") {
		wrote := strings.Repeat(string(rune(w.source[n.Pos()])), n.Level)
		return wrote + words + wrote
	}
	if level == bold {
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
func labelled(label string, destination []byte) string {
	target := strings.TrimPrefix(strings.TrimSpace(literal(destination)), "mailto:")
	switch {
	case label == target, target == "":
		return label
	case label == "":
		return target
	}
	return label + " (" + target + ")"
}

// literal gives text as the author means it, in one line: "\*" is an asterisk, "&lt;" a bracket. What comes out is foreign
// still, and may hide something.
func literal(b []byte) string {
	b = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(b)))
	return strings.ReplaceAll(string(b), "\n", " ")
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
