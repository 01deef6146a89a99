package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// logs shows the log: what all jobs of this machine wrote.
type logs struct {
	env     state.Getenv
	out     io.Writer
	lines   int
	follow  bool
	level   string
	session string
	asJSON  bool
}

func (l logs) run(ctx context.Context) error {
	const help = "gchat-hooks logs --help"
	if l.lines < 1 {
		return usageError{fmt.Errorf("--lines takes a number from 1 on"), help}
	}
	if l.level != "" && !slices.Contains(poller.LogLevels(), l.level) {
		return usageError{fmt.Errorf("--level takes one of %s", strings.Join(poller.LogLevels(), ", ")), help}
	}
	o := poller.LogOptions{Lines: l.lines, Follow: l.follow, Level: l.level, JSON: l.asJSON, Colour: terminalOf(l.out, l.env).colour}
	if l.session != "" {
		o.About = l.names
	}
	return poller.ShowLog(ctx, l.env, l.out, o)
}

// names are what lines about the session call it, or its questions: some jobs know only the one, some only the other.
func (l logs) names() map[string]bool {
	names := map[string]bool{l.session: true}
	box := state.LedgersIn(state.UserState(l.env))
	running, _ := box.Running()
	ended, _ := box.Ended()
	for _, x := range append(running, ended...) {
		if x.SessionName == l.session || x.SessionID == l.session {
			names[x.SessionID] = true
			names[x.SessionName] = true
		}
	}
	p := &poller.Poller{Env: l.env, Log: state.NewLog(l.env, "logs")}
	for _, q := range p.AllQuestions() {
		if q.SessionName == l.session || q.SessionID == l.session || q.TmuxSession == l.session {
			for _, name := range []string{q.SessionID, q.SessionName, q.QuestionID} {
				names[name] = true
			}
		}
	}
	delete(names, "")
	return names
}
