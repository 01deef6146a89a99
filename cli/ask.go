package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// asker puts questions to the person at the terminal. Without one it never asks: then a flag has to say it.
type asker struct {
	terminal bool // both ends are one
	in       io.Reader
	out      io.Writer

	mu      sync.Mutex
	reader  *bufio.Reader
	reading bool
	lines   chan string
}

func newAsker(in io.Reader, out io.Writer) *asker {
	isTerminal := func(end any) bool {
		f, ok := end.(*os.File)
		return ok && term.IsTerminal(int(f.Fd()))
	}
	terminal := isTerminal(in) && isTerminal(out)
	return &asker{terminal: terminal, in: in, out: out, reader: bufio.NewReader(in), lines: make(chan string, 1)}
}

// errStopped says that the person ended the conversation.
var errStopped = errors.New("stopped; what was done so far stays, and the same command goes on from there")

// next is the next line that the person types, closed at the end of the input. A read of a terminal cannot be called off: a
// line that is not taken by this caller is the answer to the next question.
func (a *asker) next() <-chan string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reading || len(a.lines) > 0 {
		return a.lines
	}
	a.reading = true
	go func() {
		line, err := a.reader.ReadString('\n')
		a.mu.Lock()
		defer a.mu.Unlock()
		if err != nil && line == "" {
			close(a.lines)
			return
		}
		a.lines <- line
		a.reading = false
	}()
	return a.lines
}

// line asks, and returns what was typed. flag names what answers in a script.
func (a *asker) line(ctx context.Context, question, flag string) (string, error) {
	if !a.terminal {
		return "", usage(fmt.Errorf("there is no terminal to ask on: %s", question), flag)
	}
	fmt.Fprintf(a.out, "%s ", question)
	select {
	case line, ok := <-a.next():
		if ok {
			return strings.TrimSpace(line), nil
		}
	case <-ctx.Done():
	}
	fmt.Fprintln(a.out)
	return "", errStopped
}

// secret asks on the terminal for what must not stay on the screen. However it ends, the terminal shows again what is typed.
func (a *asker) secret(ctx context.Context, question string) (string, error) {
	fd := int(a.in.(*os.File).Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("hide what is typed: %w", err)
	}
	defer fmt.Fprintln(a.out)
	defer term.Restore(fd, before)
	fmt.Fprintf(a.out, "%s ", question)
	typed := make(chan string)
	go func() {
		defer close(typed)
		if line, err := term.ReadPassword(fd); err == nil {
			typed <- strings.TrimSpace(string(line))
		}
	}()
	select {
	case line, ok := <-typed:
		if ok {
			return line, nil
		}
	case <-ctx.Done():
	}
	return "", errStopped
}

// yes asks for a yes or a no; Enter is otherwise.
func (a *asker) yes(ctx context.Context, question string, otherwise bool, flag string) (bool, error) {
	choice := " [y/N]"
	if otherwise {
		choice = " [Y/n]"
	}
	for {
		said, err := a.line(ctx, question+choice, flag)
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
