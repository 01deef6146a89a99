package state

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"

	"gchat-hooks/e2e/kit"
)

// places are all places that a text can be for.
var places = []TextPlace{ForChat, ForAgent, ForTyping, ForTerminal, ForJSON, ForReview, ForPlan}

func TestClean_Table(t *testing.T) {
	same := func(places ...TextPlace) []TextPlace { return places }
	words := same(ForChat, ForAgent, ForTyping)
	review := same(ForReview, ForPlan)
	for _, tt := range []struct {
		name     string
		places   []TextPlace
		in, want string
	}{
		{"plain", places, "rm -rf ~; $(x) `y` \"q\" 'q' {} <a> \\ -t C-c Enter\n  é 漢 €",
			"rm -rf ~; $(x) `y` \"q\" 'q' {} <a> \\ -t C-c Enter\n  é 漢 €"},
		{"signs of two", same(ForChat, ForPlan), "‼\ufe0f", "‼\ufe0f"},
		{"signs of two", same(ForReview), "‼\ufe0f", "‹U+203C›‹U+FE0F›"},
		{"emoji", places,
			"👩\u200d💻 👩\u200d👩\u200d👧\u200d👦 👩🏽\u200d💻 ❤️\u200d🔥 🏳️\u200d🌈 1️⃣ #️⃣ ✔︎ 👍🏽 ™️ 🙂\u200d↔️", "👩\u200d💻 👩\u200d👩\u200d👧\u200d👦 👩🏽\u200d💻 ❤️\u200d🔥 🏳️\u200d🌈 1️⃣ #️⃣ ✔︎ 👍🏽 ™️ 🙂\u200d↔️"},
		{"Hindi", places, "क्\u200dष", "क्\u200dष"},
		{"accents", places, "e\u0301 ñ Ünïcode", "e\u0301 ñ Ünïcode"},
		{"other blanks", same(ForChat, ForAgent, ForTyping, ForTerminal, ForJSON, ForPlan),
			"a\u00a0b\u3000c", "a\u00a0b\u3000c"},
		{"other blanks", same(ForReview), "./run\u00a0tests\u2003x", "./run‹U+00A0›tests‹U+2003›x"},
		{"signs that look like others", same(ForReview), "a\u2215b \u2011n \u037e >\u0338 \u0301x",
			"a‹U+2215›b ‹U+2011›n ‹U+037E› >‹U+0338› ‹U+0301›x"},
		{"signs that look like others",
			same(ForChat, ForAgent, ForTyping, ForTerminal, ForJSON, ForPlan), "a\u2215b >\u0338",
			"a\u2215b >\u0338"},
		{"the sign for what is not UTF-8", places, "a\ufffdb", "a\ufffdb"},

		{"line breaks", words, "a\r\nb\r\r\nc\rd\u2028e\u2029f", "a\nb\n\nc\nd\ne\nf"},
		{"line breaks", same(ForTerminal), "a\r\nb\rc\u2028d", "a\uFFFD\nb\uFFFDc\uFFFDd"},
		{"line breaks", same(ForJSON), "a\r\nb\u2028c", `a\u000d` + "\n" + `b\u2028c`},
		{"line breaks", review, "a\r\nb\rc\u2028d", "a‹U+000D›\nb‹U+000D›c‹U+2028›d"},
		{"tab", same(ForChat, ForAgent, ForTerminal, ForJSON, ForReview, ForPlan), "a\tb", "a\tb"},
		{"tab", same(ForTyping), "a\tb", "a b"},
		{"controls", words, "a\x00\x01\x03\x07\x08\x0b\x0c\x7f\u0080\u0085\u009cb", "ab"},
		{"controls", same(ForTerminal), "a\x00\x07\x0b\x0c\x7f\u0085b",
			"a\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDb"},
		{"controls", same(ForJSON), "a\x1b\x7f\u0085b", `a\u001b\u007f\u0085b`},
		{"controls", review, "a\x00\x7f\u0085b", "a‹U+0000›‹U+007F›‹U+0085›b"},

		{"colour", words, "a\x1b[1;31mred\x1b[0m\x1b[Kb", "aredb"},
		{"colour", same(ForTerminal), "\x1b[1;31mred", "\uFFFD[1;31mred"},
		{"colour", review, "\x1b[1;31mred", "‹U+001B›[1;31mred"},
		{"colour by colons", words, "a\x1b[38:2::255:0:0mb", "ab"},
		{"end of a bracketed paste", words, "a\x1b[201~\rrm", "a\nrm"},
		{"title", words, "a\x1b]0;evil\x07b", "ab"},
		{"title", same(ForTerminal), "\x1b]0;title\x07", "\uFFFD]0;title\uFFFD"},
		{"link", words, "a\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\b", "atextb"},
		{"title without an end", words, "a\x1b]0;evil b\nc", "a0;evil b\nc"},
		{"title cut short by a colour", words, "a\x1b]0;evil\x1b[31mb", "a0;evilb"},
		{"device string", words, "a\x1bPq#0\x1b\\b", "ab"},
		{"charset", words, "a\x1b(0b", "ab"},
		{"arrow", words, "a\x1bOAb", "ab"},
		{"reset", words, "a\x1bcb", "ab"},
		{"escape at the end", words, "a\x1b", "a"},
		{"sequence at the end", words, "a\x1b[1;", "a"},
		{"CSI in one character", words, "a\u009b31mb", "ab"},
		{"OSC in one character", words, "a\u009d0;evil\u009cb", "ab"},
		{"escape before CJK", words, "a\x1b日本", "a日本"},
		{"two escapes", words, "a\x1b\x1b[31mb", "ab"},
		// gchat makes it harmless after
		{"bracket behind a sequence", words, "<\x1b[0musers/all>", "<users/all>"},

		{"not UTF-8", same(ForTyping), "a\xff\x9b31m\xc3b", "a31mb"},
		{"not UTF-8", same(ForChat, ForAgent, ForTerminal, ForJSON), "a\xff\xed\xa0\x80b",
			"a\uFFFD\uFFFD\uFFFD\uFFFDb"},
		{"not UTF-8", review, "a\xff\u00ff\xc3b", "a‹0xFF›ÿ‹0xC3›b"},

		{"bidi", words, "a\u202eevil\u202c\u2066x\u2069\u200f\u061cb", "aevilxb"},
		{"bidi", same(ForTerminal), "\u202etxt.exe\u2066", "\uFFFDtxt.exe\uFFFD"},
		{"bidi", same(ForJSON), "\u202ea\U000E0041", `\u202ea\udb40\udc41`},
		{"bidi", review, "a\u202eb", "a‹U+202E›b"},
		{"format characters", words, "a\u00ADb\u200Bc\u2060d\uFEFFe\u180Ef\u206Fg\U0001D173h",
			"abcdefgh"},
		{"annotations", words, "a\uFFF9b\uFFFAc\uFFFBd", "abcd"},
		{"tags", words, "a\U000E0041\U000E007Fb\U000E0001 🏴\U000e0067\U000e007f!", "ab 🏴!"},
		{"tags", review, "a\U000E0041", "a‹U+E0041›"},
		{"variation selectors of words", words,
			"a\U000E0100\U000E01EFb\uFE00\uFE0Dc 漢\ufe00\U000e0101", "abc 漢"},
		{"Mongolian selectors", words, "a\u180B\u180C\u180D\u180Fb", "ab"},
		{"fillers", words, "a\u034F\u115F\u1160\u17B4\u17B5\u3164\uFFA0b", "ab"},
		{"ignorable but unassigned", words, "a\u2065\uFFF0\U000E0FFFb", "ab"},
		{"noncharacters", words, "a\uFDD0\uFDD2\uFFFE\U0010FFFFb", "ab"},
		{"a note without a head", words, "a\U0001d159b", "ab"},
		{"a note without a head", review, "a\U0001d159\u3164\ufdd0", "a‹U+1D159›‹U+3164›‹U+FDD0›"},
		{"empty Braille", words, "a\u2800b", "a b"},
		{"empty Braille", review, "a\u2800b", "a‹U+2800›b"},
		{"private and unassigned", words, "a\ue0b0\U000a0000\u0378b", "a\ue0b0\U000a0000\u0378b"},
		{"private and unassigned", same(ForTerminal), "a\ue0b0\u0378b", "a\uFFFD\uFFFDb"},
		{"private and unassigned", review, "a\ue0b0\u0378b", "a‹U+E0B0›‹U+0378›b"},

		{"joiner in ASCII", words, "a\u200Db\u200Cc", "abc"},
		{"joiner in ASCII", review, "r\u200Dm", "r‹U+200D›m"},
		{"joiner in letters that it does not join", words,
			"é\u200Dé т\u200cт 漢\u200d字 か\u200dな 한\u200c국", "éé тт 漢字 かな 한국"},
		{"joiner in letters that it does not join", review, "т\u200cт", "т‹U+200C›т"},
		{"joiner by a space", words, "क\u200D क \u200Cक", "क क क"},
		{"joiner at an end", words, "\u200Dक\u200C", "क"},
		{"joiner at an end", review, "\u200Dक\u200C\n\u200d\nx", "‹U+200D›क‹U+200C›\n‹U+200D›\nx"},
		{"joiners in a row", words, "👩\u200D\u200C\u200D💻", "👩\u200D💻"},
		{"joiners in a row", review, "👩\u200D\u200D💻", "👩‹U+200D›‹U+200D›💻"},
		{"joiner behind something hidden", words, "क\u200B\u200Dक", "क\u200Dक"},
		{"joiner by what is written out", review, "क\u200D\u202eक\u202e\u200dक",
			"क‹U+200D›‹U+202E›क‹U+202E›‹U+200D›क"},
		{"selectors in a row", words, "❤\uFE0F\uFE0E\uFE0F", "❤\uFE0F"},
		{"selectors behind letters", words, "a\uFE0Fb\uFE0E é\ufe0f 1\ufe0f \uFE0F", "ab é 1 "},
		{"selectors behind letters", review, "rm 1\uFE0F", "rm 1‹U+FE0F›"},
		{"selector behind a joiner", words, "👩\u200D\uFE0F💻", "👩\uFE0F💻"},

		{"right to left", same(ForChat, ForAgent, ForTyping, ForTerminal, ForJSON, ForPlan),
			"rm שלום مرحبا ܐܒ ދިވެހި ߒߞߏ ١٢ \u0600\u06DD",
			"rm שלום مرحبا ܐܒ ދިވެހި ߒߞߏ ١٢ \u0600\u06DD"},
		{"Persian", same(ForChat, ForAgent, ForTyping, ForTerminal, ForJSON, ForPlan),
			"می\u200cخواهم", "می\u200cخواهم"},
		{"right to left", same(ForReview), "rm א/ب ܐ ޏ ߒ 𞤀 ١ \u0600",
			"rm ‹U+05D0›/‹U+0628› ‹U+0710› ‹U+078F› ‹U+07D2› ‹U+1E900› ‹U+0661› ‹U+0600›"},
		{"joined from right to left", same(ForReview), "ی\u200cخ", "‹U+06CC›‹U+200C›‹U+062E›"},
	} {
		for _, place := range tt.places {
			kit.Equalf(t, Clean(place, tt.in), tt.want, "%s, place %d: %q", tt.name, place, tt.in)
			again := Clean(place, tt.want)
			kit.True(t, again == tt.want,
				"%s, place %d: %q became %q the second time", tt.name, place, tt.want, again)
		}
	}
}

// Where a person decides, a character is written out if another place drops it, or if a
// screen would reorder the text around it.
func TestClean_ShowsWhatMayRun(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		text := "a" + string(r) + "b"
		if Clean(ForReview, text) != text {
			continue
		}
		p, _ := bidi.LookupRune(r)
		if c := p.Class(); c == bidi.R || c == bidi.AL || c == bidi.AN {
			t.Errorf("%U reorders what stands around it, and is not written out", r)
		}
		for _, place := range []TextPlace{ForChat, ForAgent, ForTerminal, ForPlan} {
			if got := Clean(place, text); got != text {
				t.Errorf("%U is not written out, and place %d makes %q of it", r, place, got)
			}
		}
	}
}

func TestClean_KeepsTheMeaningOfJSON(t *testing.T) {
	const text = "a\u202eb\u009bc\U000E0041d\u2028 👩\u200d💻 \u200d\ue000\x7f"
	printable := Clean(ForJSON, string(kit.JSON(t, text)))
	var back string
	err := json.Unmarshal([]byte(printable), &back)
	kit.True(t, err == nil && back == text && printable == Clean(ForTerminal, printable),
		"%v: %s, read as %q", err, printable, back)
}

func TestClean_OneLine(t *testing.T) {
	kit.Equal(t, OneLine(" a\n\tb\u00a0 \x1b[2Jc "), "a b \uFFFD[2Jc")
}

var writtenOut = regexp.MustCompile(`‹(?:U\+|0x)([0-9A-F]{2,6})›`)

func FuzzClean(f *testing.F) {
	for _, s := range []string{
		"a\x1b[1;31mred\x1b[0m", "\x1b]8;;x\x1b\\", "a\r\nb\rc\td", "👩\u200d👩\u200d👧 🏴󠁧󠁢󠁳󠁣󠁴󠁿 1️⃣",
		"\xff\u009b\u009c\u202e", "\x1b", "\U000e0001\ufe0f\u200d", "rm שלום/مرحبا\u200c",
		"\x1b\x1b[[0m31m", "a\u2800\ufe0f", "क\u200d\u0915\u200d\ufe0f",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, place := range places {
			got := Clean(place, text)
			kit.True(t, utf8.ValidString(got), "place %d: not UTF-8: %q", place, got)
			again := Clean(place, got)
			kit.True(t, again == got,
				"place %d: %q became %q, and %q the second time", place, text, got, again)
			commands := func(r rune) bool {
				return r != '\n' && (r != '\t' || place == ForTyping) && unicode.IsControl(r) ||
					unicode.Is(unicode.Bidi_Control, r)
			}
			kit.True(t, !strings.ContainsFunc(got, commands), "place %d: left in: %q", place, got)
		}
		got := Clean(ForTyping, text)
		kit.True(t, len(got) <= len(text), "grew: %q, was %q", got, text)
		if strings.Contains(text, "‹") {
			return
		}
		read := func(place TextPlace) string {
			return writtenOut.ReplaceAllStringFunc(Clean(place, text), func(s string) string {
				n, _ := strconv.ParseUint(writtenOut.FindStringSubmatch(s)[1], 16, 32)
				if strings.HasPrefix(s, "‹0x") {
					return string([]byte{byte(n)})
				}
				return string(rune(n))
			})
		}
		kit.True(t, read(ForReview) == text && read(ForPlan) == text,
			"something of %q is lost: %q", text, Clean(ForReview, text))
	})
}

func BenchmarkClean(b *testing.B) {
	for name, text := range map[string]string{
		"ASCII": strings.Repeat("go test ./... && git status\n", 40),
		"mixed": strings.Repeat("„größer“ 漢字 👩\u200d💻 שלום \x1b[0m\n", 40),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Clean(ForChat, text)
			}
		})
	}
}
