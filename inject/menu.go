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

// Menu is menu-driver: it presses what a person would press in a session of Claude Code,
// for people in scripts and for agents. Every action first reads the screen, refuses what
// would go astray there, and then sees to it that the screen says it happened.
type Menu struct {
	UserState string       // the person's state folder, for the locks of panes
	Env       state.Getenv // TMUX names the server; without it, it is the person's default one
	Out       io.Writer    // what snapshot prints
	// how long an effect is waited for; 0 is 10 s, and 60 s for /clear, which runs hooks
	Patience time.Duration

	Decides     bool   // it may also choose in dialogs that let Claude act: a permission, a plan
	Interrupt   bool   // esc only interrupts Claude: an open dialog stays
	PromptOnly  bool   // type and submit go to the input box alone: no dialog is answered
	Ours        string // what we typed, and may stand in the input box: type and esc take it out
	ClaudePID   int    // of the Claude Code that is meant; 0 is any
	ClaudeStart string // see Pane.FindClaude
}

// Run does one action in a session: the name of a tmux session (exact, or the beginning
// of only one), or a pane (%N). Errors have ExitCode: 1 no such session or no tmux, 2
// refused, and nothing was pressed that changed anything, 3 pressed, but the screen does
// not say that it worked, 4 called wrongly; and Hint, what to do next.
func (m Menu) Run(ctx context.Context, session, action string, args []string) error {
	d := driver{
		Menu:    m,
		session: session,
		hint:    "menu-driver " + state.QuoteForShell(session) + " snapshot",
	}
	d.called = strings.Join(append([]string{action}, args...), " ")
	d.server = ServerOf(m.Env("TMUX"))
	do, err := d.action(action, args)
	if err != nil {
		return err
	}
	found, err := d.locate(ctx, d.server)
	if err != nil && !d.locateSupervised(ctx, &found) {
		return d.coded(err)
	}
	d.pane, d.session = found.ID, found.Session
	d.patience = cmp.Or(m.Patience, 10*time.Second)
	if action == "snapshot" {
		return d.coded(do(ctx))
	}
	lock, err := LockPane(d.UserState, d.server, d.pane)
	if err != nil {
		return d.coded(err)
	}
	defer lock.Unlock()
	d.claude, err = found.FindClaude(m.ClaudePID, m.ClaudeStart)
	if err != nil {
		return d.coded(err)
	}
	start := ProcessStart(d.claude)
	d.ready = func(ctx context.Context, _ keystep) error {
		_, err := d.reaches(ctx, d.claude, start)
		return err
	}
	if err := d.ready(ctx, keystep{}); err != nil {
		return d.coded(err)
	}
	// A dialog that was just drawn loses keys; the input box does not, and each key looks
	// again.
	isAtBox := m.PromptOnly && action == "type" && d.read(ctx) == nil && d.screen.Shows == Prompt
	if !isAtBox {
		if err := d.settled(ctx, func(Screen) string { return "" }); err != nil {
			return d.coded(err)
		}
	}
	return d.coded(do(ctx))
}

// driver is one run of a menu in the pane that it found.
type driver struct {
	Menu
	keyboard
	session string // as it was called, then as tmux calls it
	called  string // the action with what follows it
	hint    string // what to do next
	claude  int    // the Claude Code that has the pane's keyboard, its pid
}

// action is what an action does; an error is one of the command line.
func (d *driver) action(name string, args []string) (func(context.Context) error, error) {
	alone := map[string]func(context.Context) error{
		"snapshot": d.snapshot, "submit": d.submit, "enter": d.enter, "esc": d.escape,
	}
	withText := map[string]func(context.Context, string) error{
		"type":       d.typeText,
		"clear_then": d.clearThen,
	}
	words := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", " ").
		Replace(strings.Join(args, " "))
	text := state.Clean(state.ForTyping, words)
	switch {
	case alone[name] != nil && len(args) == 0:
		return alone[name], nil
	case alone[name] != nil:
		return nil, usage("%s takes no words after it", name)
	case name == "choose":
		n, err := strconv.Atoi(text)
		if err != nil || KeyDigit(n) == "" {
			return nil, usage("choose takes a number from 1 to 9, not %q", text)
		}
		return func(ctx context.Context) error { return d.choose(ctx, n) }, nil
	case withText[name] == nil:
		return nil, usage("there is no action %q", name)
	case text != words || strings.TrimSpace(text) == "":
		return nil, usage("%s needs a text without control characters", name)
	}
	return func(ctx context.Context) error { return withText[name](ctx, strings.TrimSpace(text)) }, nil
}

// snapshot prints the last 180 lines of the pane.
func (d *driver) snapshot(ctx context.Context) error {
	shot, err := d.server.Snapshot(ctx, d.pane, 180)
	if err != nil {
		return err
	}
	_, err = io.WriteString(d.Out, strings.Join(shot.Lines, "\n")+"\n")
	return err
}

// locate finds the pane that is meant. Of several in a session it is the one where a
// Claude Code has the keyboard.
func (d *driver) locate(ctx context.Context, server Server) (Pane, error) {
	if paneID().MatchString(d.session) {
		return server.Pane(ctx, d.session)
	}
	all, err := server.Panes(ctx)
	if err != nil {
		return Pane{}, err
	}
	called := sessionsCalled(all, d.session)
	if len(called) != 1 {
		return Pane{}, fmt.Errorf("find session %q: %w; names that begin so: %s",
			d.session, ErrNoSession, cmp.Or(strings.Join(called, ", "), "none"))
	}
	panes := slices.DeleteFunc(all, func(p Pane) bool { return p.Session != called[0] })
	claudes := panesWithClaude(panes, 0, "")
	switch {
	case len(claudes) == 1:
		return claudes[0], nil
	case len(panes) == 1:
		return panes[0], nil
	}
	var ids []string
	for _, p := range panes {
		ids = append(ids, p.ID)
	}
	return Pane{}, d.refuse(
		"session %s has %d panes, %d with Claude Code: name the pane that you mean, one of %s",
		called[0],
		len(panes),
		len(claudes),
		strings.Join(ids, ", "),
	)
}

// locateSupervised finds the pane on the server that its agent was told of: an agent runs
// the lines of its message outside of tmux, where nothing names a server that is not the
// default one.
func (d *driver) locateSupervised(ctx context.Context, found *Pane) bool {
	for _, socket := range state.SessionsIn(d.UserState).TmuxSockets(d.session) {
		if pane, err := d.locate(ctx, Server{Socket: socket}); err == nil {
			d.server.Socket, *found = socket, pane
			return true
		}
	}
	return false
}

// press sends one step, where the screen is still what was decided on, and awaits what it
// does.
func (d *driver) press(ctx context.Context, s keystep, done func(Screen) bool) error {
	was := d.screen
	s.before, s.after = unchanged(was), effect(done)
	if was.Shows == Permission && was.Question != SwitchModel && s.key != KeyEscape {
		if caller, _ := CallingClaude(d.Env); caller == d.claude {
			return d.refuseHere("a session does not decide what it may do itself")
		}
		if !d.Decides {
			d.hint = "answer it in the terminal, or set \"menu_decides\": true in " + state.ConfigFile(
				d.Env,
			)
			return d.refuseHere("menu-driver does not decide what Claude may do")
		}
		audit := sync.OnceValue(func() error { return d.audit(s.key) })
		s.before = func(now Screen) string {
			if why := unchanged(was)(now); why != "" {
				return why
			}
			if err := audit(); err != nil {
				return "nothing was pressed: " + err.Error()
			}
			return ""
		}
	}
	return d.send(ctx, s)
}

// audit adds a line to the log of decisions, of a key that chooses. Without the line, the
// key is not pressed.
func (d *driver) audit(key Key) error {
	row := d.screen.cursor()
	if n, err := strconv.Atoi(string(key)); err == nil {
		row = *d.screen.row(n)
	}
	line := state.AuditLine{
		SessionName: d.session, Kind: "plan", By: "menu-driver", ReplyText: d.called, ClaudeText: row.Label, ShownText: d.screen.Text,
	}
	if strings.HasPrefix(d.screen.Question, "Do you want to ") {
		line.Kind = "permission"
	}
	return state.AppendDecision(d.Env, state.NewLog(d.Env, "menu-driver"), line)
}

// refuseHere says why nothing was done, and what is on the screen.
func (d *driver) refuseHere(why string) error {
	return d.refuse("%s; the screen shows %s", why, d.screen)
}

// choose takes the row numbered n. In a multi-select that ticks it, or takes the tick
// away; elsewhere it is the answer. The row for own words only gets the cursor.
func (d *driver) choose(ctx context.Context, n int) error {
	at, row := d.screen.cursor(), d.screen.row(n)
	hidden := d.screen.Shows == Question && (d.screen.Below || d.screen.Above)
	switch {
	case !d.screen.Dialog():
		return d.refuseHere("no dialog is open")
	case at.Text != "" && at.Number != n && !d.screen.Multi:
		return d.refuse(
			"the row \"Type something\" holds a text that would be lost: %q",
			brief(at.Text, 80),
		)
	case row == nil && !hidden:
		return d.refuseHere(fmt.Sprintf("no row is numbered %d", n))
	}
	key := KeyDigit(n)
	// With previews a digit only moves the cursor; in the row for own words it is text;
	// of that row it only ticks it (2.1.329).
	if row == nil || d.screen.Preview || at.Is == OtherRow || row.Is == OtherRow {
		if err := d.goTo(ctx, func(r Row) bool { return r.Number == n }); err != nil {
			return err
		}
		key, row = KeyEnter, d.screen.row(n)
		if row.Is == OtherRow {
			return nil
		}
	}
	s := d.screen
	return d.press(ctx, keystep{key: key}, func(now Screen) bool {
		then := now.row(n)
		return !sameDialog(now, s) || s.Multi && then != nil && then.Ticked != row.Ticked
	})
}

// goTo moves the cursor, row by row, to the first row that is wanted.
func (d *driver) goTo(ctx context.Context, wanted func(Row) bool) error {
	shows := d.screen.Shows
	return d.moveTo(ctx, wanted, func(s Screen) string {
		if s.Shows != shows {
			return "the dialog was left"
		}
		return ""
	})
}

// enter presses Enter where it does something. An empty input box may hold a suggestion,
// which Enter would send.
func (d *driver) enter(ctx context.Context) error {
	s := d.screen
	if s.Shows != Draft && !s.Dialog() {
		return d.refuseHere("there is nothing that Enter would answer or send")
	}
	return d.press(
		ctx,
		keystep{key: KeyEnter},
		func(now Screen) bool { return !sameScreen(now, s) },
	)
}

// escape leaves a dialog or interrupts Claude. An idle input box is left alone: a second
// Esc there would rewind the conversation, or clear what a person has begun to write.
func (d *driver) escape(ctx context.Context) error {
	s := d.screen
	if !s.Dialog() && !s.Busy || s.Dialog() && d.Interrupt {
		return d.refuseHere("there is nothing to leave or to interrupt")
	}
	interrupted := func() int { return strings.Count(d.capture, "Interrupted") }
	before := interrupted()
	err := d.press(ctx, keystep{key: KeyEscape}, func(now Screen) bool {
		// Where words are queued, Claude goes on with them at once.
		return s.Dialog() && !sameDialog(now, s) ||
			!s.Dialog() && (!now.Busy || interrupted() > before)
	})
	if err == nil && d.Interrupt && s.Draft == "" {
		d.takeBack(ctx)
	}
	return err
}

// takeBack empties the input box where it holds what we typed, and no other character.
// Claude Code puts a prompt back into its box that is interrupted before its first output
// (2.1.197 and 2.1.332).
func (d *driver) takeBack(ctx context.Context) {
	err := d.settled(ctx, func(Screen) string { return "" })
	if err != nil || d.Ours == "" || d.screen.Shows != Draft || !wraps(d.screen.Draft, d.Ours) {
		return
	}
	_ = d.emptyBox(ctx)
}

// emptyBox takes what we typed out of the input box again.
func (d *driver) emptyBox(ctx context.Context) error {
	return d.clear(ctx, d.screen.Draft, func(now Screen) bool { return now.Shows == Prompt })
}

// clear presses what takes a text of so many lines out of a field, until the field stays
// empty. A Claude Code that lags behind its keys left the text there without its last
// sign: for a moment its box looks empty, or a later key comes to the text from before
// (2.1.332, a load of 30).
func (d *driver) clear(ctx context.Context, text string, isEmpty func(Screen) bool) error {
	const mostTries = 3
	keys := strings.Repeat(string(keyClearLine), strings.Count(text, "\n")) + string(KeyClear)
	for try := 1; ; try++ {
		err := d.press(ctx, keystep{key: Key(keys), stand: settle}, isEmpty)
		left := cmp.Or(d.screen.Draft, d.screen.cursor().Text)
		isOurs := strings.HasPrefix(text, left) // and nothing that a person typed meanwhile
		if !errors.Is(err, errNoEffect) || !isOurs || try == mostTries {
			return err
		}
	}
}

// emptyField takes what we typed out of a question's field for own words: the question
// opened between the look at the input box and the paste, and a person's Enter would
// answer with it. It returns that nothing was typed.
func (d *driver) emptyField(ctx context.Context, text string) error {
	err := d.clear(ctx, text, func(now Screen) bool { return now.cursor().Text == "" })
	if err != nil {
		return err
	}
	return d.refuseHere("a question opened")
}

// wraps says whether the input box holds this text, byte for byte. Where the box breaks a
// line, it draws no blank.
func wraps(draft, text string) bool {
	text = strings.TrimRight(text, " ")
	for i, line := range strings.Split(draft, "\n") {
		broken := strings.HasPrefix(text, "\n") || line != "" && strings.HasPrefix(text, " ")
		if i > 0 && broken {
			text = text[1:]
		}
		rest, begins := strings.CutPrefix(text, line)
		if !begins || i > 0 && line == "" && !broken {
			return false
		}
		text = rest
	}
	return text == ""
}

// submit sends the text in the input box, a multi-select's answers, those of the review
// page, or the words typed as an answer.
func (d *driver) submit(ctx context.Context) error {
	s := d.screen
	switch {
	case s.Draft != "":
		enter := keystep{key: KeyEnter, behind: !d.keyAt.IsZero()}
		return d.press(ctx, enter, func(now Screen) bool { return now.Draft == "" })
	case d.PromptOnly:
		return d.refuseHere("the words do not stand in the input box")
	case s.Shows == Review:
		return d.choose(ctx, 1)
	case s.Shows == Question && s.Multi:
		if err := d.goTo(ctx, func(r Row) bool { return r.Is == SubmitRow }); err != nil {
			return err
		}
	case s.cursor().Text == "":
		return d.refuseHere("there is nothing to submit")
	}
	s = d.screen
	return d.press(
		ctx,
		keystep{key: KeyEnter},
		func(now Screen) bool { return !sameDialog(now, s) },
	)
}

// typeText sends a text to Claude from the empty input box, or answers a question with
// it. It is never added to a text that stands there already, which may be a person's.
//
// An Enter that would come too late behind the text is not pressed: the text is taken out
// again, and typed once more.
func (d *driver) typeText(ctx context.Context, text string) error {
	const mostTries = 3
	for try := 1; ; try++ {
		err := d.typeOnce(ctx, text)
		if !errors.Is(err, ErrLate) || try == mostTries || d.screen.Shows != Prompt {
			return err
		}
		d.pressed = nil // the box is as it was
	}
}

// goToField goes where a text is typed: the input box, or a question's field for own
// words. It is empty then.
func (d *driver) goToField(ctx context.Context) error {
	if d.Ours != "" && d.screen.Shows == Draft && SameText(d.screen.Draft, d.Ours) {
		if err := d.emptyBox(ctx); err != nil {
			return err
		}
	}
	was := d.screen
	if d.PromptOnly && was.Shows != Prompt {
		return d.refuseHere("there is no empty input box")
	}
	if was.Shows == Question && !was.Preview {
		if err := d.goTo(ctx, func(r Row) bool { return r.Is == OtherRow }); err != nil {
			return err
		}
	}
	at := d.screen.cursor()
	switch held := cmp.Or(was.Draft, at.Text); {
	case held != "":
		return d.refuse(
			"nothing was typed: there already is a text, %q, which would be sent with yours",
			brief(held, 80),
		)
	case was.Shows != Prompt && at.Is != OtherRow:
		return d.refuseHere("there is no place for a text")
	}
	return nil
}

func (d *driver) typeOnce(ctx context.Context, text string) error {
	if err := d.goToField(ctx); err != nil {
		return err
	}
	was := d.screen
	// Before Enter a backslash says that the text goes on (2.1.329). "@word", ":word"
	// (2.1.329) and "/word" (2.1.197) are completed, and Enter takes what is offered. A
	// blank ends all of them.
	if last := strings.LastIndexAny(text, " \n") + 1; strings.ContainsAny(text[last:], `\@:/`) &&
		(last > 0 || text[0] != '/') {
		text += " "
	}
	inField := func(now Screen) bool { return now.cursor().Is == OtherRow && SameText(now.cursor().Text, text) }
	stands := func(now Screen) bool {
		// a command's list may hide which of the two the box is (2.1.197)
		return was.Shows == Prompt && holds(now.Draft, text) || inField(now)
	}
	// a person's key that follows a paste closely is drawn late
	paste := keystep{text: text, stand: settle}
	if err := d.press(ctx, paste, stands); err != nil {
		return err
	}
	if d.PromptOnly && inField(d.screen) {
		return d.emptyField(ctx, text)
	}
	err := d.submit(ctx)
	// What stays unsent is taken back: later texts would wait behind it.
	if err != nil && d.screen.Shows == Draft && holds(d.screen.Draft, text) {
		if left := d.emptyBox(ctx); left != nil {
			return Unsubmitted{err}
		}
	}
	if err != nil || len(was.Tabs) != 2 {
		return err
	}
	// A multi-select that is asked alone: behind its own tab and "Submit" is the page
	// that reviews it.
	if err := d.settled(ctx, func(Screen) string { return "" }); err != nil ||
		d.screen.Shows != Review {
		return err
	}
	return d.choose(ctx, 1)
}

// holds says whether a draft is the text that was pasted: all of it, its stand-in, or its
// end where the box is too small.
func holds(draft, text string) bool {
	long := strings.Contains(text, "\n") || utf8.RuneCountInString(text) > 200
	return SameText(draft, text) || long && pastePlaceholder().MatchString(strings.TrimSpace(draft)) ||
		utf8.RuneCountInString(comparable(draft)) > 40 && IsEndOf(draft, text)
}

// clearThen clears the conversation and then sends a command into the new one.
func (d *driver) clearThen(ctx context.Context, command string) error {
	const clearing = 60 * time.Second // it runs the hooks of SessionEnd and SessionStart
	if d.screen.Shows != Prompt || d.screen.Busy {
		return d.refuseHere("Claude is not idle at an empty input box")
	}
	if err := d.typeText(ctx, "/clear"); err != nil {
		return err
	}
	// Claude Code can be idle for some 60 ms before it clears, and a command typed then
	// would be cleared too.
	err := d.await(ctx, cmp.Or(d.Patience, clearing), settle, effect(func(now Screen) bool {
		return now.Shows == Prompt && !now.Busy && cleared(d.capture)
	}))
	if err != nil {
		return err
	}
	return d.typeText(ctx, command)
}

// cleared says whether "/clear" is all that the conversation on the screen consists of,
// above the input box.
func cleared(capture string) bool {
	var said []string
	for _, l := range readCapture(capture) {
		if first := l.charAt(0); first == "❯" || first == "●" || first == "⏺" {
			// a person's turn, and Claude's
			said = append(said, strings.TrimSpace(l.text))
		}
	}
	return len(said) == 2 && said[0] == "❯ /clear" // the other is the input box
}

// sameDialog says whether two screens show the same dialog, whatever is ticked or typed
// in it.
func sameDialog(a, b Screen) bool {
	same := func(x, y Row) bool { return x.Number == y.Number && (x.Label == y.Label || x.Is == OtherRow) }
	return a.Shows == b.Shows && a.Why == b.Why && a.Question == b.Question &&
		slices.Equal(a.Tabs, b.Tabs) && slices.EqualFunc(a.Rows, b.Rows, same)
}

// The exit codes of menu-driver.
const exitNoSession, exitRefused, exitUnseen, exitUsage = 1, 2, 3, 4

// Unsubmitted is the error of a text that was pasted and not seen in the input box, where
// nothing that submits was pressed: a dialog had opened that moment, say.
type Unsubmitted struct{ error }

func usage(format string, args ...any) error {
	return &state.UserError{
		Err:  fmt.Errorf(format, args...),
		Code: exitUsage,
		Hint: "menu-driver --help",
	}
}

// refuse says why nothing was done.
func (d *driver) refuse(format string, args ...any) error {
	return &state.UserError{Err: fmt.Errorf(format, args...), Code: exitRefused, Hint: d.hint}
}

// coded gives errors their exit code.
func (d *driver) coded(err error) error {
	screen := errors.As(err, new(mismatch)) || errors.Is(err, errNoEffect)
	switch {
	case err == nil || errors.As(err, new(*state.UserError)):
		return err
	case screen && len(d.pressed) > 0:
		last := d.pressed[len(d.pressed)-1]
		err = fmt.Errorf("%s was sent, but the screen still shows %s", last, d.screen)
		if last.text != "" {
			err = Unsubmitted{err}
		}
		return &state.UserError{Err: err, Code: exitUnseen, Hint: d.hint}
	case errors.As(err, new(Unsubmitted)):
		return &state.UserError{Err: err, Code: exitUnseen, Hint: d.hint}
	case screen, errors.Is(err, ErrNoClaude), errors.Is(err, ErrNoKeys):
		return d.refuse("%w", err)
	case errors.Is(err, state.ErrLocked):
		return d.refuse("gchat-hooks is typing into this pane already: %w", err)
	case errors.Is(err, exec.ErrNotFound):
		return &state.UserError{Err: err, Code: exitNoSession, Hint: "install tmux"}
	}
	return &state.UserError{
		Err:  err,
		Code: exitNoSession,
		Hint: "tmux -S " + d.server.socket() + " list-panes -a",
	}
}

// String says in a few words what is on a screen.
func (s Screen) String() string {
	switch s.Shows {
	case Prompt:
		if s.Busy {
			return "Claude at work"
		}
		return "an empty input box"
	case Draft:
		return fmt.Sprintf("a text in the input box: %q", brief(s.Draft, 80))
	case Question, Permission:
		return fmt.Sprintf("the dialog %q", brief(s.Question, 80))
	case Review:
		return `the page "Review your answers"`
	}
	return s.Why
}
