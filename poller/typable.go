package poller

import (
	"cmp"
	"context"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"gchat-hooks/state"
)

// typable says whether the daemon may type a question's answer: its mode says so, another program wrote it down, or it is
// on the screen of a pane that is known and no hook waits beside it any longer.
func typable(q *state.Question) bool {
	if len(q.Questions) == 0 || q.Printed { // nothing to answer; the hook handed the answer over
		return false
	}
	return q.Mode == state.Inject || q.Mode == "" || q.Mode == state.Native && q.TmuxPane != ""
}

// adopt completes a question that another program wrote down, in the format that DESIGN calls a contract: without what is
// ours, its project follows from where it lies and its space from its thread.
func (p *Poller) adopt(q *state.Question) (*state.Question, error) {
	chat, space := p.chatFor(q)
	if q.Mode != "" && (q.Chat != "" || chat == "") {
		return q, nil
	}
	return state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if q.Chat == "" {
			q.Chat, q.Space = chat, space
		}
		if q.Mode != "" {
			return nil
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
		return nil
	})
}

// chatFor is the space of a question that names none: where its project's webhook posts, unless its thread is in another
// one; "" while that cannot be told.
func (p *Poller) chatFor(q *state.Question) (chat, space string) {
	project := q.ProjectDir
	if project == "" {
		project = p.projectOf(stateDirOf(q))
	}
	chat, space = p.leadsTo(context.Background(), p.config(project))
	if q.ThreadName != "" && !strings.HasPrefix(q.ThreadName, space+"/") {
		return "", ""
	}
	return chat, space
}

// leadsTo is the space that a configuration means: its webhook's, else, where another program posts, the space that it names.
func (p *Poller) leadsTo(ctx context.Context, cfg *state.Config) (chat, space string) {
	if hook, err := p.webhook(ctx, cfg); err == nil {
		return hook.Chat(), hook.Space
	}
	if cfg.WebhookURL != "" || cfg.WebhookCommand != "" {
		return "", ""
	}
	return namedSpace(cfg)
}

// namedSpace is the space that a configuration names, whatever its webhook; "" where it names none.
func namedSpace(cfg *state.Config) (chat, space string) {
	if cfg.SpaceID == "" {
		return "", ""
	}
	host := "chat.googleapis.com"
	if u, err := url.Parse(cfg.APIEndpoint); err == nil && u.Host != "" {
		host = u.Host
	}
	space = "spaces/" + strings.TrimPrefix(cfg.SpaceID, "spaces/")
	return host + "/" + space, space
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
