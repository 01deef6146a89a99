package settings

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/state"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		matcher string
		want    bool
	}{
		{"", true}, {"*", true}, {"AskUserQuestion", true}, {"Bash|AskUserQuestion", true}, {"Bash, AskUserQuestion", true}, {"Ask.*", true}, {".*", true}, {"^Ask", true},
		{"Ask", false}, {"Bash", false}, {"askuserquestion", false}, {"AskUserQuestionX", false}, {"mcp__.*", false}, {"(", false},
	} {
		if got := matches(c.matcher, ask); got != c.want {
			t.Errorf("%q: %v", c.matcher, got)
		}
	}
}

// scene is a HOME and a project with settings files.
type scene struct {
	*testing.T
	dir string
	env map[string]string
}

func newScene(t *testing.T) *scene {
	dir := t.TempDir()
	return &scene{t, dir, map[string]string{"HOME": dir + "/home", "CLAUDE_PROJECT_DIR": dir + "/src/deep/project", "CLAUDE_CODE_MANAGED_SETTINGS_PATH": dir + "/managed"}}
}

func (s *scene) write(path, text string) {
	s.Helper()
	path = filepath.Join(s.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
}

// found is what a check of that id found first.
func (s *scene) found(id string) state.Finding {
	s.Helper()
	return s.all(id)[0]
}

// all is what a check of that id found.
func (s *scene) all(id string) []state.Finding {
	s.Helper()
	s.Setenv("PATH", s.dir) // no claude
	getenv := func(name string) string { return s.env[name] }
	for _, c := range Checks(getenv, state.LoadConfig(getenv, s.env["CLAUDE_PROJECT_DIR"])) {
		if c.ID == id {
			return c.Run(context.Background())
		}
	}
	s.Fatalf("no check %s", id)
	return nil
}

// Of a switch the file counts that ranks highest: managed, then local, then project, then user.
func TestSwitchesRank(t *testing.T) {
	const user, project, local, managed = "home/.claude/settings.json", "src/deep/project/.claude/settings.json", "src/deep/project/.claude/settings.local.json", "managed/managed-settings.json"
	on, off := `{"disableAllHooks": true}`, `{"disableAllHooks": false}`
	for _, c := range []struct {
		name  string
		files map[string]string
		want  state.Level
	}{
		{"nothing", nil, state.LevelOK},
		{"the user's", map[string]string{user: on}, state.LevelFail},
		{"local over user", map[string]string{user: on, local: off}, state.LevelOK},
		{"local over project", map[string]string{project: off, local: on}, state.LevelFail},
		{"managed over local", map[string]string{local: on, managed: off}, state.LevelOK},
		{"a managed folder", map[string]string{local: off, "managed/managed-settings.d/10.json": on}, state.LevelFail},
		{"no switch", map[string]string{user: `{"disableAllHooks": "yes"}`}, state.LevelOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			for path, text := range c.files {
				s.write(path, text)
			}
			if f := s.found("claude.disabled"); f.Level != c.want {
				t.Errorf("%+v", f)
			}
		})
	}
}

// allowManagedHooksOnly is an administrator's word: in a person's own file it says nothing.
func TestManagedOnlyIsTheAdministrators(t *testing.T) {
	s := newScene(t)
	s.write("home/.claude/settings.json", `{"allowManagedHooksOnly": true}`)
	if f := s.found("claude.managed"); f.Level != state.LevelOK {
		t.Errorf("in the user's settings: %+v", f)
	}
	s.write("managed/managed-settings.json", `{"allowManagedHooksOnly": true, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/opt/gchat-hooks hook gchat-session-event"}]}]}}`)
	if f := s.found("claude.managed"); f.Level != state.LevelOK || !strings.Contains(f.What, "ours are among them") {
		t.Errorf("with ours managed: %+v", f)
	}
}

// A folder is trusted when one that it is in is; nobody can tell before Claude Code has a list.
func TestTrustOfParents(t *testing.T) {
	s := newScene(t)
	if f := s.found("claude.trust"); f.Level != state.LevelSkip {
		t.Errorf("without a list: %+v", f)
	}
	for dir, want := range map[string]state.Level{"/src": state.LevelOK, "/src/deep/project": state.LevelOK, "/src/deep/pro": state.LevelWarn, "/src/deep/project/below": state.LevelWarn} {
		b, _ := json.Marshal(map[string]any{"projects": map[string]any{s.dir + dir: map[string]any{"hasTrustDialogAccepted": true}}})
		s.write("home/.claude.json", string(b))
		if f := s.found("claude.trust"); f.Level != want {
			t.Errorf("%s: %+v", dir, f)
		}
	}
	s.env["CLAUDE_PROJECT_DIR"] = s.env["HOME"]
	if f := s.found("claude.trust"); f.Level != state.LevelSkip {
		t.Errorf("home: %+v", f)
	}
}

// Whoever is called for questions, by name or with every tool, may decide about them, and is named without its words.
func TestOthersThatDecide(t *testing.T) {
	s := newScene(t)
	entry := func(event, matcher, command string) string {
		return `{"hooks": {"` + event + `": [{"matcher": "` + matcher + `", "hooks": [{"type": "command", "command": "` + command + `"}]}]}}`
	}
	for _, c := range []struct {
		event, matcher string
		want           state.Level
	}{
		{"PreToolUse", "*", state.LevelWarn}, {"PreToolUse", "", state.LevelWarn}, {"PreToolUse", ".*", state.LevelWarn}, {"PreToolUse", "^(?!Bash$).*", state.LevelWarn},
		{"PreToolUse", "Bash", state.LevelOK}, {"PostToolUse", "AskUserQuestion", state.LevelOK},
		{"PreToolUse", "AskUserQuestion", state.LevelWarn}, {"PermissionRequest", "", state.LevelWarn}, {"PermissionRequest", "Bash", state.LevelOK},
	} {
		s.write("home/.claude/settings.json", entry(c.event, c.matcher, "KEY=hush /opt/bin/rival --token hush"))
		f := s.found("claude.others")
		named := c.matcher != "Bash" && c.event != "PostToolUse"
		if f.Level != c.want || strings.Contains(f.What, "hush") || strings.Contains(f.What, "rival") != named || strings.Contains(f.What, "settings.json") != named {
			t.Errorf("%s %q: %+v", c.event, c.matcher, f)
		}
	}
}

// A hook for every tool is a line a file, whose mend is what can be done there. Ours, and what runs in the background, is none.
func TestOthersForEveryTool(t *testing.T) {
	s := newScene(t)
	entry := func(hooks string) string {
		return `{"enabledPlugins": {"b@m": true}, "hooks": {"PreToolUse": [{"hooks": [` + hooks + `]}, {"matcher": "*", "hooks": [` + hooks + `]}]}}`
	}
	const log, ours = `{"type": "command", "command": "/opt/log"}`, `{"type": "command", "command": "/opt/gchat-hooks hook gchat-session-event"}`
	s.write("home/.claude/plugins/installed_plugins.json", `{"version": 2, "plugins": {"b@m": [{"installPath": "`+s.dir+`/plugin"}]}}`)
	s.write("home/.claude/settings.json", entry(ours+`, {"type": "command", "command": "/opt/beside", "async": true}`))
	s.write("plugin/hooks/hooks.json", entry(ours))
	if fs := s.all("claude.others"); len(fs) != 1 || fs[0].Level != state.LevelOK {
		t.Errorf("%+v", fs)
	}
	for path, mend := range map[string]string{
		"src/deep/project/.claude/settings.json": "narrow its matcher in " + s.dir + "/src/deep/project/.claude/settings.json",
		"plugin/hooks/hooks.json":                "claude plugin disable b@m",
		"managed/managed-settings.json":          "ask your administrator",
	} {
		s.write(path, entry(log))
		fs := s.all("claude.others")
		if len(fs) != 1 || fs[0].Level != state.LevelWarn || !strings.Contains(fs[0].What, "for every tool") || !strings.Contains(fs[0].Mend, mend) {
			t.Errorf("%s: %+v", path, fs)
		}
		s.write(path, `{}`)
	}
}

// What an entry starts is found as a shell, or the system, would find it.
func TestProgramOfAnEntry(t *testing.T) {
	s := newScene(t)
	s.write("home/bin/gchat-hooks", "#!/bin/sh\n")
	if err := os.Chmod(s.dir+"/home/bin/gchat-hooks", 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("plain", "")
	getenv := func(name string) string { return s.env[name] }
	s.Setenv("PATH", s.dir+"/home/bin")
	for _, c := range []struct {
		e    Entry
		well bool
	}{
		{Entry{Command: "~/bin/gchat-hooks hook x"}, true}, {Entry{Command: "'" + s.dir + "/home/bin/gchat-hooks' hook x"}, true}, {Entry{Command: "$HOME/bin/gchat-hooks hook x"}, true},
		{Entry{Command: "gchat-hooks hook x"}, true},
		{Entry{Command: s.dir + "/home/bin/gchat-hooks", Args: []string{"hook", "x"}}, true},
		{Entry{Command: "~/bin/gchat-hooks", Args: []string{"hook", "x"}}, false},
		{Entry{Command: s.dir + "/plain hook x"}, false}, {Entry{Command: s.dir + "/home/bin hook x"}, false},
	} {
		if path, why := (registered{Entry: c.e}).program(getenv); (why == "") != c.well {
			t.Errorf("%+v: %s, %s", c.e, path, why)
		}
	}
}

// Whatever stands in a settings file, the doctor reads on.
func FuzzReadSource(f *testing.F) {
	for _, s := range []string{``, `{}`, `[]`, `{"hooks": []}`, `{"hooks": {"Stop": {}}}`, `{"hooks": {"Stop": [null, {"hooks": [1, {"command": 2}]}]}}`, `{"permissions": 1, "env": []}`, "\xef\xbb\xbf{}", `{"hooks": {"PreToolUse": [{"matcher": "[", "hooks": [{"command": ""}]}]}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := &source{scope: User, path: "settings.json"}
		s.parse([]byte(text), "")
		a := &audit{env: func(string) string { return "" }, cfg: &state.Config{}, sources: func() []*source { return []*source{s} }}
		a.versionErr = errNoClaude
		a.versionOnce.Do(func() {})
		for _, check := range []func(context.Context) []state.Finding{
			a.checkSettings, a.checkHooks, a.checkProgram, a.checkTwice, a.checkLimit, a.checkRewake, a.checkOthers, a.checkDisabled, a.checkManaged, a.checkIdle, a.checkPrompting,
		} {
			if len(check(t.Context())) == 0 {
				t.Error("a check has no finding")
			}
		}
	})
}

// The same handler of two settings files is started once by Claude Code; another path, or a plugin's copy, is not.
func TestTwice(t *testing.T) {
	const in = `{"enabledPlugins": {"b@m": true}, "hooks": {"PreToolUse": [{"matcher": "AskUserQuestion", "hooks": [{"type": "command", "command": "/opt/gchat-hooks hook gchat-ask-user-forward"}]}]}}`
	for _, c := range []struct {
		name, path, text string
		want             state.Level
	}{
		{"the same handler", "src/deep/project/.claude/settings.json", in, state.LevelOK},
		{"another path", "src/deep/project/.claude/settings.json", strings.Replace(in, "/opt/", "/usr/bin/", 1), state.LevelWarn},
		{"another matcher that takes it", "src/deep/project/.claude/settings.json", strings.Replace(in, `"AskUserQuestion"`, `"*"`, 1), state.LevelWarn},
		{"another matcher", "src/deep/project/.claude/settings.json", strings.Replace(in, `"AskUserQuestion"`, `"Bash"`, 1), state.LevelOK},
		{"another event", "src/deep/project/.claude/settings.json", strings.Replace(in, `"PreToolUse"`, `"PermissionRequest"`, 1), state.LevelOK},
		{"a plugin's copy", "plugin/hooks/hooks.json", in, state.LevelWarn},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			s.write("home/.claude/settings.json", in)
			s.write("home/.claude/plugins/installed_plugins.json", `{"version": 2, "plugins": {"b@m": [{"installPath": "`+s.dir+`/plugin"}]}}`)
			s.write(c.path, c.text)
			if f := s.found("claude.twice"); f.Level != c.want {
				t.Errorf("%+v", f)
			}
		})
	}
}

// Two files that share hooks are one line, and its mend is a command that leaves them in one place, with nothing lost.
func TestTwiceIsALineForAPairOfFiles(t *testing.T) {
	entries := func(program string, hooks ...string) string {
		all := []string{}
		for _, h := range hooks {
			event, name, _ := strings.Cut(h, " ")
			all = append(all, `"`+event+`": [{"hooks": [{"type": "command", "command": "`+program+` hook `+name+`"}]}]`)
		}
		return `{"enabledPlugins": {"b@m": true}, "hooks": {` + strings.Join(all, ",") + `}}`
	}
	forward, answered, event, wakes := "PermissionRequest gchat-ask-user-forward", "SessionEnd gchat-ask-user-answered", "SessionStart gchat-session-event", "PreCompact pre-compact-hook"
	const user, project, local, managed, plugin = "home/.claude/settings.json", "src/deep/project/.claude/settings.json", "src/deep/project/.claude/settings.local.json", "managed/managed-settings.json", "plugin/hooks/hooks.json"
	for _, c := range []struct {
		name  string
		files map[string]string
		mend  string
	}{
		{"project", map[string]string{user: entries("/a/gchat-hooks", forward, answered), project: entries("/b/gchat-hooks", forward, answered)}, "gchat-hooks uninstall --project"},
		{"local has more", map[string]string{user: entries("/a/gchat-hooks", forward), local: entries("/b/gchat-hooks", forward, event, wakes)}, "gchat-hooks uninstall --local && gchat-hooks install --preset report --preset wake"},
		{"project and local", map[string]string{project: entries("/a/gchat-hooks", forward), local: entries("/b/gchat-hooks", forward, event)}, "gchat-hooks uninstall --local && gchat-hooks install --project --preset report"},
		{"managed", map[string]string{user: entries("/a/gchat-hooks", forward), managed: entries("/b/gchat-hooks", forward)}, "gchat-hooks uninstall"},
		{"plugin", map[string]string{user: entries("/a/gchat-hooks", forward, answered), plugin: entries("/a/gchat-hooks", forward, answered)}, "claude plugin disable b@m"},
		{"one file", map[string]string{project: `{"hooks": {"SessionEnd": [{"hooks": [{"command": "/a/gchat-hooks hook gchat-session-event"}, {"command": "/b/gchat-hooks hook gchat-session-event"}]}]}}`}, "gchat-hooks install --project --preset report"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			s.write("home/.claude/plugins/installed_plugins.json", `{"version": 2, "plugins": {"b@m": [{"installPath": "`+s.dir+`/plugin"}]}}`)
			for path, text := range c.files {
				s.write(path, text)
			}
			if fs := s.all("claude.twice"); len(fs) != 1 || fs[0].Mend != c.mend {
				t.Errorf("%+v", fs)
			}
		})
	}
}

// A mend writes the settings that are at fault, with the presets that stand there; a plugin's and an administrator's are theirs.
func TestMendsAreForTheirFile(t *testing.T) {
	short := `{"enabledPlugins": {"b@m": true}, "hooks": {"PermissionRequest": [{"hooks": [{"type": "command", "command": "/a/gchat-hooks hook gchat-ask-user-forward", "timeout": 60}]}],
		"Stop": [{"hooks": [{"type": "command", "command": "/a/gchat-hooks hook gchat-stop-gate"}]}]}}`
	for path, want := range map[string]string{
		"home/.claude/settings.json":                   "gchat-hooks install --preset system3",
		"src/deep/project/.claude/settings.json":       "gchat-hooks install --project --preset system3",
		"src/deep/project/.claude/settings.local.json": "gchat-hooks install --local --preset system3",
		"plugin/hooks/hooks.json":                      "mend or update the plugin b@m (",
		"managed/managed-settings.json":                "ask your administrator to mend ",
	} {
		s := newScene(t)
		s.write("home/.claude/plugins/installed_plugins.json", `{"version": 2, "plugins": {"b@m": [{"installPath": "`+s.dir+`/plugin"}]}}`)
		s.write("home/.claude/settings.json", `{"enabledPlugins": {"b@m": true}}`)
		s.write(path, short)
		if f := s.found("claude.limit"); f.Level != state.LevelWarn || !strings.HasPrefix(f.Mend, want) {
			t.Errorf("%s: %+v", path, f)
		}
	}
}
