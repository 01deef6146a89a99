package migrate

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const mentionsRelay = "* Restart s3-communicator.\n* Stay.\n"

func lookAt(p *Plan, name string) string {
	for _, l := range p.Look {
		if l.Path == name {
			return l.Why
		}
	}
	return ""
}

func TestNotHarness(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	put(t, dir, "file", "")
	inside := makeHarness(t, nil)
	linked := t.TempDir()
	if err := os.Symlink(filepath.Join(inside, ".claude"), filepath.Join(linked, ".claude")); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ dir, hint string }{
		"no .claude":   {dir, "it has no .claude folder"},
		"a file":       {file, "takes a folder"},
		".claude":      {filepath.Join(inside, ".claude"), "give the folder above: " + inside},
		".claude link": {linked, "symbolic link"},
		"nothing":      {filepath.Join(dir, "none"), "the folder that holds .claude"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Find(tt.dir, day)
			var problem *Problem
			if !errors.As(err, &problem) || !strings.Contains(problem.Hint(), tt.hint) {
				t.Errorf("Find: %v, %+v; want a hint with %q", err, problem, tt.hint)
			}
			if name != "nothing" && !errors.Is(err, ErrNotHarness) {
				t.Errorf("Find: %v, want ErrNotHarness", err)
			}
			if _, err := Revert(tt.dir); err == nil {
				t.Error("Revert says nothing")
			}
		})
	}
	if p := find(t, makeHarness(t, map[string]string{"CLAUDE.md": "no relay\n"})); len(p.Changes)+len(p.Look)+len(p.Notes) > 0 {
		t.Errorf("a harness without a relay: %s", p.Summary())
	}
}

// Links that lead out are neither read nor written, whether they are files, folders, or on the way to where we write.
func TestLinksOut(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, "style.md", mentionsRelay)
	put(t, outside, "skill/SKILL.md", mentionsRelay)
	before := tree(t, outside)
	dir := makeHarness(t, map[string]string{"CLAUDE.md": mentionsRelay, ".claude/skills/x/SKILL.md": "x\n"})
	for from, to := range map[string]string{
		".claude/output-styles":          outside,
		"AGENTS.md":                      filepath.Join(outside, "style.md"),
		".claude/skills/s3-heartbeat":    "../../../" + filepath.Base(outside) + "/skill",
		".claude/skills/s3-communicator": filepath.Join(outside, "skill"),
		".claude/gone.md":                "nowhere",
		"INSIDE.md":                      "CLAUDE.md",
	} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	own := tree(t, dir)
	p := find(t, dir)
	if len(p.Changes) != 1 || p.Changes[0].Path != "CLAUDE.md" {
		t.Errorf("changes:\n%s", p.Summary())
	}
	for _, name := range []string{".claude/output-styles", "AGENTS.md", ".claude/skills/s3-heartbeat", skillDir, ".claude/gone.md"} {
		if lookAt(p, name) == "" {
			t.Errorf("%s is not listed", name)
		}
	}
	if lookAt(p, "INSIDE.md") != "" {
		t.Error("a link within the folder is listed: its file is looked at by itself")
	}
	apply(t, p)
	if _, err := Revert(dir); err != nil {
		t.Fatal(err)
	}
	sameTree(t, "inside", tree(t, dir), own)
	sameTree(t, "outside", tree(t, outside), before)

	// The folder for the record leads out: nothing is applied.
	if err := os.Symlink(outside, filepath.Join(dir, ".claude/state")); err != nil {
		t.Fatal(err)
	}
	own = tree(t, dir)
	var problem *Problem
	if _, err := Find(dir, day); !errors.As(err, &problem) || !strings.Contains(problem.Hint(), recordsDir) {
		t.Errorf("Find: %v, want a hint", err)
	}
	if _, err := p.Apply(); err == nil {
		t.Error("the record went out of the folder")
	}
	sameTree(t, "inside", tree(t, dir), own)
	sameTree(t, "outside", tree(t, outside), before)
}

// Files that must not or cannot be changed are listed and stay.
func TestClosedFiles(t *testing.T) {
	big := strings.Repeat("words ", longestText/6) + "\ns3-commun" // the name stands across two pieces of the search
	big = big[len(big)-(1<<20)-5:] + "icator\n" + strings.Repeat("more\n", longestText/5)
	dir := makeHarness(t, map[string]string{
		"binary.md":     "s3-communicator\x00",
		"latin1.md":     "s3-communicator \xe9\n",
		"read-only.md":  mentionsRelay,
		"log.md":        strings.Repeat("s3-communicator\n", mostMentions+1),
		"big.md":        big,
		"big-without":   strings.Repeat("words\n", longestText/3),
		"sub/CLAUDE.md": mentionsRelay,
		".claude/hooks/gate/communicator_checker.py": "def check(names):\n    return 's3-communicator' in names\n",
		".claude/hooks/gate/gate.py":                 "from .communicator_checker import check\n",
	})
	chmod(t, filepath.Join(dir, "read-only.md"), 0o444)
	chmod(t, filepath.Join(dir, ".claude/hooks/gate/gate.py"), 0o444)
	if err := os.Mkdir(filepath.Join(dir, "sub/.git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.md"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := find(t, dir)
	for name, why := range map[string]string{
		"binary.md": "is no text", "latin1.md": "is not UTF-8", "read-only.md": "is read-only", "log.md": "is no instruction", "big.md": "is larger than 1 MB",
		"big-without": "", "fifo.md": "", "sub": "a repository of its own",
		".claude/hooks/gate/communicator_checker.py": "keeps its name: .claude/hooks/gate/gate.py uses it, is read-only",
	} {
		if got := lookAt(p, name); why == "" && got != "" || !strings.Contains(got, why) {
			t.Errorf("%s is listed as %q, want %q", name, got, why)
		}
	}
	if len(p.Changes) != 1 || p.Changes[0].Path != ".claude/hooks/gate/communicator_checker.py" || p.Changes[0].To != "" {
		t.Errorf("changes:\n%s", p.Summary())
	}
}

// Names and words of the harness do not steer the terminal that the plan is shown on.
func TestControlCharacters(t *testing.T) {
	dir := makeHarness(t, map[string]string{
		"CLAUDE.md":      "* Restart s3-communicator.\n* \x1b[2J\u202estay.\r\n",
		"a\x1b[31m.md":   mentionsRelay + "Why s3-communicator \x1b]0;x\x07 was.\n",
		".claude/x\n.md": "Why s3-communicator?\n",
	})
	p := find(t, dir)
	for _, s := range []string{p.Diff(), p.Summary()} {
		if strings.ContainsAny(s, "\x1b\x07\u202e") {
			t.Errorf("control characters in %q", s)
		}
	}
}

// A record that somebody forged cannot lead out of the folder, and one that is broken is told.
func TestForgedRecord(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, "victim", "theirs\n")
	before := tree(t, outside)
	away := "../" + filepath.Base(outside) + "/victim"
	for name, words := range map[string]string{
		"out":     `{"version":1,"phase":"applied","made_folders":["../` + filepath.Base(outside) + `"],"steps":[{"do":"write","path":"` + away + `","before":"x","after":"` + sum([]byte("theirs\n")) + `","bytes":1},{"do":"move","path":"` + away + `","to":"x"}]}`,
		"no JSON": `{`,
		"newer":   `{"version":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := makeHarness(t, map[string]string{recordsDir + "/1/record.json": words, recordsDir + "/1/before/1": "x"})
			out, err := Revert(dir)
			if err == nil && len(out.Refused) == 0 {
				t.Error("Revert says nothing")
			}
			sameTree(t, "outside", tree(t, outside), before)
		})
	}
}

// Bytes of a record that are not those that were written are not given back for them.
func TestDamagedRecord(t *testing.T) {
	dir := smallHarness(t)
	out := apply(t, find(t, dir))
	entries, err := os.ReadDir(filepath.Join(dir, out.Record, "before"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		put(t, dir, filepath.Join(out.Record, "before", e.Name()), "damaged")
	}
	if _, err := Revert(dir); err == nil {
		t.Error("Revert gave damaged bytes back")
	}
}

// A harness that a person may not write to is left as it is.
func TestNotWritable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write anywhere")
	}
	dir := smallHarness(t)
	chmod(t, filepath.Join(dir, ".claude"), 0o555)
	before := tree(t, dir)
	if _, err := find(t, dir).Apply(); err == nil {
		t.Error("Apply says nothing")
	}
	chmod(t, filepath.Join(dir, ".claude"), 0o755)
	delete(before, ".claude")
	got := tree(t, dir)
	delete(got, ".claude")
	sameTree(t, "after Apply", got, before)
}

func TestSkipped(t *testing.T) {
	dir := makeHarness(t, map[string]string{
		"node_modules/x/README.md": mentionsRelay, ".git/COMMIT": mentionsRelay, ".claude/state/notes.md": mentionsRelay,
		".claude/skills/_archived/old/SKILL.md": mentionsRelay, ".claude/worktrees/a/CLAUDE.md": mentionsRelay, ".claude/gchat-hooks.json": `{"stop_gate": {"agents": ["s3-communicator"]}}`,
	})
	if p := find(t, dir); len(p.Changes)+len(p.Look) > 0 {
		t.Errorf("looked where nothing is to be changed:\n%s", p.Summary())
	}
	// The archive's name is taken: the skill stays, and its path is not touched.
	put(t, dir, skillDir+"/SKILL.md", "x\n")
	put(t, dir, archived+"/SKILL.md", "x\n")
	p := find(t, dir)
	if slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Folder }) || lookAt(p, skillDir) == "" {
		t.Errorf("the archived skill would be overwritten:\n%s", p.Summary())
	}
}
