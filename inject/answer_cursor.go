package inject

import (
	"context"
	"errors"

	"gchat-hooks/state"
)

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
