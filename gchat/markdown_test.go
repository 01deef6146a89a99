package gchat

import (
	"strings"
	"testing"

	"github.com/yuin/goldmark/text"

	"gchat-hooks/state"
)

func TestMarkdown(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"empty", " \n\n", ""},
		{"ordinary text", "Epic 3 completed. 12/12 subtasks validated.", "Epic 3 completed. 12/12 subtasks validated."},
		{"names and sums", "file_name_here.go and 2 * 3 * 4", "file_name_here.go and 2 * 3 * 4"},
		{"sums without spaces", "2*3*4, a*b and c*d, 2**10 and 3**2, 5~10 and 6~7", "2*3*4, a*b and c*d, 2**10 and 3**2, 5~10 and 6~7"},
		{"comparisons", "a < b, a <= b, a <- b, x > y", "a < b, a <= b, a <- b, x > y"},
		{"paths", `~/.config, C:\dir\file, a & b`, `~/.config, C:\dir\file, a & b`},
		{"lines", "line one\nline two", "line one\nline two"},
		{"paragraphs", "one\n\n\n\ntwo", "one\n\ntwo"},
		{"hard breaks", "a  \nb\\\nc", "a\nb\nc"},
		{"indented lines", "Found:\n  foo: 1\n    bar: 2", "Found:\nfoo: 1\nbar: 2"},
		{"bold", "**a** and __b__", "*a* and *b*"},
		{"italic", "*a* and _b_", "_a_ and _b_"},
		{"struck", "~~a~~ and ~b~", "~a~ and ~b~"},
		{"bold and italic", "***x*** **_y_**", "_*x*_ *_y_*"},
		{"nested", "**a *b* c** _d **e**_", "*a _b_ c* _d *e*_"},
		{"bold in bold", "**a __b__ c**", "*a b c*"},
		{"all three", "~~**_x_**~~", "~*_x_*~"},
		{"both, and what follows", "***x*** y ***z*** `c`", "_*x*_ y _*z*_ `c`"},
		{"bold in a word", "un**believ**able", "un**believ**able"},
		{"bold beside a word", "**Note**: *all* (**b**)", "*Note*: _all_ (*b*)"},
		{"bold in Chinese", "这是**重点**内容", "这是*重点*内容"},
		{"bold over lines", "**a\nb** c", "*a*\n*b* c"},
		{"blank emphasis", "**&nbsp;** ** ** x", "\u00a0 ** ** x"},
		{"open emphasis", "**a *b", "**a *b"},
		{"escapes", "\\*a\\* \\_b\\_ \\~ \\` \\[x\\] \\d", "*a* _b_ ~ ` [x] \\d"},
		{"entities", "&copy; &amp;amp; &#42;a&#42; &nope;", "© &amp; *a* &nope;"},
		{"entity of a line break", "a&#10;[Done] x&NewLine;y&Tab;z", "a [Done] x y\tz"},
		{"code", "`a*b*` ``a`b`` **use `x` now**", "`a*b*` `a'b` *use `x` now*"},
		{"code over lines", "`a\nb` c", "`a b` c"},
		{"backticks", "a ` b `` c ``` d ```` e", "a ` b `` c ''' d '''` e"},
		{"backticks beside code", "\\`\\``x`y", "'''x`y"},
		{"fence", "```go\nx := `1`\n\n\ty()\n```\nafter", "```\nx := `1`\n\n\ty()\n```\n\nafter"},
		{"fence with tildes", "~~~\n```\na\n~~~", "```\n'''\na\n```"},
		{"open fence", "```\na\n``` b", "```\na\n''' b\n```"},
		{"fence without code", "a\n\n```\n```\n\nb", "a\n\nb"},
		{"fence in one line", "```ls -l", "```\nls -l\n```"},
		{"indented code", "a\n\n    b\n      c\n\nd", "a\n\n```\nb\n  c\n```\n\nd"},
		{"headings", "# One\ntext\n\n## **Two** `c` ##\n### *i*", "*One*\ntext\n\n*Two `c`*\n*_i_*"},
		{"underlined heading", "Title\n=====\ntext", "*Title*\ntext"},
		{"bullets", "- a\n- b\n  more\n    - c\n+ d\n\n+ e", "* a\n* b\n    more\n    * c\n* d\n\n* e"},
		{"bullets below text", "Steps:\n- a\n- b\n\nend", "Steps:\n* a\n* b\n\nend"},
		{"numbers", "3. a\n1. b\n   - c\n\n7) d", "3. a\n4. b\n    * c\n\n7) d"},
		{"deep", "- a\n  - b\n    - c", "* a\n    * b\n        * c"},
		{"paragraphs in items", "- a\n\n  b\n- c", "* a\n\n    b\n* c"},
		{"code in items", "- a\n  ```\n  x\n  ```\n- b", "* a\n```\nx\n```\n* b"},
		{"item that is code", "- ```\n  x\n  ```", "*\n```\nx\n```"},
		{"tasks", "- [ ] a\n- [x] **b**\n- [X]\n- [y] c", "* [ ] a\n* [x] *b*\n* [X]\n* [y] c"},
		{"quote", "> a\n> **b**\n>\n> - c\nlazy\n\nd", "> a\n> *b*\n>\n> * c\n>     lazy\n\nd"},
		{"quote in quote", "> > a", "> > a"},
		{"code in a quote", "> a\n> ```\n> x\n> ```\n> b", "> a\n```\nx\n```\n> b"},
		{"line across", "a\n\n---\n\nb", "a\n\n────────────\n\nb"},
		{"long line across", strings.Repeat("-", 90), "────────────"},
		{"HTML", "<div class=\"x\">\n**a** <b>b</b><br>\n</div>\n<!-- c -->", "‹div class=\"x\">\n*a* ‹b>b‹/b>‹br>\n‹/div>\n‹!-- c -->"},
		{"definitions are text", "[a]: https://x.example\n[b][a]", "[a]: https://x.example\n[b][a]"},
		{"URLs in text", "https://x.example/__init__.py?a=*b*c and **https://x.example/y_**", "https://x.example/__init__.py?a=*b*c and *https://x.example/y_*"},
		{"URL in brackets", "<https://x.example/a_b_> <a@x.example> <tel:1>", "https://x.example/a_b_ a@x.example tel:1"},
		{"table", "| Name | N |\n|:--|--:|\n| **a** | 1 |\n| `b\\|c` | 10 |", "```\nName  N\n---   ---\na     1\nb¦c   10\n```"},
		{"table below text", "See:\n| a |\n|---|\n| b |\n\nend", "See:\n```\na\n---\nb\n```\n\nend"},
		{"short and long rows", "|a|b|\n|-|-|\n|1|\n|1|2|3|", "```\na  b\n-  -\n1\n1  2  3\n```"},
		{"table with links", "|PR|\n|-|\n|[#1](https://x.example/1)|", "```\nPR\n-\n[#1](https://x.example/1)\n```"},
		{"no table", "a | b\nc | d", "a | b\nc | d"},
		{"fence in a table", "|a|\n|-|\n|x ``` y|", "```\na\n-\nx  y\n```"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := markdown(state.Clean(state.ForChat, tt.in)); got != tt.want {
				t.Errorf("%q:\n got %q\nwant %q", tt.in, got, tt.want)
			}
		})
	}
}

// A link shows its target, so that its label cannot claim another one.
func TestLinks(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"link", "[the docs](https://x.example/a)", "the docs (https://x.example/a)"},
		{"title", `[a](http://x.example "b")`, "a (http://x.example)"},
		{"styled", "**[a *b* `c`](https://x.example)**", "*a _b_ `c` (https://x.example)*"},
		{"its own label", "[https://x.example/a](https://x.example/a)", "https://x.example/a"},
		{"no label", "[](https://x.example)", "https://x.example"},
		{"no target", "[a]()", "a"},
		{"relative", "[a](./a.md) [b](#c)", "a (./a.md) b (#c)"},
		{"mail", "[write](mailto:a@x.example) [a@x.example](mailto:a@x.example)", "write (a@x.example) a@x.example"},
		{"image", "![a](https://x.example/a.png) ![](b.png)", "a (https://x.example/a.png) b.png"},
		{"Chat's own link", "<https://evil.example|label> [a](https://x.example/|b>)", "https://evil.example|label a (https://x.example/|b>)"},
		{"entity in the URL", "[a](https://x.example/&lt;users/all&#10;)", "a (https://x.example/‹users/all)"},
		{"hidden rune in the URL", "[a](https://x.exa&#8203;mple/)", "a (https://x.example/)"},
		{"another host as label", "[https://bank.example](https://evil.example)", "https://bank.example (https://evil.example)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := markdown(state.Clean(state.ForChat, tt.in)); got != tt.want {
				t.Errorf("%q:\n got %q\nwant %q", tt.in, got, tt.want)
			}
		})
	}
}

// A text that would keep the parser busy is shown as it is, and so is one that is nested deeper than people write.
func TestMarkdownIsBounded(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"long":   {strings.Repeat("**a**\n", maxMarkdown/6+1), strings.TrimRight(strings.Repeat("**a**\n", maxMarkdown/6+1), "\n")},
		"quotes": {strings.Repeat("> ", 30) + "**a**", strings.Repeat("> ", 30) + "**a**"},
		"lists":  {strings.Repeat("- 1. ", 10) + "**a**\n" + strings.Repeat("\n", 40000) + "b", strings.Repeat("- 1. ", 10) + "**a**\n" + strings.Repeat("\n", 40000) + "b"},
	} {
		if got := markdown(tt.in); got != tt.want {
			t.Errorf("%s: %.200q", name, got)
		}
	}
}

// Text without marks is not parsed: it comes out as if it were.
func FuzzOrdinaryText(f *testing.F) {
	for _, text := range []string{"hello", "a\n\nb  \nc", " \n\na\n", "a #1 > b\nc 2. d - e", "\u00a0a\n\tb", "a:\nb\u3000", "http://x.example/?a=b", "a\n \nb"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, source string) {
		source = state.Clean(state.ForChat, source)
		if strings.TrimSpace(source) == "" || marks().MatchString(source) {
			return
		}
		w := &walk{source: []byte(source)}
		w.blocks(markdownParser().Parse(text.NewReader(w.source)), "")
		if got, want := markdown(source), settle(w.lines); got != want {
			t.Errorf("%q: got %q, want %q", source, got, want)
		}
	})
}
