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
	write("home/.claude/plugins/known_marketplaces.json", `{"here": {"installLocation": "`+dir+`/market"}, "": 1}`)
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

// A plugin that managed settings enable is managed, installed or run in place. With only managed hooks a person's own, and
// their own plugins, count for nothing.
func TestManagedPlugins(t *testing.T) {
	const only = `"allowManagedHooksOnly": true`
	approve, err := os.ReadFile(filepath.Join("..", "..", "plugins", "approve", "hooks", "hooks.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string // the files whose hooks count
	}{
		{"installed", map[string]string{managedFile: `{` + only + `}`, pluginFile: string(approve)}, []string{pluginFile}},
		{"in place", map[string]string{managedFile: `{` + only + `, "enabledPlugins": {"p@here": true}}`}, []string{"market/p/hooks/hooks.json"}},
		{"by a part of the settings", map[string]string{managedFile: `{"enabledPlugins": {"p@here": true}}`, "managed/managed-settings.d/20.json": `{` + only + `}`},
			[]string{"market/p/hooks/hooks.json"}},
		{"switched off", map[string]string{managedFile: `{` + only + `, "enabledPlugins": {"p@here": false}}`}, nil},
		{"by the person", map[string]string{managedFile: `{` + only + `}`, userFile: `{"enabledPlugins": {"p@here": true}}`}, nil},
		{"by the person, as they may", map[string]string{userFile: `{"enabledPlugins": {"p@here": true}}`}, []string{"market/p/hooks/hooks.json"}},
		{"the person's own", map[string]string{managedFile: `{` + only + `}`, userFile: string(approve)}, nil},
		{"from elsewhere", map[string]string{managedFile: `{"enabledPlugins": {"q@here": true, "r@here": true, "p@": true, "p": true}}`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.files["market/p/hooks/hooks.json"] = string(approve)
			c.files["market/.claude-plugin/marketplace.json"] = `{"plugins": [{"name": "q", "source": {"source": "github"}}, {"name": "p", "source": "./p"}]}`
			e := settingsOf(t, c.files)
			var got []string
			for _, s := range e.sources {
				if len(s.hooks) > 0 {
					rel, _ := filepath.Rel(filepath.Dir(e.Env("HOME")), s.path)
					got = append(got, rel)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("hooks of %q count, want %q", got, c.want)
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
