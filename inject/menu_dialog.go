package inject

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
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

// typeText puts a text where one is wanted, and nowhere else.
func (d *driver) typeText(ctx context.Context, text string) error {
	s, err := d.look(ctx)
	if err != nil {
		return err
	}
	if s.Kind == Question && s.cursor().Kind == OtherRow && !s.Noting {
		return d.typeAnswer(ctx, s, text)
	}
	if !d.Force {
		switch {
		case s.Kind == Draft:
			return d.refuse("the input box already holds a text: %q", cutText(s.Draft, 80))
		case s.Kind == Question && s.Multi, s.Kind == Question && !s.Preview:
			return d.refuse("the cursor is not on the row \"Type something\": choose it first; the screen shows %s", shown(s))
		case s.Kind != Prompt:
			return d.refuse("no place for a text; the screen shows %s", shown(s))
		}
	}
	if err := d.Server.Paste(ctx, d.pane.ID, text); err != nil || d.Force {
		return err
	}
	return d.expect(ctx, effect, "pasted the text", func(now Screen) bool { return now.Kind == Draft && holds(now.Draft, text) })
}

// typeAnswer types into the row "Type something". A line break there would send the first line.
func (d *driver) typeAnswer(ctx context.Context, s Screen, text string) error {
	if was := s.cursor().Text; was != "" && !d.Force {
		return d.refuse("the row \"Type something\" already holds a text: %q", cutText(was, 80))
	}
	text = strings.Join(strings.Fields(text), " ")
	if err := d.Server.Type(ctx, d.pane.ID, text); err != nil || d.Force {
		return err
	}
	return d.expect(ctx, effect, "typed the text", func(now Screen) bool {
		at := now.cursor()
		return at.Kind == OtherRow && Same(at.Text, text)
	})
}

// collapsed is how the input box shows a long paste: "[Pasted text #1 +4 lines]".
var collapsed = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\[Pasted text #\d+( \+\d+ lines?)?\]$`)
})

// holds says whether a draft is the text that was pasted: all of it, the stand-in for a long one, or its end, where the box
// is too small for the rest.
func holds(draft, text string) bool {
	if Same(draft, text) {
		return true
	}
	if collapsed().MatchString(strings.TrimSpace(draft)) {
		return strings.Contains(text, "\n") || utf8.RuneCountInString(text) > 200
	}
	return utf8.RuneCountInString(squeeze(draft)) > 40 && strings.HasSuffix(squeeze(text), squeeze(draft))
}

// send presses Enter on the text in the input box and waits until it has left the box. A command may have opened a menu
// that is not known here; that counts when it stays.
func (d *driver) send(ctx context.Context) error {
	if err := d.press(ctx, KeyEnter); err != nil {
		return err
	}
	var since time.Time
	return d.expect(ctx, effect, "pressed Enter", func(now Screen) bool {
		if now.Kind != Unknown {
			since = time.Time{}
			return now.Kind != Draft
		}
		if since.IsZero() {
			since = time.Now()
		}
		return time.Since(since) >= 2*settled
	})
}

// clearThen clears the conversation and then sends a command into the new one.
func (d *driver) clearThen(ctx context.Context, command string) error {
	const clearing = 60 * time.Second // it runs the hooks of SessionEnd and SessionStart
	if !d.Force {
		s, err := d.look(ctx)
		if err != nil {
			return err
		}
		if s.Kind != Prompt || s.Busy {
			return d.refuse("not idle at an empty input box; the screen shows %s", shown(s))
		}
	}
	for _, text := range []string{"/clear", command} {
		if err := d.pasteAndSend(ctx, text); err != nil {
			return err
		}
		if text == "/clear" { // what comes next would be typed into what it clears
			if err := d.awaitCleared(ctx, clearing); err != nil {
				return err
			}
		}
	}
	return nil
}

// pasteAndSend puts a text into the empty input box and presses Enter on it.
func (d *driver) pasteAndSend(ctx context.Context, text string) error {
	if err := d.Server.Paste(ctx, d.pane.ID, text); err != nil {
		return err
	}
	pasted := func(now Screen) bool { // 2.1.197 lists the commands that begin so below the box
		return (now.Kind == Draft || now.Kind == Unknown && strings.HasPrefix(text, "/")) && holds(now.Draft, text)
	}
	if err := d.expect(ctx, effect, "pasted the text", pasted); err != nil {
		return err
	}
	return d.send(ctx)
}

// awaitCleared waits until the conversation is cleared and stays so for a moment: Claude Code can be idle for some 60 ms
// before it clears, and a command typed then would be cleared too.
func (d *driver) awaitCleared(ctx context.Context, patience time.Duration) error {
	var since time.Time
	return d.expect(ctx, patience, "sent /clear", func(now Screen) bool {
		if now.Kind != Prompt || now.Busy || !d.cleared(ctx) {
			since = time.Time{}
			return false
		}
		if since.IsZero() {
			since = time.Now()
		}
		return time.Since(since) >= 2*settled
	})
}

// cleared says whether "/clear" is all that the conversation on the screen consists of, between the banner and the input
// box.
func (d *driver) cleared(ctx context.Context) bool {
	capture, err := d.Server.Capture(ctx, d.pane.ID)
	if err != nil {
		return false
	}
	lines := readCapture(capture)
	box := len(lines) - 1
	for rules := 0; box > 0; box-- {
		if rules > 0 && boxTop(lines[box]) {
			break
		} else if lines[box].rule() {
			rules++
		}
	}
	var said []string
	for _, l := range lines[:max(0, box)] {
		switch l.at(0) {
		case "❯", "●", "⏺": // a person's turn, and Claude's
			said = append(said, strings.TrimSpace(l.text))
		}
	}
	return len(said) == 1 && said[0] == "❯ /clear"
}
