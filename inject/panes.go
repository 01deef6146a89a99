package inject

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gchat-hooks/state"
)

// The session's name comes last, for it may hold blanks. tmux lets no tab, line break, colon or dot into it.
const paneFormat = "#{pane_id} #{pane_pid} #{pane_width} #{pane_height} #{pane_in_mode} #{pane_dead} #{pane_input_off} " +
	"#{pane_synchronized} #{s/ /_/:pane_current_command} #{session_name}"

// Panes are all panes of the server, in the order of sessions. A window that belongs to several sessions (a session
// group, link-window) shows its panes once for each. A server that is not running is ErrNoServer.
func (s Server) Panes(ctx context.Context) ([]Pane, error) {
	out, err := s.call(ctx, nil, "list-panes", "-a", "-F", paneFormat)
	if err != nil {
		return nil, fmt.Errorf("list panes: %w", err)
	}
	var panes []Pane
	for line := range strings.Lines(out) {
		p, err := parsePane(line)
		if err != nil {
			return nil, fmt.Errorf("list panes: %w", err)
		}
		panes = append(panes, p)
	}
	return panes, nil
}

// Pane is the pane with this id (%N) as it is now; ErrNoPane when it was closed.
func (s Server) Pane(ctx context.Context, id string) (Pane, error) {
	if !paneID().MatchString(id) {
		return Pane{}, fmt.Errorf("look at pane %q: %w", id, ErrNoPane)
	}
	// display-message succeeds for a pane that is gone and prints the format's blanks (3.3a).
	out, err := s.call(ctx, nil, "display-message", "-p", "-t", id, paneFormat)
	if err != nil {
		return Pane{}, fmt.Errorf("look at pane %s: %w", id, err)
	}
	p, err := parsePane(out)
	if err != nil || p.ID != id {
		return Pane{}, fmt.Errorf("look at pane %s: %w", id, ErrNoPane)
	}
	return p, nil
}

func parsePane(line string) (Pane, error) {
	f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 10)
	if len(f) < 10 || !paneID().MatchString(f[0]) {
		return Pane{}, fmt.Errorf("not a pane: %q", line)
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(f[i+1]) // a dead pane has no pid
	}
	// pane_in_mode counts the modes that lie on top of each other.
	return Pane{
		ID: f[0], Session: f[9], PID: n[0], Program: f[8], Width: n[1], Height: n[2],
		InMode: f[4] != "0", Dead: f[5] == "1", InputOff: f[6] == "1", Synchronized: f[7] == "1",
	}, nil
}

// Sessions are the names of the server's sessions.
func (s Server) Sessions(ctx context.Context) ([]string, error) {
	out, err := s.call(ctx, nil, "list-sessions", "-F", "#{session_name}")
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return strings.FieldsFunc(out, func(r rune) bool { return r == '\n' }), nil
}

// Find is the session with exactly this name, else the only one whose name begins with it; ErrNoSession otherwise.
// tmux itself would also take a name for a pattern, an index or "the last one".
func (s Server) Find(ctx context.Context, name string) (string, error) {
	all, err := s.Sessions(ctx)
	if err != nil {
		return "", fmt.Errorf("find session %q: %w", name, err)
	}
	begin := SessionsCalled(all, name)
	switch len(begin) {
	case 0:
		return "", fmt.Errorf("find session %q: %w", name, ErrNoSession)
	case 1:
		return begin[0], nil
	}
	return "", fmt.Errorf("find session %q: %w: it could be %s", name, ErrNoSession, strings.Join(begin, ", "))
}

// SessionsCalled is, of all these sessions, the one with exactly this name, else those whose name begins with it.
func SessionsCalled(all []string, name string) (begin []string) {
	kept := strings.NewReplacer(":", "_", ".", "_").Replace(name) // what tmux makes of a name that it is given
	for _, exact := range []string{name, kept} {
		if slices.Contains(all, exact) {
			return []string{exact}
		}
	}
	for _, other := range all {
		if kept != "" && strings.HasPrefix(other, kept) {
			begin = append(begin, other)
		}
	}
	return begin
}

// LastTyped is when a person last did something in a terminal that shows this pane's session, in whole seconds; zero when
// none is attached. Measured with tmux 3.3a: a terminal's keys, pastes, mouse (also mere moves, where the mouse is on),
// focus in and out (where focus-events is on) and late answers to tmux's questions count; so does attaching. What goes
// through tmux's commands does not, our own keys least of all; nor do output, a resize, a switch to another session, or
// Ctrl-Z of the client. In control mode (iTerm2's tmux -CC) keys are commands too: of such a client only its attaching is
// known. A read-only client types nothing and is left out.
func (s Server) LastTyped(ctx context.Context, p Pane) (time.Time, error) {
	panes, err := s.Panes(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for attention: %w", err)
	}
	shown := map[string]bool{} // a window can belong to several sessions
	for _, other := range panes {
		if other.ID == p.ID {
			shown[other.Session] = true
		}
	}
	if len(shown) == 0 {
		return time.Time{}, fmt.Errorf("ask for attention: %w", ErrNoPane)
	}
	out, err := s.call(ctx, nil, "list-clients", "-F", "#{client_activity} #{client_readonly} #{client_session}")
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for attention: %w", err)
	}
	var last time.Time
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(f) < 3 || f[1] == "1" || !shown[f[2]] {
			continue
		}
		if seconds, err := strconv.ParseInt(f[0], 10, 64); err == nil && time.Unix(seconds, 0).After(last) {
			last = time.Unix(seconds, 0)
		}
	}
	return last, nil
}

// Capture is the pane's visible screen with its colours as escape sequences, one line of text per line of the screen,
// without the blanks at their ends. While a person has scrolled back it is still the live screen, which the person does
// not see (capture-pane reads the mode's own screen only with -M, from tmux 3.4 on; measured on 3.3a).
func (s Server) Capture(ctx context.Context, pane string) (string, error) {
	if !paneID().MatchString(pane) {
		return "", fmt.Errorf("capture pane %q: %w", pane, ErrNoPane)
	}
	out, err := s.call(ctx, nil, "capture-pane", "-p", "-e", "-t", pane)
	if err != nil {
		return "", fmt.Errorf("capture pane: %w", err)
	}
	return out, nil
}

// History is the last lines of the pane without colours, what has scrolled off its top included and the empty rest of
// the screen left out.
func (s Server) History(ctx context.Context, pane string, lines int) (string, error) {
	if !paneID().MatchString(pane) {
		return "", fmt.Errorf("capture pane %q: %w", pane, ErrNoPane)
	}
	out, err := s.call(ctx, nil, "capture-pane", "-p", "-t", pane, "-S", strconv.Itoa(-lines))
	if err != nil {
		return "", fmt.Errorf("capture pane: %w", err)
	}
	all := slices.Collect(strings.Lines(strings.TrimRight(out, " \n") + "\n"))
	return strings.Join(all[max(0, len(all)-lines):], ""), nil
}

var styled = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\x1b\[[0-9;:]*m`) })

// Sight is what a pane showed at one moment.
type Sight struct {
	Pane    string   // its id
	Session string   // tmux's name
	Others  []string // names of other sessions that show the pane: of its group, or with a linked window
	Screen  string   // the visible screen with its styles, as Capture gives it: for ReadScreen
	Lines   []string // the last lines without styles, what has scrolled off the top included, the empty rest left out
}

// Look takes a pane's session, its screen and its last lines with one call of tmux. pane is an id (%N); "" is the active
// pane of the session that tmux ($TMUX: "socket,pid,session") names. Errors are ErrNoServer, ErrNoPane, ErrNoSession and a
// tmux that does not answer.
func Look(ctx context.Context, tmux, pane string, lines int) (Sight, error) {
	target := pane
	if _, own, _ := strings.Cut(tmux, ","); target == "" {
		_, session, _ := strings.Cut(own, ",")
		if _, err := strconv.Atoi(session); err != nil {
			return Sight{}, fmt.Errorf("look at session %q: %w", session, ErrNoSession)
		}
		target = "$" + session + ":"
	} else if !paneID().MatchString(pane) {
		return Sight{}, fmt.Errorf("look at pane %q: %w", pane, ErrNoPane)
	}
	const format = "#{pane_height} #{pane_id} #{||:#{session_grouped},#{window_linked}} #{session_name}"
	out, err := ServerOf(tmux).call(ctx, nil, "display-message", "-p", "-t", target, format, ";",
		"capture-pane", "-p", "-e", "-t", target, "-S", strconv.Itoa(-lines))
	if err != nil {
		return Sight{}, fmt.Errorf("look at pane: %w", err)
	}
	first, capture, _ := strings.Cut(out, "\n")
	words := strings.SplitN(first, " ", 4)
	height, err := strconv.Atoi(words[0])
	if err != nil || len(words) < 4 {
		return Sight{}, fmt.Errorf("look at pane: %w", ErrNoPane)
	}
	s := Sight{Pane: words[1], Session: words[3]}
	if words[2] == "1" {
		all, err := ServerOf(tmux).Panes(ctx)
		if err != nil {
			return Sight{}, fmt.Errorf("look at pane: %w", err)
		}
		for _, p := range all {
			if p.ID == s.Pane && p.Session != s.Session {
				s.Others = append(s.Others, p.Session)
			}
		}
	}
	all := strings.SplitAfter(capture, "\n")
	if n := len(all); all[n-1] == "" {
		all = all[:n-1]
	}
	above := max(0, len(all)-height)
	// A style goes on over the end of a line.
	styles := styled().FindAllString(strings.Join(all[:above], ""), -1)
	s.Screen = strings.Join(append(styles, all[above:]...), "")
	for _, l := range readCapture(capture) {
		s.Lines = append(s.Lines, l.text)
	}
	s.Lines = s.Lines[max(0, len(s.Lines)-lines):]
	return s, nil
}

// LockPane makes its holder the only one of ours, in any process of this person, that types into the pane;
// state.ErrLocked when another does. Servers are told apart by the socket's real path: /tmp is a link on macOS.
func LockPane(userState string, s Server, pane string) (*state.Lock, error) {
	socket := s.socket()
	if real, err := filepath.EvalSymlinks(socket); err == nil {
		socket = real
	}
	sum := sha256.Sum256([]byte(socket + "\x00" + pane))
	l, err := state.TryLock(filepath.Join(userState, "panes", hex.EncodeToString(sum[:8])+".lock"))
	if err != nil {
		return nil, fmt.Errorf("take pane %s: %w", pane, err)
	}
	return l, nil
}
