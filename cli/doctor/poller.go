package doctor

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"gchat-hooks/poller"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
)

// This file is all that the doctor knows of the poller and of the files that it keeps.

// waitsLong is from when on it is odd that a message still waits to be sent: Chat was tried several times by then.
const waitsLong = 10 * time.Minute

var (
	hint      = poller.VerifyHint          // what a person can do about an error of Chat's
	named     = poller.Named               // whether an allowlist names a person
	roundTrip = (*poller.Poller).RoundTrip // posts to the space, reads that back, and waits for a reply
)

// daemonRuns looks whether the daemon runs where one is needed, whether it polls, and whether it has what it types with.
func (e *exam) daemonRuns(_ context.Context, r *result) {
	if _, err := exec.LookPath("tmux"); err != nil && e.asks(state.Inject) {
		r.fail("there is no tmux, but ask_mode is inject").Mend = "install tmux 3.3 or newer (apt-get install tmux, brew install tmux)"
	}
	_, installed := service.New(e.Env, e.Self, io.Discard).Installed()
	line, health := service.Health(e.Env, time.Now())
	if !state.DaemonRuns(state.ProjectState(e.Env), state.UserState(e.Env)) {
		switch {
		case e.asks(state.Inject):
			r.fail("no daemon runs, but ask_mode is inject")
		case installed:
			r.warn("the daemon's service is installed, and no daemon runs")
		}
		r.ok("none runs: hooks do its work, except typing into tmux")
		return
	}
	if health != service.Healthy {
		r.warn("%s", line)
	}
	r.ok("%s", line)
}

// daemonPID finds what a daemon that was killed left behind. Locks need no such look: they are the kernel's, and end with
// their holder.
func (e *exam) daemonPID(_ context.Context, r *result) {
	for _, dir := range e.stateFolders() {
		path := filepath.Join(dir, "gchat-poller.pid")
		if _, err := os.Stat(path); err != nil || state.DaemonRuns(dir) {
			continue
		}
		r.warn("%s names pid %d, and no daemon runs for that folder", path, state.DaemonPID(dir)).fix = func() (string, error) {
			if state.DaemonRuns(dir) {
				return "nothing: a daemon runs by now", nil
			}
			return "removed " + path, os.Remove(path)
		}
	}
	r.ok("no daemon left its pid file behind")
}

// daemonInbox says what keeps replies from being read.
func (e *exam) daemonInbox(_ context.Context, r *result) {
	for _, in := range state.TroubledInboxes(state.UserState(e.Env)) {
		since := in.Trouble.Since.Local().Format(time.DateTime)
		f := r.warn("replies of %s are not read since %s: %s", in.Chat, since, in.Trouble.Why)
		if in.Trouble.Refused {
			f.Level = Fail
		}
	}
	r.ok("no space is in trouble")
}

// outboxWaiting looks at what is to be sent, at what stops it, and at what Chat refused.
func (e *exam) outboxWaiting(_ context.Context, r *result) {
	box := state.OutboxIn(state.UserState(e.Env))
	for _, p := range box.Pauses() {
		r.fail("nothing is sent to %s since %s: %s", p.Chat, p.Since.Local().Format(time.DateTime), p.Why)
	}
	waiting, _ := box.Waiting()
	late, why := 0, ""
	for _, m := range waiting {
		held := m.Tries == 0 && time.Now().Before(m.NotBefore) // for a digest, or by quiet hours
		if !held && time.Since(m.CreatedAt) > waitsLong {
			late, why = late+1, m.LastError
		}
	}
	if late > 0 {
		r.warn("messages that wait to be sent for more than 10 minutes: %d %s", late, why)
	}
	if dead := box.Dead(); len(dead) > 0 {
		r.warn("messages that were refused for good: %d, the last one: %s", len(dead), dead[len(dead)-1].LastError).Mend =
			"gchat-hooks flush --dead; what is refused again goes with gchat-hooks flush --forget-dead"
	}
	r.ok("messages to be sent: %d", len(waiting))
}

// roundTrip posts to the space, reads that back, and waits for a person's reply. When it is interrupted, it still tells the
// thread that it is over.
func (e *exam) roundTrip(ctx context.Context) (found []*Finding) {
	ctx, cancel := context.WithTimeout(ctx, liveBound+e.Wait)
	defer cancel()
	p, tell := &poller.Poller{Env: e.Env, Log: e.log}, func(s string) { e.Tell(e.log.Clean(s)) }
	levels := map[poller.VerifyStatus]Level{
		poller.VerifyPass: OK, poller.VerifySkipped: Skip, poller.VerifyCut: Warn, poller.VerifyFail: Fail,
	}
	for _, leg := range roundTrip(p, ctx, e.project, e.Wait, tell) {
		found = append(found, &Finding{ID: live + "." + leg.Name, Level: levels[leg.Status], What: leg.What, Mend: leg.Hint})
	}
	return found
}
