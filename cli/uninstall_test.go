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
func TestUninstall_EndsNoOtherProgram(t *testing.T) {
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

// Hooks in a project that nothing was asked in go with a purge, too: they would start a
// program that is gone.
func TestUninstall_PurgesAFreshProject(t *testing.T) {
	n := newBareHome(t, "/usr/bin:/bin")
	n.writeFile("mine/", "")
	n.env = append(n.env, "CLAUDE_PROJECT_DIR="+filepath.Join(n.home, "mine"))
	n.mustRun(programPath(t), "install", "--project")
	n.mustRun(programPath(t), "install", "--local")
	n.env = n.env[:len(n.env)-1]
	n.mustRun(programPath(t), "uninstall", "--purge", "--yes")
	for _, name := range []string{"settings.json", "settings.local.json"} {
		if b, err := os.ReadFile(filepath.Join(n.home, "mine", ".claude", name)); err == nil {
			t.Errorf("%s is left:\n%s", name, b)
		}
	}
}

// So do those of a $CLAUDE_CONFIG_DIR that a session ran with.
func TestUninstall_PurgesAnotherConfigFolder(t *testing.T) {
	n := newBareHome(t, "/usr/bin:/bin")
	work := filepath.Join(n.home, "work")
	n.mustRun("env", "CLAUDE_CONFIG_DIR="+work, programPath(t), "install")
	env := func(name string) string { return map[string]string{"HOME": n.home}[name] }
	_, err := state.SessionsIn(state.UserStateDir(env)).Change("s", func(one *state.Session) {
		one.TranscriptPath = filepath.Join(work, "projects", "p", "s.jsonl")
	})
	kit.NoError(t, err)
	n.mustRun(programPath(t), "uninstall", "--purge", "--yes")
	if b, err := os.ReadFile(filepath.Join(work, "settings.json")); err == nil {
		t.Errorf("they are left:\n%s", b)
	}
}
