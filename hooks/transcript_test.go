package hooks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
)

// assistantLine is a line of a transcript with tool calls, as Claude Code 2.1.329 writes
// them.
func assistantLine(t testing.TB, at time.Time, content ...map[string]any) string {
	return entryLine(t, "assistant", at, content)
}

func entryLine(t testing.TB, kind string, at time.Time, content any) string {
	t.Helper()
	b := kit.JSON(t, map[string]any{
		"type": kind, "isSidechain": false, "timestamp": at.UTC().Format("2006-01-02T15:04:05.000Z"), "uuid": "u",
		"message": map[string]any{"role": kind, "content": content},
	})
	return string(b) + "\n"
}

func call(id, name string, input any) map[string]any {
	return map[string]any{"type": "tool_use", "id": id, "name": name, "input": input}
}

func result(id string) []map[string]any {
	return []map[string]any{{"type": "tool_result", "tool_use_id": id, "content": "done"}}
}

func transcript(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "session.jsonl")
	kit.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// wantPending checks which calls of a transcript have no result.
func wantPending(t testing.TB, path, want string) {
	t.Helper()
	tail, _, err := inject.TranscriptEnd(path, tailBytes)
	kit.NoError(t, err)
	var got []string
	for _, c := range lastPendingCalls(tail) {
		got = append(got, c.Name+":"+c.ID)
	}
	kit.Equal(t, strings.Join(got, " "), want)
}

func TestTranscript_PendingCalls(t *testing.T) {
	now := time.Now()
	bash := func(id string) string {
		return assistantLine(t, now, call(id, "Bash", map[string]any{"command": "ls"}))
	}
	done := func(id string) string { return entryLine(t, "user", now, result(id)) }
	prompt := func(text string) string { return entryLine(t, "user", now, text) }
	for name, c := range map[string]struct{ lines, want string }{
		"nothing":               {"", ""},
		"one":                   {prompt("go") + bash("1"), "Bash:1"},
		"no newline at the end": {strings.TrimSpace(prompt("go") + bash("1")), "Bash:1"},
		"done":                  {prompt("go") + bash("1") + done("1"), ""},
		"one of two":            {prompt("go") + bash("1") + bash("2") + done("1"), "Bash:2"},
		"two in one message": {prompt("go") + assistantLine(t, now, call("1", "Read", nil),
			call("2", "Edit", nil)),
			"Read:1 Edit:2"},
		"at most three": {bash("1") + bash("2") + bash("3") + bash("4"), "Bash:2 Bash:3 Bash:4"},
		"five in one message": {assistantLine(t, now, call("1", "A", nil), call("2", "B", nil),
			call("3", "C", nil), call("4", "D",
				nil)), "B:2 C:3 D:4"},
		"broken off before": {bash("1") + prompt("[Request interrupted by user]") +
			prompt("do that") + bash("2"), "Bash:2"},
		"the person spoke last":  {bash("1") + prompt("stop"), ""},
		"half a line at the end": {prompt("go") + bash("1") + bash("2")[:80], "Bash:1"},
		"garbage between": {bash("1") + "\x00\xff{{{\nnull\n7\n[]\n\"x\"\n{\"type\":7}\n" +
			bash("2"), "Bash:1 Bash:2"},
		"members of other types": {`{"type":"assistant","timestamp":7,"isSidechain":"x","message":{"content":` +
			`[{"type":"tool_use","id":"1","name":"Bash","input":{},"text":{}}]}}`, "Bash:1"},
		"content is no list":         {`{"type":"assistant","message":{"content":{"type":"tool_use","id":"1"}}}`, ""},
		"a call without an id":       {assistantLine(t, now, call("", "Bash", nil)), ""},
		"a result that Claude wrote": {bash("1") + assistantLine(t, now, result("1")...), "Bash:1"},
		"a note of Claude Code's": {bash("1") + strings.Replace(prompt("<system-reminder>"),
			`"isSidechain":false`, `"isMeta":true`, 1),
			"Bash:1"},
		"other lines after": {bash("1") + `{"type":"progress","data":{}}` + "\n" +
			`{"type":"file-history-snapshot"}` + "\n", "Bash:1"},
	} {
		t.Run(name, func(t *testing.T) {
			wantPending(t, transcript(t, c.lines), c.want)
		})
	}
}

// In one of the recorded transcripts the question waits, in the other it is answered.
func TestTranscript_PendingCallsOfEveryVersion(t *testing.T) {
	for _, version := range []string{"2.1.197", "2.1.329"} {
		for file, want := range map[string]int{"single.jsonl": 0, "two-questions.jsonl": 1} {
			lines := kit.ReadFile(t, filepath.Join("testdata", version, "transcripts", file))
			calls := lastPendingCalls([]byte(lines))
			kit.Equalf(t, len(calls), want, "%s %s: %v", version, file, calls)
		}
	}
}

// Only the end is read, and the line that is cut at its beginning is skipped.
func TestTranscript_OnlyItsEndIsRead(t *testing.T) {
	long := assistantLine(t, time.Now(), call("early", "Bash", nil)) +
		strings.Repeat(`{"type":"progress","data":"`+strings.Repeat("x", 1000)+`"}`+"\n", 600)
	late := assistantLine(t, time.Now(), call("late", "Bash", nil))
	wantPending(t, transcript(t, long+late), "Bash:late")
	big := assistantLine(t, time.Now(), call("big", "Write",
		map[string]any{"content": strings.Repeat("x", 2*tailBytes)}))
	wantPending(t, transcript(t, big), "") // the line is longer than what is read
}

func TestTranscript_FilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	kit.NoError(t, syscall.Mkfifo(path("fifo.jsonl"), 0o600))
	for _, link := range [][2]string{{"/dev/zero", "zero.jsonl"},
		{path("real.jsonl"), "link.jsonl"}} {
		kit.NoError(t, os.Symlink(link[0], path(link[1])))
	}
	for _, name := range []string{"real.jsonl", "secrets.txt"} {
		writeFile(t, path(name), assistantLine(t, time.Now(), call("1", "Bash", nil)))
	}
	kit.NoError(t, os.Mkdir(path("folder.jsonl"), 0o700))
	for _, name := range []string{"fifo.jsonl", "zero.jsonl", "link.jsonl", "folder.jsonl",
		"absent.jsonl", "secrets.txt"} {
		_, _, err := inject.TranscriptEnd(path(name), tailBytes)
		kit.True(t, err != nil, "%s was read", name)
		tools := tallyTranscript(t.Context(), path(name), time.Time{}).tools
		kit.Equalf(t, len(tools), 0, "%s: tools", name)
	}
	_, _, err := inject.TranscriptEnd("real.jsonl", tailBytes)
	kit.True(t, err != nil, "a path that is not absolute was read")
	wantPending(t, path("real.jsonl"), "Bash:1")
}

func TestTranscript_TallyFromAStart(t *testing.T) {
	start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	before, after := start.Add(-time.Hour), start.Add(time.Minute)
	dir := t.TempDir()
	path := filepath.Join(dir, "s.jsonl")
	main := assistantLine(t, before, call("0", "Bash", nil)) +
		assistantLine(t, after, call("1", "Read", map[string]any{"file_path": "/p/a.go"}),
			call("2", "Edit",
				map[string]any{"file_path": "/p/a.go"})) +
		entryLine(t, "user", after, `I am the "assistant"`) +
		"half {\"assistant\"" + "\n" + strings.Repeat("x", 20<<20) + `"assistant"` + "\n" +
		assistantLine(t, after, map[string]any{"type": "text",
			"text": "Done."}) + strings.TrimSpace(assistantLine(t, after,
		call("3", "Write", map[string]any{"file_path": "/p/b.go"})))
	kit.NoError(t, os.WriteFile(path, []byte(main), 0o600))
	did := tallyTranscript(t.Context(), path, start)
	kit.Equalf(t, fmt.Sprint(did.tools), "map[Edit:1 Read:1 Write:1]", "tools")
	kit.Equalf(t, did.lastText, "Done.", "last text")
	all := tallyTranscript(t.Context(), path, time.Time{})
	kit.Equalf(t, all.tools["Bash"], 1, "from an unknown start on: Bash")
}

// FuzzTranscriptTail reads anything as a transcript, without a panic.
func FuzzTranscriptTail(f *testing.F) {
	for _, b := range payloads(f, "2.1.*/transcripts/*.jsonl") {
		f.Add(b)
	}
	f.Add([]byte(assistantLine(f, time.Now(),
		call("1", "Bash", map[string]any{"command": "```\n<users/all>"}))))
	f.Add([]byte(assistantLine(f, time.Now(),
		call("1", questionTool, map[string]any{"questions": []any{nil}}))))
	f.Fuzz(func(t *testing.T, b []byte) {
		calls := lastPendingCalls(b)
		kit.Must(t, len(calls) <= 3, "%d calls", len(calls))
		did := tallyTranscript(t.Context(), "/absent.jsonl", time.Time{})
		for line := range bytes.Lines(b) {
			did.addLine(line)
		}
	})
}

// transcriptOf writes lines to a transcript. A line that does not end in "}" has no line
// break, as if half written.
func transcriptOf(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.jsonl")
	text := strings.Join(lines, "\n")
	if strings.HasSuffix(text, "}") {
		text += "\n"
	}
	kit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestTranscript_LastText(t *testing.T) {
	says := func(id, blocks string) string {
		return fmt.Sprintf(`{"parentUuid":"u1","isSidechain":false,"type":"assistant","uuid":"a-%s",`+
			`"message":{"id":%q,"role":"assistant","content":[%s]}}`, id, id, blocks)
	}
	text := func(s string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, s) }
	const (
		thinking = `{"type":"thinking","thinking":"hm","signature":"x"}`
		call     = `{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}`
		result   = `{"type":"user","uuid":"r1",` +
			`"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}`
		prompt = `{"type":"user","uuid":"u1","message":{"role":"user","content":"go on"}}`
		typed  = `{"type":"user","uuid":"u2","origin":{"kind":"human"},` +
			`"message":{"role":"user","content":[{"type":"text","text":"and then"}]}}`
		note    = `{"type":"user","uuid":"u3","isMeta":true,"message":{"role":"user","content":"<local-command-caveat>"}}`
		command = `{"type":"user","uuid":"u4","message":{"role":"user","content":"<command-name>/compact</command-name>"}}`
		broken  = `{"type":"user","uuid":"u5",` +
			`"message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}}`
		shell   = `{"type":"user","uuid":"u6","message":{"role":"user","content":"<bash-input>ls</bash-input>"}}`
		summary = `{"type":"user","uuid":"u7","isCompactSummary":true,` +
			`"message":{"role":"user","content":"This session is being continued."}}`
		system = `{"type":"system","subtype":"turn_duration"}`
	)
	side := strings.Replace(says("m9", text("a subagent")), `"isSidechain":false`,
		`"isSidechain":true`, 1)
	meta := strings.Replace(says("m9", text("meta")), `"isSidechain":false`, `"isMeta":true`, 1)
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"nothing": {nil, ""},
		"one":     {[]string{prompt, says("m1", text("done"))}, "done"},
		"all its blocks in order": {[]string{prompt,
			says("m1", thinking+","+text("one")+","+call+","+text("two"))},
			"one\ntwo"},
		"a message in several lines": {[]string{prompt, says("m1", text("old")),
			says("m2", thinking), says("m2",
				text("one")), says("m2", text("two"))}, "one\ntwo"},
		"a result between the lines": {[]string{prompt, says("m2", text("one")), says("m2", call),
			result, says("m2",
				text("two"))}, "one\ntwo"},
		"the last message only": {[]string{prompt, says("m1", text("old")), result,
			says("m2", text("new"))}, "new"},
		"without ids": {[]string{prompt, says("", text("old")),
			says("", text("new"))}, "new"},
		"calls after the text": {[]string{prompt, says("m1", text("let me look")),
			says("m2", call), result, says("m3",
				call)}, ""},
		"a call's result": {[]string{prompt, says("m1", text("let me look")),
			says("m1", call), result}, ""},
		"a call in one line": {[]string{prompt,
			says("m1", text("let me look")+","+call), result}, ""},
		"thoughts": {[]string{prompt, says("m1", text("let me look")),
			says("m2", thinking)}, ""},
		"a prompt after the text": {[]string{says("m1", text("old")), typed}, ""},
		"a call after the prompt": {[]string{says("m1", text("old")), typed,
			says("m2", thinking), says("m2", call)}, ""},
		"commands and breaks are no text": {[]string{prompt, says("m1", text("done")), broken,
			note, command, system}, "done"},
		"sidechain and meta": {[]string{prompt, says("m1", text("done")), side,
			meta}, "done"},
		"half a line": {[]string{prompt, says("m1", text("done")),
			`{"type":"assistant","message":{"content":[{"type":"text","te`}, "done"},
		"cut by the first look": {[]string{prompt, says("m2", text("one")), says("m2",
			thinking+`,{"type":"thinking","thinking":"`+strings.Repeat("y", 1<<19)+`"}`), says("m2", text("two"))}, "one\ntwo"},
		"behind a line without end": {[]string{strings.Repeat("z", 5<<20), says("m2", text("two"))}, "two"},
		"commands for the shell":    {[]string{prompt, says("m1", text("done")), shell}, "done"},
		"a summary":                 {[]string{prompt, says("m1", text("done")), summary}, "done"},
		"not what followed another": {[]string{strings.Replace(says("m0", text("older")), `"u1"`, `"u0"`, 1), prompt}, ""},
		"escaped and wide": {[]string{prompt, says("m1", `{"type":"text","text":"a\u00e9\n\"ü\" 🙂"}`)},
			"aé\n\"ü\" 🙂"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := LastClaudeText(transcriptOf(t, c.lines...))
			kit.True(t, err == nil && got == c.want, "got %q, %v, want %q", got, err, c.want)
		})
	}
	if _, err := LastClaudeText(filepath.Join(t.TempDir(), "none.jsonl")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}
