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
	own   inject.Server // of this process
	panes map[string][]inject.Pane
	errs  map[string]error
}

func (p *Poller) tmuxView() *tmuxView {
	return &tmuxView{own: inject.ServerOf(p.Env("TMUX")), panes: map[string][]inject.Pane{}, errs: map[string]error{}}
}

func (v *tmuxView) of(ctx context.Context, s inject.Server) ([]inject.Pane, error) {
	if _, ok := v.panes[s.Socket]; !ok {
		v.panes[s.Socket], v.errs[s.Socket] = s.Panes(ctx)
	}
	return v.panes[s.Socket], v.errs[s.Socket]
}

// where finds the pane that a question's answer belongs into. Its record names the pane; one of another program names the tmux
// session, in which one pane has Claude Code.
func (v *tmuxView) where(ctx context.Context, q *state.Question) (inject.Target, error) {
	to := inject.Target{Server: inject.Server{Socket: q.TmuxSocket}, ClaudePID: q.ClaudePID, ClaudeStart: q.ClaudeStart}
	if q.TmuxSocket == "" {
		to.Server = v.own
	}
	panes, err := v.of(ctx, to.Server)
	if err != nil && !errors.Is(err, inject.ErrNoServer) {
		return to, err
	}
	session := cmp.Or(q.TmuxSession, q.SessionName)
	there := slices.DeleteFunc(slices.Clone(panes), func(p inject.Pane) bool {
		return q.TmuxPane != "" && p.ID != q.TmuxPane || q.TmuxPane == "" && p.Session != session
	})
	switch {
	case len(there) == 0 && q.TmuxPane == "" && q.TmuxSession == "":
		return to, errNoTmux
	case len(there) == 0:
		return to, errTmuxGone
	case q.TmuxPane == "":
		there = slices.DeleteFunc(there, func(p inject.Pane) bool {
			_, err := p.Claude(q.ClaudePID, q.ClaudeStart)
			return err != nil
		})
	}
	if len(there) != 1 {
		return to, fmt.Errorf("%d panes of the tmux session %q run Claude Code", len(there), session)
	}
	to.Pane = there[0].ID
	return to, nil
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
		view := p.tmuxView()
		for _, q := range qs {
			_, err := view.where(ctx, q)
			if err = countMissed(q, errors.Is(err, errTmuxGone)); err != nil {
				p.logOnce(err, "tmux session not counted")
			}
		}
	})
}

func countMissed(q *state.Question, gone bool) error {
	if !gone && q.TmuxMissed == 0 {
		return nil
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
	return err
}

// adopt completes a question that names no space. Of one that another program wrote down, in the format that DESIGN calls a
// contract, its project follows from where it lies and its space from its thread; of a thread that a process waits in, too.
func (p *Poller) adopt(ctx context.Context, s *served) {
	q := s.q
	foreign := s.info == nil && q.Mode == ""
	if !q.Status.Open() || !foreign && (q.Mode != state.Thread || q.Chat != "" && q.ThreadName != "") {
		return
	}
	thread := cmp.Or(s.ThreadName, q.ThreadName)
	if id, ok := strings.CutPrefix(q.ThreadKey, "session-"); ok && thread == "" { // of a session's reports
		if one, err := state.SessionsIn(p.user()).Of(id); err == nil {
			thread = one.ThreadName
		}
	}
	chat, space := p.chatFor(ctx, s, thread)
	p.change(s, "question not completed", func(q *state.Question) error {
		if q.Mode == state.Thread && (q.Chat != "" || chat == "") && q.ThreadName == thread {
			return state.ErrUnchanged
		}
		if q.ThreadName = thread; q.Chat == "" {
			q.Chat, q.Space = chat, space
		}
		if q.Mode == state.Thread {
			return nil
		}
		q.Mode, q.ProjectDir = state.Inject, cmp.Or(q.ProjectDir, p.projectOf(stateDirOf(q)))
		name := q.SessionID
		if uuid.Validate(name) == nil { // Claude Code's own ids are no names
			name = cmp.Or(q.TmuxSession, name)
		}
		q.SessionName = cmp.Or(q.SessionName, name)
		return nil
	})
}

// chatFor is the space of a question that names none: where its project's webhook posts, or, where another program posts, the one
// that is configured; "" while that cannot be told, and where its thread is in another space.
func (p *Poller) chatFor(ctx context.Context, s *served, thread string) (chat, space string) {
	way := p.gateway(ctx, cmp.Or(s.q.ProjectDir, p.projectOf(stateDirOf(s.q))), s.Trusted)
	switch {
	case way.hook != nil:
		chat, space = way.hook.Chat(), way.hook.Space
	case way.cfg.WebhookURL == "" && way.cfg.WebhookCommand == "" && way.cfg.SpaceID != "":
		host := "chat.googleapis.com"
		if u, err := url.Parse(way.cfg.APIEndpoint); err == nil {
			host = cmp.Or(u.Host, host)
		}
		chat, space = host+"/"+way.cfg.SpaceID, way.cfg.SpaceID
	}
	if thread != "" && !strings.HasPrefix(thread, space+"/") {
		return "", ""
	}
	return chat, space
}

// projectOf is the project that a state folder belongs to: PROJECT/.claude/state, else this process's own.
func (p *Poller) projectOf(stateDir string) string {
	if project, ok := strings.CutSuffix(stateDir, "/.claude/state"); ok && project != "" {
		return project
	}
	dir := state.ProjectDir(p.Env)
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}
