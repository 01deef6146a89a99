package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

var (
	// errNoTmux says that a session was never in tmux, as far as is known.
	errNoTmux = errors.New("the session does not run in tmux")
	// errTmuxGone says that the tmux session, or the pane, is not there at present.
	errTmuxGone = errors.New("the tmux session is gone")
)

// tmuxView is what tmux shows at one moment: each server is asked once, however many questions there are.
type tmuxView struct {
	own   string // $TMUX of this process
	panes map[string][]inject.Pane
	errs  map[string]error
}

func (v *tmuxView) of(ctx context.Context, s inject.Server) ([]inject.Pane, error) {
	if v.panes == nil {
		v.panes, v.errs = map[string][]inject.Pane{}, map[string]error{}
	}
	if _, ok := v.panes[s.Socket]; !ok {
		v.panes[s.Socket], v.errs[s.Socket] = s.Panes(ctx)
	}
	return v.panes[s.Socket], v.errs[s.Socket]
}

// where finds the pane that a question's answer belongs into. Its record names the pane; a record without one names the
// session, exactly or by a beginning that only one session has, as the first design looks sessions up.
func (v *tmuxView) where(ctx context.Context, q *state.Question) (inject.Target, error) {
	to := inject.Target{ClaudePID: q.ClaudePID, ClaudeStart: q.ClaudeStart}
	servers := []inject.Server{{Socket: q.TmuxSocket}}
	if socket, _, _ := strings.Cut(v.own, ","); q.TmuxSocket == "" && socket != "" {
		servers = []inject.Server{{Socket: socket}, {}}
	}
	for _, s := range servers {
		panes, err := v.of(ctx, s)
		if errors.Is(err, inject.ErrNoServer) {
			continue
		}
		if err != nil {
			return to, err
		}
		to.Server = s
		if q.TmuxPane != "" {
			if slices.ContainsFunc(panes, func(p inject.Pane) bool { return p.ID == q.TmuxPane }) {
				to.Pane = q.TmuxPane
				return to, nil
			}
			continue
		}
		found, err := byName(panes, q)
		if err != nil {
			return to, err
		}
		if len(found) > 0 {
			to.Pane, err = theOne(ctx, s, found, q)
			return to, err
		}
	}
	if q.TmuxPane == "" && q.TmuxSession == "" {
		return to, errNoTmux
	}
	return to, errTmuxGone
}

// byName are the panes of the session that a record without a pane means.
func byName(panes []inject.Pane, q *state.Question) ([]inject.Pane, error) {
	var sessions []string
	for _, p := range panes {
		if !slices.Contains(sessions, p.Session) {
			sessions = append(sessions, p.Session)
		}
	}
	for _, name := range []string{q.TmuxSession, q.SessionName, q.SessionID} {
		called := inject.SessionsCalled(sessions, name)
		if len(called) > 1 {
			return nil, fmt.Errorf("more than one tmux session begins with %q", name)
		}
		if len(called) == 1 {
			return slices.DeleteFunc(slices.Clone(panes), func(p inject.Pane) bool { return p.Session != called[0] }), nil
		}
	}
	return nil, nil
}

// theOne is the pane of a session whose Claude Code shows this question.
func theOne(ctx context.Context, s inject.Server, panes []inject.Pane, q *state.Question) (string, error) {
	var claudes, shows []string
	for _, p := range panes {
		if _, err := p.Claude(q.ClaudePID, q.ClaudeStart); err != nil {
			continue
		}
		claudes = append(claudes, p.ID)
		text, err := s.Capture(ctx, p.ID)
		if err != nil {
			continue
		}
		screen := inject.ReadScreen(text)
		if slices.ContainsFunc(q.Questions, func(p state.Prompt) bool { return inject.Same(screen.Question, p.Question) }) {
			shows = append(shows, p.ID)
		}
	}
	switch {
	case len(shows) == 1:
		return shows[0], nil
	case len(claudes) == 1:
		return claudes[0], nil
	case len(claudes) == 0:
		return "", fmt.Errorf("no Claude Code has the keyboard in the tmux session %q", panes[0].Session)
	}
	return "", fmt.Errorf("several panes of the tmux session %q run Claude Code", panes[0].Session)
}

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
