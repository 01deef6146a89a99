package migrate

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The whole way on a harness as the design describes one: diff, list, result, once more, and back.
func TestMigration(t *testing.T) {
	dir := harnessCopy(t)
	before := tree(t, dir)
	p := find(t, dir)
	sameTree(t, "after Find", tree(t, dir), before)
	golden(t, "testdata/harness.diff", p.Diff())
	golden(t, "testdata/harness.look", p.Summary())

	out := apply(t, p)
	if len(out.Refused) > 0 {
		t.Errorf("Apply refused %v", out.Refused)
	}
	after := withoutRecord(tree(t, dir))
	if *update {
		if err := os.RemoveAll("testdata/migrated"); err != nil {
			t.Fatal(err)
		}
		for name, words := range after {
			if _, words, ok := strings.Cut(words, "\n"); ok {
				put(t, "testdata/migrated", name, words)
			}
		}
	}
	for name, words := range after {
		_, got, isFile := strings.Cut(words, "\n")
		if !isFile {
			continue
		}
		if want, err := os.ReadFile(filepath.Join("testdata/migrated", name)); err != nil || string(want) != got {
			t.Errorf("%s is not as in testdata/migrated (%v):\n%s", name, err, got)
		}
	}
	for name := range tree(t, "testdata/migrated") {
		if _, ok := after[name]; !ok {
			t.Errorf("%s of testdata/migrated did not come into being", name)
		}
	}
	for name, was := range before {
		now, ok := after[name]
		if ok && strings.SplitN(now, "\n", 2)[0] != strings.SplitN(was, "\n", 2)[0] {
			t.Errorf("%s had the permissions %.10s, now %.10s", name, was, now)
		}
	}

	again := find(t, dir)
	if len(again.Changes) > 0 {
		t.Errorf("a second look finds more to change:\n%s", again.Diff())
	}
	whole := tree(t, dir)
	if out := apply(t, again); len(out.Done)+len(out.Refused) > 0 {
		t.Errorf("a second Apply did %v, refused %v", out.Done, out.Refused)
	}
	sameTree(t, "after a second Apply", tree(t, dir), whole)

	if out, err := Revert(dir); err != nil || len(out.Refused) > 0 {
		t.Errorf("Revert: %v, refused %v", err, out.Refused)
	}
	sameTree(t, "after Revert", tree(t, dir), before)
}

// What a person adds after the migration is found by the next one, and one Revert takes both back.
func TestTwoMigrations(t *testing.T) {
	dir := harnessCopy(t)
	apply(t, find(t, dir))
	put(t, dir, ".claude/commands/late.md", "Say `SendMessage(recipient=\"s3-communicator\", content=\"late\")`.\n")
	p := find(t, dir)
	if len(p.Changes) != 1 {
		t.Fatalf("the second plan has %d changes, want the new file's only:\n%s", len(p.Changes), p.Diff())
	}
	apply(t, p)
	if _, err := Revert(dir); err != nil {
		t.Fatal(err)
	}
	before := harnessCopy(t)
	put(t, before, ".claude/commands/late.md", "Say `SendMessage(recipient=\"s3-communicator\", content=\"late\")`.\n")
	sameTree(t, "after Revert of both", tree(t, dir), tree(t, before))
}

// The diff is one that patch takes.
func TestDiffApplies(t *testing.T) {
	patch, err := exec.LookPath("patch")
	if err != nil {
		t.Skip("no patch here")
	}
	dir, other := harnessCopy(t), harnessCopy(t)
	p := find(t, dir)
	cmd := exec.Command(patch, "-p1", "-s", "--binary", "-d", other)
	cmd.Stdin = strings.NewReader(p.Diff())
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("patch: %v\n%s", err, b)
	}
	for _, c := range p.Changes {
		if c.Folder {
			continue
		}
		name := c.Path
		if c.To != "" {
			name = c.To
		}
		if got, _ := os.ReadFile(filepath.Join(other, name)); string(got) != string(c.after) {
			t.Errorf("patch makes of %s\n%s\nwant\n%s", name, got, c.after)
		}
	}
}

// Uncommitted changes are mentioned, and nothing else comes of them.
func TestDirty(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git here")
	}
	dir := harnessCopy(t)
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "a"}} {
		if b, err := exec.Command(git, append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, b)
		}
	}
	dirty := func() bool {
		return slices.ContainsFunc(find(t, dir).Notes, func(n string) bool { return strings.Contains(n, "Not committed in git: CLAUDE.md.") })
	}
	if dirty() {
		t.Error("a clean repository is called dirty")
	}
	put(t, dir, "CLAUDE.md", "* Restart s3-communicator.\n")
	put(t, dir, "docs/notes.md", "not ours\n")
	if !dirty() {
		t.Errorf("no note of the dirty CLAUDE.md: %q", find(t, dir).Notes)
	}
}
