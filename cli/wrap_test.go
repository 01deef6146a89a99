package cli

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWrap(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"short", "a b\n", "a b\n"},
		{"no end of line", "aaaa bbbb cccc dddd eeee", "aaaa bbbb cccc dddd\neeee"},
		{"what fits stays", "aaaa bbbb cccc dddd\n", "aaaa bbbb cccc dddd\n"},
		{"below the last column", "  --x  aaaa bbbb cccc\nnext\n", "  --x  aaaa bbbb\n       cccc\nnext\n"},
		{"an indented line", "   aaaa bbbb cccc dddd\n", "   aaaa bbbb cccc\n   dddd\n"},
		{"a column too far right", "aaaa bbbb cccc  ddddd eeee\n", "aaaa bbbb cccc \nddddd eeee\n"},
		{"a word that is too long", "https://example.com/0123456789 aaaa\n", "https://example.com/0123456789\naaaa\n"},
		{"letters of two bytes", strings.Repeat("ü", 12) + " " + strings.Repeat("ö", 12), strings.Repeat("ü", 12) + "\n" + strings.Repeat("ö", 12)},
	} {
		if got := wrapText(tt.text, 20); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if got := wrapText(tt.text, 0); got != tt.text {
			t.Errorf("%s, for a program: %q", tt.name, got)
		}
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("   --x  words that are long\n", 20)
	f.Fuzz(func(t *testing.T, text string, columns int) {
		if !utf8.ValidString(text) {
			return
		}
		if got := strings.Fields(wrapText(text, columns)); strings.Join(got, " ") != strings.Join(strings.Fields(text), " ") {
			t.Errorf("%q loses words: %q", text, got)
		}
	})
}
