package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// backOut ends an answer that cannot go on, and takes back what it left where each step can be seen to work. What was
// handed to another page of the dialog cannot be taken back.
func (h *hand) backOut(ctx context.Context, cause error) Outcome {
	if h.out.Keys == 0 {
		return h.ended(Unchanged, cause)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTime)
	defer cancel()
	h.backing = true
	left, err := h.takeBack(ctx)
	var gone closed
	if errors.As(err, &gone) { // it says more than what was noticed first
		cause, err = gone, nil
	}
	switch {
	case err != nil:
		return h.ended(Dirty, fmt.Errorf("%w; %s (%w)", cause, left, err))
	case left != "":
		return h.ended(Dirty, fmt.Errorf("%w; %s", cause, left))
	}
	return h.ended(Unchanged, cause)
}

// takeBack returns what it had to leave, for a person, "" for nothing.
func (h *hand) takeBack(ctx context.Context) (left string, err error) {
	const ticked = "a part of the answer stands in the dialog and was not submitted"
	if err := h.calm(ctx); err != nil {
		return "it is not known what of the answer arrived", err
	}
	if h.screen.Kind == Review && h.gave == 1 && len(h.acts) == 1 {
		review := func(s Screen) bool { return s.Kind == Review }
		back := func(s Screen) bool { return asks(s, h.page.act.prompt) == "" }
		if err := h.tap(ctx, KeyLeft, review, back); err != nil {
			return ticked, err
		}
		h.gave = 0
	}
	switch {
	case asks(h.screen, h.page.act.prompt) == "":
		if h.gave > 0 {
			const some = "%d of its %d questions are answered in the dialog, and nothing was submitted"
			return fmt.Sprintf(some, h.gave, len(h.acts)), nil
		}
		if err := h.undo(ctx); err != nil {
			return ticked, err
		}
		return "", nil
	case h.screen.Kind == Review || h.open(min(h.gave, len(h.acts)-1)).differs(h.screen) == "":
		return ticked, nil
	case h.screen.Kind == Unknown && h.closing:
		return "the answer may have been submitted", nil
	case h.screen.Kind == Unknown:
		return "the dialog cannot be seen any more: " + h.screen.Why, nil
	}
	mixed := h.gave > 0 || h.page.text+h.page.notes != "" || len(h.ours()) > 0
	if err := h.takeStray(ctx); err != nil {
		return fmt.Sprintf("%q may stand in the input box", cutText(h.last, 60)), err
	}
	switch {
	case mixed:
		return "Claude may have been told a part of it",
			closed("the dialog was closed in the terminal while the answer was being typed")
	case h.unseen && !h.strayed && h.last != "":
		return "or it was our key that closed it", closed("the question was answered or left in the terminal")
	}
	return "", closed("the question was answered or left in the terminal")
}

// calm waits until the screen says something definite, twice the same.
func (h *hand) calm(ctx context.Context) error {
	before := ""
	for deadline := time.Now().Add(cmp.Or(h.t.Patience, keyPatience)); ; {
		if err := h.look(ctx); err != nil {
			return err
		}
		if h.raw == before && h.screen.Kind != Unknown || asks(h.screen, h.page.act.prompt) == "" || time.Now().After(deadline) {
			return nil
		}
		before = h.raw
		if err := pause(ctx, nextLook); err != nil {
			return err
		}
	}
}

// ours are the rows that we ticked, or may have ticked with the last key.
func (h *hand) ours() []int {
	var rows []int
	for n := 1; n <= h.page.act.field(); n++ {
		if h.page.ticks[n] || h.aim.ticks[n] {
			rows = append(rows, n)
		}
	}
	return rows
}

// words are what we typed into a field, or may have typed there with the last key, with a little that a person typed
// after it; "" when what the field shows is something else.
func (h *hand) words(shown string) string {
	const little = 3
	for _, text := range []string{h.aim.text + h.aim.notes, h.page.text + h.page.notes} {
		ours, there := squeeze(text), squeeze(shown)
		more := utf8.RuneCountInString(there) - utf8.RuneCountInString(ours)
		if ours != "" && more <= little && strings.Contains(there, ours) || Begins(shown, text) {
			return shown
		}
	}
	return ""
}

// undo empties the field that we typed into and takes our ticks away.
func (h *hand) undo(ctx context.Context) error {
	field := h.page.act.field()
	inField := func(s Screen) (string, bool) { return fieldText(s), s.Kind == Question && cursorRow(s) == field }
	inNotes := func(s Screen) (string, bool) { return notesText(s), s.Kind == Question && s.Noting }
	if text, there := inNotes(h.screen); there {
		if text != "" && h.words(text) == "" {
			return errors.New("somebody typed there")
		}
		if err := h.erase(ctx, inNotes); err != nil {
			return err
		}
		noting := func(s Screen) bool { return s.Kind == Question && s.Noting }
		left := func(s Screen) bool { return s.Kind == Question && !s.Noting }
		if err := h.tap(ctx, KeyEscape, noting, left); err != nil {
			return err
		}
	} else if text != "" && h.words(text) != "" {
		return errors.New("the notes stand in the dialog")
	}
	text, there := inField(h.screen)
	switch ours := h.words(text) != ""; {
	case ours && there:
		if err := h.erase(ctx, inField); err != nil {
			return err
		}
	case ours:
		return errors.New("the text stands in the dialog")
	}
	return h.untick(ctx)
}

// untick takes our ticks away. Digits would be typed into the field, so the cursor leaves it first.
func (h *hand) untick(ctx context.Context) error {
	field := h.page.act.field()
	for _, n := range h.ours() {
		if !isTicked(h.screen, n) {
			continue
		}
		if cursorRow(h.screen) == field {
			on := func(s Screen) bool { return s.Kind == Question && cursorRow(s) == field }
			above := func(s Screen) bool { return s.Kind == Question && cursorRow(s) == field-1 }
			if err := h.tap(ctx, KeyUp, on, above); err != nil {
				return err
			}
		}
		ticked := func(s Screen) bool {
			return asks(s, h.page.act.prompt) == "" && isTicked(s, n) && cursorRow(s) != field
		}
		unticked := func(s Screen) bool { return s.Kind == Question && !isTicked(s, n) }
		if err := h.tap(ctx, KeyDigit(n), ticked, unticked); err != nil {
			return err
		}
	}
	return nil
}

func isTicked(s Screen, number int) bool {
	return slices.ContainsFunc(s.Rows, func(r Row) bool { return r.Number == number && r.Ticked })
}

func fieldText(s Screen) string {
	for _, r := range s.Rows {
		if r.Kind == OtherRow {
			return r.Text
		}
	}
	return ""
}

func notesText(s Screen) string {
	if emptyNotes(s.Notes) {
		return ""
	}
	return s.Notes
}

// strayText is what the input box shows for a text that was pasted into it.
var strayPaste = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^.?\[Pasted text #\d+( \+\d+ lines?)?\]$`)
})

// takeStray looks for a moment whether the last key or text stands alone in the input box: then the dialog had closed
// before it came. It is taken back when the box holds exactly that. The moment ends when the conversation shows that the
// answer is ours.
func (h *hand) takeStray(ctx context.Context) error {
	for deadline := time.Now().Add(strayTime); ; {
		r, there := h.news()
		ours := there && !r.theirs(h.acts)
		if h.last != "" && h.screen.Kind == Draft {
			switch {
			case Same(h.screen.Draft, h.last), len(h.last) > 1 && strayPaste().MatchString(h.screen.Draft):
				h.strayed = true
				return h.erase(ctx, func(s Screen) (string, bool) { return s.Draft, s.Kind == Draft || s.Kind == Prompt })
			case !ours && strings.HasSuffix(squeeze(h.screen.Draft), squeeze(h.last)):
				h.strayed = true
				return errors.New("there is more in the box")
			}
		}
		if ours || there && h.last == "" || time.Now().After(deadline) {
			return nil
		}
		if err := pause(ctx, nextLook/2); err != nil {
			return err
		}
		if err := h.look(ctx); err != nil {
			return err
		}
	}
}

// erase empties a field by C-u (a line of the screen) and BackSpace, as long as what is left is the beginning of what was
// there.
func (h *hand) erase(ctx context.Context, shown func(Screen) (string, bool)) error {
	lost := 0
	for range 600 {
		now, there := shown(h.screen)
		switch {
		case !there:
			return errors.New("it changed in the terminal")
		case now == "":
			return nil
		case lost > 2:
			return errors.New("it does not go away")
		}
		k := KeyBackSpace
		if utf8.RuneCountInString(now) > 1 && lost%2 == 0 {
			k = KeyClear
		}
		same := func(s Screen) bool {
			text, there := shown(s)
			return there && text == now
		}
		shorter := func(s Screen) bool {
			rest, there := shown(s)
			return there && rest != now && (rest == "" || Begins(rest, now))
		}
		err := h.tap(ctx, k, same, shorter)
		switch {
		case errors.Is(err, errNoEffect):
			lost++
		case err != nil:
			return err
		default:
			lost = 0
		}
	}
	return errors.New("it is too long")
}

// tap sends a key that takes something back.
func (h *hand) tap(ctx context.Context, k Key, still, worked func(Screen) bool) error {
	const changed = "the screen changed in the terminal"
	s := key(k)
	s.before = func(s Screen) string {
		if !still(s) {
			return changed
		}
		return ""
	}
	s.after = func(s Screen) (seen, string) {
		switch {
		case worked(s):
			return done, ""
		case still(s):
			return notYet, ""
		}
		return unlike, changed
	}
	return h.send(ctx, s)
}
