package inject

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
