package doctor

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

const (
	userFile    = "home/.claude/settings.json"
	projectFile = "project/.claude/settings.json"
	localFile   = "project/.claude/settings.local.json"
	managedFile = "managed/managed-settings.json"
)

// newExamOf is a person with these settings files, by their place.
func newExamOf(t *testing.T, files map[string]string) *exam {
	t.Helper()
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		kit.WriteFile(t, path, text, 0o644)
	}
	for path, text := range files {
		write(path, text)
	}
	env := func(name string) string {
		return map[string]string{
			"HOME": dir + "/home", "CLAUDE_PROJECT_DIR": dir + "/project",
			"CLAUDE_CODE_MANAGED_SETTINGS_PATH": dir + "/managed",
		}[name]
	}
	return &exam{Options: Options{Env: env}, cfg: &config.Config{}, sources: readSources(env)}
}

// levelsOf are those of what a check finds.
func (e *exam) levelsOf(t *testing.T, id string) (levels []Level) {
	t.Helper()
	r := &result{check: checks[slices.IndexFunc(checks, func(c check) bool { return c.id == id })]}
	r.run(e, t.Context(), r)
	for _, f := range r.found {
		levels = append(levels, f.Level)
	}
	return levels
}

// A switch counts in the file with the highest rank: managed, then local, then project,
// then user. A switch for administrators counts only in the administrator's file.
func TestClaudeChecks_SwitchesRank(t *testing.T) {
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
		{
			"managed hooks only, with ours",
			map[string]string{managedFile: `{` + managedOnly + `, ` + ours + `}`}, OK,
		},
		{
			"managed hooks only, by the user",
			map[string]string{userFile: `{` + managedOnly + `}`}, OK,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			levels := newExamOf(t, c.files).levelsOf(t, "claude.settings")
			kit.Equalf(t, levels, []Level{c.want}, "what is found")
		})
	}
}

// A plugin of ours has the hooks of the preset in its name. If managed settings enable
// it, it is managed. If only managed hooks are allowed, the person's own hooks and
// plugins do not count.
func TestClaudeChecks_PluginsThatCount(t *testing.T) {
	const only, approve = `"allowManagedHooksOnly": true`, `"enabledPlugins": {"gchat-hooks-approve@here": true}`
	const own = `{"hooks": {"Stop": [{"hooks": [{"command": "/a/gchat-hooks hook ` +
		`gchat-stop-gate"}]}]}}`
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string // the sources whose hooks count
	}{
		{
			"managed", map[string]string{managedFile: `{` + only + `, ` + approve + `}`},
			[]string{"the plugin gchat-hooks-approve@here"},
		},
		{"by a part of the settings", map[string]string{
			managedFile:                          `{` + approve + `}`,
			"managed/managed-settings.d/20.json": `{` + only + `}`,
		},
			[]string{"the plugin gchat-hooks-approve@here"}},
		{"switched off", map[string]string{
			userFile:  `{` + approve + `}`,
			localFile: `{"enabledPlugins": {"gchat-hooks-approve@here": false}}`,
		}, nil},
		{
			"by the person",
			map[string]string{managedFile: `{` + only + `}`, userFile: `{` + approve + `}`},
			nil,
		},
		{
			"by the person, as they may", map[string]string{userFile: `{` + approve + `}`},
			[]string{"the plugin gchat-hooks-approve@here"},
		},
		{
			"the default one",
			map[string]string{userFile: `{"enabledPlugins": {"gchat-hooks@here": true}}`},
			[]string{"the plugin gchat-hooks@here"},
		},
		{"the person's own", map[string]string{managedFile: `{` + only + `}`, userFile: own}, nil},
		{"another's", map[string]string{
			userFile: `{"enabledPlugins": {"report@here": true, "gchat-hooks-x@": true, "": ` +
				`true, "@": true}}`,
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, s := range newExamOf(t, c.files).sources {
				if len(s.hooks) > 0 {
					got = append(got, s.path)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("hooks of %q count, want %q", got, c.want)
			}
		})
	}
}

// Whatever is in a settings file, the doctor reads on.
func FuzzClaudeChecks_AnySettings(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `[]`, `{"hooks": []}`, `{"hooks": {"Stop": {}}}`,
		`{"hooks": {"Stop": [null, {"hooks": [1, {"command": 2}]}]}}`,
		`{"permissions": 1, "env": []}`, "\xef\xbb\xbf{}",
		`{"hooks": {"PreToolUse": [{"matcher": "[", "hooks": [{"command": ""}]}]}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := &source{path: "settings.json"}
		s.parse([]byte(text))
		e := &exam{cfg: &config.Config{}, sources: []*source{s}}
		e.Env = func(string) string { return "" }
		for _, c := range checks {
			if strings.HasPrefix(c.id, "claude.") && c.id != "claude.version" &&
				c.id != "claude.trust" {
				r := &result{check: c}
				if c.run(e, t.Context(), r); len(r.found) == 0 {
					t.Errorf("%s has no finding", c.id)
				}
			}
		}
	})
}

func TestClaudeChecks_FindFaults(t *testing.T) {
	checkFaults(t, []plantedFault{
		{
			"no hooks", "claude.hooks", Fail, "no hook of gchat-hooks", "gchat-hooks install",
			func(p *doctorHome) { p.presets = nil },
		},
		{
			"no PermissionRequest", "claude.hooks", Fail,
			"PermissionRequest", "gchat-hooks install --preset answer",
			installWithout("report", "PermissionRequest"),
		},
		{
			"no PostToolUse", "claude.hooks", Warn,
			"PostToolUse", "gchat-hooks install --preset answer",
			installWithout("report", "PostToolUse"),
		},
		{
			"only an agent's hooks", "claude.hooks", Fail,
			"PreToolUse", "gchat-hooks install --preset answer",
			func(p *doctorHome) { p.presets = []string{"wake"} },
		},
		{
			"permissions without PostToolBatch", "claude.hooks", Warn,
			"PostToolBatch", "gchat-hooks install --preset approve",
			installWithout("approve", "PostToolBatch"),
		},
		{
			"permissions without the hook for them", "claude.hooks", Fail,
			"is not registered on PermissionRequest", "gchat-hooks install --preset approve",
			installWithout("approve", "PermissionRequest"),
		},
		{
			"permissions with the hook for questions", "claude.hooks", Fail,
			"is not registered on PermissionRequest", "gchat-hooks install --preset approve",
			func(p *doctorHome) {
				p.presets = []string{"approve"}
				entries := p.hookEntries()
				for i := range entries {
					if entries[i].Event == "PermissionRequest" {
						entries[i].Matcher = "AskUserQuestion"
					}
				}
				p.installHooks(entries)
			},
		},
		{
			"no hook for the next instruction", "claude.hooks", Warn,
			"is not registered on Stop", "gchat-hooks install --preset approve",
			installWithout("approve", "Stop"),
		},
		{
			"a program that is gone", "claude.hooks", Fail,
			"/nowhere/gchat-hooks", "gchat-hooks install",
			func(p *doctorHome) {
				p.writeFile(filepath.Join(p.project, ".claude", "settings.local.json"),
					`{"hooks": {"PreCompact": [`+
						`{"matcher": "", "hooks": [{"type": "command", "command": `+
						`"/nowhere/gchat-hooks hook pre-compact-hook"}]}]}}`, 0o644)
			},
		},
		{
			"settings with a comment", "claude.settings", Fail,
			"a comment or a trailing comma", "correct its JSON",
			func(p *doctorHome) {
				p.writeFile(filepath.Join(p.project, ".claude", "settings.json"),
					"{\n  // mine\n  \"env\": {}\n}\n", 0o644)
			},
		},
		{
			"deny mode without a waker", "claude.hooks", Warn,
			"no gchat-ask-user-rewake", "--preset system3",
			configure("ask_mode", "deny"),
		},
		{
			"disableAllHooks", "claude.settings", Fail,
			"disableAllHooks is set", "remove the setting",
			set("disableAllHooks", true),
		},
		{
			"allowManagedHooksOnly", "claude.settings", Fail,
			"allowManagedHooksOnly is set", "administrator",
			func(p *doctorHome) {
				p.writeFile(filepath.Join(p.env["CLAUDE_CODE_MANAGED_SETTINGS_PATH"],
					"managed-settings.json"), `{"allowManagedHooksOnly": true}`, 0o644)
			},
		},
		{
			"a plugin whose folder is gone", "claude.settings", Fail,
			"the plugin gchat-hooks-report@gchat-hooks is gone: /nowhere/0.1.0", "/reload-plugins",
			func(p *doctorHome) {
				p.settings["enabledPlugins"] = map[string]bool{
					"gchat-hooks-report@gchat-hooks": true,
				}
				p.writeJSON(filepath.Join(p.home, ".claude", "plugins", "installed_plugins.json"),
					map[string]any{"plugins": map[string]any{
						"gchat-hooks-report@gchat-hooks": []map[string]string{
							{"installPath": "/nowhere/0.1.0"},
						}}})
			},
		},
		{
			"a folder that is not trusted", "claude.trust", Warn,
			"was not told to trust", "start claude",
			func(p *doctorHome) {
				p.writeJSON(filepath.Join(p.home, ".claude.json"),
					map[string]any{"projects": map[string]any{}})
			},
		},
		{
			"askUserQuestionTimeout", "claude.settings", Warn, `"60s"`, `"never"`,
			set("askUserQuestionTimeout", "60s"),
		},
		{
			"AskUserQuestion denied", "claude.settings", Fail,
			"permissions.deny", "remove the setting",
			set("permissions", map[string]any{"deny": []string{"AskUserQuestion"}}),
		},
		{
			"an old Claude Code", "claude.version", Fail, "2.1.45 is too old", "claude update",
			func(p *doctorHome) { p.claude = "2.1.45 (Claude Code)" },
		},
		{
			"no Claude Code", "claude.version", Warn, "not on PATH", "install Claude Code",
			func(p *doctorHome) {
				p.presets = []string{"answer"}
				p.installHooks(p.hookEntries())
				p.claude = ""
			},
		},
		{
			"auto mode behind a gateway", "claude.waits", Warn,
			"but gateway.example:8443 does not pass auto mode's check on to", "setup --approve",
			func(p *doctorHome) {
				p.presets = []string{"approve"}
				p.env["ANTHROPIC_BASE_URL"] = "https://gateway.example:8443"
			},
		},
		{
			"auto mode behind a gateway, in the settings", "claude.waits", Warn,
			"gateway.example", "defaultMode",
			func(p *doctorHome) {
				p.presets = []string{"approve"}
				p.settings["env"] = map[string]any{
					"ANTHROPIC_BASE_URL": "https://gateway.example", "OTHER": 7,
				}
				p.settings["permissions"] = map[string]any{"defaultMode": "auto"}
			},
		},
		{
			"a session that waits in its terminal", "claude.waits", Warn,
			"shop waits only in its terminal", "answer it in that terminal",
			func(p *doctorHome) {
				_, err := state.SessionsIn(state.UserStateDir(p.getenv)).Change("s",
					func(s *state.Session) {
						s.Name, s.Dialog = "shop", state.NewDialog(true, "")
					})
				p.check(err)
			},
		},
	})
}

// installWithout writes the hooks of a preset but those on an event; of those on Stop it
// leaves out the waking one.
func installWithout(preset, event string) func(p *doctorHome) {
	return func(p *doctorHome) {
		p.presets = []string{preset}
		p.installHooks(slices.DeleteFunc(p.hookEntries(), func(e settings.Entry) bool {
			return e.Event == event && e.AsyncRewake == (event == "Stop")
		}))
	}
}
