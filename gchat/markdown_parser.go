package gchat

import (
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdownParser is CommonMark without HTML, which is text for us, and without link definitions, which would make a line
// such as "[Done]: yes" vanish. Package extension of goldmark has tables, strikethrough and task lists too; but its
// patterns would cost each run of a hook 0.6 ms, whether it has a report or not.
var markdownParser = sync.OnceValue(func() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(parser.NewListParser(), 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(parser.NewATXHeadingParser(), 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(parser.NewBlockquoteParser(), 800),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(
			util.Prioritized(taskBox{}, 50),
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewLinkParser(), 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(bareURL{}, 400),
			util.Prioritized(parser.NewEmphasisParser(), 500),
			util.Prioritized(strikethrough{}, 500),
		),
		parser.WithParagraphTransformers(util.Prioritized(tableFinder{}, 200)),
	)
})

// taskBox reads "[ ] " and "[x] " at the start of a list's item.
type taskBox struct{}

func (taskBox) Trigger() []byte { return []byte{'['} }

func (taskBox) Parse(parent ast.Node, block text.Reader, _ parser.Context) ast.Node {
	item := parent.Parent()
	if parent.HasChildren() || item == nil || item.Kind() != ast.KindListItem || item.FirstChild() != parent {
		return nil
	}
	l, _ := block.PeekLine()
	if len(l) < 4 || l[2] != ']' || !util.IsSpace(l[3]) {
		return nil
	}
	box := "☐"
	switch l[1] {
	case ' ':
	case 'x', 'X':
		box = "☑"
	default:
		return nil
	}
	block.Advance(3)
	return ast.NewString([]byte(box))
}

// strikethrough reads ~text~ and ~~text~~ as emphasis of levels 3 and 4.
type strikethrough struct{}

func (strikethrough) Trigger() []byte { return []byte{'~'} }

func (s strikethrough) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	l, segment := block.PeekLine()
	d := parser.ScanDelimiter(l, before, 1, s)
	if d == nil || d.OriginalLength > 2 || before == '~' {
		return nil
	}
	d.Segment = segment.WithStop(segment.Start + d.OriginalLength)
	block.Advance(d.OriginalLength)
	pc.PushDelimiter(d)
	return d
}

func (strikethrough) IsDelimiter(b byte) bool { return b == '~' }

func (strikethrough) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char && opener.OriginalLength == closer.OriginalLength
}

func (strikethrough) OnMatch(consumed int) ast.Node { return ast.NewEmphasis(2 + consumed) }

// bareURL keeps emphasis out of a URL that stands in the text, such as https://example.com/__init__.py: Chat links it as
// it is written.
type bareURL struct{}

func (bareURL) Trigger() []byte { return []byte{'*', '_', '~'} }

func (bareURL) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	l, segment := block.PeekLine()
	run := 1
	for run < len(l) && l[run] == l[0] {
		run++
	}
	if run == len(l) || !inURL(l[run]) && (run+1 == len(l) || !strings.ContainsRune("./?=&%#-:+,", rune(l[run])) || !inURL(l[run+1])) {
		return nil // the URL ends here
	}
	const far = 300 // bytes back to the start of the URL
	before := block.Source()[max(0, segment.Start-far):segment.Start]
	for i := len(before) - 1; i >= 2; i-- {
		switch c := before[i]; {
		case util.IsSpace(c), c == '<', c == '>', c == '(', c == ')', c == '[', c == ']':
			return nil
		case c == '/' && before[i-1] == '/' && before[i-2] == ':':
			block.Advance(run)
			return ast.NewTextSegment(segment.WithStop(segment.Start + run))
		}
	}
	return nil
}

func inURL(c byte) bool { return util.IsAlphaNumeric(c) || c == '/' || c == '_' }
