package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gchat-hooks/state"
)

// pagePlan says how to answer one page of the dialog at the keyboard.
type pagePlan struct {
	subQuestion   state.SubQuestion
	optionNumbers []int  // of the chosen options, as the dialog numbers them, ascending
	text          string // what is typed into the field for own words
	choosesChat   bool   // declines the whole dialog on its first page
}

// planPages plans the answer to each page. The dialog has no place for notes, and a
// single choice has none for own words beside it. They are joined into one text, so that
// nothing the person wrote is lost.

func planPages(choices []Choice) (plans []pagePlan, err error) {
	if len(choices) == 0 {
		return nil, errors.New("there is nothing to answer")
	}
	if choices[0].ChoosesChat {
		return []pagePlan{{
			subQuestion: choices[0].SubQuestion,
			text:        chatLabel,
			choosesChat: true,
		}}, nil
	}
	for _, c := range choices {
		text, notes := typeableText(c.Answer.Text), typeableText(c.Answer.Notes)
		plan := pagePlan{subQuestion: c.SubQuestion, text: text}
		if err := plan.pickOptions(c.Answer.Labels); err != nil {
			return nil, err
		}
		question := shorten(c.SubQuestion.Question, 60)
		hasPreview := slices.ContainsFunc(c.SubQuestion.Options, func(o state.Option) bool {
			return o.Preview != ""
		})
		switch {
		case len(plan.optionNumbers) == 0 && text == "":
			return nil, fmt.Errorf("there is no answer to %q that can be typed", question)
		case c.SubQuestion.MultiSelect:
			plan.text = joinWithDash(text, notes)
		case hasPreview && text+notes != "":
			return nil, errors.New(
				"your own words and notes cannot be typed beside previews: answer in the terminal")
		case text+notes != "":
			plan.text, plan.optionNumbers = joinWithDash(plan.reviewText(), notes), nil
		}
		plans = append(plans, plan)
	}
	return plans, nil
}

// typeableText returns a text as it is typed: without control characters, which a
// terminal would obey, and without white space at its ends, which Claude Code removes as
// well.
func typeableText(text string) string {
	return strings.TrimSpace(state.Clean(state.ForTyping, text))
}

// pickOptions finds the numbers of the labels. If two options have the same label, it
// picks the first, since Claude is told only the label.
func (a *pagePlan) pickOptions(labels []string) error {
	question := shorten(a.subQuestion.Question, 60)
	if len(labels) > 1 && !a.subQuestion.MultiSelect {
		return fmt.Errorf("%q takes one choice, not %d", question, len(labels))
	}
	for _, label := range labels {
		i := slices.IndexFunc(a.subQuestion.Options, func(o state.Option) bool {
			return o.Label == label
		})
		if i < 0 {
			return fmt.Errorf("%q is not an option of %q", shorten(label, 40), question)
		}
		if !slices.Contains(a.optionNumbers, i+1) {
			a.optionNumbers = append(a.optionNumbers, i+1)
		}
	}
	slices.Sort(a.optionNumbers)
	return nil
}

// reviewText returns the answer as the review page shows it.
func (a pagePlan) reviewText() string {
	var labels []string
	for _, n := range a.optionNumbers {
		labels = append(labels, a.subQuestion.Options[n-1].Label)
	}
	return state.Answer{Labels: labels, Text: a.text}.Value()
}

func joinWithDash(text, notes string) string {
	if text == "" || notes == "" {
		return text + notes
	}
	return text + " – " + notes
}

// fieldNumber returns the number of the row for own words.
func (a pagePlan) fieldNumber() int { return len(a.subQuestion.Options) + 1 }

// page is one page of the dialog as it must be: as it was asked, with the changes that
// our keys have made.
type page struct {
	plans       []pagePlan
	index       int         // which of the plans
	changedRows map[int]Row // the rows that our keys have changed, by number
}

// whyNotPage tells a person why the screen does not show this page; "" if it does. The
// row with the number except may be changing, so it is not compared. Rows that are not on
// the screen are not compared either.
func (p page) whyNotPage(s Screen, except int) string {
	if why := whyNotQuestion(s, p.plans[p.index].subQuestion); why != "" {
		return why
	}
	if len(p.plans) > 1 && s.Tabs != nil && len(s.Tabs) != len(p.plans)+1 {
		return "another dialog is open"
	}
	for i, tab := range s.Tabs {
		if i != p.index && !tab.Submit && tab.Answered != (i < p.index) {
			return "another of its questions was changed in the terminal"
		}
	}
	for _, r := range s.Rows {
		changed := p.changedRows[r.Number]
		isChanged := r.Ticked != changed.Ticked || !SameText(r.Text, changed.Text)
		if r.Number != except && isChanged {
			return fmt.Sprintf("%q was changed in the terminal", shorten(r.Label, 40))
		}
	}
	return ""
}

// whyNotQuestion tells a person why the screen does not show this question; "" if it
// does. If the page is larger than the pane, the part on the screen must fit.
func whyNotQuestion(s Screen, p state.SubQuestion) string {
	if s.Shows != Question {
		return whyNotDialog(s)
	}
	isAsked := SameText(s.Question, p.Question)
	if s.IsCut {
		isAsked = s.Question == "" || IsEndOf(s.Question, p.Question)
	}
	switch {
	case !isAsked:
		return "another question is open"
	case s.MultiSelect != p.MultiSelect && !s.HasRowsBelow:
		return "another dialog with that question is open"
	}
	const otherOptions = "the question is open with other options"
	options := 0
	for _, r := range s.Rows {
		if r.Role == OtherRow && r.Number != len(p.Options)+1 {
			return otherOptions
		}
		if r.Role != OptionRow {
			continue
		}
		if r.Number < 1 || r.Number > len(p.Options) {
			return otherOptions
		}
		label, isCut := p.Options[r.Number-1].Label, strings.HasSuffix(r.Label, "…")
		if !SameText(r.Label, label) && !(isCut && IsStartOf(r.Label, label)) {
			return otherOptions
		}
		options++
	}
	if options < len(p.Options) && !s.HasRowsAbove && !s.HasRowsBelow {
		return otherOptions
	}
	return ""
}

// whyNotDialog tells a person what is on the screen instead of the question.
func whyNotDialog(s Screen) string {
	switch s.Shows {
	case Prompt, Draft:
		return "the question is no longer open"
	case Permission:
		return "another dialog is open"
	case Review:
		return "a person has answered it in the terminal up to the last page"
	case Question:
		return "another question is open"
	}
	return "the pane shows " + s.Why
}

// whyNotReview tells a person why the review page does not show the planned answers; ""
// if it does. Answers that are outside the screen were checked on their own pages.
func whyNotReview(s Screen, plans []pagePlan) string {
	if s.Shows != Review {
		return whyNotDialog(s)
	}
	var expected strings.Builder
	for _, plan := range plans {
		fmt.Fprintf(&expected, "●%s→%s",
			comparableText(plan.subQuestion.Question), comparableText(plan.reviewText()))
	}
	shown := comparableText(s.Answers)
	isEnd := s.IsCut && IsEndOf(shown, expected.String())
	if shown != expected.String() && !isEnd {
		return fmt.Sprintf("the review page shows other answers: %q", shorten(s.Answers, 200))
	}
	return ""
}

// fillPages answers the dialog page by page and submits it.
func (a *answerRun) fillPages(ctx context.Context) error {
	for i := range a.plans {
		a.page = page{plans: a.plans, index: i, changedRows: map[int]Row{}}
		if i > 0 {
			whyNot := func(s Screen) string { return a.whyNotPage(s, 0) }
			if err := a.awaitSettled(ctx, whyNot); err != nil {
				return err
			}
		}
		for _, step := range a.pageSteps() {
			if err := step(ctx); err != nil {
				return err
			}
		}
	}
	if !a.hasReviewPage() {
		return nil
	}
	whyNotReviewPage := func(s Screen) string { return whyNotReview(s, a.plans) }
	if err := a.awaitSettled(ctx, whyNotReviewPage); err != nil {
		return err
	}
	return a.doStep(ctx, keyStep{
		key:       KeyDigit(1),
		maySubmit: true,
		whyNot:    whyNotReviewPage,
		checkEffect: func(s Screen) error {
			if whyNotReviewPage(s) == "" {
				return errNoEffect
			}
			return a.checkClosed(s)
		},
	})
}

// pageStep does one part of a page.
type pageStep func(context.Context) error

// pageSteps returns the steps that answer the open page and leave it.
func (a *answerRun) pageSteps() (steps []pageStep) {
	plan := a.plans[a.index]
	field := plan.fieldNumber()
	if plan.text == "" && a.screen.cursorRow().Role == OtherRow {
		// Digits would be typed into the field.
		steps = append(steps, a.goToRow(field-1))
	}
	switch {
	case plan.choosesChat:
		return append(steps, a.goToChatRow, a.leavePage(KeyEnter))
	case plan.subQuestion.MultiSelect:
		// The own words come first. Claude Code 2.1.197 includes them in the answer only
		// if a row is ticked after they were typed and after the cursor has left them.
		// The ticks follow by number, since a digit does not move the cursor.
		ticks := plan.optionNumbers
		if plan.text != "" {
			steps = append(steps, a.goToRow(field), a.typeIntoField(plan), a.goToRow(field-1))
		}
		if len(ticks) == 0 { // the field is the only tick: untick it and tick it again
			steps = append(steps, a.tickRow(field, false))
			ticks = []int{field}
		}
		for _, n := range ticks {
			steps = append(steps, a.tickRow(n, true))
		}
		return append(steps, a.leavePage(KeyTab))
	case plan.text != "": // the text replaces the field's label
		return append(steps, a.goToRow(field), a.typeIntoField(plan), a.leavePage(KeyEnter))
	case a.screen.HasPreview: // there a digit only moves the cursor (2.1.197, 2.1.329)
		return append(steps, a.goToRow(plan.optionNumbers[0]), a.leavePage(KeyEnter))
	}
	// One digit chooses and submits. No other key can come in between and change
	// anything.
	return append(steps, a.leavePage(KeyDigit(plan.optionNumbers[0])))
}

// goToRow moves the cursor to a row.
func (a *answerRun) goToRow(number int) pageStep {
	return func(ctx context.Context) error {
		isRow := func(r Row) bool { return r.Number == number }
		return a.moveCursor(ctx, isRow, func(current Screen) string {
			return a.whyNotPage(current, 0)
		})
	}
}

func (a *answerRun) goToChatRow(ctx context.Context) error {
	isChatRow := func(r Row) bool { return r.Role == BelowRow && r.Label == chatLabel }
	return a.moveCursor(ctx, isChatRow, func(current Screen) string {
		return a.whyNotPage(current, 0)
	})
}

// requireSamePage returns a whyNot that allows a key only while the page and its cursor
// are as they were when it was called.
func (a *answerRun) requireSamePage() func(Screen) string {
	cursor := a.screen.cursorRow().Number
	return func(current Screen) string {
		why := a.whyNotPage(current, 0)
		if current.cursorRow().Number != cursor {
			why = cmp.Or(why, "its cursor was moved in the terminal")
		}
		return why
	}
}

// firstCharacter matches a character with everything that is drawn with it: accents, a
// skin tone, an emoji's variation mark, and symbols that are joined to it.
var firstCharacter = pattern(`^(?s:.[\pM\p{Sk}]*)(\x{200d}.[\pM\p{Sk}]*)*`)

// typeIntoField types a text into the field under the cursor. It types the first
// character, and pastes the rest once that character is on the screen.
func (a *answerRun) typeIntoField(plan pagePlan) pageStep {
	text := plan.text
	if strings.HasSuffix(text, `\`) {
		// Claude Code 2.1.329 continues the text if Enter follows a backslash.
		text += " "
	}
	first := len(firstCharacter().FindString(text))
	return func(ctx context.Context) error {
		typed := Row{Ticked: plan.subQuestion.MultiSelect} // typing also ticks the row
		for _, part := range []string{text[:first], text[first:]} {
			if part == "" {
				continue
			}
			typed.Text += part
			if err := a.changeRow(ctx, keyStep{text: part}, plan.fieldNumber(), typed); err != nil {
				return err
			}
		}
		// If a person's key follows a paste closely, Claude Code draws it late: 2 of 15
		// in races with 2.1.329 were not seen before Enter.
		return a.awaitSettled(ctx, a.requireSamePage())
	}
}

// tickRow ticks a row by its number, or removes its tick.
func (a *answerRun) tickRow(number int, isTicked bool) pageStep {
	return func(ctx context.Context) error {
		row := a.changedRows[number]
		row.Ticked = isTicked
		return a.changeRow(ctx, keyStep{key: KeyDigit(number)}, number, row)
	}
}

// changeRow presses a key that changes a row of the open page, and waits until the row is
// as wanted.
func (a *answerRun) changeRow(ctx context.Context, step keyStep, number int, wanted Row) error {
	step.whyNot = a.requireSamePage()
	step.checkEffect = func(current Screen) error {
		row := current.row(number)
		if why := a.whyNotPage(current, number); why != "" {
			return mismatchError(why)
		}
		if row == nil {
			return nil
		}
		if row.Ticked != wanted.Ticked || !SameText(row.Text, wanted.Text) {
			return errNoEffect
		}
		return nil
	}
	if err := a.doStep(ctx, step); err != nil {
		return err
	}
	a.changedRows[number] = *cmp.Or(a.screen.row(number), &wanted)
	return nil
}

// leavePage presses the key that finishes the page, and waits for the next page.
func (a *answerRun) leavePage(key Key) pageStep {
	return func(ctx context.Context) error {
		next := page{plans: a.plans, index: a.index + 1}
		isLast := next.index == len(a.plans)
		step := keyStep{
			key:       key,
			maySubmit: isLast && !a.hasReviewPage(),
			whyNot:    a.requireSamePage(),
		}
		step.checkEffect = func(current Screen) error {
			switch {
			case a.whyNotPage(current, 0) == "":
				return errNoEffect
			case step.maySubmit:
				return a.checkClosed(current)
			case isLast && current.Shows == Review,
				!isLast && next.whyNotPage(current, 0) == "":
				return nil
			}
			return mismatchError("the dialog was changed in the terminal")
		}
		return a.doStep(ctx, step)
	}
}

// checkClosed returns nil if the dialog has closed and something else of Claude Code's is
// on the screen.
func (a *answerRun) checkClosed(s Screen) error {
	isOpen := func(plan pagePlan) bool { return whyNotQuestion(s, plan.subQuestion) == "" }
	switch {
	case slices.ContainsFunc(a.plans, isOpen):
		return mismatchError("the dialog has changed in the terminal")
	case s.Shows == Unknown, s.Shows == Review:
		return mismatchError(whyNotDialog(s))
	}
	return nil
}
