package settings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"gchat-hooks/state"
)

var errNoClaude = errors.New("claude is not on PATH")

// AskVersion asks the claude on PATH for its version, and waits so long for it. Others may be installed: an editor brings
// its own.
func AskVersion(ctx context.Context, env state.Getenv, wait time.Duration) (Version, error) {
	path, err := exec.LookPath("claude")
	for _, usual := range []string{".local/bin/claude", ".claude/local/claude"} { // where its installers put it; the second is an alias in shells
		if err != nil {
			path, err = exec.LookPath(filepath.Join(state.Home(env), usual))
		}
	}
	if err != nil {
		return Version{}, errNoClaude
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = 300 * time.Millisecond // a child of it may hold the pipe
	said := head{room: 4 << 10}
	cmd.Stdout = &said
	err = cmd.Run()
	v, ok := ParseVersion(string(said.text))
	switch {
	case ctx.Err() != nil:
		return Version{}, fmt.Errorf("claude --version did not end within %s", wait)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return Version{}, fmt.Errorf("claude --version: %w", err)
	case !ok:
		return Version{}, errors.New("claude --version prints no version")
	}
	return v, nil
}

// A head takes as much as it has room for. More is an error, which ends a program that prints without end.
type head struct {
	text []byte
	room int
}

// Write implements io.Writer.
func (h *head) Write(b []byte) (int, error) {
	if len(h.text)+len(b) > h.room {
		return 0, io.ErrShortBuffer
	}
	h.text = append(h.text, b...)
	return len(b), nil
}
