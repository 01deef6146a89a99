package poller

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"gchat-hooks/state"
)

// typable says whether the daemon may type a question's answer: its mode says so, another program wrote it down, or it is
// on the screen of a pane that is known and no hook waits beside it any longer.
func typable(q *state.Question) bool {
	switch q.Mode {
	case state.Inject, "":
		return true
	case state.Native:
		return q.TmuxPane != "" && !q.Printed
	}
	return false
}

// adopt completes a question that another program wrote down, in the format that DESIGN calls a contract: without what is
// ours, its project follows from where it lies and its space from its thread.
func (p *Poller) adopt(q *state.Question) (*state.Question, error) {
	if q.Mode != "" {
		return q, nil
	}
	return state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if q.Mode != "" {
			return state.ErrUnchanged
		}
		q.Mode = state.Inject
		if q.ProjectDir == "" {
			q.ProjectDir = p.projectOf(stateDirOf(q))
		}
		if q.SessionName == "" { // Claude Code's own ids are no names
			if q.SessionName = q.SessionID; uuid.Validate(q.SessionID) == nil {
				q.SessionName = cmp.Or(q.TmuxSession, q.SessionID)
			}
		}
		hook, err := p.webhook(context.Background(), p.config(q.ProjectDir))
		if err == nil && (q.ThreadName == "" || strings.HasPrefix(q.ThreadName, hook.Space+"/")) {
			q.Chat, q.Space = hook.Chat(), hook.Space
		}
		return nil
	})
}

// projectOf is the project that a state folder belongs to: PROJECT/.claude/state, else this process's own.
func (p *Poller) projectOf(stateDir string) string {
	if project, ok := strings.CutSuffix(stateDir, filepath.Join("/", ".claude", "state")); ok && project != "" {
		return project
	}
	dir, err := filepath.Abs(state.ProjectDir(p.Env))
	if err != nil {
		return state.ProjectDir(p.Env)
	}
	return dir
}
