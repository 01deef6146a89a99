package hooks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The recorded sessions: a question answered in its dialog, turned down with Esc and with "chat about this", denied by a
// hook, denied again after a Stop hook sent the session back, and answered before a background hook woke the session.
func TestAskedInRecordedTurns(t *testing.T) {
	for file, want := range map[string]bool{"single": true, "dismissed": true, "discussed": true, "denied": false,
		"denied-again": false, "two-questions": false, "woken": true} {
		for _, version := range []string{"2.1.197", "2.1.329"} {
			path, err := filepath.Abs(filepath.Join("testdata", version, "transcripts", file+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(path); err != nil {
				if file != "woken" { // of 2.1.197 it was not recorded
					t.Error(err)
				}
				continue
			}
			tail, err := tailOf(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := askedInTurn(tail); got != want {
				t.Errorf("%s of %s: %v", file, version, got)
			}
		}
	}
}

func TestAskedInTurn(t *testing.T) {
	now := time.Now()
	said := func(text string) string { return entryLine(t, "user", now, text) }
	ask := func(id string) string {
		return assistantLine(t, now, call(id, askTool, map[string]any{"questions": []any{}}))
	}
	res := func(id string, failed bool, text any) string {
		return entryLine(t, "user", now, []map[string]any{{"type": "tool_result", "tool_use_id": id, "is_error": failed,
			"content": text}})
	}
	from := func(kind, line string) string {
		return strings.Replace(line, `"isSidechain":false`, `"isSidechain":false,"origin":{"kind":"`+kind+`"}`, 1)
	}
	meta := func(line string) string {
		return strings.Replace(line, `"isSidechain":false`, `"isSidechain":false,"isMeta":true`, 1)
	}
	side := func(line string) string { return strings.Replace(line, `"isSidechain":false`, `"isSidechain":true`, 1) }
	const esc = refusedByPerson + " The tool use was rejected."
	text := assistantLine(t, now, map[string]any{"type": "text", "text": `I could call "AskUserQuestion".`})
	bash := assistantLine(t, now, call("b", "Bash", map[string]any{"command": "ls"})) + res("b", false, "a.go")
	answered := ask("1") + res("1", false, "User has answered")
	for name, c := range map[string]struct {
		lines string
		want  bool
	}{
		"nothing":               {"", false},
		"no question":           {said("go") + bash + text, false},
		"answered":              {said("go") + answered + text, true},
		"answered, then worked": {said("go") + answered + bash + text + bash, true},
		"dismissed":             {said("go") + ask("1") + res("1", true, esc), true},
		"dismissed, and interrupted": {said("go") + ask("1") + res("1", true, esc) +
			said("[Request interrupted by user for tool use]") + text, true},
		"its result in blocks": {said("go") + ask("1") + res("1", true, []any{map[string]any{"type": "text", "text": esc}}),
			true},
		"denied by a hook":       {said("go") + ask("1") + res("1", true, "Question forwarded to Google Chat"), false},
		"refused by Claude Code": {said("go") + ask("1") + res("1", true, "InputValidationError: questions is missing"), false},
		"no result":              {said("go") + ask("1"), false},
		"another call's result":  {said("go") + ask("1") + res("2", false, "done"), false},
		"denied, then answered":  {said("go") + ask("1") + res("1", true, "no") + ask("2") + res("2", false, "yes"), true},
		"two at once": {said("go") + assistantLine(t, now, call("1", askTool, nil), call("2", askTool, nil)) +
			res("1", true, "no") + res("2", false, "yes"), true},
		"beside another tool": {said("go") + assistantLine(t, now, call("b", "Bash", nil), call("1", askTool, nil)) +
			res("b", false, "done") + res("1", true, "no"), false},
		"in the turn before":        {said("go") + answered + said("and now?") + text, false},
		"sent back since":           {said("go") + answered + meta(said("Stop hook feedback:\nnot yet")) + text, true},
		"woken since":               {said("go") + answered + from("task-notification", said("a task is done")) + text, true},
		"woken since, older":        {said("go") + answered + said("<task-notification>\n<summary>") + text, true},
		"typed since":               {said("go") + answered + from("human", said("<b>")) + text, false},
		"a subagent's":              {said("go") + side(ask("1")) + side(res("1", false, "yes")), false},
		"a subagent's prompt since": {said("go") + answered + side(said("look at a.go")) + text, true},
		"only spoken of":            {said("go") + text + res("1", false, `"AskUserQuestion"`), false},
		"before its prompt":         {ask("1") + said("go") + res("1", false, "yes"), false},
		"the turn is cut":           {answered + bash, true},
		"broken lines": {said("go") + "{\"type\":\"assistant\",\"AskUserQuestion\"\n" + answered + "{\"type\":\"us",
			true},
	} {
		if got := askedInTurn([]byte(c.lines)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzAskedInTurn(f *testing.F) {
	for _, b := range payloads(f, "2.1.*/transcripts/*.jsonl") {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, tail []byte) { askedInTurn(tail) })
}
