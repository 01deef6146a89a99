package migrate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func refusedPaths(out *Outcome) string {
	var all []string
	for _, l := range out.Refused {
		all = append(all, l.Path)
	}
	return strings.Join(all, " ")
}

func contents(t *testing.T, dir, p string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, p))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What a person edited after the migration is left alone, the rest comes back; its bytes from before stay to be had, and a
// second Revert takes them once the edit is gone.
func TestRevertEdited(t *testing.T) {
	dir := smallHarness(t)
	before := tree(t, dir)
	apply(t, find(t, dir))
	migrated := contents(t, dir, "CLAUDE.md")
	put(t, dir, "CLAUDE.md", "mine now\n")
	put(t, dir, archived+"/SKILL.md", "mine too\n")
	out, err := Revert(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := refusedPaths(out); got != "CLAUDE.md" {
		t.Errorf("refused %q, want CLAUDE.md", got)
	}
	if got := contents(t, dir, "CLAUDE.md"); got != "mine now\n" {
		t.Errorf("an edited file was overwritten: %q", got)
	}
	if got := contents(t, dir, skillDir+"/SKILL.md"); got != "mine too\n" {
		t.Errorf("an edit in the archive was lost: %q", got)
	}
	if _, err := os.Lstat(filepath.Join(dir, skillHome)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the empty archive that was made stays: %v", err)
	}
	if words := strings.Join(out.Done, "\n"); !strings.Contains(words, "SKILL.md was edited") {
		t.Errorf("nothing says that the archived file was edited:\n%s", words)
	}
	// The bytes from before are where the refusal says.
	_, at, _ := strings.Cut(out.Refused[0].Why, "the bytes from before are ")
	if got := contents(t, dir, at); got != "* Restart s3-communicator.\n* Stay.\n" {
		t.Errorf("%q holds %q", at, got)
	}
	if p := find(t, dir); p.Resumes {
		t.Error("a refused record is taken for an unfinished migration")
	}
	put(t, dir, "CLAUDE.md", migrated)
	put(t, dir, skillDir+"/SKILL.md", "# s3-communicator\n")
	if out, err := Revert(dir); err != nil || len(out.Refused) > 0 {
		t.Fatalf("second Revert: %v, refused %v", err, out.Refused)
	}
	sameTree(t, "after the second Revert", tree(t, dir), before)
	if _, err := Revert(dir); !errors.Is(err, ErrNothingToRevert) {
		t.Errorf("third Revert: %v", err)
	}
}

// An archive that was there before stays, empty or not, when Revert refuses a file.
func TestRevertKeepsArchive(t *testing.T) {
	dir := smallHarness(t)
	if err := os.Mkdir(filepath.Join(dir, skillHome), 0o755); err != nil {
		t.Fatal(err)
	}
	apply(t, find(t, dir))
	put(t, dir, "CLAUDE.md", "mine now\n")
	if out, err := Revert(dir); err != nil || refusedPaths(out) != "CLAUDE.md" {
		t.Fatalf("Revert: %v, refused %q", err, refusedPaths(out))
	}
	if _, err := os.Lstat(filepath.Join(dir, skillHome)); err != nil {
		t.Error(err)
	}
}

// A deleted file is a person's decision as well, and so is a skill that is there again.
func TestRevertDeleted(t *testing.T) {
	dir := smallHarness(t)
	apply(t, find(t, dir))
	if err := os.Remove(filepath.Join(dir, "CLAUDE.md")); err != nil {
		t.Fatal(err)
	}
	put(t, dir, skillDir+"/SKILL.md", "a new one\n")
	out, err := Revert(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := refusedPaths(out); got != archived+" CLAUDE.md" {
		t.Errorf("refused %q", got)
	}
	if got := contents(t, dir, skillDir+"/SKILL.md"); got != "a new one\n" {
		t.Errorf("the new skill was overwritten: %q", got)
	}
}

// A skill that "git checkout ." brought back beside its archived copy is there once after Revert, where the two are the same.
func TestRevertBesideTheSameSkill(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(dir string)
		refused string
	}{
		"the same":        {func(string) {}, ""},
		"another":         {func(dir string) { put(t, dir, skillDir+"/SKILL.md", "mine\n") }, archived},
		"more archived":   {func(dir string) { put(t, dir, archived+"/notes.md", "mine\n") }, archived},
		"a link archived": {func(dir string) { os.Symlink("SKILL.md", filepath.Join(dir, archived, "link")) }, archived},
		"a link to it": {func(dir string) {
			os.RemoveAll(filepath.Join(dir, skillDir))
			os.Symlink("_archived/s3-communicator", filepath.Join(dir, skillDir))
		}, archived},
	} {
		dir := smallHarness(t)
		before := tree(t, dir)
		apply(t, find(t, dir))
		if err := os.CopyFS(filepath.Join(dir, skillDir), os.DirFS(filepath.Join(dir, archived))); err != nil {
			t.Fatal(err)
		}
		tt.change(dir)
		out, err := Revert(dir)
		if err != nil || refusedPaths(out) != tt.refused {
			t.Fatalf("%s: Revert: %v, refused %q", name, err, refusedPaths(out))
		}
		if tt.refused == "" {
			sameTree(t, name, tree(t, dir), before)
		} else if contents(t, dir, archived+"/SKILL.md") != "# s3-communicator\n" {
			t.Errorf("%s: the archived copy is gone", name)
		}
	}
}

// A plan that is older than the files is not applied, not even in part.
func TestStalePlan(t *testing.T) {
	for name, change := range map[string]func(dir string){
		"edited":        func(dir string) { put(t, dir, "CLAUDE.md", "* Restart s3-communicator.\n* Mine.\n") },
		"deleted":       func(dir string) { os.Remove(filepath.Join(dir, "CLAUDE.md")) },
		"in the way":    func(dir string) { put(t, dir, ".claude/hooks/gate/persistent_agent_checker.py", "x = 1\n") },
		"archive there": func(dir string) { put(t, dir, archived+"/SKILL.md", "old\n") },
		"a link now": func(dir string) {
			os.Rename(filepath.Join(dir, "CLAUDE.md"), filepath.Join(dir, "AGENTS.md"))
			os.Symlink("AGENTS.md", filepath.Join(dir, "CLAUDE.md"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := smallHarness(t)
			p := find(t, dir)
			change(dir)
			before := tree(t, dir)
			_, err := p.Apply()
			var problem *Problem
			if !errors.As(err, &problem) || problem.Hint() == "" {
				t.Errorf("Apply: %v, want an error with a hint", err)
			}
			sameTree(t, "after the refusal", tree(t, dir), before)
		})
	}
}

// Between a kill and its continuation a person edits: that edit stays, and is told.
func TestEditedBetween(t *testing.T) {
	dir := smallHarness(t)
	p := find(t, dir)
	_, err := p.apply(func(what string) error {
		if what == "rename .CLAUDE.md"+tempSuffix {
			return errKilled
		}
		return nil
	})
	if !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	put(t, dir, "CLAUDE.md", "mine\n")
	p = find(t, dir)
	if !p.Resumes || len(p.Look) != 1 || p.Look[0].Path != "CLAUDE.md" {
		t.Errorf("the plan is Resumes %v, Look %v", p.Resumes, p.Look)
	}
	out := apply(t, p)
	if got := refusedPaths(out); got != "CLAUDE.md" || contents(t, dir, "CLAUDE.md") != "mine\n" {
		t.Errorf("refused %q, CLAUDE.md is %q", got, contents(t, dir, "CLAUDE.md"))
	}
	if find(t, dir).Resumes {
		t.Error("a finished migration is called unfinished")
	}
}

// Two at a time: the second is told to wait.
func TestBusy(t *testing.T) {
	dir := smallHarness(t)
	p := find(t, dir)
	_, err := p.apply(func(string) error {
		if _, err := Revert(dir); !errors.Is(err, errBusy) {
			t.Errorf("Revert during Apply: %v", err)
		}
		return errKilled
	})
	if !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
}

// The checker's old name goes only when its new one is written: a person who has put something else there keeps both.
func TestEditedNewName(t *testing.T) {
	dir := smallHarness(t)
	p := find(t, dir)
	_, err := p.apply(func(what string) error {
		if what == "rename .claude/hooks/gate/.persistent_agent_checker.py"+tempSuffix {
			return errKilled
		}
		return nil
	})
	if !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	put(t, dir, ".claude/hooks/gate/persistent_agent_checker.py", "x = 1\n")
	out := apply(t, find(t, dir))
	if len(out.Refused) != 2 || !strings.Contains(contents(t, dir, ".claude/hooks/gate/communicator_checker.py"), "def check") {
		t.Errorf("refused %v", out.Refused)
	}
}

// Permissions that changed between the plan and Apply are kept, and come back.
func TestChangedMode(t *testing.T) {
	dir := smallHarness(t)
	p := find(t, dir)
	chmod(t, filepath.Join(dir, "CLAUDE.md"), 0o600)
	before := tree(t, dir)
	apply(t, p)
	if info, err := os.Stat(filepath.Join(dir, "CLAUDE.md")); err != nil || info.Mode() != 0o600 {
		t.Errorf("CLAUDE.md is %v, %v", info.Mode(), err)
	}
	if _, err := Revert(dir); err != nil {
		t.Fatal(err)
	}
	sameTree(t, "after Revert", tree(t, dir), before)
}
