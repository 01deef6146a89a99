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

// pagePlan is how one prompt is answered at the keyboard.
type pagePlan struct {
	subQuestion   state.SubQuestion
	optionNumbers []int  // of the options that are chosen, as the dialog numbers them, ascending
	text          string // what is typed: the person's own words
	choosesChat   bool   // the whole dialog is turned down on its first page
}

// planPages is what is to be done, page by page. A remark has no place of its own, and a
// single choice none beside own words; so they go with the words, and nothing that the
// person said is lost.
func planPages(choices []Choice) (plans []pagePlan, err error) {
	if len(choices) == 0 {
		return nil, errors.New("there is nothing to answer")
	}
	if choices[0].ChoosesChat {
		return []pagePlan{
			{subQuestion: choices[0].SubQuestion, text: chatLabel, choosesChat: true},
		}, nil
	}
	for _, c := range choices {
		text, notes := typeableText(c.Answer.Text), typeableText(c.Answer.Notes)
		plan := pagePlan{subQuestion: c.SubQuestion, text: text}
		if err := plan.pickOptions(c.Answer.Labels); err != nil {
			return nil, err
		}
		hasPreview := slices.ContainsFunc(
			c.SubQuestion.Options,
			func(o state.Option) bool { return o.Preview != "" },
		)
		switch {
		case len(plan.optionNumbers) == 0 && text == "":
			return nil, fmt.Errorf(
				"there is no answer to %q that can be typed",
				shorten(c.SubQuestion.Question, 60),
			)
		case c.SubQuestion.MultiSelect:
			plan.text = joinWithDash(text, notes)
		case hasPreview && text+notes != "":
			return nil, errors.New(
				"own words and remarks cannot be typed beside previews: answer in the terminal",
			)
		case text+notes != "":
			plan.text, plan.optionNumbers = joinWithDash(plan.reviewText(), notes), nil
		}
		plans = append(plans, plan)
	}
	return plans, nil
}

// typeableText is a text as it is typed: without what a terminal would obey, and without
// white space at its ends, which Claude Code takes off as well.
func typeableText(text string) string {
	return strings.TrimSpace(state.Clean(state.ForTyping, text))
}

// pickOptions finds the numbers of the labels. Of two options with the same label it is
// the first: Claude is told the label.
func (a *pagePlan) pickOptions(labels []string) error {
	if len(labels) > 1 && !a.subQuestion.MultiSelect {
		return fmt.Errorf(
			"%q takes one choice, not %d",
			shorten(a.subQuestion.Question, 60),
			len(labels),
		)
	}
	for _, label := range labels {
		i := slices.IndexFunc(
			a.subQuestion.Options,
			func(o state.Option) bool { return o.Label == label },
		)
		if i < 0 {
			return fmt.Errorf(
				"%q is not an option of %q",
				shorten(label, 40),
				shorten(a.subQuestion.Question, 60),
			)
		}
		if !slices.Contains(a.optionNumbers, i+1) {
			a.optionNumbers = append(a.optionNumbers, i+1)
		}
	}
	slices.Sort(a.optionNumbers)
	return nil
}

// reviewText is how the review page shows the answer.
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

// fieldNumber is the number of the row for own words.
func (a pagePlan) fieldNumber() int { return len(a.subQuestion.Options) + 1 }

// page is one page of the dialog as it must stand: as it was asked, with what our keys
// have changed on it.
type page struct {
	plans       []pagePlan
	index       int         // which of them
	changedRows map[int]Row // the rows that our keys have changed, by number
}

// whyNotPage says, for a person, why the screen is not this page; "" when it is. The row
// with the number but may be changing. Of rows that are not on the screen nothing is
// known.
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
		if r.Number != except && (r.Ticked != changed.Ticked || !SameText(r.Text, changed.Text)) {
			return fmt.Sprintf("%q was changed in the terminal", shorten(r.Label, 40))
		}
	}
	return ""
}

// whyNotQuestion says, for a person, why the screen is not this question's page; "" when
// it is. Of a page that is larger than the pane, what is on the screen must fit.
func whyNotQuestion(s Screen, p state.SubQuestion) string {
	switch {
	case s.Shows != Question:
		return whyNotDialog(s)
	case s.IsCut && s.Question != "" && !IsEndOf(s.Question, p.Question),
		!s.IsCut && !SameText(s.Question, p.Question):
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

// whyNotDialog says what is on the screen instead of a question.
func whyNotDialog(s Screen) string {
	switch s.Shows {
	case Prompt, Draft:
		return "the question is not open any more"
	case Permission:
		return "another dialog is open"
	case Review:
		return "a person has answered it in the terminal up to the last page"
	case Question:
		return "another question is open"
	}
	return "the pane shows " + s.Why
}

// whyNotReview says what about the review page is not as meant. An answer that is not on
// the screen was seen on its own page.
func whyNotReview(s Screen, plans []pagePlan) string {
	if s.Shows != Review {
		return whyNotDialog(s)
	}
	var expected strings.Builder
	for _, plan := range plans {
		fmt.Fprintf(
			&expected,
			"●%s→%s",
			comparable(plan.subQuestion.Question),
			comparable(plan.reviewText()),
		)
	}
	shown := comparable(s.Answers)
	if shown != expected.String() && !(s.IsCut && IsEndOf(shown, expected.String())) {
		return fmt.Sprintf("the review page shows other answers: %q", shorten(s.Answers, 200))
	}
	return ""
}

// fillPages goes through the dialog page by page and submits it.
func (a *answerRun) fillPages(ctx context.Context) error {
	for i := range a.plans {
		a.page = page{plans: a.plans, index: i, changedRows: map[int]Row{}}
		if i > 0 {
			if err := a.awaitSettled(ctx, func(s Screen) string { return a.whyNotPage(s, 0) }); err != nil {
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
	submit := keyStep{key: KeyDigit(1), maySubmit: true, whyNot: whyNotReviewPage}
	submit.checkEffect = func(s Screen) error {
		if whyNotReviewPage(s) == "" {
			return errNoEffect
		}
		return a.checkClosed(s)
	}
	return a.doStep(ctx, submit)
}

// pageStep does a part of a page.
type pageStep func(context.Context) error

// pageSteps answer the page that is open and leave it.
func (a *answerRun) pageSteps() (steps []pageStep) {
	plan := a.plans[a.index]
	field := plan.fieldNumber()
	if plan.text == "" && a.screen.cursorRow().Role == OtherRow {
		// digits would be typed into the field
		steps = append(steps, a.goToRow(field-1))
	}
	switch {
	case plan.choosesChat:
		return append(steps, a.goToChatRow, a.leavePage(KeyEnter))
	case plan.subQuestion.MultiSelect:
		// Own words first, for 2.1.197 takes them into the answer only when a row is
		// ticked after they were typed and the cursor has left them; then the ticks by
		// their numbers, which leave the cursor where it is.
		ticks := plan.optionNumbers
		if plan.text != "" {
			steps = append(steps, a.goToRow(field), a.typeIntoField(plan), a.goToRow(field-1))
		}
		if len(ticks) == 0 { // the field's own tick is taken away, and set again
			steps = append(steps, a.tickRow(field, false))
			ticks = []int{field}
		}
		for _, n := range ticks {
			steps = append(steps, a.tickRow(n, true))
		}
		return append(steps, a.leavePage(KeyTab))
	case plan.text != "": // what is typed replaces the label of the field
		return append(steps, a.goToRow(field), a.typeIntoField(plan), a.leavePage(KeyEnter))
	case a.screen.HasPreview: // there a digit only moves the cursor (2.1.197, 2.1.329)
		return append(steps, a.goToRow(plan.optionNumbers[0]), a.leavePage(KeyEnter))
	}
	// One digit chooses and submits: there is nothing in between that another key could
	// change.
	return append(steps, a.leavePage(KeyDigit(plan.optionNumbers[0])))
}

// goToRow moves the cursor to a row.
func (a *answerRun) goToRow(number int) pageStep {
	return func(ctx context.Context) error {
		isRow := func(r Row) bool { return r.Number == number }
		return a.moveCursor(
			ctx,
			isRow,
			func(current Screen) string { return a.whyNotPage(current, 0) },
		)
	}
}

func (a *answerRun) goToChatRow(ctx context.Context) error {
	isChatRow := func(r Row) bool { return r.Role == BelowRow && r.Label == chatLabel }
	return a.moveCursor(
		ctx,
		isChatRow,
		func(current Screen) string { return a.whyNotPage(current, 0) },
	)
}

// requireSamePage says, for a person, why the screen is not what it is now.
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

// firstCharacter is a character with all that is drawn with it: accents, a skin tone,
// what makes it an emoji, and what is joined.
var firstCharacter = pattern(`^(?s:.[\pM\p{Sk}]*)(\x{200d}.[\pM\p{Sk}]*)*`)

// typeIntoField types a text into the field that has the keys: one character, and when
// that stands there the rest in one piece.
func (a *answerRun) typeIntoField(plan pagePlan) pageStep {
	text := plan.text
	if strings.HasSuffix(text, `\`) {
		// 2.1.329 takes a backslash before Enter for "the text goes on"
		text += " "
	}
	first := len(firstCharacter().FindString(text))
	return func(ctx context.Context) error {
		typed := Row{Ticked: plan.subQuestion.MultiSelect} // typing ticks it
		for _, part := range []string{text[:first], text[first:]} {
			if part == "" {
				continue
			}
			typed.Text += part
			if err := a.changeRow(ctx, keyStep{text: part}, plan.fieldNumber(), typed); err != nil {
				return err
			}
		}
		// A person's key that follows a paste closely is drawn late: 2 of 15 in races
		// with 2.1.329 went unseen before Enter.
		return a.awaitSettled(ctx, a.requireSamePage())
	}
}

// tickRow ticks a row by its number, or takes its tick away.
func (a *answerRun) tickRow(number int, isTicked bool) pageStep {
	return func(ctx context.Context) error {
		row := a.changedRows[number]
		row.Ticked = isTicked
		return a.changeRow(ctx, keyStep{key: KeyDigit(number)}, number, row)
	}
}

// changeRow presses a key that stays on the page and changes a row, and waits until that
// is as wanted.
func (a *answerRun) changeRow(ctx context.Context, step keyStep, number int, wanted Row) error {
	step.whyNot = a.requireSamePage()
	step.checkEffect = func(current Screen) error {
		row := current.row(number)
		switch why := a.whyNotPage(current, number); {
		case why != "":
			return mismatchError(why)
		case row != nil && (row.Ticked != wanted.Ticked || !SameText(row.Text, wanted.Text)):
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

// leavePage presses the key that finishes the page, and waits for what comes after it.
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
			case isLast && current.Shows == Review, !isLast && next.whyNotPage(current, 0) == "":
				return nil
			}
			return mismatchError("the dialog was changed in the terminal")
		}
		return a.doStep(ctx, step)
	}
}

// checkClosed says whether the dialog has closed: something else of Claude Code's is
// there.
func (a *answerRun) checkClosed(s Screen) error {
	switch {
	case slices.ContainsFunc(a.plans, func(plan pagePlan) bool { return whyNotQuestion(s, plan.subQuestion) == "" }):
		return mismatchError("the dialog has changed in the terminal")
	case s.Shows == Unknown, s.Shows == Review:
		return mismatchError(whyNotDialog(s))
	}
	return nil
}
