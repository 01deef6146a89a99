package e2e

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/state"
)

// After kill -9 of everything, as a machine's restart does it, one command is enough: the
// thread is told that the session is gone, and a reply there is answered. The command
// comes from a shell that has not all that Claude Code's had in its environment.
func TestAfterARestartTheThreadIsTold(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startAsking(t, c, config{Script: []turn{{questionCall(deployQuestion)}, thanksTurn}}, questionEvents...)
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]")
		b.WaitScreen("Rolling deployment")
		mark := sessionVariable + "=" + b.processMark
		bound.Until(t, "nothing of it is left", func() bool {
			left := markedProcesses(mark)
			for _, p := range left {
				p.Signal(syscall.SIGKILL)
			}
			for _, p := range left { // one that is just ending still has its locks
				p.Exited(bound.Patience)
				p.Close()
			}
			return len(left) == 0
		})
		cmd := bound.Command(t, builtProgram(t), "status")
		cmd.Env = slices.Concat(b.spaceEnv, []string{
			"HOME=" + b.Home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), mark, runVariable + "=" + os.Getenv(runVariable),
		})
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("status: %v\n%s", err, out)
		}
		closed := b.awaitPost("[Cancelled]", "Claude Code has ended.")
		if closed.Thread.Name != q.Thread.Name {
			t.Errorf("told in %s, asked in %s", closed.Thread.Name, q.Thread.Name)
		}
		b.reply(q, "2")
		b.awaitPost("[Not used]")
		if is := b.loadQuestions()[0]; is.Status != state.Cancelled || is.ResolvedBy != "claude_gone" {
			t.Errorf("%s by %s", is.Status, is.ResolvedBy)
		}
	})
}
