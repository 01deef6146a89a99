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
	"time"

	"github.com/google/uuid"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

var (
	// errNoTmux says that a session was never in tmux, as far as is known.
	errNoTmux = errors.New("the session does not run in tmux")
	// errTmuxGone says that the tmux session, or the pane, is not there at present.
	errTmuxGone = errors.New("the tmux session is gone")
)

// panesBound is how long tmux may take to show its panes.
const panesBound = 10 * time.Second

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

// where finds the pane that a question's answer belongs into. Its record names the pane; one of another program names the tmux
// session, in which one pane has Claude Code.
func (v *tmuxView) where(ctx context.Context, q *state.Question) (inject.Target, error) {
	to := inject.Target{ClaudePID: q.ClaudePID, ClaudeStart: q.ClaudeStart}
	session := cmp.Or(q.TmuxSession, q.SessionName)
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
		there := slices.DeleteFunc(slices.Clone(panes), func(p inject.Pane) bool {
			return q.TmuxPane != "" && p.ID != q.TmuxPane || q.TmuxPane == "" && p.Session != session
		})
		if len(there) == 0 {
			continue
		}
		if q.TmuxPane == "" {
			there = slices.DeleteFunc(there, func(p inject.Pane) bool {
				_, err := p.Claude(q.ClaudePID, q.ClaudeStart)
				return err != nil
			})
		}
		if len(there) != 1 {
			return to, fmt.Errorf("%d panes of the tmux session %q run Claude Code", len(there), session)
		}
		to.Server, to.Pane = s, there[0].ID
		return to, nil
	}
	if q.TmuxPane == "" && q.TmuxSession == "" {
		return to, errNoTmux
	}
	return to, errTmuxGone
}

// typed says whether the poller may type a question's answer: its mode says so, another program wrote it down, or it is on the
// screen of a pane and no hook waits beside it any longer.
func typed(q *state.Question) bool {
	if len(q.Questions) == 0 || q.Printed { // nothing to answer; the hook handed the answer over
		return false
	}
	return q.Mode == state.Inject || q.Mode == "" || q.Mode == state.Native
}

// typable says whether the poller may type the answer, and knows where: into the pane that the index names. Only of a question
// in a folder that a person named, the question's own file says which pane it is.
func (p *Poller) typable(s *served) bool {
	if !typed(s.q) {
		return false
	}
	if s.info == nil {
		return s.q.Mode != state.Native || s.q.TmuxPane != ""
	}
	return s.TmuxPane != ""
}

// placed is a question with the pane that its answer may be typed into.
func (p *Poller) placed(s *served, q *state.Question) *state.Question {
	if s.info == nil {
		return q
	}
	at := *q
	at.TmuxPane, at.TmuxSocket = s.TmuxPane, s.TmuxSocket
	return &at
}

// findPanes gives questions up whose tmux session is missing three rounds running: it can be gone for a moment. It asks tmux
// beside the loop, since tmux may hang.
func (p *Poller) findPanes(ctx context.Context) {
	var qs []*state.Question
	for _, s := range p.index {
		if s.mine(p) && s.q != nil && s.q.Status.Open() && s.q.Mode == state.Inject && !s.typing.Load() {
			qs = append(qs, p.placed(s, s.q))
		}
	}
	if len(qs) == 0 || !p.asking.CompareAndSwap(false, true) {
		return
	}
	p.beside("find panes", func() {
		defer p.asking.Store(false)
		ctx, cancel := context.WithTimeout(ctx, panesBound)
		defer cancel()
		view := &tmuxView{own: p.Env("TMUX")}
		for _, q := range qs {
			_, err := view.where(ctx, q)
			p.countMissed(q, errors.Is(err, errTmuxGone))
		}
	})
}

func (p *Poller) countMissed(q *state.Question, gone bool) {
	if !gone && q.TmuxMissed == 0 {
		return
	}
	q, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if q.TmuxMissed++; !gone {
			q.TmuxMissed = 0
		}
		return nil
	})
	if err == nil && q.TmuxMissed >= mostMissed {
		_, err = state.CloseQuestion(q.Path, state.Abandoned, "tmux_gone", nil)
	}
	if err != nil {
		p.logOnce(err, "tmux session not counted")
	}
}

// adopt completes a question that names no space. Of one that another program wrote down, in the format that DESIGN calls a
// contract, its project follows from where it lies and its space from its thread; of a thread that a process waits in, too.
func (p *Poller) adopt(ctx context.Context, s *served) {
	q := s.q
	foreign := s.info == nil && q.Mode == ""
	if !q.Status.Open() || !foreign && (q.Mode != state.Thread || q.Chat != "" && q.ThreadName != "") {
		return
	}
	chat, space := p.chatFor(ctx, s)
	thread := cmp.Or(s.ThreadName, q.ThreadName)
	if id, ok := strings.CutPrefix(q.ThreadKey, "session-"); ok && thread == "" { // of a session's reports
		if one, err := state.SessionsIn(p.user()).Of(id); err == nil {
			thread = one.ThreadName
		}
	}
	p.change(s, "question not completed", func(q *state.Question) error {
		if q.Mode == state.Thread && (q.Chat != "" || chat == "") && q.ThreadName == thread {
			return state.ErrUnchanged
		}
		q.ThreadName = thread
		if q.Chat == "" {
			q.Chat, q.Space = chat, space
		}
		if q.Mode == state.Thread {
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
func (p *Poller) chatFor(ctx context.Context, s *served) (chat, space string) {
	q := s.q
	way := p.gateway(ctx, cmp.Or(q.ProjectDir, p.projectOf(stateDirOf(q))), s.Trusted)
	switch {
	case way.hook != nil:
		chat, space = way.hook.Chat(), way.hook.Space
	case way.cfg.WebhookURL == "" && way.cfg.WebhookCommand == "": // another program posts
		chat, space = namedSpace(way.cfg)
	}
	if thread := cmp.Or(s.ThreadName, q.ThreadName); thread != "" && !strings.HasPrefix(thread, space+"/") {
		return "", ""
	}
	return chat, space
}

// namedSpace is the space that a configuration names, whatever its webhook; "" where it names none.
func namedSpace(cfg *config.Config) (chat, space string) {
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
