package inject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

func TestPanes_AsTmuxListsThem(t *testing.T) {
	w, first := newTestTmux(t, "exec sleep 600")
	w.tmux("split-window", "-d", "-t", first.ID, "sleep 600")
	other := w.newSession("orch épic 日本", "exec sleep 600")
	bound.Until(t, "the shell has become sleep", func() bool {
		other = w.pane(other.ID)
		return other.Program == "sleep" && w.pane(first.ID).Program == "sleep"
	})
	w.tmux("set-option", "-w", "-t", first.ID, "synchronize-panes", "on")
	w.tmux("select-pane", "-d", "-t", first.ID)
	w.tmux("copy-mode", "-t", first.ID)

	panes, err := w.Panes(t.Context())
	kit.Must(t, err == nil && len(panes) == 3, "%v, %+v", err, panes)
	kit.True(t, slices.Contains(panes, other) && other.Session == "orch épic 日本" && !other.InMode &&
		!other.Synchronized && !other.InputOff && !other.Dead,
		"%+v is not, or not rightly, in %+v", other, panes)
	got := w.pane(first.ID)
	kit.True(t, got.InMode && got.Synchronized && got.InputOff && got.Session == "main" &&
		slices.Contains(panes, got),
		"%+v", got)
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", other.PID))
	kit.True(t, len(comm) == 0 || string(comm) == "sleep\n", "pid %d is %s", other.PID, comm)
	w.tmux("kill-pane", "-t", other.ID)
	for _, id := range []string{other.ID, "%999", "", "main", "%0;"} {
		p, err := w.Pane(t.Context(), id)
		kit.True(t, errors.Is(err, ErrNoPane), "pane %q: %+v, %v", id, p, err)
		_, err = w.Capture(t.Context(), id)
		kit.True(t, errors.Is(err, ErrNoPane), "capture pane %q: %v", id, err)
		_, err = w.Snapshot(t.Context(), id, 10)
		kit.True(t, errors.Is(err, ErrNoPane), "snapshot of pane %q: %v", id, err)
	}
}

func TestPanes_SessionsByName(t *testing.T) {
	var all []Pane
	for _, name := range []string{"main", "orch-a", "orch-ab", "orch-b", "orch-b", "épic 日本",
		"x_y_z", "=eq", "%7"} {
		all = append(all, Pane{Session: name})
	}
	for name, want := range map[string]string{
		"main": "main", "ma": "main", "orch-a": "orch-a", "orch-ab": "orch-ab", "orch-b": "orch-b",
		"épic":  "épic 日本",
		"x.y:z": "x_y_z", "x.y": "x_y_z", "=eq": "=eq", "=": "=eq", "%7": "%7",
		"orch": "orch-a orch-ab orch-b",
		"":     "", "ain": "", "m*": "", "MAIN": "", "{last}": "", "-t": "", "main;": "", "$0": "",
	} {
		kit.Equalf(t, strings.Join(matchingSessions(all, name), " "), want, "%q", name)
	}
}

// A daemon's environment may have no tmux on its PATH, and its LANG may know only ASCII.
func TestPanes_BareEnvironment(t *testing.T) {
	w, _ := newTestTmux(t, "printf 'ready 日本\n'; sleep 600")
	p := w.newSession("épic", "printf 'ready 日本'; sleep 600")
	w.awaitText(p.ID, "ready")
	if _, err := os.Stat("/usr/bin/tmux"); err == nil {
		t.Setenv("PATH", "/nonexistent")
	}
	for name, value := range map[string]string{"LANG": "C", "LC_ALL": "C", "TERM": "",
		"HOME": "/nonexistent", "TMUX": filepath.Join(w.dir, "none") + ",1,0", "TMUX_PANE": "%99"} {
		t.Setenv(name, value)
	}
	got, err := w.Snapshot(t.Context(), p.ID, 10)
	kit.True(t, err == nil && got.Session == "épic" && slices.Contains(got.Lines, "ready 日本"),
		"%+v, %v", got, err)
}

func TestPanes_DefaultServer(t *testing.T) {
	dir := t.TempDir()
	mine := fmt.Sprintf("tmux-%d/default", os.Getuid())
	for folder, want := range map[string]string{"": "/tmp", dir: dir,
		filepath.Join(dir, "none"): "/tmp"} {
		t.Setenv("TMUX_TMPDIR", folder)
		kit.Equalf(t, ServerOf("").socketPath(), filepath.Join(want, mine), "%q", folder)
	}
	kit.Equalf(t, ServerOf("/tmp/x/default,123,4").socketPath(), "/tmp/x/default", "$TMUX")
	t.Setenv("TMUX_TMPDIR", dir)
	_, err := (Server{}).Panes(t.Context())
	kit.True(t, errors.Is(err, ErrNoServer), "an empty folder: %v", err)
}

func TestPanes_MissingServers(t *testing.T) {
	w, p := newTestTmux(t, "sleep 600")
	w.tmux("kill-server")
	bound.Until(t, "the server is gone", func() bool { return !isAlive(p.PID) })
	plain := filepath.Join(w.dir, "plain")
	kit.NoError(t, os.WriteFile(plain, nil, 0o600))
	for _, socket := range []string{w.Socket, filepath.Join(w.dir, "none"),
		filepath.Join(w.dir, "no", "folder"), plain} {
		s := Server{Socket: socket}
		_, panes := s.Panes(t.Context())
		_, pane := s.Pane(t.Context(), p.ID)
		_, capture := s.Capture(t.Context(), p.ID)
		_, typed := s.LastTyped(t.Context(), p.ID)
		for what, err := range map[string]error{"panes": panes, "pane": pane, "capture": capture,
			"typed": typed,
			"key":   s.PressKey(t.Context(), p.ID, KeyEnter),
			"paste": s.PasteText(t.Context(), p.ID, "x")} {
			kit.True(t, errors.Is(err, ErrNoServer), "%s: %s: %v", filepath.Base(socket), what, err)
		}
	}
	_, err := os.Stat(filepath.Join(w.dir, "none"))
	kit.True(t, err != nil, "a server was started")
}

// A call to a tmux server that does not answer ends at its timeout, and leaves no
// process.
func TestPanes_TmuxThatHangs(t *testing.T) {
	w, p := newTestTmux(t, "sleep 600")
	var server int
	fmt.Sscan(w.tmux("display-message", "-p", "#{pid}"), &server)
	kit.Must(t, server > 1, "no pid of the server")
	kit.NoError(t, syscall.Kill(server, syscall.SIGSTOP))
	// before the server is told to end
	t.Cleanup(func() { _ = syscall.Kill(server, syscall.SIGCONT) })
	ended := make(chan error, 3)
	go func() { _, err := w.Capture(context.Background(), p.ID); ended <- err }()
	go func() { ended <- w.PasteText(context.Background(), p.ID, "text") }()
	go func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := w.Panes(ctx)
		ended <- err
	}()
	bound.Until(t, "every call has ended", func() bool { return len(ended) == 3 })
	for range 3 {
		err := <-ended
		kit.True(t, err != nil &&
			(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)),
			"%v", err)
	}
}
