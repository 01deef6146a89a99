package settings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/state"
)

// at is a settings file with these bytes, nil for none, in a home of its own.
func at(t testing.TB, content []byte) File {
	t.Helper()
	home := t.TempDir()
	f, err := At(func(name string) string { return map[string]string{"HOME": home}[name] }, User)
	if err != nil {
		t.Fatal(err)
	}
	if content != nil {
		put(t, f.Path, content, 0o640)
	}
	return f
}

func put(t testing.TB, path string, content []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// beside are the names in a file's folder.
func beside(t testing.TB, f File) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(f.Path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func installed(t testing.TB, f File, entries []Entry) *Change {
	t.Helper()
	c, err := f.Install(context.Background(), entries, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func uninstalled(t testing.TB, f File) *Change {
	t.Helper()
	c, err := f.Uninstall(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Install, another install, uninstall; then the folder is as it was. There is one backup, of the file without our hooks.
func TestOnDisk(t *testing.T) {
	const content = "{\n  \"model\": \"opus\" // the best\n}\n"
	f := at(t, []byte(content))
	c := installed(t, f, newest(t, "answer"))
	if c.Backup != f.Backup() || c.Hooks != 7 || get(t, f.Backup()) != content {
		t.Fatalf("%d hooks, backup: %s", c.Hooks, c.Backup)
	}
	first := get(t, f.Path)
	if c := installed(t, f, newest(t, "answer")); !c.Nothing() || get(t, f.Path) != first {
		t.Error("the second install writes")
	}
	installed(t, f, newest(t, "system3", "wake"))
	if names := beside(t, f); !slices.Equal(names, []string{"settings.json", "settings.json.before-gchat-hooks"}) || get(t, f.Backup()) != content {
		t.Errorf("beside it: %q", names)
	}
	if c := uninstalled(t, f); c.Hooks != 22 || get(t, f.Path) != content {
		t.Errorf("uninstall of %d hooks leaves %q", c.Hooks, get(t, f.Path))
	}
	if c := uninstalled(t, f); !c.Nothing() || len(beside(t, f)) != 1 {
		t.Errorf("uninstall writes where nothing is ours: %q", beside(t, f))
	}

	// A person edits it between two installs: the backup has the edit then, and an uninstall gives that back.
	installed(t, f, newest(t, "answer"))
	put(t, f.Path, []byte(strings.Replace(get(t, f.Path), "opus", "sonnet", 1)), 0o640)
	installed(t, f, newest(t, "report"))
	if c := uninstalled(t, f); !strings.Contains(string(c.New), "\"sonnet\" // the best") || len(beside(t, f)) != 1 {
		t.Errorf("%s\n%q", c.New, beside(t, f))
	}
	// After an edit the backup stays: it has what the edit took out.
	installed(t, f, newest(t, "answer"))
	put(t, f.Path, []byte(strings.Replace(get(t, f.Path), "sonnet", "haiku", 1)), 0o640)
	if c := uninstalled(t, f); c.Backup == "" || !strings.Contains(get(t, f.Backup()), "sonnet") || !strings.Contains(get(t, f.Path), "haiku") {
		t.Errorf("%+v", c)
	}
}

func TestNoFile(t *testing.T) {
	f := at(t, nil)
	if c := uninstalled(t, f); c.New != nil || len(beside(t, f)) > 0 {
		t.Error("uninstall makes a file")
	}
	if c := installed(t, f, newest(t, "answer")); c.Old != nil || c.Backup != "" {
		t.Errorf("%+v", c)
	}
	if info, err := os.Stat(f.Path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	installed(t, f, newest(t, "report"))
	if c := uninstalled(t, f); c.New != nil || len(beside(t, f)) > 0 {
		t.Errorf("%q, left: %q", c.New, beside(t, f))
	}

	// What a person wrote into a file that install made stays.
	installed(t, f, newest(t, "answer"))
	put(t, f.Path, []byte(strings.Replace(get(t, f.Path), "{\n", "{\n  \"model\": \"opus\",\n", 1)), 0o600)
	uninstalled(t, f)
	if got := get(t, f.Path); got != "{\n  \"model\": \"opus\"\n}\n" {
		t.Errorf("%q", got)
	}
	// A backup of another time says nothing about a file that an install makes now.
	put(t, f.Backup(), []byte("{\"model\": \"old\"}"), 0o600)
	if err := os.Remove(f.Path); err != nil {
		t.Fatal(err)
	}
	installed(t, f, newest(t, "answer"))
	uninstalled(t, f)
	if names := beside(t, f); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
}

func TestDryRun(t *testing.T) {
	const content = "{\n  \"model\": \"opus\"\n}\n"
	f := at(t, []byte(content))
	c, err := f.Install(context.Background(), newest(t, "answer"), true)
	if err != nil || c.Nothing() || !strings.Contains(c.Diff(), "\n-  \"model\": \"opus\"\n+  \"model\": \"opus\",\n+  \"hooks\": {\n") {
		t.Errorf("%v\n%s", err, c.Diff())
	}
	if get(t, f.Path) != content || len(beside(t, f)) != 1 {
		t.Errorf("a dry run writes: %q", beside(t, f))
	}
	if _, err := os.Stat(filepath.Join(f.Env("HOME"), ".local")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a dry run leaves a lock")
	}
}

// A link stays a link, and the backup stands beside it; so do the modes of both.
func TestLinks(t *testing.T) {
	const content = "{\"a\":1}\n"
	f := at(t, nil)
	real := filepath.Join(f.Env("HOME"), "dotfiles", "claude.json")
	put(t, real, []byte(content), 0o644)
	if err := errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o755), os.Symlink("../dotfiles/claude.json", f.Path)); err != nil {
		t.Fatal(err)
	}
	installed(t, f, newest(t, "answer"))
	if got, _ := os.Readlink(f.Path); got != "../dotfiles/claude.json" || get(t, real) == content || get(t, f.Backup()) != content {
		t.Errorf("the link is %q", got)
	}
	for path, want := range map[string]os.FileMode{real: 0o644, f.Backup(): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v", path, info.Mode())
		}
	}
	uninstalled(t, f)
	if got, _ := os.Readlink(f.Path); got != "../dotfiles/claude.json" || get(t, real) != content {
		t.Errorf("%q, %q", got, get(t, real))
	}
	if err := os.Remove(real); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Install(context.Background(), newest(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "a link to a file that does not exist") {
		t.Error(err)
	}
}

func TestModeAndOwnerStay(t *testing.T) {
	for _, mode := range []os.FileMode{0o600, 0o644, 0o664, 0o200 | 0o444} {
		f := at(t, []byte("{}"))
		if err := os.Chmod(f.Path, mode); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(f.Path, 1234, 5678); err != nil {
				t.Fatal(err)
			}
		}
		was, _ := os.Stat(f.Path)
		installed(t, f, newest(t, "answer"))
		is, err := os.Stat(f.Path)
		if err != nil || is.Mode() != mode {
			t.Errorf("%v became %v (%v)", mode, is.Mode(), err)
		}
		a, b := was.Sys().(*syscall.Stat_t), is.Sys().(*syscall.Stat_t)
		if a.Uid != b.Uid || a.Gid != b.Gid {
			t.Errorf("owner %d:%d became %d:%d", a.Uid, a.Gid, b.Uid, b.Gid)
		}
	}
}

func TestNotWritten(t *testing.T) {
	t.Run("read-only", func(t *testing.T) {
		f := at(t, []byte("{}"))
		if err := os.Chmod(f.Path, 0o444); err != nil {
			t.Fatal(err)
		}
		if c, err := f.Install(context.Background(), newest(t, "answer"), true); err != nil || c.Refused == nil || c.Diff() == "" {
			t.Errorf("what would be done is not shown: %v %+v", err, c)
		}
		if _, err := f.Install(context.Background(), newest(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "is read-only") {
			t.Error(err)
		}
		if get(t, f.Path) != "{}" || len(beside(t, f)) != 1 {
			t.Errorf("%q", beside(t, f))
		}
	})
	t.Run("does not parse", func(t *testing.T) {
		f := at(t, []byte("{\n  \"a\": 1\n  \"b\": 2\n}\n"))
		_, err := f.Install(context.Background(), newest(t, "answer"), false)
		var bad *state.UserError
		if !errors.As(err, &bad) || bad.Hint == "" || !strings.HasPrefix(err.Error(), f.Path+" does not parse: line 3, column 3: ") {
			t.Error(err)
		}
		if _, err := f.Uninstall(context.Background(), false); !errors.As(err, &bad) {
			t.Errorf("uninstall: %v", err)
		}
		if len(beside(t, f)) != 1 {
			t.Errorf("%q", beside(t, f))
		}
	})
	t.Run("a folder", func(t *testing.T) {
		f := at(t, nil)
		if err := os.MkdirAll(f.Path, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Install(context.Background(), newest(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Error(err)
		}
	})
	t.Run("a pipe", func(t *testing.T) {
		f := at(t, nil)
		if err := errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o755), syscall.Mkfifo(f.Path, 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Install(context.Background(), newest(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Error(err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		f := at(t, bytes.Repeat([]byte(" "), maxFile+1))
		if _, err := f.Install(context.Background(), newest(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "more than 2 MB") {
			t.Error(err)
		}
	})
	t.Run("another install hangs", func(t *testing.T) {
		f := at(t, []byte("{}"))
		lock, err := state.TryLock(filepath.Join(state.UserState(f.Env), "settings.lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if _, err := f.Install(ctx, newest(t, "answer"), false); !errors.Is(err, context.DeadlineExceeded) || get(t, f.Path) != "{}" {
			t.Error(err)
		}
	})
}

// Installs at once, of several presets, while somebody who knows no lock of ours writes the file too: what that one wrote
// is there in the end, and so is one whole set of hooks.
func TestAtOnce(t *testing.T) {
	f := at(t, []byte("{\n  \"n\": 0\n}\n"))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 5 {
				if _, err := f.Install(context.Background(), newest(t, Presets()[(i+j)%4]), false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := []byte(get(t, f.Path))
	whole := false
	for _, preset := range Presets() {
		again, err := Install(got, nil, newest(t, preset))
		whole = whole || err == nil && bytes.Equal(again, got)
	}
	if !whole {
		t.Errorf("no whole set of hooks:\n%s", got)
	}
	uninstalled(t, f)
	if got := get(t, f.Path); got != "{\n  \"n\": 0\n}\n" {
		t.Errorf("%q", got)
	}
}

// Claude Code writes its settings itself, between our look at them and our writing.
func TestWrittenMeanwhile(t *testing.T) {
	f := at(t, []byte(`{"n":0}`))
	n := 0
	err := f.edit(context.Background(), func(old snapshot) ([]byte, error) {
		if n++; n <= 3 {
			put(t, f.Path, fmt.Appendf(nil, `{"n":%d}`, n), 0o640)
		}
		return insert(old.bytes, newest(t, "answer"))
	})
	if err != nil || n != 4 || !strings.HasPrefix(get(t, f.Path), `{"n":3,`) {
		t.Fatalf("%v, %d tries: %s", err, n, get(t, f.Path))
	}
	err = f.edit(context.Background(), func(old snapshot) ([]byte, error) {
		n++
		put(t, f.Path, fmt.Appendf(nil, `{"n":%d}`, n), 0o640)
		return insert(old.bytes, newest(t, "answer"))
	})
	if err == nil || !strings.Contains(err.Error(), "another program keeps writing it") || get(t, f.Path) != fmt.Sprintf(`{"n":%d}`, n) {
		t.Errorf("%v, %s", err, get(t, f.Path))
	}
	for _, name := range beside(t, f) {
		if strings.HasPrefix(name, ".") {
			t.Errorf("left: %s", name)
		}
	}
}

func TestPaths(t *testing.T) {
	env := map[string]string{"HOME": "/h", "CLAUDE_PROJECT_DIR": "/p"}
	for _, test := range []struct {
		scope  Scope
		config string
		want   string
		mode   os.FileMode
	}{
		{User, "", "/h/.claude/settings.json", 0o600},
		{User, "/c", "/c/settings.json", 0o600},
		{Project, "/c", "/p/.claude/settings.json", 0o644},
		{Local, "", "/p/.claude/settings.local.json", 0o600},
	} {
		env["CLAUDE_CONFIG_DIR"] = test.config
		f, err := At(func(name string) string { return env[name] }, test.scope)
		if err != nil || f.Path != test.want || f.Mode != test.mode {
			t.Errorf("%s: %+v, %v", test.scope, f, err)
		}
	}
	if _, err := At(func(string) string { return "" }, User); err == nil {
		t.Error("a home out of nowhere")
	}
}
