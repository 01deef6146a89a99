package hooks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// inTmux makes the session's Claude Code run in a pane of a tmux server of its own.
func (w *world) inTmux() (socket, pane string) {
	w.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			w.Fatal("tmux is missing")
		}
		w.Skip("needs tmux")
	}
	dir, err := os.MkdirTemp("", "t-") // short: a socket's path ends at 107 bytes
	kit.NoError(w, err)
	socket = filepath.Join(dir, "s")
	w.Cleanup(func() {
		_ = bound.Command(w, "tmux", "-S", socket, "kill-server").Run()
		os.RemoveAll(dir)
	})
	begin := []string{"-S", socket, "-f", os.DevNull, "new-session", "-d", "-P", "-F", "#{pane_id} #{pane_pid}", "exec sleep 1000"}
	out, err := bound.Command(w, "tmux", begin...).CombinedOutput()
	if err != nil {
		w.Fatalf("tmux: %v: %s", err, out)
	}
	pane, pid, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	w.env["TMUX"], w.env["TMUX_PANE"], w.env["CLAUDE_PID"] = socket+",1,0", pane, pid
	return socket, pane
}

// The variables of tmux were passed into a sandbox or to another terminal. Keys would not
// reach this Claude Code, so it counts as outside of tmux. The hook finds that out once.
func TestSession_UnseenPaneIsNone(t *testing.T) {
	for name, set := range map[string]func(*world){
		"no server there":  func(w *world) { w.env["TMUX"] = filepath.Join(w.dir, "no-server") + ",1,0" },
		"no such pane":     func(w *world) { w.env["TMUX_PANE"] = "%999" },
		"another terminal": func(w *world) { w.env["CLAUDE_PID"] = livingPID(w) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWithoutPoller(t)
			w.inTmux()
			set(w)
			w.runHook("gchat-session-event", recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1"))
			sessions := state.SessionsIn(state.UserStateDir(w.getenv))
			first, err := sessions.Get("s-1")
			kit.NoError(t, err)
			if first.TmuxPane != "" || first.TmuxSocket != "" || !first.AcceptsCommands {
				t.Errorf("it is in pane %q of %q", first.TmuxPane, first.TmuxSocket)
			}
			w.runHook("gchat-session-event", recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1"))
			if again, err := sessions.Get("s-1"); err != nil || !again.LastSeen.Equal(first.LastSeen) {
				t.Errorf("it was looked for again: %v", err)
			}
		})
	}
}

// After /branch the same Claude Code goes on as another session, which continues the
// thread at once.
func TestSession_BranchKeepsTheThread(t *testing.T) {
	for _, source := range []string{"fork", "resume"} { // of 2.1.332, and of 2.1.197
		t.Run(source, func(t *testing.T) { testBranched(t, source) })
	}
}

func testBranched(t *testing.T, source string) {
	w := newWorldWithoutPoller(t)
	w.inTmux()
	w.runHook("gchat-session-event", recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1"))
	sessions := state.SessionsIn(state.UserStateDir(w.getenv))
	if _, err := sessions.Change("s-1", func(s *state.Session) {
		s.ThreadName, s.Chat = "spaces/x/threads/t", "h/spaces/x"
	}); err != nil {
		t.Fatal(err)
	}
	w.runHook(answeredHook, recorded(t, "timing-10-SessionEnd", "session_id", "s-1", "reason", "resume"))
	w.runHook(answeredHook, recorded(t, "single-01-SessionStart", "session_id", "s-2", "source", source))
	s, err := sessions.Get("s-2")
	kit.NoError(t, err)
	if s.ThreadName != "spaces/x/threads/t" || !s.AcceptsCommands || s.PreviousSession != "s-1" {
		t.Errorf("the branch: %+v", s)
	}
}
