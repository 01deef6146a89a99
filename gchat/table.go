package gchat

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

const (
	maxColumns = 32 // a wider one is no table
	maxWidth   = 60 // of a table as a block, in columns of a terminal: a phone shows about half of it without scrolling
)

// tableFinder makes a table of the last lines of a paragraph: a header, a line such as "|---|:-:|", and rows.
type tableFinder struct{}

func (tableFinder) Transform(p *ast.Paragraph, reader text.Reader, _ parser.Context) {
	lines := p.Lines()
	for i := 1; i < lines.Len(); i++ {
		bars := lines.At(i)
		columns := delimiters(bytes.TrimSpace(bars.Value(reader.Source())))
		if columns == nil {
			continue
		}
		header := cells(lines.At(i-1), len(columns), reader.Source())
		if len(header) != len(columns) {
			continue
		}
		t := tables.NewTable()
		t.Alignments = columns
		t.SetBlankPreviousLines(i == 1 && p.HasBlankPreviousLines())
		t.SetPos(lines.At(i - 1).Start)
		for j := i - 1; j < lines.Len(); j++ {
			if j == i {
				continue
			}
			row := tables.NewTableRow(columns)
			for _, c := range cells(lines.At(j), len(columns), reader.Source()) {
				cell := tables.NewTableCell()
				cell.Lines().Append(c)
				row.AppendChild(row, cell)
			}
			t.AppendChild(t, row)
		}
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

// delimiters reads the line below a header; nil when it is none.
func delimiters(l []byte) (columns []tables.Alignment) {
	if !bytes.ContainsAny(l, "|:") || len(l) == 0 {
		return nil
	}
	for _, b := range l {
		if !strings.ContainsRune("-:| \t", rune(b)) {
			return nil
		}
	}
	l = bytes.TrimSuffix(bytes.TrimPrefix(l, []byte("|")), []byte("|"))
	for col := range bytes.SplitSeq(l, []byte("|")) {
		col = bytes.TrimSpace(col)
		dashes := bytes.Trim(col, ":")
		if len(dashes) == 0 || len(col)-len(dashes) > 2 || len(bytes.Trim(dashes, "-")) > 0 {
			return nil
		}
		align := tables.AlignLeft
		if !bytes.HasPrefix(col, []byte(":")) && bytes.HasSuffix(col, []byte(":")) {
			align = tables.AlignRight
		}
		if columns = append(columns, align); len(columns) > maxColumns {
			return nil
		}
	}
	return columns
}

// cells splits a row at its bars, but not at "\|". A row with more cells than the header keeps the rest in the last one:
// what the author wrote is shown.
func cells(row text.Segment, most int, source []byte) (out []text.Segment) {
	row = row.TrimLeftSpace(source)
	row = row.TrimRightSpace(source)
	start, stop := row.Start, row.Stop
	if start < stop && source[start] == '|' {
		start++
	}
	if start < stop && source[stop-1] == '|' && (stop-2 < start || source[stop-2] != '\\') {
		stop--
	}
	for i := start; i <= stop; i++ {
		if i < stop && (source[i] != '|' || i > start && source[i-1] == '\\' || len(out) == most-1 && most > 0) {
			continue
		}
		cell := text.NewSegment(start, i)
		cell = cell.TrimLeftSpace(source)
		out = append(out, cell.TrimRightSpace(source))
		start = i + 1
	}
	return out
}

// table renders a table as a block of padded columns, where it is narrow and has no links; else each row as a list of
// what its cells are.
func (w *walk) table(n *tables.Table) []line {
	w.cell = true
	defer func() { w.cell = false }()
	var grid [][]string
	widths := make([]int, len(n.Alignments))
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var words []string
		for c := row.FirstChild(); c != nil; c = c.NextSibling() {
			words = append(words, strings.TrimSpace(w.plain(c)))
			widths[len(words)-1] = max(widths[len(words)-1], width(words[len(words)-1]))
		}
		grid = append(grid, words)
	}
	total := 3 * (len(widths) - 1)
	for _, one := range widths {
		total += one
	}
	if total > maxWidth && len(grid) > 1 || hasLink(n) {
		return w.rows(n)
	}
	var b strings.Builder
	for i, words := range grid {
		for j, one := range widths {
			word := ""
			if j < len(words) {
				word = words[j]
			}
			pad := strings.Repeat(" ", one-width(word))
			if n.Alignments[j] == tables.AlignRight {
				word, pad = pad, word
			}
			if j > 0 {
				b.WriteString(" | ")
			}
			b.WriteString(word + pad)
		}
		b.WriteString("\n")
		if i == 0 {
			for j, one := range widths {
				if j > 0 {
					b.WriteString("-+-")
				}
				b.WriteString(strings.Repeat("-", one))
			}
			b.WriteString("\n")
		}
	}
	block := codeBlock(b.String())
	for i := range block {
		block[i].text = strings.TrimRight(block[i].text, " ")
	}
	return block
}

func hasLink(n ast.Node) (found bool) {
	_ = ast.Walk(n, func(n ast.Node, _ bool) (ast.WalkStatus, error) {
		switch n.Kind() {
		case ast.KindLink, ast.KindImage:
			found = true
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	return found
}

// rows gives "*header:* cell" for each cell, and a blank line between rows.
func (w *walk) rows(n *tables.Table) (lines []line) {
	var headers []string
	for c := n.FirstChild().FirstChild(); c != nil; c = c.NextSibling() {
		headers = append(headers, strings.TrimSuffix(w.inlines(c, bold), ":"))
	}
	for row := n.FirstChild().NextSibling(); row != nil; row = row.NextSibling() {
		if len(lines) > 0 {
			lines = append(lines, line{})
		}
		i := 0
		for c := row.FirstChild(); c != nil; c = c.NextSibling() {
			cell := w.inlines(c, 0)
			if header := headers[i]; header != "" && cell != "" {
				cell = marked(header+":", "*") + " " + cell
			}
			if cell != "" {
				lines = append(lines, split(cell)...)
			}
			i++
		}
	}
	return lines
}

// width is how many columns of a monospaced font text takes.
func width(s string) (n int) {
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case r >= 0x1100 && (r <= 0x115F || r >= 0x2E80 && r <= 0xA4CF || r >= 0xAC00 && r <= 0xD7A3 || r >= 0xF900 && r <= 0xFAFF ||
			r >= 0xFE30 && r <= 0xFE6F || r >= 0xFF00 && r <= 0xFF60 || r >= 0xFFE0 && r <= 0xFFE6 || r >= 0x1F300 && r <= 0x1FAFF ||
			r >= 0x20000 && r <= 0x3FFFD || r == '✅' || r == '❌' || r == '✨'):
			n += 2
		default:
			n++
		}
	}
	return n
}
