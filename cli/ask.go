package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"

	"github.com/mattn/go-isatty"
	"golang.org/x/sys/unix"

	"gchat-hooks/gchat/login"
)

// asker puts questions to the person at the terminal. Without one it never asks: then a flag or a variable has to say it.
type asker struct {
	terminal bool
	lines    <-chan string // what the person types; one channel for all questions, see login.Lines
	out      io.Writer
	echo     *echo // turned off for secrets
}

// errNobody says that there is nobody to ask.
var errNobody = errors.New("there is no terminal to ask on")

// onTerminal says whether a person sits at both ends.
func onTerminal(in io.Reader, out io.Writer) (tty *os.File, ok bool) {
	tty, ok = in.(*os.File)
	to, ok2 := out.(*os.File)
	return tty, ok && ok2 && isatty.IsTerminal(tty.Fd()) && isatty.IsTerminal(to.Fd())
}

// line asks, and returns what was typed; otherwise where that is nothing. otherwiseSay names the flag, and the variable,
// that answer in a script.
func (a *asker) line(ctx context.Context, question, otherwise, otherwiseSay string) (string, error) {
	if !a.terminal {
		return "", usage(fmt.Errorf("%w: %s", errNobody, question), otherwiseSay)
	}
	fmt.Fprintf(a.out, "%s ", question)
	select {
	case line, ok := <-a.lines:
		if !ok {
			fmt.Fprintln(a.out)
			return "", errStopped
		}
		if line = strings.TrimSpace(line); line == "" {
			line = otherwise
		}
		return line, nil
	case <-ctx.Done():
		fmt.Fprintln(a.out)
		return "", errStopped
	}
}

// secret asks for what must not stay on the screen.
func (a *asker) secret(ctx context.Context, question, otherwiseSay string) (string, error) {
	if a.terminal && a.echo.hide() == nil {
		defer func() { a.echo.show(); fmt.Fprintln(a.out) }()
	}
	return a.line(ctx, question, "", otherwiseSay)
}

// yes asks for a yes or a no.
func (a *asker) yes(ctx context.Context, question string, otherwise bool, otherwiseSay string) (bool, error) {
	choice := " [y/N]"
	if otherwise {
		choice = " [Y/n]"
	}
	for {
		said, err := a.line(ctx, question+choice, "", otherwiseSay)
		if err != nil {
			return false, err
		}
		switch strings.ToLower(said) {
		case "":
			return otherwise, nil
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		}
		fmt.Fprintln(a.out, "y or n, please.")
	}
}

// errStopped says that the person ended the conversation.
var errStopped = errors.New("stopped; what was done so far stays, and the same command goes on from there")

// newAsker asks on in and out, where both are a terminal.
func newAsker(in io.Reader, out io.Writer) *asker {
	tty, ok := onTerminal(in, out)
	if !ok {
		return &asker{out: out}
	}
	return &asker{terminal: true, lines: login.Lines(in), out: out, echo: &echo{tty: tty}}
}

// echo is whether a terminal shows what is typed. While it is hidden, Ctrl-Z and Ctrl-\ leave the terminal to somebody else,
// who wants to see what they type.
type echo struct {
	tty    *os.File
	watch  sync.Once
	mu     sync.Mutex
	hidden bool
}

// hide turns it off. Where that fails the text is shown.
func (e *echo) hide() error {
	// For good: Go gives no signal back its own way to stop a program.
	e.watch.Do(func() {
		signals := make(chan os.Signal, 8)
		signal.Notify(signals, unix.SIGQUIT, unix.SIGTSTP, unix.SIGCONT)
		go func() {
			for s := range signals {
				e.meet(s)
			}
		}()
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.turn(false)
	e.hidden = err == nil
	return err
}

// show turns it on again.
func (e *echo) show() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hidden = false
	_ = e.turn(true)
}

func (e *echo) meet(s os.Signal) {
	if sid, err := unix.Getsid(0); s == unix.SIGTSTP && (err != nil || sid == os.Getpid()) {
		return // without a shell above nobody could make it go on, and nothing stops
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hidden {
		_ = e.turn(s != unix.SIGCONT)
	}
	switch s {
	case unix.SIGTSTP:
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	case unix.SIGQUIT:
		os.Exit(128 + int(unix.SIGQUIT))
	}
}

// turn has stty do it, which every Unix has.
func (e *echo) turn(on bool) error {
	word := "-echo"
	if on {
		word = "echo"
	}
	cmd := exec.Command("stty", word)
	cmd.Stdin = e.tty
	return cmd.Run()
}
