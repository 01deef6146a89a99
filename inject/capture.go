package inject

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

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
