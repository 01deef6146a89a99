package gchat

import (
	"bytes"
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"
)

// style is a set of what surrounds a piece of text already: bold in bold is no more than bold.
type style uint8

const (
	bold style = 1 << iota
	italic
	struck
)

// piece is a rendered part of a line. Mark is what Chat puts around it, wrote what the author did.
type piece struct{ text, mark, wrote string }

// inlines renders the children of a node.
func (w *walk) inlines(parent ast.Node, in style) string {
	var pieces []piece
	for n := parent.FirstChild(); n != nil; {
		next := n.NextSibling() // emphasis may move n
		pieces = append(pieces, w.inline(n, in))
		n = next
	}
	return join(pieces)
}

func (w *walk) inline(n ast.Node, in style) piece {
	switch n := n.(type) {
	case *ast.Text:
		return piece{text: w.text(n)}
	case *ast.String:
		return piece{text: string(n.Value)}
	case *ast.CodeSpan:
		tick := string(codeTick)
		return piece{text: tick + strings.ReplaceAll(w.plain(n), "`", "'") + tick} // code has no way to hold a backtick
	case *ast.Emphasis:
		return w.emphasis(n, in)
	case *ast.Link:
		return piece{text: link(w.plain(n), string(n.Destination))}
	case *ast.Image:
		return piece{text: image(w.plain(n), string(n.Destination))}
	case *ast.AutoLink:
		return piece{text: clean(string(n.URL(w.source)))}
	}
	return piece{text: w.inlines(n, in)}
}

func (w *walk) text(n *ast.Text) string {
	value := n.Segment.Value(w.source)
	text := string(value)
	if !n.IsRaw() {
		text = literal(value)
	}
	if n.SoftLineBreak() || n.HardLineBreak() {
		text += "\n"
	}
	return text
}

// marks are of levels 1 and 2, Markdown's own, and 3 and 4, which our parser gives to ~ and ~~.
var marks = [...]struct {
	style       style
	mark, wrote string
}{1: {italic, "_", "*"}, 2: {bold, "*", "**"}, 3: {struck, "~", "~"}, 4: {struck, "~", "~~"}}

func (w *walk) emphasis(n *ast.Emphasis, in style) piece {
	if inner, ok := n.FirstChild().(*ast.Emphasis); ok && inner == n.LastChild() && n.Level == 1 && inner.Level == 2 {
		n.RemoveChild(n, inner) // ***both***: bold goes around italic
		for c := inner.FirstChild(); c != nil; c = inner.FirstChild() {
			n.AppendChild(n, c)
		}
		inner.AppendChild(inner, n)
		p := w.emphasis(inner, in)
		if p.mark != "" {
			p.wrote = "***"
		}
		return p
	}
	m := marks[n.Level]
	text := w.inlines(n, in|m.style)
	if in&m.style != 0 {
		return piece{text: text}
	}
	return piece{text, m.mark, m.wrote}
}

// join puts the marks around the pieces. Chat shows them as characters inside a word, so there the author's own stay:
// "2*3*4" is no emphasis, although Markdown takes it for one.
func join(pieces []piece) string {
	var b strings.Builder
	last := ' '
	write := func(s string) {
		if s != "" {
			b.WriteString(s)
			last, _ = utf8.DecodeLastRuneInString(s)
		}
	}
	for i, p := range pieces {
		next := ' '
		if i+1 < len(pieces) && pieces[i+1].mark == "" && pieces[i+1].text != "" {
			next, _ = utf8.DecodeRuneInString(pieces[i+1].text)
		}
		switch {
		case p.mark == "" || strings.TrimSpace(p.text) == "":
			write(p.text)
		case !inWord(last) && !inWord(next):
			write(marked(p.text, p.mark))
		case p.wrote == "**" && !strings.ContainsFunc(p.text, unicode.IsSpace) && !unicode.IsDigit(last):
			write(p.mark + p.text + p.mark)
		default:
			write(p.wrote + p.text + p.wrote)
		}
	}
	return b.String()
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
		if l = strings.TrimSpace(l); l != "" {
			lines[i] = mark + l + mark
		}
	}
	return strings.Join(lines, "\n")
}

// plain gives the words in a node, without markup and in one line.
func (w *walk) plain(parent ast.Node) string {
	var b strings.Builder
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			text := w.text(n)
			if n.IsRaw() && w.cell {
				text = strings.ReplaceAll(text, `\|`, "|")
			}
			b.WriteString(text)
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.WriteString(clean(string(n.URL(w.source))))
		default:
			b.WriteString(w.plain(n))
		}
	}
	return strings.Map(spaced, b.String())
}

func spaced(r rune) rune {
	if r == '\n' || r == '\t' {
		return ' '
	}
	return r
}

// literal gives text as the author means it: "\*" is an asterisk, "&lt;" a bracket. What comes out is foreign still.
func literal(b []byte) string {
	if !bytes.ContainsAny(b, `\&`) {
		return string(b)
	}
	var out strings.Builder
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '\\' && i+1 < len(b) && util.IsPunct(b[i+1]):
			i++
		case b[i] == '&':
			const longest = 40 // no entity is longer
			if end := bytes.IndexByte(b[i:min(len(b), i+longest)], ';'); end > 0 {
				entity := string(b[i : i+end+1])
				if s := html.UnescapeString(entity); s != entity && !strings.HasSuffix(s, ";") {
					out.WriteString(clean(s))
					i += end
					continue
				}
			}
		}
		out.WriteByte(b[i])
	}
	return out.String()
}

// clean makes decoded text visible again, in one line.
func clean(s string) string {
	return strings.Map(spaced, dropInvisible(s))
}
