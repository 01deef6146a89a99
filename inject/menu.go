package inject

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"gchat-hooks/state"
)

// Menu is menu-driver: it presses what a person would press in a session of Claude Code, for people in scripts and for
// agents. Every action first reads the screen, refuses what would go astray there, and then sees to it that the screen
// says it happened.
type Menu struct {
	Server    Server        // "" is the server of $TMUX, else the person's default one
	UserState string        // the locks of panes are here; "" is the person's own
	Env       state.Getenv  // nil is the process's own
	Out       io.Writer     // what snapshot prints; nil is standard output
	Patience  time.Duration // how long an effect is waited for; 0 is 10 s, and 60 s for /clear, which runs hooks

	// Force presses without looking: neither at what runs in the pane, nor at its screen, nor at the effect; clear_then
	// alone still waits for the conversation to be cleared. What never gives way: one pane, which no other process of ours
	// types into, whose keys tmux does not keep for itself; text without control characters, which never is a key's name.
	Force bool
}

// MenuUsage is how the actions are called.
const MenuUsage = `menu-driver SESSION ACTION
  snapshot            print the last 180 lines of the pane
  choose N            the row numbered N of the open dialog; "Type something" gets the cursor
  type TEXT           into the empty input box, or the row "Type something" that has the cursor; submit sends it
  submit              send the typed text, or the answers of the open dialog
  enter               Enter, where a text or a dialog waits for it
  esc                 leave the open dialog, or interrupt Claude at work
  clear_then COMMAND  /clear, and when the conversation is cleared, COMMAND`

const (
	snapshotLines = 180
	glance        = 50 * time.Millisecond // between two looks at the screen
)

// Run does one action in a session: the name of a tmux session (exact, or the beginning of only one), or a pane (%N).
// Errors have ExitCode: 1 no such session or no tmux, 2 refused, and nothing was pressed that changed anything, 3 pressed,
// but the screen does not say that it worked, 4 called wrongly; and Hint, what to do next.
func (m Menu) Run(ctx context.Context, session, action string, args []string) error {
	if m.Env == nil {
		m.Env = os.Getenv
	}
	if m.Out == nil {
		m.Out = os.Stdout
	}
	if m.UserState == "" {
		m.UserState = state.UserState(m.Env)
	}
	d := driver{Menu: m, session: session}
	if d.Server.Socket == "" {
		if d.Server = ServerOf(m.Env("TMUX")); d.Server.Socket == "" {
			d.Server = DefaultServer(m.Env)
		}
	}
	do, err := d.action(action, args)
	if err != nil {
		return err
	}
	if d.pane, err = d.locate(ctx, session); err != nil && (m.Server.Socket != "" || !d.locateSupervised(ctx)) {
		return d.coded(err)
	}
	if action == "snapshot" {
		return d.coded(do(ctx))
	}
	lock, err := LockPane(d.UserState, d.Server, d.pane.ID)
	if err != nil {
		return d.coded(err)
	}
	defer lock.Unlock()
	if !m.Force {
		if err := d.guard(); err != nil {
			return d.coded(err)
		}
	}
	return d.coded(do(ctx))
}

// driver is one run of a menu in the pane that it found.
type driver struct {
	Menu
	session string // as it was called
	pane    Pane
}

// action is what an action does; an error is one of the command line.
func (d *driver) action(name string, args []string) (func(context.Context) error, error) {
	alone := map[string]func(context.Context) error{"snapshot": d.snapshot, "submit": d.submit, "enter": d.enter, "esc": d.esc}
	text, removed := Clean(strings.Join(args, " "))
	text = strings.TrimSpace(text)
	switch {
	case alone[name] != nil && len(args) == 0:
		return alone[name], nil
	case name == "choose" && len(args) == 1:
		n, err := strconv.Atoi(args[0])
		if err != nil || KeyDigit(n) == "" {
			return nil, usage("choose takes a number from 1 to 9, not %q", args[0])
		}
		return func(ctx context.Context) error { return d.choose(ctx, n) }, nil
	case (name == "type" || name == "clear_then") && text != "":
		if name == "type" {
			return func(ctx context.Context) error { return d.told(d.typeText(ctx, text), removed) }, nil
		}
		return func(ctx context.Context) error { return d.told(d.clearThen(ctx, text), removed) }, nil
	case name == "type" || name == "clear_then":
		return nil, usage("%s needs a text", name)
	case alone[name] != nil:
		return nil, usage("%s takes no words after it", name)
	case name == "choose":
		return nil, usage("choose takes one number")
	}
	return nil, usage("no action %q", name)
}

// told says that what was typed is not all that was given.
func (d *driver) told(err error, removed bool) error {
	if err == nil && removed {
		fmt.Fprintln(d.Out, "control characters in the text were left out")
	}
	return err
}

func (d *driver) snapshot(ctx context.Context) error {
	text, err := d.Server.History(ctx, d.pane.ID, snapshotLines)
	if err != nil {
		return err
	}
	_, err = io.WriteString(d.Out, text)
	return err
}

// guard is what must be so of a pane whatever the action.
func (d *driver) guard() error {
	if d.pane.Synchronized {
		return d.refuse("what is typed into %s goes to every pane of its window (synchronize-panes)", d.pane.ID)
	}
	_, err := d.pane.Claude(0, "")
	return err
}

// locate finds the pane that is meant. Of several in a session it is the one where a Claude Code has the keyboard.
func (d *driver) locate(ctx context.Context, session string) (Pane, error) {
	if paneID().MatchString(session) {
		return d.Server.Pane(ctx, session)
	}
	name, err := d.Server.Find(ctx, session)
	if err != nil {
		return Pane{}, err
	}
	all, err := d.Server.Panes(ctx)
	if err != nil {
		return Pane{}, err
	}
	var panes, claudes []Pane
	var what []string
	for _, p := range all {
		if p.Session != name {
			continue
		}
		panes = append(panes, p)
		if _, err := p.Claude(0, ""); err == nil {
			claudes = append(claudes, p)
		} else {
			what = append(what, fmt.Sprintf("%s: %v", p.ID, err))
		}
	}
	switch {
	case len(panes) == 0:
		return Pane{}, fmt.Errorf("find session %q: %w", session, ErrNoSession) // it ended just now
	case len(claudes) == 1:
		return claudes[0], nil
	case len(panes) == 1:
		return panes[0], nil
	case len(claudes) > 1:
		var ids []string
		for _, p := range claudes {
			ids = append(ids, p.ID)
		}
		return Pane{}, d.refuse("session %s has %d panes with Claude Code: name one of %s",
			name, len(claudes), strings.Join(ids, ", "))
	}
	return Pane{}, d.refuse("session %s has %d panes, none with Claude Code: %s", name, len(panes), strings.Join(what, "; "))
}

// locateSupervised finds the pane on the server that its agent was told of: an agent runs the lines of its message outside of
// tmux, where nothing names a server that is not the default one.
func (d *driver) locateSupervised(ctx context.Context) bool {
	for _, socket := range state.WakeServers(d.UserState, d.session) {
		there := *d
		there.Server = Server{Socket: socket}
		if pane, err := there.locate(ctx, d.session); err == nil {
			d.Server, d.pane = there.Server, pane
			return true
		}
	}
	return false
}

// look reads the screen once.
func (d *driver) look(ctx context.Context) (Screen, error) {
	capture, err := d.Server.Capture(ctx, d.pane.ID)
	if err != nil {
		return Screen{}, err
	}
	s := ReadScreen(capture)
	if s.Kind == Unknown && s.Why == "" {
		s.Why = "a screen that I do not know"
	}
	return s, nil
}

// await looks until ok likes the screen, or until patience has run out: then seen is false, and the screen the last one.
func (d *driver) await(ctx context.Context, patience time.Duration, ok func(Screen) bool) (s Screen, seen bool, err error) {
	if d.Patience > 0 {
		patience = d.Patience
	}
	for deadline := time.Now().Add(patience); ; {
		if s, err = d.look(ctx); err != nil || ok(s) {
			return s, err == nil, err
		}
		if time.Now().After(deadline) {
			return s, false, nil
		}
		select {
		case <-ctx.Done():
			return s, false, ctx.Err()
		case <-time.After(glance):
		}
	}
}

// steady is a screen that has been the same dialog for a moment. Claude Code 2.1.329 takes no keys in the first 150 ms of
// a dialog, lest it swallow what a person was typing; and a screen may be caught half drawn.
func (d *driver) steady(ctx context.Context) (Screen, error) {
	s, err := d.look(ctx)
	since := time.Now()
	for deadline := since.Add(6 * settled); err == nil && time.Since(since) < settled && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(glance):
		}
		var now Screen
		if now, err = d.look(ctx); !sameDialog(now, s) {
			since = time.Now()
		}
		s = now
	}
	return s, err
}

// settled is how long a screen stays as it is before it is believed.
const settled = 300 * time.Millisecond

// sameDialog says whether two screens show the same dialog, whatever is ticked or typed in it.
func sameDialog(a, b Screen) bool {
	if a.Kind != b.Kind || a.Question != b.Question || a.Header != b.Header || a.Why != b.Why || len(a.Rows) != len(b.Rows) {
		return false
	}
	for i := range a.Rows {
		if a.Rows[i].Number != b.Rows[i].Number || a.Rows[i].Kind != OtherRow && a.Rows[i].Label != b.Rows[i].Label {
			return false
		}
	}
	current := func(s Screen) string {
		for _, t := range s.Tabs {
			if t.Current {
				return t.Title
			}
		}
		return ""
	}
	return current(a) == current(b)
}

// Exit codes of menu-driver.
const (
	exitNoSession = 1
	exitRefused   = 2
	exitUnseen    = 3
	exitUsage     = 4
)

func usage(format string, args ...any) error {
	return &state.UserError{Err: fmt.Errorf(format, args...), Code: exitUsage, Hint: "menu-driver --help"}
}

// refuse says why nothing was done.
func (d *driver) refuse(format string, args ...any) error {
	return &state.UserError{Err: fmt.Errorf(format, args...), Code: exitRefused, Hint: d.command("snapshot")}
}

// unseen says that keys were sent and that the screen does not show what they should have done.
func (d *driver) unseen(s Screen, what string) error {
	err := fmt.Errorf("%s, but the screen still shows %s", what, shown(s))
	return &state.UserError{Err: err, Code: exitUnseen, Hint: d.command("snapshot")}
}

func (d *driver) command(words string) string {
	return "menu-driver " + state.ShellQuoted(d.session) + " " + words
}

// coded gives errors of tmux and of the process table their exit code.
func (d *driver) coded(err error) error {
	var coded *state.UserError
	switch {
	case err == nil || errors.As(err, &coded):
		return err
	case errors.Is(err, ErrNoClaude), errors.Is(err, ErrNoKeys):
		return d.refuse("%w", err)
	case errors.Is(err, state.ErrLocked):
		return d.refuse("another program of ours is typing into this pane: %w", err)
	case errors.Is(err, exec.ErrNotFound):
		return &state.UserError{Err: err, Code: exitNoSession, Hint: "install tmux"}
	}
	return &state.UserError{Err: err, Code: exitNoSession, Hint: "tmux -S " + d.Server.socket() + " list-panes -a"}
}

// shown says in a few words what is on a screen.
func shown(s Screen) string {
	switch s.Kind {
	case Prompt:
		if s.Busy {
			return "an empty input box, and Claude at work"
		}
		return "an empty input box"
	case Draft:
		return fmt.Sprintf("a text in the input box: %q", cutText(s.Draft, 80))
	case Question:
		return fmt.Sprintf("the question %q with %s", cutText(s.Question, 80), rowWords(s))
	case Review:
		return "the page \"Review your answers\" with " + rowWords(s)
	case Permission:
		return "a dialog of Claude Code's with " + rowWords(s)
	}
	return s.Why
}

func rowWords(s Screen) string {
	var words []string
	for _, r := range s.Rows {
		word := cutText(r.Label, 40)
		if r.Number > 0 {
			word = fmt.Sprintf("%d. %s", r.Number, word)
		}
		if r.Cursor {
			word = "❯ " + word
		}
		words = append(words, word)
	}
	if s.Below {
		words = append(words, "more below")
	}
	return strings.Join(words, ", ")
}
