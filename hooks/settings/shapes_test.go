package settings

import (
	"strings"
)

const (
	theirs   = `{"matcher":"Bash","hooks":[{"type":"command","command":"~/bin/guard.sh","timeout":5}]}`
	readme   = `{"matcher": "AskUserQuestion", "hooks": [{"type": "command", "command": "~/bin/gchat-hooks hook gchat-ask-user-forward", "timeout": 10}]}`
	sameName = `{"hooks":[{"type":"command","command":"/opt/agent/stop-hook"},{"type":"command","command":".claude/hooks/gchat-ask-user-forward.py"}]}`
)

// shapes are settings files as people have them, and as they should not have them.
var shapes = []struct {
	name, file string
}{
	{name: "empty", file: ""},
	{name: "blank lines", file: "\n \n"},
	{name: "an empty object", file: "{}"},
	{name: "an empty object with an end of line", file: "{}\n"},
	{name: "an empty object over lines", file: "{\n\n}\n"},
	{name: "a space in an empty object", file: "{ }"},
	{name: "Claude Code's own form", file: "{\n  \"model\": \"opus\",\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(go test:*)\"\n    ]\n  }\n}\n"},
	{name: "four spaces", file: "{\n    \"model\": \"opus\"\n}"},
	{name: "tabs", file: "{\n\t\"model\": \"opus\",\n\t\"env\": {\n\t\t\"A\": \"b\"\n\t}\n}\n"},
	{name: "no indentation", file: "{\n\"model\":\"opus\",\n\"x\":1\n}\n"},
	{name: "all in one line", file: `{"model":"opus","env":{"A":"b"}}`},
	{name: "all in one line with spaces", file: `{"model": "opus", "x": 1}` + "\n"},
	{name: "CRLF", file: "{\r\n  \"model\": \"opus\"\r\n}\r\n"},
	{name: "a byte order mark", file: "\xef\xbb\xbf{\n  \"model\": \"opus\"\n}\n"},
	{name: "a byte order mark and nothing", file: "\xef\xbb\xbf"},
	{name: "a byte order mark and an empty object", file: "\xef\xbb\xbf{}"},
	{name: "a byte order mark with CRLF and tabs", file: "\xef\xbb\xbf{\r\n\t\"a\":1\r\n}"},
	{name: "empty hooks", file: "{\n  \"hooks\": {},\n  \"model\": \"opus\"\n}\n"},
	{name: "empty hooks over lines", file: "{\n  \"hooks\": {\n  }\n}\n"},
	{name: "an empty event", file: "{\n  \"hooks\": {\n    \"Notification\": [],\n    \"Stop\": [ ]\n  }\n}\n"},
	{name: "another's hooks", file: "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      " + theirs +
		"\n    ]\n  }\n}\n"},
	{name: "another's hook on our matcher", file: "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"AskUserQuestion\",\n        \"hooks\": [\n          {\n            \"type\": \"command\",\n            \"command\": \"notify-send question\"\n          }\n        ]\n      }\n    ]\n  }\n}\n"},
	{name: "another's hooks in one line", file: `{"hooks":{"Stop":[` + sameName + `]}}`},
	{name: "an event in one line", file: "{\n  \"hooks\": {\n    \"Stop\": [" + sameName +
		"],\n    \"PreToolUse\": [" + theirs + "]\n  }\n}\n"},
	{name: "keys that nobody knows", file: "{\n  \"$schema\": \"https://json.schemastore.org/claude-code-settings.json\",\n  \"ünï\\u0063ode\": {\"x\": 1e400, \"y\": -0.0, \"z\": \"\\ud800 \\/\"},\n  \"hooks\": {\"Unheard\": {\"of\": true}, \"Stop\": [" + strings.Replace(theirs, `"hooks"`, `"note":"n","hooks"`, 1) + "]}\n}\n"},
	{name: "a key in escapes", file: "{\n  \"\\u0068ooks\": {\"St\\u006fp\": [" +
		theirs + "]}\n}\n"},
	{name: "odd spacing", file: " \n{  \"a\" :1\n ,\"b\":[ 1 ,2 ] ,\n\n   \"hooks\" : { \"Stop\" :[\n" + theirs + "\n\n,\n" + theirs + "  ]\n}\n\n }  \n\n"},
	{name: "hooks are switched off", file: "{\n  \"disableAllHooks\": true\n}\n"},
	{name: "no UTF-8 in a text", file: "{\n  \"a\": \"\xff\xfe\"\n}\n"},
	{name: "ours by hand", file: "{\n  \"hooks\": {\n    \"PreToolUse\": [" + readme +
		"],\n    \"Stop\": [\n      " + theirs + "\n    ]\n  }\n}\n"},
	{name: "ours in another's group", file: "{\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [\n          {\"type\": \"command\", \"command\": \"say done\"},\n          {\"type\": \"command\", \"command\": \"/usr/local/bin/gchat-hooks hook gchat-session-event\"}\n        ]\n      }\n    ]\n  }\n}\n"},
	{name: "ours alone by hand", file: `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"gchat-hooks hook gchat-stop-gate"}]}]}}`},
}
