package settings

import (
	"strings"
)

const (
	theirs   = `{"matcher":"Bash","hooks":[{"type":"command","command":"~/bin/guard.sh","timeout":5}]}`
	readme   = `{"matcher": "AskUserQuestion", "hooks": [{"type": "command", "command": "~/bin/gchat-hooks hook gchat-ask-user-forward", "timeout": 10}]}`
	sameName = `{"hooks":[{"type":"command","command":"/opt/agent/stop-hook"},{"type":"command","command":".claude/hooks/gchat-ask-user-forward.py"}]}`
)

// shapes are settings files as people have them, and as they should not.
var shapes = []struct {
	name, file string
	holds      bool   // there is a hook of ours in it already, put there by hand
	notJSON    bool   // Claude Code skips it
	want       string // what Install makes of it has this
}{
	{name: "empty", file: ""},
	{name: "blank lines", file: "\n \n"},
	{name: "an empty object", file: "{}"},
	{name: "an empty object with an end of line", file: "{}\n", want: "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"AskUserQuestion\",\n"},
	{name: "an empty object over lines", file: "{\n\n}\n"},
	{name: "a space in an empty object", file: "{ }"},
	{name: "Claude Code's own form", file: "{\n  \"model\": \"opus\",\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(go test:*)\"\n    ]\n  }\n}\n", want: "  },\n  \"hooks\": {\n    \"PreToolUse\": [\n"},
	{name: "four spaces", file: "{\n    \"model\": \"opus\"\n}", want: "\"opus\",\n    \"hooks\": {\n        \"PreToolUse\": [\n            {\n"},
	{name: "tabs", file: "{\n\t\"model\": \"opus\",\n\t\"env\": {\n\t\t\"A\": \"b\"\n\t}\n}\n", want: "\t},\n\t\"hooks\": {\n\t\t\"PreToolUse\": [\n\t\t\t{\n"},
	{name: "no indentation", file: "{\n\"model\":\"opus\",\n\"x\":1\n}\n", want: "\"x\":1,\n\"hooks\":{\n\"PreToolUse\":[\n{\n\"matcher\":"},
	{name: "all in one line", file: `{"model":"opus","env":{"A":"b"}}`, want: `},"hooks":{"PreToolUse":[{"matcher":"AskUserQuestion","hooks":[{"type":"command",`},
	{name: "all in one line with spaces", file: `{"model": "opus", "x": 1}` + "\n", want: `1, "hooks": {"PreToolUse": [{"matcher": "AskUserQuestion", "hooks": [`},
	{name: "CRLF", file: "{\r\n  \"model\": \"opus\"\r\n}\r\n", want: "\"opus\",\r\n  \"hooks\": {\r\n    \"PreToolUse\": [\r\n"},
	{name: "a byte order mark", file: "\xef\xbb\xbf{\n  \"model\": \"opus\"\n}\n", want: "\xef\xbb\xbf{\n  \"model\": \"opus\",\n  \"hooks\""},
	{name: "a byte order mark and nothing", file: "\xef\xbb\xbf", want: "\xef\xbb\xbf{\n"},
	{name: "a byte order mark with CRLF and tabs", file: "\xef\xbb\xbf{\r\n\t\"a\":1\r\n}", want: "\"a\":1,\r\n\t\"hooks\":{\r\n\t\t\"PreToolUse\":[\r\n"},
	{name: "empty hooks", file: "{\n  \"hooks\": {},\n  \"model\": \"opus\"\n}\n", want: "\"hooks\": {\n    \"PreToolUse\""},
	{name: "empty hooks over lines", file: "{\n  \"hooks\": {\n  }\n}\n"},
	{name: "null for hooks", file: "{\n  \"hooks\": null,\n  \"model\": \"opus\"\n}\n", want: "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\""},
	{name: "null for hooks and nothing else", file: "{\"hooks\" : null }", want: "{\"hooks\" : {\"PreToolUse\": [{"},
	{name: "null for events", file: "{\n  \"hooks\": {\n    \"PreToolUse\": null,\n    \"Stop\": null,\n    \"Notification\": null, // none\n    \"SessionStart\": [" + theirs + "]\n  }\n}\n", notJSON: true, want: "\"PreToolUse\": [\n      {\n"},
	{name: "null behind hooks of another's", file: `{"hooks":{"Stop":[` + theirs + `],"Stop":null},"hooks":{"PreToolUse":[],"PreToolUse":null}}`},
	{name: "an empty event", file: "{\n  \"hooks\": {\n    \"Notification\": [],\n    \"Stop\": [ ]\n  }\n}\n"},
	{name: "another's hooks", file: "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      " + theirs + "\n    ]\n  }\n}\n", want: theirs + ",\n      {\n        \"matcher\": \"AskUserQuestion\""},
	{name: "another's hook on our matcher", file: "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"AskUserQuestion\",\n        \"hooks\": [\n          {\n            \"type\": \"command\",\n            \"command\": \"notify-send question\"\n          }\n        ]\n      }\n    ]\n  }\n}\n"},
	{name: "another's hooks in one line", file: `{"hooks":{"Stop":[` + sameName + `]}}`, want: sameName + `,{"hooks":[`},
	{name: "an event in one line", file: "{\n  \"hooks\": {\n    \"Stop\": [" + sameName + "],\n    \"PreToolUse\": [" + theirs + "]\n  }\n}\n", want: theirs + `, {"matcher": "AskUserQuestion", "hooks": [{`},
	{name: "duplicate hooks", file: "{\n  \"hooks\": {\"Stop\": [" + theirs + "]},\n  \"model\": \"opus\",\n  \"hooks\": {\"Stop\": [" + theirs + ", " + theirs + "]}\n}\n"},
	{name: "a duplicate event", file: `{"hooks":{"Stop":[],"Stop":[` + theirs + `],"PreToolUse":[],"PreToolUse":[]}}`},
	{name: "comments", file: "// mine\n{\n  // a line\n  \"model\": \"opus\", // behind\n  /* a block */ \"hooks\": {\n    \"Stop\": [\n      " + theirs + " // the last\n      // and one more\n    ]\n  } // end\n}\n// bye", notJSON: true, want: "// and one more\n      {\n        \"hooks\""},
	{name: "comments in empty lists", file: "{\n  \"hooks\": { // none yet\n    \"Stop\": [ /* nor here */ ]\n  }\n}\n", notJSON: true},
	{name: "trailing commas", file: "{\n  \"a\": [1, 2,],\n  \"hooks\": {\n    \"Stop\": [\n      " + theirs + ",\n    ],\n  },\n}\n", notJSON: true},
	{name: "a trailing comma and a comment with CRLF", file: "{\r\n  \"a\": 1, // one\r\n}\r\n", notJSON: true, want: "// one\r\n  \"hooks\": {\r\n"},
	{name: "keys that nobody knows", file: "{\n  \"$schema\": \"https://json.schemastore.org/claude-code-settings.json\",\n  \"ünï\\u0063ode\": {\"x\": 1e400, \"y\": -0.0, \"z\": \"\\ud800 \\/\"},\n  \"hooks\": {\"Unheard\": {\"of\": true}, \"Stop\": [" + strings.Replace(theirs, `"hooks"`, `"note":"n","hooks"`, 1) + "]}\n}\n"},
	{name: "a key in escapes", file: "{\n  \"\\u0068ooks\": {\"St\\u006fp\": [" + theirs + "]}\n}\n"},
	{name: "odd spacing", file: " \n{  \"a\" :1\n ,\"b\":[ 1 ,2 ] ,\n\n   \"hooks\" : { \"Stop\" :[\n" + theirs + "\n\n,\n" + theirs + "  ]\n}\n\n }  \n\n"},
	{name: "hooks are switched off", file: "{\n  \"disableAllHooks\": true\n}\n"},
	{name: "no UTF-8 in a text", file: "{\n  \"a\": \"\xff\xfe\"\n}\n"},
	{name: "1 MB", file: "{\n  \"permissions\": {\n    \"allow\": [\n" + strings.Repeat("      \"Bash(make some-target-with-a-long-name:*)\",\n", 21000) + "      \"Read\"\n    ]\n  }\n}\n"},
	{name: "1 MB in one line", file: `{"permissions":{"allow":["` + strings.Repeat(`Bash(make:*)","`, 70000) + `"]}}`},
	{name: "ours by hand", file: "{\n  \"hooks\": {\n    \"PreToolUse\": [" + readme + "],\n    \"Stop\": [\n      " + theirs + "\n    ]\n  }\n}\n", holds: true},
	{name: "ours in another's group", file: "{\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [\n          {\"type\": \"command\", \"command\": \"say done\"},\n          {\"type\": \"command\", \"command\": \"/usr/local/bin/gchat-session-event\"}\n        ]\n      }\n    ]\n  }\n}\n", holds: true},
	{name: "ours alone by hand", file: `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"gchat-hooks hook gchat-stop-gate"}]}]}}`, holds: true},
}
