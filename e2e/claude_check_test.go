package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gchat-hooks/cli/claudecheck"
	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// checkSlots limits how many checks run: each of them starts several sessions. Most of a
// check's time is waiting, so it takes no session's slot besides.
var checkSlots = make(chan struct{}, 2)

// newCheck is the check of a Claude Code that the doctor runs, with more time.
func newCheck(t *testing.T, claude string) claudecheck.Check {
	t.Helper()
	requireIsolation(t)
	checkSlots <- struct{}{}
	t.Cleanup(func() { <-checkSlots })
	return claudecheck.Check{
		Program: builtProgram(t), GuardArgs: []string{"claude-check", "guard"},
		FormServerArgs: []string{"claude-check", "form-server"},
		Claude:         claude, Timeout: 4 * time.Minute, Patience: patience,
	}
}

// Every contract holds with both versions.
func TestClaudeCheck_AllHolds(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		check := newCheck(t, c.Argv[0])
		report, err := check.Run(context.Background())
		kit.NoError(t, err)
		kit.Equalf(t, report.Version, c.Version, "version")
		kit.True(t, len(report.Findings) > 20, "%d contracts", len(report.Findings))
		for _, f := range report.Findings {
			kit.Equalf(t, f.Verdict, claudecheck.Holds, "%s: %s", f.ID, f.Seen)
		}
	})
}

// A check that is killed leaves no process and no file, and a check touches nothing of
// the person's.
func TestClaudeCheck_LeavesNothing(t *testing.T) {
	eachClaude(t, bothVersions[:1], func(t *testing.T, c claude) {
		takeSessionSlot(t)
		temp, err := os.MkdirTemp("", "k-") // short: a socket's path is limited
		kit.NoError(t, err)
		home := filepath.Join(temp, "person")
		kit.NoError(t, os.MkdirAll(filepath.Join(home, ".claude"), 0o700))
		canary := filepath.Join(home, ".claude", "settings.json")
		kit.WriteFile(t, canary, `{"hooks":{"SessionStart":[{"hooks":[{"type":"command",`+
			`"command":"touch `+home+`/ran"}]}]}}`, 0o600)
		cmd := bound.Command(t, builtProgram(t), "doctor", "--claude", "--claude-binary", c.Argv[0])
		cmd.Env = []string{
			"HOME=" + home, "TMPDIR=" + temp, "PATH=" + os.Getenv("PATH"),
			runVariable + "=" + os.Getenv(runVariable),
		}
		kit.NoError(t, cmd.Start())
		inCheck := func() (n int) {
			homes, _ := filepath.Glob(filepath.Join(temp, "gc-*", "*", "home"))
			for _, home := range homes {
				for _, p := range markedProcesses("HOME=" + home) {
					n++
					p.Close()
				}
			}
			return n
		}
		bound.Until(t, "a session's processes", func() bool { return inCheck() > 2 })
		homes, _ := filepath.Glob(filepath.Join(temp, "gc-*", "*", "home"))
		kit.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		bound.Until(t, "nothing is left of the check", func() bool {
			left, _ := filepath.Glob(filepath.Join(temp, "gc-*"))
			return len(left) == 0
		})
		for _, home := range homes {
			kit.Equalf(t, len(markedProcesses("HOME="+home)), 0, "processes with %s", home)
		}
		kit.Equalf(t, fileExists(filepath.Join(home, "ran")), false, "the person's hook ran")
		var files []string
		kit.NoError(t, filepath.WalkDir(home, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				files = append(files, path)
			}
			return err
		}))
		kit.Equalf(t, files, []string{canary}, "the person's files")
		kit.NoError(t, os.RemoveAll(temp))
	})
}
