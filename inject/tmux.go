// Package inject speaks tmux and the screens of Claude Code: it finds panes, reads them
// and types into them.
package inject

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/state"
)

type Server struct {
	Socket string // path; "" is the person's default one
	// Front, where set, is the program that keys are meant for, as tmux names it: tmux
	// drops them when another one has the pane's keyboard by then. Between our last
	// capture and a key Claude Code can end, and a shell take the key.
	FrontProgram string
}

// Pane is a pane as tmux describes it.
type Pane struct {
	ID           string // %N
	Session      string
	PID          int    // of what tmux started in it, mostly a shell
	Program      string // the name of what has its keyboard
	InMode       bool   // scrolled back, or in another mode of tmux that takes the keys
	Dead         bool
	InputOff     bool
	Synchronized bool // what is typed here goes to all panes of the window
}

var (
	ErrNoServer  = errors.New("no tmux server is running")
	ErrNoPane    = errors.New("no such pane")
	ErrNoSession = errors.New("no such session")

	// ErrNoKeys says that tmux would keep keys from the pane's program; nothing was sent.
	ErrNoKeys = errors.New("the pane takes no keys")
)

// ServerOf is the server that $TMUX ("socket,pid,session") names. tmux itself cuts at the
// first comma.
func ServerOf(tmux string) Server {
	socket, _, _ := strings.Cut(tmux, ",")
	return Server{Socket: socket}
}

// socketPath is the server's socket. That of a plain `tmux` in a plain terminal is in
// $TMUX_TMPDIR, or in /tmp where that is unset or missing: tmux-UID/default (tmux.c,
// make_label).
func (s Server) socketPath() string {
	if s.Socket != "" {
		return s.Socket
	}
	dir := os.Getenv("TMUX_TMPDIR")
	if _, err := os.Stat(dir); err != nil {
		dir = "/tmp"
	}
	return filepath.Join(dir, fmt.Sprintf("tmux-%d", os.Getuid()), "default")
}

// callTimeout bounds one call of tmux. A call takes 5 ms; a server that was stopped with
// SIGSTOP never answers.
const callTimeout = 3 * time.Second

// tmuxProgram is tmux: on the PATH (""), or where it lies on machines whose daemons get a
// PATH without it: launchd gives /usr/bin:/bin:/usr/sbin:/sbin.
func tmuxProgram() (string, error) {
	for _, dir := range []string{
		"", "/opt/homebrew/bin", "/usr/local/bin", "/opt/local/bin", "/home/linuxbrew/.linuxbrew/bin", "/usr/bin", "/bin",
	} {
		if path, err := exec.LookPath(filepath.Join(dir, "tmux")); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find tmux: %w", exec.ErrNotFound)
}

// callTmux gives the server one command and returns what it printed. None of the commands
// used here starts a server that is not running. -u: with LANG=C, tmux would print a
// session "épic" as "_pic" (3.3a).
func (s Server) callTmux(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	state.BeforeSlowCall("calls tmux")
	tmux, err := tmuxProgram()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, tmux, append([]string{"-u", "-S", s.socketPath()}, args...)...)
	cmd.WaitDelay = callTimeout
	// A group of its own: Ctrl-C in the daemon's terminal must not break off a key that
	// is on its way.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = withoutTmux(os.Environ())
	cmd.Stdin = stdin
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("tmux did not answer: %w", ctx.Err())
		}
		return "", toError(strings.TrimSpace(errs.String()), err)
	}
	return out.String(), nil
}

// withoutTmux takes our own place in a tmux out of the environment: it would stand in for
// a target that is missing.
func withoutTmux(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		return strings.HasPrefix(v, "TMUX=") || strings.HasPrefix(v, "TMUX_PANE=")
	})
}

// toError turns tmux's words (3.3a) into the errors that callers tell apart.
func toError(message string, err error) error {
	has := func(s string) bool { return strings.Contains(message, s) }
	switch {
	case has("no server running"), has("server exited"), has("lost server"),
		has("error connecting to") && (has("No such file") || has("Connection refused") || has("Not a directory")):
		return ErrNoServer
	case has("can't find pane"), has("can't find window"):
		return ErrNoPane
	case has("can't find session"):
		return ErrNoSession
	case message != "":
		return errors.New(message)
	}
	return err
}

var paneIDPattern = pattern(`^%[0-9]+$`)

// callPane is a call whose target is a pane, by its id: a name can be another session's
// tomorrow.
func (s Server) callPane(
	ctx context.Context,
	pane string,
	command string,
	args ...string,
) (string, error) {
	if !paneIDPattern().MatchString(pane) {
		return "", fmt.Errorf("%w: %q", ErrNoPane, pane)
	}
	return s.callTmux(ctx, nil, append([]string{command, "-t", pane}, args...)...)
}

// The session's name comes last, for it may hold blanks. tmux lets no tab, line break,
// colon or dot into it.
const paneFormat = "#{pane_id} #{pane_pid} #{pane_in_mode} #{pane_dead} #{pane_input_off} #{pane_synchronized} " +
	"#{s/ /_/:pane_current_command} #{session_name}"

// Panes are all panes of the server, in the order of sessions. A window that belongs to
// several sessions (a session group, link-window) shows its panes once for each. A server
// that is not running is ErrNoServer.
func (s Server) Panes(ctx context.Context) ([]Pane, error) {
	out, err := s.callTmux(ctx, nil, "list-panes", "-a", "-F", paneFormat)
	if err != nil {
		return nil, fmt.Errorf("list panes: %w", err)
	}
	var panes []Pane
	for line := range strings.Lines(out) {
		if p, ok := parsePane(line); ok {
			panes = append(panes, p)
		}
	}
	return panes, nil
}

// Pane is the pane with this id (%N) as it is now; ErrNoPane when it was closed.
func (s Server) Pane(ctx context.Context, id string) (Pane, error) {
	// display-message succeeds for a pane that is gone and prints the format's blanks
	// (3.3a).
	out, err := s.callPane(ctx, id, "display-message", "-p", paneFormat)
	if err != nil {
		return Pane{}, fmt.Errorf("find pane %s: %w", id, err)
	}
	p, ok := parsePane(out)
	if !ok {
		return Pane{}, fmt.Errorf("find pane %s: %w", id, ErrNoPane)
	}
	return p, nil
}

func parsePane(line string) (p Pane, ok bool) {
	f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 8)
	if len(f) < 8 || !paneIDPattern().MatchString(f[0]) {
		return p, false
	}
	pid, _ := strconv.Atoi(f[1]) // a dead pane has none
	// pane_in_mode counts the modes that lie on top of each other.
	return Pane{
		ID: f[0], PID: pid, InMode: f[2] != "0", Dead: f[3] == "1", InputOff: f[4] == "1", Synchronized: f[5] == "1",
		Program: f[6], Session: f[7],
	}, true
}

// TmuxName is what tmux makes of a session's name that it is given.
func TmuxName(name string) string { return strings.NewReplacer(":", "_", ".", "_").Replace(name) }

// matchingSessions is, of the sessions of all these panes, the one with exactly this
// name, else those whose name begins with it. tmux itself would also take a name for a
// pattern, an index or "the last one".
func matchingSessions(all []Pane, name string) (matches []string) {
	tmuxName := TmuxName(name)
	for _, exact := range []string{name, tmuxName} {
		if slices.ContainsFunc(all, func(p Pane) bool { return p.Session == exact }) {
			return []string{exact}
		}
	}
	for _, p := range all {
		if tmuxName != "" && strings.HasPrefix(p.Session, tmuxName) &&
			!slices.Contains(matches, p.Session) {
			matches = append(matches, p.Session)
		}
	}
	return matches
}

// Client is a terminal that shows a pane's session.
type Client struct {
	Name          string
	LastTyped     time.Time // when a person last did something in it, in whole seconds
	IsControlMode bool      // it is in control mode, as iTerm2's tmux -CC
}

// Clients are the terminals that show a pane's session, but for those that only read.
// Measured with tmux 3.3a: a terminal's keys, pastes, mouse (also mere moves, where the
// mouse is on), focus in and out (where focus-events is on) and late answers to tmux's
// questions count as typed; so does attaching. What goes through tmux's commands does
// not, our own keys least of all; nor do output, a resize, a switch to another session,
// or Ctrl-Z of the client. In control mode keys are commands too: of such a client only
// its attaching is known.
func (s Server) Clients(ctx context.Context, pane string) (all []Client, err error) {
	out, err := s.callPane(
		ctx,
		pane,
		"display-message",
		"-p",
		sessionNamesFormat,
		";",
		"list-clients",
		"-F",
		"#{client_activity} #{client_readonly} #{client_control_mode} #{s/ /_/:client_name} #{client_session}",
	)
	names, clients, _ := strings.Cut(out, "\n")
	if err == nil && names == "" {
		err = ErrNoPane
	}
	if err != nil {
		return nil, fmt.Errorf("ask for a person's keys: %w", err)
	}
	for line := range strings.Lines(clients) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 5)
		if len(f) < 5 || f[1] == "1" || !strings.Contains(","+names+",", ","+f[4]+",") {
			continue
		}
		if seconds, err := strconv.ParseInt(f[0], 10, 64); err == nil {
			all = append(
				all,
				Client{Name: f[3], LastTyped: time.Unix(seconds, 0), IsControlMode: f[2] == "1"},
			)
		}
	}
	return all, nil
}

// LastTyped is when a person last did something in a terminal that shows this pane's
// session; zero when none is attached.
func (s Server) LastTyped(ctx context.Context, pane string) (last time.Time, err error) {
	clients, err := s.Clients(ctx, pane)
	for _, c := range clients {
		if c.LastTyped.After(last) {
			last = c.LastTyped
		}
	}
	return last, err
}

// sessionActivity is when a person last did something in a session that shows this pane,
// in tmux's words. Keys of ours are nothing that a person does (3.3a).
func (s Server) sessionActivity(ctx context.Context, pane string) (string, error) {
	out, err := s.callPane(ctx, pane, "display-message", "-p", "#{session_activity}")
	return strings.TrimSpace(out), err
}

// ShowNotice shows a line in a terminal's status line for so long. A key ends it, and
// goes where it would go without it (3.3a).
func (s Server) ShowNotice(
	ctx context.Context,
	c Client,
	duration time.Duration,
	text string,
) error {
	_, err := s.callTmux(
		ctx,
		nil,
		"display-message",
		"-c",
		c.Name,
		"-d",
		strconv.FormatInt(duration.Milliseconds(), 10),
		text,
	)
	return err
}

// sessionNamesFormat is tmux's format for the names of all sessions that show a pane,
// with commas between them: those of a session group, and those with a linked window
// (3.3a).
const sessionNamesFormat = "#{window_linked_sessions_list}"

// Capture is the pane's visible screen with its colours as escape sequences, one line of
// text per line of the screen, without the blanks at their ends. While a person has
// scrolled back it is still the live screen, which the person does not see (capture-pane
// reads the mode's own screen only with -M, from tmux 3.4 on; measured on 3.3a).
func (s Server) Capture(ctx context.Context, pane string) (string, error) {
	out, err := s.callPane(ctx, pane, "capture-pane", "-p", "-e")
	if err != nil {
		return "", fmt.Errorf("capture pane: %w", err)
	}
	return out, nil
}

// Snapshot is what a pane showed at one moment.
type Snapshot struct {
	Session string // tmux's name
	// names of all sessions that show the pane: of its group, or with a linked window
	AllSessions []string
	// its last lines with their styles, what has scrolled off the top included: for
	// ReadScreen
	Screen string
	Lines  []string // the same without styles, the empty rest of the screen left out
}

// Snapshot takes a pane's session, its screen and its last lines with one call of tmux.
func (s Server) Snapshot(ctx context.Context, pane string, lines int) (Snapshot, error) {
	out, err := s.callPane(ctx, pane, "display-message", "-p", "#{session_name}", ";",
		"display-message", "-p", "-t", pane, sessionNamesFormat, ";",
		"capture-pane", "-p", "-e", "-t", pane, "-S", strconv.Itoa(-lines))
	if err != nil {
		return Snapshot{}, fmt.Errorf("capture pane: %w", err)
	}
	session, rest, _ := strings.Cut(out, "\n")
	names, screen, _ := strings.Cut(rest, "\n")
	shot := Snapshot{Session: session, AllSessions: strings.Split(names, ","), Screen: screen}
	for _, l := range readCapture(screen) {
		shot.Lines = append(shot.Lines, l.text)
	}
	shot.Lines = shot.Lines[max(0, len(shot.Lines)-lines):]
	return shot, nil
}

// Unscroll takes a pane out of copy mode, as q does there. In other modes of tmux a
// person chooses something: they stay.
func (s Server) Unscroll(ctx context.Context, pane string) error {
	const scrolled = "#{||:#{==:#{pane_mode},copy-mode},#{==:#{pane_mode},view-mode}}"
	if _, err := s.callPane(ctx, pane, "if-shell", "-F", scrolled, "send-keys -t "+pane+" -X cancel"); err != nil {
		return fmt.Errorf("leave copy mode: %w", err)
	}
	return nil
}

// LockPane makes its holder the only one of ours, in any process of this person, that
// types into the pane; state.ErrLocked when another does. Servers are told apart by the
// socket's real path: /tmp is a link on macOS.
func LockPane(userState string, s Server, pane string) (*state.Lock, error) {
	socket := state.RealPath(s.socketPath())
	l, err := state.TryLock(
		filepath.Join(userState, "panes", state.Hash(8, socket+"\x00"+pane)+".lock"),
	)
	if err != nil {
		return nil, fmt.Errorf("take pane %s: %w", pane, err)
	}
	return l, nil
}
