package inject

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"gchat-hooks/state"
)

// Target is where an answer belongs: the pane, and the Claude Code in it that asked.
type Target struct {
	Server      Server
	Pane        string // %N
	ClaudePID   int    // 0 takes whatever Claude Code has the pane's keyboard
	ClaudeStart string // see StartOf; "" is unknown
}

// Choice is one prompt of the dialog with what is to be answered, in the order of the dialog.
type Choice struct {
	Prompt state.Prompt
	Answer state.Answer
}

// Result is what became of an answer.
type Result string

const (
	Injected  Result = "injected" // the dialog took it and closed
	Unchanged Result = "clean"    // not delivered, and nothing of it is left in the pane
	Dirty     Result = "dirty"    // not delivered, or not for sure, and a person must look at the pane
)

// Outcome says how an answer went.
type Outcome struct {
	Result  Result
	Why     string   // for a person, one sentence without a full stop; "" when Injected as meant
	Screen  string   // what the pane showed when it stopped, plain, at most screenLines lines
	Keys    int      // keys and chunks of text that were sent, those that took something back included
	Steps   []string // what they were, in words; of a dry run, what they would be
	Removed bool     // control characters were taken out of the text
	Gone    bool     // not delivered because the dialog is not open any more: it was answered or left in the terminal
	Later   bool     // nothing is wrong but the moment: a person types or scrolls, or another process of ours types
}

// Typist answers dialogs of Claude Code at their keyboard. It is a closed loop: before every key the screen shows the
// dialog that asked, as the last key should have left it, and after every key its effect is awaited. The zero value works.
type Typist struct {
	UserState string // the person's state folder, for the pane's lock

	// Before is called before every key or chunk of text, for the caller to write it down; commit says that this key may
	// hand the answer to Claude. An error stops the answer before the key; it does not stop what takes an answer back.
	Before func(key string, commit bool) error
	DryRun bool // says what it would type, sends nothing

	Settle   time.Duration // how long a page stands unchanged before its first key; 0 is 160 ms
	Patience time.Duration // how long a key's effect is awaited; 0 is 2.5 s
	Quiet    time.Duration // how long no person has typed in the session's terminals; 0 is 3 s
	Idle     time.Duration // after which a pane that was left scrolled back is set right; 0 is a minute
}

const (
	// settle: 2.1.329 ignores keys in the first 100 to 150 ms of every page that it draws, so that a dialog does not
	// swallow what a person was typing.
	settle      = 160 * time.Millisecond
	keyPatience = 2500 * time.Millisecond
	quiet       = 3 * time.Second
	idle        = time.Minute

	// firstLook and nextLook are the first and the longest pause between two looks at the screen.
	firstLook = 10 * time.Millisecond
	nextLook  = 40 * time.Millisecond

	// strayTime is how long the input box is watched for a key of ours that came after the dialog had closed, unless the
	// conversation tells sooner that the answer is ours: 2.1.329 shows it, and such a key, more than 400 ms later on a busy
	// machine.
	strayTime = 2 * time.Second

	// backPatience is keyPatience for a key that takes something back: some of them have nothing to do.
	backPatience = 600 * time.Millisecond

	// takeBackTime bounds what is done to leave a pane as it was, also when the caller has given up.
	takeBackTime = 20 * time.Second

	screenLines = 40
)

// Answer types the answers into the dialog that asked for them. It returns when the dialog has closed, or when the answer
// cannot be delivered; then nothing of it is left where that can be made sure of.
func (t Typist) Answer(ctx context.Context, at Target, choices []Choice) Outcome {
	h := &hand{t: t, at: at}
	acts, removed, err := plan(choices)
	h.out.Removed = removed
	if err != nil {
		return h.ended(Unchanged, err)
	}
	h.acts = acts
	lock, err := LockPane(t.UserState, at.Server, at.Pane)
	if errors.Is(err, state.ErrLocked) {
		return h.ended(Unchanged, notNow("another answer is being typed into that pane"))
	}
	if err != nil {
		return h.ended(Unchanged, err)
	}
	defer lock.Unlock()
	if err := h.arrive(ctx); err != nil {
		return h.ended(Unchanged, err)
	}
	if err := h.answer(ctx); err != nil {
		return h.backOut(ctx, err)
	}
	return h.confirm(ctx)
}

// Standing is how a dialog stands in its pane.
type Standing string

const (
	Unseen    Standing = ""          // cannot be told: the pane shows something that is not known
	Untouched Standing = "untouched" // its first question is open as it was asked
	Touched   Standing = "touched"   // it is open, and something in it was answered, ticked or typed
	OnReview  Standing = "review"    // its page "Review your answers" is open
	Gone      Standing = "gone"      // it is not on the screen, something else of Claude Code's is
)

// Look says how the dialog stands, and types nothing.
func (t Typist) Look(ctx context.Context, at Target, choices []Choice) (Standing, Screen, error) {
	h := &hand{t: t, at: at}
	for _, c := range choices {
		h.acts = append(h.acts, act{prompt: c.Prompt})
	}
	if len(h.acts) == 0 {
		return Unseen, Screen{}, errors.New("there is no question to look for")
	}
	if err := h.calm(ctx); err != nil {
		return Unseen, h.screen, err
	}
	h.page = h.open(0)
	switch {
	case h.untouched(h.screen) == "":
		return Untouched, h.screen, nil
	case slices.ContainsFunc(h.acts, func(a act) bool { return asks(h.screen, a.prompt) == "" }):
		return Touched, h.screen, nil
	case h.screen.Kind == Review && h.lists(h.screen):
		return OnReview, h.screen, nil
	case h.screen.Kind == Unknown:
		return Unseen, h.screen, nil
	}
	return Gone, h.screen, nil
}

// lists says whether a review page is about these questions.
func (h *hand) lists(s Screen) bool {
	for _, r := range s.Answers {
		if !slices.ContainsFunc(h.acts, func(a act) bool { return Same(r.Question, a.prompt.Question) }) {
			return false
		}
	}
	return true
}

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
