package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// tmux is a server of our own: its socket lies in dir, so a person's server is
// out of reach even by mistake.
type tmux struct {
	socket string // name, for -L
	dir    string // TMUX_TMPDIR
	env    []string
}

// run gives one command to the server. A tmux that does not answer is killed
// after ten seconds.
func (x tmux) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-L", x.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = append(x.env, "TMUX_TMPDIR="+x.dir)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}
