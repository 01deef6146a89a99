package inject

import (
	"context"
	"fmt"
)

// Unscroll takes a pane out of copy mode, as q does there. Other modes of tmux, in which a person chooses something, are
// left alone.
func (s Server) Unscroll(ctx context.Context, pane string) error {
	if !paneID().MatchString(pane) {
		return fmt.Errorf("leave copy mode of %q: %w", pane, ErrNoPane)
	}
	const scrolled = "#{||:#{==:#{pane_mode},copy-mode},#{==:#{pane_mode},view-mode}}"
	if _, err := s.call(ctx, nil, "if-shell", "-F", "-t", pane, scrolled, "send-keys -t "+pane+" -X cancel"); err != nil {
		return fmt.Errorf("leave copy mode: %w", err)
	}
	return nil
}
