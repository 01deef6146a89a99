package state

import (
	"testing"

	"github.com/mtibben/confusables"
)

// The table equals Unicode's, as the library has it.
func TestLookalike_ASCII(t *testing.T) {
	for r := rune(0x80); r <= 0x10ffff; r++ {
		skeleton := confusables.Skeleton(string(r))
		want := skeleton != ""
		for _, c := range skeleton {
			want = want && c > ' ' && c <= '~'
		}
		if IsASCIILookalike(r) != want {
			t.Errorf("%U %c: %v, want %v (%q)", r, r, !want, want, skeleton)
		}
	}
}
