package inject

import (
	"os"
	"strconv"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func TestAsker_SessionNames(t *testing.T) {
	const id = "3f2a91bc-0000-4000-8000-000000000000"
	other := []*state.Session{{Name: "shop", TmuxSession: "main"}}
	for name, c := range map[string]struct {
		session, window string // of tmux
		script          string // $CLAUDE_SESSION_ID
		siblings        []*state.Session
		want            string
	}{
		"alone in its project": {session: "main", window: "api", want: "shop"},
		"a launch script's":    {script: "orch-epic4", siblings: other, want: "orch-epic4"},
		"the same tmux session": {session: "main", window: "api", siblings: other,
			want: "shop · api"},
		"a tmux session of its own": {session: "orch", window: "api", siblings: other,
			want: "shop · orch"},
		"a tmux session with a number": {session: "7", window: "api", siblings: other,
			want: "shop · api"},
		"outside tmux": {siblings: other, want: "shop · 3f2a91bc"},
		"the name of a sibling": {session: "main", window: "api",
			siblings: []*state.Session{{Name: "shop · api", TmuxSession: "main"}},
			want:     "shop · api 3f2a91bc"},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"CLAUDE_PROJECT_DIR": "/home/dev/shop",
				"CLAUDE_SESSION_ID": c.script}
			kit.Equal(t, SessionName(func(name string) string { return env[name] },
				&state.Session{ID: id, TmuxSession: c.session}, c.window, c.siblings), c.want)
		})
	}
}

func TestAsker_IdentifyUsesTheRealTmux(t *testing.T) {
	w, first := newTestTmux(t, "exec sleep 600")
	second := w.newSession("orch épic", "exec sleep 600")
	w.tmux("rename-window", "-t", second.ID, "api: v2")
	env := map[string]string{"TMUX": w.Socket + ",1,0", "CLAUDE_PROJECT_DIR": "/home/dev/shop"}
	getenv := func(name string) string { return env[name] }
	env["TMUX_PANE"] = second.ID
	a := &state.Session{ID: "some-id"}
	window := IdentifySession(t.Context(), getenv, a)
	name := SessionName(getenv, a, window,
		[]*state.Session{{Name: "shop", TmuxSession: "orch épic"}})
	kit.True(t, name == "shop · api: v2" && a.TmuxSession == "orch épic" && window == "api: v2" &&
		a.TmuxPane == second.ID && a.TmuxSocket == w.Socket,
		"%+v", a)
	env["TMUX_PANE"] = first.ID
	IdentifySession(t.Context(), getenv, a)
	kit.Equalf(t, a.TmuxSession, "main", "the first pane's session")
	for _, pane := range []string{"", "main", "%0; kill-server", "%999"} {
		env["TMUX_PANE"] = pane
		window := IdentifySession(t.Context(), getenv, a)
		kit.True(t, a.TmuxSession == "" && window == "",
			"pane %q: %q, %q", pane, a.TmuxSession, window)
	}
	w.tmux("has-session", "-t", "=main")
	env["TMUX"] = w.Socket + "x,1,0"
	IdentifySession(t.Context(), getenv, a)
	kit.Equalf(t, a.TmuxSession, "", "the session without a server")
}

func TestAsker_KnowsALaterProcess(t *testing.T) {
	me := os.Getpid()
	start := ProcessStart(me)
	kit.True(t, !HasEnded(me, start) && !HasEnded(me, ""), "this process is running")
	kit.True(t, HasEnded(me, "1"+start), "another process with this pid is taken for it")
	ended := 1 << 30
	kit.True(t, !HasEnded(ended, "1@elsewhere") && !IsElsewhere(start),
		"what is not to be seen from here is judged")
	kit.True(t, !HasEnded(0, "") && HasEnded(1<<30, ""),
		"an unknown process, or none, is taken for another")
}

func TestAsker_ClaudeByItsVariable(t *testing.T) {
	me := os.Getpid()
	env := func(string) string { return strconv.Itoa(me) }
	pid, start := CallingClaude(env)
	kit.True(t, pid == me && start == ProcessStart(me), "pid %d, start %q", pid, start)
}
