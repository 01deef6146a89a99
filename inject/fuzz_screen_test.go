package inject

import (
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

// Reading never panics, whatever a pane shows, and the result is consistent.
func FuzzReadScreen(f *testing.F) {
	for _, v := range []string{"2.1.197", "2.1.329"} {
		for _, capture := range recordedScreens(f, v) {
			f.Add(capture)
		}
	}
	for _, capture := range []string{screenOf(goodDialog), screenOf(box), "❯ 1. \x1b[",
		ruleLine + "\n❯\n" + ruleLine, "\x1b[38;2;1;2m❯1.[ ]\u200d", "⚠️\u200b1.\n"} {
		f.Add(capture)
	}
	f.Fuzz(func(t *testing.T, capture string) {
		s := ReadScreen(capture)
		cursors, options, last := 0, 0, 0
		for _, r := range s.Rows {
			if r.Cursor {
				cursors++
			}
			if r.Role == OptionRow || r.Role == OtherRow {
				options++
			}
			kit.True(t, r.Number == 0 || last == 0 || r.Number == last+1 || s.HasRowsBelow,
				"row %d after row %d", r.Number, last)
			if r.Number != 0 {
				last = r.Number
			}
			kit.True(t, r.Text == "" || r.Role == OtherRow, "a text in a row that is %s", r.Role)
			kit.True(t, !r.Ticked || s.MultiSelect, "a tick in a single choice")
			kit.True(t, !strings.ContainsAny(r.Label+r.Text, "\n\x1b"),
				"control characters in %q", r.Label)
		}
		switch s.Shows {
		case Unknown:
			kit.True(t, s.Why != "" && len(s.Rows) == 0 && s.Question == "",
				"unknown, with %q, %d rows, question %q", s.Why, len(s.Rows), s.Question)
		case Question:
			kit.True(t, cursors <= 1 && len(s.Rows) >= 1 &&
				(options != 0 || s.HasRowsAbove || s.HasRowsBelow) && (s.Question != "" || s.IsCut),
				"%d cursors, %d options, question %q, cut %v", cursors, options, s.Question,
				s.IsCut)
		case Review, Permission:
			kit.True(t, cursors == 1, "%s with %d cursors", s.Shows, cursors)
		case Draft:
			kit.True(t, s.Draft != "", "a draft without text")
		case Prompt:
			kit.Equalf(t, s.Draft, "", "an empty box with")
		}
	})
}
