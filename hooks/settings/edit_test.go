package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// Every shape of file survives install and uninstall, and a second install changes
// nothing.
func TestEdit_KeepsEveryShape(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			checkBothWays(t, []byte(s.file), entriesOf(t, Version{}, "answer"),
				newestEntries(t, "report", "wake"))
			out, err := Install([]byte(s.file), newestEntries(t, "answer"))
			if lf, crlf := bytes.Count(out, []byte("\n")), bytes.Count(out,
				[]byte("\r\n")); err != nil || strings.Contains(s.name, "CRLF") && lf != crlf {
				t.Errorf("%v: %d of %d lines do not end in CRLF", err, lf-crlf, lf)
			}
		})
	}
}

// What is added looks like the rest of the file, and comes behind what is there.
func TestEdit_LooksLikeTheFile(t *testing.T) {
	entries := []Entry{
		{Event: "PreToolUse", Matcher: "AskUserQuestion", Command: "/b/gchat-hooks",
			Args: []string{"hook", "gchat-ask-user-forward"}, Timeout: 86400, AsyncRewake: true},
		{Event: "Stop", Command: "'/b c/gchat-hooks' hook gchat-stop-gate", Timeout: 10},
	}
	const before = `{
	"model": "opus",
	"hooks": {
		"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]
	}
}
`
	const want = `{
	"model": "opus",
	"hooks": {
		"Stop": [{"hooks": [{"type": "command", "command": "say done"}]},
			{
				"hooks": [
					{
						"type": "command",
						"command": "'/b c/gchat-hooks' hook gchat-stop-gate",
						"timeout": 10
					}
				]
			}],
		"PreToolUse": [
			{
				"matcher": "AskUserQuestion",
				"hooks": [
					{
						"type": "command",
						"command": "/b/gchat-hooks",
						"args": [
							"hook",
							"gchat-ask-user-forward"
						],
						"timeout": 86400,
						"asyncRewake": true
					}
				]
			}
		]
	}
}
`
	out, err := Install([]byte(before), entries)
	kit.Must(t, err == nil && string(out) == want, "%v\n%s", err, out)
	// Claude Code rewrites its settings now and then in its own form. That is no reason
	// to change them.
	var v any
	kit.NoError(t, json.Unmarshal(out, &v))
	rewritten, _ := json.MarshalIndent(v, "", "  ")
	if again, err := Install(rewritten, entries); err != nil || !bytes.Equal(again, rewritten) {
		t.Errorf("%v\n%s", err, again)
	}
}

// An entry of ours in another form is replaced by the wanted one. What a person added to
// an entry in the wanted form stays.
func TestEdit_ReplacesOurEntries(t *testing.T) {
	wanted := []Entry{{Event: "Stop", Command: "/b/gchat-hooks",
		Args: []string{"hook", "gchat-stop-gate"}, Timeout: 10}}
	const as = `{"type":"command","command":"/b/gchat-hooks","args":["hook","gchat-stop-gate"],"timeout":10`
	for _, test := range []struct {
		name, hooks string
		stays       bool
	}{
		{"as wanted", `"Stop":[{"hooks":[` + as + `}]}]`, true},
		{"as wanted, with a key of its person",
			`"Stop":[{"hooks":[` + as + `,"statusMessage":"gate"}]}]`, true},
		{"as wanted, among others", `"Stop":[{"matcher":"","hooks":[{"type":"command","command":"x"},` + as + `}]}]`, true},
		{"another time limit", `"Stop":[{"hooks":[` + strings.Replace(as, "10", "11",
			1) + `}]}]`, false},
		{"a time limit that is none", `"Stop":[{"hooks":[` + strings.Replace(as, "10", `"ten"`,
			1) + `}]}]`, false},
		{"another matcher", `"Stop":[{"matcher":"x","hooks":[` + as + `}]}]`, false},
		{"another event", `"StopFailure":[{"hooks":[` + as + `}]}]`, false},
		{"twice", `"Stop":[{"hooks":[` + as + `},` + as + `}]},{"hooks":[` + as + `}]}]`, false},
		{"a shell's, and more than is wanted", `"Stop":[{"hooks":[{"type":"command","command":"~/bin/gchat-hooks hook gchat-stop-gate","timeout":10}]}],
			"SessionEnd":[{"hooks":[{"type":"command","command":"gchat-hooks hook gchat-session-event"}]}]`, false},
	} {
		file := []byte(`{"hooks":{` + test.hooks + `}}`)
		out, err := Install(file, wanted)
		kit.True(t, err == nil && test.stays == bytes.Equal(out, file), "%s: %v\n%s",
			test.name, err, out)
		if _, found, err := replaceOwnEntries(out, nil); err != nil ||
			sortedText(found) != sortedText(wanted) {
			t.Errorf("%s: %v\n%s", test.name, err, out)
		}
	}
}

// A person edited the file after the install. Their changes stay, and our entries go.
func TestEdit_KeepsAPersonsChanges(t *testing.T) {
	const before = "{\n  \"hooks\": {\n    \"Stop\": []\n  },\n  \"model\": \"opus\"\n}\n"
	out, err := Install([]byte(before), newestEntries(t, "report"))
	kit.NoError(t, err)
	for _, test := range []struct{ name, old, new, want string }{
		{"a value", `"opus"`, `"sonnet"`, "{\n  \"hooks\": {\n    \"Stop\": []\n  },\n  \"model\": \"sonnet\"\n}\n"},
		{"a hook before ours", "\"Notification\": [", "\"Notification\": [\n      " + theirs + ",",
			"{\n  \"hooks\": {\n    \"Stop\": [],\n    \"Notification\": [\n      " + theirs + "\n    ]\n  },\n  \"model\": \"opus\"\n}\n"},
		{"a key in a group of ours", "\"Stop\": [{\n", "\"Stop\": [{\n        \"note\": 1, \n",
			"{\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"note\": 1, \n        \"hooks\": []\n      }\n    ]\n  },\n  \"model\": \"opus\"\n}\n"},
	} {
		edited := strings.Replace(string(out), test.old, test.new, 1)
		back, _, err := replaceOwnEntries([]byte(edited), nil)
		kit.True(t, err == nil && edited != string(out) &&
			withoutBlanks(string(back)) == withoutBlanks(test.want), "%s: %v\ngot\n%s\nwant\n%s",
			test.name, err, back, test.want)
	}
}

// A file that cannot be understood is refused. The error names the line and shows nothing
// that may be a secret.
func TestEdit_RefusesBadFiles(t *testing.T) {
	for _, test := range []struct {
		name, file   string
		line, column int
		msg          string
	}{
		{"no end", "{\n  \"a\": 1,\n", 3, 1, "unexpected EOF"},
		{"no comma", "{\n  \"a\": 1\n  \"b\": 2\n}", 3, 3, "expecting ',' or '}'"},
		{"a merge", "{\n<<<<<<< HEAD\n}", 2, 1, "invalid character '<'"},
		{"a bad escape", "{\n\n\"token\": \"s3cr3t\\q\"}", 3, 10, "no valid text"},
		{"an open comment", "{\n} /* ", 2, 3, "comment"},
		{"a comment, for which Claude Code skips the file", "{\n} // mine\n", 0, 0,
			"it has a comment or a trailing comma"},
		{"a trailing comma", "{\"a\": 1,}", 0, 0, "it has a comment or a trailing comma"},
		{"a list", "[]", 1, 0, "the settings are not an object"},
		{"hooks is a list", "{\n  \"hooks\": []\n}", 0, 0, `"hooks" has to be {…}`},
		{"hooks is null", "{\n  \"hooks\": null\n}", 0, 0, `"hooks" has to be {…}`},
		{"an event is an object", "{\"hooks\": {\n\"Stop\": {}}}", 0, 0, `"Stop" has to be […]`},
		{"a last comment without an end of line", "{} // bye", 1, 4, "parsing comment"},
		{"UTF-16", "\xff\xfe{\x00}\x00", 1, 1, "invalid character"},
		{"deep", strings.Repeat("[", maxFileBytes), 1, 0, "more than 100,000"},
	} {
		_, err := Install([]byte(test.file), newestEntries(t, "answer"))
		where := fmt.Sprintf("line %d, column %d: ", test.line, test.column)
		if test.column == 0 {
			where, _, _ = strings.Cut(where, ", ")
		}
		if test.line == 0 {
			where = ""
		}
		kit.True(t, err != nil && strings.HasPrefix(err.Error(), where) &&
			strings.Contains(err.Error(), test.msg) && !strings.Contains(err.Error(), "s3cr3t"),
			"%s: %v, want %s… %s", test.name, err, where, test.msg)
	}
}

// Only an entry with a command of ours is ours.
func TestEdit_KnowsOurCommands(t *testing.T) {
	for _, args := range [][]string{{}, {"send", "x"}, {"hook"}, {"hook", "x", "y"}} {
		_, name := ParseOwnCommand("/b/gchat-hooks", args)
		kit.Equalf(t, name, "", "%q is", args)
	}
	for command, want := range map[string]string{
		"gchat-hooks hook gchat-ask-user-forward":       "gchat-hooks",
		"~/bin/gchat-hooks hook gchat-ask-user-forward": "~/bin/gchat-hooks",
		"'/it'\\''s/gchat-hooks' hook stop-hook":        "/it's/gchat-hooks",
		"gchat-hooks hook one-of-a-later-version":       "gchat-hooks",
		pluginPath + " hook gchat-ask-user-answered":    "gchat-hooks",
		"$HOME/bin/gchat-hooks hook gchat-stop-gate":    "$HOME/bin/gchat-hooks",
		"":                            "",
		"gchat-hooks":                 "",
		"gchat-hooks send hello":      "",
		"gchat-hooks hook":            "",
		"/opt/agent/stop-hook":        "",
		"my-gchat-hooks hook x":       "",
		"echo gchat-hooks hook x":     "",
		"guard && gchat-hooks hook x": "",
		`sh -c "gchat-hooks hook x"`:  "",
		"gchat-hooks hook gchat-session-event; backup.sh": "",
		"gchat-hooks hook gchat-stop-gate | tee -a log":   "",
		"# gchat-hooks hook x":                            "",
		"/b/gchat-hooks/run hook gchat-hook":              "",
	} {
		start, _ := ParseOwnCommand(command, nil)
		kit.Equalf(t, start, want, "%q starts", command)
	}
	for _, path := range []string{"/b/gchat-hooks", "/it's a/gchat-hooks", `/a"\$b/gchat-hooks`, "/ü/gchat-hooks", "~/gchat-hooks"} {
		start, name := ParseOwnCommand(state.QuoteForShell(path)+" hook x", nil)
		kit.True(t, start == path && name == "x", "%q quoted starts %q", path, start)
		start, name = ParseOwnCommand(path, []string{"hook", "x"})
		kit.True(t, start == path && name == "x", "%q starts %q", path, start)
	}
}

// The mode that setup offers is added if the file names none, and removed if it is still
// the same. Then the file is what it was, to the byte.
func TestEdit_AddsAndRemovesAMode(t *testing.T) {
	for name, file := range map[string]string{
		"nothing":     "",
		"other rules": "{\n  \"permissions\": {\n    \"allow\": [\"Bash(ls)\"]\n  },\n  \"model\": \"opus\"\n}\n",
		"tabs":        "{\n\t\"model\": \"opus\"\n}\n",
	} {
		in := setMode(t, file, false)
		kit.Containsf(t, in, `"defaultMode": "default"`, "%s", name)
		kit.Equalf(t, setMode(t, in, false), in, "%s, twice", name)
		kit.Equalf(t, setMode(t, in, true), file, "%s, removed", name)
	}
	for _, own := range []string{`{"permissions": {"defaultMode": "acceptEdits"}}`, `{"permissions": {"defaultMode": 7}}`} {
		for _, out := range []bool{false, true} {
			kit.Equalf(t, setMode(t, own, out), own, "a mode of the person's own")
		}
	}
}

// setMode adds the mode default to a file, or removes it.
func setMode(t *testing.T, file string, removes bool) string {
	t.Helper()
	out, err := setPermissionMode([]byte(file), "default", removes)
	kit.NoError(t, err)
	return string(out)
}
