package inject

import "unicode"

// Width is how many columns of a terminal a line takes.
func Width(s string) (n int) {
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// runeWidth is how many columns a character takes: the ranges of Unicode's East Asian Width W and F, with the emoji.
// tmux 3.3a and Claude Code agree on those that labels are made of; where they do not, a dialog with previews is not
// read (its box is no longer straight).
func runeWidth(r rune) int {
	switch {
	case r == 0x200b, r == 0x200d, r == 0xfeff, r >= 0xfe00 && r <= 0xfe0f, r >= 0x1f3fb && r <= 0x1f3ff,
		unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r < 0x1100:
		return 1
	case r <= 0x115f, r >= 0x2e80 && r <= 0x303e, r >= 0x3041 && r <= 0xa4cf, r >= 0xa960 && r <= 0xa97c,
		r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff, r >= 0xfe10 && r <= 0xfe19, r >= 0xfe30 && r <= 0xfe6b,
		r >= 0xff01 && r <= 0xff60,
		r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1f64f, r >= 0x1f680 && r <= 0x1f6fc, r >= 0x1f7e0 && r <= 0x1f7eb,
		r >= 0x1f900 && r <= 0x1f9ff, r >= 0x1fa70 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return narrowEmoji(r)
}

// narrowEmoji knows the wide ones among the symbols of the first plane, which are mostly narrow.
func narrowEmoji(r rune) int {
	switch {
	case r >= 0x231a && r <= 0x231b, r == 0x2329, r == 0x232a, r >= 0x23e9 && r <= 0x23ec, r == 0x23f0, r == 0x23f3,
		r >= 0x25fd && r <= 0x25fe, r >= 0x2614 && r <= 0x2615, r >= 0x2648 && r <= 0x2653, r == 0x267f, r == 0x2693, r == 0x26a1,
		r >= 0x26aa && r <= 0x26ab,
		r >= 0x26bd && r <= 0x26be, r >= 0x26c4 && r <= 0x26c5, r == 0x26ce, r == 0x26d4, r == 0x26ea, r >= 0x26f2 && r <= 0x26f3,
		r == 0x26f5, r == 0x26fa, r == 0x26fd, r == 0x2705, r >= 0x270a && r <= 0x270b, r == 0x2728, r == 0x274c, r == 0x274e,
		r >= 0x2753 && r <= 0x2755, r == 0x2757, r >= 0x2795 && r <= 0x2797, r == 0x27b0, r == 0x27bf, r >= 0x2b1b && r <= 0x2b1c,
		r == 0x2b50, r == 0x2b55, r == 0x1f004, r == 0x1f0cf, r == 0x1f18e, r >= 0x1f191 && r <= 0x1f19a,
		r >= 0x1f1e6 && r <= 0x1f202, r >= 0x1f210 && r <= 0x1f23b, r >= 0x1f240 && r <= 0x1f248, r >= 0x1f250 && r <= 0x1f251,
		r >= 0x1f260 && r <= 0x1f265:
		return 2
	}
	return 1
}
