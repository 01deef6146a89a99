package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"gchat-hooks/state"
)

// Menu is menu-driver. For people's scripts and for agents, it presses the keys that a
// person would press in a session of Claude Code. Every action first reads the screen and
// refuses keys that would do something else there. Afterwards it checks on the screen
// that the action happened.
type Menu struct {
	UserState string       // the person's state folder, for the locks of panes
	Env       state.Getenv // TMUX names the server; without it, the person's default server
	Out       io.Writer    // receives what snapshot prints
	// EffectTimeout is how long to wait for a key's effect. 0 means 10 s, and 60 s for
	// /clear, which runs hooks.
	EffectTimeout time.Duration

	// MayDecide allows choices in dialogs that let Claude act: permissions and plans.
	MayDecide     bool
	InterruptOnly bool // esc only interrupts Claude; it does not leave an open dialog
	PromptOnly    bool // type and submit use only the input box; they answer no dialog
	// OwnText is a text that we typed and that may not have been sent. type removes it from
	// the input box.
	OwnText string
	// Typed is what we typed last. type and esc remove it where Claude Code put it back into
	// the input box; see HoldsTyped.
	Typed       *state.TypedPrompt
	ClaudePID   int    // the Claude Code that is meant; 0 means any
	ClaudeStart string // see Pane.FindClaude
}

// Run does one action in a session. session is a pane (%N) or the name of a tmux session,
// either in full or a beginning that only one session has. Errors have a Hint that says
// what to do next, and an exit code: 1 if there is no such session or no tmux, 2 if the
// action was refused and no key changed anything, 3 if keys were pressed but the screen
// does not show that it worked, 4 if the call is wrong.
func (m Menu) Run(ctx context.Context, session, action string, args []string) error {
	d := menuRun{
		Menu:    m,
		session: session,
		keyboard: keyboard{
			server:        ServerOf(m.Env("TMUX")),
			effectTimeout: cmp.Or(m.EffectTimeout, 10*time.Second),
		},
		commandLine: strings.Join(append([]string{action}, args...), " "),
		hint:        "menu-driver " + state.QuoteForShell(session) + " snapshot",
	}
	act, err := d.findAction(action, args)
	if err != nil {
		return err
	}
	pane, err := d.findPane(ctx, d.server)
	if err != nil && !d.findSupervisedPane(ctx, &pane) {
		return d.withExitCode(err)
	}
	d.pane, d.session = pane.ID, pane.Session
	if action == "snapshot" {
		return d.withExitCode(act(ctx))
	}
	lock, err := LockPane(d.UserState, d.server, d.pane)
	if err != nil {
		return d.withExitCode(err)
	}
	defer lock.Unlock()
	d.claudePID, err = pane.FindClaude(m.ClaudePID, m.ClaudeStart)
	if err != nil {
		return d.withExitCode(err)
	}
	start := ProcessStart(d.claudePID)
	d.checkReady = func(ctx context.Context, _ keyStep) error {
		_, err := d.findTypablePane(ctx, d.claudePID, start)
		return err
	}
	if err := d.checkReady(ctx, keyStep{}); err != nil {
		return d.withExitCode(err)
	}
	// A dialog that was just drawn loses keys, so it must settle first. The input box
	// loses none, and each key checks the screen again.
	isAtBox := m.PromptOnly && action == "type" &&
		d.readScreen(ctx) == nil && d.screen.Shows == Prompt
	if !isAtBox {
		if err := d.awaitSettled(ctx, func(Screen) string { return "" }); err != nil {
			return d.withExitCode(err)
		}
	}
	return d.withExitCode(act(ctx))
}

// menuRun is one run of menu-driver in a pane.
type menuRun struct {
	Menu
	keyboard
	session     string // as the caller named it, then as tmux names it
	commandLine string // the action and its arguments
	hint        string // what to do next
	claudePID   int    // the Claude Code that has the pane's keyboard
}

// findAction returns the function for an action. Its error means a wrong command line.
func (d *menuRun) findAction(name string, args []string) (func(context.Context) error, error) {
	actions := map[string]func(context.Context) error{
		"snapshot": d.printSnapshot,
		"submit":   d.submit,
		"enter":    d.pressEnter,
		"esc":      d.pressEscape,
	}
	textActions := map[string]func(context.Context, string) error{
		"type":       d.typeText,
		"clear_then": d.clearThen,
	}
	lineBreaks := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", " ")
	given := lineBreaks.Replace(strings.Join(args, " "))
	text := state.Clean(state.ForTyping, given)
	switch {
	case actions[name] != nil && len(args) == 0:
		return actions[name], nil
	case actions[name] != nil:
		return nil, usageError("%s takes no arguments", name)
	case name == "choose":
		n, err := strconv.Atoi(text)
		if err != nil || KeyDigit(n) == "" {
			return nil, usageError("choose takes a number from 1 to 9, not %q", text)
		}
		return func(ctx context.Context) error { return d.chooseRow(ctx, n) }, nil
	case textActions[name] == nil:
		return nil, usageError("there is no action %q", name)
	case text != given || strings.TrimSpace(text) == "":
		return nil, usageError("%s needs a text without control characters", name)
	}
	return func(ctx context.Context) error {
		return textActions[name](ctx, strings.TrimSpace(text))
	}, nil
}

// printSnapshot prints the last 180 lines of the pane.
func (d *menuRun) printSnapshot(ctx context.Context) error {
	shot, err := d.server.Snapshot(ctx, d.pane, 180)
	if err != nil {
		return err
	}
	_, err = io.WriteString(d.Out, strings.Join(shot.Lines, "\n")+"\n")
	return err
}

// findPane finds the pane that is meant. In a session with several panes, it is the one
// in which a Claude Code has the keyboard.
func (d *menuRun) findPane(ctx context.Context, server Server) (Pane, error) {
	if paneIDPattern().MatchString(d.session) {
		return server.Pane(ctx, d.session)
	}
	allPanes, err := server.Panes(ctx)
	if err != nil {
		return Pane{}, err
	}
	names := matchingSessions(allPanes, d.session)
	if len(names) != 1 {
		return Pane{}, fmt.Errorf("find session %q: %w; sessions whose name begins so: %s",
			d.session, ErrNoSession, cmp.Or(strings.Join(names, ", "), "none"))
	}
	panes := slices.DeleteFunc(allPanes, func(p Pane) bool { return p.Session != names[0] })
	claudePanes := panesWithClaude(panes, 0, "")
	switch {
	case len(claudePanes) == 1:
		return claudePanes[0], nil
	case len(panes) == 1:
		return panes[0], nil
	}
	var ids []string
	for _, p := range panes {
		ids = append(ids, p.ID)
	}
	return Pane{}, d.refuse("session %s has %d panes, %d with Claude Code: "+
		"name the pane that you mean, one of %s",
		names[0], len(panes), len(claudePanes), strings.Join(ids, ", "))
}

// findSupervisedPane looks for the pane on the tmux servers of recorded sessions. An
// agent that supervises a session runs menu-driver outside of tmux, where nothing names a
// server other than the default one.
func (d *menuRun) findSupervisedPane(ctx context.Context, target *Pane) bool {
	for _, socket := range state.SessionsIn(d.UserState).TmuxSockets(d.session) {
		if pane, err := d.findPane(ctx, Server{Socket: socket}); err == nil {
			d.server.Socket, *target = socket, pane
			return true
		}
	}
	return false
}

// pressAndAwait presses one step, if the screen has not changed since it was read, and
// waits for the effect. A key that would decide what Claude may do needs MayDecide, and
// it is logged first.
func (d *menuRun) pressAndAwait(ctx context.Context, step keyStep, isDone func(Screen) bool) error {
	before := d.screen
	step.whyNot, step.checkEffect = requireUnchanged(before), requireScreen(isDone)
	isDecision := before.Shows == Permission && before.Question != SwitchModelQuestion
	if isDecision && step.key != KeyEscape {
		if caller, _ := CallingClaude(d.Env); caller == d.claudePID {
			return d.refuseOnScreen("a session does not decide what it may do itself")
		}
		if !d.MayDecide {
			d.hint = "answer it in the terminal, or set \"menu_decides\": true in " +
				state.ConfigFile(d.Env)
			return d.refuseOnScreen("menu-driver does not decide what Claude may do")
		}
		logOnce := sync.OnceValue(func() error { return d.logDecision(step.key) })
		step.whyNot = func(current Screen) string {
			if why := requireUnchanged(before)(current); why != "" {
				return why
			}
			if err := logOnce(); err != nil {
				return "nothing was pressed: " + err.Error()
			}
			return ""
		}
	}
	return d.doStep(ctx, step)
}

// logDecision adds a line about a deciding key to the log of decisions. If that fails,
// the key is not pressed.
func (d *menuRun) logDecision(key Key) error {
	row := d.screen.cursorRow()
	if n, err := strconv.Atoi(string(key)); err == nil {
		row = *d.screen.row(n)
	}
	entry := state.AuditLine{
		SessionName: d.session,
		Kind:        "plan",
		By:          "menu-driver",
		ReplyText:   d.commandLine,
		ClaudeText:  row.Label,
		ShownText:   d.screen.Text,
	}
	if strings.HasPrefix(d.screen.Question, "Do you want to ") {
		entry.Kind = "permission"
	}
	return state.AppendDecision(d.Env, state.NewLog(d.Env, "menu-driver"), entry)
}

// refuseOnScreen returns an error that says why nothing was done, and what is on the
// screen.
func (d *menuRun) refuseOnScreen(why string) error {
	return d.refuse("%s; the screen shows %s", why, d.screen)
}

// chooseRow chooses the row numbered n. In a multi-select this ticks the row or removes
// its tick; elsewhere it answers. If the row is the field for own words, chooseRow only
// moves the cursor there.
func (d *menuRun) chooseRow(ctx context.Context, n int) error {
	cursor, row := d.screen.cursorRow(), d.screen.row(n)
	isHidden := d.screen.Shows == Question && (d.screen.HasRowsBelow || d.screen.HasRowsAbove)
	losesText := cursor.Text != "" && cursor.Number != n && !d.screen.MultiSelect
	switch {
	case !d.screen.IsDialog():
		return d.refuseOnScreen("no dialog is open")
	case losesText:
		return d.refuse("the row \"Type something\" holds a text that would be lost: %q",
			shorten(cursor.Text, 80))
	case row == nil && !isHidden:
		return d.refuseOnScreen(fmt.Sprintf("no row is numbered %d", n))
	}
	key := KeyDigit(n)
	// With previews a digit only moves the cursor. If the cursor is in the field for own
	// words, a digit is typed as text. The digit of that field only ticks it (2.1.329).
	// In these cases the cursor goes to the row, and Enter chooses it.
	if row == nil || d.screen.HasPreview || cursor.Role == OtherRow || row.Role == OtherRow {
		if err := d.goToRow(ctx, func(r Row) bool { return r.Number == n }); err != nil {
			return err
		}
		key, row = KeyEnter, d.screen.row(n)
		if row.Role == OtherRow {
			return nil
		}
	}
	before := d.screen
	return d.pressAndAwait(ctx, keyStep{key: key}, func(current Screen) bool {
		rowNow := current.row(n)
		isTickChanged := rowNow != nil && rowNow.Ticked != row.Ticked
		return !sameDialog(current, before) || before.MultiSelect && isTickChanged
	})
}

// goToRow moves the cursor, row by row, to the first row that is wanted.
func (d *menuRun) goToRow(ctx context.Context, wanted func(Row) bool) error {
	shows := d.screen.Shows
	return d.moveCursor(ctx, wanted, func(s Screen) string {
		if s.Shows != shows {
			return "the dialog was left"
		}
		return ""
	})
}

// pressEnter presses Enter in a dialog or behind a draft. It refuses an empty input box,
// which may hold a suggestion that Enter would send.
func (d *menuRun) pressEnter(ctx context.Context) error {
	before := d.screen
	if before.Shows != Draft && !before.IsDialog() {
		return d.refuseOnScreen("there is nothing that Enter would answer or send")
	}
	return d.pressAndAwait(ctx, keyStep{key: KeyEnter}, func(current Screen) bool {
		return !sameScreen(current, before)
	})
}

// pressEscape leaves a dialog or interrupts Claude. It refuses an idle input box: a
// second Esc there would rewind the conversation, or delete what a person has begun to
// write.
func (d *menuRun) pressEscape(ctx context.Context) error {
	before := d.screen
	if !before.IsDialog() && !before.Busy || before.IsDialog() && d.InterruptOnly {
		return d.refuseOnScreen("there is nothing to leave or to interrupt")
	}
	countInterrupted := func() int { return strings.Count(d.capture, "Interrupted") }
	countBefore := countInterrupted()
	err := d.pressAndAwait(ctx, keyStep{key: KeyEscape}, func(current Screen) bool {
		if before.IsDialog() {
			return !sameDialog(current, before)
		}
		// If prompts are queued, Claude goes on with them at once and stays busy.
		return !current.Busy || countInterrupted() > countBefore
	})
	if err == nil && d.InterruptOnly && before.Draft == "" {
		d.takeBackPrompt(ctx)
	}
	return err
}

// takeBackPrompt clears the input box if it holds exactly what we typed. On a busy machine
// Claude Code may put a prompt back later than this looks; type looks once more.
func (d *menuRun) takeBackPrompt(ctx context.Context) {
	err := d.awaitSettled(ctx, func(Screen) string { return "" })
	if err == nil && d.server.HoldsTyped(ctx, d.pane, d.screen, d.Typed) {
		_ = d.emptyInputBox(ctx)
	}
}

// HoldsTyped reports whether the input box of a pane holds exactly what we typed last, and
// no person has done anything in a terminal of the pane since. Claude Code puts a prompt
// back into the box if it is interrupted before its first output (2.1.197 and 2.1.332).
// It may do so while we already type the next prompt, which then stands behind it.
func (s Server) HoldsTyped(
	ctx context.Context, pane string, screen Screen, typed *state.TypedPrompt,
) bool {
	if screen.Shows != Draft {
		return false
	}
	following := ""
	for ; typed != nil; typed = typed.Before {
		isOurs := func(text string) bool {
			return isDraftOf(screen.Draft, text) ||
				isDrawnDifferently(text) && SameText(screen.Draft, text)
		}
		if isOurs(typed.Text) || isOurs(typed.Text+following) {
			lastKeyAt, err := s.LastTyped(ctx, pane)
			// tmux reports whole seconds
			return err == nil && lastKeyAt.Before(typed.TypedAt.Truncate(time.Second))
		}
		following = typed.Text
	}
	return false
}

// isDrawnDifferently reports whether a text has emoji or accents of several characters.
// Claude Code and tmux leave some of them out, or draw a blank more (2.1.197, 2.1.332 and
// 3.3a).
func isDrawnDifferently(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r > ' ' && runeWidth(r) == 0 })
}

// emptyInputBox removes our own text from the input box.
func (d *menuRun) emptyInputBox(ctx context.Context) error {
	return d.clearField(ctx, d.screen.Draft, func(current Screen) bool {
		return current.Shows == Prompt
	})
}

// clearField presses the keys that remove a text from a field, until the field stays
// empty. Claude Code may lag behind its keys and leave the text without its last
// character (2.1.332, at a load of 30): its box looks empty for a moment, or a later key
// acts on the earlier text.
func (d *menuRun) clearField(ctx context.Context, text string, isEmpty func(Screen) bool) error {
	const mostTries = 3
	keys := strings.Repeat(string(keyClearLine), strings.Count(text, "\n")) + string(KeyClear)
	for try := 1; ; try++ {
		err := d.pressAndAwait(ctx, keyStep{key: Key(keys), standTime: settleTime}, isEmpty)
		rest := cmp.Or(d.screen.Draft, d.screen.cursorRow().Text)
		isOurs := strings.HasPrefix(text, rest) // a person has typed nothing meanwhile
		if !errors.Is(err, errNoEffect) || !isOurs || try == mostTries {
			return err
		}
	}
}

// emptyField removes our text from a question's field for own words, and returns an error
// that says so. The question opened between our look at the input box and the paste. If
// the text stayed, a person's Enter would answer the question with it.
func (d *menuRun) emptyField(ctx context.Context, text string) error {
	err := d.clearField(ctx, text, func(current Screen) bool {
		return current.cursorRow().Text == ""
	})
	if err != nil {
		return err
	}
	return d.refuseOnScreen("a question opened")
}

// isDraftOf reports whether the input box holds this text, byte for byte. Where the box
// breaks a line, it does not draw the blank.
func isDraftOf(draft, text string) bool {
	text = strings.TrimRight(text, " ")
	for i, line := range strings.Split(draft, "\n") {
		isBreak := strings.HasPrefix(text, "\n") || line != "" && strings.HasPrefix(text, " ")
		if i > 0 && isBreak {
			text = text[1:]
		}
		rest, hasLine := strings.CutPrefix(text, line)
		if !hasLine || i > 0 && line == "" && !isBreak {
			return false
		}
		text = rest
	}
	return text == ""
}

// submit sends the text in the input box, the answers of a multi-select or of the review
// page, or the text typed as an answer.
func (d *menuRun) submit(ctx context.Context) error {
	before := d.screen
	switch {
	case before.Draft != "":
		enter := keyStep{key: KeyEnter, followsLast: !d.keyAt.IsZero()}
		return d.pressAndAwait(ctx, enter, func(current Screen) bool { return current.Draft == "" })
	case d.PromptOnly:
		return d.refuseOnScreen("the text is not in the input box")
	case before.Shows == Review:
		return d.chooseRow(ctx, 1)
	case before.Shows == Question && before.MultiSelect:
		if err := d.goToRow(ctx, func(r Row) bool { return r.Role == SubmitRow }); err != nil {
			return err
		}
	case before.cursorRow().Text == "":
		return d.refuseOnScreen("there is nothing to submit")
	}
	before = d.screen
	return d.pressAndAwait(ctx, keyStep{key: KeyEnter}, func(current Screen) bool {
		return !sameDialog(current, before)
	})
}

// typeText sends a text to Claude from the empty input box, or answers a question with
// it. It never adds to a text that is already there, which may be a person's.
//
// If Enter would come too late after the text, it is not pressed. typeText then removes
// the text and types it again.
func (d *menuRun) typeText(ctx context.Context, text string) error {
	const mostTries = 3
	for try := 1; ; try++ {
		err := d.tryTypeText(ctx, text)
		if !errors.Is(err, ErrLate) || try == mostTries || d.screen.Shows != Prompt {
			return err
		}
		d.pressed = nil // the box is empty again
	}
}

// goToField goes to the place where a text is typed: the input box, or a question's field
// for own words. It returns an error unless that place is empty.
func (d *menuRun) goToField(ctx context.Context) error {
	isUnsent := d.OwnText != "" && d.screen.Shows == Draft && SameText(d.screen.Draft, d.OwnText)
	if isUnsent || d.server.HoldsTyped(ctx, d.pane, d.screen, d.Typed) {
		if err := d.emptyInputBox(ctx); err != nil {
			return err
		}
	}
	before := d.screen
	if d.PromptOnly && before.Shows != Prompt {
		return d.refuseOnScreen("there is no empty input box")
	}
	if before.Shows == Question && !before.HasPreview {
		if err := d.goToRow(ctx, func(r Row) bool { return r.Role == OtherRow }); err != nil {
			return err
		}
	}
	cursor := d.screen.cursorRow()
	switch existing := cmp.Or(before.Draft, cursor.Text); {
	case existing != "":
		return d.refuse("nothing was typed: there already is a text, %q, "+
			"which would be sent with yours", shorten(existing, 80))
	case before.Shows != Prompt && cursor.Role != OtherRow:
		return d.refuseOnScreen("there is no place for a text")
	}
	return nil
}

func (d *menuRun) tryTypeText(ctx context.Context, text string) error {
	if err := d.goToField(ctx); err != nil {
		return err
	}
	before := d.screen
	// A backslash before Enter continues the text (2.1.329). "@word", ":word" (2.1.329)
	// and "/word" (2.1.197) are completed, and Enter accepts what is offered. A blank at
	// the end prevents all of these.
	lastWord := strings.LastIndexAny(text, " \n") + 1
	isCommand := lastWord == 0 && text[0] == '/'
	if strings.ContainsAny(text[lastWord:], `\@:/`) && !isCommand {
		text += " "
	}
	isInField := func(current Screen) bool {
		return current.cursorRow().Role == OtherRow && SameText(current.cursorRow().Text, text)
	}
	isTyped := func(current Screen) bool {
		// A list of commands may hide which of the two the box is (2.1.197).
		return before.Shows == Prompt && isPasteOf(current.Draft, text) || isInField(current)
	}
	// The text must stand for a moment: if a person's key follows a paste closely, Claude
	// Code draws it late.
	paste := keyStep{text: text, standTime: settleTime}
	if err := d.pressAndAwait(ctx, paste, isTyped); err != nil {
		return err
	}
	if d.PromptOnly && isInField(d.screen) {
		return d.emptyField(ctx, text)
	}
	err := d.submit(ctx)
	// Unsent text must not stay: later texts would have to wait until it is gone.
	if err != nil && d.screen.Shows == Draft && isPasteOf(d.screen.Draft, text) {
		if clearErr := d.emptyInputBox(ctx); clearErr != nil {
			return UnsubmittedError{err}
		}
	}
	if err != nil || len(before.Tabs) != 2 {
		return err
	}
	// Two tabs mean a multi-select that is asked alone: its own tab and "Submit". Its
	// review page comes next.
	err = d.awaitSettled(ctx, func(Screen) string { return "" })
	if err != nil || d.screen.Shows != Review {
		return err
	}
	return d.chooseRow(ctx, 1)
}

// isPasteOf reports whether a draft is the text that was pasted: all of it, the
// placeholder of a long paste, or the text's end if the box is too small.
func isPasteOf(draft, text string) bool {
	isLong := strings.Contains(text, "\n") || utf8.RuneCountInString(text) > 200
	isPlaceholder := isLong && pastePlaceholder().MatchString(strings.TrimSpace(draft))
	isLongEnd := utf8.RuneCountInString(comparableText(draft)) > 40 && IsEndOf(draft, text)
	return isPlaceholder || isLongEnd || SameText(draft, text)
}

// clearThen clears the conversation and then sends a command into the new one.
func (d *menuRun) clearThen(ctx context.Context, command string) error {
	const clearTimeout = 60 * time.Second // /clear runs the hooks of SessionEnd and SessionStart
	if d.screen.Shows != Prompt || d.screen.Busy {
		return d.refuseOnScreen("Claude is not idle at an empty input box")
	}
	if err := d.typeText(ctx, "/clear"); err != nil {
		return err
	}
	// Claude Code can be idle for about 60 ms before it clears. A command typed then
	// would be cleared too.
	timeout := cmp.Or(d.EffectTimeout, clearTimeout)
	isReady := func(current Screen) bool {
		return current.Shows == Prompt && !current.Busy && isCleared(d.capture)
	}
	err := d.awaitScreen(ctx, timeout, settleTime, requireScreen(isReady))
	if err != nil {
		return err
	}
	return d.typeText(ctx, command)
}

// isCleared reports whether the conversation on the screen, above the input box, consists
// of "/clear" alone.
func isCleared(capture string) bool {
	var turns []string
	for _, l := range readCapture(capture) {
		if first := l.charAt(0); first == "❯" || first == "●" || first == "⏺" {
			// This line begins a person's turn or Claude's, or the input box.
			turns = append(turns, strings.TrimSpace(l.text))
		}
	}
	return len(turns) == 2 && turns[0] == "❯ /clear" // the second is the input box
}

// sameDialog reports whether two screens show the same dialog, whatever is ticked or
// typed in it.
func sameDialog(a, b Screen) bool {
	isSameRow := func(x, y Row) bool {
		return x.Number == y.Number && (x.Label == y.Label || x.Role == OtherRow)
	}
	return a.Shows == b.Shows && a.Why == b.Why && a.Question == b.Question &&
		slices.Equal(a.Tabs, b.Tabs) && slices.EqualFunc(a.Rows, b.Rows, isSameRow)
}

// The exit codes of menu-driver.
const exitNoSession, exitRefused, exitUnseen, exitUsage = 1, 2, 3, 4

// UnsubmittedError means that a text was pasted but not seen in the input box, and that
// no key was pressed that submits. For example, a dialog had opened at that moment.
type UnsubmittedError struct{ error }

func usageError(format string, args ...any) error {
	return &state.UserError{
		Err:  fmt.Errorf(format, args...),
		Code: exitUsage,
		Hint: "menu-driver --help",
	}
}

// refuse returns an error that says why nothing was done.
func (d *menuRun) refuse(format string, args ...any) error {
	return &state.UserError{Err: fmt.Errorf(format, args...), Code: exitRefused, Hint: d.hint}
}

// withExitCode adds an exit code and a hint to an error.
func (d *menuRun) withExitCode(err error) error {
	isScreenError := errors.As(err, new(mismatchError)) || errors.Is(err, errNoEffect)
	switch {
	case err == nil || errors.As(err, new(*state.UserError)):
		return err
	case isScreenError && len(d.pressed) > 0:
		last := d.pressed[len(d.pressed)-1]
		err = fmt.Errorf("%s was sent, but the screen still shows %s", last, d.screen)
		if last.text != "" {
			err = UnsubmittedError{err}
		}
		return &state.UserError{Err: err, Code: exitUnseen, Hint: d.hint}
	case errors.As(err, new(UnsubmittedError)):
		return &state.UserError{Err: err, Code: exitUnseen, Hint: d.hint}
	case isScreenError, errors.Is(err, ErrNoClaude), errors.Is(err, ErrNoKeys):
		return d.refuse("%w", err)
	case errors.Is(err, state.ErrLocked):
		return d.refuse("gchat-hooks is typing into this pane already: %w", err)
	case errors.Is(err, exec.ErrNotFound):
		return &state.UserError{Err: err, Code: exitNoSession, Hint: "install tmux"}
	}
	return &state.UserError{
		Err:  err,
		Code: exitNoSession,
		Hint: "tmux -S " + d.server.socketPath() + " list-panes -a",
	}
}

// String describes in a few words what is on a screen.
func (s Screen) String() string {
	switch s.Shows {
	case Prompt:
		if s.Busy {
			return "Claude at work"
		}
		return "an empty input box"
	case Draft:
		return fmt.Sprintf("a text in the input box: %q", shorten(s.Draft, 80))
	case Question, Permission:
		return fmt.Sprintf("the dialog %q", shorten(s.Question, 80))
	case Review:
		return `the page "Review your answers"`
	}
	return s.Why
}
