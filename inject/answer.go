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

// Target says where an answer goes: the pane, and the Claude Code in it that asked.
type Target struct {
	Server      Server
	Pane        string // %N
	ClaudePID   int    // 0 means any Claude Code that has the pane's keyboard
	ClaudeStart string // see ProcessStart; "" if unknown
}

var (
	// ErrNoTmux means that the session was never in tmux, as far as its record says.
	ErrNoTmux = errors.New("the session does not run in tmux")
	// ErrTmuxGone means that the recorded tmux session or pane does not exist.
	ErrTmuxGone = errors.New("the tmux session is gone")
)

// Locate finds the pane of the Claude Code that asked a question. Most records name the
// pane. A record that another program wrote names only the tmux session, and Locate then
// looks for the one pane in it that runs Claude Code. tmux is the value of $TMUX; it says
// which server to ask if the record names none.
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
		if q.TmuxPane != "" {
			return p.ID != q.TmuxPane
		}
		return p.Session != session
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
		return target, fmt.Errorf("%d panes of the tmux session %q run Claude Code",
			len(panes), session)
	}
	target.Pane = panes[0].ID
	return target, nil
}

// panesWithClaude returns the panes whose keyboard a Claude Code has; see
// Pane.FindClaude.
func panesWithClaude(panes []Pane, pid int, start string) []Pane {
	return slices.DeleteFunc(slices.Clone(panes), func(p Pane) bool {
		_, err := p.FindClaude(pid, start)
		return err != nil
	})
}

// Choice is one question of the dialog with its answer. Choices come in the order of the
// dialog.
type Choice struct {
	SubQuestion state.SubQuestion
	Answer      state.Answer
	ChoosesChat bool // declines the whole dialog with its row "Chat about this"
}

// Result says whether the dialog has the answer.
type Result string

const (
	// Injected means that the dialog received the answer and closed.
	Injected Result = "injected"
	// Unchanged means that the answer was not delivered and left nothing in the pane.
	Unchanged Result = "clean"
	// Dirty means that the answer was not delivered, or perhaps not. A person must look
	// at the pane.
	Dirty Result = "dirty"
)

// Outcome describes how an attempt to answer went.
type Outcome struct {
	Result Result
	// Why is the reason for a person, one sentence without a full stop. It is "" when all
	// went well.
	Why      string
	KeyCount int // keys and pieces of text that were sent
	// Steps describes those keys and texts. After a dry run it holds the answers that
	// would be typed.
	Steps []string
	// DialogGone means that someone answered or left the dialog in the terminal. The
	// answer was not delivered.
	DialogGone bool
}

// Typist answers dialogs of Claude Code at their keyboard. It is a closed loop: before
// every key the screen shows the dialog that asked, as the last key should have left it,
// and after every key its effect is awaited. The zero value works.
type Typist struct {
	UserState string // the person's state folder, for the pane's lock

	// BeforeKey is called before every key or piece of text, so that the caller can
	// record it. commit says that this key may submit the answer to Claude. If BeforeKey
	// returns an error, the key is not pressed and the attempt ends.
	BeforeKey func(key string, commit bool) error
	DryRun    bool // checks place and dialog, and reports what it would type

	EffectTimeout time.Duration // how long to wait for a key's effect; 0 means 2.5 s
	// QuietTime is how long nobody must have typed in the session's terminals before we
	// type. 0 means 3 s.
	QuietTime time.Duration
	// IdleTime is how long nobody must have typed before a pane that is scrolled back is
	// returned to its live screen; 0 means a minute.
	IdleTime time.Duration
}

const (
	effectTimeout = 2500 * time.Millisecond
	quietTime     = 3 * time.Second
	idleTime      = time.Minute

	// strayTime is how long we watch the input box for a key of ours that came after the
	// dialog had closed. A busy Claude Code 2.1.329 shows one more than 400 ms later.
	strayTime = 2 * time.Second

	// cleanupTimeout bounds the last checks, which run even if the caller has given up.
	cleanupTimeout = 20 * time.Second
)

// closedError explains that the dialog is not open, so its answer cannot be typed.
type closedError string

func (c closedError) Error() string { return string(c) }

// answerRun is one attempt to type an answer into a dialog.
type answerRun struct {
	Typist
	keyboard
	page
	target Target

	lastTyped time.Time // when a person last typed before the attempt
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

// finish checks that our key closed the dialog. If our key is in the input box, the
// dialog had closed before the key came. The attempt is Unchanged if no key was pressed,
// or if the screen still shows the untouched first page. Anything else that was ticked or
// typed stays, for a person to look at.
func (a *answerRun) finish(ctx context.Context, err error) Outcome {
	isScreenError := errors.Is(err, errNoEffect) || errors.As(err, new(mismatchError))
	isUntouched := isScreenError && page{plans: a.plans}.whyNotPage(a.screen, 0) == ""
	switch {
	case len(a.pressed) == 0, isUntouched:
		return a.outcome(Unchanged, err)
	case a.clearStrayText(ctx):
		return a.outcome(Dirty,
			closedError("the question was answered or left in the terminal a moment before"))
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

// prepare checks that keys would reach the Claude Code that asked, and that its dialog is
// open, untouched and settled.
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
		// tmux would treat our keys as its own commands. A person who scrolled back a
		// moment ago is reading there and is left alone.
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

// isRecent reports whether a moment is less than within ago. A moment in the future comes
// from a clock that was set back. It counts as not recent, because it must not hold up
// the answer.
func isRecent(at time.Time, within time.Duration) bool {
	elapsed := time.Since(at)
	return elapsed < within && elapsed > -2*time.Second // tmux counts whole seconds
}

// checkCanType returns nil if keys would reach the Claude Code that asked and no person
// types.
func (a *answerRun) checkCanType(ctx context.Context) error {
	p, err := a.findTypablePane(ctx, a.target.ClaudePID, a.target.ClaudeStart)
	switch {
	case p.Dead:
		return closedError("the program in its pane has ended")
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

// checkBeforeKey runs before every key: it calls checkCanType, and then BeforeKey.
func (a *answerRun) checkBeforeKey(ctx context.Context, s keyStep) error {
	err := a.checkCanType(ctx)
	if err != nil || a.BeforeKey == nil {
		return err
	}
	if err := a.BeforeKey(s.String(), s.maySubmit); err != nil {
		return fmt.Errorf("record key: %w", err)
	}
	return nil
}

// hasReviewPage reports whether the dialog ends on a page that shows the answers. A
// dialog with one single-choice question has no such page.
func (a *answerRun) hasReviewPage() bool {
	return !a.plans[0].choosesChat && (len(a.plans) > 1 || a.plans[0].subQuestion.MultiSelect)
}

// pastePlaceholder matches what the input box shows for a long paste: "[Pasted text #1 +4
// lines]".
var pastePlaceholder = pattern(`^.?\[Pasted text #\d+( \+\d+ lines?)?\]$`)

// clearStrayText watches the input box for a moment and reports whether our last key or
// text stands there. If so, the dialog had closed before it came. If nothing else stands
// there, clearStrayText clears the box once.
func (a *answerRun) clearStrayText(ctx context.Context) (isStray bool) {
	step := a.pressed[len(a.pressed)-1]
	last := step.text
	if len(step.key) == 1 {
		last = string(step.key)
	}
	if last == "" {
		return false
	}
	isAlone := func(s Screen) bool {
		if s.Shows != Draft {
			return false
		}
		isPlaceholder := len(last) > 1 && pastePlaceholder().MatchString(s.Draft)
		return isPlaceholder || SameText(s.Draft, last)
	}
	if err := a.awaitScreen(ctx, strayTime, 0, requireScreen(isAlone)); err != nil {
		return a.screen.Shows == Draft && IsEndOf(last, a.screen.Draft)
	}
	// Our text must go, whatever has become of the question meanwhile.
	a.checkReady = func(context.Context, keyStep) error { return nil }
	// If this fails, a person sees the text.
	_ = a.doStep(ctx, keyStep{
		key:         KeyClear,
		whyNot:      requireUnchanged(a.screen),
		checkEffect: requireScreen(func(s Screen) bool { return s.Shows == Prompt }),
	})
	return true
}
