package settings

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/golden"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/hooks"
)

func entryWords(entries []Entry) (all []string) {
	for _, e := range entries {
		name := e.Command[strings.LastIndex(e.Command, " ")+1:]
		if e.Args != nil {
			name = e.Args[1]
		}
		s := e.Event + " " + e.Matcher + " " + name
		if e.AsyncRewake {
			s += " rewake"
		}
		all = append(all, strings.Join(strings.Fields(fmt.Sprintf("%s %d", s, e.Timeout)), " "))
	}
	return all
}

func TestHookTable_HooksOfEachPreset(t *testing.T) {
	answer := []string{
		"PreToolUse AskUserQuestion gchat-ask-user-forward 86400",
		"PermissionRequest AskUserQuestion gchat-ask-user-forward 86400",
		"PostToolUse AskUserQuestion gchat-ask-user-answered 10",
		"UserPromptSubmit gchat-ask-user-answered 10",
		"Stop gchat-ask-user-answered 10",
		"StopFailure gchat-ask-user-answered 10",
		"SessionEnd gchat-ask-user-answered 10",
	}
	approve := slices.Clone(answer)
	approve[1] = "PermissionRequest gchat-ask-user-forward 86400"
	approve = append(approve, "PostToolBatch gchat-ask-user-answered 10",
		"Elicitation gchat-ask-user-forward 86400", "ElicitationResult gchat-ask-user-answered 10",
		"Notification "+dialogTypes+" gchat-ask-user-forward 10",
		"Stop gchat-ask-user-rewake rewake 86400",
		"PermissionDenied gchat-ask-user-answered 10", "SubagentStop gchat-ask-user-answered 10",
		"UserPromptSubmit gchat-session-event 10", "SessionStart fork|resume gchat-ask-user-answered 10")
	report := slices.Concat(answer, []string{
		"Notification gchat-notification-dispatch 10",
		"UserPromptSubmit gchat-notification-dispatch 10",
		"SubagentStop gchat-notification-dispatch 10",
		"StopFailure gchat-notification-dispatch 10",
		"SessionStart gchat-session-event 10",
		"Stop gchat-session-event 10",
		"SessionEnd gchat-session-event 10",
	})
	system3 := slices.Concat(report, []string{
		"Stop gchat-stop-gate 10",
		"PreToolUse AskUserQuestion gchat-ask-user-rewake rewake 86400",
		"Stop gchat-ask-user-rewake rewake 86400",
	})
	wake := []string{
		"Stop stop-hook 600",
		"PreToolUse AskUserQuestion pre-tool-use-hook 30",
		"Notification idle_prompt notification-idle-hook 30",
		"Notification permission_prompt notification-permission-hook 30",
		"SessionEnd session-end-hook 10",
		"PreCompact pre-compact-hook 30",
	}
	send := slices.DeleteFunc(slices.Clone(report), func(s string) bool {
		return strings.HasPrefix(s, "PermissionRequest") || strings.Contains(s, "session-event")
	})
	for _, test := range []struct {
		presets, want []string
	}{
		{nil, answer}, {[]string{"answer"}, answer}, {[]string{"report"}, report},
		{[]string{"system3"}, system3}, {[]string{"wake"}, wake}, {[]string{"send"}, send},
		{[]string{"wake", "answer", "report"}, slices.Concat(report, wake)},
		{[]string{"approve"}, approve}, {[]string{"answer", "approve"}, approve},
		{[]string{"report", "approve"}, slices.Concat(approve, report[7:])},
		{[]string{"approve", "system3"}, slices.Concat(approve, report[7:], system3[14:16])},
	} {
		kit.Equalf(t, entryWords(newestEntries(t, test.presets...)), test.want, "%q", test.presets)
	}
	_, err := PresetHooks("answer", "all")
	wantError(t, err, "no such preset: all (there are answer, approve, report, system3, wake, send)")
}

// What an older Claude Code does not know is left out: with an unknown asyncRewake, a
// session would stand still.
func TestHookTable_FormForEachVersion(t *testing.T) {
	all, err := PresetHooks("system3", "wake")
	kit.NoError(t, err)
	for _, test := range []struct {
		version string
		args    bool
		left    int
	}{
		{"unknown", false, 2},
		{"2.1.101", false, 2},
		{"2.1.138", false, 2},
		{"2.1.139", true, 2},
		{"2.1.197", true, 0},
		{"2.1.329\n", true, 0},
		{"v3.0.0", true, 0},
		{"Now using node v22.3.0 (npm v10.8.1)\n2.1.138 (Claude Code)\n", false, 2},
		{"2.1.138-beta.2 (Claude Code)\nUpdate available: 2.1.400", false, 2},
		{"unknown: node v22.3.0, npm v10.8.1", false, 2},
	} {
		v, ok := ParseVersion(test.version)
		kit.True(t, ok != strings.HasPrefix(test.version, "unknown") && v.CheckSupported() == nil,
			"%q is %v: %v", test.version, v, v.CheckSupported())
		entries, left := EntriesFor("/a b/gchat-hooks", v, all)
		if len(left) != test.left || len(entries)+len(left) != len(all) {
			t.Errorf("%s: %d of %d, left out: %v", v, len(entries), len(all), left)
			continue
		}
		for _, e := range entries {
			command := "'/a b/gchat-hooks' hook "
			if test.args {
				command = "/a b/gchat-hooks"
			}
			_, name := ParseOwnCommand(e.Command, e.Args)
			kit.True(t, (e.Args != nil) == test.args && strings.HasPrefix(e.Command, command) &&
				name != "", "%s: %+v", v, e)
		}
	}
}

func TestHookTable_TooOldIsRefused(t *testing.T) {
	for _, version := range []string{"2.1.45", "1.0.99", "2.1.100"} {
		v, _ := ParseVersion(version)
		wantError(t, v.CheckSupported(),
			"Claude Code "+version+" is too old: update it (`claude update`)")
	}
	for _, version := range []string{"2.1.101", "2.1.197", "2.2.0", "3.0.0", "unknown"} {
		v, _ := ParseVersion(version)
		kit.NoError(t, v.CheckSupported())
	}
}

// Everything that the table names exists.
func TestHookTable_NamesExist(t *testing.T) {
	for _, r := range hookTable {
		first := slices.IndexFunc(hookTable, func(of struct {
			part string
			Hook
		}) bool {
			return of.part == r.part
		})
		kit.Equalf(t, partOf(hookTable[first].Event, hookTable[first].Name), r.part, "known as")
		kit.Equalf(t, hooks.IsName(r.Name), r.part != "wake", "hook %s", r.Name)
	}
}

// wantKept checks which hooks an upgrade keeps.
func wantKept(t *testing.T, file File, also, want []string) {
	t.Helper()
	hooks, err := file.OwnHooks(also...)
	kit.NoError(t, err)
	kept, _ := EntriesFor("/b/gchat-hooks", Version{2, 1, 329}, hooks)
	got, wanted := entryWords(kept), entryWords(newestEntries(t, want...))
	slices.Sort(got)
	slices.Sort(wanted)
	kit.Equalf(t, got, wanted, "%q and %q", want, also)
}

// One preset replaces another, and an upgrade keeps what was chosen. That holds also if
// presets share a hook, and if the person gave it another matcher.
func TestHookTable_UpgradeKeepsTheChoice(t *testing.T) {
	file := File{Path: filepath.Join(t.TempDir(), "settings.json"), Mode: 0o600}
	for _, test := range []struct{ presets, also, want []string }{
		{presets: []string{"answer"}}, {presets: []string{"approve"}},
		{presets: []string{"answer"}}, {presets: []string{"report"}},
		{presets: []string{"approve"}}, {presets: []string{"report", "approve"}},
		{presets: []string{"system3"}},
		{presets: []string{"system3", "approve"}}, {presets: []string{"send"}},
		{presets: []string{"wake"}},
		{[]string{"report"}, []string{"approve"}, []string{"report", "approve"}},
		{[]string{"system3", "wake"}, []string{"approve"}, []string{"system3", "wake", "approve"}},
	} {
		if test.want == nil {
			test.want = test.presets
		}
		mustInstall(t, file, newestEntries(t, test.presets...))
		wantKept(t, file, test.also, test.want)
	}
	for matcher, want := range map[string]string{"AskUserQuestion|Bash": "answer", "*": "approve"} {
		entries := newestEntries(t, want)
		for i := range entries {
			if entries[i].Event == "PermissionRequest" {
				entries[i].Matcher = matcher
			}
		}
		mustInstall(t, file, entries)
		wantKept(t, file, nil, []string{want})
	}
	before := kit.ReadFile(t, file.Path)
	// These belong to the preset approve.
	ofOthers := strings.Count(before, dialogTypes) + strings.Count(before, `"Elicitation"`)
	kit.Equalf(t, strings.Count(before, "gchat-ask-user-forward"), 2+ofOthers, "%s", before)
	mustUninstall(t, file)
	wantFiles(t, file, 0)
}

// There is a plugin for each preset, with exactly the hooks of the table. Their commands
// are a shell's lines, which every version supports.
func TestHookTable_PluginsHaveItsHooks(t *testing.T) {
	var marketplace struct {
		Plugins []struct{ Name, Source string }
	}
	root := filepath.Join("..", "..")
	list := kit.ReadFile(t, filepath.Join(root, ".claude-plugin", "marketplace.json"))
	kit.NoError(t, json.Unmarshal([]byte(list), &marketplace))
	kit.Equalf(t, len(marketplace.Plugins), len(PresetNames()), "plugins")
	for i, preset := range PresetNames() {
		p := marketplace.Plugins[i]
		if source := "./plugins/" + preset; p.Source != source || preset != "answer" &&
			p.Name != "gchat-hooks-"+preset {
			t.Errorf("%s is %s in %s, want %s", preset, p.Name, p.Source, source)
		}
		comparePlugin(t, filepath.Join(root, "plugins", preset, "hooks", "hooks.json"), preset)
	}
}

func comparePlugin(t *testing.T, path, preset string) {
	t.Helper()
	hooks, err := PresetHooks(preset)
	kit.NoError(t, err)
	var entries []Entry
	for _, h := range hooks {
		e := Entry{Event: h.Event, Matcher: h.Matcher, Command: pluginPath + " hook " + h.Name,
			Timeout: h.Timeout, AsyncRewake: h.WakesSession}
		// otherwise an install beside the plugin would not be seen
		_, name := ParseOwnCommand(e.Command, nil)
		kit.Equalf(t, name, h.Name, "%q is known as", e.Command)
		entries = append(entries, e)
	}
	want, err := Install(nil, entries)
	kit.NoError(t, err)
	golden.Compare(t, path, string(want))
}

// claude may be a wrapper that does other things as well.
func TestHookTable_InstalledVersion(t *testing.T) {
	for _, test := range []struct{ name, script, err string }{
		{"as it is", "echo '2.1.197 (Claude Code)'", ""},
		{"a child of it holds the pipe", "sleep 5 & echo '2.1.197 (Claude Code)'", ""},
		{"it fails", "echo 'node 18.0.0 is too old'; exit 1", "exit status 1"},
		{"no version", "echo hello", "prints no version"},
		{"never", "exec sleep 60", "context deadline exceeded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			home := t.TempDir()
			kit.WriteFile(t, filepath.Join(home, ".local/bin/claude"),
				"#!/bin/sh\n"+test.script+"\n", 0o755)
			t.Setenv("PATH", "/usr/bin:/bin")
			wait := time.Minute
			if test.name == "never" {
				wait = 50 * time.Millisecond
			}
			v, err := InstalledVersion(t.Context(), func(string) string { return home }, wait)
			if test.err != "" {
				wantError(t, err, test.err)
				return
			}
			kit.NoError(t, err)
			kit.Equal(t, v, Version{2, 1, 197})
		})
	}
}
