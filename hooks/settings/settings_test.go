package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func newest(t testing.TB, presets ...string) []Entry {
	return entriesOf(t, Version{2, 1, 329}, presets...)
}

// Every shape survives install and uninstall byte for byte, a second install changes nothing, and what is put in looks like
// the rest of the file.
func TestShapes(t *testing.T) {
	if len(shapes) < 30 {
		t.Errorf("%d shapes", len(shapes))
	}
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			file := []byte(s.file)
			if Holds(file) != s.holds {
				t.Fatalf("holds ours: %t", Holds(file))
			}
			for _, entries := range sets(t) {
				out, err := Install(file, file, entries)
				if err != nil {
					t.Fatal(err)
				}
				checkInstalled(t, file, out, entries)
				if again, err := Install(out, file, entries); err != nil || !bytes.Equal(again, out) {
					t.Errorf("the second install changes it (%v):\n%s", err, again)
				}
				if got := (&Change{New: out}).NotJSON(); got != s.notJSON {
					t.Errorf("no JSON: %t\n%s", got, out)
				}
				back, err := Uninstall(out, file)
				if err != nil {
					t.Fatal(err)
				}
				if !s.holds && !bytes.Equal(back, file) {
					t.Errorf("uninstall leaves\n%.2000q\nof\n%.2000q", back, file)
				}
				if Holds(back) {
					t.Errorf("ours stays:\n%s", back)
				}
			}
			out, err := Install(file, file, entriesOf(t, Version{}, "answer"))
			if err != nil || !strings.Contains(string(out), s.want) {
				t.Errorf("%v\ngot  %.3000q\nwant %q", err, out, s.want)
			}
			if lf, crlf := bytes.Count(out, []byte("\n")), bytes.Count(out, []byte("\r\n")); strings.Contains(s.name, "CRLF") && lf != crlf {
				t.Errorf("%d of %d lines do not end in CRLF", lf-crlf, lf)
			}
		})
	}
}

// What Install writes into nothing is what a person may read in the README.
func TestInstalledFile(t *testing.T) {
	entries := []Entry{
		{Event: "PreToolUse", Matcher: "AskUserQuestion", Command: "/b/gchat-hooks", Args: []string{"hook", "gchat-ask-user-forward"}, Timeout: 86400},
		{Event: "PreToolUse", Matcher: "AskUserQuestion", Command: "/b/gchat-hooks", Args: []string{"hook", "gchat-ask-user-rewake"}, Timeout: 86400, AsyncRewake: true},
		{Event: "Stop", Command: "'/b c/gchat-hooks' hook gchat-stop-gate", Timeout: 10},
	}
	const want = `{
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "AskUserQuestion",
        "hooks": [
          {
            "type": "command",
            "command": "/b/gchat-hooks",
            "args": ["hook", "gchat-ask-user-forward"],
            "timeout": 86400
          },
          {
            "type": "command",
            "command": "/b/gchat-hooks",
            "args": ["hook", "gchat-ask-user-rewake"],
            "timeout": 86400,
            "asyncRewake": true
          }
        ]
      }
    ],
    "Stop": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "'/b c/gchat-hooks' hook gchat-stop-gate",
            "timeout": 10
          }
        ]
      }
    ]
  }
}
`
	out, err := Install(nil, nil, entries)
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
	// Claude Code writes its settings anew now and then, in its own way. That is no reason to touch them.
	var v any
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(err)
	}
	rewritten, _ := json.MarshalIndent(v, "", "  ")
	if again, err := Install(rewritten, nil, entries); err != nil || !bytes.Equal(again, rewritten) {
		t.Errorf("%v\n%s", err, again)
	}
}

// The old form, by hand, gives way to the new one; what a person added to an entry of ours that is as wanted stays.
func TestInstallReplacesOurs(t *testing.T) {
	wanted := []Entry{{Event: "Stop", Command: "/b/gchat-hooks", Args: []string{"hook", "gchat-stop-gate"}, Timeout: 10}}
	const as = `{"type":"command","command":"/b/gchat-hooks","args":["hook","gchat-stop-gate"],"timeout":10`
	for _, test := range []struct{ name, hooks, want string }{
		{"as wanted", `"Stop":[{"hooks":[` + as + `}]}]`, ""},
		{"as wanted, with a key of its person", `"Stop":[{"hooks":[` + as + `,"statusMessage":"gate"}]}]`, ""},
		{"as wanted, among others", `"Stop":[{"matcher":"","hooks":[{"type":"command","command":"x"},` + as + `}]}]`, ""},
		{"in the background", `"Stop":[{"hooks":[` + as + `,"async":true}]}]`, `"Stop":[{"hooks":[` + as + `}]}]`},
		{"another time limit", `"Stop":[{"hooks":[` + strings.Replace(as, "10", "11", 1) + `}]}]`, `"Stop":[{"hooks":[` + as + `}]}]`},
		{"another matcher", `"Stop":[{"matcher":"x","hooks":[` + as + `}]}]`, `"Stop":[{"hooks":[` + as + `}]}]`},
		{"another event", `"StopFailure":[{"hooks":[` + as + `}]}]`, `"Stop":[{"hooks":[` + as + `}]}]`},
		{"twice", `"Stop":[{"hooks":[` + as + `},` + as + `}]},{"hooks":[` + as + `}]}]`, `"Stop":[{"hooks":[` + as + `}]}]`},
		{"a shell's, and more than is wanted", `"Stop":[{"hooks":[{"type":"command","command":"~/bin/gchat-hooks hook gchat-stop-gate","timeout":10}]}],"SessionEnd":[{"hooks":[{"type":"command","command":"gchat-hooks hook gchat-session-event"}]}]`,
			`"Stop":[{"hooks":[` + as + `}]}]`},
		{"in a group with a note", `"Stop":[{"note":"gate","hooks":[{"type":"command","command":"gchat-hooks gchat-stop-gate"}]}]`,
			`"Stop":[{"note":"gate","hooks":[]},{"hooks":[` + as + `}]}]`},
	} {
		file := []byte(`{"hooks":{` + test.hooks + `}}`)
		want := `{"hooks":{` + test.want + `}}`
		if test.want == "" {
			want = string(file)
		}
		out, err := Install(file, nil, wanted)
		if err != nil || string(out) != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", test.name, err, out, want)
		}
	}
}

// A person worked on the file after the install: theirs stays, ours goes.
func TestUninstallAfterAnEdit(t *testing.T) {
	before := []byte("{\n  \"hooks\": {\n    \"Stop\": []\n  },\n  \"model\": \"opus\"\n}\n")
	out, err := Install(before, before, newest(t, "report"))
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(out), `"opus"`, `"sonnet"`, 1)
	edited = strings.Replace(edited, "\"Notification\": [", "\"Notification\": [\n      "+theirs+",", 1)
	back, err := Uninstall([]byte(edited), before)
	want := "{\n  \"hooks\": {\n    \"Stop\": [],\n    \"Notification\": [\n      " + theirs + "\n    ]\n  },\n  \"model\": \"sonnet\"\n}\n"
	if err != nil || string(back) != want {
		t.Errorf("%v\ngot\n%s\nwant\n%s", err, back, want)
	}
	// Nobody knows what was there: what is empty goes.
	back, err = Uninstall(out, nil)
	if err != nil || string(back) != "{\n  \"model\": \"opus\"\n}\n" {
		t.Errorf("%v\n%s", err, back)
	}
}

// Of two lists of one name the second counts. Without it the first would: hooks that were off would be on.
func TestUninstallLeavesDoublesOff(t *testing.T) {
	const ours = `[{"hooks":[{"type":"command","command":"gchat-hooks hook gchat-stop-gate"}]}]`
	for file, want := range map[string]string{
		`{"hooks":{"Stop":[` + theirs + `],"Stop":` + ours + `}}`:           `{"hooks":{"Stop":[` + theirs + `],"Stop":[]}}`,
		`{"hooks":{"Stop":[` + theirs + `]},"hooks":{"Stop":` + ours + `}}`: `{"hooks":{"Stop":[` + theirs + `]},"hooks":{}}`,
	} {
		if out, err := Uninstall([]byte(file), nil); err != nil || string(out) != want {
			t.Errorf("%v\ngot  %s\nwant %s", err, out, want)
		}
	}
}

// What cannot be understood is refused, with the line, and without showing what may be a secret.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		name, file   string
		line, column int
		msg          string
		parses       bool
	}{
		{"no end", "{\n  \"a\": 1,\n", 3, 1, "the file ends", false},
		{"no comma", "{\n  \"a\": 1\n  \"b\": 2\n}", 3, 3, "expecting ',' or '}'", false},
		{"a merge", "{\n<<<<<<< HEAD\n}", 2, 1, "invalid character '<'", false},
		{"single quotes", "\xef\xbb\xbf{'a': 1}", 1, 2, "invalid character", false},
		{"a bad escape", "{\n\n\"token\": \"s3cr3t\\q\"}", 3, 10, "no valid text", false},
		{"an open comment", "{\n} /* ", 2, 3, "comment", false},
		{"two objects", "{}\n{}", 2, 1, "after top-level value", false},
		{"a list", "\n[]", 2, 1, "settings are an object", true},
		{"null", "null", 1, 1, "settings are an object", true},
		{"hooks is a list", "{\n  \"hooks\": []\n}", 2, 12, `"hooks" has to be an object`, true},
		{"hooks is a text", "{\"hooks\": \"\"}", 1, 11, `"hooks" has to be an object`, true},
		{"an event is an object", "{\"hooks\": {\n\"Stop\": {}}}", 2, 9, `"Stop" has to be a list`, true},
		{"UTF-16", "\xff\xfe{\x00}\x00", 1, 1, "UTF-16", false},
		{"deep", strings.Repeat("[\n", 3_000_000), 501, 1, "more than 500", false},
	} {
		_, err := Install([]byte(test.file), nil, newest(t, "answer"))
		var at *SyntaxError
		if !errors.As(err, &at) || at.Line != test.line || at.Column != test.column || at.Parses != test.parses || !strings.Contains(at.Msg, test.msg) {
			t.Errorf("%s: %v, want line %d, column %d: … %s", test.name, err, test.line, test.column, test.msg)
		}
		if strings.Contains(fmt.Sprint(err), "s3cr3t") {
			t.Errorf("%s: the error shows a secret: %v", test.name, err)
		}
	}
}

// Only a command of ours is ours.
func TestOurs(t *testing.T) {
	for command, want := range map[string]bool{
		"gchat-hooks hook gchat-ask-user-forward":                       true,
		"~/bin/gchat-hooks hook gchat-ask-user-forward":                 true,
		`"$HOME/my bin/gchat-hooks" hook 'gchat-stop-gate' 2>/dev/null`: true,
		`/a\ b/gchat-hooks hook stop-hook`:                              true,
		"gchat-hooks hook one-of-a-later-version":                       true,
		"gchat-hooks gchat-session-event":                               true,
		"GCHAT_ASK_MODE=deny env A=b gchat-hooks hook gchat-stop-gate":  true,
		"/usr/local/bin/gchat-notification-dispatch":                    true,
		"gchat-stop-gate; true":                                         true,
		"gchat-hooks hook gchat-stop-gate >> ~/x.log 2>&1 || true":      true,
		`gchat-hooks hook gchat-stop-gate > "$HOME/my log"; exit 0`:     true,
		"(gchat-hooks hook gchat-stop-gate)\n":                          true,
		"gchat-hooks hook gchat-stop-gate &":                            true,

		"":                                  false,
		"gchat-hooks":                       false,
		"gchat-hooks send hello":            false,
		"gchat-hooks hook":                  false,
		"gchat-send hello":                  false, // somebody's own use of ours
		"/opt/agent/stop-hook":              false,
		"session-end-hook.sh":               false,
		".claude/hooks/gchat-stop-gate.py":  false,
		"my-gchat-hooks hook x":             false,
		"echo gchat-hooks hook x":           false,
		"guard && gchat-hooks hook x":       false,
		"tee /tmp/log | gchat-hooks hook x": false,
		`sh -c "gchat-hooks hook x"`:        false,
		// What else these do would be lost.
		"gchat-hooks hook gchat-session-event; ~/bin/my-backup.sh":   false,
		"gchat-hooks hook gchat-session-event\n~/bin/my-backup.sh":   false,
		"gchat-hooks hook gchat-stop-gate | tee -a log && rsync a b": false,
		"gchat-hooks hook gchat-stop-gate 2>/dev/null || notify":     false,
		"gchat-hooks hook gchat-stop-gate > $(mktemp)":               false,
		"gchat-hooks hook gchat-stop-gate & sleep 1":                 false,
		"# gchat-hooks hook x":                                       false,
		"gchat-hooks.bak hook x":                                     false,
		"/b/gchat-hooks/run hook gchat-hook":                         false,
	} {
		if ours(command, nil) != want {
			t.Errorf("%q is ours: %t", command, !want)
		}
	}
	for _, test := range []struct {
		command string
		args    []string
		want    bool
	}{
		{"/a b/gchat-hooks", []string{"hook", "stop-hook"}, true},
		{"/a b/gchat-hooks", []string{"gchat-stop-gate"}, true},
		{"/a b/gchat-stop-gate", []string{}, true},
		{"/a b/gchat-hooks", []string{"send", "hook"}, false},
		{"/a b/gchat-hooks", []string{}, false},
		{"sh", []string{"-c", "gchat-hooks hook x"}, false},
		{"stop-hook", []string{}, false},
	} {
		if ours(test.command, test.args) != test.want {
			t.Errorf("%q %q is ours: %t", test.command, test.args, !test.want)
		}
	}
	const theirs = `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"gchat-hooks hook gchat-session-event; ~/bin/my-backup.sh"}]}]}}`
	out, err := Install([]byte(theirs), nil, newest(t, "report"))
	back, err2 := Uninstall(out, []byte(theirs))
	if err != nil || err2 != nil || !strings.Contains(string(out), "my-backup.sh") || string(back) != theirs {
		t.Errorf("a line that does more is not kept: %v, %v\n%s\n%s", err, err2, out, back)
	}
	for _, path := range []string{"/b/gchat-hooks", "/it's a/gchat-hooks", `/a"\$b/gchat-hooks`, "/ü/gchat-hooks", "~/gchat-hooks", "A=b/gchat-hooks"} {
		if words, _ := shellWords(shellQuote(path) + " hook x"); len(words) != 3 || words[0] != path {
			t.Errorf("%q quoted is %q", path, words)
		}
	}
}
