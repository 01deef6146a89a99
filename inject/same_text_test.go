package inject

import (
	"testing"

	"gchat-hooks/e2e/kit"
)

func TestSameText_Table(t *testing.T) {
	tests := []struct {
		name, shown, meant string
		same, begins, ends bool
	}{
		{"equal", "Red", "Red", true, true, true},
		{"wrapped at a space", "a long label that wraps", "a long label that  wraps", true, true,
			true},
		{"wrapped inside a word", "Donaudampf schiff", "Donaudampfschiff", true, true, true},
		{"wrapped between ideographs", "全文検 索", "全文検索", true, true, true},
		{"paragraphs", "Which **one**? 1. first", "Which **one**?\n\n1. first\n", true, true, true},
		{"a no-break space", "a\u00a0b", "a b", true, true, true},
		{"without its emoji selector", "逐步 ⚠ 注意", "逐步 ⚠️ 注意", true, true, true},
		{"without a skin tone", "👍 ja", "👍🏽 ja", true, true, true},
		{"without what is joined to a skin tone", "👩 and 🧑", "👩🏽\u200d💻 and 🧑🏿\u200d🤝\u200d🧑🏻",
			true, true, true},
		{"with its accent in one", "é ä", "e\u0301 a\u0308", true, true, true},
		{"without the last that is joined", "👨\u200d👩\u200d👧\u200d x", "👨\u200d👩\u200d👧\u200d👦 x",
			true, true, true},
		{"joined emoji", "👩\u200d💻", "👩💻", false, true, false},
		{"letter case", "red", "Red", false, false, false},
		{"another", "Red", "Blue", false, false, false},
		{"a beginning", "Build it", "Build it concurrently", false, true, false},
		{"a beginning that says so", "Build it con…", "Build it concurrently", false, true, false},
		{"an ellipsis of its own", "wait…", "wait…", true, true, true},
		{"an end", "concurrently", "Build it concurrently", false, false, true},
		{"more than was meant", "Redder", "Red", false, false, false},
		{"nothing", "", "Red", false, false, false},
		{"only an ellipsis", "…", "Red", false, false, false},
		{"nothing and nothing", "", "", true, false, false},
		{"other marks", "a - b", "a – b", false, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kit.Equalf(t, SameText(tt.shown, tt.meant), tt.same, "Same")
			kit.Equalf(t, IsStartOf(tt.shown, tt.meant), tt.begins, "Begins")
			kit.Equalf(t, IsEndOf(tt.shown, tt.meant), tt.ends, "Ends")
		})
	}
}

func TestSameText_RuneWidth(t *testing.T) {
	for r, want := range map[rune]int{'a': 1, 'é': 1, '\u0301': 0, '全': 2, '가': 2, '！': 2, '🚀': 2,
		'✅': 2, '⚠': 1, '\ufe0f': 0, '\u200d': 0, '─': 1, '❯': 1, '☐': 1, '☒': 1, '✔': 1, '✂': 1,
		'→': 1, '│': 1, '…': 1, '👩': 2} {
		got := runeWidth(r)
		kit.True(t, got == want, "%q takes %d columns, want %d", r, got, want)
	}
}
