package inject

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
