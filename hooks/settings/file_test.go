package settings

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

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
	c, err := f.Install(entries, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func uninstalled(t testing.TB, f File) *Change {
	t.Helper()
	c, err := f.Uninstall(false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Install, another install, uninstall; then the folder is as it was.
func TestOnDisk(t *testing.T) {
	const content = "{\n  \"model\": \"opus\"\n}\n"
	f := at(t, []byte(content))
	c := installed(t, f, newest(t, "answer"))
	if c.Hooks != 7 {
		t.Fatalf("%d hooks", c.Hooks)
	}
	first := get(t, f.Path)
	if c := installed(t, f, newest(t, "answer")); !c.Nothing() || get(t, f.Path) != first {
		t.Error("the second install writes")
	}
	installed(t, f, newest(t, "system3", "wake"))
	if names := beside(t, f); !slices.Equal(names, []string{"settings.json"}) {
		t.Errorf("beside it: %q", names)
	}
	if c := uninstalled(t, f); c.Hooks != 23 || get(t, f.Path) != content {
		t.Errorf("uninstall of %d hooks leaves %q", c.Hooks, get(t, f.Path))
	}
	if c := uninstalled(t, f); !c.Nothing() || len(beside(t, f)) != 1 {
		t.Errorf("uninstall writes where nothing is ours: %q", beside(t, f))
	}

	// A person edits it between two installs.
	installed(t, f, newest(t, "answer"))
	put(t, f.Path, []byte(strings.Replace(get(t, f.Path), "opus", "sonnet", 1)), 0o640)
	installed(t, f, newest(t, "report"))
	if c := uninstalled(t, f); !strings.Contains(string(c.New), "\"sonnet\"") || len(beside(t, f)) != 1 {
		t.Errorf("%s\n%q", c.New, beside(t, f))
	}
}

func TestNoFile(t *testing.T) {
	f := at(t, nil)
	if c := uninstalled(t, f); c.New != nil || len(beside(t, f)) > 0 {
		t.Error("uninstall makes a file")
	}
	if c := installed(t, f, newest(t, "answer")); c.Old != nil || len(beside(t, f)) != 1 {
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
}

func TestDryRun(t *testing.T) {
	const content = "{\n  \"model\": \"opus\"\n}\n"
	f := at(t, []byte(content))
	c, err := f.Install(newest(t, "answer"), true)
	if err != nil || c.Nothing() || !strings.Contains(c.Diff(), "\n-  \"model\": \"opus\"\n+  \"model\": \"opus\",\n+  \"hooks\": {\n") {
		t.Errorf("%v\n%s", err, c.Diff())
	}
	if get(t, f.Path) != content || len(beside(t, f)) != 1 {
		t.Errorf("a dry run writes: %q", beside(t, f))
	}
}

// A link stays a link, and its file keeps its mode.
func TestLinks(t *testing.T) {
	const content = "{\"a\":1}\n"
	f := at(t, nil)
	real := filepath.Join(filepath.Dir(f.Path), "..", "dotfiles", "claude.json")
	put(t, real, []byte(content), 0o644)
	if err := errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o755), os.Symlink("../dotfiles/claude.json", f.Path)); err != nil {
		t.Fatal(err)
	}
	installed(t, f, newest(t, "answer"))
	if got, _ := os.Readlink(f.Path); got != "../dotfiles/claude.json" || get(t, real) == content {
		t.Errorf("the link is %q", got)
	}
	if info, err := os.Stat(real); err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	uninstalled(t, f)
	if got, _ := os.Readlink(f.Path); got != "../dotfiles/claude.json" || squeezed(get(t, real)) != squeezed(content) {
		t.Errorf("%q, %q", got, get(t, real))
	}
	if err := os.Remove(real); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Install(newest(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "a link to a file that does not exist") {
		t.Error(err)
	}
}

func TestModeStays(t *testing.T) {
	for _, mode := range []os.FileMode{0o600, 0o644, 0o664} {
		f := at(t, []byte("{}"))
		if err := os.Chmod(f.Path, mode); err != nil {
			t.Fatal(err)
		}
		installed(t, f, newest(t, "answer"))
		if is, err := os.Stat(f.Path); err != nil || is.Mode() != mode {
			t.Errorf("%v became %v (%v)", mode, is.Mode(), err)
		}
	}
}

func TestNotWritten(t *testing.T) {
	t.Run("read-only", func(t *testing.T) {
		f := at(t, []byte("{}"))
		if err := os.Chmod(f.Path, 0o444); err != nil {
			t.Fatal(err)
		}
		if c, err := f.Install(newest(t, "answer"), true); err != nil || c.Diff() == "" {
			t.Errorf("what would be done is not shown: %v %+v", err, c)
		}
		if _, err := f.Install(newest(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "is read-only") {
			t.Error(err)
		}
		if get(t, f.Path) != "{}" || len(beside(t, f)) != 1 {
			t.Errorf("%q", beside(t, f))
		}
	})
	t.Run("does not parse", func(t *testing.T) {
		f := at(t, []byte("{\n  \"a\": 1\n  \"b\": 2\n}\n"))
		_, err := f.Install(newest(t, "answer"), false)
		var bad *state.UserError
		if !errors.As(err, &bad) || bad.Hint == "" || !strings.HasPrefix(err.Error(), f.Path+" does not parse: line 3, column 3: ") {
			t.Error(err)
		}
		if _, err := f.Uninstall(false); !errors.As(err, &bad) {
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
		if _, err := f.Install(newest(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "no plain file") {
			t.Error(err)
		}
	})
	t.Run("a pipe", func(t *testing.T) {
		f := at(t, nil)
		if err := errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o755), syscall.Mkfifo(f.Path, 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Install(newest(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "no plain file") {
			t.Error(err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		f := at(t, bytes.Repeat([]byte(" "), maxFile+1))
		if _, err := f.Install(newest(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "larger than") {
			t.Error(err)
		}
	})
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
