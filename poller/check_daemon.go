package poller

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"gchat-hooks/poller/service"
	"gchat-hooks/state"
)

// checkDaemon looks whether the daemon runs where one is needed, and whether it polls.
func (l *look) checkDaemon(context.Context) []state.Finding {
	own := state.ProjectState(l.Env)
	if !state.DaemonRuns(own, l.user()) {
		mend, last := "gchat-hooks poller install", ""
		if l.serviceThere() {
			mend = "gchat-hooks poller install starts it; why it ended: gchat-hooks logs"
		}
		if line, code := service.Health(l.Env, l.now()); code == service.Stale {
			last = "; gchat-hooks health says: " + l.plain(line)
		}
		switch toType := l.toType(); {
		case Types(l.cfg):
			return failed("no daemon runs, but ask_mode is inject"+last, "answers are not typed", mend)
		case toType > 0:
			return failed(fmt.Sprintf("no daemon runs, and open questions whose answers it has to type: %d%s", toType, last),
				"a reply in Chat does not answer them", mend)
		case l.serviceThere():
			return warned("the daemon's service is installed, and no daemon runs",
				"answers are not typed; hooks do the rest of its work", mend)
		}
		return state.Fine("none runs: hooks do its work, except typing into tmux")
	}
	line, code := service.Health(l.Env, l.now())
	if code != service.Healthy {
		return warned(line, "replies may not be read",
			"gchat-hooks logs; then gchat-hooks poller install, which starts it anew")
	}
	pid := state.DaemonPID(own)
	if pid == 0 {
		pid = state.DaemonPID(l.user())
	}
	// Linux says so; elsewhere there is no such link.
	link, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if program, deleted := strings.CutSuffix(link, " (deleted)"); deleted {
		mend := fmt.Sprintf("kill %d, and start it again as it was started", pid)
		if l.serviceThere() {
			mend = "gchat-hooks poller install"
		}
		return warned(fmt.Sprintf("the daemon (pid %d) runs a program that was replaced or removed since: %s", pid, program),
			"it does what the older version did", mend)
	}
	return state.Fine(fmt.Sprintf("pid %d; %s", pid, line))
}

// toType counts the open questions of ours that only a daemon can answer, and none does, whatever the configuration says by
// now.
func (l *look) toType() (n int) {
	for _, q := range l.Unanswered() {
		if q.Mode == state.Inject && !Gone(q) && !l.daemonWaits(q) {
			n++
		}
	}
	return n
}

// Types says whether a configuration has answers typed for any session.
func Types(cfg *state.Config) bool {
	byRule := func(r state.Rule) bool { return r.AskMode == state.Inject }
	return cfg.AskMode == state.Inject || slices.ContainsFunc(cfg.Rules, byRule)
}

func (l *look) serviceThere() bool {
	_, ok := service.New(l.Env, "", io.Discard).Installed()
	return ok
}

// checkInbox says what keeps replies from being read, and whether a process reads just now.
func (l *look) checkInbox(ctx context.Context) (fs []state.Finding) {
	for _, in := range state.TroubledInboxes(l.user()) {
		since := in.Trouble.Since.Local().Format(time.DateTime)
		f := state.Finding{
			Level: state.LevelWarn,
			What:  fmt.Sprintf("replies of %s are not read since %s: %s", in.Chat, since, l.plain(in.Trouble.Why)),
			Means: "what you reply there is not used yet; it is tried again",
			Mend:  "see chat.read and chat.credentials; an open question tries it again at once",
		}
		if in.Trouble.Refused {
			f.Level, f.Means = state.LevelFail, "what you reply there is not used until that is mended"
		}
		fs = append(fs, f)
	}
	if len(fs) > 0 {
		return fs
	}
	hook, err := l.webhookOf(ctx)
	if err != nil {
		return state.Skipped("without a webhook there is no space to read")
	}
	if state.HasLeader(l.user(), hook.Chat()) {
		return state.Fine("a process of this machine reads the space for all questions")
	}
	return state.Fine("nobody reads the space now: no question is open")
}
