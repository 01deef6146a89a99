package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"gchat-hooks/e2e/kit"
)

func TestWrap_AtTheLastColumn(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"short", "a b\n", "a b\n"},
		{"no end of line", "aaaa bbbb cccc dddd eeee", "aaaa bbbb cccc dddd\neeee"},
		{"what fits stays", "aaaa bbbb cccc dddd\n", "aaaa bbbb cccc dddd\n"},
		{
			"below the last column", "  --x  aaaa bbbb cccc\nnext\n",
			"  --x  aaaa bbbb\n       cccc\nnext\n",
		},
		{"an indented line", "   aaaa bbbb cccc dddd\n", "   aaaa bbbb cccc\n   dddd\n"},
		{"a column too far right", "aaaa bbbb cccc  ddddd eeee\n", "aaaa bbbb cccc \nddddd eeee\n"},
		{
			"a word that is too long", "https://example.com/0123456789 aaaa\n",
			"https://example.com/0123456789\naaaa\n",
		},
		{
			"letters of two bytes", strings.Repeat("ü", 12) + " " + strings.Repeat("ö", 12),
			strings.Repeat("ü", 12) + "\n" + strings.Repeat("ö", 12),
		},
	} {
		kit.Equalf(t, wrapText(tt.text, 20), tt.want, "%s", tt.name)
		kit.Equalf(t, wrapText(tt.text, 0), tt.text, "%s, for a program", tt.name)
	}
}

func FuzzWrap_LosesNothing(f *testing.F) {
	f.Add("   --x  words that are long\n", 20)
	f.Fuzz(func(t *testing.T, text string, columns int) {
		if !utf8.ValidString(text) {
			return
		}
		kit.Equalf(t, strings.Fields(wrapText(text, columns)), strings.Fields(text), "the words of %q", text)
	})
}
