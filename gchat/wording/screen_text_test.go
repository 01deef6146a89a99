package wording

import (
	"fmt"
	"strings"
	"testing"
)

func TestScreenText_Table(t *testing.T) {
	got := ScreenText("[Screen] shop", "\n\n  <users/all> ```\n\x1b[31mred\u202e\n")
	if want := "[Screen] shop\n```\n  ‹users/all> ``‹U+0060›\nred\n```"; got != want {
		t.Errorf("%q", got)
	}
	var long strings.Builder
	for n := range 20000 {
		fmt.Fprintln(&long, "line", n)
	}
	got = ScreenText("[Screen] shop", long.String())
	if len(got) > MaxText || !strings.HasSuffix(got, "\nline 19999\n```") || strings.Contains(got, "line 0\n") {
		t.Errorf("%d bytes, ends %q", len(got), got[len(got)-20:])
	}
	if got := ScreenText("[Screen] shop", strings.Repeat("é", MaxText)); len(got) > MaxText {
		t.Errorf("%d bytes", len(got))
	}
	if got := ScreenText("[Screen] shop", " \n"); strings.Contains(got, "```") {
		t.Errorf("%q", got)
	}
}
