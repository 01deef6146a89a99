package inject

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gchat-hooks/state"
)

// page is how a question's page must look: the question, and what was done to it so far.
type page struct {
	act    act
	index  int // of the question
	of     int // questions
	cursor int // the number of the row it stands on; 0 is any row but the field for own words
	ticks  map[int]bool
	text   string // in the field for own words
	noting bool   // the keys go to the field for notes
	notes  string
}

// differs says, for a person, what about the screen is not as it must be; "" when nothing is.
func (g page) differs(s Screen) string {
	if why := asks(s, g.act.prompt); why != "" {
		return why
	}
	if g.of > 1 && s.Tabs != nil && len(s.Tabs) != g.of+1 {
		return "another dialog is open"
	}
	for i, tab := range s.Tabs {
		if i != g.index && !tab.Submit && tab.Answered != (i < g.index) {
			return "another of its questions was changed in the terminal"
		}
	}
	if s.Preview && (s.Noting != g.noting || !g.noted(s)) {
		return "its notes were changed in the terminal"
	}
	for _, r := range s.Rows {
		if why := g.rowDiffers(r); why != "" {
			return why
		}
	}
	return ""
}

func (g page) rowDiffers(r Row) string {
	field := r.Kind == OtherRow
	moved := r.Cursor && r.Number != g.cursor || !r.Cursor && r.Number == g.cursor && r.Kind != SubmitRow
	if g.cursor == 0 {
		moved = r.Cursor && field
	}
	switch {
	case g.act.prompt.MultiSelect && (field || r.Kind == OptionRow) && r.Ticked != g.ticks[r.Number]:
		return fmt.Sprintf("%q was changed in the terminal", cutText(r.Label, 40))
	case field && !Same(r.Text, g.text):
		return "somebody typed into it in the terminal"
	case moved:
		return "its cursor was moved in the terminal"
	}
	return ""
}

// noted says whether the field for notes shows what it must; empty, it shows a placeholder or a key.
func (g page) noted(s Screen) bool {
	if g.notes == "" {
		return emptyNotes(s.Notes)
	}
	return Same(s.Notes, g.notes)
}

func emptyNotes(shown string) bool {
	return shown == "" || strings.HasPrefix(shown, "press n") || strings.HasPrefix(shown, "Add notes on this")
}

// asks says, for a person, why the screen is not this question's page; "" when it is. Of a page that is larger than the
// pane, what is on the screen must fit.
func asks(s Screen, p state.Prompt) string {
	switch {
	case s.Kind != Question:
		return notTheDialog(s)
	case s.Cut && s.Question != "" && !Ends(s.Question, p.Question):
		return "another question is open"
	case !s.Cut && !Same(s.Question, p.Question):
		return "another question is open"
	case s.Multi != p.MultiSelect && !s.Below:
		return "another dialog with that question is open"
	}
	const otherOptions = "the question is open with other options"
	options := 0
	for _, r := range s.Rows {
		switch {
		case r.Kind == OtherRow && r.Number != len(p.Options)+1:
			return otherOptions
		case r.Kind == OptionRow:
			if r.Number < 1 || r.Number > len(p.Options) {
				return otherOptions
			}
			if label := p.Options[r.Number-1].Label; !Same(r.Label, label) && !(r.Cut && Begins(r.Label, label)) {
				return otherOptions
			}
			options++
		}
	}
	if options < len(p.Options) && !s.Above && !s.Below {
		return otherOptions
	}
	return ""
}

// notTheDialog says what is on the screen instead of a question.
func notTheDialog(s Screen) string {
	switch s.Kind {
	case Prompt, Draft:
		return "the question is not open any more"
	case Permission:
		return "another dialog is open"
	case Review:
		return "somebody has answered it in the terminal up to the last page"
	case Question:
		return "another question is open"
	}
	return "the pane shows " + s.Why
}

// reviewDiffers says, for a person, what about the review page is not as meant. An answer that is not on the screen was
// seen on its own page.
func reviewDiffers(s Screen, acts []act) string {
	if s.Kind != Review {
		return notTheDialog(s)
	}
	if s.Missing || len(s.Answers) > len(acts) || !s.Cut && len(s.Answers) < len(acts) {
		return "the review page does not list the answers that were given"
	}
	skipped := len(acts) - len(s.Answers)
	for i, r := range s.Answers {
		a := acts[skipped+i]
		if !Same(r.Question, a.prompt.Question) || !reviewSame(r.Answer, a) {
			return fmt.Sprintf("the review page shows %q for %q", cutText(r.Answer, 60), cutText(r.Question, 60))
		}
	}
	return ""
}

func reviewSame(shown string, a act) bool {
	if len(a.numbers) == 0 && a.text == "" { // nothing but notes
		return true
	}
	return Same(shown, a.reviewed())
}

func hasPreview(o state.Option) bool { return o.Preview != "" }

// cursorRow is the number of the row that ❯ stands on; 0 for one without a number, or off the screen.
func cursorRow(s Screen) int { return s.cursor().Number }

// moveTo moves the cursor to a row, one key at a time. A list is a ring: above the first row is the field for own
// words in a multi-select, which is the way there.
func (h *hand) moveTo(ctx context.Context, number int) error {
	if h.t.DryRun {
		h.out.Steps = append(h.out.Steps, "the cursor to row "+string(KeyDigit(number)))
		h.page.cursor = number
		return nil
	}
	for range 2 * (len(h.page.act.prompt.Options) + 4) {
		at := cursorRow(h.screen)
		if at == number {
			h.page.cursor = number
			return nil
		}
		k := KeyDown
		if at == 0 || at > number {
			k = KeyUp
		}
		now := h.page
		now.cursor = at
		s := key(k)
		s.before = now.differs
		s.after = func(after Screen) (seen, string) {
			moved := now
			if moved.cursor = cursorRow(after); moved.cursor != 0 && moved.cursor != at && moved.differs(after) == "" {
				return done, ""
			}
			if now.differs(after) == "" {
				return notYet, ""
			}
			return unlike, moved.differs(after)
		}
		if err := h.send(ctx, s); err != nil {
			return err
		}
		h.page.cursor = cursorRow(h.screen)
	}
	return errors.New("the cursor does not go where it should")
}

// insist sends a key that may get lost, as 2.1.329 loses those that meet a page just drawn. It is sent a second time only
// when it can never come to effect any more: a cursor key sent after it has moved the cursor, and keys keep their order.
func (h *hand) insist(ctx context.Context, s step) error {
	err := h.send(ctx, s)
	if !errors.Is(err, errNoEffect) || h.page.text != "" || h.page.noting || len(s.leaves) != 1 && s.name != string(KeyTab) {
		return err
	}
	at := cursorRow(h.screen)
	if at == 0 || h.screen.Kind == Question && at == h.page.act.field() {
		return err
	}
	there, back := KeyDown, KeyUp
	if at > 1 {
		there, back = KeyUp, KeyDown
	}
	for _, probe := range []Key{there, back} {
		p := key(probe)
		from := cursorRow(h.screen)
		p.before = h.around
		p.after = func(now Screen) (seen, string) {
			switch {
			case h.around(now) != "":
				return unlike, "the dialog changed in the terminal"
			case cursorRow(now) == from:
				return notYet, ""
			}
			return done, ""
		}
		h.page.cursor = 0
		if err := h.send(ctx, p); err != nil {
			return err
		}
	}
	return h.send(ctx, s)
}

// around says what differs on the open page, wherever the cursor stands.
func (h *hand) around(now Screen) string {
	if now.Kind == Review {
		return reviewDiffers(now, h.acts)
	}
	anywhere := h.page
	anywhere.cursor = cursorRow(now)
	return anywhere.differs(now)
}
