package poller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
