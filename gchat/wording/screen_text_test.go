package wording

import (
	"fmt"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

func TestScreenText_Table(t *testing.T) {
	got := ScreenText("[Screen] shop", "\n\n  <users/all> ```\n\x1b[31mred\u202e\n")
	want := "[Screen] shop\n```\n  ‹users/all> ``‹U+0060›\nred\n```"
	kit.True(t, got == want, "%q", got)
	var long strings.Builder
	for n := range 20000 {
		fmt.Fprintln(&long, "line", n)
	}
	got = ScreenText("[Screen] shop", long.String())
	kit.True(t, len(got) <= MaxText && strings.HasSuffix(got, "\nline 19999\n```") &&
		!strings.Contains(got, "line 0\n"),
		"%d bytes, ends %q", len(got), got[len(got)-20:])
	got = ScreenText("[Screen] shop", strings.Repeat("é", MaxText))
	kit.True(t, len(got) <= MaxText, "%d bytes", len(got))
	got = ScreenText("[Screen] shop", " \n")
	kit.True(t, !strings.Contains(got, "```"), "%q", got)
}
