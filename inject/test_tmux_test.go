package inject

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// testTmux is a tmux server that belongs to one test.
type testTmux struct {
	t   *testing.T
	dir string
	Server
}

// newTestTmux starts a server with one pane, in which sh runs command.
func newTestTmux(t *testing.T, command string) (testTmux, Pane) {
	t.Helper()
	kit.NeedProgram(t, "tmux")
	dir, err := os.MkdirTemp("", "t-") // short, as a socket's path has at most 107 bytes
	kit.NoError(t, err)
	w := testTmux{t, dir, Server{Socket: filepath.Join(dir, "s")}}
	t.Cleanup(func() {
		_ = bound.Command(t, "tmux", "-S", w.Socket, "kill-server").Run()
		_ = os.RemoveAll(dir)
	})
	return w, w.newSession("main", command)
}

// newSession adds a session of 80x24 characters.
func (w testTmux) newSession(name, command string) Pane {
	w.t.Helper()
	id := w.tmux("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", name, "-x", "80", "-y", "24",
		"-c", w.dir, "sh", "-c", command)
	return w.pane(id)
}

func (w testTmux) pane(id string) Pane {
	w.t.Helper()
	p, err := w.Pane(w.t.Context(), id)
	kit.NoError(w.t, err)
	return p
}

func (w testTmux) tmux(args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux",
		append([]string{"-u", "-S", w.Socket, "-f", os.DevNull}, args...)...)
	// A test's shell must not write into the history of the person who runs the test.
	cmd.Env = append(withoutTmux(os.Environ()), "LANG=C.UTF-8", "PS1=$ ", "HOME="+w.dir)
	out, err := cmd.CombinedOutput()
	kit.Must(w.t, err == nil, "tmux %q: %v: %s", args, err, out)
	return strings.TrimRight(string(out), "\n")
}

func (w testTmux) awaitText(pane, text string) {
	w.t.Helper()
	bound.Until(w.t, "the pane shows "+text, func() bool {
		screen, err := w.Capture(w.t.Context(), pane)
		return err == nil && strings.Contains(screen, text)
	})
}
