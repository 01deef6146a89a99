package inject

import (
	"context"
	"errors"
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
