package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/state/config"
)

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
