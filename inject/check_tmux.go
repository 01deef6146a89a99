package inject

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"gchat-hooks/state"
)

// Checks are the checks of tmux. types says that answers are typed into it for some sessions; the others need none.
func Checks(env state.Getenv, types bool) []state.Check {
	return []state.Check{
		{ID: "tmux.program", Run: func(ctx context.Context) []state.Finding { return checkProgram(ctx, types) }},
		{ID: "tmux.server", Run: func(ctx context.Context) []state.Finding { return checkServer(ctx, env) }},
	}
}

var tmuxVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^tmux (next-)?(\d+)\.(\d+)`) })

// checkProgram looks for tmux. The typist was tried from 3.3 on.
func checkProgram(ctx context.Context, types bool) []state.Finding {
	const mend = "install tmux 3.3 or newer (apt-get install tmux, brew install tmux)"
	found := func(level state.Level, what, means string) []state.Finding {
		return []state.Finding{{Level: level, What: what, Means: means, Mend: mend}}
	}
	tmux, err := program()
	switch {
	case err != nil && types:
		return found(state.LevelFail, "there is no tmux, but ask_mode is inject", "answers cannot be typed")
	case err != nil:
		return state.Skipped("there is no tmux; only ask_mode inject and menu-driver need one")
	}
	cmd := exec.CommandContext(ctx, tmux, "-V")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	said := strings.TrimSpace(string(out))
	m := tmuxVersion().FindStringSubmatch(said)
	if err != nil || m == nil {
		return found(state.LevelWarn, "tmux does not tell its version", "answers may not be typed")
	}
	if m[2] < "3" && len(m[2]) == 1 || m[2] == "3" && len(m[3]) == 1 && m[3] < "3" {
		return found(state.LevelWarn, said+" is older than what was tried", "answers may not be typed")
	}
	return state.Fine(said)
}

// checkServer asks the tmux server that this process is in, else the person's default one, for its sessions.
func checkServer(ctx context.Context, env state.Getenv) []state.Finding {
	if _, err := program(); err != nil {
		return state.Skipped("there is no tmux")
	}
	server := DefaultServer(env)
	if t := env("TMUX"); t != "" {
		server = ServerOf(t)
	}
	panes, err := server.Panes(ctx)
	switch {
	case errors.Is(err, ErrNoServer):
		return state.Skipped("no tmux server runs")
	case err != nil:
		return []state.Finding{{
			Level: state.LevelWarn, What: "the tmux server does not answer",
			Means: "sessions have no name of it, and nothing is typed",
			Mend:  "tmux ls; a server that was stopped goes on with kill -CONT",
		}}
	}
	return state.Fine(fmt.Sprintf("the tmux server answers; panes: %d", len(panes)))
}
