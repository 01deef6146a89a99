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

// runCheck runs the check of a Claude Code as the doctor does.
func runCheck(t *testing.T, claude string, only ...string) claudecheck.Report {
	t.Helper()
	requireIsolation(t)
	takeSessionSlot(t)
	check := claudecheck.Check{
		Program: builtProgram(t), GuardArgs: []string{"claude-check", "guard"},
		FormServerArgs: []string{"claude-check", "form-server"},
		Claude:         claude, Only: only, Timeout: 4 * time.Minute, Patience: patience,
	}
	report, err := check.Run(context.Background())
	kit.NoError(t, err)
	return report
}

// Every contract holds with both versions.
func TestClaudeCheck_AllHolds(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		report := runCheck(t, c.Argv[0])
		kit.Equalf(t, report.Version, c.Version, "version")
		kit.True(t, len(report.Findings) > 20, "%d contracts", len(report.Findings))
		for _, f := range report.Findings {
			kit.Equalf(t, f.Verdict, claudecheck.Holds, "%s: %s", f.ID, f.Seen)
		}
	})
}

// brokenClaude is a wrapper that changes the hooks of its HOME before it starts Claude
// Code: edit is a jq filter of settings.json.
func brokenClaude(t *testing.T, c claude, edit string) string {
	t.Helper()
	kit.NeedProgram(t, "jq")
	path := filepath.Join(t.TempDir(), "claude")
	writeScript(t, path, `f=$HOME/.claude/settings.json
if [ -f "$f" ]; then
	jq '`+edit+`' "$f" >"$f.new" && mv "$f.new" "$f"
fi
exec '`+c.Argv[0]+`' "$@"`)
	return path
}

// A Claude Code that no longer does what we rely on is found, and what it means is said.
func TestClaudeCheck_FindsWhatIsBroken(t *testing.T) {
	eachCase(t, bothVersions[:1], map[string]struct{ edit, contract, meaning string }{
		"calls no PermissionRequest": {
			`del(.hooks.PermissionRequest)`, "permission.allowed", "Permissions cannot be allowed from Chat",
		},
		"other members of an event": {
			`.hooks.PostToolBatch |= map(.hooks |= map(.command = ` +
				`"sed s/tool_calls/calls/ | " + .command + " " + ((.args // []) | join(" ")) | del(.args)))`,
			"events.members", "how a permission or a turn ended",
		},
	}, func(t *testing.T, c claude, test struct{ edit, contract, meaning string }) {
		report := runCheck(t, brokenClaude(t, c, test.edit), "question.answered", test.contract)
		for _, f := range report.Findings {
			if f.ID != test.contract {
				continue
			}
			kit.Equalf(t, f.Verdict, claudecheck.Broken, "%s: %s", f.ID, f.Seen)
			kit.Containsf(t, f.Meaning, test.meaning, "what it means")
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
		writeText(t, canary, `{"hooks":{"SessionStart":[{"hooks":[{"type":"command",`+
			`"command":"touch `+home+`/ran"}]}]}}`)
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
