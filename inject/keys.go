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

func (k Key) known() bool {
	named := []Key{KeyUp, KeyDown, KeyEnter, KeyEscape, KeyTab, KeyClear}
	last := Key(strings.ReplaceAll(string(k), string(keyClearLine), ""))
	return slices.Contains(named, last) || len(k) == 1 && k[0] >= '1' && k[0] <= '9'
}

// Key presses one key in the pane. ErrNoKeys when tmux would keep it from the pane's
// program.
func (s Server) Key(ctx context.Context, pane string, key Key) error {
	return s.keyWhile(ctx, pane, key, guard{})
}

// keyWhile is Key while all is as the guard says; else it is ErrNoKeys, and ErrLate, too,
// where only the time is over.
func (s Server) keyWhile(ctx context.Context, pane string, key Key, g guard) error {
	if !key.known() {
		return fmt.Errorf("press key: %q is none that may be pressed", string(key))
	}
	if err := s.deliver(ctx, pane, "send-keys -t "+pane+" "+string(key), g); err != nil {
		return fmt.Errorf("press %s: %w", key, err)
	}
	return nil
}

// Paste pastes text into the pane, as a person pastes from a clipboard: several lines
// arrive as one text when the program has asked for bracketed pastes, as Claude Code does
// (-p), and with the line breaks that they have (-r). Text that state.Clean would change
// is refused: an escape sequence in it could end the paste early. A buffer of our own
// carries it and is gone afterwards, also when nothing was pasted.
func (s Server) Paste(ctx context.Context, pane, text string) error {
	return s.pasteWhile(ctx, pane, text, guard{})
}

// pasteWhile is Paste with a guard; see keyWhile.
func (s Server) pasteWhile(ctx context.Context, pane, text string, g guard) (err error) {
	if state.Clean(state.ForTyping, text) != text {
		return errors.New("paste text: it has control characters or is not UTF-8")
	}
	if text == "" {
		return nil // tmux makes no buffer of nothing
	}
	buffer := "gchat-hooks-" + rand.Text()
	defer func() {
		if err != nil { // also when the load did not answer: it may have arrived
			_, _ = s.call(context.WithoutCancel(ctx), nil, "delete-buffer", "-b", buffer)
		}
	}()
	if _, err := s.call(ctx, strings.NewReader(text), "load-buffer", "-b", buffer, "-"); err != nil {
		return fmt.Errorf("load paste buffer: %w", err)
	}
	if err := s.deliver(ctx, pane, "paste-buffer -p -r -d -b "+buffer+" -t "+pane, g); err != nil {
		return fmt.Errorf("paste text: %w", err)
	}
	return nil
}

// plainName is a program's name that no format of tmux takes for syntax.
var plainName = pattern(`^[A-Za-z0-9_.-]+$`)

// ErrLate says that a key was not pressed because tmux came to it too late: another
// screen than the one that it was meant for may take it.
var ErrLate = errors.New("tmux took too long")

// errRedrawn says that a key was not pressed because the dialog that it was meant for did
// not stand there as it was seen.
var errRedrawn = errors.New("the dialog has changed")

// guard is what still has to be so when tmux comes to a key or a text. The zero value
// asks for nothing.
type guard struct {
	until  time.Time // tmux's clock counts whole seconds: until the end of that one
	active string    // when a person last did something in the pane's session, as tmux says it
	dialog []string  // lines of the pane, as captured: a dialog that may have given way to another
}

// asGlob is a line as tmux's search finds it again, without a sign that has a meaning for
// it.
func asGlob(line string) string { return notPlain().ReplaceAllString(line, "*") }

var notPlain = pattern(`[^A-Za-z0-9]+`)

// deliver runs a command of ours, which puts something into the pane, unless tmux would
// keep it from the pane's program: a person who scrolls back has tmux take every key as
// its own command. tmux checks and acts in one go, so that no person can scroll, type or
// answer in between; so it checks the guard. command holds nothing but our own words, the
// pane's id and hex digits.
func (s Server) deliver(ctx context.Context, pane, command string, g guard) error {
	other := ""
	for _, line := range g.dialog { // C searches the pane (tmux 3.3a)
		other = "#{?#{C:" + asGlob(line) + "}," + other + "," + errRedrawn.Error() + "}"
	}
	if g.active != "" {
		other = "#{?#{==:#{session_activity}," + g.active + "}," + other +
			",a person is typing in that pane}"
	}
	if plainName().MatchString(s.Front) {
		other = "#{?#{==:#{pane_current_command}," + s.Front + "}," + other +
			",another program has its keyboard}"
	}
	if !g.until.IsZero() { // T expands %s as strftime does, and l takes it as it is (tmux 3.3a)
		other = fmt.Sprintf("#{?#{>:#{T;l:%%s},%d},%s,%s}", g.until.Unix(), ErrLate, other)
	}
	why := "#{?pane_dead,its program has ended,#{?pane_input_off,its input is switched off," +
		"#{?pane_in_mode,it is scrolled back or in another mode of tmux," + other + "}}}"
	out, err := s.callPane(
		ctx,
		pane,
		"if-shell",
		"-F",
		why,
		"display-message -p -t "+pane+` "`+why+`"`,
		command,
	)
	if err != nil {
		return err
	}
	switch refused := strings.TrimSpace(out); refused {
	case "":
		return nil
	case ErrLate.Error():
		return fmt.Errorf("%w: %w", ErrNoKeys, ErrLate)
	case errRedrawn.Error():
		return fmt.Errorf("%w: %w", ErrNoKeys, errRedrawn)
	default:
		return fmt.Errorf("%w: %s", ErrNoKeys, refused)
	}
}

const (
	// settle is how long a page must stand as it is before a key. AskUserQuestion's
	// dialog loses keys in the first 100 to 150 ms after it is drawn (2.1.329). A
	// permission's dialog takes Enter and "1" at once, 0 to 200 ms after it is seen, and
	// ignores bracketed pastes (2.1.332). One that waits behind a question takes a digit
	// at once when that was answered (2.1.197), or from 0.4 s on (2.1.332).
	settle = 200 * time.Millisecond

	// closeTo is how long after the look at the screen, and behind typed words after the
	// paste, an Enter or a digit may be on its way. Claude Code 2.1.332 holds a dialog
	// back after a key in its input box: none was answered by an Enter up to 1.6 s after
	// the paste, and many were from 2.1 s on. tmux, whose clock counts whole seconds,
	// presses it until the end of the second in which this ends.
	closeTo = time.Second

	// firstPause and longestPause are the pauses between two captures of the screen.
	firstPause   = 10 * time.Millisecond
	longestPause = 40 * time.Millisecond
)

// keyboard is the loop from screen to key: before a key the screen must be as expected,
// after it the effect must show.
type keyboard struct {
	server   Server
	pane     string
	patience time.Duration // how long an effect is awaited

	// ready is asked before every key: whether the pane is still the place, and whether
	// no person types.
	ready func(context.Context, keystep) error

	active string // see guard

	screen  Screen    // of the last capture
	seenAt  time.Time // before that capture
	capture string
	pressed []keystep
	keyAt   time.Time // before the last key or text
}

// keystep is one key or one piece of text, with the screens before and after it.
type keystep struct {
	key    Key
	text   string              // is pasted where there is no key
	commit bool                // it may submit the answer to Claude
	behind bool                // it has to follow the last key or text closely
	before func(Screen) string // for a person: why it must not be pressed; "" when it may
	// nil when the effect shows, errNoEffect while there is none, mismatch for any other
	// screen
	after func(Screen) error
	stand time.Duration // how long the effect must show
}

// String is the step in words, for the log.
func (s keystep) String() string {
	if s.key != "" {
		return string(s.key)
	}
	return "text: " + brief(strings.ReplaceAll(s.text, "\n", "⏎"), 60)
}

// mismatch is something on the screen that is not as it must be, in words for a person.
type mismatch string

func (m mismatch) Error() string { return string(m) }

// errNoEffect says that the screen stayed as it was.
var errNoEffect = errors.New("a key had no effect")

// unchanged is a step's before for a screen on which nothing was typed since.
func unchanged(was Screen) func(Screen) string {
	return func(now Screen) string {
		if sameScreen(now, was) || was.Draft != "" && now.Draft == was.Draft {
			// a command's list is drawn a little later
			return ""
		}
		return "the screen has changed"
	}
}

// effect is a step's after that waits until the screen is as wanted.
func effect(wanted func(Screen) bool) func(Screen) error {
	return func(now Screen) error {
		if !wanted(now) {
			return errNoEffect
		}
		return nil
	}
}

func (k *keyboard) read(ctx context.Context) error {
	k.seenAt = time.Now()
	capture, err := k.server.Capture(ctx, k.pane)
	if err != nil {
		return err
	}
	k.capture, k.screen = capture, ReadScreen(capture)
	return nil
}

// reaches makes sure that keys would reach the Claude Code that is meant (see
// Pane.FindClaude). tmux drops those that follow when another program has the pane's keyboard
// by then.
func (k *keyboard) reaches(ctx context.Context, pid int, start string) (Pane, error) {
	p, err := k.server.Pane(ctx, k.pane)
	switch {
	case err != nil:
		return p, err
	case p.InputOff:
		return p, mismatch("the pane's input is switched off")
	case p.Synchronized:
		return p, mismatch("what is typed in that pane goes to all panes of its window")
	}
	k.server.Front = p.Program
	_, err = p.FindClaude(pid, start)
	return p, err
}

// send presses one step: it makes sure of the place and of the screen, and awaits the
// effect.
//
// A part of a dialog may be drawn later than the rest: its hint "ctrl+g to edit" goes a
// moment after the cursor has left the field for own words (2.1.197). Where tmux came to
// the key meanwhile, it pressed nothing: once the same dialog has stood for a moment, the
// step begins anew.
func (k *keyboard) send(ctx context.Context, s keystep) error {
	const mostTries = 3
	for try := 1; ; try++ {
		err := k.trySend(ctx, s)
		if !errors.Is(err, errRedrawn) || try == mostTries {
			return err
		}
		if err := k.settled(ctx, s.before); err != nil {
			return err
		}
	}
}

func (k *keyboard) trySend(ctx context.Context, s keystep) error {
	if err := k.ready(ctx, s); err != nil {
		return err
	}
	if err := k.read(ctx); err != nil {
		return err
	}
	if why := s.before(k.screen); why != "" {
		return mismatch(why)
	}
	until, err := k.limit(s)
	if err != nil {
		return err
	}
	k.keyAt = time.Now()
	g := guard{until: until, active: k.active}
	if k.screen.Dialog() {
		g.dialog = lastLines(k.capture)
	}
	if s.key != "" {
		err = k.server.keyWhile(ctx, k.pane, s.key, g)
	} else {
		err = k.server.pasteWhile(ctx, k.pane, s.text, g)
	}
	if !errors.Is(err, ErrNoKeys) {
		k.pressed = append(k.pressed, s)
	}
	if err != nil {
		return err
	}
	return k.await(ctx, k.patience, s.stand, s.after)
}

// lastLines are the last lines of a capture that have a word.
func lastLines(capture string) (last []string) {
	const most = 12 // more than one dialog has in common with another
	for _, l := range slices.Backward(readCapture(capture)) {
		if asGlob(l.text) != "*" && !l.isBlank() && len(last) < most {
			last = append(last, l.text)
		}
	}
	return last
}

// limit is until when tmux may press a step: text and a key that decides go only where
// the look at the screen is fresh. ErrLate where that is over. The zero time is no limit.
func (k *keyboard) limit(s keystep) (until time.Time, err error) {
	isDigit := len(s.key) == 1
	if s.key != "" && s.key != KeyEnter && !isDigit {
		return time.Time{}, nil
	}
	from := k.seenAt
	if s.behind {
		from = k.keyAt
	}
	until = from.Add(closeTo)
	if time.Now().After(until) {
		return until, fmt.Errorf("%w: %w", ErrNoKeys, ErrLate)
	}
	return until, nil
}

// await reads the screen until it is as wanted and has stood so for a while; 0 is at
// once. A screen that is unlike everything expected must stand too: a capture can catch
// it half drawn.
func (k *keyboard) await(
	ctx context.Context,
	patience, stand time.Duration,
	wanted func(Screen) error,
) error {
	var before Screen
	var since time.Time
	deadline := time.Now().Add(patience)
	for wait := firstPause; ; wait = min(wait*2, longestPause) {
		if !state.Sleep(ctx, wait) {
			return context.Cause(ctx)
		}
		if err := k.read(ctx); err != nil {
			return err
		}
		if since.IsZero() || !sameScreen(before, k.screen) {
			before, since = k.screen, time.Now()
		}
		stood, late := time.Since(since), time.Now().After(deadline)
		switch err := wanted(k.screen); {
		case err == nil && stood >= stand, late:
			return err
		case errors.Is(err, errNoEffect) || k.screen.Shows == Unknown:
		case err != nil && stood >= max(stand, firstPause):
			return err
		}
	}
}

// settled waits until the screen has stood for a moment, and says whether it is then as
// it must be: a page may be half drawn, or so young that it takes no keys.
func (k *keyboard) settled(ctx context.Context, differs func(Screen) string) error {
	return k.await(ctx, k.patience, settle, func(s Screen) error {
		if why := differs(s); why != "" {
			return mismatch(why)
		}
		return nil
	})
}

// moveTo moves the cursor, one key at a time, to the first row that is wanted. changed
// says what else must stay as it is. A list is a ring: above its first row is its last.
func (k *keyboard) moveTo(
	ctx context.Context,
	wanted func(Row) bool,
	changed func(Screen) string,
) error {
	const mostRows = 20 // no dialog has more
	for range mostRows {
		from := k.screen.cursor()
		if wanted(from) {
			return nil
		}
		at := func(s Screen) bool { return s.cursor().Number == from.Number && s.cursor().Is == from.Is }
		s := keystep{key: k.screen.toward(wanted)}
		s.before = func(now Screen) string {
			if !at(now) {
				return cmp.Or(changed(now), "its cursor was moved in the terminal")
			}
			return changed(now)
		}
		s.after = func(now Screen) error {
			switch why := changed(now); {
			case why != "":
				return mismatch(why)
			case at(now):
				return errNoEffect
			}
			return nil
		}
		if err := k.send(ctx, s); err != nil {
			return err
		}
	}
	return mismatch("the cursor does not go where it should")
}

// sameScreen says whether two screens are the same but for Claude's being at work.
func sameScreen(a, b Screen) bool {
	a.Busy, b.Busy = false, false
	return reflect.DeepEqual(a, b)
}
