package migrate

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// harnessFiles are a harness as its design describes one, small.
var harnessFiles = map[string]string{
	".claude/skills/s3-communicator/SKILL.md":    "# s3-communicator\n\nSendMessage(recipient=\"s3-communicator\", content=\"stays\")\n",
	".claude/skills/s3-communicator/relay.sh":    "#!/bin/sh\n",
	".claude/agents/s3-communicator.md":          "---\nname: s3-communicator\n---\n",
	".claude/hooks/gate/communicator_checker.py": "def check(names):\n    return \"s3-communicator\" in names\n",
	".claude/hooks/gate/gate.py":                 "from communicator_checker import check\n",
	".claude/settings.json":                      "{\"permissions\": {\"allow\": [\"Skill(s3-communicator)\"]}}\n",
	".claude/output-styles/system3.md":           outputStyle,
	".claude/skills/s3-heartbeat/SKILL.md":       "1. Report: `SendMessage(to=\"s3-communicator\", message=\"[HEARTBEAT] ok\")`\n2. Skill(\"s3-communicator\")\n",
	".claude/skills/s3-heartbeat/notes.md":       "A good communicator.\nSee .claude/skills/_archived/s3-communicator.\n",
}

// outputStyle has what a real one had: words about the relay under several names, and
// sums that count it.
const outputStyle = `# System 3

Spawn ALL three persistent agents, with 3+ active agents at any time:

### 1. Spawn s3-communicator (GChat relay)

Task(name="s3-communicator", prompt="s3-heartbeat tells you")

| # | Agent | Role |
|---|---|---|
| 1 | s3-communicator | relay |
| 2 | s3-heartbeat | scans |

SendMessage(
    type="message",
    recipient="s3-communicator",
    content="TASK_COMPLETION",
)
The S3 Communicator is a friend.
`

func makeHarness(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "harness")
	for p, text := range files {
		writeFile(t, dir, p, text)
	}
	return dir
}

func writeFile(t *testing.T, dir, p, text string) {
	t.Helper()
	kit.WriteFile(t, filepath.Join(dir, p), text, 0o644)
}

// readTree is a folder as it is, without .git: for each path its mode, and its bytes or
// where its link leads.
func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == ".git" {
			return fs.SkipDir
		}
		info, err := d.Info()
		name, _ := filepath.Rel(dir, p)
		tree[name] = info.Mode().String()
		if info.Mode().IsRegular() {
			b, _ := os.ReadFile(p)
			tree[name] += "\n" + string(b)
		} else if to, err := os.Readlink(p); err == nil {
			tree[name] += " to " + to
		}
		return err
	})
	kit.NoError(t, err)
	return tree
}

func migrate(t *testing.T, dir string, apply bool) string {
	t.Helper()
	var out strings.Builder
	kit.NoError(t, Run(&out, dir, apply))
	return out.String()
}

func compareTrees(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s:\n%q\nwant\n%q", what, got, want)
	}
}

// The command shows its plan, carries it out, and finds nothing to do the second time.
func TestMigrate_ShowsThenMoves(t *testing.T) {
	dir := makeHarness(t, harnessFiles)
	before := readTree(t, dir)
	plan := migrate(t, dir, false)
	kit.Containsf(t, plan, "would move .claude/skills/s3-communicator to ", "the plan")
	kit.Containsf(t, plan, "Nothing was written", "the plan")
	compareTrees(t, "after showing", readTree(t, dir), before)

	output := migrate(t, dir, true)
	after, want := readTree(t, dir), maps.Clone(before)
	for _, m := range []struct{ from, to string }{
		{".claude/skills/s3-communicator", ".claude/skills/_archived/s3-communicator"},
		{".claude/agents/s3-communicator.md", ".claude/skills/_archived/s3-communicator-agent.md"},
	} {
		for p, is := range before {
			if rest, ok := strings.CutPrefix(p, m.from); ok {
				delete(want, p)
				want[m.to+rest] = is
			}
		}
	}
	want[".claude/skills/_archived"] = after[".claude/skills/_archived"]
	compareTrees(t, "after", after, want)
	for _, wanted := range []string{
		".claude/hooks/gate/gate.py:1: have the stop gate run `gchat-hooks hook " +
			"gchat-stop-gate` instead\n",
		".claude/settings.json:1: remove it: nothing is started or awaited\n",
		".claude/output-styles/system3.md:3: count one agent fewer\n",
		".claude/output-styles/system3.md:5: remove it: nothing is started or awaited\n",
		".claude/output-styles/system3.md:7: remove it: nothing is started or awaited\n",
		".claude/output-styles/system3.md:11: remove the row\n",
		".claude/output-styles/system3.md:16: replace the message with Bash(\"gchat-send " +
			"--type plain 'TEXT'\")\n",
		".claude/output-styles/system3.md:19: check it: no agent relays messages\n",
		".claude/skills/s3-heartbeat/SKILL.md:1: replace the message with ",
		".claude/skills/s3-heartbeat/SKILL.md:2: remove it",
		".claude/skills/s3-heartbeat/notes.md:1: check it",
		"Add this to the output style:\n\n" + styleText,
	} {
		kit.Contains(t, output, wanted)
	}
	kit.Containsf(t, migrate(t, dir, true), "Nothing to move.\n", "a second time")
	compareTrees(t, "after a second time", readTree(t, dir), after)
}

// Files that cannot be read are listed. The other files are handled.
func TestMigrate_ListsTheUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	dir := makeHarness(t, harnessFiles)
	writeFile(t, dir, "data/x", "")
	writeFile(t, dir, "a.md", "s3-communicator")
	kit.NoError(t, errors.Join(os.Chmod(filepath.Join(dir, "data"), 0),
		os.Chmod(filepath.Join(dir, "a.md"), 0)))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "data"), 0o700) })
	out := migrate(t, dir, true)
	for _, listed := range []string{
		"data: is not searched", "a.md: is not searched", "notes.md:1: check it",
	} {
		kit.Contains(t, out, listed)
	}
}

func TestMigrate_RefusesOtherFolders(t *testing.T) {
	dir := makeHarness(t, harnessFiles)
	linked := t.TempDir()
	kit.NoError(t, os.Symlink(filepath.Join(dir, ".claude"), filepath.Join(linked, ".claude")))
	for _, dir := range []string{
		linked, dir + "/.claude", dir + "/none", dir + "/.claude/settings.json",
	} {
		var hinted *state.UserError
		if err := Run(io.Discard, dir, true); !errors.As(err, &hinted) {
			t.Fatalf("%s: %v", dir, err)
		}
		kit.Containsf(t, hinted.Hint, "the folder that holds .claude", "%s: the hint", dir)
	}
}

// No file in a harness leads out of it, blocks the command or controls the terminal.
func TestMigrate_HostileHarness(t *testing.T) {
	const message = "SendMessage(to=\"s3-communicator\", message=\"hi\")\n"
	outside := makeHarness(t, map[string]string{"style.md": message, "kept/a": ""})
	dir := makeHarness(t, map[string]string{
		".claude/commands/binary.md":  "\x00" + message,
		".claude/commands/latin1.md":  "\xe9" + message,
		".claude/commands/large.md":   message + strings.Repeat("x", 1<<20),
		".claude/commands/\x1b[2J.md": "\x1b]0;x\a s3-communicator\n",
		".claude/state/log.md":        message, "sub/CLAUDE.md": message, "sub/.git": "",
		".claude/skills/s3-communicator/SKILL.md":           message,
		".claude/agents/s3-communicator.md":                 message,
		".claude/skills/_archived/s3-communicator-agent.md": "older",
	})
	for from, to := range map[string]string{
		".claude/output-styles": outside, "CLAUDE.md": outside + "/style.md",
		".claude/commands/loop.md":                 "loop.md",
		".claude/skills/_archived/s3-communicator": outside + "/kept",
	} {
		kit.NoError(t, os.Symlink(to, filepath.Join(dir, from)))
	}
	kit.NoError(t, syscall.Mkfifo(filepath.Join(dir, ".claude/commands/fifo.md"), 0o644))
	before, want := readTree(t, outside), readTree(t, dir)
	out := migrate(t, dir, true)
	compareTrees(t, "inside", readTree(t, dir), want)
	compareTrees(t, "outside", readTree(t, outside), before)
	for _, look := range []string{
		"binary.md:1: ", "latin1.md:1: ", "large.md: is not searched", "\uFFFD[2J.md:1: ",
		".claude/output-styles: is a link",
		"skills/s3-communicator: is not moved", "agents/s3-communicator.md: is not moved",
	} {
		kit.Contains(t, out, look)
	}
	if strings.Contains(out, "sub/") || strings.Contains(out, "\x1b") {
		t.Errorf("listed: %q", out)
	}
}
