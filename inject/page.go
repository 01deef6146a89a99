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

// act is how one prompt is answered at the keyboard.
type act struct {
	prompt  state.SubQuestion
	numbers []int  // of the options that are chosen, as the dialog numbers them, ascending
	text    string // what is typed: the person's own words
	chat    bool   // the whole dialog is turned down on its first page
}

// plan is what is to be done, page by page. A remark has no place of its own, and a
// single choice none beside own words; so they go with the words, and nothing that the
// person said is lost.
func plan(choices []Choice) (acts []act, err error) {
	if len(choices) == 0 {
		return nil, errors.New("there is nothing to answer")
	}
	if choices[0].ChoosesChat {
		return []act{{prompt: choices[0].SubQuestion, text: chatLabel, chat: true}}, nil
	}
	for _, c := range choices {
		text, remark := typeable(c.Answer.Text), typeable(c.Answer.Notes)
		a := act{prompt: c.SubQuestion, text: text}
		if err := a.choose(c.Answer.Labels); err != nil {
			return nil, err
		}
		preview := slices.ContainsFunc(
			c.SubQuestion.Options,
			func(o state.Option) bool { return o.Preview != "" },
		)
		switch {
		case len(a.numbers) == 0 && text == "":
			return nil, fmt.Errorf(
				"there is no answer to %q that can be typed",
				brief(c.SubQuestion.Question, 60),
			)
		case c.SubQuestion.MultiSelect:
			a.text = dashed(text, remark)
		case preview && text+remark != "":
			return nil, errors.New(
				"own words and remarks cannot be typed beside previews: answer in the terminal",
			)
		case text+remark != "":
			a.text, a.numbers = dashed(a.reviewed(), remark), nil
		}
		acts = append(acts, a)
	}
	return acts, nil
}

// typeable is a text as it is typed: without what a terminal would obey, and without
// white space at its ends, which Claude Code takes off as well.
func typeable(text string) string {
	return strings.TrimSpace(state.Clean(state.ForTyping, text))
}

// choose finds the numbers of the labels. Of two options with the same label it is the
// first: Claude is told the label.
func (a *act) choose(labels []string) error {
	if len(labels) > 1 && !a.prompt.MultiSelect {
		return fmt.Errorf("%q takes one choice, not %d", brief(a.prompt.Question, 60), len(labels))
	}
	for _, label := range labels {
		i := slices.IndexFunc(
			a.prompt.Options,
			func(o state.Option) bool { return o.Label == label },
		)
		if i < 0 {
			return fmt.Errorf(
				"%q is not an option of %q",
				brief(label, 40),
				brief(a.prompt.Question, 60),
			)
		}
		if !slices.Contains(a.numbers, i+1) {
			a.numbers = append(a.numbers, i+1)
		}
	}
	slices.Sort(a.numbers)
	return nil
}

// reviewed is how the review page shows the answer.
func (a act) reviewed() string {
	var labels []string
	for _, n := range a.numbers {
		labels = append(labels, a.prompt.Options[n-1].Label)
	}
	return state.Answer{Labels: labels, Text: a.text}.Value()
}

func dashed(text, remark string) string {
	if text == "" || remark == "" {
		return text + remark
	}
	return text + " – " + remark
}

// field is the number of the row for own words.
func (a act) field() int { return len(a.prompt.Options) + 1 }

// page is one page of the dialog as it must stand: as it was asked, with what our keys
// have changed on it.
type page struct {
	acts []act
	on   int         // which of them
	left map[int]Row // the rows that our keys have changed, by number
}

// differs says, for a person, why the screen is not this page; "" when it is. The row
// with the number but may be changing. Of rows that are not on the screen nothing is
// known.
func (p page) differs(s Screen, but int) string {
	if why := asks(s, p.acts[p.on].prompt); why != "" {
		return why
	}
	if len(p.acts) > 1 && s.Tabs != nil && len(s.Tabs) != len(p.acts)+1 {
		return "another dialog is open"
	}
	for i, tab := range s.Tabs {
		if i != p.on && !tab.Submit && tab.Answered != (i < p.on) {
			return "another of its questions was changed in the terminal"
		}
	}
	for _, r := range s.Rows {
		left := p.left[r.Number]
		if r.Number != but && (r.Ticked != left.Ticked || !SameText(r.Text, left.Text)) {
			return fmt.Sprintf("%q was changed in the terminal", brief(r.Label, 40))
		}
	}
	return ""
}

// asks says, for a person, why the screen is not this question's page; "" when it is. Of
// a page that is larger than the pane, what is on the screen must fit.
func asks(s Screen, p state.SubQuestion) string {
	switch {
	case s.Shows != Question:
		return notTheDialog(s)
	case s.Cut && s.Question != "" && !IsEndOf(s.Question, p.Question),
		!s.Cut && !SameText(s.Question, p.Question):
		return "another question is open"
	case s.Multi != p.MultiSelect && !s.Below:
		return "another dialog with that question is open"
	}
	const otherOptions = "the question is open with other options"
	options := 0
	for _, r := range s.Rows {
		if r.Is == OtherRow && r.Number != len(p.Options)+1 {
			return otherOptions
		}
		if r.Is != OptionRow {
			continue
		}
		if r.Number < 1 || r.Number > len(p.Options) {
			return otherOptions
		}
		label, cut := p.Options[r.Number-1].Label, strings.HasSuffix(r.Label, "…")
		if !SameText(r.Label, label) && !(cut && IsStartOf(r.Label, label)) {
			return otherOptions
		}
		options++
	}
	if options < len(p.Options) && !s.Above && !s.Below {
		return otherOptions
	}
	return ""
}

// notTheDialog says what is on the screen instead of a question.
func notTheDialog(s Screen) string {
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

// reviewDiffers says what about the review page is not as meant. An answer that is not on
// the screen was seen on its own page.
func reviewDiffers(s Screen, acts []act) string {
	if s.Shows != Review {
		return notTheDialog(s)
	}
	var meant strings.Builder
	for _, a := range acts {
		fmt.Fprintf(&meant, "●%s→%s", comparable(a.prompt.Question), comparable(a.reviewed()))
	}
	shown := comparable(s.Answers)
	if shown != meant.String() && !(s.Cut && IsEndOf(shown, meant.String())) {
		return fmt.Sprintf("the review page shows other answers: %q", brief(s.Answers, 200))
	}
	return ""
}

// fillPages goes through the dialog page by page and submits it.
func (a *answerRun) fillPages(ctx context.Context) error {
	for i := range a.acts {
		a.page = page{acts: a.acts, on: i, left: map[int]Row{}}
		if i > 0 {
			if err := a.awaitSettled(ctx, func(s Screen) string { return a.differs(s, 0) }); err != nil {
				return err
			}
		}
		for _, do := range a.keystrokes() {
			if err := do(ctx); err != nil {
				return err
			}
		}
	}
	if !a.hasReviewPage() {
		return nil
	}
	review := func(s Screen) string { return reviewDiffers(s, a.acts) }
	if err := a.awaitSettled(ctx, review); err != nil {
		return err
	}
	submit := keyStep{key: KeyDigit(1), maySubmit: true, whyNot: review}
	submit.checkEffect = func(s Screen) error {
		if review(s) == "" {
			return errNoEffect
		}
		return a.gone(s)
	}
	return a.doStep(ctx, submit)
}

// keystroke does a part of a page.
type keystroke func(context.Context) error

// keystrokes answer the page that is open and leave it.
func (a *answerRun) keystrokes() (all []keystroke) {
	act := a.acts[a.on]
	field := act.field()
	if act.text == "" && a.screen.cursor().Is == OtherRow { // digits would be typed into the field
		all = append(all, a.goTo(field-1))
	}
	switch {
	case act.chat:
		return append(all, a.goToChat, a.leave(KeyEnter))
	case act.prompt.MultiSelect:
		// Own words first, for 2.1.197 takes them into the answer only when a row is
		// ticked after they were typed and the cursor has left them; then the ticks by
		// their numbers, which leave the cursor where it is.
		ticks := act.numbers
		if act.text != "" {
			all = append(all, a.goTo(field), a.write(act), a.goTo(field-1))
		}
		if len(ticks) == 0 { // the field's own tick is taken away, and set again
			all = append(all, a.tick(field, false))
			ticks = []int{field}
		}
		for _, n := range ticks {
			all = append(all, a.tick(n, true))
		}
		return append(all, a.leave(KeyTab))
	case act.text != "": // what is typed replaces the label of the field
		return append(all, a.goTo(field), a.write(act), a.leave(KeyEnter))
	case a.screen.Preview: // there a digit only moves the cursor (2.1.197, 2.1.329)
		return append(all, a.goTo(act.numbers[0]), a.leave(KeyEnter))
	}
	// One digit chooses and submits: there is nothing in between that another key could
	// change.
	return append(all, a.leave(KeyDigit(act.numbers[0])))
}

// goToRow moves the cursor to a row.
func (a *answerRun) goTo(number int) keystroke {
	return func(ctx context.Context) error {
		at := func(r Row) bool { return r.Number == number }
		return a.moveCursor(ctx, at, func(now Screen) string { return a.differs(now, 0) })
	}
}

func (a *answerRun) goToChat(ctx context.Context) error {
	at := func(r Row) bool { return r.Is == BelowRow && r.Label == chatLabel }
	return a.moveCursor(ctx, at, func(now Screen) string { return a.differs(now, 0) })
}

// still says, for a person, why the screen is not what it is now.
func (a *answerRun) still() func(Screen) string {
	at := a.screen.cursor().Number
	return func(now Screen) string {
		why := a.differs(now, 0)
		if now.cursor().Number != at {
			why = cmp.Or(why, "its cursor was moved in the terminal")
		}
		return why
	}
}

// firstCharacter is a character with all that is drawn with it: accents, a skin tone,
// what makes it an emoji, and what is joined.
var firstCharacter = pattern(`^(?s:.[\pM\p{Sk}]*)(\x{200d}.[\pM\p{Sk}]*)*`)

// write types a text into the field that has the keys: one character, and when that
// stands there the rest in one piece.
func (a *answerRun) write(act act) keystroke {
	text := act.text
	if strings.HasSuffix(text, `\`) {
		// 2.1.329 takes a backslash before Enter for "the text goes on"
		text += " "
	}
	first := len(firstCharacter().FindString(text))
	return func(ctx context.Context) error {
		typed := Row{Ticked: act.prompt.MultiSelect} // typing ticks it
		for _, part := range []string{text[:first], text[first:]} {
			if part == "" {
				continue
			}
			typed.Text += part
			if err := a.change(ctx, keyStep{text: part}, act.field(), typed); err != nil {
				return err
			}
		}
		// A person's key that follows a paste closely is drawn late: 2 of 15 in races
		// with 2.1.329 went unseen before Enter.
		return a.awaitSettled(ctx, a.still())
	}
}

// tick ticks a row by its number, or takes its tick away.
func (a *answerRun) tick(number int, on bool) keystroke {
	return func(ctx context.Context) error {
		row := a.left[number]
		row.Ticked = on
		return a.change(ctx, keyStep{key: KeyDigit(number)}, number, row)
	}
}

// change presses a key that stays on the page and changes a row, and waits until that is
// as wanted.
func (a *answerRun) change(ctx context.Context, s keyStep, number int, wanted Row) error {
	s.whyNot = a.still()
	s.checkEffect = func(now Screen) error {
		row := now.row(number)
		switch why := a.differs(now, number); {
		case why != "":
			return mismatchError(why)
		case row != nil && (row.Ticked != wanted.Ticked || !SameText(row.Text, wanted.Text)):
			return errNoEffect
		}
		return nil
	}
	if err := a.doStep(ctx, s); err != nil {
		return err
	}
	a.left[number] = *cmp.Or(a.screen.row(number), &wanted)
	return nil
}

// leave presses the key that finishes the page, and waits for what comes after it.
func (a *answerRun) leave(k Key) keystroke {
	return func(ctx context.Context) error {
		next := page{acts: a.acts, on: a.on + 1}
		last := next.on == len(a.acts)
		s := keyStep{key: k, maySubmit: last && !a.hasReviewPage(), whyNot: a.still()}
		s.checkEffect = func(now Screen) error {
			switch {
			case a.differs(now, 0) == "":
				return errNoEffect
			case s.maySubmit:
				return a.gone(now)
			case last && now.Shows == Review, !last && next.differs(now, 0) == "":
				return nil
			}
			return mismatchError("the dialog was changed in the terminal")
		}
		return a.doStep(ctx, s)
	}
}

// gone says whether the dialog has closed: something else of Claude Code's is there.
func (a *answerRun) gone(s Screen) error {
	switch {
	case slices.ContainsFunc(a.acts, func(act act) bool { return asks(s, act.prompt) == "" }):
		return mismatchError("the dialog has changed in the terminal")
	case s.Shows == Unknown, s.Shows == Review:
		return mismatchError(notTheDialog(s))
	}
	return nil
}
