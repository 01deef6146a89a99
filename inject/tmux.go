// Package inject works with tmux and with the screens of Claude Code. It finds panes,
// reads them and types into them.
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

// Server is a tmux server.
type Server struct {
	Socket string // path; "" means the person's default server
	// FrontProgram, if set, is the program that keys are meant for, as tmux names it.
	// tmux drops the keys if another program has the pane's keyboard by then. Between our
	// last capture and a key, Claude Code can end, and a shell would get the key.
	FrontProgram string
}

// Pane is a pane as tmux describes it.
type Pane struct {
	ID           string // %N
	Session      string
	PID          int    // of the program that tmux started in it, mostly a shell
	Program      string // the name of the program that has its keyboard
	InMode       bool   // scrolled back, or in another mode of tmux that takes the keys
	Dead         bool
	InputOff     bool
	Synchronized bool // what is typed here goes to all panes of the window
}

var (
	ErrNoServer  = errors.New("no tmux server is running")
	ErrNoPane    = errors.New("no such pane")
	ErrNoSession = errors.New("no such session")

	// ErrNoKeys means that tmux would keep keys from the pane's program. Nothing was
	// sent.
	ErrNoKeys = errors.New("the pane takes no keys")
)

// ServerOf returns the server that $TMUX names ("socket,pid,session"). tmux itself cuts
// the value at its first comma.
func ServerOf(tmux string) Server {
	socket, _, _ := strings.Cut(tmux, ",")
	return Server{Socket: socket}
}

// socketPath returns the path of the server's socket. A plain `tmux` in a plain terminal
// uses tmux-UID/default in $TMUX_TMPDIR, or in /tmp if that folder is unset or missing
// (tmux.c, make_label).
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

// callTimeout bounds one call of tmux. A call takes 5 ms, but a server that was stopped
// with SIGSTOP never answers.
const callTimeout = 3 * time.Second

// tmuxProgram returns the path of tmux. It looks on the PATH ("") and then in common
// folders, because daemons may get a short PATH: launchd's is
// /usr/bin:/bin:/usr/sbin:/sbin.
func tmuxProgram() (string, error) {
	for _, dir := range []string{
		"",
		"/opt/homebrew/bin",
		"/usr/local/bin",
		"/opt/local/bin",
		"/home/linuxbrew/.linuxbrew/bin",
		"/usr/bin",
		"/bin",
	} {
		if path, err := exec.LookPath(filepath.Join(dir, "tmux")); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find tmux: %w", exec.ErrNotFound)
}

// callTmux gives the server one command and returns what it printed. Of the commands used
// here, only new-session starts a server that does not run. -u is needed because tmux
// would otherwise print a session "épic" as "_pic" with LANG=C (3.3a).
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
	// tmux runs in a process group of its own: Ctrl-C in the daemon's terminal must not
	// interrupt a key on its way.
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

// withoutTmux removes our own pane from the environment. tmux would use it in place of a
// missing target.
func withoutTmux(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		return strings.HasPrefix(v, "TMUX=") || strings.HasPrefix(v, "TMUX_PANE=")
	})
}

// toError turns tmux's messages (3.3a) into the errors that callers tell apart.
func toError(message string, err error) error {
	has := func(s string) bool { return strings.Contains(message, s) }
	hasNoSocket := has("No such file") || has("Connection refused") || has("Not a directory")
	switch {
	case has("no server running"), has("server exited"), has("lost server"),
		has("error connecting to") && hasNoSocket:
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

// callPane is callTmux for a command whose target is a pane. It requires the pane's id,
// because a name may belong to another session later.
func (s Server) callPane(
	ctx context.Context, pane, command string, args ...string,
) (string, error) {
	if !paneIDPattern().MatchString(pane) {
		return "", fmt.Errorf("%w: %q", ErrNoPane, pane)
	}
	return s.callTmux(ctx, nil, append([]string{command, "-t", pane}, args...)...)
}

// paneFormat ends with the session's name, which may contain blanks. tmux allows no tab,
// line break, colon or dot in it.
const paneFormat = "#{pane_id} #{pane_pid} #{pane_in_mode} #{pane_dead} " +
	"#{pane_input_off} #{pane_synchronized} #{s/ /_/:pane_current_command} #{session_name}"

// Panes returns all panes of the server, in the order of sessions. If a window belongs to
// several sessions (a session group, link-window), its panes appear once for each. If no
// server runs, the error is ErrNoServer.
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

// Pane returns the current state of the pane with this id (%N). If the pane is closed,
// the error is ErrNoPane.
func (s Server) Pane(ctx context.Context, id string) (Pane, error) {
	// If the pane is gone, display-message succeeds and prints the format's blanks
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
	// pane_in_mode is a count, because a pane can be in several modes.
	return Pane{
		ID:           f[0],
		PID:          pid,
		InMode:       f[2] != "0",
		Dead:         f[3] == "1",
		InputOff:     f[4] == "1",
		Synchronized: f[5] == "1",
		Program:      f[6],
		Session:      f[7],
	}, true
}

// TmuxName returns the name under which tmux keeps a session that was created as name.
func TmuxName(name string) string { return strings.NewReplacer(":", "_", ".", "_").Replace(name) }

// matchingSessions returns the session with exactly this name, or else the sessions whose
// name begins with it. tmux itself would also take a name for a pattern, an index or "the
// last one".
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
	IsControlMode bool      // for example iTerm2's tmux -CC
}

// Clients returns the terminals that show a pane's session, except read-only ones.
//
// Measured with tmux 3.3a, these count as typed: a terminal's keys, pastes, mouse (even
// mere moves, if the mouse is on), focus in and out (if focus-events is on), late answers
// to tmux's questions, and attaching. These do not count: tmux's own commands, which
// include our keys, output, a resize, a switch to another session, and Ctrl-Z of the
// client. In control mode keys are commands too, so only such a client's attaching is
// known.
func (s Server) Clients(ctx context.Context, pane string) (all []Client, err error) {
	out, err := s.callPane(ctx, pane, "display-message", "-p", sessionNamesFormat, ";",
		"list-clients", "-F", "#{client_activity} #{client_readonly} #{client_control_mode} "+
			"#{s/ /_/:client_name} #{client_session}")
	names, clients, _ := strings.Cut(out, "\n")
	if err == nil && names == "" {
		err = ErrNoPane
	}
	if err != nil {
		return nil, fmt.Errorf("list tmux clients: %w", err)
	}
	for line := range strings.Lines(clients) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 5)
		if len(f) < 5 || f[1] == "1" || !strings.Contains(","+names+",", ","+f[4]+",") {
			continue
		}
		if seconds, err := strconv.ParseInt(f[0], 10, 64); err == nil {
			all = append(all, Client{
				Name:          f[3],
				LastTyped:     time.Unix(seconds, 0),
				IsControlMode: f[2] == "1",
			})
		}
	}
	return all, nil
}

// LastTyped returns when a person last did something in a terminal that shows this pane's
// session. It is zero if no terminal shows it.
func (s Server) LastTyped(ctx context.Context, pane string) (last time.Time, err error) {
	clients, err := s.Clients(ctx, pane)
	for _, c := range clients {
		if c.LastTyped.After(last) {
			last = c.LastTyped
		}
	}
	return last, err
}

// sessionActivity returns when a person last did something in a session that shows this
// pane, as tmux prints it. Our own keys do not count (3.3a).
func (s Server) sessionActivity(ctx context.Context, pane string) (string, error) {
	out, err := s.callPane(ctx, pane, "display-message", "-p", "#{session_activity}")
	return strings.TrimSpace(out), err
}

// ShowNotice shows a line in a terminal's status line for a while. A key ends it early,
// and still goes where it would go otherwise (3.3a).
func (s Server) ShowNotice(
	ctx context.Context, c Client, duration time.Duration, text string,
) error {
	milliseconds := strconv.FormatInt(duration.Milliseconds(), 10)
	_, err := s.callTmux(ctx, nil, "display-message", "-c", c.Name, "-d", milliseconds, text)
	return err
}

// sessionNamesFormat is tmux's format for the names of all sessions that show a pane,
// separated by commas. These are the sessions of a group and those with a linked window
// (3.3a).
const sessionNamesFormat = "#{window_linked_sessions_list}"

// Capture returns the pane's visible screen, with its colours as escape sequences and
// without blanks at the ends of lines. If a person has scrolled back, Capture still
// returns the live screen, which the person does not see. (capture-pane reads the
// scrolled screen only with -M, from tmux 3.4 on; measured on 3.3a.)
func (s Server) Capture(ctx context.Context, pane string) (string, error) {
	out, err := s.callPane(ctx, pane, "capture-pane", "-p", "-e")
	if err != nil {
		return "", fmt.Errorf("capture pane: %w", err)
	}
	return out, nil
}

// Snapshot is what a pane showed at one moment.
type Snapshot struct {
	Session string // as tmux names it
	// AllSessions are the names of all sessions that show the pane: those of its group
	// and those with a linked window.
	AllSessions []string
	// Screen holds the pane's last lines with their styles, for ReadScreen. It includes
	// lines that have scrolled off the top.
	Screen string
	Lines  []string // the same without styles and without the empty rest of the screen
}

// Snapshot reads a pane's session, its screen and its last lines with one call of tmux.
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

// Unscroll returns a pane from copy mode to its live screen, as q does. It leaves other
// modes of tmux alone, since a person chooses something in them.
func (s Server) Unscroll(ctx context.Context, pane string) error {
	const scrolled = "#{||:#{==:#{pane_mode},copy-mode},#{==:#{pane_mode},view-mode}}"
	leave := "send-keys -t " + pane + " -X cancel"
	if _, err := s.callPane(ctx, pane, "if-shell", "-F", scrolled, leave); err != nil {
		return fmt.Errorf("leave copy mode: %w", err)
	}
	return nil
}

// LockPane makes the caller the only one of our processes that types into the pane. If
// another one does, the error is state.ErrLocked. Servers are told apart by the real path
// of their socket, since /tmp is a link on macOS.
func LockPane(userState string, s Server, pane string) (*state.Lock, error) {
	socket := state.RealPath(s.socketPath())
	name := state.Hash(8, socket+"\x00"+pane) + ".lock"
	l, err := state.TryLock(filepath.Join(userState, "panes", name))
	if err != nil {
		return nil, fmt.Errorf("lock pane %s: %w", pane, err)
	}
	return l, nil
}
