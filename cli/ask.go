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

// asker puts questions to the person at the terminal. Without one a flag has to say it.
type asker struct {
	terminal bool // both ends are one
	in       io.Reader
	out      io.Writer
	// next has the next line that the person types, and is closed at the end of the input. A read of a terminal cannot be
	// called off: a line that one caller does not take any more is the answer to the next question.
	next func() <-chan string
}

func newAsker(in io.Reader, out io.Writer) *asker {
	next := sync.OnceValue(func() <-chan string {
		typed := make(chan string)
		go func() {
			defer close(typed)
			for lines := bufio.NewScanner(in); lines.Scan(); {
				typed <- lines.Text()
			}
		}()
		return typed
	})
	return &asker{terminal: isTerminal(in) && isTerminal(out), in: in, out: out, next: next}
}

// isTerminal says whether an end of this program is a person's terminal.
func isTerminal(end any) bool {
	f, ok := end.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// errStopped says that the person ended the conversation.
var errStopped = errors.New("stopped; what was done so far stays, and the same command goes on from there")

// line asks, and returns what was typed.
func (a *asker) line(ctx context.Context, question string) (string, error) {
	fmt.Fprintf(a.out, "%s ", question)
	return a.answer(ctx, a.next())
}

// secret asks on the terminal for what must not stay on the screen. However it ends, the terminal shows again what is typed.
// It goes before the first line: next would read the secret, too.
func (a *asker) secret(ctx context.Context, question string) (string, error) {
	fd := int(a.in.(*os.File).Fd())
	defer fmt.Fprintln(a.out)
	if before, err := term.GetState(fd); err == nil {
		defer term.Restore(fd, before)
	}
	fmt.Fprintf(a.out, "%s ", question)
	typed := make(chan string)
	go func() {
		defer close(typed)
		if line, err := term.ReadPassword(fd); err == nil {
			typed <- string(line)
		}
	}()
	return a.answer(ctx, typed)
}

// answer waits for a line, or for the person to go.
func (a *asker) answer(ctx context.Context, lines <-chan string) (string, error) {
	select {
	case line, ok := <-lines:
		if ok {
			return strings.TrimSpace(line), nil
		}
	case <-ctx.Done():
	}
	fmt.Fprintln(a.out)
	return "", errStopped
}

// yes asks for a yes or a no. Enter is otherwise, and any other word a no.
func (a *asker) yes(ctx context.Context, question string, otherwise bool) (bool, error) {
	said, err := a.line(ctx, question+map[bool]string{true: " [Y/n]", false: " [y/N]"}[otherwise])
	if said == "" {
		return otherwise, err
	}
	return strings.EqualFold(said, "y") || strings.EqualFold(said, "yes"), err
}
