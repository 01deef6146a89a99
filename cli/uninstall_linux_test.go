package cli

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A purge asks, and takes anything but a yes for a no. While a daemon runs that a person
// started, it removes nothing.
func TestUninstall_PurgeAsks(t *testing.T) {
	s := newSetupHome(t)
	env := []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb"}
	dialog := s.runSetup("--send-only", "--service=false", "--no-hooks")
	dialog.answerPrompt("Paste its URL here", s.webhookURL)
	dialog.expect("Done.")
	dialog.waitExit()
	daemon := exec.Command(s.program, "poller")
	daemon.Env = env
	kit.NoError(t, daemon.Start())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	t.Cleanup(func() { _ = daemon.Process.Kill() })
	runs := func(h state.Heartbeat) bool { return h.IsAlive && h.IsDaemon }
	bound.Until(t, "the daemon runs", func() bool { return slices.ContainsFunc(state.ReadHeartbeats(getenvOf(env)), runs) })

	dialog = startInTerminal(t, env, s.program, "uninstall", "--purge", "--yes")
	dialog.expect(fmt.Sprintf(`the daemon runs \(pid %d on `, daemon.Process.Pid))
	kit.Equalf(t, dialog.waitExit(), 1, "beside a daemon: exit code")
	_ = daemon.Process.Signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
	for _, answer := range []string{"", "n"} {
		dialog = startInTerminal(t, env, s.program, "uninstall", "--purge")
		dialog.answerPrompt(`Remove all of it\? \[y/N\]`, answer)
		dialog.expect("nothing was removed")
		if dialog.waitExit(); s.readConfig() == "" {
			t.Fatalf("%q removed the configuration", answer)
		}
	}
	dialog = startInTerminal(t, env, s.program, "uninstall", "--purge")
	dialog.answerPrompt(`Remove all of it\?`, "yes")
	dialog.expect("gchat-hooks is removed")
	kit.Equalf(t, dialog.waitExit(), 0, "exit code")
	if left, _ := os.ReadDir(s.home); len(left) > 0 {
		t.Errorf("left in the home folder: %v", left)
	}
}

// install.sh asks, too, where there is somebody to ask.
func TestUninstall_ScriptAsks(t *testing.T) {
	n := newBareHome(t, "/usr/bin:/bin")
	before := n.listTree()
	n.mustRun("sh", installScript(t), "--binary", programPath(t))
	dialog := startInTerminal(t, append(n.env, "TERM=dumb"), "bash", installScript(t), "--uninstall")
	dialog.answerPrompt(`Remove all of it\? \[y/N\]`, "n")
	if dialog.waitExit(); n.listTree() == before {
		t.Error("a no removed all of it")
	}
	dialog = startInTerminal(t, append(n.env, "TERM=dumb"), "bash", installScript(t), "--uninstall")
	dialog.answerPrompt(`Remove all of it\? \[y/N\]`, "y")
	if code := dialog.waitExit(); code != 0 || n.listTree() != before {
		t.Errorf("exit code %d; the home folder is\n%s", code, n.listTree())
	}
}
