package e2e

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/state"
)

// After kill -9 of everything, as a machine's restart does it, one command is enough: the thread is told that the session is gone,
// and a reply there is answered. The command comes from a shell that has not all that Claude Code's had in its environment.
func TestAfterARestartTheThreadIsTold(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := connect(t, c, config{Script: []turn{{ask(deploy)}, thanks}}, all...)
		b.Prompt("go ahead")
		q := b.await("[AskUserQuestion]")
		b.WaitScreen("Rolling deployment")
		mark := sessionVar + "=" + b.mark
		bound.Until(t, "nothing of it is left", func() bool {
			left := marked(mark)
			for _, p := range left {
				p.Signal(syscall.SIGKILL)
			}
			for _, p := range left { // one that is just ending still has its locks
				p.Exited(bound.Patience)
				p.Close()
			}
			return len(left) == 0
		})
		cmd := bound.Command(t, built(t), "status")
		cmd.Env = slices.Concat(b.env, []string{
			"HOME=" + b.Home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), mark, runVar + "=" + os.Getenv(runVar),
		})
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("status: %v\n%s", err, out)
		}
		closed := b.await("[Cancelled]", "Claude Code has ended.")
		if closed.Thread.Name != q.Thread.Name {
			t.Errorf("told in %s, asked in %s", closed.Thread.Name, q.Thread.Name)
		}
		b.reply(q, "2")
		b.await("[Not used]")
		if is := b.questions()[0]; is.Status != state.Cancelled || is.ResolvedBy != "claude_gone" {
			t.Errorf("%s by %s", is.Status, is.ResolvedBy)
		}
	})
}
