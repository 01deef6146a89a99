package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/hooks"
)

func words(entries []Entry) (all []string) {
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

func TestPresets(t *testing.T) {
	answer := []string{
		"PreToolUse AskUserQuestion gchat-ask-user-forward 86400",
		"PermissionRequest AskUserQuestion gchat-ask-user-forward 86400",
		"PostToolUse AskUserQuestion gchat-ask-user-answered 10",
		"UserPromptSubmit gchat-ask-user-answered 10",
		"Stop gchat-ask-user-answered 10",
		"StopFailure gchat-ask-user-answered 10",
		"SessionEnd gchat-ask-user-answered 10",
	}
	report := slices.Concat(answer, []string{
		"Notification gchat-notification-dispatch 10",
		"SubagentStop gchat-notification-dispatch 10",
		"StopFailure gchat-notification-dispatch 10",
		"SessionStart gchat-session-event 10",
		"Stop gchat-session-event 10",
		"SessionEnd gchat-session-event 10",
	})
	system3 := slices.Concat(report, []string{
		"PreToolUse AskUserQuestion gchat-ask-user-rewake rewake 86400",
		"Stop gchat-ask-user-rewake rewake 86400",
		"Stop gchat-stop-gate 10",
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
	approve := slices.Concat([]string{answer[0], "PermissionRequest gchat-ask-user-forward 86400",
		"PostToolBatch gchat-ask-user-answered 10", "Stop gchat-ask-user-rewake rewake 86400"}, answer[2:])
	for _, test := range []struct {
		presets, want []string
	}{
		{nil, answer}, {[]string{"answer"}, answer}, {[]string{"report"}, report}, {[]string{"system3"}, system3}, {[]string{"wake"}, wake}, {[]string{"send"}, send},
		{[]string{"wake", "answer", "report"}, slices.Concat(report, wake)},
		{[]string{"approve"}, approve}, {[]string{"answer", "approve"}, approve},
	} {
		if got := words(newest(t, test.presets...)); !slices.Equal(got, test.want) {
			t.Errorf("%q:\n%s", test.presets, strings.Join(got, "\n"))
		}
	}
	if _, err := Hooks("answer", "all"); err == nil || err.Error() != "no such preset: all (there are answer, approve, report, system3, wake, send)" {
		t.Error(err)
	}
}

// What an older Claude Code does not know is left out: with an unknown asyncRewake a session would stand still.
func TestVersions(t *testing.T) {
	all, err := Hooks("system3", "wake")
	if err != nil {
		t.Fatal(err)
	}
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
		if ok == strings.HasPrefix(test.version, "unknown") || v.Supported() != nil {
			t.Errorf("%q is %v: %v", test.version, v, v.Supported())
		}
		entries, left := Entries("/a b/gchat-hooks", v, all)
		if len(left) != test.left || len(entries)+len(left) != len(all) {
			t.Errorf("%s: %d of %d, left out: %v", v, len(entries), len(all), left)
			continue
		}
		for _, e := range entries {
			command := "'/a b/gchat-hooks' hook "
			if test.args {
				command = "/a b/gchat-hooks"
			}
			_, name := Ours(e.Command, e.Args)
			if (e.Args != nil) != test.args || !strings.HasPrefix(e.Command, command) || name == "" {
				t.Errorf("%s: %+v", v, e)
			}
		}
	}
	err = Version{2, 1, 45}.Supported()
	if err == nil || err.Error() != "Claude Code 2.1.45 is too old: update it (`claude update`)" {
		t.Error(err)
	}
}

func TestTooOld(t *testing.T) {
	for version, want := range map[string]string{
		"2.1.45": "Claude Code 2.1.45 is too old: update it (`claude update`)", "1.0.99": "Claude Code 1.0.99 is too old: update it (`claude update`)",
		"2.1.100": "Claude Code 2.1.100 is too old: update it (`claude update`)", "2.1.101": "", "2.1.197": "", "2.2.0": "", "3.0.0": "",
	} {
		v, _ := ParseVersion(version)
		if err := v.Supported(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
	if err := (Version{}).Supported(); err != nil {
		t.Errorf("unknown: %v", err)
	}
}

// What the table names exists.
func TestNames(t *testing.T) {
	for _, r := range table {
		both := r.Event == "Stop" && r.Rewake // of two presets, which other hooks of theirs tell apart
		if got := partOf(r.Event, r.Matcher, r.Name); got != r.part && !both {
			t.Errorf("%s on %s is of %s and of %s", r.Name, r.Event, r.part, got)
		}
		if r.part != "wake" && !hooks.Known(r.Name) {
			t.Errorf("no hook %s", r.Name)
		}
	}
}

// An upgrade keeps what a person chose: the hooks in a file say which presets they are of, and one may be added.
func TestHooksOfAFileAreKept(t *testing.T) {
	for _, presets := range [][]string{{"answer"}, {"approve"}, {"report"}, {"report", "approve"}, {"system3"}, {"system3", "approve"}} {
		want := newest(t, presets...)
		b, err := Install(nil, nil, want)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "settings.json")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		hooks, err := File{Path: path}.Hooks()
		if err != nil {
			t.Fatal(err)
		}
		version, _ := ParseVersion("2.1.329")
		if got, _ := Entries(want[0].Command, version, hooks); sorted(got) != sorted(want) {
			t.Errorf("%q: kept %q", presets, words(got))
		}
		more, _ := Entries(want[0].Command, version, With(hooks, "approve"))
		if both := newest(t, append(presets, "approve")...); sorted(more) != sorted(both) {
			t.Errorf("%q with approve: %q", presets, words(more))
		}
	}
}
