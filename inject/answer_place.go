package inject

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// notNow is why an answer cannot be typed at this moment, though it may at another.
type notNow string

func (n notNow) Error() string { return string(n) }

// closed is why an answer cannot be typed any more: its dialog is not open.
type closed string

func (c closed) Error() string { return string(c) }

// missing is the error of a pane that was asked for.
func missing(err error) error {
	if errors.Is(err, ErrNoPane) || errors.Is(err, ErrNoServer) {
		return closed("its tmux pane is closed")
	}
	return err
}

// arrive makes sure that keys would reach the Claude Code that asked and that its dialog is open, untouched and steady.
func (h *hand) arrive(ctx context.Context) error {
	p, err := h.at.Server.Pane(ctx, h.at.Pane)
	if err != nil {
		return missing(err)
	}
	last, err := h.at.Server.LastTyped(ctx, p)
	if err != nil {
		return missing(err)
	}
	if p.InMode {
		if err := h.unscroll(ctx, last); err != nil {
			return err
		}
	}
	if recent(last, cmp.Or(h.t.Quiet, quiet)) {
		return notNow("somebody is typing in that pane")
	}
	h.lastTyped = last
	if err := h.mayType(ctx); err != nil {
		return err
	}
	h.page = h.open(0)
	if err := h.steady(ctx, h.untouched); err != nil {
		if h.screen.Kind == Prompt || h.screen.Kind == Draft {
			return closed(err.Error())
		}
		return err
	}
	// A dialog that fills its pane hides what was said before it; it stands there again when the dialog closes.
	said, err := h.at.Server.History(ctx, h.at.Pane, 400)
	if err != nil {
		return missing(err)
	}
	h.record = lastRecord(said)
	return nil
}

// recent says whether that was less than so long ago. A time to come is of a clock that was set back since: it says nothing,
// and must not hold the answer until then.
func recent(at time.Time, ago time.Duration) bool {
	d := time.Since(at)
	return d < ago && d > -2*time.Second // tmux counts whole seconds
}

// untouched says why the first page is not as it was asked. A person may have left the cursor on the empty field.
func (h *hand) untouched(s Screen) string {
	h.page.cursor = 0
	if at := cursorRow(s); s.Kind == Question && at == h.page.act.field() && fieldText(s) == "" {
		h.page.cursor = at
	}
	return h.page.differs(s)
}

// unscroll sets a pane right that was left scrolled back: tmux would take the keys for its own. A person who scrolled a
// moment ago reads there and is left alone.
func (h *hand) unscroll(ctx context.Context, last time.Time) error {
	if recent(last, cmp.Or(h.t.Idle, idle)) {
		return notNow("the pane is scrolled back and somebody was there a moment ago")
	}
	if h.t.DryRun {
		return nil
	}
	return h.at.Server.Unscroll(ctx, h.at.Pane)
}

// mayType says whether keys would reach the Claude Code that asked, and no person types.
func (h *hand) mayType(ctx context.Context) error {
	p, err := h.at.Server.Pane(ctx, h.at.Pane)
	switch {
	case err != nil:
		return missing(err)
	case p.Dead:
		return closed("what ran in its pane has ended")
	case p.InMode && !h.t.DryRun:
		return notNow("the pane is scrolled back or in another mode of tmux")
	case p.InputOff:
		return notNow("the pane's input is switched off")
	case p.Synchronized:
		return notNow("what is typed in that pane goes to all panes of its window")
	}
	if _, err := p.Claude(h.at.ClaudePID, h.at.ClaudeStart); err != nil {
		return err
	}
	h.at.Server.Front = p.Program
	last, err := h.at.Server.LastTyped(ctx, p)
	if err != nil {
		return missing(err)
	}
	if last.After(h.lastTyped) {
		return notNow("somebody is typing in that pane")
	}
	return nil
}
