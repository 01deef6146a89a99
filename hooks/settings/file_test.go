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

func install(t testing.TB, f File, entries []Entry) *Change {
	t.Helper()
	c, err := f.Install(context.Background(), entries, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func uninstall(t testing.TB, f File) *Change {
	t.Helper()
	c, err := f.Uninstall(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every shape on disk: install, another install, uninstall; then the folder is as it was.
func TestShapesOnDisk(t *testing.T) {
	for _, s := range shapes {
		if s.holds {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			f := at(t, []byte(s.file))
			c := install(t, f, newest(t, "answer"))
			if !c.Written || c.Backup != f.Path+beforeSuffix || get(t, c.Backup) != s.file || !Holds([]byte(get(t, f.Path))) {
				t.Fatalf("written: %t, backup: %s", c.Written, c.Backup)
			}
			first := get(t, f.Path)
			if c := install(t, f, newest(t, "answer")); c.Written || !c.Nothing() || get(t, f.Path) != first {
				t.Error("the second install writes")
			}
			if c := install(t, f, newest(t, "system3", "wake")); c.Backup != f.Path+lastSuffix || get(t, c.Backup) != first || get(t, f.Path+beforeSuffix) != s.file {
				t.Errorf("backup: %s", c.Backup)
			}
			uninstall(t, f)
			if got := get(t, f.Path); got != s.file {
				t.Errorf("uninstall leaves\n%.2000q\nof\n%.2000q", got, s.file)
			}
			if names := beside(t, f); !slices.Equal(names, []string{"settings.json"}) {
				t.Errorf("left beside it: %q", names)
			}
			if c := uninstall(t, f); c.Written || !c.Nothing() {
				t.Error("uninstall writes where nothing is ours")
			}
		})
	}
}

func TestNoFile(t *testing.T) {
	f := at(t, nil)
	if c := uninstall(t, f); c.Written || c.New != nil {
		t.Error("uninstall makes a file")
	}
	if c := install(t, f, newest(t, "answer")); c.Old != nil || c.Backup != "" || !strings.HasPrefix(c.Diff(), "--- /dev/null\n+++ "+f.Path+"\n@@ -0,0 +1,") {
		t.Errorf("%+v\n%s", c.Backup, c.Diff())
	}
	if info, err := os.Stat(f.Path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	install(t, f, newest(t, "report"))
	if c := uninstall(t, f); c.New != nil || !c.Written || !strings.Contains(c.Diff(), "+++ /dev/null\n") {
		t.Errorf("%q\n%s", c.New, c.Diff())
	}
	if names := beside(t, f); len(names) > 0 {
		t.Errorf("left: %q", names)
	}

	// What a person wrote into a file that install made stays.
	install(t, f, newest(t, "answer"))
	put(t, f.Path, []byte(strings.Replace(get(t, f.Path), "{\n", "{\n  \"model\": \"opus\",\n", 1)), 0o600)
	uninstall(t, f)
	if got := get(t, f.Path); got != "{\n  \"model\": \"opus\"\n}\n" {
		t.Errorf("%q", got)
	}
	// They take the file away, whose backups stay: those say nothing about one that an install makes now.
	f = at(t, []byte("{\n\n}\n"))
	install(t, f, newest(t, "answer"))
	put(t, f.Path, []byte(strings.Replace(get(t, f.Path), "{\n", "{\n  \"model\": \"opus\",\n", 1)), 0o600)
	uninstall(t, f)
	if names := beside(t, f); len(names) != 3 {
		t.Errorf("no backups of a file that was edited: %q", names)
	}
	if err := os.Remove(f.Path); err != nil {
		t.Fatal(err)
	}
	install(t, f, newest(t, "answer"))
	uninstall(t, f)
	if names := beside(t, f); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
}

// The copies beside the file are of another time when a person has written it anew: they stop no install.
func TestCopiesOfAnotherTime(t *testing.T) {
	for _, test := range []struct{ name, before, anew string }{
		{"empty hooks", "{\"hooks\": {}}\n", "{\"model\": \"opus\"}\n"},
		{"an empty event", "{\n  \"hooks\": {\n    \"Stop\": []\n  }\n}\n", "{\n  \"model\": \"opus\"\n}\n"},
		{"an empty event, taken out by hand", "{\n  \"hooks\": {\n    \"Notification\": []\n  }\n}\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := at(t, []byte(test.before))
			install(t, f, newest(t, "answer"))
			anew := test.anew
			if anew == "" { // our hooks stay in it
				anew = strings.Replace(get(t, f.Path), "    \"Notification\": [],\n", "", 1)
				if anew == get(t, f.Path) {
					t.Fatal(anew)
				}
			}
			put(t, f.Path, []byte(anew), 0o600)
			install(t, f, newest(t, "report"))
			uninstall(t, f)
			if test.anew != "" && get(t, f.Path) != test.anew {
				t.Errorf("left: %q", get(t, f.Path))
			}
		})
	}
	t.Run("left by our own uninstall", func(t *testing.T) {
		f := at(t, []byte("{\"hooks\": {\"Stop\": []}}"))
		install(t, f, newest(t, "answer"))
		put(t, f.Path, []byte(strings.Replace(get(t, f.Path), "{", "{\"model\": \"opus\", ", 1)), 0o600)
		uninstall(t, f)
		put(t, f.Path, []byte("{}"), 0o600)
		install(t, f, newest(t, "answer"))
	})
}

// A {} that nobody knows to be ours stays: hooks by hand, without any install.
func TestUninstallByHandKeepsTheFile(t *testing.T) {
	f := at(t, []byte(`{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"gchat-hooks hook gchat-stop-gate"}]}]}}`))
	if c := uninstall(t, f); string(c.New) != "{}" || get(t, f.Path) != "{}" || get(t, c.Backup) != string(c.Old) {
		t.Errorf("%q", c.New)
	}
}

func TestDryRun(t *testing.T) {
	const content = "{\n  \"model\": \"opus\"\n}\n"
	f := at(t, []byte(content))
	c, err := f.Install(context.Background(), newest(t, "answer"), true)
	if err != nil || c.Written || c.Nothing() || !strings.Contains(c.Diff(), "\n-  \"model\": \"opus\"\n+  \"model\": \"opus\",\n+  \"hooks\": {\n") {
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
	for _, link := range []string{"absolute", "relative", "a link to a link"} {
		t.Run(link, func(t *testing.T) {
			f := at(t, nil)
			dotfiles := filepath.Join(f.Env("HOME"), "dotfiles")
			real := filepath.Join(dotfiles, "claude.json")
			put(t, real, []byte(content), 0o644)
			to := real
			switch link {
			case "relative":
				to = "../dotfiles/claude.json"
			case "a link to a link":
				to = filepath.Join(dotfiles, "second")
				if err := os.Symlink("claude.json", to); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o755), os.Symlink(to, f.Path)); err != nil {
				t.Fatal(err)
			}
			c := install(t, f, newest(t, "answer"))
			if got, _ := os.Readlink(f.Path); got != to {
				t.Errorf("the link is gone: %q", got)
			}
			if c.Real != real || !Holds([]byte(get(t, real))) || get(t, f.Path+beforeSuffix) != content {
				t.Errorf("%q", c.Real)
			}
			if info, _ := os.Stat(real); info.Mode() != 0o644 {
				t.Errorf("mode %v", info.Mode())
			}
			if info, _ := os.Stat(f.Path + beforeSuffix); info.Mode() != 0o600 {
				t.Errorf("backup's mode %v", info.Mode())
			}
			uninstall(t, f)
			if got, _ := os.Readlink(f.Path); got != to || get(t, real) != content {
				t.Errorf("%q, %q", got, get(t, real))
			}
		})
	}
	t.Run("to nothing yet", func(t *testing.T) {
		f := at(t, nil)
		real := filepath.Join(f.Env("HOME"), "dotfiles", "claude.json")
		if err := errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o755), os.Symlink(real, f.Path)); err != nil {
			t.Fatal(err)
		}
		install(t, f, newest(t, "answer"))
		if !Holds([]byte(get(t, real))) {
			t.Error("not installed")
		}
		uninstall(t, f)
		if _, err := os.Lstat(real); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		if names := beside(t, f); !slices.Equal(names, []string{"settings.json"}) {
			t.Errorf("%q", names)
		}
	})
	// ~/.claude is itself a link into somebody's dotfiles: ".." is above where it leads.
	for _, exists := range []bool{true, false} {
		t.Run(fmt.Sprintf("relative in a folder that is a link, the file exists: %t", exists), func(t *testing.T) {
			f := at(t, nil)
			home := f.Env("HOME")
			real := filepath.Join(home, "dots", "x", "s.json")
			if exists {
				put(t, real, []byte(content), 0o600)
			}
			err := errors.Join(os.MkdirAll(filepath.Join(home, "dots", "claude"), 0o755),
				os.Symlink("dots/claude", filepath.Join(home, ".claude")), os.Symlink("../x/s.json", f.Path))
			if err != nil {
				t.Fatal(err)
			}
			install(t, f, newest(t, "answer"))
			if _, err := os.Stat(filepath.Join(home, "x")); !errors.Is(err, os.ErrNotExist) || !Holds([]byte(get(t, real))) {
				t.Errorf("not installed where Claude Code reads it: %v", err)
			}
			uninstall(t, f)
			if b, err := os.ReadFile(real); exists && string(b) != content || !exists && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("left: %q, %v", b, err)
			}
		})
	}
	t.Run("to itself", func(t *testing.T) {
		f := at(t, nil)
		if err := errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o755), os.Symlink(f.Path, f.Path)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Install(context.Background(), newest(t, "answer"), false); !errors.Is(err, syscall.ELOOP) {
			t.Error(err)
		}
	})
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
		install(t, f, newest(t, "answer"))
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
		if c, err := f.Install(context.Background(), newest(t, "answer"), true); err != nil || !errors.Is(c.Refused, ErrReadOnly) || c.Diff() == "" {
			t.Errorf("what would be done is not shown: %v %+v", err, c)
		}
		if _, err := f.Install(context.Background(), newest(t, "answer"), false); !errors.Is(err, ErrReadOnly) {
			t.Error(err)
		}
		if get(t, f.Path) != "{}" || len(beside(t, f)) != 1 {
			t.Errorf("%q", beside(t, f))
		}
	})
	t.Run("does not parse", func(t *testing.T) {
		f := at(t, []byte("{\n  \"a\": 1\n  \"b\": 2\n}\n"))
		_, err := f.Install(context.Background(), newest(t, "answer"), false)
		var bad *SyntaxError
		if !errors.As(err, &bad) || bad.Line != 3 || !strings.HasPrefix(err.Error(), f.Path+": line 3, column 3: ") {
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
		if _, err := f.Install(context.Background(), newest(t, "answer"), false); err == nil || !strings.Contains(err.Error(), "more than 16 MB") {
			t.Error(err)
		}
	})
	t.Run("another install hangs", func(t *testing.T) {
		f := at(t, []byte("{}"))
		unlock, err := f.lock(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
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
	uninstall(t, f)
	if got := get(t, f.Path); got != "{\n  \"n\": 0\n}\n" {
		t.Errorf("%q", got)
	}
}

// Claude Code writes its settings itself, between our look at them and our writing.
func TestWrittenMeanwhile(t *testing.T) {
	f := at(t, []byte(`{"n":0}`))
	entries, n := newest(t, "answer"), 0
	c, err := f.change(context.Background(), false, func(old, before []byte) ([]byte, error) {
		if n++; n <= 3 {
			put(t, f.Path, fmt.Appendf(nil, `{"n":%d}`, n), 0o640)
		}
		return Install(old, before, entries)
	})
	if err != nil || !c.Written || n != 4 || string(c.Old) != `{"n":3}` || get(t, f.Path+beforeSuffix) != `{"n":3}` {
		t.Fatalf("%v, %d tries, %+v", err, n, c)
	}
	uninstall(t, f)
	if get(t, f.Path) != `{"n":3}` {
		t.Errorf("what was written meanwhile is lost: %s", get(t, f.Path))
	}
	_, err = f.change(context.Background(), false, func(old, before []byte) ([]byte, error) {
		n++
		put(t, f.Path, fmt.Appendf(nil, `{"n":%d}`, n), 0o640)
		return Install(old, before, entries)
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
