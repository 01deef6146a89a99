package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gchat-hooks/state/config"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		matcher string
		want    bool
	}{
		{"", true}, {"*", true}, {"AskUserQuestion", true}, {"Bash|AskUserQuestion", true}, {"Bash, AskUserQuestion", true},
		{"Ask.*", true}, {".*", true}, {"^Ask.*", true},
		{"Ask", false}, {"Bash", false}, {"askuserquestion", false}, {"AskUserQuestionX", false}, {"mcp__.*", false}, {"(", false},
	} {
		if got := matches(c.matcher); got != c.want {
			t.Errorf("%q: %v", c.matcher, got)
		}
	}
}

const (
	userFile    = "home/.claude/settings.json"
	projectFile = "project/.claude/settings.json"
	localFile   = "project/.claude/settings.local.json"
	managedFile = "managed/managed-settings.json"
	pluginFile  = "plugin/hooks/hooks.json"
)

// settingsOf is a person with these settings files, by their place. The plugin is installed and enabled.
func settingsOf(t *testing.T, files map[string]string) *exam {
	t.Helper()
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range files {
		write(path, text)
	}
	write("home/.claude/plugins/installed_plugins.json", `{"version": 2, "plugins": {"b@m": [{"installPath": "`+dir+`/plugin"}]}}`)
	write("managed/managed-settings.d/10.json", `{"enabledPlugins": {"b@m": true}}`)
	env := func(name string) string {
		return map[string]string{
			"HOME": dir + "/home", "CLAUDE_PROJECT_DIR": dir + "/project", "CLAUDE_CODE_MANAGED_SETTINGS_PATH": dir + "/managed",
		}[name]
	}
	return &exam{Options: Options{Env: env}, cfg: &config.Config{}, sources: sources(env)}
}

// levels are those of what a check finds.
func (e *exam) levels(t *testing.T, id string) (levels []Level) {
	t.Helper()
	r := &result{check: checks[slices.IndexFunc(checks, func(c check) bool { return c.id == id })]}
	r.run(e, t.Context(), r)
	for _, f := range r.found {
		levels = append(levels, f.Level)
	}
	return levels
}

// Of a switch the file counts that ranks highest: managed, then local, then project, then user. What only an administrator may
// say counts only in the administrator's file.
func TestSwitchesRank(t *testing.T) {
	const on, off = `{"disableAllHooks": true}`, `{"disableAllHooks": false}`
	const managedOnly, ours = `"allowManagedHooksOnly": true`, `"hooks": {"Stop": [{"hooks": [{"command": "/a/gchat-hooks hook x"}]}]}`
	for _, c := range []struct {
		name  string
		files map[string]string
		want  Level
	}{
		{"nothing", nil, OK},
		{"the user's", map[string]string{userFile: on}, Fail},
		{"local over user", map[string]string{userFile: on, localFile: off}, OK},
		{"local over project", map[string]string{projectFile: off, localFile: on}, Fail},
		{"managed over local", map[string]string{localFile: on, managedFile: off}, OK},
		{"no switch", map[string]string{userFile: `{"disableAllHooks": "yes"}`}, OK},
		{"managed hooks only", map[string]string{managedFile: `{` + managedOnly + `}`}, Fail},
		{"managed hooks only, with ours", map[string]string{managedFile: `{` + managedOnly + `, ` + ours + `}`}, OK},
		{"managed hooks only, by the user", map[string]string{userFile: `{` + managedOnly + `}`}, OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := settingsOf(t, c.files).levels(t, "claude.settings"); !slices.Equal(got, []Level{c.want}) {
				t.Errorf("%v", got)
			}
		})
	}
}

// What an entry starts is found as a shell would find it, where its path says it.
func TestProgramOfAnEntry(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"gchat-hooks": 0o755, "plain": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	for start, well := range map[string]bool{
		"~/gchat-hooks": true, dir + "/gchat-hooks": true, "$HOME/none": true, "gchat-hooks": true,
		dir + "/plain": false, dir: false, "elsewhere": false,
	} {
		if err := cannotStart(start); (err == nil) != well {
			t.Errorf("%s: %v", start, err)
		}
	}
}

// Whatever stands in a settings file, the doctor reads on.
func FuzzReadSource(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `[]`, `{"hooks": []}`, `{"hooks": {"Stop": {}}}`, `{"hooks": {"Stop": [null, {"hooks": [1, {"command": 2}]}]}}`,
		`{"permissions": 1, "env": []}`, "\xef\xbb\xbf{}", `{"hooks": {"PreToolUse": [{"matcher": "[", "hooks": [{"command": ""}]}]}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := &source{path: "settings.json"}
		s.parse([]byte(text), "")
		e := &exam{cfg: &config.Config{}, sources: []*source{s}}
		e.Env = func(string) string { return "" }
		for _, c := range checks {
			if strings.HasPrefix(c.id, "claude.") && c.id != "claude.version" && c.id != "claude.trust" {
				r := &result{check: c}
				if c.run(e, t.Context(), r); len(r.found) == 0 {
					t.Errorf("%s has no finding", c.id)
				}
			}
		}
	})
}

func TestAHookThatMacOSHasInQuarantine(t *testing.T) {
	program := filepath.Join(t.TempDir(), "gchat-hooks")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	was := quarantine
	quarantine = "user.quarantine" // Linux keeps no names of another kind
	t.Cleanup(func() { quarantine = was })
	e := settingsOf(t, map[string]string{userFile: `{"hooks": {"PreToolUse": [{"matcher": "AskUserQuestion", "hooks": [
		{"type": "command", "command": "` + program + ` hook gchat-ask-user-forward"}]}]}}`})
	starts := func() (mends []string) {
		r := &result{check: check{mend: "another"}}
		e.claudeHooks(t.Context(), r)
		for _, f := range r.found {
			if strings.Contains(f.What, program) && f.Level == Fail {
				mends = append(mends, f.Mend)
			}
		}
		return mends
	}
	if got := starts(); len(got) > 0 {
		t.Errorf("without the mark: %q", got)
	}
	hint := []string{"xattr -d user.quarantine " + program}
	for mark, want := range map[string][]string{"0083;6740a1b2;Safari;": hint, "": hint, "00c3;6740a1b2;Safari;": nil} {
		if err := unix.Setxattr(program, quarantine, []byte(mark), 0); err != nil {
			t.Skip(err)
		}
		if got := starts(); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", mark, got, want)
		}
	}
}
