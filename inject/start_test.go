package inject

import (
	"sync"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// Several sessions start at the same moment. One of them starts our own tmux server, and
// each gets a window in it.
func TestStart_OneAtATime(t *testing.T) {
	kit.NeedProgram(t, "tmux")
	own := OwnServer(t.TempDir())
	t.Cleanup(func() { _ = bound.Command(t, "tmux", "-S", own.Socket, "kill-server").Run() })
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			_, err := own.OpenWindow(t.Context(), ownTmuxSession, t.TempDir(),
				[]string{"/bin/sleep", "60"})
			kit.True(t, err == nil, "%v", err)
		})
	}
	all.Wait()
	panes, err := own.Panes(t.Context())
	kit.True(t, err == nil && len(panes) == 6, "%d panes, %v", len(panes), err)
}

// Whatever name a tmux session has, OpenSessionWindow opens a window in that session or
// in our own server.
func TestStart_BesideOddNames(t *testing.T) {
	w, _ := newTestTmux(t, "exec sleep 60")
	names := []string{"$0", "%0", "@0", "=main", "-x", "{last}", "!", "*", " lead", "a,b",
		"#[fg=red]x", `"q"`}
	for _, name := range names {
		w.newSession(name, "exec sleep 60")
	}
	user := t.TempDir()
	t.Cleanup(func() {
		_ = bound.Command(t, "tmux", "-S", OwnServer(user).Socket,
			"kill-server").Run()
	})
	for _, name := range names {
		session := &state.Session{TmuxSocket: w.Socket, TmuxSession: name, ProjectDir: t.TempDir()}
		server, pane, err := OpenSessionWindow(t.Context(), user, session,
			[]string{"/bin/sleep", "60"})
		kit.True(t, err == nil && (server.Socket != w.Socket || pane.Session == name),
			"beside %q it is opened in %q: %v", name, pane.Session, err)
	}
}
