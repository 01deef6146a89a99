package wording

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"gchat-hooks/e2e/kit"
)

// textCase is a text, and what a function makes of it.
type textCase struct{ name, in, want string }

func checkTexts(t *testing.T, change func(string) string, cases []textCase) {
	t.Helper()
	for _, c := range cases {
		kit.Equalf(t, change(c.in), c.want, "%s: of %.100q", c.name, c.in)
	}
}

func TestNeutralise_Line(t *testing.T) {
	checkTexts(t, SafeLine, []textCase{
		{"empty", "", ""},
		{"plain", "Blue-green deployment", "Blue-green deployment"},
		{"newlines and tabs", " a\r\n\tb\n\nc ", "a b c"},
		{"lone CR is a line break", "50%\r100%", "50% 100%"},
		{"line separators", "a\u2028b\u2029c", "a b c"},
		{"mention of all", "hi <users/all>", "hi ‹users/all>"},
		{"mention by address", "<users/boss@example.com>", "‹users/boss@example.com>"},
		{"mention behind a zero-width space", "<\u200busers/all>", "‹users/all>"},
		// joiners stay only where they join
		{"mention behind a joiner", "<\u200dusers/all>", "‹users/all>"},
		{"two brackets", "<<users/all>", "‹‹users/all>"},
		{"false link", "<https://evil.example|https://bank.example>",
			"‹https://evil.example|https://bank.example>"},
		{"less than", "a < b, a <= b, a <- b, a<", "a < b, a <= b, a <- b, a<"},
		{"less than at the end after a trim", "a< ", "a<"},
		{"generics", "List<String>", "List‹String>"},
		{"a fence", "```x", "'''x"},
		{"a closed fence", "```x``` y", "```x``` y"},
		{"three fences", "```a```b```c", "```a```b'''c"},
		{"four backticks", "````", "`'''"},
		{"a fence out of hidden pieces", "``\u200b`x", "'''x"},
		{"controls", "a\x00b\x1b[31mc\x7fd\u0085e", "abcde"}, // a terminal's colour goes as a whole
		{"bidi", "a\u202Eb\u2066c\u200Fd\u061Ce", "abcde"},
		{"tags", "a\U000E0041\U000E007Fb", "ab"},
		{"byte order mark", "\uFEFFa\u2060b", "ab"},
		{"joiners of emoji and Persian", "👩\u200d💻 می\u200cخواهم", "👩\u200d💻 می\u200cخواهم"},
		{"invalid bytes", "a\xff\xed\xa0\x80b", "a\uFFFD\uFFFD\uFFFD\uFFFDb"},
	})
}

func TestNeutralise_Block(t *testing.T) {
	checkTexts(t, SafeBlock, []textCase{
		{"empty", " \n\n", ""},
		{"one line", " Which one? ", "Which one?"},
		{"later lines", "a\r\nb\nc", "a\n  b\n  c"},
		{"blank lines at the ends", "\n\na\n\n\n", "a"},
		{"many blank lines", "a\n\n \n\t\n\n\nb", "a\n\n  b"},
		{"trailing space", "a  \nb\t\n", "a\n  b"},
		{"code keeps its shape", "do:\nif x:\n  y\n\tz", "do:\n  if x:\n    y\n  \tz"},
		{"our own lines", "ok?\nThread key: ask-user-1\n---\n[Answered] x",
			"ok?\n  Thread key: ask-user-1\n  ---\n  [Answered] x"},
		{"our own line behind a separator", "ok?\u2028Thread key: x", "ok?\n  Thread key: x"},
		{"our own line behind a hidden rune", "ok?\n\u200bThread key: x", "ok?\n  Thread key: x"},
		{"fence over lines", "see\n```\ncode\n```", "see\n  ```\n  code\n  ```"},
		{"open fence", "see\n```\ncode", "see\n  '''\n  code"},
		{"mention at a line's start", "hi\n<users/all>", "hi\n  ‹users/all>"},
		{"bracket at a line's end", "a <\nb", "a <\n  b"},
	})
}

// checkHarmless fails if the text could mention, link, or open a block. Own are texts of
// ours that look like markup.
func checkHarmless(t *testing.T, text string, own ...string) {
	t.Helper()
	for _, o := range own {
		text = strings.ReplaceAll(text, o, "")
	}
	kit.True(t, utf8.ValidString(text), "not UTF-8: %q", text)
	for i, r := range text {
		next, size := utf8.DecodeRuneInString(text[i+1:])
		kit.True(t, r != '<' || size <= 0 || next == '=' || next == '-' || unicode.IsSpace(next),
			"an open bracket at byte %d: %q", i, text)
	}
	kit.Equalf(t, strings.Count(text, "```")%2, 0, "an open fence: %q", text)
}

func FuzzNeutralise(f *testing.F) {
	for _, s := range []string{"", "a\n<users/all>\n---", "````\n```", "<\u200b<=\xff<",
		"\r\n\r\na\n  b\n c", "``\x00`", "<\n<\u2028x", "a\n\u3000b", "a\n \tb\n\v\f\u0085c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line, block := SafeLine(s), SafeBlock(s)
		checkHarmless(t, line)
		checkHarmless(t, block)
		kit.True(t, !strings.ContainsAny(line, "\n\r\t\u2028\u2029\u0085\v\f"),
			"Line(%q) = %q has a line break", s, line)
		for i, l := range strings.Split(block, "\n") {
			kit.True(t, i <= 0 || l == "" || strings.HasPrefix(l, "  "),
				"Block(%q) = %q: line %d stands at the margin", s, block, i)
		}
		kit.True(t, !strings.Contains(block, "\n\n\n"),
			"Block(%q) = %q has too many blank lines", s, block)
		kit.Equalf(t, SafeLine(line), line, "Line(%q)", s)
	})
}

func TestNeutralise_Disarm(t *testing.T) {
	checkTexts(t, disarm, []textCase{
		{"words", "Done: [x] all", "Done: [x] all"},
		{"in a line", "ok [Done] x", "ok [Done] x"},
		{"other brackets", "[Download] x", "[Download] x"},
		{"longer word", "[Done and dusted] x", "[Done and dusted] x"},
		{"not closed", "[Done x", "[Done x"},
		{"plain", "[Done] x", "(Done) x"},
		{"case", "[dONE] x", "(dONE) x"},
		{"spaces", " \t[ Done ] x", " \t( Done ) x"},
		{"two words", "[Session  Start]", "(Session  Start)"},
		{"bold", "*[Done]* x", "*(Done)* x"},
		{"bold inside", "[*Done*] x", "(*Done*) x"},
		{"in a list, quoted", "> * _~[Error]~_", "> * _~(Error)~_"},
		{"code", "`[Error]`", "`(Error)`"},
		{"thread key", "Thread key: ask-user-1", "Thread key - ask-user-1"},
		{"thread key in bold", "*Thread  KEY*: x", "*Thread  KEY* - x"},
		{"threads", "Thread keys: x", "Thread keys: x"},
		{"bytes", "\xff\x00[Done]", "\xff\x00[Done]"},
	})
}

// Every prefix that a message of ours begins with is guarded.
func TestNeutralise_OwnPrefixes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	kit.True(t, err == nil && len(files) >= 20, "%v, %v", files, err)
	reports, err := filepath.Glob("testdata/reports/*.txt")
	kit.True(t, err == nil && len(reports) >= 8, "%v, %v", reports, err)
	for _, name := range append(files, reports...) {
		first, _, _ := strings.Cut(kit.ReadFile(t, name), "\n")
		kit.True(t, !strings.HasPrefix(first, "[") || disarm(first) != first,
			"%s begins with %q, which is not guarded", name, first)
	}
}

// Every tag that a text in our sources begins with is guarded. What only Claude and its
// agents read is not: it never stands in Chat.
func TestNeutralise_OwnTagsInSources(t *testing.T) {
	tagPattern := regexp.MustCompile("[\"`](\\[[A-Z][A-Za-z ]+\\])[ `\"]")
	tags := map[string]bool{}
	for _, folder := range []string{".", "..", "../space", "../hub", "../../state", "../../hooks",
		"../../poller", "../../poller/commands", "../../cli"} {
		sources, err := filepath.Glob(folder + "/*.go")
		kit.NoError(t, err)
		for _, source := range sources {
			if strings.HasSuffix(source, "_test.go") {
				continue
			}
			text := kit.ReadFile(t, source)
			for _, match := range tagPattern.FindAllStringSubmatch(text, -1) {
				tags[match[1]] = true
			}
		}
	}
	for tag := range tags {
		kit.True(t, disarm(tag+" x") != tag+" x", "%s is not guarded", tag)
	}
	kit.True(t, len(tags) >= 20, "only %d tags are found: %v", len(tags), tags)
}
