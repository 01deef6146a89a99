package poller

import (
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// Gone says that the Claude Code that asked has ended: its process is not there, or its pid is another process's by now.
func Gone(q *state.Question) bool {
	return q.ClaudePID > 1 && !inject.Running(q.ClaudePID, q.ClaudeStart)
}
