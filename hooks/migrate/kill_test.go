package migrate

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

var errKilled = errors.New("killed")

// killer lets n steps happen and none after them, clean-up neither, as kill -9 does.
func killer(n int) (step func(string) error, last *string) {
	last = new(string)
	return func(what string) error {
		if n--; n < 0 {
			if *last == "" {
				*last = what
			}
			return errKilled
		}
		return nil
	}, last
}

// An Apply that is killed before any of its steps can be taken back, byte for byte, and can be finished.
func TestKilledApply(t *testing.T) {
	want := smallHarness(t)
	apply(t, find(t, want))
	migrated := withoutRecord(tree(t, want))
	for n := 0; ; n++ {
		dir := smallHarness(t)
		before := tree(t, dir)
		step, last := killer(n)
		_, err := find(t, dir).apply(step)
		if err == nil {
			if n < 40 {
				t.Fatalf("Apply has only %d steps: the test looks at the wrong ones", n)
			}
			return
		}
		if !errors.Is(err, errKilled) {
			t.Fatalf("killed before step %d, %q: %v", n, *last, err)
		}
		what := fmt.Sprintf("killed before step %d, %q", n, *last)
		if _, err := Revert(dir); err != nil && !errors.Is(err, ErrNothingToRevert) {
			t.Fatalf("%s: Revert: %v", what, err)
		}
		sameTree(t, what+", reverted", tree(t, dir), before)

		dir = smallHarness(t)
		step, _ = killer(n)
		if _, err := find(t, dir).apply(step); !errors.Is(err, errKilled) {
			t.Fatalf("%s, once more: %v", what, err)
		}
		finish(t, what+", finished", dir, migrated)
		if out, err := Revert(dir); err != nil || len(out.Refused) > 0 {
			t.Fatalf("%s, finished: Revert: %v, refused %v", what, err, out.Refused)
		}
		sameTree(t, what+", finished, reverted", tree(t, dir), before)
		if t.Failed() {
			return
		}
	}
}

func finish(t *testing.T, what, dir string, want map[string]string) {
	t.Helper()
	p := find(t, dir)
	if out, err := p.Apply(); err != nil || len(out.Refused) > 0 {
		t.Fatalf("%s: Apply: %v, refused %v", what, err, out.Refused)
	}
	sameTree(t, what, withoutRecord(tree(t, dir)), want)
	if p := find(t, dir); len(p.Changes) > 0 || p.Resumes {
		t.Errorf("%s: more is left:\n%s", what, p.Diff())
	}
}

// A Revert that is killed before any of its steps can be finished, and can be gone back on.
func TestKilledRevert(t *testing.T) {
	want := smallHarness(t)
	before := tree(t, want)
	apply(t, find(t, want))
	migrated := withoutRecord(tree(t, want))
	for n := 0; ; n++ {
		dir := smallHarness(t)
		apply(t, find(t, dir))
		step, last := killer(n)
		_, err := revert(dir, step)
		if err == nil {
			if n < 15 {
				t.Fatalf("Revert has only %d steps: the test looks at the wrong ones", n)
			}
			return
		}
		what := fmt.Sprintf("Revert killed before step %d, %q", n, *last)
		if n%2 == 0 {
			finish(t, what+", applied", dir, migrated)
		}
		if _, err := Revert(dir); err != nil {
			t.Fatalf("%s: Revert: %v", what, err)
		}
		sameTree(t, what+", reverted", tree(t, dir), before)
		if t.Failed() {
			return
		}
	}
}

// A step that fails (the disk is full) leaves no half file, and says what to do.
func TestFailedStep(t *testing.T) {
	for n := 0; ; n++ {
		dir := smallHarness(t)
		before := tree(t, dir)
		left := n
		_, err := find(t, dir).apply(func(string) error {
			if left--; left == -1 {
				return syscall.ENOSPC
			}
			return nil
		})
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("step %d: %v", n, err)
		}
		for name := range tree(t, dir) {
			if len(name) > len(tempSuffix) && name[len(name)-len(tempSuffix):] == tempSuffix {
				t.Errorf("step %d fails and leaves %s", n, name)
			}
		}
		if _, err := Revert(dir); err != nil && !errors.Is(err, ErrNothingToRevert) {
			t.Fatalf("step %d: Revert: %v", n, err)
		}
		sameTree(t, fmt.Sprintf("step %d failed, reverted", n), tree(t, dir), before)
		if t.Failed() {
			return
		}
	}
}

// smallHarness has one file for each kind of step; a kill before each step is many runs.
func smallHarness(t *testing.T) string {
	return makeHarness(t, map[string]string{
		"CLAUDE.md": "* Restart s3-communicator.\n* Stay.\n",
		".claude/skills/s3-communicator/SKILL.md":    "# s3-communicator\n",
		".claude/hooks/gate/communicator_checker.py": "def check(names):\n    return 's3-communicator' in names\n",
		".claude/hooks/gate/gate.py":                 "from .communicator_checker import check\n",
	})
}
