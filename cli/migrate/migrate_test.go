package migrate

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/state"
)

// harnessFiles are a harness as its design describes one, small.
var harnessFiles = map[string]string{
	".claude/skills/s3-communicator/SKILL.md":     "# s3-communicator\n\nSendMessage(recipient=\"s3-communicator\", content=\"stays\")\n",
	".claude/skills/s3-communicator/relay.sh":     "#!/bin/sh\n",
	".claude/hooks/gate/communicator_checker.py":  "def check(names):\n    return \"s3-communicator\" in names\n",
	".claude/documentation/SYSTEM3_CHANGELOG.md":  "## 2026-01-30\n\n- SendMessage(recipient=\"s3-communicator\", content=\"x\")\n",
	".claude/settings.json":                       "{\"permissions\": {\"allow\": [\"Skill(s3-communicator)\"]}}\n",
	".claude/output-styles/system3.md":            styleBefore,
	".claude/skills/s3-heartbeat/SKILL.md":        "1. Report: `SendMessage(to=\"s3-communicator\", message=\"[HEARTBEAT] ok\")`\n",
	".claude/skills/s3-heartbeat/notes/readme.md": "nothing\n",
}

var styleBefore = "# System 3\n\nSpawn three persistent agents:\n\n" +
	"### 1. Spawn s3-communicator (GChat relay)\n\n```python\n# Spawn the relay\nTask(name=\"s3-communicator\", prompt=\"s3-heartbeat tells you\")\n```\n\n" +
	"### 2. Spawn s3-heartbeat\n\n```python\nTask(name=\"s3-heartbeat\", prompt=\"\"\"Scan.\n" +
	"    SendMessage(type=\"message\", recipient=\"s3-communicator\", content=\"HEARTBEAT: {n} items\")\n\"\"\")\n```\n\n" +
	"| # | Agent | Role |\n|---|---|---|\n| 1 | `s3-communicator` | relay |\n| 2 | s3-heartbeat | scans |\n\n" +
	"```python\nSendMessage(\n    type=\"message\",\n    recipient=\"s3-communicator\",\n    content=\"TASK_COMPLETION: It's \"\n            \"done\",\n    summary=\"x\",\n)\n```\n"

var styleAfter = "# System 3\n\nSpawn two persistent agents:\n\n" +
	"### 2. Spawn s3-heartbeat\n\n```python\nTask(name=\"s3-heartbeat\", prompt=\"\"\"Scan.\n" +
	"    Bash(\"gchat-send --type plain 'HEARTBEAT: {n} items'\")\n\"\"\")\n```\n\n" +
	"| # | Agent | Role |\n|---|---|---|\n| 2 | s3-heartbeat | scans |\n\n" +
	"```python\nBash(\"gchat-send --type plain 'TASK_COMPLETION: It'\\\\''s done'\")\n```\n\n" + styleText

func makeHarness(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "harness")
	for p, words := range files {
		put(t, dir, p, words)
	}
	return dir
}

func put(t *testing.T, dir, p, words string) {
	t.Helper()
	p = filepath.Join(dir, p)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(p, []byte(words), 0o644), os.Chmod(p, 0o644)); err != nil { // whatever the umask is
		t.Fatal(err)
	}
}

// commit makes a git tree of the harness, or commits what is new in it.
func commit(t *testing.T, dir string) {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "a"}} {
		if b, err := bound.Command(t, "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, b)
		}
	}
}

// tree is a folder as it is, without .git: for each path its mode, and its bytes or where its link leads.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == ".git" {
			return fs.SkipDir
		}
		info, err := d.Info()
		name, _ := filepath.Rel(dir, p)
		all[name] = info.Mode().String()
		if info.Mode().IsRegular() {
			b, _ := os.ReadFile(p)
			all[name] += "\n" + string(b)
		} else if to, err := os.Readlink(p); err == nil {
			all[name] += " to " + to
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func run(t *testing.T, o Options) (string, error) {
	t.Helper()
	var out strings.Builder
	err := Run(t.Context(), &out, o)
	return out.String(), err
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s:\n%q\nwant\n%q", what, got, want)
	}
}

// The whole way in a git tree: shown, done, done once more, and taken back with the sentence that the output says.
func TestMigration(t *testing.T) {
	dir := makeHarness(t, harnessFiles)
	if err := os.Chmod(filepath.Join(dir, ".claude/output-styles/system3.md"), 0o660); err != nil {
		t.Fatal(err)
	}
	commit(t, dir)
	before := tree(t, dir)
	shown, err := run(t, Options{Harness: dir})
	if err != nil || !strings.Contains(shown, "-| 1 | `s3-communicator` | relay |") || !strings.Contains(shown, "Nothing was written") {
		t.Errorf("the plan is %v\n%s", err, shown)
	}
	same(t, "after showing", tree(t, dir), before)

	done, err := run(t, Options{Harness: dir, Apply: true})
	if err != nil {
		t.Fatal(err)
	}
	after := tree(t, dir)
	for p, want := range map[string]string{
		".claude/output-styles/system3.md":                  "-rw-rw----\n" + styleAfter,
		".claude/skills/s3-heartbeat/SKILL.md":              "-rw-r--r--\n1. Report: `Bash(\"gchat-send --type plain '[HEARTBEAT] ok'\")`\n",
		".claude/hooks/gate/persistent_agent_checker.py":    "-rw-r--r--\n" + checkerText,
		".claude/skills/_archived/s3-communicator/SKILL.md": before[".claude/skills/s3-communicator/SKILL.md"],
		".claude/documentation/SYSTEM3_CHANGELOG.md":        before[".claude/documentation/SYSTEM3_CHANGELOG.md"],
		".claude/settings.json":                             before[".claude/settings.json"],
		".claude/skills/s3-communicator/SKILL.md":           "",
	} {
		if after[p] != want {
			t.Errorf("%s is\n%s\nwant\n%s", p, after[p], want)
		}
	}
	_, looks, _ := strings.Cut(done, "Look at these files yourself")
	for _, look := range []string{
		".claude/settings.json: 1\n", ".claude/documentation/SYSTEM3_CHANGELOG.md: 3\n",
		".claude/hooks/gate/communicator_checker.py: looks for the relay: let the stop gate call persistent_agent_checker.py in its place, 2\n",
	} {
		if !strings.Contains(looks, look) {
			t.Errorf("%q is not listed:%s", look, looks)
		}
	}
	again, err := run(t, Options{Harness: dir, Apply: true})
	if err != nil || !strings.HasPrefix(again, "Nothing to change.\n") {
		t.Errorf("a second time: %v\n%s", err, again)
	}
	same(t, "after a second time", tree(t, dir), after)

	_, back, _ := strings.Cut(done, "run `")
	back, in, _ := strings.Cut(back, "` in ")
	cmd := bound.Command(t, "sh", "-c", back)
	if cmd.Dir = dir; !strings.HasPrefix(in, dir+",") {
		t.Errorf("the way back is in %s", in)
	}
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v %s", back, err, b)
	}
	for p, was := range tree(t, dir) { // git keeps of a mode only who may execute
		if _, words, _ := strings.Cut(before[p], "\n"); !strings.HasSuffix(was, words) || before[p] == "" {
			t.Errorf("%s came back as %s, was %s", p, was, before[p])
		}
	}
}

// What is left fits on a screen, whatever the size of the harness: a line for each file, and a command that lists the others.
func TestListIsShort(t *testing.T) {
	files := map[string]string{"many.md": strings.Repeat("s3-communicator\n", 50)}
	for i := range 40 {
		files[fmt.Sprintf("notes/%d.md", i)] = "Ask s3-communicator.\n"
	}
	dir := makeHarness(t, files)
	put(t, dir, ".claude/settings.json", "{}")
	out, err := run(t, Options{Harness: dir})
	if err != nil || strings.Count(out, "\n") >= 30 || !strings.Contains(out, "many.md: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, …\n") {
		t.Errorf("%v\n%s", err, out)
	}
	_, command, _ := strings.Cut(out, "to list all:  ")
	listed, err := bound.Command(t, "sh", "-c", command).CombinedOutput()
	if err != nil || strings.Count(string(listed), "\n") != 90 {
		t.Errorf("%q: %v\n%s", command, err, listed)
	}
}

// Nothing is written where git could not give it back; --copy does without git, and the copy is the harness as it was.
func TestWayBack(t *testing.T) {
	for name, spoil := range map[string]func(dir string){
		"no git":         func(string) {},
		"uncommitted":    func(dir string) { commit(t, dir); put(t, dir, "notes.txt", "mine") },
		"ignored":        func(dir string) { put(t, dir, ".gitignore", ".claude\n"); commit(t, dir) },
		"ignored by all": func(dir string) { put(t, dir, "../.gitignore", "harness\n"); commit(t, filepath.Dir(dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := makeHarness(t, harnessFiles)
			t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(filepath.Dir(dir)))
			if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
				t.Fatal(err)
			}
			spoil(dir)
			before := tree(t, dir)
			_, err := run(t, Options{Harness: dir, Apply: true})
			if hinted, ok := err.(*state.UserError); !ok || !strings.Contains(hinted.Hint, "--copy") {
				t.Errorf("--apply: %v", err)
			}
			same(t, "after the refusal", tree(t, dir), before)
			out, err := run(t, Options{Harness: dir, Apply: true, Copy: true})
			to := dir + ".before-gchat-hooks"
			if err != nil || !strings.Contains(out, "To take it back, put "+to+" in the place of "+dir+".") {
				t.Fatalf("--copy: %v\n%s", err, out)
			}
			same(t, "the copy", tree(t, to), before)
			put(t, dir, ".claude/commands/late.md", "`SendMessage(to=\"s3-communicator\", message=\"late\")`\n")
			if _, err := run(t, Options{Harness: dir, Apply: true, Copy: true}); err == nil {
				t.Error("a second copy took the first one's place")
			}
		})
	}
}

func TestNoHarness(t *testing.T) {
	dir := makeHarness(t, harnessFiles)
	linked := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, ".claude"), filepath.Join(linked, ".claude")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{linked, filepath.Join(dir, ".claude"), filepath.Join(dir, "none"), filepath.Join(dir, ".claude/settings.json")} {
		_, err := run(t, Options{Harness: dir, Apply: true})
		if hinted, ok := err.(*state.UserError); !ok || !strings.Contains(hinted.Hint, "the folder that holds .claude") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// What a harness holds leads nothing out of it, blocks nothing, and does not steer the terminal.
func TestHostileHarness(t *testing.T) {
	const message = "SendMessage(to=\"s3-communicator\", message=\"hi\")\n"
	outside := makeHarness(t, map[string]string{"style.md": message})
	dir := makeHarness(t, map[string]string{
		".claude/commands/binary.md": "\x00" + message, ".claude/commands/latin1.md": "\xe9" + message,
		".claude/commands/large.md": message + strings.Repeat("x", 1<<20), ".claude/commands/\x1b[2J.md": "\x1b]0;x\a s3-communicator\n",
		".claude/state/log.md": message, "sub/CLAUDE.md": message, ".claude/skills/_archived/s3-communicator/SKILL.md": "older",
		".claude/skills/s3-communicator/SKILL.md": message, ".claude/commands/locked.md": message,
		".claude/commands/CLAUDE.md": message,
	})
	commit(t, filepath.Join(dir, "sub"))
	for from, to := range map[string]string{".claude/output-styles": outside, "CLAUDE.md": outside + "/style.md", ".claude/commands/loop.md": "loop.md"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, ".claude/commands/fifo.md"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, ".claude/commands/locked.md"), 0o444); err != nil {
		t.Fatal(err)
	}
	before, want := tree(t, outside), tree(t, dir)
	out, err := run(t, Options{Harness: dir, Apply: true, Copy: true})
	if err != nil {
		t.Fatal(err)
	}
	want[".claude/commands/CLAUDE.md"] = "-rw-r--r--\nBash(\"gchat-send --type plain 'hi'\")\n"
	same(t, "inside", tree(t, dir), want)
	same(t, "outside", tree(t, outside), before)
	for _, look := range []string{
		"binary.md: 1\n", "latin1.md: 1\n", "large.md: is not searched", "locked.md: 1\n", "\uFFFD[2J.md: 1\n",
		".claude/output-styles: is a link", "skills/s3-communicator: stays",
	} {
		if !strings.Contains(out, look) {
			t.Errorf("%q is not listed:\n%s", look, out)
		}
	}
}
