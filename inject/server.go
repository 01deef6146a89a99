package inject

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/state"
)

// Server is one tmux server.
type Server struct {
	Socket string // path; "" is the person's default one
	// Front, where set, is the program that keys are meant for, as tmux names it: tmux drops them when another one has the
	// pane's keyboard by then. Between our last look and a key Claude Code can end, and a shell take the key.
	Front string
}

// Pane is a pane as tmux describes it.
type Pane struct {
	ID            string // %N
	Session       string
	PID           int    // of what tmux started in it, mostly a shell
	Program       string // the name of what has its keyboard
	Width, Height int
	InMode        bool // scrolled back, or in another mode of tmux that takes the keys
	Dead          bool
	InputOff      bool
	Synchronized  bool // what is typed here goes to all panes of the window
}

var (
	ErrNoServer  = errors.New("no tmux server is running")
	ErrNoPane    = errors.New("no such pane")
	ErrNoSession = errors.New("no such session")

	// ErrNoKeys says that tmux would not hand keys to the pane's program; nothing was sent.
	ErrNoKeys = errors.New("the pane takes no keys")
)

// ServerOf is the server that $TMUX ("socket,pid,session") names. tmux itself cuts at the first comma.
func ServerOf(tmux string) Server {
	socket, _, _ := strings.Cut(tmux, ",")
	return Server{Socket: socket}
}

// DefaultServer is what a plain `tmux` in a plain terminal speaks to: $TMUX_TMPDIR, or /tmp where that is unset or
// missing, then tmux-UID/default (tmux.c, make_label).
func DefaultServer(env state.Getenv) Server {
	dir := env("TMUX_TMPDIR")
	if _, err := os.Stat(dir); err != nil {
		dir = "/tmp"
	}
	return Server{Socket: filepath.Join(dir, fmt.Sprintf("tmux-%d", os.Getuid()), "default")}
}

func (s Server) socket() string { return cmp.Or(s.Socket, DefaultServer(os.Getenv).Socket) }

// callTimeout bounds one call of tmux. A call takes 5 ms; a server that was stopped with SIGSTOP never answers.
const callTimeout = 3 * time.Second

// elsewhere is where tmux lies on machines whose daemons get a PATH without it: launchd gives /usr/bin:/bin:/usr/sbin:/sbin.
var elsewhere = []string{
	"/opt/homebrew/bin", "/usr/local/bin", "/opt/local/bin", "/home/linuxbrew/.linuxbrew/bin", "/usr/bin", "/bin",
}

func program() (string, error) {
	found, err := exec.LookPath("tmux")
	if err == nil {
		return found, nil
	}
	for _, dir := range elsewhere {
		if found, err := exec.LookPath(filepath.Join(dir, "tmux")); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("find tmux: %w", err)
}

// call gives the server one command and returns what it printed. None of the commands used here starts a server that
// is not running. -u: with LANG=C, tmux would print a session "épic" as "_pic" (3.3a).
func (s Server) call(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	tmux, err := program()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, tmux, append([]string{"-u", "-S", s.socket()}, args...)...)
	cmd.WaitDelay = callTimeout
	// A group of its own: Ctrl-C in the daemon's terminal must not break off a key that is on its way.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = withoutTmux(os.Environ())
	cmd.Stdin = stdin
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("tmux did not answer: %w", ctx.Err())
		}
		return "", explain(strings.TrimSpace(errs.String()), err)
	}
	return out.String(), nil
}

// withoutTmux takes our own place in a tmux out of the environment: it would stand in for a target that is missing.
func withoutTmux(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		return strings.HasPrefix(v, "TMUX=") || strings.HasPrefix(v, "TMUX_PANE=")
	})
}

// explain turns tmux's words (3.3a) into the errors that callers tell apart.
func explain(words string, err error) error {
	has := func(s string) bool { return strings.Contains(words, s) }
	switch {
	case has("no server running"), has("server exited"), has("lost server"),
		has("error connecting to") && (has("No such file") || has("Connection refused") || has("Not a directory")):
		return ErrNoServer
	case has("can't find pane"), has("can't find window"):
		return ErrNoPane
	case has("can't find session"):
		return ErrNoSession
	case words != "":
		return errors.New(words)
	}
	return err
}
