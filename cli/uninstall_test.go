package cli

import (
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// The pid in a heartbeat may be another program's: in an old one, which a killed poller
// or a restart of the machine left, and in that of another machine, or another container,
// with the same HOME.
func TestUninstall_EndsNoOtherProgram(t *testing.T) {
	for name, tt := range map[string]struct {
		beat  time.Time
		where string
	}{
		"an old one":        {time.Now().Add(-72 * time.Hour), state.PIDScope()},
		"another machine's": {time.Now(), "0a1b2c3d"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			other := exec.Command("sleep", "30")
			kit.NoError(t, other.Start())
			ended := make(chan error, 1)
			go func() { ended <- other.Wait() }()
			defer other.Process.Kill()
			beat, _ := json.Marshal(state.Heartbeat{
				PID: other.Process.Pid, BeatAt: tt.beat, PIDScope: tt.where,
			})
			h.writeFile(".local/state/gchat-hooks/pollers/"+state.Environment(h.getenv)+".json",
				string(beat))
			endPollers(h.getenv)
			select {
			case err := <-ended:
				t.Errorf("another program was ended: %v", err)
			case <-time.After(500 * time.Millisecond):
			}
		})
	}
}

// Hooks in a project that nothing was asked in go with a purge as well: they would start
// a program that is gone.
func TestUninstall_PurgesAFreshProject(t *testing.T) {
	h := newProjectHome(t)
	h.mustRun("install", "--project")
	h.mustRun("install", "--local")
	h.wantFiles(true, "project/.claude/settings.json", "project/.claude/settings.local.json")
	h.env = h.env[:len(h.env)-1]
	h.mustRun("uninstall", "--purge", "--yes")
	h.wantFiles(false, "project/.claude/settings.json", "project/.claude/settings.local.json")
}

// So do those of a $CLAUDE_CONFIG_DIR that a session ran with.
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
