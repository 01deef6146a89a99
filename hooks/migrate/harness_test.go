package migrate

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/harness.diff, harness.look and migrated anew; then read what git shows")

var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// tree is a folder as it is: for each path its permissions, and its bytes or where its link leads.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		switch {
		case d.IsDir():
			all[name] = info.Mode().String()
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			all[name] = "link to " + to
		case info.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			all[name] = info.Mode().String() + "\n" + string(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sameTree(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[p]; !ok {
			t.Errorf("%s: %s is missing", what, p)
		} else if g != want[p] {
			t.Errorf("%s: %s is\n%s\nwant\n%s", what, p, g, want[p])
		}
	}
	for _, p := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[p]; !ok {
			t.Errorf("%s: %s should not be there", what, p)
		}
	}
}

// withoutRecord leaves our own record out of a tree, and the folder that was made for it.
func withoutRecord(all map[string]string) map[string]string {
	maps.DeleteFunc(all, func(p, _ string) bool { return p == ".claude/state" || strings.HasPrefix(p, recordsDir) })
	return all
}

// harnessCopy copies the made-up harness. git keeps no read bits but the owner's, so the permissions are set here.
func harnessCopy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/harness")); err != nil {
		t.Fatal(err)
	}
	for name := range tree(t, dir) {
		mode := fs.FileMode(0o644)
		if info, _ := os.Stat(filepath.Join(dir, name)); info.IsDir() || strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		chmod(t, filepath.Join(dir, name), mode)
	}
	chmod(t, filepath.Join(dir, ".claude/output-styles/system3-meta-orchestrator.md"), 0o640)
	return dir
}

func chmod(t *testing.T, p string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(p, mode); err != nil {
		t.Fatal(err)
	}
}

// harness makes a harness folder of these files.
func makeHarness(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".claude"), 0o755); err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(p, []byte(words), 0o644); err != nil {
		t.Fatal(err)
	}
}

func find(t *testing.T, dir string) *Plan {
	t.Helper()
	p, err := Find(dir, day)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func apply(t *testing.T, p *Plan) *Outcome {
	t.Helper()
	out, err := p.Apply()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what it was; -update writes it anew. Now:\n%s", name, got)
	}
}
