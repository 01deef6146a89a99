package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
		"Notification "+dialogTypes+" gchat-ask-user-forward 10", "Stop gchat-ask-user-rewake rewake 86400",
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
		{nil, answer}, {[]string{"answer"}, answer}, {[]string{"report"}, report}, {[]string{"system3"}, system3}, {[]string{"wake"}, wake}, {[]string{"send"}, send},
		{[]string{"wake", "answer", "report"}, slices.Concat(report, wake)},
		{[]string{"approve"}, approve}, {[]string{"answer", "approve"}, approve},
		{[]string{"report", "approve"}, slices.Concat(approve, report[7:])},
		{[]string{"approve", "system3"}, slices.Concat(approve, report[7:], system3[14:16])},
	} {
		if got := entryWords(newestEntries(t, test.presets...)); !slices.Equal(got, test.want) {
			t.Errorf("%q:\n%s", test.presets, strings.Join(got, "\n"))
		}
	}
	if _, err := PresetHooks("answer", "all"); err == nil || err.Error() != "no such preset: all (there are answer, approve, report, system3, wake, send)" {
		t.Error(err)
	}
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
		if ok == strings.HasPrefix(test.version, "unknown") || v.CheckSupported() != nil {
			t.Errorf("%q is %v: %v", test.version, v, v.CheckSupported())
		}
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
			if (e.Args != nil) != test.args || !strings.HasPrefix(e.Command, command) || name == "" {
				t.Errorf("%s: %+v", v, e)
			}
		}
	}
	err = Version{2, 1, 45}.CheckSupported()
	if err == nil || err.Error() != "Claude Code 2.1.45 is too old: update it (`claude update`)" {
		t.Error(err)
	}
}

func TestHookTable_TooOldIsRefused(t *testing.T) {
	for version, want := range map[string]string{
		"2.1.45": "Claude Code 2.1.45 is too old: update it (`claude update`)", "1.0.99": "Claude Code 1.0.99 is too old: update it (`claude update`)",
		"2.1.100": "Claude Code 2.1.100 is too old: update it (`claude update`)", "2.1.101": "", "2.1.197": "", "2.2.0": "", "3.0.0": "",
	} {
		v, _ := ParseVersion(version)
		if err := v.CheckSupported(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
	if err := (Version{}).CheckSupported(); err != nil {
		t.Errorf("unknown: %v", err)
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
		if got := partOf(hookTable[first].Event, hookTable[first].Name); got != r.part {
			t.Errorf("%s is known by a hook of %s", r.part, got)
		}
		if r.part != "wake" && !hooks.IsName(r.Name) {
			t.Errorf("no hook %s", r.Name)
		}
	}
}

func hasSameWords(a, b []Entry) bool {
	return slices.Equal(slices.Sorted(slices.Values(entryWords(a))), slices.Sorted(slices.Values(entryWords(b))))
}

// One preset replaces another, and an upgrade keeps what was chosen. That holds also if
// presets share a hook, and if the person gave it another matcher.
func TestHookTable_UpgradeKeepsTheChoice(t *testing.T) {
	file := File{Path: filepath.Join(t.TempDir(), "settings.json"), Mode: 0o600}
	for _, test := range []struct{ presets, also, want []string }{
		{presets: []string{"answer"}}, {presets: []string{"approve"}}, {presets: []string{"answer"}}, {presets: []string{"report"}},
		{presets: []string{"approve"}}, {presets: []string{"report", "approve"}}, {presets: []string{"system3"}},
		{presets: []string{"system3", "approve"}}, {presets: []string{"send"}}, {presets: []string{"wake"}},
		{[]string{"report"}, []string{"approve"}, []string{"report", "approve"}},
		{[]string{"system3", "wake"}, []string{"approve"}, []string{"system3", "wake", "approve"}},
	} {
		if test.want == nil {
			test.want = test.presets
		}
		entries := newestEntries(t, test.presets...)
		if _, err := file.Install(entries, false); err != nil {
			t.Fatal(err)
		}
		hooks, err := file.OwnHooks(test.also...)
		kept, _ := EntriesFor("/b/gchat-hooks", Version{2, 1, 329}, hooks)
		if err != nil || !hasSameWords(kept, newestEntries(t, test.want...)) {
			t.Errorf("%q and %q: %v\n%s", test.presets, test.also, err, strings.Join(entryWords(kept), "\n"))
		}
	}
	for matcher, want := range map[string]string{"AskUserQuestion|Bash": "answer", "*": "approve"} {
		entries := newestEntries(t, want)
		for i := range entries {
			if entries[i].Event == "PermissionRequest" {
				entries[i].Matcher = matcher
			}
		}
		if _, err := file.Install(entries, false); err != nil {
			t.Fatal(err)
		}
		hooks, err := file.OwnHooks()
		kept, _ := EntriesFor("/b/gchat-hooks", Version{2, 1, 329}, hooks)
		if err != nil || !hasSameWords(kept, newestEntries(t, want)) {
			t.Errorf("%s: %v\n%s", matcher, err, strings.Join(entryWords(kept), "\n"))
		}
	}
	before, err := os.ReadFile(file.Path)
	// These belong to the preset approve.
	ofOthers := strings.Count(string(before), dialogTypes) + strings.Count(string(before), `"Elicitation"`)
	if err != nil || strings.Count(string(before), "gchat-ask-user-forward") != 2+ofOthers {
		t.Errorf("%v: the settings are\n%s", err, before)
	}
	if _, err := file.Uninstall(false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file.Path); err == nil {
		t.Error("an uninstall left the file")
	}
}
