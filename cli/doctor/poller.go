package doctor

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"gchat-hooks/poller/service"
	"gchat-hooks/state"
)

// waitsLong is from when on it is odd that a message still waits to be sent: Chat was tried several times by then.
const waitsLong = 10 * time.Minute

// daemonLives is the daemon's heartbeat, where one runs.
func (e *exam) daemonLives() (h state.Heartbeat, runs bool) {
	for _, h := range state.Pollers(e.Env) {
		if h.Lives && h.Daemon {
			return h, true
		}
	}
	return h, false
}

// daemonRuns looks whether the daemon runs where its service is installed, whether it polls, and whether there is a tmux to
// type with.
func (e *exam) daemonRuns(_ context.Context, r *result) {
	if _, err := exec.LookPath("tmux"); err != nil && e.asks(state.Inject) {
		r.fail("there is no tmux, but ask_mode is inject").Mend = "install tmux 3.3 or newer"
	}
	_, installed := service.New(e.Env, e.Self, io.Discard).Installed()
	line, health := service.Health(e.Env, time.Now())
	h, runs := e.daemonLives()
	if service.SpaceDown(e.Env) {
		r.fail("the embedded space's service is installed, and no space runs").Mend = service.StartSpace
	}
	switch {
	case !runs && installed:
		r.warn("the daemon's service is installed, and no daemon runs")
	case !runs:
		r.ok("none runs, and none is needed: hooks start a poller")
	case h.Silent(time.Now()):
		r.warn("the daemon (pid %d) is stopped, or hangs: no sign of it since %s", h.PID, h.Beat.Local().Format(time.DateTime))
	case health != service.Healthy:
		r.warn("%s", line)
	default:
		r.ok("%s", line)
	}
}

// daemonPID finds what a daemon that was killed left behind. Locks need no such look: they are the kernel's, and end with
// their holder.
func (e *exam) daemonPID(_ context.Context, r *result) {
	for _, dir := range e.stateFolders() {
		pid, path := state.DaemonPID(dir), filepath.Join(dir, state.PIDFile)
		if h, runs := e.daemonLives(); pid == 0 || runs && h.PID == pid {
			continue
		}
		r.warn("%s names pid %d, and no daemon runs for that folder", path, pid).fix = func() (string, error) {
			return "removed " + path, os.Remove(path)
		}
	}
	r.ok("no daemon left its pid file behind")
}

// outboxWaiting looks at what is to be sent, and at what Chat refused.
func (e *exam) outboxWaiting(_ context.Context, r *result) {
	box := state.OutboxIn(state.UserState(e.Env))
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
	if dead := box.Aside(); len(dead) > 0 {
		r.warn("messages that were refused for good: %d, the last one: %s", len(dead), dead[len(dead)-1].SetAside).Mend =
			"gchat-hooks flush --dead; what is refused again goes with gchat-hooks flush --forget-dead"
	}
	r.ok("messages to be sent: %d", len(waiting))
}
