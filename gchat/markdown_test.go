package gchat

import (
	"strings"
	"testing"
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
		{"indented lines", "Found:\n  foo: 1\n    bar: 2", "Found:\n  foo: 1\n    bar: 2"},
		{"bold", "**a** and __b__", "*a* and *b*"},
		{"italic", "*a* and _b_", "_a_ and _b_"},
		{"struck", "~~a~~ and ~b~", "~a~ and ~b~"},
		{"bold and italic", "***x*** **_y_**", "*_x_* *_y_*"},
		{"nested", "**a *b* c** _d **e**_", "*a _b_ c* _d *e*_"},
		{"bold in bold", "**a __b__ c**", "*a b c*"},
		{"all three", "~~**_x_**~~", "~*_x_*~"},
		{"both, and what follows", "***x*** y ***z*** `c`", "*_x_* y *_z_* `c`"},
		{"bold in a word", "un**believ**able", "un*believ*able"},
		{"bold beside a word", "**Note**: *all* (**b**)", "*Note*: _all_ (*b*)"},
		{"bold in Chinese", "这是**重点**内容", "这是*重点*内容"},
		{"bold over lines", "**a\nb** c", "*a*\n*b* c"},
		{"blank emphasis", "**&nbsp;** ** ** x", "\u00a0 ** ** x"},
		{"open emphasis", "**a *b", "**a *b"},
		{"escapes", "\\*a\\* \\_b\\_ \\~ \\` \\[x\\] \\d", "*a* _b_ ~ ` [x] \\d"},
		{"entities", "&copy; &amp;amp; &#42;a&#42; &nope;", "© &amp; *a* &nope;"},
		{"entity of a line break", "a&#10;[Done] x&NewLine;y&Tab;z", "a [Done] x y z"},
		{"code", "`a*b*` ``a`b`` **use `x` now**", "`a*b*` `a'b` *use `x` now*"},
		{"code over lines", "`a\nb` c", "`a b` c"},
		{"backticks", "a ` b `` c ``` d ```` e", "a ` b `` c ''' d '''' e"},
		{"backticks beside code", "\\`\\``x`y", "''`x`y"},
		{"fence", "```go\nx := `1`\n\n\ty()\n```\nafter", "```\nx := `1`\n\n\ty()\n```\nafter"},
		{"fence with tildes", "~~~\n```\na\n~~~", "```\n'''\na\n```"},
		{"open fence", "```\na\n``` b", "```\na\n''' b\n```"},
		{"fence without code", "a\n\n```\n```\n\nb", "a\n\nb"},
		{"fence in one line", "```ls -l", "```\nls -l\n```"},
		{"indented code", "a\n\n    b\n      c\n\nd", "a\n\n```\nb\n  c\n```\n\nd"},
		{"headings", "# One\ntext\n\n## **Two** `c` ##\n### *i*", "*One*\ntext\n\n*Two `c`*\n*_i_*"},
		{"underlined heading", "Title\n=====\ntext", "*Title*\ntext"},
		{"empty heading", "##", "##"},
		{"bullets", "- a\n- b\n  more\n    - c\n+ d\n\n+ e", "* a\n* b\n  more\n    * c\n* d\n\n* e"},
		{"bullets below text", "Steps:\n- a\n- b\n\nend", "Steps:\n* a\n* b\n\nend"},
		{"numbers", "3. a\n1. b\n   - c\n\n7) d", "3. a\n4. b\n    * c\n\n7) d"},
		{"deep", "- a\n  - b\n    - c", "* a\n    * b\n        * c"},
		{"paragraphs in items", "- a\n\n  b\n- c", "* a\n\n  b\n* c"},
		{"code in items", "- a\n  ```\n  x\n  ```\n- b", "* a\n```\nx\n```\n* b"},
		{"item that is code", "- ```\n  x\n  ```", "*\n```\nx\n```"},
		{"tasks", "- [ ] a\n- [x] **b**\n- [X]\n- [y] c", "* ☐ a\n* ☑ *b*\n* [X]\n* [y] c"},
		{"quote", "> a\n> **b**\n>\n> - c\nlazy\n\nd", "> a\n> *b*\n>\n> * c\n>   lazy\n\nd"},
		{"quote in quote", "> > a", "> > a"},
		{"code in a quote", "> a\n> ```\n> x\n> ```\n> b", "> a\n```\nx\n```\n> b"},
		{"line across", "a\n\n---\n\nb", "a\n\n────────────\n\nb"},
		{"long line across", strings.Repeat("-", 90), "────────────"},
		{"HTML", "<div class=\"x\">\n**a** <b>b</b><br>\n</div>\n<!-- c -->", "‹div class=\"x\">\n*a* ‹b>b‹/b>‹br>\n‹/div>\n‹!-- c -->"},
		{"definitions are text", "[a]: https://x.example\n[b][a]", "[a]: https://x.example\n[b][a]"},
		{"URLs in text", "https://x.example/__init__.py?a=*b*c and **https://x.example/y_**", "https://x.example/__init__.py?a=*b*c and *https://x.example/y_*"},
		{"URL in brackets", "<https://x.example/a_b_> <a@x.example> <tel:1>", "https://x.example/a_b_ a@x.example tel:1"},
		{"table", "| Name | N |\n|:--|--:|\n| **a** | 1 |\n| `b\\|c` | 10 |", "```\nName |  N\n-----+---\na    |  1\nb|c  | 10\n```"},
		{"wide characters", "|漢字|x|\n|-|-|\n|a|🚀|", "```\n漢字 | x\n-----+---\na    | 🚀\n```"},
		{"table below text", "See:\n| a |\n|---|\n| b |\n\nend", "See:\n```\na\n-\nb\n```\n\nend"},
		{"short and long rows", "|a|b|\n|-|-|\n|1|\n|1|2|3|", "```\na | b\n--+----\n1 |\n1 | 2|3\n```"},
		{"wide table", "|What|Why: |\n|-|-|\n|" + strings.Repeat("x", 40) + "|" + strings.Repeat("y", 40) + "|\n|**z**||",
			"*What:* " + strings.Repeat("x", 40) + "\n*Why:* " + strings.Repeat("y", 40) + "\n\n*What:* *z*"},
		{"table with links", "|PR|\n|-|\n|[#1](https://x.example/1)|", "*PR:* <https://x.example/1|#1>"},
		{"no table", "a | b\nc | d", "a | b\nc | d"},
		{"fence in a table", "|a|\n|-|\n|x ``` y|", "```\na\n-------\nx ''' y\n```"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, _ := markdown(visible(tt.in))
			if got := settle(lines); got != tt.want {
				t.Errorf("%q:\n got %q\nwant %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestLinks(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"link", "[the docs](https://x.example/a)", "<https://x.example/a|the docs>"},
		{"title", `[a](http://x.example "b")`, "<http://x.example|a>"},
		{"styled", "**[a *b* `c`](https://x.example)**", "*<https://x.example|a b c>*"},
		{"its own label", "[https://x.example/a](https://x.example/a) [x.example/a](https://x.example/a)", "https://x.example/a https://x.example/a"},
		{"no label", "[](https://x.example)", "https://x.example"},
		{"the host as label", "[x.example](https://www.X.example/a)", "<https://www.X.example/a|x.example>"},
		{"other scheme", "[a](javascript:alert(1)) [b](data:x) [c](file:///etc)", "a (javascript:alert(1)) b (data:x) c (file:///etc)"},
		{"relative", "[a](./a.md) [b](#c) [d](//evil.example)", "a (./a.md) b (#c) d (//evil.example)"},
		{"no target", "[a]()", "a"},
		{"mail", "[write](mailto:a@x.example) [a@x.example](mailto:a@x.example)", "write (a@x.example) a@x.example"},
		{"image", "![a](https://x.example/a.png) ![](b.png) [![c](d.png)](https://x.example)", "a (https://x.example/a.png) b.png <https://x.example|c>"},
		{"bar in the URL", "[a](https://x.example/|https://y.example) [b](https://x.example?c=|d#e|f)", "<https://x.example/%7Chttps://y.example|a> <https://x.example?c=%7Cd#e%7Cf|b>"},
		{"brackets and spaces in the URL", "[a](<https://x.example/b c\\>\"'>)", "<https://x.example/b%20c%3E%22%27|a>"},
		{"entity in the URL", "[a](https://x.example/&#124;&lt;&#10;)", "<https://x.example/%7C%3C|a>"},
		{"newline in the URL", "[a](https://x.example\n|b)", "[a](https://x.example\n|b)"},
		{"hidden rune in the URL", "[a](https://x.exa&#8203;mple/)", "<https://x.example/|a>"},
		{"brackets in the label", "[a \\> <b> | c](https://x.example)", "<https://x.example|a › ‹b› ¦ c>"},
		{"newline in the label", "[a\nb](https://x.example)", "<https://x.example|a b>"},
		{"lie: URL", "[https://bank.example](https://evil.example)", "https://bank.example (https://evil.example)"},
		{"lie: domain", "[bank.example](https://evil.example/bank.example)", "bank.example (https://evil.example/bank.example)"},
		{"lie: styled domain", "[ba**nk.ex**ample](https://evil.example)", "bank.example (https://evil.example)"},
		{"lie: in a sentence", "[go to bank.example/login now](https://evil.example)", "go to bank.example/login now (https://evil.example)"},
		{"lie: mail", "[boss@bank.example](https://evil.example)", "boss@bank.example (https://evil.example)"},
		{"lie: address", "[10.0.0.1](https://evil.example)", "10.0.0.1 (https://evil.example)"},
		{"lie: other dots", "[bank。example bank．example](https://evil.example)", "bank。example bank．example (https://evil.example)"},
		{"lie: user", "[a](https://bank.example@evil.example)", "a (https://bank.example@evil.example)"},
		{"lie: user as its label", "[https://bank.example](https://bank.example@evil.example)", "https://bank.example (https://bank.example@evil.example)"},
		{"lie: subdomain", "[bank.example](https://bank.example.evil.example)", "bank.example (https://bank.example.evil.example)"},
		{"backslash", `[a](https://bank.example\\@evil.example)`, "a (https://bank.example%5C@evil.example)"},
		{"file", "[main.go:12](https://x.example/main.go#L12) [v1.2.3](https://x.example)", "<https://x.example/main.go#L12|main.go:12> <https://x.example|v1.2.3>"},
		{"file with a domain's ending", "[README.md](https://x.example/a/README.md) [README.md](https://evil.example)", "<https://x.example/a/README.md|README.md> README.md (https://evil.example)"},
		{"ticks", "[\\`a](https://x.example/\\`b)", "<https://x.example/%60b|`a>"},
		{"long URL", "[a](https://x.example/" + strings.Repeat("b", 3000) + ")", "a (https://x.example/" + strings.Repeat("b", 3000) + ")"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, _ := markdown(visible(tt.in))
			if got := settle(lines); got != tt.want {
				t.Errorf("%q:\n got %q\nwant %q", tt.in, got, tt.want)
			}
		})
	}
}

// What would keep the parser busy for minutes, or is nested deeper than anyone reads, is shown as it is.
func TestTooHard(t *testing.T) {
	long := func(s string) string { return strings.Repeat(s, 200<<10/len(s)) }
	for name, s := range map[string]string{
		"links":           long("[a](<b"),
		"emphasis":        long("*a_ "),
		"paragraphs":      long(strings.Repeat("*a_ ", 6000) + "\n\n"),
		"quotes":          long("> "),
		"lists":           long("- "),
		"numbers":         long("1. "),
		"lists by spaces": strings.Repeat(strings.Repeat(" ", 120)+"- a\n", 3),
		"size":            strings.Repeat("a\n", 200<<10),
	} {
		if !tooHard(s) {
			t.Errorf("%s: not too hard", name)
		}
		if got := strings.Join(Report{Type: Plain, Text: s}.Texts(), ""); len(got) < len(s)*9/10 {
			t.Errorf("%s: %d bytes of %d", name, len(got), len(s))
		}
	}
	for name, s := range map[string]string{
		"brackets":        long("["),
		"asterisks":       long("*"),
		"backticks":       "a" + long("`"),
		"table":           "|a|b|\n|-|-|\n" + long("|`x`|[y](https://x.example)|\n")[:60<<10],
		"a wide table":    long("|a")[:100<<10] + "\n" + long("|-")[:100<<10] + "\n|b",
		"list":            long("- **a** `b` [c](https://x.example)\n"),
		"a line across":   strings.Repeat("-", 300),
		"indented text":   strings.Repeat(" ", 300) + "a",
		"headings":        long("# a\n"),
		"open code spans": long("`a ``b "),
	} {
		if name != "brackets" && name != "open code spans" && tooHard(s) {
			t.Errorf("%s: too hard", name)
		}
		if len(Report{Type: Plain, Text: s}.Texts()) == 0 {
			t.Errorf("%s: nothing", name)
		}
	}
}
