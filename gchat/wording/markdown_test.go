package wording

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func renderCleaned(text string) string { return renderMarkdown(state.Clean(state.ForChat, text)) }

func TestMarkdown_Table(t *testing.T) {
	checkTexts(t, renderCleaned, []textCase{
		{"empty", " \n\n", ""},
		{"ordinary text", "Epic 3 completed. 12/12 subtasks validated.",
			"Epic 3 completed. 12/12 subtasks validated."},
		{"names and sums", "file_name_here.go and 2 * 3 * 4", "file_name_here.go and 2 * 3 * 4"},
		{"sums without spaces", "2*3*4, a*b and c*d, 2**10 and 3**2, 5~10 and 6~7",
			"2*3*4, a*b and c*d, 2**10 and 3**2, 5~10 and 6~7"},
		{"comparisons", "a < b, a <= b, a <- b, x > y", "a < b, a <= b, a <- b, x > y"},
		{"paths", `~/.config, C:\dir\file, a & b`, `~/.config, C:\dir\file, a & b`},
		{"lines", "line one\nline two", "line one\nline two"},
		{"paragraphs", "one\n\n\n\ntwo", "one\n\ntwo"},
		{"indented lines", "Found:\n  foo: 1\n    bar: 2", "Found:\n  foo: 1\n    bar: 2"},
		{"bold", "**a** and __b__", "*a* and *b*"},
		{"italic", "*a* and _b_", "_a_ and _b_"},
		{"struck", "~~a~~ and ~b~", "~a~ and ~b~"},
		{"bold and italic", "***x*** **_y_**", "_*x*_ *_y_*"},
		{"nested", "**a *b* c** _d **e**_", "*a _b_ c* _d *e*_"},
		{"all three", "~~**_x_**~~", "~*_x_*~"},
		{"both, and what follows", "***x*** y ***z*** `c`", "_*x*_ y _*z*_ `c`"},
		{"bold in a word", "un**believ**able", "un**believ**able"},
		{"bold beside a word", "**Note**: *all* (**b**)", "*Note*: _all_ (*b*)"},
		{"bold in Chinese", "这是**重点**内容", "这是*重点*内容"},
		{"open emphasis", "**a *b", "**a *b"},
		{"blank emphasis", "** ** __ __ ****", "** ** __ __ ****"},
		{"crossing emphasis", "*a **b* c** d", "_a **b_ c** d"},
		{"escapes", "\\*a\\* \\_b\\_ \\~ \\` \\[x\\] \\d", "*a* _b_ ~ ` [x] \\d"},
		{"entities are text", "&copy; &lt;users/all&gt; a&#10;[Done] x",
			"&copy; &lt;users/all&gt; a&#10;[Done] x"},
		{"code", "`a*b*` ``a`b`` **use `x` now**", "`a*b*` `a'b` *use `x` now*"},
		{"backticks", "a ` b `` c ``` d ```` e", "a ` b `` c ''' d '''` e"},
		{"backticks beside code", "\\`\\``x`y", "'''x`y"},
		{"fence", "```go\nx := `1`\n\n\ty()\n```\nafter", "```\nx := `1`\n\n\ty()\n```\nafter"},
		{"fence in a longer one", "````\n```\na\n````", "```\n'''\na\n```"},
		{"open fence", "```\na\n``` b", "```\na\n''' b\n```"},
		{"fence without code", "a\n\n```\n```\n\nb", "a\n\nb"},
		{"fence in one line", "```ls -l", "```\nls -l\n```"},
		{"words beside a fence", "```sh and more\nls\n```", "```\nsh and more\nls\n```"},
		{"headings", "# One\ntext\n\n## **Two** `c` ##\n### *i*",
			"*One*\ntext\n\n*Two* `c`\n*_i_*"},
		{"bullets", "- a\n- b\n  more\n    - c\n+ d\n\n+ e",
			"* a\n* b\n    more\n    * c\n* d\n\n* e"},
		{"bullets below text", "Steps:\n- a\n- b\n\nend", "Steps:\n* a\n* b\n\nend"},
		{"numbers", "3. a\n1. b\n   - c\n\n7) d", "3. a\n1. b\n    * c\n\n7) d"},
		{"deep", "- a\n  - b\n    - c", "* a\n    * b\n        * c"},
		{"paragraphs in items", "- a\n\n  b\n- c", "* a\n\n    b\n* c"},
		{"code in items", "- a\n  ```\n  x\n  ```\n- b", "* a\n```\nx\n```\n* b"},
		{"tasks", "- [ ] a\n- [x] **b**\n- [X]\n- [y] c", "* [ ] a\n* [x] *b*\n* [X]\n* [y] c"},
		{"quote", "> a\n> **b**\n>\n> - c\nlazy\n\nd", "> a\n> *b*\n>\n> * c\nlazy\n\nd"},
		{"quote in quote", "> > a", "> > a"},
		{"line across", "a\n\n---\n\nb", "a\n\n────────────\n\nb"},
		{"long line across", strings.Repeat("-", 90), "────────────"},
		{"HTML", "<div class=\"x\">\n**a** <b>b</b><br>\n</div>\n<!-- c -->",
			"‹div class=\"x\">\n*a* ‹b>b‹/b>‹br>\n‹/div>\n‹!-- c -->"},
		{"definitions are text", "[a]: https://x.example\n[b][a]",
			"[a]: https://x.example\n[b][a]"},
		{"URLs in text", "https://x.example/__init__.py?a=*b*c and **https://x.example/y_**",
			"https://x.example/__init__.py?a=*b*c and *https://x.example/y_*"},
		{"URL in brackets", "<https://x.example/a_b_> <a@x.example>",
			"‹https://x.example/a_b_> ‹a@x.example>"},
		{"table", "| Name | N |\n|:--|--:|\n| **a** | 1 |\n| `b\\|c` | 10 |",
			"```\nName  N\n---   ---\na     1\nb¦c   10\n```"},
		{"table below text", "See:\n| a |\n|---|\n| b |\n\nend",
			"See:\n```\na\n---\nb\n```\n\nend"},
		{"short and long rows", "|a|b|\n|-|-|\n|1|\n|1|2|3|", "```\na  b\n-  -\n1\n1  2  3\n```"},
		{"table with links", "|PR|\n|-|\n|[#1](https://x.example/1)|",
			"```\nPR\n-\n[#1](https://x.example/1)\n```"},
		{"line across below a table", "|a|\n|-|\n|b|\n---", "```\na\n-\nb\n```\n────────────"},
		{"quote in an item", "- > a\n4. > 4096", "* > a\n4. > 4096"},
		{"brackets in a label", "[f(a[, b])](#f) [`d`][] [`e`](g)",
			"f(a[, b]) (#f) [`d`][] `e` (g)"},
		{"no table", "a | b\nc | d", "a | b\nc | d"},
		{"fence in a table", "|a|\n|-|\n|x ``` y|", "```\na\n-\nx ''' y\n```"},
		{"stars of file names", "# Run rm **/x\n|a|\n|-|\n|`rm **/y`|\n|rm **/z **|\n|`a` and `b`|",
			"Run rm **/x\n```\na\n-\nrm **/y\nrm **/z **\n`a` and `b`\n```"},
	})
}

// A link shows its target, so that its label cannot claim another one.
func TestMarkdown_Links(t *testing.T) {
	checkTexts(t, renderCleaned, []textCase{
		{"link", "[the docs](https://x.example/a)", "the docs (https://x.example/a)"},
		{"styled", "**[a *b* `c`](https://x.example)**", "*a _b_ `c` (https://x.example)*"},
		{"its own label", "[https://x.example/a](https://x.example/a)", "https://x.example/a"},
		{"no label", "[](https://x.example)", "https://x.example"},
		{"no target", "[a]()", "a"},
		{"relative", "[a](./a.md) [b](#c)", "a (./a.md) b (#c)"},
		{"image", "![a](https://x.example/a.png) ![](b.png)", "a (https://x.example/a.png) b.png"},
		{"Chat's own link", "<https://evil.example|label> [a](https://x.example/|b>)",
			"‹https://evil.example|label> a (https://x.example/|b>)"},
		{"another host as label", "[https://bank.example](https://evil.example)",
			"https://bank.example (https://evil.example)"},
	})
}

// A very long or very deeply nested text is shown completely.
func TestMarkdown_IsBounded(t *testing.T) {
	checkTexts(t, renderMarkdown, []textCase{
		{"long", strings.Repeat("**a**\n", 100000), strings.Repeat("*a*\n", 99999) + "*a*"},
		{"quotes", strings.Repeat("> ", 100000) + "**a**", strings.Repeat("> ", 100000) + "*a*"},
		{"items", strings.Repeat("- ", 1000) + "**a**", "* " + strings.Repeat("- ", 999) + "*a*"},
		{"wide cells", "|" + strings.Repeat("x", 1000) + "|b|\n|-|-|\n|a|b|",
			fence + "\n" + strings.Repeat("x", 1000) + "  b\n-" + strings.Repeat(" ", 201) +
				"-\na" + strings.Repeat(" ", 201) + "b\n" + fence},
		{"open marks", "**b** " + strings.Repeat("*a __c ", 50000) + "**b**",
			"*b* " + strings.Repeat("*a __c ", 50000) + "*b*"},
		{"open brackets", strings.Repeat("[", 100000) + "a](b)",
			strings.Repeat("[", 99999) + "a (b)"},
		{"open links", strings.Repeat("[a](b", 20000) + " c",
			strings.Repeat("[a](b", 20000) + " c"},
		{"open backticks", strings.Repeat("\\``x ", 50000) + "**a**",
			strings.Repeat("``x ", 50000) + "*a*"},
	})
}

// openingPattern matches the beginning of a code block. The block's language is not
// shown.
var openingPattern = regexp.MustCompile("(?m)^[ \t]*`{3,}[ \t]*[A-Za-z0-9+#-]{0,12}[ \t]*$")

// letters returns the letters and digits of a text.
func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.L, unicode.N) {
			return r
		}
		return -1
	}, text)
}

func isWithin(part, whole string) bool {
	rest := []rune(part)
	for _, r := range whole {
		if len(rest) > 0 && rest[0] == r {
			rest = rest[1:]
		}
	}
	return len(rest) == 0
}

// ownLabel reports whether a link's label is its target. Then it is shown once.
func ownLabel(text string) bool {
	return slices.ContainsFunc(tokenPattern().FindAllStringSubmatch(text, -1),
		func(m []string) bool { return m[1] != "" && m[1] == m[2] })
}

// FuzzMarkdown checks that code blocks are closed, that no word is lost, and that text
// without markup is unchanged.
func FuzzMarkdown(f *testing.F) {
	for _, text := range []string{
		"hello", "a\n\nb  \nc", " \n\na\n", "a #1 > b\nc 2. d - e", "\u00a0a\n\tb", "a:\nb\u3000",
		"http://x.example/?a=b", "a\n \nb",
		"# a\n- b\n  1. c\n     > d\n\n```e\nf\n```\ng\n===\n|h|\n|-|\n|i|\n***",
		"***a** b* __c__ `d` ``e`f`` [g *h*](i \"j\") ![k](<l>) <m:n> &lt;\\*~~o~~",
		"[a `b](c) d`](e)\\", "```\n\n    f\n\ng\n~~~ h\n", "-\n\n\t- `` ` ``\n*a\n_b*_",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, source string) {
		source = state.Clean(state.ForChat, source)
		got := parseMarkdown(source)
		kit.True(t, utf8.ValidString(got), "%q: no UTF-8: %q", source, got)
		shown := letters(got)
		kit.True(t, ownLabel(source) ||
			isWithin(letters(openingPattern.ReplaceAllString(source, "")), shown),
			"%q: words are hidden: %q", source, got)
		fences := 0
		for l := range strings.SplitSeq(got, "\n") {
			fences += strings.Count(l, fence)
			kit.True(t, !strings.Contains(l, fence) || l == fence,
				"%q: a fence in a line: %q", source, got)
		}
		kit.Equalf(t, fences%2, 0, "%q: an open block: %q", source, got)
		want := renderMarkdown(source)
		kit.True(t, markupPattern().MatchString(source) || strings.TrimSpace(source) == "" ||
			got == want,
			"%q: got %q, want %q", source, got, want)
	})
}
