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

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// newFile returns a settings file with these bytes, or none for nil, in a home of its
// own.
func newFile(t testing.TB, content []byte) File {
	t.Helper()
	home := t.TempDir()
	f, err := FileFor(func(name string) string { return map[string]string{"HOME": home}[name] }, User)
	kit.NoError(t, err)
	if content != nil {
		writeTestFile(t, f.Path, content, 0o640)
	}
	return f
}

func writeTestFile(t testing.TB, path string, content []byte, mode os.FileMode) {
	t.Helper()
	kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	kit.NoError(t, os.WriteFile(path, content, mode))
	kit.NoError(t, os.Chmod(path, mode))
}

func readTestFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	kit.NoError(t, err)
	return string(b)
}

// otherFiles are the names in a file's folder.
func otherFiles(t testing.TB, f File) (names []string) {
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

func mustInstall(t testing.TB, f File, entries []Entry) *Change {
	t.Helper()
	c, err := f.Install(entries, false)
	kit.NoError(t, err)
	return c
}

func mustUninstall(t testing.TB, f File) *Change {
	t.Helper()
	c, err := f.Uninstall(false)
	kit.NoError(t, err)
	return c
}

// After an install, another install and an uninstall, the folder is what it was.
func TestSettingsFile_InstallAndUninstall(t *testing.T) {
	const content = "{\n  \"model\": \"opus\"\n}\n"
	f := newFile(t, []byte(content))
	c := mustInstall(t, f, newestEntries(t, "answer"))
	if c.HookCount != 7 {
		t.Fatalf("%d hooks", c.HookCount)
	}
	first := readTestFile(t, f.Path)
	if c := mustInstall(t, f, newestEntries(t, "answer")); !c.IsEmpty() || readTestFile(t, f.Path) != first {
		t.Error("the second install writes")
	}
	mustInstall(t, f, newestEntries(t, "system3", "wake"))
	if names := otherFiles(t, f); !slices.Equal(names, []string{"settings.json"}) {
		t.Errorf("beside it: %q", names)
	}
	if c := mustUninstall(t, f); c.HookCount != 23 || readTestFile(t, f.Path) != content {
		t.Errorf("uninstall of %d hooks leaves %q", c.HookCount, readTestFile(t, f.Path))
	}
	if c := mustUninstall(t, f); !c.IsEmpty() || len(otherFiles(t, f)) != 1 {
		t.Errorf("uninstall writes where nothing is ours: %q", otherFiles(t, f))
	}

	// A person edits it between two installs.
	mustInstall(t, f, newestEntries(t, "answer"))
	writeTestFile(t, f.Path, []byte(strings.Replace(readTestFile(t, f.Path), "opus", "sonnet", 1)), 0o640)
	mustInstall(t, f, newestEntries(t, "report"))
	if c := mustUninstall(t, f); !strings.Contains(string(c.New), "\"sonnet\"") || len(otherFiles(t, f)) != 1 {
		t.Errorf("%s\n%q", c.New, otherFiles(t, f))
	}
}

func TestSettingsFile_CreatedAndRemoved(t *testing.T) {
	f := newFile(t, nil)
	if c := mustUninstall(t, f); c.New != nil || len(otherFiles(t, f)) > 0 {
		t.Error("uninstall makes a file")
	}
	if c := mustInstall(t, f, newestEntries(t, "answer")); c.Old != nil || len(otherFiles(t, f)) != 1 {
		t.Errorf("%+v", c)
	}
	if info, err := os.Stat(f.Path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	mustInstall(t, f, newestEntries(t, "report"))
	if c := mustUninstall(t, f); c.New != nil || len(otherFiles(t, f)) > 0 {
		t.Errorf("%q, left: %q", c.New, otherFiles(t, f))
	}

	// What a person wrote into a file that install created stays.
	mustInstall(t, f, newestEntries(t, "answer"))
	writeTestFile(t, f.Path, []byte(strings.Replace(readTestFile(t, f.Path), "{\n", "{\n  \"model\": \"opus\",\n", 1)), 0o600)
	mustUninstall(t, f)
	kit.Equal(t, readTestFile(t, f.Path), "{\n  \"model\": \"opus\"\n}\n")
}

func TestSettingsFile_DryRunWritesNothing(t *testing.T) {
	const content = "{\n  \"model\": \"opus\"\n}\n"
	f := newFile(t, []byte(content))
	c, err := f.Install(newestEntries(t, "answer"), true)
	if err != nil || c.IsEmpty() || !strings.Contains(c.Diff(), "\n-  \"model\": \"opus\"\n+  \"model\": \"opus\",\n+  \"hooks\": {\n") {
		t.Errorf("%v\n%s", err, c.Diff())
	}
	if readTestFile(t, f.Path) != content || len(otherFiles(t, f)) != 1 {
		t.Errorf("a dry run writes: %q", otherFiles(t, f))
	}
}

// A link stays a link, and its file keeps its mode.
func TestSettingsFile_LinkStays(t *testing.T) {
	const content = "{\"a\":1}\n"
	f := newFile(t, nil)
	real := filepath.Join(filepath.Dir(f.Path), "..", "dotfiles", "claude.json")
	writeTestFile(t, real, []byte(content), 0o644)
	kit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o755), os.Symlink("../dotfiles/claude.json", f.Path)))
	mustInstall(t, f, newestEntries(t, "answer"))
	if got, _ := os.Readlink(f.Path); got != "../dotfiles/claude.json" || readTestFile(t, real) == content {
		t.Errorf("the link is %q", got)
	}
	if info, err := os.Stat(real); err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	mustUninstall(t, f)
	if got, _ := os.Readlink(f.Path); got != "../dotfiles/claude.json" || withoutBlanks(readTestFile(t, real)) != withoutBlanks(content) {
		t.Errorf("%q, %q", got, readTestFile(t, real))
	}
	kit.NoError(t, os.Remove(real))
	if _, err := f.Install(newestEntries(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "a link to a file that does not exist") {
		t.Error(err)
	}
}

func TestSettingsFile_ModeStays(t *testing.T) {
	for _, mode := range []os.FileMode{0o600, 0o644, 0o664} {
		f := newFile(t, []byte("{}"))
		kit.NoError(t, os.Chmod(f.Path, mode))
		mustInstall(t, f, newestEntries(t, "answer"))
		if is, err := os.Stat(f.Path); err != nil || is.Mode() != mode {
			t.Errorf("%v became %v (%v)", mode, is.Mode(), err)
		}
	}
}

func TestSettingsFile_NotWrittenWhere(t *testing.T) {
	t.Run("read-only", func(t *testing.T) {
		f := newFile(t, []byte("{}"))
		kit.NoError(t, os.Chmod(f.Path, 0o444))
		if c, err := f.Install(newestEntries(t, "answer"), true); err != nil || c.Diff() == "" {
			t.Errorf("what would be done is not shown: %v %+v", err, c)
		}
		if _, err := f.Install(newestEntries(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "is read-only") {
			t.Error(err)
		}
		if readTestFile(t, f.Path) != "{}" || len(otherFiles(t, f)) != 1 {
			t.Errorf("%q", otherFiles(t, f))
		}
	})
	t.Run("does not parse", func(t *testing.T) {
		f := newFile(t, []byte("{\n  \"a\": 1\n  \"b\": 2\n}\n"))
		_, err := f.Install(newestEntries(t, "answer"), false)
		var bad *state.UserError
		if !errors.As(err, &bad) || bad.Hint == "" || !strings.HasPrefix(err.Error(), f.Path+" does not parse: line 3, column 3: ") {
			t.Error(err)
		}
		if _, err := f.Uninstall(false); !errors.As(err, &bad) {
			t.Errorf("uninstall: %v", err)
		}
		if len(otherFiles(t, f)) != 1 {
			t.Errorf("%q", otherFiles(t, f))
		}
	})
	t.Run("a folder", func(t *testing.T) {
		f := newFile(t, nil)
		kit.NoError(t, os.MkdirAll(f.Path, 0o755))
		if _, err := f.Install(newestEntries(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "not a plain file") {
			t.Error(err)
		}
	})
	t.Run("a pipe", func(t *testing.T) {
		f := newFile(t, nil)
		kit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o755), syscall.Mkfifo(f.Path, 0o600)))
		if _, err := f.Install(newestEntries(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "not a plain file") {
			t.Error(err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		f := newFile(t, bytes.Repeat([]byte(" "), maxFileBytes+1))
		if _, err := f.Install(newestEntries(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "larger than") {
			t.Error(err)
		}
	})
}

func TestSettingsFile_PathOfEachScope(t *testing.T) {
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
		f, err := FileFor(func(name string) string { return env[name] }, test.scope)
		if err != nil || f.Path != test.want || f.Mode != test.mode {
			t.Errorf("%s: %+v, %v", test.scope, f, err)
		}
	}
	if _, err := FileFor(func(string) string { return "" }, User); err == nil {
		t.Error("a home out of nowhere")
	}
}
