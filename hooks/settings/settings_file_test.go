package settings

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// endlessVariable makes a process of the test program install and uninstall in this home
// until it is killed.
const endlessVariable = "SETTINGS_TEST_ENDLESS_IN"

func TestMain(m *testing.M) {
	if home := os.Getenv(endlessVariable); home != "" {
		f, _ := FileFor(func(name string) string { return map[string]string{"HOME": home}[name] },
			User)
		hooks, _ := PresetHooks("system3")
		entries, _ := EntriesFor("/b/gchat-hooks", Version{2, 1, 329}, hooks)
		os.Stdout.WriteString("begins\n")
		for {
			if _, err := f.Install(entries, false); err != nil {
				panic(err)
			}
			if _, err := f.Uninstall(false); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// If it is killed at any moment, the file is the old one or the new one, and the next
// uninstall restores what was there.
func TestSettingsFile_KilledAtAnyMoment(t *testing.T) {
	const content = "{\n  \"model\": \"opus\"\n}\n"
	f := newFile(t, []byte(content))
	with, err := Install([]byte(content), entriesOf(t, Version{2, 1, 329}, "system3"))
	kit.NoError(t, err)
	with = []byte(strings.ReplaceAll(string(with), "/home/me/bin/", "/b/"))
	rounds := 40
	if testing.Short() {
		rounds = 5
	}
	var seen [2]int
	for range rounds {
		cmd := bound.Command(t, os.Args[0])
		cmd.Env = []string{endlessVariable + "=" + filepath.Dir(filepath.Dir(f.Path))}
		out, err := cmd.StdoutPipe()
		kit.NoError(t, err)
		kit.NoError(t, cmd.Start())
		_, err = out.Read(make([]byte, 7))
		kit.NoError(t, err)
		// This does not synchronise: it kills at a random moment.
		time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		switch got := kit.ReadFile(t, f.Path); got {
		case content:
			seen[0]++
		case string(with):
			seen[1]++
		default:
			t.Fatalf("neither the old file nor the new one:\n%s", got)
		}
		mustUninstall(t, f)
		kit.Equal(t, kit.ReadFile(t, f.Path), content)
	}
	kit.True(t, !slices.Contains(seen[:], 0) || testing.Short(),
		"the kills came at %d and %d: always at the same moment", seen[0], seen[1])
}

// newFile returns a settings file with these bytes, or none for nil, in a home of its
// own.
func newFile(t testing.TB, content []byte) File {
	t.Helper()
	home := t.TempDir()
	f, err := FileFor(func(name string) string { return map[string]string{"HOME": home}[name] },
		User)
	kit.NoError(t, err)
	if content != nil {
		kit.WriteFile(t, f.Path, string(content), 0o640)
	}
	return f
}

// wantFiles checks how many files a settings file's folder has.
func wantFiles(t testing.TB, f File, want int) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(f.Path))
	if !errors.Is(err, os.ErrNotExist) {
		kit.NoError(t, err)
	}
	kit.Equalf(t, len(entries), want, "files: %v", entries)
}

// wantHooks checks how many hooks a change adds or removes, and what the file is then.
func wantHooks(t testing.TB, f File, c *Change, count int, content string) {
	t.Helper()
	kit.Equalf(t, c.HookCount, count, "hooks")
	kit.Equal(t, kit.ReadFile(t, f.Path), content)
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
	first := kit.ReadFile(t, f.Path)
	wantHooks(t, f, c, 7, first)
	again := mustInstall(t, f, newestEntries(t, "answer"))
	kit.True(t, again.IsEmpty(), "the second install changes something")
	kit.Equal(t, kit.ReadFile(t, f.Path), first)
	mustInstall(t, f, newestEntries(t, "system3", "wake"))
	wantFiles(t, f, 1)
	wantHooks(t, f, mustUninstall(t, f), 23, content)
	kit.True(t, mustUninstall(t, f).IsEmpty(), "the second uninstall changes something")
	wantFiles(t, f, 1)

	// A person edits it between two installs.
	mustInstall(t, f, newestEntries(t, "answer"))
	kit.WriteFile(t, f.Path, strings.Replace(kit.ReadFile(t, f.Path), "opus", "sonnet", 1), 0o640)
	mustInstall(t, f, newestEntries(t, "report"))
	kit.Contains(t, string(mustUninstall(t, f).New), "\"sonnet\"")
	wantFiles(t, f, 1)
}

func TestSettingsFile_CreatedAndRemoved(t *testing.T) {
	f := newFile(t, nil)
	kit.Equal(t, mustUninstall(t, f).New, nil)
	wantFiles(t, f, 0)
	kit.Equal(t, mustInstall(t, f, newestEntries(t, "answer")).Old, nil)
	wantFiles(t, f, 1)
	wantMode(t, f.Path, 0o600)
	mustInstall(t, f, newestEntries(t, "report"))
	kit.Equal(t, mustUninstall(t, f).New, nil)
	wantFiles(t, f, 0)

	// What a person wrote into a file that install created stays.
	mustInstall(t, f, newestEntries(t, "answer"))
	kit.WriteFile(t, f.Path, strings.Replace(kit.ReadFile(t, f.Path), "{\n",
		"{\n  \"model\": \"opus\",\n", 1), 0o600)
	mustUninstall(t, f)
	kit.Equal(t, kit.ReadFile(t, f.Path), "{\n  \"model\": \"opus\"\n}\n")
}

func TestSettingsFile_DryRunWritesNothing(t *testing.T) {
	const content = "{\n  \"model\": \"opus\"\n}\n"
	f := newFile(t, []byte(content))
	c, err := f.Install(newestEntries(t, "answer"), true)
	kit.NoError(t, err)
	kit.Contains(t, c.Diff(), "\n-  \"model\": \"opus\"\n+  \"model\": \"opus\",\n+  \"hooks\": {\n")
	kit.Equal(t, kit.ReadFile(t, f.Path), content)
	wantFiles(t, f, 1)
}

// A link stays a link, and its file keeps its mode.
func TestSettingsFile_LinkStays(t *testing.T) {
	const content = "{\"a\":1}\n"
	f := newFile(t, nil)
	real := filepath.Join(filepath.Dir(f.Path), "..", "dotfiles", "claude.json")
	kit.WriteFile(t, real, content, 0o644)
	kit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(f.Path), 0o755),
		os.Symlink("../dotfiles/claude.json", f.Path)))
	mustInstall(t, f, newestEntries(t, "answer"))
	kit.True(t, kit.ReadFile(t, real) != content, "nothing is installed")
	wantMode(t, real, 0o644)
	mustUninstall(t, f)
	link, _ := os.Readlink(f.Path)
	kit.Equalf(t, link, "../dotfiles/claude.json", "link")
	kit.Equal(t, withoutBlanks(kit.ReadFile(t, real)), withoutBlanks(content))
	kit.NoError(t, os.Remove(real))
	_, err := f.Install(newestEntries(t, "answer"), false)
	wantError(t, err, "a link to a file that does not exist")
}

func TestSettingsFile_ModeStays(t *testing.T) {
	for _, mode := range []os.FileMode{0o600, 0o644, 0o664} {
		f := newFile(t, []byte("{}"))
		kit.NoError(t, os.Chmod(f.Path, mode))
		mustInstall(t, f, newestEntries(t, "answer"))
		wantMode(t, f.Path, mode)
	}
}

func TestSettingsFile_NotWrittenWhere(t *testing.T) {
	for name, c := range map[string]struct {
		content []byte
		spoil   func(path string) error
		says    string
	}{
		"read-only": {[]byte("{}"), func(path string) error { return os.Chmod(path, 0o444) },
			"is read-only"},
		"a folder": {nil, func(path string) error { return os.MkdirAll(path, 0o755) },
			"not a plain file"},
		"a pipe": {nil, func(path string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), syscall.Mkfifo(path, 0o600))
		}, "not a plain file"},
		"too large": {bytes.Repeat([]byte(" "), maxFileBytes+1), func(string) error { return nil },
			"larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFile(t, c.content)
			kit.NoError(t, c.spoil(f.Path))
			_, err := f.Install(newestEntries(t, "answer"), false)
			wantError(t, err, c.says)
			wantFiles(t, f, 1)
		})
	}
}

// What would be done is shown where the file is read-only.
func TestSettingsFile_ReadOnlyShowsTheChange(t *testing.T) {
	f := newFile(t, []byte("{}"))
	kit.NoError(t, os.Chmod(f.Path, 0o444))
	c, err := f.Install(newestEntries(t, "answer"), true)
	kit.NoError(t, err)
	kit.True(t, c.Diff() != "", "no difference")
	kit.Equal(t, kit.ReadFile(t, f.Path), "{}")
}

func TestSettingsFile_DoesNotParse(t *testing.T) {
	f := newFile(t, []byte("{\n  \"a\": 1\n  \"b\": 2\n}\n"))
	_, err := f.Install(newestEntries(t, "answer"), false)
	var bad *state.UserError
	kit.True(t, errors.As(err, &bad) && bad.Hint != "", "%v has no hint", err)
	wantError(t, err, f.Path+" does not parse: line 3, column 3: ")
	_, err = f.Uninstall(false)
	kit.True(t, errors.As(err, &bad), "uninstall: %v", err)
	wantFiles(t, f, 1)
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
		kit.NoError(t, err)
		kit.Equalf(t, f, File{Path: test.want, Mode: test.mode}, "%s", test.scope)
	}
	_, err := FileFor(func(string) string { return "" }, User)
	kit.True(t, err != nil, "a home out of nowhere")
}
