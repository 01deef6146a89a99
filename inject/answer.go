package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gchat-hooks/state"
)

// Target is where an answer belongs: the pane, and the Claude Code in it that asked.
type Target struct {
	Server      Server
	Pane        string // %N
	ClaudePID   int    // 0 takes whatever Claude Code has the pane's keyboard
	ClaudeStart string // see ProcessStart; "" is unknown
}

var (
	// ErrNoTmux says that a session was never in tmux, as far as is known.
	ErrNoTmux = errors.New("the session does not run in tmux")
	// ErrFileGone says that the tmux session, or the pane, is not there at present.
	ErrTmuxGone = errors.New("the tmux session is gone")
)

// Locate finds the pane that a question's answer belongs into. Its record names the pane;
// one of another program names the tmux session, in which one pane has Claude Code. tmux
// is $TMUX, for a record that names no server.
func Locate(ctx context.Context, q *state.Question, tmux string) (Target, error) {
	target := Target{
		Server:      Server{Socket: q.TmuxSocket},
		ClaudePID:   q.ClaudePID,
		ClaudeStart: q.ClaudeStart,
	}
	if q.TmuxSocket == "" {
		target.Server = ServerOf(tmux)
	}
	panes, err := target.Server.Panes(ctx)
	if err != nil && !errors.Is(err, ErrNoServer) {
		return target, err
	}
	session := cmp.Or(q.TmuxSession, q.SessionName)
	panes = slices.DeleteFunc(panes, func(p Pane) bool {
		return q.TmuxPane != "" && p.ID != q.TmuxPane || q.TmuxPane == "" && p.Session != session
	})
	switch {
	case len(panes) == 0 && q.TmuxPane == "" && q.TmuxSession == "":
		return target, ErrNoTmux
	case len(panes) == 0:
		return target, ErrTmuxGone
	case q.TmuxPane == "":
		panes = panesWithClaude(panes, q.ClaudePID, q.ClaudeStart)
	}
	if len(panes) != 1 {
		return target, fmt.Errorf(
			"%d panes of the tmux session %q run Claude Code",
			len(panes),
			session,
		)
	}
	target.Pane = panes[0].ID
	return target, nil
}

// panesWithClaude are the panes of which a Claude Code has the keyboard; see
// Pane.FindClaude.
func panesWithClaude(panes []Pane, pid int, start string) []Pane {
	return slices.DeleteFunc(
		slices.Clone(panes),
		func(p Pane) bool { _, err := p.FindClaude(pid, start); return err != nil },
	)
}

// Choice is one prompt of the dialog with what is to be answered, in the order of the
// dialog.
type Choice struct {
	SubQuestion state.SubQuestion
	Answer      state.Answer
	ChoosesChat bool // the dialog is turned down, by its row "Chat about this"
}

// Result is what became of an answer.
type Result string

const (
	Injected  Result = "injected" // the dialog took it and closed
	Unchanged Result = "clean"    // not delivered, and nothing of it is left in the pane
	// not delivered, or not for sure, and a person must look at the pane
	Dirty Result = "dirty"
)

// Outcome says how an answer went.
type Outcome struct {
	Result   Result
	Why      string   // for a person, one sentence without a full stop; "" when Injected as meant
	KeyCount int      // keys and pieces of text that were sent
	Steps    []string // what they were, in words; of a dry run, the answers that would be typed
	// not delivered because the dialog is not open any more: it was answered or left in
	// the terminal
	DialogGone bool
}

// Typist answers dialogs of Claude Code at their keyboard. It is a closed loop: before
// every key the screen shows the dialog that asked, as the last key should have left it,
// and after every key its effect is awaited. The zero value works.
type Typist struct {
	UserState string // the person's state folder, for the pane's lock

	// Before is called before every key or piece of text, for the caller to write it
	// down; commit says that this key may submit the answer to Claude. An error stops the
	// answer before the key.
	BeforeKey func(key string, commit bool) error
	DryRun    bool // checks place and dialog, and says what it would type

	EffectTimeout time.Duration // how long a key's effect is awaited; 0 is 2.5 s
	QuietTime     time.Duration // how long no person has typed in the session's terminals; 0 is 3 s
	// after which a pane that was left scrolled back is set right; 0 is a minute
	IdleTime time.Duration
}

const (
	effectTimeout = 2500 * time.Millisecond
	quietTime     = 3 * time.Second
	idleTime      = time.Minute

	// strayTime is how long the input box is watched for a key of ours that came after
	// the dialog had closed: a busy 2.1.329 shows one more than 400 ms later.
	strayTime = 2 * time.Second

	// bounds what is done at the end, also when the caller has given up
	cleanupTimeout = 20 * time.Second
)

// closedError is why an answer cannot be typed any more: its dialog is not open.
type closedError string

func (c closedError) Error() string { return string(c) }

// answerRun is one answer on its way into a dialog.
type answerRun struct {
	Typist
	keyboard
	page
	target Target

	lastTyped time.Time // by a person, when it began
}

// AnswerDialog types the answers into the dialog that asked for them. It returns when the
// dialog has closed, or when the answer cannot be delivered.
func (t Typist) AnswerDialog(ctx context.Context, target Target, choices []Choice) Outcome {
	a := &answerRun{Typist: t, target: target}
	a.keyboard = keyboard{
		server:        target.Server,
		pane:          target.Pane,
		effectTimeout: cmp.Or(t.EffectTimeout, effectTimeout),
		checkReady:    a.checkBeforeKey,
	}
	var err error
	a.plans, err = planPages(choices)
	if err != nil {
		return a.outcome(Unchanged, err)
	}
	lock, err := LockPane(t.UserState, target.Server, target.Pane)
	if errors.Is(err, state.ErrLocked) {
		err = mismatchError("another answer is being typed into that pane")
	}
	if err != nil {
		return a.outcome(Unchanged, err)
	}
	defer lock.Unlock()
	if err := a.prepare(ctx); err != nil {
		return a.outcome(Unchanged, err)
	}
	if t.DryRun {
		preview := Outcome{Result: Unchanged}
		for _, plan := range a.plans {
			preview.Steps = append(preview.Steps, plan.reviewText())
		}
		return preview
	}
	err = a.fillPages(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return a.finish(ctx, err)
}

// finish makes sure that the key which closed the dialog was ours: one that stands in the
// input box came after the dialog had closed. Where the screen shows that nothing was
// done yet, nothing was. What else was ticked or typed stays, for a person to look at.
func (a *answerRun) finish(ctx context.Context, err error) Outcome {
	isScreenError := errors.Is(err, errNoEffect) || errors.As(err, new(mismatchError))
	switch {
	case len(a.pressed) == 0, isScreenError && page{plans: a.plans}.whyNotPage(a.screen, 0) == "":
		return a.outcome(Unchanged, err)
	case a.clearStrayText(ctx):
		return a.outcome(
			Dirty,
			closedError("the question was answered or left in the terminal a moment before"),
		)
	case err != nil:
		return a.outcome(Dirty, err)
	}
	return a.outcome(Injected, nil)
}

func (a *answerRun) outcome(result Result, err error) Outcome {
	out := Outcome{Result: result, KeyCount: len(a.pressed)}
	for _, s := range a.pressed {
		out.Steps = append(out.Steps, s.String())
	}
	if errors.Is(err, ErrNoPane) || errors.Is(err, ErrNoServer) {
		err = closedError("its tmux pane is closed")
	}
	if err != nil {
		out.Why = err.Error()
	}
	out.DialogGone = errors.As(err, new(closedError)) ||
		result != Injected && a.screen.Shows == Prompt && !a.screen.Busy
	return out
}

// prepare makes sure that keys would reach the Claude Code that asked and that its dialog
// is open, untouched and settled.
func (a *answerRun) prepare(ctx context.Context) error {
	p, err := a.server.Pane(ctx, a.pane)
	if err != nil {
		return err
	}
	last, err := a.server.LastTyped(ctx, p.ID)
	if err != nil {
		return err
	}
	if p.InMode && !a.DryRun {
		// tmux would take the keys for its own. A person who scrolled back a moment ago
		// reads there and is left alone.
		if isRecent(last, cmp.Or(a.IdleTime, idleTime)) {
			return mismatchError("the pane is scrolled back and a person was there a moment ago")
		}
		if err := a.server.Unscroll(ctx, a.pane); err != nil {
			return err
		}
	}
	if isRecent(last, cmp.Or(a.QuietTime, quietTime)) {
		return mismatchError("a person is typing in that pane")
	}
	a.lastTyped = last
	a.activity, err = a.server.sessionActivity(ctx, p.ID)
	if err != nil {
		return err
	}
	if err := a.checkCanType(ctx); err != nil {
		return err
	}
	err = a.awaitSettled(ctx, func(s Screen) string { return a.whyNotPage(s, 0) })
	if err != nil && (a.screen.Shows == Prompt || a.screen.Shows == Draft) {
		return closedError(err.Error())
	}
	return err
}

// isRecent says whether that was less than so long ago. A time to come is of a clock that
// was set back since: it says nothing, and must not hold the answer until then.
func isRecent(at time.Time, within time.Duration) bool {
	elapsed := time.Since(at)
	return elapsed < within && elapsed > -2*time.Second // tmux counts whole seconds
}

// checkCanType says whether keys would reach the Claude Code that asked, and no person
// types.
func (a *answerRun) checkCanType(ctx context.Context) error {
	p, err := a.findTypablePane(ctx, a.target.ClaudePID, a.target.ClaudeStart)
	switch {
	case p.Dead:
		return closedError("what ran in its pane has ended")
	case err != nil:
		return err
	case p.InMode && !a.DryRun:
		return mismatchError("the pane is scrolled back or in another mode of tmux")
	}
	last, err := a.server.LastTyped(ctx, p.ID)
	if err == nil && last.After(a.lastTyped) {
		return mismatchError("a person is typing in that pane")
	}
	return err
}

// checkBeforeKey is asked before every key.
func (a *answerRun) checkBeforeKey(ctx context.Context, s keyStep) error {
	err := a.checkCanType(ctx)
	if err != nil || a.BeforeKey == nil {
		return err
	}
	if err := a.BeforeKey(s.String(), s.maySubmit); err != nil {
		return fmt.Errorf("write down the key: %w", err)
	}
	return nil
}

// hasReviewPage says whether the dialog ends on a page that shows the answers: only one
// single choice has none.
func (a *answerRun) hasReviewPage() bool {
	return !a.plans[0].choosesChat && (len(a.plans) > 1 || a.plans[0].subQuestion.MultiSelect)
}

// pastePlaceholder is how the input box shows a long paste: "[Pasted text #1 +4 lines]".
var pastePlaceholder = pattern(`^.?\[Pasted text #\d+( \+\d+ lines?)?\]$`)

// clearStrayText watches the input box for a moment: when the last key or text stands
// there, the dialog had closed before it came. Where it stands alone, the box is cleared
// once.
func (a *answerRun) clearStrayText(ctx context.Context) (stray bool) {
	step := a.pressed[len(a.pressed)-1]
	last := step.text
	if len(step.key) == 1 {
		last = string(step.key)
	}
	if last == "" {
		return false
	}
	isAlone := func(s Screen) bool {
		return s.Shows == Draft &&
			(SameText(s.Draft, last) || len(last) > 1 && pastePlaceholder().MatchString(s.Draft))
	}
	if err := a.awaitScreen(ctx, strayTime, 0, requireScreen(isAlone)); err != nil {
		return a.screen.Shows == Draft && IsEndOf(last, a.screen.Draft)
	}
	// whatever became of the question meanwhile
	a.checkReady = func(context.Context, keyStep) error { return nil }
	s := keyStep{key: KeyClear}
	s.whyNot, s.checkEffect = requireUnchanged(
		a.screen,
	), requireScreen(
		func(s Screen) bool { return s.Shows == Prompt },
	)
	_ = a.doStep(ctx, s) // where it does nothing, the text is for a person to see
	return true
}
