package gchat

import "testing"

func TestVisible(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "a b\tc\nd é 漢", "a b\tc\nd é 漢"},
		{"line breaks", "a\r\nb\rc\u2028d\u2029e", "a\nb\nc\nd\ne"},
		{"format characters", "a\u00ADb\u200Bc\u2060d\uFEFFe\u180Ef\u206Fg\U0001D173h", "abcdefgh"},
		{"bidi", "a\u202Eb\u2066c\u200Fd\u061Ce", "abcde"},
		{"annotations", "a\uFFF9b\uFFFAc\uFFFBd", "abcd"},
		{"tags", "a\U000E0041\U000E007Fb\U000E0001", "ab"},
		{"variation selectors of words", "a\U000E0100\U000E01EFb\uFE00\uFE0Dc", "abc"},
		{"Mongolian selectors", "a\u180B\u180C\u180D\u180Fb", "ab"},
		{"fillers", "a\u034F\u115F\u1160\u17B4\u17B5\u3164\uFFA0b", "ab"},
		{"ignorable but unassigned", "a\u2065\uFFF0\U000E0FFFb", "ab"},
		{"noncharacters", "a\uFDD0\uFDD2\uFFFE\U0010FFFFb", "ab"},
		{"empty Braille", "a\u2800b", "a b"},
		{"Arabic number signs stay", "\u0600\u06DD", "\u0600\u06DD"},
		{"emoji", "👩‍💻 ❤️‍🔥 1️⃣ #️⃣ ✔︎ 👍🏽", "👩‍💻 ❤️‍🔥 1️⃣ #️⃣ ✔︎ 👍🏽"},
		{"Persian and Hindi", "می‌خواهم क्‍ष", "می‌خواهم क्‍ष"},
		{"joiner in ASCII", "a\u200Db\u200Cc", "abc"},
		{"joiner by a space", "é\u200D é \u200Cé", "é é é"},
		{"joiner at an end", "\u200Dé\u200C", "é"},
		{"joiners in a row", "é\u200D\u200C\u200Dé", "é\u200Dé"},
		{"joiner behind something hidden", "é\u200B\u200Dé", "é\u200Dé"},
		{"selectors in a row", "❤\uFE0F\uFE0E\uFE0F", "❤\uFE0F"},
		{"selectors behind letters", "a\uFE0Fb\uFE0E c \uFE0F", "ab c "},
		{"selector between joiners", "é\u200D\uFE0Fé", "é\uFE0Fé"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := visible(tt.in); got != tt.want {
				t.Errorf("visible(%q) = %q, want %q", tt.in, got, tt.want)
			}
			if again := visible(tt.want); again != tt.want {
				t.Errorf("visible(%q) = %q the second time", tt.want, again)
			}
		})
	}
}

func TestVisibleDropsATerminalsControls(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[31mred\x1b[0m":                                "red",
		"\x1b[1;38;5;9mx\x1b[K":                             "x",
		"\x1b]8;;https://evil.example\x1b\\label\x1b]8;;\a": "label",
		"<\x1b[0musers/all>":                                "<users/all>", // what makes it harmless comes after
		"\x1b[":                                             "[",
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
}
