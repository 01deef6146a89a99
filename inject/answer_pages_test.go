package inject

import (
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

func singleChoiceScreen() Screen {
	return Screen{Shows: Question, Question: "Which one?", Rows: []Row{
		{Role: OptionRow, Number: 1, Label: "Alpha", Cursor: true},
		{Role: OptionRow, Number: 2, Label: "Beta"}, {Role: OptionRow, Number: 3, Label: "Beta"},
		{Role: OtherRow, Number: 4, Label: "Type something."}, {Role: BelowRow, Number: 5},
	}}
}

func multiSelectScreen() Screen {
	return Screen{Shows: Question, Question: "Which ones?", MultiSelect: true,
		Tabs: []Tab{{Title: "Some"}, {Title: "Submit", Submit: true}}, Rows: []Row{
			{Role: OptionRow, Number: 1, Label: "Auth", Ticked: true},
			{Role: OptionRow, Number: 2, Label: "Billing", Cursor: true},
			{Role: OtherRow, Number: 3, Label: "Type something"}, {Role: SubmitRow},
			{Role: BelowRow, Number: 4},
		}}
}

func TestAnswerPages_Untouched(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Screen)
		why    string
	}{
		"as it was asked":      {func(*Screen) {}, ""},
		"the cursor elsewhere": {func(s *Screen) { s.Rows[0].Cursor, s.Rows[3].Cursor = false, true }, ""},
		"a text in the field":  {func(s *Screen) { s.Rows[3].Text = "x" }, "changed"},
		"another question": {func(s *Screen) { s.Question = "Which one then?" },
			"another question"},
		"another option": {func(s *Screen) { s.Rows[1].Label = "Gamma" }, "other options"},
		"an option less": {func(s *Screen) { s.Rows = slices.Delete(s.Rows, 2, 3) },
			"other options"},
		"an option out of sight": {func(s *Screen) { s.Rows, s.HasRowsBelow = s.Rows[:2], true },
			""},
		"a question out of sight": {func(s *Screen) { s.Question, s.IsCut = "", true }, ""},
		"the end of the question": {func(s *Screen) { s.Question, s.IsCut = "one?", true }, ""},
		"the end of another": {func(s *Screen) { s.Question, s.IsCut = "two?", true },
			"another question"},
		"several can be ticked": {func(s *Screen) { s.MultiSelect = true }, "another dialog"},
		"a prompt":              {func(s *Screen) { *s = Screen{Shows: Prompt} }, "no longer open"},
		"a permission": {func(s *Screen) { *s = Screen{Shows: Permission} },
			"another dialog"},
		"a shell": {func(s *Screen) { *s = Screen{Why: "a shell"} },
			"the pane shows a shell"},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := page{plans: []pagePlan{{subQuestion: one}}}, singleChoiceScreen()
			c.change(&s)
			why := p.whyNotPage(s, 0)
			kit.True(t, why == c.why || c.why != "" && strings.Contains(why, c.why),
				"%q, want %q", why, c.why)
		})
	}
}

// Between two keys, a page may change only in the row that our own key changes.
func TestAnswerPages_Stays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Screen)
		why    string
	}{
		"as it was":   {func(*Screen) {}, ""},
		"our own row": {func(s *Screen) { s.Rows[0].Ticked = false }, ""},
		"ticked by somebody": {func(s *Screen) { s.Rows[1].Ticked = true },
			"\"Billing\" was changed"},
		"typed by somebody": {func(s *Screen) { s.Rows[2].Text = "x" },
			"\"Type something\" was changed"},
		"one choice only":    {func(s *Screen) { s.MultiSelect = false }, "another dialog"},
		"a row out of sight": {func(s *Screen) { s.Rows, s.HasRowsBelow = s.Rows[:1], true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := page{plans: []pagePlan{{subQuestion: some}},
				changedRows: map[int]Row{1: {Ticked: true}}}, multiSelectScreen()
			c.change(&s)
			why := p.whyNotPage(s, 1)
			kit.True(t, why == c.why || c.why != "" && strings.Contains(why, c.why),
				"%q, want %q", why, c.why)
		})
	}
}

func TestAnswerPages_ReviewDiffers(t *testing.T) {
	acts := []pagePlan{{subQuestion: one, optionNumbers: []int{1}},
		{subQuestion: some, optionNumbers: []int{1, 2}, text: "dark\nmode"}}
	const first, second = "● Which one? → Alpha", "● Which ones? → Auth, Billing, dark mode"
	for name, c := range map[string]struct {
		screen Screen
		why    string
	}{
		"as meant":         {Screen{Shows: Review, Answers: first + " " + second}, ""},
		"its end":          {Screen{Shows: Review, Answers: "→ Alpha " + second, IsCut: true}, ""},
		"one is not there": {Screen{Shows: Review, Answers: first}, "shows"},
		"said to be missing": {Screen{Shows: Review,
			Answers: "⚠ You have not answered all questions " + first + " " + second}, "shows"},
		"another answer": {Screen{Shows: Review,
			Answers: first + " ● Which ones? → Auth, dark mode"}, "shows"},
		"another question": {Screen{Shows: Review, Answers: "● Which? → Alpha " + second}, "shows"},
		"another end":      {Screen{Shows: Review, Answers: "dark modes", IsCut: true}, "shows"},
		"nothing":          {Screen{Shows: Review, IsCut: true}, "shows"},
		"no review":        {Screen{Shows: Prompt}, "no longer open"},
	} {
		t.Run(name, func(t *testing.T) {
			why := whyNotReview(c.screen, acts)
			kit.True(t, why == c.why || c.why != "" && strings.Contains(why, c.why),
				"%q, want %q", why, c.why)
		})
	}
}
