package poller

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/state"
)

// far is launchctl, systemctl and loginctl: what they were asked, and what they answer.
type far struct {
	answer func(command string) (output string, err error) // nil: nothing, and all is well
	asked  []string
}

func (f *far) run(_ context.Context, name string, args ...string) (string, error) {
	command := strings.Join(append([]string{name}, args...), " ")
	f.asked = append(f.asked, command)
	if f.answer == nil {
		return "", nil
	}
	return f.answer(command)
}

// did are the commands that change something.
func (f *far) did() []string {
	return slices.DeleteFunc(slices.Clone(f.asked), func(c string) bool {
		return strings.HasPrefix(c, "launchctl print ") || strings.HasPrefix(c, "systemctl --user show ") || strings.HasPrefix(c, "loginctl ")
	})
}

// exit is how a program ended.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
func (e exit) ExitCode() int { return int(e) }

// person is a home with a service to be, and what was said to its owner.
type person struct {
	*Service
	env  map[string]string
	said *bytes.Buffer
}

func newPerson(t *testing.T, goos string, run func(context.Context, string, ...string) (string, error)) *person {
	t.Helper()
	home := t.TempDir()
	p := &person{env: map[string]string{"HOME": home, "CLAUDE_PROJECT_DIR": home}, said: &bytes.Buffer{}}
	p.Service = &Service{
		Env: func(name string) string { return p.env[name] }, GOOS: goos, UID: 501, Out: p.said, Run: run,
		Self: "/opt/homebrew/bin/gchat-hooks",
	}
	return p
}

// hear returns what was said since the last call.
func (p *person) hear() string {
	defer p.said.Reset()
	return p.said.String()
}

func (p *person) read(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(p.file())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func hintOf(err error) string {
	if h, ok := err.(interface{ Hint() string }); ok {
		return h.Hint()
	}
	return ""
}

func mustWrite(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// runByHand has a daemon run that no service started.
func runByHand(t *testing.T, p *person) {
	t.Helper()
	seat, err := state.TakeDaemonSeat([]string{state.UserState(p.Env)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(seat.Leave)
}
