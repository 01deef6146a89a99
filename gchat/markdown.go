package gchat

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/yuin/goldmark/ast"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// markdown renders Claude's Markdown, which is visible text, in Chat's own syntax: *bold*, _italic_, ~struck~, `code`,
// "* " before items, 4 spaces before nested ones, "> " before quotes. Chat has no headings and no tables. Ordinary text
// is Markdown too, and comes out as it is, with its lines. inline says that the text begins with words, not with a list
// or another block.
func markdown(source string) (lines []line, inline bool) {
	if tooHard(source) {
		return paragraphs(source), true
	}
	defer func() {
		if recover() != nil { // a fault in the parser must not cost a report
			lines, inline = paragraphs(source), true
		}
	}()
	w := &walk{source: []byte(source)}
	root := markdownParser().Parse(text.NewReader(w.source))
	lines = trimBlank(w.blocks(root))
	return lines, root.FirstChild() != nil && ast.IsParagraph(root.FirstChild())
}

// walk renders a tree of Markdown.
type walk struct {
	source []byte
	cell   bool // in a table, where "\|" is how a bar is written in code
}

// blocks renders the children of a node. Blank lines stand where the author left some, and between paragraphs.
func (w *walk) blocks(parent ast.Node) (lines []line) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		lines = w.below(lines, n, w.block(n))
	}
	return lines
}

func (w *walk) below(lines []line, n ast.Node, block []line) []line {
	if len(block) > 0 && len(lines) > 0 &&
		(w.blankBefore(n) || ast.IsParagraph(n) && ast.IsParagraph(n.PreviousSibling())) {
		lines = append(lines, line{})
	}
	return append(lines, block...)
}

// blankBefore looks at the line before a block itself: the parser says that there is a blank one below each fence.
func (w *walk) blankBefore(n ast.Node) bool {
	if !n.HasBlankPreviousLines() || n.Pos() < 0 {
		return n.HasBlankPreviousLines()
	}
	own := bytes.LastIndexByte(w.source[:n.Pos()], '\n')
	if own < 0 {
		return true
	}
	before := w.source[bytes.LastIndexByte(w.source[:own], '\n')+1 : own]
	return len(bytes.Trim(before, " \t>")) == 0
}

func (w *walk) block(n ast.Node) []line {
	switch n := n.(type) {
	case *ast.Paragraph:
		return w.paragraph(n)
	case *ast.Heading:
		return w.heading(n)
	case *ast.ThematicBreak:
		return []line{{text: strings.Repeat("─", 12)}}
	case *ast.CodeBlock:
		return codeBlock(w.code(n))
	case *ast.FencedCodeBlock:
		if lines := codeBlock(w.code(n)); lines != nil || n.Info == nil {
			return lines
		}
		return codeBlock(string(n.Info.Segment.Value(w.source))) // "```ls -l" and nothing else
	case *ast.Blockquote:
		return quoted(w.blocks(n))
	case *ast.List:
		return w.list(n)
	case *tables.Table:
		return w.table(n)
	case *ast.TextBlock:
		return split(w.inlines(n, 0))
	}
	return w.blocks(n)
}

func split(s string) (lines []line) {
	for l := range strings.SplitSeq(s, "\n") {
		lines = append(lines, line{text: strings.TrimRight(l, " \t")})
	}
	return lines
}

// paragraph keeps the spaces before the lines of ordinary text, which Markdown ignores. In lists and quotes they are
// Markdown's own.
func (w *walk) paragraph(n *ast.Paragraph) []line {
	lines := split(w.inlines(n, 0))
	if n.Parent().Kind() != ast.KindDocument || len(lines) != n.Lines().Len() {
		return lines
	}
	for i := range lines {
		start := n.Lines().At(i).Start
		margin := start
		for margin > 0 && (w.source[margin-1] == ' ' || w.source[margin-1] == '\t') {
			margin--
		}
		if margin == 0 || w.source[margin-1] == '\n' {
			lines[i].text = string(w.source[margin:start]) + lines[i].text
		}
	}
	return lines
}

func (w *walk) heading(n *ast.Heading) []line {
	title := w.inlines(n, bold)
	if strings.TrimSpace(title) == "" {
		return []line{{text: strings.Repeat("#", n.Level)}}
	}
	return split(marked(title, "*"))
}

// code gives the lines of a code block.
func (w *walk) code(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		segment := n.Lines().At(i)
		b.Write(segment.Value(w.source))
	}
	return b.String()
}

// quoted puts the sign of a quote before each line. Code stays at the margin: within its box the sign would be a
// character of the code.
func quoted(lines []line) []line {
	for i, l := range lines {
		if !l.code {
			lines[i].text = strings.TrimRight("> "+l.text, " ")
		}
	}
	return lines
}

func (w *walk) list(n *ast.List) (lines []line) {
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		marker := "* "
		if n.IsOrdered() {
			marker = fmt.Sprintf("%d%c ", number, n.Marker)
			number++
		}
		lines = w.below(lines, item, w.item(item, marker))
	}
	return lines
}

// item renders a list's item. Its further lines stand under its first one; nested lists are 4 spaces in, as Chat wants
// them.
func (w *walk) item(n ast.Node, marker string) (lines []line) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		indent := strings.Repeat(" ", len(marker))
		if c.Kind() == ast.KindList {
			indent = "    "
		}
		block := w.block(c)
		for i, l := range block {
			switch {
			case l.code || l.text == "":
			case i == 0 && len(lines) == 0:
				block[i].text = marker + l.text
			default:
				block[i].text = indent + l.text
			}
		}
		lines = w.below(lines, c, block)
	}
	if len(lines) == 0 || lines[0].code || lines[0].text == "" {
		lines = append([]line{{text: strings.TrimRight(marker, " ")}}, lines...)
	}
	return lines
}
