package poller

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// Asker is the session that asks: where it runs and what it is called.
type Asker struct {
	Name        string // what people call it
	TmuxSession string // "" outside tmux
	TmuxPane    string // %N
	TmuxSocket  string // of the tmux server
	ClaudePID   int    // 0 when unknown
	ClaudeStart string // start time of that process, in the kernel's words; "" when unknown
}

// Identify finds out who asks from a hook's environment. Its name is $CLAUDE_SESSION_ID (launch scripts set it), else the
// tmux session, else the project's folder with the beginning of the session id.
func Identify(ctx context.Context, env state.Getenv, sessionID string) Asker {
	a := Asker{TmuxPane: env("TMUX_PANE")}
	a.TmuxSocket, _, _ = strings.Cut(env("TMUX"), ",")
	a.TmuxSession, _ = inject.SessionOf(ctx, env("TMUX"), a.TmuxPane)
	a.Name = SessionName(env, sessionID, a.TmuxSession)
	a.ClaudePID, a.ClaudeStart = Claude(env)
	return a
}

// Claude is the process of the Claude Code that runs this hook, and its start time in the kernel's words; 0 when it cannot be
// told.
func Claude(env state.Getenv) (pid int, start string) {
	if pid = ClaudePID(env); pid > 0 {
		start = inject.StartOf(pid)
	}
	return pid, start
}

// ClaudePID is the Claude Code that runs this hook; 0 when it cannot be told.
func ClaudePID(env state.Getenv) int {
	if pid, _ := strconv.Atoi(env("CLAUDE_PID")); pid > 1 && inject.Running(pid) { // set from 2.1.214 on
		return pid
	}
	return inject.ClaudeAbove()
}

// SessionName is what people call a session.
func SessionName(env state.Getenv, sessionID, tmuxSession string) string {
	if name := env("CLAUDE_SESSION_ID"); name != "" {
		return name
	}
	if tmuxSession != "" {
		return tmuxSession
	}
	return filepath.Base(state.ProjectDir(env)) + "-" + sessionID[:min(8, len(sessionID))]
}

// Gone says that the Claude Code that asked has ended: its process is not there, or its pid is another process's by now.
func Gone(q *state.Question) bool {
	if q.ClaudePID <= 1 {
		return false
	}
	if !inject.Running(q.ClaudePID) {
		return true
	}
	start := inject.StartOf(q.ClaudePID) // "" where it cannot be told
	return q.ClaudeStart != "" && start != "" && start != q.ClaudeStart
}
