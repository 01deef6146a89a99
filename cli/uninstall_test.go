package cli

import (
	"os/exec"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A poller is ended by the pid in its heartbeat. The pid may be another program's: in an
// old heartbeat, which a killed poller or a restart of the machine left, and in that of
// another machine, or another container, with the same HOME.
func TestUninstall_EndsOnlyOurPollers(t *testing.T) {
	for name, tt := range map[string]struct {
		beat    time.Time
		where   string
		isEnded bool
	}{
		"a poller":          {time.Now(), state.PIDScope(), true},
		"an old one":        {time.Now().Add(-72 * time.Hour), state.PIDScope(), false},
		"another machine's": {time.Now(), "0a1b2c3d", false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			process := exec.Command("sleep", "30")
			kit.NoError(t, process.Start())
			ended := make(chan error, 1)
			go func() { ended <- process.Wait() }()
			defer process.Process.Kill()
			beat := kit.JSON(t, state.Heartbeat{
				PID: process.Process.Pid, BeatAt: tt.beat, PIDScope: tt.where,
			})
			h.writeFile(".local/state/gchat-hooks/pollers/"+state.Environment(h.getenv)+".json",
				string(beat))
			endPollers(h.getenv)
			isEnded := false
			select {
			case <-ended:
				isEnded = true
			case <-time.After(500 * time.Millisecond):
			}
			kit.Equalf(t, isEnded, tt.isEnded, "the process is ended")
		})
	}
}

// A purge also removes hooks in a project in which no question was asked. They would
// start a program that is gone.
func TestUninstall_PurgesAFreshProject(t *testing.T) {
	h := newProjectHome(t)
	h.mustRun("install", "--project")
	h.mustRun("install", "--local")
	h.wantFiles(true, "project/.claude/settings.json", "project/.claude/settings.local.json")
	h.env = h.env[:len(h.env)-1]
	h.mustRun("uninstall", "--purge", "--yes")
	h.wantFiles(false, "project/.claude/settings.json", "project/.claude/settings.local.json")
}

// A purge also removes the hooks in a $CLAUDE_CONFIG_DIR that a session ran with.
func TestUninstall_PurgesAnotherConfigFolder(t *testing.T) {
	h := newHome(t)
	h.mustExecute("env", "CLAUDE_CONFIG_DIR="+h.path("work"), h.program, "install")
	_, err := state.SessionsIn(state.UserStateDir(h.getenv)).Change("s",
		func(session *state.Session) {
			session.TranscriptPath = h.path("work/projects/p/s.jsonl")
		})
	kit.NoError(t, err)
	h.wantFiles(true, "work/settings.json")
	h.mustRun("uninstall", "--purge", "--yes")
	h.wantFiles(false, "work/settings.json")
}
