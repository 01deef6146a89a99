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
// can ever become one.
type Key string

// The keys that Claude Code's screens ask for, and C-u, which empties its input box.
const (
	KeyUp     Key = "Up"
	KeyDown   Key = "Down"
	KeyEnter  Key = "Enter"
	KeyEscape Key = "Escape"
	KeyTab    Key = "Tab"
	KeyClear  Key = "C-u" // from the cursor to the beginning of the line

	// keyClearLine clears a line, too, and goes to the end of the line above it. It may
	// be repeated, before KeyClear.
	keyClearLine Key = KeyClear + " BSpace "
)

// KeyDigit is the key of a digit from 1 to 9; of other numbers it is a key that cannot be
// pressed.
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

// PressKey presses one key in the pane. ErrNoKeys when tmux would keep it from the pane's
// program.
func (s Server) PressKey(ctx context.Context, pane string, key Key) error {
	return s.pressKeyGuarded(ctx, pane, key, guard{})
}

// pressKeyGuarded is Key while all is as the guard says; else it is ErrNoKeys, and
// ErrLate, too, where only the time is over.
func (s Server) pressKeyGuarded(ctx context.Context, pane string, key Key, g guard) error {
	if !key.isKnown() {
		return fmt.Errorf("press key: %q is none that may be pressed", string(key))
	}
	if err := s.runGuarded(ctx, pane, "send-keys -t "+pane+" "+string(key), g); err != nil {
		return fmt.Errorf("press %s: %w", key, err)
	}
	return nil
}

// PasteText pastes text into the pane, as a person pastes from a clipboard: several lines
// arrive as one text when the program has asked for bracketed pastes, as Claude Code does
// (-p), and with the line breaks that they have (-r). Text that state.Clean would change
// is refused: an escape sequence in it could end the paste early. A buffer of our own
// carries it and is gone afterwards, also when nothing was pasted.
func (s Server) PasteText(ctx context.Context, pane, text string) error {
	return s.pasteTextGuarded(ctx, pane, text, guard{})
}

// pasteTextGuarded is Paste with a guard; see pressKeyGuarded.
func (s Server) pasteTextGuarded(ctx context.Context, pane, text string, g guard) (err error) {
	if state.Clean(state.ForTyping, text) != text {
		return errors.New("paste text: it has control characters or is not UTF-8")
	}
	if text == "" {
		return nil // tmux makes no buffer of nothing
	}
	buffer := "gchat-hooks-" + rand.Text()
	defer func() {
		if err != nil { // also when the load did not answer: it may have arrived
			_, _ = s.callTmux(context.WithoutCancel(ctx), nil, "delete-buffer", "-b", buffer)
		}
	}()
	if _, err := s.callTmux(ctx, strings.NewReader(text), "load-buffer", "-b", buffer, "-"); err != nil {
		return fmt.Errorf("load paste buffer: %w", err)
	}
	if err := s.runGuarded(ctx, pane, "paste-buffer -p -r -d -b "+buffer+" -t "+pane, g); err != nil {
		return fmt.Errorf("paste text: %w", err)
	}
	return nil
}

// plainProgramName is a program's name that no format of tmux takes for syntax.
var plainProgramName = pattern(`^[A-Za-z0-9_.-]+$`)

// ErrLate says that a key was not pressed because tmux came to it too late: another
// screen than the one that it was meant for may take it.
var ErrLate = errors.New("tmux took too long")

// errRedrawn says that a key was not pressed because the dialog that it was meant for did
// not stand there as it was seen.
var errRedrawn = errors.New("the dialog has changed")

// guard is what still has to be so when tmux comes to a key or a text. The zero value
// asks for nothing.
type guard struct {
	until    time.Time // tmux's clock counts whole seconds: until the end of that one
	activity string    // when a person last did something in the pane's session, as tmux says it
	// lines of the pane, as captured: a dialog that may have given way to another
	dialog []string
}

// searchGlob is a line as tmux's search finds it again, without a sign that has a meaning
// for it.
func searchGlob(line string) string { return globCharacters().ReplaceAllString(line, "*") }

var globCharacters = pattern(`[^A-Za-z0-9]+`)

// runGuarded runs a command of ours, which puts something into the pane, unless tmux
// would keep it from the pane's program: a person who scrolls back has tmux take every
// key as its own command. tmux checks and acts in one go, so that no person can scroll,
// type or answer in between; so it checks the guard. command holds nothing but our own
// words, the pane's id and hex digits.
func (s Server) runGuarded(ctx context.Context, pane, command string, g guard) error {
	reason := ""
	for _, line := range g.dialog { // C searches the pane (tmux 3.3a)
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
	if !g.until.IsZero() { // T expands %s as strftime does, and l takes it as it is (tmux 3.3a)
		reason = fmt.Sprintf("#{?#{>:#{T;l:%%s},%d},%s,%s}", g.until.Unix(), ErrLate, reason)
	}
	refusal := "#{?pane_dead,its program has ended,#{?pane_input_off,its input is switched off," +
		"#{?pane_in_mode,it is scrolled back or in another mode of tmux," + reason + "}}}"
	out, err := s.callPane(
		ctx,
		pane,
		"if-shell",
		"-F",
		refusal,
		"display-message -p -t "+pane+` "`+refusal+`"`,
		command,
	)
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
	// settleTime is how long a page must stand as it is before a key. AskUserQuestion's
	// dialog loses keys in the first 100 to 150 ms after it is drawn (2.1.329). A
	// permission's dialog takes Enter and "1" at once, 0 to 200 ms after it is seen, and
	// ignores bracketed pastes (2.1.332). One that waits behind a question takes a digit
	// at once when that was answered (2.1.197), or from 0.4 s on (2.1.332).
	settleTime = 200 * time.Millisecond

	// freshTime is how long after the look at the screen, and behind typed words after
	// the paste, an Enter or a digit may be on its way. Claude Code 2.1.332 holds a
	// dialog back after a key in its input box: none was answered by an Enter up to 1.6 s
	// after the paste, and many were from 2.1 s on. tmux, whose clock counts whole
	// seconds, presses it until the end of the second in which this ends.
	freshTime = time.Second

	// firstPause and longestPause are the pauses between two captures of the screen.
	firstPause   = 10 * time.Millisecond
	longestPause = 40 * time.Millisecond
)

// keyboard is the loop from screen to key: before a key the screen must be as expected,
// after it the effect must show.
type keyboard struct {
	server        Server
	pane          string
	effectTimeout time.Duration // how long an effect is awaited

	// ready is asked before every key: whether the pane is still the place, and whether
	// no person types.
	checkReady func(context.Context, keyStep) error

	activity string // see guard

	screen  Screen    // of the last capture
	seenAt  time.Time // before that capture
	capture string
	pressed []keyStep
	keyAt   time.Time // before the last key or text
}

// keyStep is one key or one piece of text, with the screens before and after it.
type keyStep struct {
	key         Key
	text        string              // is pasted where there is no key
	maySubmit   bool                // it may submit the answer to Claude
	followsLast bool                // it has to follow the last key or text closely
	whyNot      func(Screen) string // for a person: why it must not be pressed; "" when it may
	// nil when the effect shows, errNoEffect while there is none, mismatch for any other
	// screen
	checkEffect func(Screen) error
	standTime   time.Duration // how long the effect must show
}

// String is the step in words, for the log.
func (s keyStep) String() string {
	if s.key != "" {
		return string(s.key)
	}
	return "text: " + shorten(strings.ReplaceAll(s.text, "\n", "⏎"), 60)
}

// mismatchError is something on the screen that is not as it must be, in words for a
// person.
type mismatchError string

func (m mismatchError) Error() string { return string(m) }

// errNoEffect says that the screen stayed as it was.
var errNoEffect = errors.New("a key had no effect")

// requireUnchanged is a step's before for a screen on which nothing was typed since.
func requireUnchanged(before Screen) func(Screen) string {
	return func(current Screen) string {
		if sameScreen(current, before) || before.Draft != "" && current.Draft == before.Draft {
			// a command's list is drawn a little later
			return ""
		}
		return "the screen has changed"
	}
}

// requireScreen is a step's after that waits until the screen is as wanted.
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

// findTypablePane makes sure that keys would reach the Claude Code that is meant (see
// Pane.FindClaude). tmux drops those that follow when another program has the pane's
// keyboard by then.
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

// doStep presses one step: it makes sure of the place and of the screen, and awaits the
// effect.
//
// A part of a dialog may be drawn later than the rest: its hint "ctrl+g to edit" goes a
// moment after the cursor has left the field for own words (2.1.197). Where tmux came to
// the key meanwhile, it pressed nothing: once the same dialog has stood for a moment, the
// step begins anew.
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

// lastLines are the last lines of a capture that have a word.
func lastLines(capture string) (last []string) {
	const limit = 12 // more than one dialog has in common with another
	for _, l := range slices.Backward(readCapture(capture)) {
		if searchGlob(l.text) != "*" && !l.isBlank() && len(last) < limit {
			last = append(last, l.text)
		}
	}
	return last
}

// stepDeadline is until when tmux may press a step: text and a key that decides go only
// where the look at the screen is fresh. ErrLate where that is over. The zero time is no
// limit.
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

// awaitScreen reads the screen until it is as wanted and has stood so for a while; 0 is
// at once. A screen that is unlike everything expected must stand too: a capture can
// catch it half drawn.
func (k *keyboard) awaitScreen(
	ctx context.Context,
	timeout, standTime time.Duration,
	checkScreen func(Screen) error,
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
		switch err := checkScreen(k.screen); {
		case err == nil && elapsed >= standTime, isLate:
			return err
		case errors.Is(err, errNoEffect) || k.screen.Shows == Unknown:
		case err != nil && elapsed >= max(standTime, firstPause):
			return err
		}
	}
}

// awaitSettled waits until the screen has stood for a moment, and says whether it is then
// as it must be: a page may be half drawn, or so young that it takes no keys.
func (k *keyboard) awaitSettled(ctx context.Context, whyNot func(Screen) string) error {
	return k.awaitScreen(ctx, k.effectTimeout, settleTime, func(s Screen) error {
		if why := whyNot(s); why != "" {
			return mismatchError(why)
		}
		return nil
	})
}

// moveCursor moves the cursor, one key at a time, to the first row that is wanted.
// changed says what else must stay as it is. A list is a ring: above its first row is its
// last.
func (k *keyboard) moveCursor(
	ctx context.Context,
	isWanted func(Row) bool,
	whyChanged func(Screen) string,
) error {
	const mostRows = 20 // no dialog has more
	for range mostRows {
		start := k.screen.cursorRow()
		if isWanted(start) {
			return nil
		}
		isAtStart := func(step Screen) bool {
			return step.cursorRow().Number == start.Number && step.cursorRow().Role == start.Role
		}
		step := keyStep{key: k.screen.keyToward(isWanted)}
		step.whyNot = func(now Screen) string {
			if !isAtStart(now) {
				return cmp.Or(whyChanged(now), "its cursor was moved in the terminal")
			}
			return whyChanged(now)
		}
		step.checkEffect = func(now Screen) error {
			switch why := whyChanged(now); {
			case why != "":
				return mismatchError(why)
			case isAtStart(now):
				return errNoEffect
			}
			return nil
		}
		if err := k.doStep(ctx, step); err != nil {
			return err
		}
	}
	return mismatchError("the cursor does not go where it should")
}

// sameScreen says whether two screens are the same but for Claude's being at work.
func sameScreen(a, b Screen) bool {
	a.Busy, b.Busy = false, false
	return reflect.DeepEqual(a, b)
}
