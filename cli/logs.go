package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func (p Program) logsCommand() *cli.Command {
	return &cli.Command{
		Name:  "logs",
		Usage: "print the log's last lines",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "lines", Value: 50, Usage: "how `MANY` lines"},
			&cli.BoolFlag{Name: "follow", Usage: "go on with what is written from now on"},
			&cli.StringFlag{Name: "level", Usage: "only lines of `LEVEL` and above: debug, info, warn, error"},
			&cli.StringFlag{Name: "session", Usage: "only lines about the session `NAME` and its questions"},
			&cli.BoolFlag{Name: "json", Usage: "the lines as they stand, JSON each"},
		},
		Action: func(c *cli.Context) error {
			return logs{
				env: os.Getenv, out: p.out, lines: c.Int("lines"), follow: c.Bool("follow"), level: c.String("level"), session: c.String("session"), asJSON: c.Bool("json"),
			}.run(c.Context)
		},
	}
}

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
		return usage(fmt.Errorf("--lines takes a number from 1 on"), help)
	}
	if l.level != "" && !slices.Contains(poller.LogLevels(), l.level) {
		return usage(fmt.Errorf("--level takes one of %s", strings.Join(poller.LogLevels(), ", ")), help)
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
