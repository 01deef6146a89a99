package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// The pid in a heartbeat may be another program's: in an old one, which a killed poller
// or a restart of the machine left, and in that of another machine, or another container,
// with the same HOME.
func TestAHeartbeatEndsNoOtherProgram(t *testing.T) {
	for name, tt := range map[string]struct {
		beat  time.Time
		where string
	}{
		"an old one":        {time.Now().Add(-72 * time.Hour), state.PIDScope()},
		"another machine's": {time.Now(), "0a1b2c3d"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			env := func(name string) string { return map[string]string{"HOME": dir}[name] }
			other := exec.Command("sleep", "30")
			kit.NoError(t, other.Start())
			ended := make(chan error, 1)
			go func() { ended <- other.Wait() }()
			defer other.Process.Kill()
			if err := state.WriteHeartbeat(env, state.Heartbeat{}); err != nil {
				// so that its folder is there
				t.Fatal(err)
			}
			beat, _ := json.Marshal(state.Heartbeat{PID: other.Process.Pid, BeatAt: tt.beat, PIDScope: tt.where})
			file := filepath.Join(state.UserStateDir(env), "pollers", state.Environment(env)+".json")
			kit.NoError(t, os.WriteFile(file, beat, 0o600))
			endPollers(env)
			select {
			case err := <-ended:
				t.Errorf("another program was ended: %v", err)
			case <-time.After(500 * time.Millisecond):
			}
		})
	}
}
