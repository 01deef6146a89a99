package cli

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A purge asks, and takes anything but yes for no. While a daemon runs that a person
// started, it removes nothing.
func TestUninstall_PurgeAsks(t *testing.T) {
	s := newSetupHome(t)
	dialog := s.runSetup("--send-only", "--service=false", "--no-hooks")
	dialog.answerPrompt("Paste its URL here", s.webhookURL)
	dialog.expect("Done.")
	dialog.wantExit(0)
	daemon := s.command(s.program, "poller")
	kit.NoError(t, daemon.Start())
	bound.Until(t, "the daemon runs", func() bool {
		return slices.ContainsFunc(state.ReadHeartbeats(s.getenv), func(h state.Heartbeat) bool {
			return h.IsAlive && h.IsDaemon
		})
	})
	running := fmt.Sprintf(`the daemon runs (pid %d on `, daemon.Process.Pid)
	s.wantRun(1, running, "uninstall", "--purge", "--yes")
	_ = daemon.Process.Signal(syscall.SIGTERM)
	kit.NoError(t, daemon.Wait())
	for _, answer := range []string{"", "n"} {
		dialog = s.startDialog(s.program, "uninstall", "--purge")
		dialog.answerPrompt(`Remove all of it\? \[y/N\]`, answer)
		dialog.expect("nothing was removed")
		dialog.wantExit(1)
		if s.readFile(configFile) == "" {
			t.Fatalf("%q removed the configuration", answer)
		}
	}
	dialog = s.startDialog(s.program, "uninstall", "--purge")
	dialog.answerPrompt(`Remove all of it\?`, "yes")
	dialog.expect("gchat-hooks is removed")
	dialog.wantExit(0)
	s.wantEmpty()
}

// On a terminal, install.sh --uninstall asks as well.
func TestUninstall_ScriptAsks(t *testing.T) {
	h := newInstallHome(t)
	before := h.listTree()
	for answer, code := range map[string]int{"n": 1, "y": 0} {
		h.install()
		dialog := h.startDialog("bash", installScript(t), "--uninstall")
		dialog.answerPrompt(`Remove all of it\? \[y/N\]`, answer)
		dialog.wantExit(code)
		kit.Equalf(t, h.listTree() == before, code == 0, "after %q, all is removed", answer)
	}
}
