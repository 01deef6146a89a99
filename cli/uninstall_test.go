package cli

import (
	"os/exec"
	"testing"
	"time"

	"gchat-hooks/state"
)

// The pid in an old heartbeat, which a killed poller or a restart of the machine left, may be another program's by now.
func TestAnOldHeartbeatEndsNoProgram(t *testing.T) {
	dir := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": dir}[name] }
	other := exec.Command("sleep", "30")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- other.Wait() }()
	defer other.Process.Kill()
	if err := state.Beat(env, state.Heartbeat{PID: other.Process.Pid, Beat: time.Now().Add(-72 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	endPollers(env)
	select {
	case err := <-ended:
		t.Errorf("another program was ended: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
}
