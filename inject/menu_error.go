package inject

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"gchat-hooks/state"
)

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
