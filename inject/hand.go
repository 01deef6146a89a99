package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
)

// hand is one answer on its way: where it goes, what is to be done, and how the dialog must look by now.
type hand struct {
	t    Typist
	at   Target
	acts []act

	lastTyped time.Time // by a person, when it began
	page      page      // the page that is open, as it must look
	aim       page      // as it should look after the last key
	gave      int       // questions whose page was left with our answer
	closing   bool      // the last key may have handed the answer to Claude
	unseen    bool      // the effect of the last key was not seen
	backing   bool      // what was typed is being taken back
	strayed   bool      // it stood in the input box
	last      string    // what was sent last, as it would stand in the input box; "" for a key that leaves no text
	record    record    // of an earlier dialog, as it was on the screen when it began
	raw       string    // the last capture
	screen    Screen    // and what it shows
	out       Outcome
}

// wrong is something on the screen that is not as it must be.
type wrong string

func (w wrong) Error() string { return string(w) }

func (h *hand) look(ctx context.Context) error {
	raw, err := h.at.Server.Capture(ctx, h.at.Pane)
	if err != nil {
		return missing(err)
	}
	h.raw, h.screen = raw, ReadScreen(raw)
	return nil
}

// steady waits until the screen has been the same, and as it must be, for the settling time: a page may be half drawn,
// or so young that it takes no keys.
func (h *hand) steady(ctx context.Context, differs func(Screen) string) error {
	since, before := time.Time{}, ""
	deadline := time.Now().Add(cmp.Or(h.t.Patience, keyPatience))
	for first := true; ; first = false {
		if err := h.look(ctx); err != nil {
			return err
		}
		now, why := time.Now(), differs(h.screen)
		if first || h.raw != before {
			before, since = h.raw, now
		}
		if now.Sub(since) >= cmp.Or(h.t.Settle, settle) {
			if why == "" {
				return nil
			}
			if h.screen.Kind != Unknown {
				return wrong(why)
			}
		}
		if now.After(deadline) {
			if why == "" { // something beside the dialog moves, such as a clock in the status line
				return nil
			}
			return wrong(why)
		}
		if err := pause(ctx, nextLook); err != nil {
			return err
		}
	}
}

// seen is what a look at the screen says about the last key.
type seen int

const (
	notYet seen = iota
	done
	unlike // neither as before the key nor as it should be after it
)

// send gives the pane one key or chunk of text: it makes sure of the place and the screen, and waits for the effect.
func (h *hand) send(ctx context.Context, s step) error {
	if h.t.DryRun { // the place and the first page were looked at; the screen will not change
		h.out.Steps = append(h.out.Steps, s.name)
		return nil
	}
	if !h.backing { // what takes back must be quick, and looks at the screen all the same
		if err := h.mayType(ctx); err != nil {
			return err
		}
	}
	if h.t.Before != nil {
		if err := h.t.Before(s.name, s.commit); err != nil && !h.backing {
			return fmt.Errorf("write down the key: %w", err)
		}
	}
	if err := h.look(ctx); err != nil {
		return err
	}
	if why := s.before(h.screen); why != "" {
		return wrong(why)
	}
	h.out.Steps = append(h.out.Steps, s.name)
	h.out.Keys++
	h.unseen = true
	if !h.backing {
		h.last, h.closing = s.leaves, s.commit
	}
	if err := s.do(ctx, h.at); err != nil {
		if errors.Is(err, ErrNoKeys) {
			h.out.Keys--
			return notNow(fmt.Sprintf("while the answer was typed, %v", err))
		}
		return err
	}
	err := h.await(ctx, s.after)
	h.unseen = err != nil
	return err
}

// errNoEffect says that the screen stayed as it was.
var errNoEffect = errors.New("a key had no effect")

// await polls the screen until the key has had its effect. What is unlike everything expected must be seen twice: a
// capture can catch a screen half drawn.
func (h *hand) await(ctx context.Context, after func(Screen) (seen, string)) error {
	limit := cmp.Or(h.t.Patience, keyPatience)
	if h.backing {
		limit = min(limit, backPatience)
	}
	deadline := time.Now().Add(limit)
	strange := ""
	for wait := firstLook; ; wait = min(wait*2, nextLook) {
		if err := pause(ctx, wait); err != nil {
			return err
		}
		if err := h.look(ctx); err != nil {
			return err
		}
		what, why := after(h.screen)
		switch {
		case what == done:
			return nil
		case what == unlike && h.screen.Kind != Unknown && strange == h.raw:
			return wrong(why)
		case time.Now().After(deadline) && what == notYet:
			return errNoEffect
		case time.Now().After(deadline):
			return wrong(why)
		}
		strange = ""
		if what == unlike {
			strange = h.raw
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// ended is the outcome, with what the screen shows.
func (h *hand) ended(r Result, err error) Outcome {
	h.out.Result = r
	if err != nil {
		h.out.Why = err.Error()
	}
	var later notNow
	var gone closed
	h.out.Later = errors.As(err, &later)
	h.out.Gone = errors.As(err, &gone) || r != Injected && h.screen.Kind == Prompt && !h.screen.Busy
	h.out.Screen = readable(h.raw)
	return h.out
}

var styles = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\x1b(\[[0-9;:]*[A-Za-z]|\][^\x07\x1b]*(\x07|\x1b\\))`)
})

// readable is the end of a capture as a person reads it.
func readable(raw string) string {
	lines := strings.Split(strings.TrimSpace(styles().ReplaceAllString(raw, "")), "\n")
	return strings.Join(lines[max(0, len(lines)-screenLines):], "\n")
}
