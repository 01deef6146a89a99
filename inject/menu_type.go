package inject

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

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
