package inject

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Key is a key by tmux's name for it. Only the keys below can be pressed, so that no text can ever become one.
type Key string

// The keys that Claude Code's screens ask for (facts: A5), and C-u, which empties its input box.
const (
	KeyUp        Key = "Up"
	KeyDown      Key = "Down"
	KeyLeft      Key = "Left"
	KeyRight     Key = "Right"
	KeyEnter     Key = "Enter"
	KeySpace     Key = "Space"
	KeyEscape    Key = "Escape"
	KeyTab       Key = "Tab"
	KeyBackTab   Key = "BTab"
	KeyBackSpace Key = "BSpace"
	KeyNotes     Key = "n"   // on an option with a preview: add notes
	KeyClear     Key = "C-u" // from the cursor to the beginning of the line
)

// KeyDigit is the key of a digit from 1 to 9; of other numbers it is a key that cannot be pressed.
func KeyDigit(n int) Key {
	if n < 1 || n > 9 {
		return ""
	}
	return Key(strconv.Itoa(n))
}

func (k Key) known() bool {
	switch k {
	case KeyUp, KeyDown, KeyLeft, KeyRight, KeyEnter, KeySpace, KeyEscape, KeyTab, KeyBackTab, KeyBackSpace, KeyNotes, KeyClear:
		return true
	}
	return len(k) == 1 && k[0] >= '1' && k[0] <= '9'
}

// Key presses one key in the pane. ErrNoKeys when tmux would keep it from the pane's program.
func (s Server) Key(ctx context.Context, pane string, key Key) error {
	if !key.known() {
		return fmt.Errorf("press key: %q is none that may be pressed", string(key))
	}
	if err := s.hand(ctx, pane, "send-keys -t "+pane+" "+string(key)); err != nil {
		return fmt.Errorf("press %s: %w", key, err)
	}
	return nil
}

// typedAtOnce is how many bytes one call types: a call's arguments must stay below 16 kB (MAX_IMSGSIZE), and a byte
// takes three there.
const typedAtOnce = 1024

// Type types one line of text, byte for byte: it goes as numbers (send-keys -H), for as words tmux 3.3a would drop a ";"
// at their end. Text that Clean would change, or with a line break, is refused: a line break would submit it.
func (s Server) Type(ctx context.Context, pane, text string) error {
	if err := mustBeClean(text); err != nil {
		return fmt.Errorf("type text: %w", err)
	}
	if strings.Contains(text, "\n") {
		return errors.New("type text: it has more than one line")
	}
	for text != "" {
		n := min(len(text), typedAtOnce)
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		var hex strings.Builder
		for _, b := range []byte(text[:n]) {
			fmt.Fprintf(&hex, " %02x", b)
		}
		if err := s.hand(ctx, pane, "send-keys -H -t "+pane+hex.String()); err != nil {
			return fmt.Errorf("type text: %w", err)
		}
		text = text[n:]
	}
	return nil
}

func mustBeClean(text string) error {
	if clean, _ := Clean(text); clean != text {
		return errors.New("it has control characters or is not UTF-8")
	}
	return nil
}

// plainName is a program's name that no format of tmux takes for syntax.
var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.-]+$`) })

// otherFront is a format that says so when another program than Front has the keyboard.
func (s Server) otherFront() string {
	if !plainName().MatchString(s.Front) {
		return ""
	}
	return "#{?#{==:#{pane_current_command}," + s.Front + "},,another program has its keyboard}"
}

// hand runs a command of ours, which puts something into the pane, unless tmux would keep it from the pane's program:
// a person who scrolls back has tmux take every key as its own command. tmux looks and acts in one go, so that no person can
// scroll in between. command holds nothing but our own words, the pane's id and hex digits.
func (s Server) hand(ctx context.Context, pane, command string) error {
	if !paneID().MatchString(pane) {
		return fmt.Errorf("%w: %q", ErrNoPane, pane)
	}
	why := "#{?pane_dead,its program has ended,#{?pane_input_off,its input is switched off," +
		"#{?pane_in_mode,it is scrolled back or in another mode of tmux," + s.otherFront() + "}}}"
	out, err := s.call(ctx, nil, "if-shell", "-F", "-t", pane, why, "display-message -p -t "+pane+` "`+why+`"`, command)
	if err != nil {
		return err
	}
	if refused := strings.TrimSpace(out); refused != "" {
		return fmt.Errorf("%w: %s", ErrNoKeys, refused)
	}
	return nil
}

// Paste pastes text into the pane, as a person pastes from a clipboard: several lines arrive as one text when the program
// has asked for bracketed pastes, as Claude Code does (-p), and with the line breaks that they have (-r). Text that Clean
// would change is refused: an escape sequence in it could end the paste early. A buffer of our own carries it and is gone
// afterwards, also when nothing was pasted.
func (s Server) Paste(ctx context.Context, pane, text string) (err error) {
	if err := mustBeClean(text); err != nil {
		return fmt.Errorf("paste text: %w", err)
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
	if err := s.hand(ctx, pane, "paste-buffer -p -r -d -b "+buffer+" -t "+pane); err != nil {
		return fmt.Errorf("paste text: %w", err)
	}
	return nil
}

// Unscroll takes a pane out of copy mode, as q does there. Other modes of tmux, in which a person chooses something, are
// left alone.
func (s Server) Unscroll(ctx context.Context, pane string) error {
	if !paneID().MatchString(pane) {
		return fmt.Errorf("leave copy mode of %q: %w", pane, ErrNoPane)
	}
	const scrolled = "#{||:#{==:#{pane_mode},copy-mode},#{==:#{pane_mode},view-mode}}"
	if _, err := s.call(ctx, nil, "if-shell", "-F", "-t", pane, scrolled, "send-keys -t "+pane+" -X cancel"); err != nil {
		return fmt.Errorf("leave copy mode: %w", err)
	}
	return nil
}
