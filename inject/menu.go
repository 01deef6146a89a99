package inject

import (
	"context"
	"fmt"
	"io"
	"os"
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
