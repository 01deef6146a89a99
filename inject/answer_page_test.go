package inject

import (
	"slices"
	"strings"
	"testing"
)

func drawnOne() Screen {
	return Screen{Kind: Question, Question: "Which one?", Rows: []Row{
		{Kind: OptionRow, Number: 1, Label: "Alpha", Cursor: true}, {Kind: OptionRow, Number: 2, Label: "Beta"}, {Kind: OptionRow, Number: 3, Label: "Beta"},
		{Kind: OtherRow, Number: 4, Label: "Type something."}, {Kind: BelowRow, Number: 5},
	}}
}

func drawnSome() Screen {
	return Screen{Kind: Question, Question: "Which ones?", Multi: true, Tabs: []Tab{{Title: "Some"}, {Title: "Submit", Submit: true}}, Rows: []Row{
		{Kind: OptionRow, Number: 1, Label: "Auth", Ticked: true}, {Kind: OptionRow, Number: 2, Label: "Billing", Cursor: true},
		{Kind: OtherRow, Number: 3, Label: "Type something"}, {Kind: SubmitRow}, {Kind: BelowRow, Number: 4},
	}}
}

func TestPageDiffers(t *testing.T) {
	single := page{act: act{prompt: one}, of: 1}
	multi := page{act: act{prompt: some}, of: 1, cursor: 2, ticks: map[int]bool{1: true}}
	for name, c := range map[string]struct {
		page   page
		screen Screen
		change func(*Screen)
		why    string
	}{
		"as it was asked":         {single, drawnOne(), func(*Screen) {}, ""},
		"the cursor elsewhere":    {single, drawnOne(), func(s *Screen) { s.Rows[0].Cursor, s.Rows[2].Cursor = false, true }, ""},
		"the cursor on the field": {single, drawnOne(), func(s *Screen) { s.Rows[0].Cursor, s.Rows[3].Cursor = false, true }, "cursor"},
		"a text in the field":     {single, drawnOne(), func(s *Screen) { s.Rows[3].Text = "x" }, "changed"},
		"another question":        {single, drawnOne(), func(s *Screen) { s.Question = "Which one then?" }, "another question"},
		"another option":          {single, drawnOne(), func(s *Screen) { s.Rows[1].Label = "Gamma" }, "other options"},
		"an option less":          {single, drawnOne(), func(s *Screen) { s.Rows = slices.Delete(s.Rows, 2, 3) }, "other options"},
		"an option out of sight":  {single, drawnOne(), func(s *Screen) { s.Rows, s.Below = s.Rows[:2], true }, ""},
		"a question out of sight": {single, drawnOne(), func(s *Screen) { s.Question, s.Cut = "", true }, ""},
		"the end of the question": {single, drawnOne(), func(s *Screen) { s.Question, s.Cut = "one?", true }, ""},
		"the end of another":      {single, drawnOne(), func(s *Screen) { s.Question, s.Cut = "two?", true }, "another question"},
		"a prompt":                {single, Screen{Kind: Prompt}, func(*Screen) {}, "not open any more"},
		"a permission":            {single, Screen{Kind: Permission}, func(*Screen) {}, "another dialog"},
		"a shell":                 {single, Screen{Why: "a shell"}, func(*Screen) {}, "the pane shows a shell"},
		"ticked as it should be":  {multi, drawnSome(), func(*Screen) {}, ""},
		"ticked by somebody":      {multi, drawnSome(), func(s *Screen) { s.Rows[1].Ticked = true }, "\"Billing\" was changed"},
		"unticked by somebody":    {multi, drawnSome(), func(s *Screen) { s.Rows[0].Ticked = false }, "\"Auth\" was changed"},
		"moved by somebody":       {multi, drawnSome(), func(s *Screen) { s.Rows[1].Cursor, s.Rows[3].Cursor = false, true }, "cursor"},
		"one choice only":         {multi, drawnSome(), func(s *Screen) { s.Multi = false }, "another dialog"},
		"more questions":          {multi, drawnSome(), func(s *Screen) { s.Tabs = append(s.Tabs[:1:1], s.Tabs...) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.change(&c.screen)
			why := c.page.differs(c.screen)
			if why != c.why && (c.why == "" || !strings.Contains(why, c.why)) {
				t.Errorf("%q, want %q", why, c.why)
			}
		})
	}
}

func TestReviewDiffers(t *testing.T) {
	acts := []act{{prompt: one, numbers: []int{1}}, {prompt: some, numbers: []int{1, 2}, text: "dark\nmode"}}
	const first, second = "● Which one? → Alpha", "● Which ones? → Auth, Billing, dark mode"
	for name, c := range map[string]struct {
		screen Screen
		why    string
	}{
		"as meant":           {Screen{Kind: Review, Answers: first + " " + second}, ""},
		"its end":            {Screen{Kind: Review, Answers: "→ Alpha " + second, Cut: true}, ""},
		"one is not there":   {Screen{Kind: Review, Answers: first}, "shows"},
		"said to be missing": {Screen{Kind: Review, Answers: "⚠ You have not answered all questions " + first + " " + second}, "shows"},
		"another answer":     {Screen{Kind: Review, Answers: first + " ● Which ones? → Auth, dark mode"}, "shows"},
		"another question":   {Screen{Kind: Review, Answers: "● Which? → Alpha " + second}, "shows"},
		"another end":        {Screen{Kind: Review, Answers: "dark modes", Cut: true}, "shows"},
		"nothing":            {Screen{Kind: Review, Cut: true}, "shows"},
		"no review":          {Screen{Kind: Prompt}, "not open"},
	} {
		t.Run(name, func(t *testing.T) {
			if why := reviewDiffers(c.screen, acts); why != c.why && (c.why == "" || !strings.Contains(why, c.why)) {
				t.Errorf("%q, want %q", why, c.why)
			}
		})
	}
}
