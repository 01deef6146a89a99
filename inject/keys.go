package inject

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gchat-hooks/state"
)

// Key is a key by tmux's name for it. Only the keys below can be pressed, so that no text
// can be taken for a key.
type Key string

// The keys that Claude Code's screens ask for, and C-u, which clears its input box.
const (
	KeyUp     Key = "Up"
	KeyDown   Key = "Down"
	KeyEnter  Key = "Enter"
	KeyEscape Key = "Escape"
	KeyTab    Key = "Tab"
	KeyClear  Key = "C-u" // clears from the cursor to the beginning of the line

	// keyClearLine clears a line and goes to the end of the line above it. It may be
	// repeated, and KeyClear follows it.
	keyClearLine Key = KeyClear + " BSpace "
)

// KeyDigit returns the key of a digit from 1 to 9. For other numbers it returns a key
// that cannot be pressed.
func KeyDigit(n int) Key {
	if n < 1 || n > 9 {
		return ""
	}
	return Key(strconv.Itoa(n))
}

func (k Key) isKnown() bool {
	names := []Key{KeyUp, KeyDown, KeyEnter, KeyEscape, KeyTab, KeyClear}
	key := Key(strings.ReplaceAll(string(k), string(keyClearLine), ""))
	return slices.Contains(names, key) || len(k) == 1 && k[0] >= '1' && k[0] <= '9'
}

// PressKey presses one key in the pane. It returns ErrNoKeys if tmux would keep the key
// from the pane's program.
func (s Server) PressKey(ctx context.Context, pane string, key Key) error {
	return s.pressKeyGuarded(ctx, pane, key, guard{})
}

// pressKeyGuarded presses a key if the guard's conditions hold. Otherwise it returns
// ErrNoKeys, which also wraps ErrLate if the time is up.
func (s Server) pressKeyGuarded(ctx context.Context, pane string, key Key, g guard) error {
	if !key.isKnown() {
		return fmt.Errorf("press key: %q is not an allowed key", string(key))
	}
	if err := s.runGuarded(ctx, pane, "send-keys -t "+pane+" "+string(key), g); err != nil {
		return fmt.Errorf("press %s: %w", key, err)
	}
	return nil
}

// PasteText pastes text into the pane as a person pastes from a clipboard. If the program
// has asked for bracketed pastes, as Claude Code does, several lines arrive as one text
// (-p), with their own line breaks (-r). PasteText refuses a text that state.Clean would
// change, because an escape sequence in it could end the paste early. A tmux buffer of
// our own carries the text, and it is deleted even if nothing was pasted.
func (s Server) PasteText(ctx context.Context, pane, text string) error {
	return s.pasteTextGuarded(ctx, pane, text, guard{})
}

// pasteTextGuarded pastes a text if the guard's conditions hold; see pressKeyGuarded.
func (s Server) pasteTextGuarded(ctx context.Context, pane, text string, g guard) (err error) {
	if state.Clean(state.ForTyping, text) != text {
		return errors.New("paste text: it has control characters or is not UTF-8")
	}
	if text == "" {
		return nil // tmux makes no empty buffer
	}
	buffer := "gchat-hooks-" + rand.Text()
	defer func() {
		if err != nil { // the buffer may exist even if load-buffer failed
			_, _ = s.callTmux(context.WithoutCancel(ctx), nil, "delete-buffer", "-b", buffer)
		}
	}()
	_, err = s.callTmux(ctx, strings.NewReader(text), "load-buffer", "-b", buffer, "-")
	if err != nil {
		return fmt.Errorf("load paste buffer: %w", err)
	}
	err = s.runGuarded(ctx, pane, "paste-buffer -p -r -d -b "+buffer+" -t "+pane, g)
	if err != nil {
		return fmt.Errorf("paste text: %w", err)
	}
	return nil
}

// plainProgramName matches a program name that tmux's formats do not take for syntax.
var plainProgramName = pattern(`^[A-Za-z0-9_.-]+$`)

// ErrLate means that a key was not pressed because tmux came to it too late. By then a
// different screen than the intended one might have received the key.
var ErrLate = errors.New("tmux took too long")

// errRedrawn means that a key was not pressed because the intended dialog did not look as
// we had last seen it.
var errRedrawn = errors.New("the dialog has changed")

// guard holds conditions that tmux checks just before it presses a key or pastes a text.
// The zero value checks nothing.
type guard struct {
	// until is the latest moment. tmux's clock counts whole seconds, so tmux may act
	// until the end of that second.
	until time.Time
	// activity is when a person last did something in the pane's session, as tmux prints
	// it. It must not have changed.
	activity string
	// dialog holds lines of the pane as captured. They must still be on the screen,
	// because another dialog may have replaced the one that we saw.
	dialog []string
}

// searchGlob returns a pattern with which tmux's search finds a line again. Each run of
// characters that might have a meaning in the pattern becomes *.
func searchGlob(line string) string { return globCharacters().ReplaceAllString(line, "*") }

var globCharacters = pattern(`[^A-Za-z0-9]+`)

// runGuarded runs one of our tmux commands that puts something into the pane. It does not
// run it if tmux would keep the input from the pane's program: if a person has scrolled
// back, tmux takes every key as its own command. tmux also checks the guard. tmux checks
// and acts in one go, so no person can scroll, type or answer in between. command
// contains only our own words, the pane's id and hex digits.
func (s Server) runGuarded(ctx context.Context, pane, command string, g guard) error {
	// reason is a tmux format: "" if the command may run, else why not. C searches the
	// pane (tmux 3.3a).
	reason := ""
	for _, line := range g.dialog {
		reason = "#{?#{C:" + searchGlob(line) + "}," + reason + "," + errRedrawn.Error() + "}"
	}
	if g.activity != "" {
		reason = "#{?#{==:#{session_activity}," + g.activity + "}," + reason +
			",a person is typing in that pane}"
	}
	if plainProgramName().MatchString(s.FrontProgram) {
		reason = "#{?#{==:#{pane_current_command}," + s.FrontProgram + "}," + reason +
			",another program has its keyboard}"
	}
	// In tmux 3.3a, T expands %s as strftime does, and l takes %s literally.
	if !g.until.IsZero() {
		reason = fmt.Sprintf("#{?#{>:#{T;l:%%s},%d},%s,%s}", g.until.Unix(), ErrLate, reason)
	}
	refusal := "#{?pane_dead,its program has ended,#{?pane_input_off,its input is switched off," +
		"#{?pane_in_mode,it is scrolled back or in another mode of tmux," + reason + "}}}"
	printReason := "display-message -p -t " + pane + ` "` + refusal + `"`
	out, err := s.callPane(ctx, pane, "if-shell", "-F", refusal, printReason, command)
	if err != nil {
		return err
	}
	switch printed := strings.TrimSpace(out); printed {
	case "":
		return nil
	case ErrLate.Error():
		return fmt.Errorf("%w: %w", ErrNoKeys, ErrLate)
	case errRedrawn.Error():
		return fmt.Errorf("%w: %w", ErrNoKeys, errRedrawn)
	default:
		return fmt.Errorf("%w: %s", ErrNoKeys, printed)
	}
}

const (
	// settleTime is how long a page must be unchanged before a key. AskUserQuestion's
	// dialog loses keys in the first 100 to 150 ms after it is drawn (2.1.329). A
	// permission's dialog accepts Enter and "1" at once, 0 to 200 ms after it is seen,
	// and ignores bracketed pastes (2.1.332). A permission that waits behind a question
	// accepts a digit at once after the question is answered (2.1.197), or from 0.4 s on
	// (2.1.332).
	settleTime = 200 * time.Millisecond

	// freshTime is how old our look at the screen may be when tmux presses an Enter or a
	// digit. For an Enter after a paste it counts from the paste. Claude Code 2.1.332
	// delays a dialog after a key in its input box: no dialog was answered by an
	// Enter up to 1.6 s after the paste, and many were from 2.1 s on. tmux's clock counts
	// whole seconds, so tmux may press the key until the end of the second in which this
	// ends.
	freshTime = time.Second

	// firstPause and longestPause are the pauses between two captures of the screen.
	firstPause   = 10 * time.Millisecond
	longestPause = 40 * time.Millisecond
)

// keyboard is the loop from screen to key. Before each key the screen must be as
// expected, and after it the key's effect must show.
type keyboard struct {
	server        Server
	pane          string
	effectTimeout time.Duration // how long to wait for a key's effect

	// checkReady runs before every key. It checks that the pane is still the right place
	// and that no person types.
	checkReady func(context.Context, keyStep) error

	activity string // see guard

	screen  Screen    // of the last capture
	seenAt  time.Time // just before that capture
	capture string
	pressed []keyStep
	keyAt   time.Time // just before the last key or text
}

// keyStep is one key or one piece of text, with checks of the screen before and after it.
type keyStep struct {
	key         Key
	text        string // is pasted if there is no key
	maySubmit   bool   // may submit the answer to Claude
	followsLast bool   // must follow the last key or text closely
	// whyNot tells a person why the key must not be pressed on this screen. It returns ""
	// if the key may be pressed.
	whyNot func(Screen) string
	// checkEffect returns nil if the effect shows, errNoEffect if it does not show yet,
	// and a mismatchError for any other screen.
	checkEffect func(Screen) error
	standTime   time.Duration // how long the effect must show
}

// String describes the step for the log.
func (s keyStep) String() string {
	if s.key != "" {
		return string(s.key)
	}
	return "text: " + shorten(strings.ReplaceAll(s.text, "\n", "⏎"), 60)
}

// mismatchError tells a person what is wrong on the screen or in the pane.
type mismatchError string

func (m mismatchError) Error() string { return string(m) }

// errNoEffect means that the screen did not change after a key.
var errNoEffect = errors.New("a key had no effect")

// requireUnchanged returns a whyNot that allows a key only if nothing was typed since
// that screen.
func requireUnchanged(before Screen) func(Screen) string {
	return func(current Screen) string {
		// Claude Code draws the list of commands a little after the text that asks for
		// it.
		hasSameDraft := before.Draft != "" && current.Draft == before.Draft
		if hasSameDraft || sameScreen(current, before) {
			return ""
		}
		return "the screen has changed"
	}
}

// requireScreen returns a checkEffect that waits for a wanted screen.
func requireScreen(isWanted func(Screen) bool) func(Screen) error {
	return func(now Screen) error {
		if !isWanted(now) {
			return errNoEffect
		}
		return nil
	}
}

func (k *keyboard) readScreen(ctx context.Context) error {
	k.seenAt = time.Now()
	capture, err := k.server.Capture(ctx, k.pane)
	if err != nil {
		return err
	}
	k.capture, k.screen = capture, ReadScreen(capture)
	return nil
}

// findTypablePane checks that keys would reach the Claude Code that is meant, and returns
// its pane (see Pane.FindClaude). It also remembers the program in front: tmux drops
// later keys if another program has the pane's keyboard by then.
func (k *keyboard) findTypablePane(ctx context.Context, pid int, start string) (Pane, error) {
	p, err := k.server.Pane(ctx, k.pane)
	switch {
	case err != nil:
		return p, err
	case p.InputOff:
		return p, mismatchError("the pane's input is switched off")
	case p.Synchronized:
		return p, mismatchError("what is typed in that pane goes to all panes of its window")
	}
	k.server.FrontProgram = p.Program
	_, err = p.FindClaude(pid, start)
	return p, err
}

// doStep presses one step: it checks the place and the screen, presses, and waits for the
// effect.
//
// Claude Code may draw part of a dialog later than the rest. For example, the hint
// "ctrl+g to edit" goes a moment after the cursor has left the text field (2.1.197). If
// that happens just before tmux comes to the key, tmux presses nothing. doStep waits
// until the same dialog is settled, and tries again.
func (k *keyboard) doStep(ctx context.Context, step keyStep) error {
	const mostTries = 3
	for try := 1; ; try++ {
		err := k.tryStep(ctx, step)
		if !errors.Is(err, errRedrawn) || try == mostTries {
			return err
		}
		if err := k.awaitSettled(ctx, step.whyNot); err != nil {
			return err
		}
	}
}

func (k *keyboard) tryStep(ctx context.Context, step keyStep) error {
	if err := k.checkReady(ctx, step); err != nil {
		return err
	}
	if err := k.readScreen(ctx); err != nil {
		return err
	}
	if why := step.whyNot(k.screen); why != "" {
		return mismatchError(why)
	}
	until, err := k.stepDeadline(step)
	if err != nil {
		return err
	}
	k.keyAt = time.Now()
	g := guard{until: until, activity: k.activity}
	if k.screen.IsDialog() {
		g.dialog = lastLines(k.capture)
	}
	if step.key != "" {
		err = k.server.pressKeyGuarded(ctx, k.pane, step.key, g)
	} else {
		err = k.server.pasteTextGuarded(ctx, k.pane, step.text, g)
	}
	if !errors.Is(err, ErrNoKeys) {
		k.pressed = append(k.pressed, step)
	}
	if err != nil {
		return err
	}
	return k.awaitScreen(ctx, k.effectTimeout, step.standTime, step.checkEffect)
}

// lastLines returns the last lines of a capture that contain a word.
func lastLines(capture string) (last []string) {
	const limit = 12 // more lines than two different dialogs have in common
	for _, l := range slices.Backward(readCapture(capture)) {
		if searchGlob(l.text) != "*" && !l.isBlank() && len(last) < limit {
			last = append(last, l.text)
		}
	}
	return last
}

// stepDeadline returns until when tmux may press a step. Text and deciding keys need a
// fresh look at the screen; for other keys it returns the zero time, which means no
// limit. It returns ErrLate if the look is too old.
func (k *keyboard) stepDeadline(step keyStep) (deadline time.Time, err error) {
	isDigit := len(step.key) == 1
	if step.key != "" && step.key != KeyEnter && !isDigit {
		return time.Time{}, nil
	}
	start := k.seenAt
	if step.followsLast {
		start = k.keyAt
	}
	deadline = start.Add(freshTime)
	if time.Now().After(deadline) {
		return deadline, fmt.Errorf("%w: %w", ErrNoKeys, ErrLate)
	}
	return deadline, nil
}

// awaitScreen reads the screen until checkScreen accepts it and it has not changed for
// standTime. If checkScreen rejects a screen, that screen must also stay for a moment,
// because a capture can catch it half drawn. At the timeout it returns checkScreen's last
// result.
func (k *keyboard) awaitScreen(
	ctx context.Context, timeout, standTime time.Duration, checkScreen func(Screen) error,
) error {
	var before Screen
	var since time.Time
	deadline := time.Now().Add(timeout)
	for wait := firstPause; ; wait = min(wait*2, longestPause) {
		if !state.Sleep(ctx, wait) {
			return context.Cause(ctx)
		}
		if err := k.readScreen(ctx); err != nil {
			return err
		}
		if since.IsZero() || !sameScreen(before, k.screen) {
			before, since = k.screen, time.Now()
		}
		elapsed, isLate := time.Since(since), time.Now().After(deadline)
		err := checkScreen(k.screen)
		isUnclear := errors.Is(err, errNoEffect) || k.screen.Shows == Unknown
		switch {
		case isLate, err == nil && elapsed >= standTime:
			return err
		case err != nil && !isUnclear && elapsed >= max(standTime, firstPause):
			return err
		}
	}
}

// awaitSettled waits until the screen has not changed for settleTime, and then returns an
// error if whyNot rejects it. Before that, a page may be half drawn, or so new that it
// loses keys.
func (k *keyboard) awaitSettled(ctx context.Context, whyNot func(Screen) string) error {
	return k.awaitScreen(ctx, k.effectTimeout, settleTime, func(s Screen) error {
		if why := whyNot(s); why != "" {
			return mismatchError(why)
		}
		return nil
	})
}

// moveCursor moves the cursor to the first wanted row, one key at a time. whyChanged
// tells what else has changed on the screen and must not. A list is a ring: its last row
// comes before its first.
func (k *keyboard) moveCursor(
	ctx context.Context, isWanted func(Row) bool, whyChanged func(Screen) string,
) error {
	const mostRows = 20 // no dialog has more
	for range mostRows {
		start := k.screen.cursorRow()
		if isWanted(start) {
			return nil
		}
		isAtStart := func(s Screen) bool {
			return s.cursorRow().Number == start.Number && s.cursorRow().Role == start.Role
		}
		err := k.doStep(ctx, keyStep{
			key: k.screen.keyToward(isWanted),
			whyNot: func(now Screen) string {
				if !isAtStart(now) {
					return cmp.Or(whyChanged(now), "its cursor was moved in the terminal")
				}
				return whyChanged(now)
			},
			checkEffect: func(now Screen) error {
				switch why := whyChanged(now); {
				case why != "":
					return mismatchError(why)
				case isAtStart(now):
					return errNoEffect
				}
				return nil
			},
		})
		if err != nil {
			return err
		}
	}
	return mismatchError("the cursor does not move as expected")
}

// sameScreen reports whether two screens are the same, except for whether Claude works.
func sameScreen(a, b Screen) bool {
	a.Busy, b.Busy = false, false
	return reflect.DeepEqual(a, b)
}
