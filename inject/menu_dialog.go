package inject

import (
	"context"
	"fmt"
	"reflect"
	"time"
)

const (
	effect = 10 * time.Second
	// longest is how many times the cursor is moved at most: no dialog has more rows.
	longest = 20
)

func (s Screen) dialog() bool { return s.Kind == Question || s.Kind == Review || s.Kind == Permission }

// row is the row with this number.
func (s Screen) row(n int) (Row, bool) {
	for _, r := range s.Rows {
		if n > 0 && r.Number == n {
			return r, true
		}
	}
	return Row{}, false
}

// cursor is the row that the cursor stands on.
func (s Screen) cursor() Row {
	for _, r := range s.Rows {
		if r.Cursor {
			return r
		}
	}
	return Row{}
}

// choose takes the row numbered n. In a multi-select that ticks it, or takes the tick away; elsewhere it is the answer.
func (d *driver) choose(ctx context.Context, n int) error {
	if d.Force {
		return d.press(ctx, KeyDigit(n))
	}
	s, err := d.steady(ctx)
	if err != nil {
		return err
	}
	switch {
	case !s.dialog():
		return d.refuse("no dialog is open; the screen shows %s", shown(s))
	case s.Noting:
		return d.refuse("a note is being written: a digit would become part of it")
	}
	row, ok := s.row(n)
	if !ok && s.Kind == Question && (s.Below || s.Above) {
		if s, err = d.moveTo(ctx, s, func(r Row) bool { return r.Number == n }); err != nil {
			return err
		}
		row, ok = s.row(n)
	}
	if !ok {
		return d.refuse("no row is numbered %d; the screen shows %s", n, shown(s))
	}
	if row.Kind == OtherRow { // its digit ticks it in a multi-select and leaves the cursor where it was (2.1.329)
		_, err := d.moveTo(ctx, s, func(r Row) bool { return r.Kind == OtherRow })
		return err
	}
	if at := s.cursor(); at.Kind == OtherRow { // where digits are text
		if at.Text != "" && !s.Multi {
			return d.refuse("the row \"Type something\" holds a text that would be lost: %q", cutText(at.Text, 80))
		}
		if s, err = d.moveTo(ctx, s, func(r Row) bool { return r.Kind != OtherRow }); err != nil {
			return err
		}
	}
	if err := d.press(ctx, KeyDigit(n)); err != nil {
		return err
	}
	done := func(now Screen) bool {
		then, there := now.row(n)
		return !sameDialog(now, s) || s.Multi && there && then.Ticked != row.Ticked
	}
	if s.Preview { // there a digit only moves the cursor
		now, seen, err := d.await(ctx, effect, func(now Screen) bool { return done(now) || now.cursor().Number == n })
		if err != nil {
			return err
		}
		if seen && !done(now) {
			if err := d.press(ctx, KeyEnter); err != nil {
				return err
			}
		}
	}
	return d.expect(ctx, effect, fmt.Sprintf("pressed %d", n), done)
}

// moveTo moves the cursor, row by row, to the first row that is wanted.
func (d *driver) moveTo(ctx context.Context, s Screen, wanted func(Row) bool) (Screen, error) {
	for range longest {
		if wanted(s.cursor()) {
			return s, nil
		}
		key := KeyDown
		for _, r := range s.Rows {
			if r.Cursor {
				break
			}
			if wanted(r) {
				key = KeyUp
			}
		}
		from := s.cursor()
		if err := d.press(ctx, key); err != nil {
			return s, err
		}
		now, seen, err := d.await(ctx, effect, func(now Screen) bool {
			at := now.cursor()
			return now.Kind != s.Kind || at.Number != from.Number || at.Kind != from.Kind
		})
		if err != nil {
			return s, err
		}
		if !seen || now.Kind != s.Kind {
			return s, d.unseen(now, "moved the cursor")
		}
		s = now
	}
	return s, d.unseen(s, "moved the cursor")
}

// enter presses Enter where it does something. An empty input box may hold a suggestion, which Enter would send.
func (d *driver) enter(ctx context.Context) error {
	if d.Force {
		return d.press(ctx, KeyEnter)
	}
	s, err := d.steady(ctx)
	if err != nil {
		return err
	}
	if s.Kind != Draft && !s.dialog() {
		return d.refuse("nothing waits for Enter; the screen shows %s", shown(s))
	}
	if err := d.press(ctx, KeyEnter); err != nil {
		return err
	}
	return d.expect(ctx, effect, "pressed Enter", func(now Screen) bool {
		now.Busy = s.Busy
		return !reflect.DeepEqual(now, s)
	})
}

// esc leaves a dialog or interrupts Claude. An idle input box is left alone: a second Esc there would rewind the
// conversation, or clear what a person has begun to write.
func (d *driver) esc(ctx context.Context) error {
	if d.Force {
		return d.press(ctx, KeyEscape)
	}
	s, err := d.steady(ctx)
	if err != nil {
		return err
	}
	if !s.dialog() && !(s.Busy && (s.Kind == Prompt || s.Kind == Draft)) {
		return d.refuse("nothing to leave or to interrupt; the screen shows %s", shown(s))
	}
	if err := d.press(ctx, KeyEscape); err != nil {
		return err
	}
	return d.expect(ctx, 2*effect, "pressed Esc", func(now Screen) bool {
		if s.dialog() {
			return !sameDialog(now, s)
		}
		return !now.Busy
	})
}

// submit sends the text in the input box, the answers of a multi-select, those of the review page, or the words typed
// as an answer.
func (d *driver) submit(ctx context.Context) error {
	if d.Force {
		return d.press(ctx, KeyEnter)
	}
	s, err := d.steady(ctx)
	if err != nil {
		return err
	}
	switch {
	case s.Kind == Draft:
		return d.send(ctx)
	case s.Kind == Review:
		return d.choose(ctx, 1)
	case s.Kind == Question && s.Multi && !s.Noting:
		if s, err = d.moveTo(ctx, s, func(r Row) bool { return r.Kind == SubmitRow }); err != nil {
			return err
		}
	case s.Kind == Question && s.cursor().Kind == OtherRow && s.cursor().Text != "":
	default:
		return d.refuse("nothing to submit; the screen shows %s", shown(s))
	}
	if err := d.press(ctx, KeyEnter); err != nil {
		return err
	}
	return d.expect(ctx, effect, "submitted", func(now Screen) bool { return !sameDialog(now, s) })
}

func (d *driver) press(ctx context.Context, key Key) error { return d.Server.Key(ctx, d.pane.ID, key) }

// expect waits for an effect; without it, what was done may have been for nothing.
func (d *driver) expect(ctx context.Context, patience time.Duration, what string, ok func(Screen) bool) error {
	s, seen, err := d.await(ctx, patience, ok)
	if err == nil && !seen {
		err = d.unseen(s, what)
	}
	return err
}
