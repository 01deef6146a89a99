package inject

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// step is one key or chunk of text, with how the screen must be before it and what it should come to.
type step struct {
	name   string // for the journal and the dry run
	leaves string // the text it would leave in the input box, had the dialog closed before it came
	commit bool   // it may hand the answer to Claude
	do     func(context.Context, Target) error
	before func(Screen) string
	after  func(Screen) (seen, string)
}

func key(k Key) step {
	s := step{name: string(k), do: func(ctx context.Context, at Target) error { return at.Server.Key(ctx, at.Pane, k) }}
	if len(k) == 1 {
		s.leaves = string(k)
	}
	return s
}

// answer goes through the dialog page by page.
func (h *hand) answer(ctx context.Context) error {
	for i := range h.acts {
		if i > 0 {
			h.page = h.open(i)
			if err := h.settled(ctx, h.page.differs); err != nil {
				return err
			}
		}
		h.page.act = h.acts[i].drawn(h.previews(i))
		h.acts[i], h.aim = h.page.act, h.page
		if err := h.fill(ctx); err != nil {
			return err
		}
		h.gave = i + 1
	}
	if !h.reviewed() {
		return nil
	}
	review := func(s Screen) string { return reviewDiffers(s, h.acts) }
	if err := h.settled(ctx, review); err != nil {
		return err
	}
	submit := key(KeyDigit(1))
	submit.commit, submit.before = true, review
	submit.after = func(s Screen) (seen, string) {
		if reviewDiffers(s, h.acts) == "" {
			return notYet, ""
		}
		return h.gone(s)
	}
	return h.insist(ctx, submit)
}

// settled is steady, which a dry run must take as given after the first page.
func (h *hand) settled(ctx context.Context, differs func(Screen) string) error {
	if h.t.DryRun {
		return nil
	}
	return h.steady(ctx, differs)
}

// open is a question's page before anything was done to it.
func (h *hand) open(i int) page {
	return page{act: h.acts[i], index: i, of: len(h.acts), ticks: map[int]bool{}}
}

// reviewed says whether the dialog ends on a page that shows the answers: only one single choice has none.
func (h *hand) reviewed() bool { return len(h.acts) > 1 || h.acts[0].prompt.MultiSelect }

// previews says whether the page is drawn with previews; a dry run can only see the first.
func (h *hand) previews(i int) bool {
	if h.t.DryRun && i > 0 {
		return h.screen.Preview && slices.ContainsFunc(h.acts[i].prompt.Options, hasPreview)
	}
	return h.screen.Preview
}

// fill answers the page that is open and leaves it.
func (h *hand) fill(ctx context.Context) error {
	a := h.page.act
	if h.page.cursor == a.field() && a.text == "" { // digits would be typed into the field
		if err := h.moveTo(ctx, a.field()-1); err != nil {
			return err
		}
	}
	switch {
	case a.prompt.MultiSelect:
		return h.fillMany(ctx)
	case a.notes != "":
		return h.fillNotes(ctx)
	case a.text != "":
		return h.fillWords(ctx)
	}
	if h.screen.Preview { // there a digit only moves the cursor (2.1.197, 2.1.329)
		if err := h.moveTo(ctx, a.numbers[0]); err != nil {
			return err
		}
		return h.leave(ctx, key(KeyEnter))
	}
	// One digit chooses and submits: there is nothing in between that another key could change.
	return h.leave(ctx, key(KeyDigit(a.numbers[0])))
}

// fillWords: the number of the field moves the cursor there; then its label is replaced by what is typed.
func (h *hand) fillWords(ctx context.Context) error {
	there := h.page
	there.cursor = h.page.act.field()
	if h.page.cursor != there.cursor {
		if err := h.change(ctx, key(KeyDigit(there.cursor)), there); err != nil {
			return err
		}
	}
	if err := h.write(ctx, h.page.act.text); err != nil {
		return err
	}
	return h.leave(ctx, key(KeyEnter))
}

// fillMany: own words first, for 2.1.197 takes them into the answer only when a row is ticked after they were typed
// and the cursor has left them; then the ticks by their numbers, which leave the cursor where it is; then the next page.
func (h *hand) fillMany(ctx context.Context) error {
	a := h.page.act
	if a.text != "" {
		if err := h.fillField(ctx); err != nil {
			return err
		}
	}
	for _, n := range a.numbers {
		if err := h.tick(ctx, n, true); err != nil {
			return err
		}
	}
	return h.leave(ctx, key(KeyTab))
}

func (h *hand) fillField(ctx context.Context) error {
	a := h.page.act
	if err := h.moveTo(ctx, a.field()); err != nil {
		return err
	}
	if err := h.write(ctx, a.text); err != nil {
		return err
	}
	up := h.page
	up.cursor = a.field() - 1
	if err := h.change(ctx, key(KeyUp), up); err != nil {
		return err
	}
	if len(a.numbers) > 0 {
		return nil
	}
	// Nothing will be ticked after it: 2.1.197 needs the field's own tick set again.
	if err := h.tick(ctx, a.field(), false); err != nil {
		return err
	}
	return h.tick(ctx, a.field(), true)
}

// tick sets or takes away one tick.
func (h *hand) tick(ctx context.Context, number int, on bool) error {
	next := h.page
	next.ticks = maps.Clone(next.ticks)
	next.ticks[number] = on
	return h.change(ctx, key(KeyDigit(number)), next)
}

// fillNotes: on the chosen option, n opens the field for notes. Enter in it hands in the notes alone; Escape leaves it,
// and then Enter chooses the option with them (2.1.197, 2.1.329).
func (h *hand) fillNotes(ctx context.Context) error {
	a := h.page.act
	if len(a.numbers) > 0 {
		if err := h.moveTo(ctx, a.numbers[0]); err != nil {
			return err
		}
	}
	noting := h.page
	noting.noting = true
	if err := h.change(ctx, key(KeyNotes), noting); err != nil {
		return err
	}
	if err := h.write(ctx, a.notes); err != nil {
		return err
	}
	if len(a.numbers) > 0 {
		left := h.page
		left.noting = false
		if err := h.change(ctx, key(KeyEscape), left); err != nil {
			return err
		}
	}
	return h.leave(ctx, key(KeyEnter))
}

// write types a text into the field that has the keys: one character, and when that stands there the rest in one piece,
// pasted, for so a line break is no Enter.
func (h *hand) write(ctx context.Context, text string) error {
	first, rest := firstPart(typed(text))
	if err := h.writePart(ctx, first); err != nil {
		return err
	}
	if rest != "" {
		if err := h.writePart(ctx, rest); err != nil {
			return err
		}
	}
	// A person's key that follows a paste closely is drawn late: 2 of 15 in races with 2.1.329 went unseen before Enter.
	return h.settled(ctx, h.page.differs)
}

func (h *hand) writePart(ctx context.Context, part string) error {
	next := h.page
	if next.noting {
		next.notes += part
	} else {
		next.text += part
		if next.act.prompt.MultiSelect { // typing ticks the row
			next.ticks = maps.Clone(next.ticks)
			next.ticks[next.act.field()] = true
		}
	}
	return h.change(ctx, step{
		name:   "text: " + cutText(strings.ReplaceAll(part, "\n", "⏎"), 60),
		leaves: part,
		do: func(ctx context.Context, at Target) error {
			if utf8.RuneCountInString(part) > 2 || strings.Contains(part, "\n") {
				return at.Server.Paste(ctx, at.Pane, part)
			}
			return at.Server.Type(ctx, at.Pane, part)
		},
	}, next)
}

func (h *hand) change(ctx context.Context, s step, next page) error {
	now := h.page
	h.aim = next
	s.before = now.differs
	s.after = func(seenNow Screen) (seen, string) {
		why := next.differs(seenNow)
		switch {
		case why == "":
			return done, ""
		case now.differs(seenNow) == "":
			return notYet, ""
		}
		return unlike, why
	}
	if err := h.insist(ctx, s); err != nil {
		return err
	}
	h.page = next
	return nil
}

// leave presses the key that finishes the page, and waits for what comes after it.
func (h *hand) leave(ctx context.Context, s step) error {
	now, next := h.page, h.page.index+1
	h.aim = h.page
	s.before = now.differs
	s.commit = next == len(h.acts) && !h.reviewed()
	s.after = func(seenNow Screen) (seen, string) {
		switch {
		case now.differs(seenNow) == "":
			return notYet, ""
		case s.commit:
			return h.gone(seenNow)
		case next == len(h.acts) && seenNow.Kind == Review:
			return done, ""
		case next < len(h.acts) && h.open(next).differs(seenNow) == "":
			return done, ""
		}
		return unlike, asks(seenNow, now.act.prompt)
	}
	return h.insist(ctx, s)
}

// gone says whether the dialog has closed: something else of Claude Code's is there.
func (h *hand) gone(s Screen) (seen, string) {
	switch s.Kind {
	case Prompt, Draft, Permission:
		return done, ""
	case Question:
		for _, a := range h.acts {
			if asks(s, a.prompt) == "" {
				return unlike, "the dialog has changed in the terminal"
			}
		}
		return done, ""
	}
	return unlike, notTheDialog(s)
}
