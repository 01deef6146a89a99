// Package inject speaks tmux and the screens of Claude Code: it finds panes, reads them and types into them.
package inject

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// tmuxTimeout bounds one call of tmux: a stopped server must not hold a hook.
const tmuxTimeout = 300 * time.Millisecond

var paneID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^%[0-9]+$`) })

// SessionOf names the tmux session that a pane (%N, from $TMUX_PANE) is in. server is $TMUX: the socket's path before
// the first comma. Panes are addressed by id: a name can be another session's tomorrow.
func SessionOf(ctx context.Context, server, pane string) (string, error) {
	socket, _, _ := strings.Cut(server, ",")
	if socket == "" || !paneID().MatchString(pane) {
		return "", fmt.Errorf("name tmux session: not in tmux")
	}
	ctx, cancel := context.WithTimeout(ctx, tmuxTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", "-S", socket, "display-message", "-p", "-t", pane, "#{session_name}")
	cmd.WaitDelay = tmuxTimeout
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("name tmux session: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
