package inject

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	tests := []struct {
		name, text, want string
		removed          bool
	}{
		{"plain", "rm -rf ~; $(x) `y` \"q\" 'q' {} -t C-c Enter", "rm -rf ~; $(x) `y` \"q\" 'q' {} -t C-c Enter", false},
		{"line breaks", "a\r\nb\rc\nd", "a\nb\nc\nd", false},
		{"separators of lines", "a\u2028b\u2029c", "a\nb\nc", false},
		{"tab", "a\tb", "a b", false},
		{"controls", "a\x00\x01\x03\x07\x08\x0b\x0c\x7fb", "ab", true},
		{"C1", "a\u0080\u0085\u009cb", "ab", true},
		{"colour", "a\x1b[1;31mred\x1b[0mb", "aredb", true},
		{"colour by colons", "a\x1b[38:2::255:0:0mb", "ab", true},
		{"end of a bracketed paste", "a\x1b[201~\rrm", "a\nrm", true},
		{"title", "a\x1b]0;evil\x07b", "ab", true},
		{"link", "a\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\b", "atextb", true},
		{"title without an end", "a\x1b]0;evil b\nc", "a0;evil b\nc", true},
		{"title cut short by a colour", "a\x1b]0;evil\x1b[31mb", "a0;evilb", true},
		{"device string", "a\x1bPq#0\x1b\\b", "ab", true},
		{"charset", "a\x1b(0b", "ab", true},
		{"arrow", "a\x1bOAb", "ab", true},
		{"reset", "a\x1bcb", "ab", true},
		{"escape at the end", "a\x1b", "a", true},
		{"sequence at the end", "a\x1b[1;", "a", true},
		{"CSI in one character", "a\u009b31mb", "ab", true},
		{"OSC in one character", "a\u009d0;evil\u009cb", "ab", true},
		{"escape before CJK", "a\x1b日本", "a日本", true},
		{"two escapes", "a\x1b\x1b[31mb", "ab", true},
		{"not UTF-8", "a\xff\x9b31m\xc3b", "a31mb", true},
		{"the sign for that is a sign", "a\ufffdb", "a\ufffdb", false},
		{"bidi", "a\u202eevil\u202c\u2066x\u2069\u200f\u061cb", "aevilxb", true},
		{"invisible", "a\u200b\ufeff\u2060\u00adb", "ab", true},
		{"CJK and accents", "日本語 e\u0301 ñ Ünïcode العربية עברית", "日本語 e\u0301 ñ Ünïcode العربية עברית", false},
		{"family", "👩‍👩‍👧‍👦 👩🏽‍💻 ❤️ 🏳️‍🌈 1️⃣", "👩‍👩‍👧‍👦 👩🏽‍💻 ❤️ 🏳️‍🌈 1️⃣", false},
		{"Persian and Hindi", "می‌خواهم क्‍ष", "می‌خواهم क्‍ष", false},
		{"Scotland becomes a black flag", "🏴󠁧󠁢󠁳󠁣󠁴󠁿!", "🏴!", true},
		{"joiners that join nothing", "a\u200db \u200d👩\u200d c\u200c", "ab 👩 c", true},
		{"a row of joiners", "👩\u200d\u200d\u200d💻", "👩\u200d💻", true},
		{"text in tags", "hi\U000e0072\U000e006d\U000e007f", "hi", true},
		{"text in tags on a flag", "🏴\U000e0072\U000e006d \U000e0072", "🏴 ", true},
		{"text in selectors", "a\U000e0101\U000e0102b\ufe01\ufe02", "ab\ufe01", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, removed := Clean(tt.text)
			if got != tt.want || removed != tt.removed {
				t.Errorf("Clean(%q) = %q, %v; want %q, %v", tt.text, got, removed, tt.want, tt.removed)
			}
		})
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"a\x1b[1;31mred\x1b[0m", "\x1b]8;;x\x1b\\", "a\r\nb\rc\td", "👩‍👩‍👧 🏴󠁧󠁢󠁳󠁣󠁴󠁿", "\xff\u009b\u009c\u202e", "\x1b", "\U000e0001\ufe0f\u200d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, removed := Clean(text)
		if !utf8.ValidString(got) {
			t.Errorf("not UTF-8: %q", got)
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }); i >= 0 {
			t.Errorf("left in: %q", got[i:])
		}
		if again, more := Clean(got); again != got || more {
			t.Errorf("cleaned again: %q, %v; was %q", again, more, got)
		}
		if whole := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", " ", "\u2028", "\n", "\u2029", "\n").Replace(text); !removed && got != whole {
			t.Errorf("changed in silence: %q, was %q", got, text)
		}
		if removed && len(got) > len(text) {
			t.Errorf("grew: %q, was %q", got, text)
		}
	})
}
