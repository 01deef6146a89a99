package hooks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// transcriptOf writes lines to a transcript; one that does not end in "}" is left half written.
func transcriptOf(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.jsonl")
	text := strings.Join(lines, "\n")
	if strings.HasSuffix(text, "}") {
		text += "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLastWords(t *testing.T) {
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
	huge := fmt.Sprintf(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"%s"}]}}`,
		strings.Repeat("assistant x", 1<<20))
	side := strings.Replace(says("m9", text("a subagent")), `"isSidechain":false`, `"isSidechain":true`, 1)
	meta := strings.Replace(says("m9", text("meta")), `"isSidechain":false`, `"isMeta":true`, 1)
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"nothing": {nil, ""},
		"one":     {[]string{prompt, says("m1", text("done"))}, "done"},
		"all its blocks in order": {[]string{prompt, says("m1", thinking+","+text("one")+","+call+","+text("two"))},
			"one\ntwo"},
		"a message in several lines": {[]string{prompt, says("m1", text("old")), says("m2", thinking), says("m2",
			text("one")), says("m2", text("two")), says("m2", call)}, "one\ntwo"},
		"a result between the lines": {[]string{prompt, says("m2", text("one")), says("m2", call), result, says("m2",
			text("two"))}, "one\ntwo"},
		"the last message only": {[]string{prompt, says("m1", text("old")), result, says("m2", text("new"))}, "new"},
		"without ids":           {[]string{prompt, says("", text("old")), says("", text("new"))}, "new"},
		"calls after the words": {[]string{prompt, says("m1", text("let me look")), says("m2", call), result, says("m3",
			call)}, "let me look"},
		"a prompt after the words":         {[]string{says("m1", text("old")), typed}, ""},
		"a call after the prompt":          {[]string{says("m1", text("old")), typed, says("m2", thinking), says("m2", call)}, ""},
		"commands and breaks are no words": {[]string{prompt, says("m1", text("done")), broken, note, command, system}, "done"},
		"sidechain and meta":               {[]string{prompt, says("m1", text("done")), side, meta}, "done"},
		"half a line": {[]string{prompt, says("m1", text("done")),
			`{"type":"assistant","message":{"content":[{"type":"text","te`}, "done"},
		"blank words":      {[]string{prompt, says("m1", text("done")), says("m2", text(" \n"))}, "done"},
		"behind a picture": {[]string{prompt, says("m1", text("done")), huge}, "done"},
		"cut by the first look": {[]string{prompt, says("m2", text("one")), says("m2",
			thinking+`,{"type":"thinking","thinking":"`+strings.Repeat("y", 1<<19)+`"}`), says("m2", text("two"))}, "one\ntwo"},
		"behind a line without end": {[]string{strings.Repeat("z", 3<<20), says("m2", text("two"))}, "two"},
		"commands for the shell":    {[]string{prompt, says("m1", text("done")), shell}, "done"},
		"a summary":                 {[]string{prompt, says("m1", text("done")), summary}, "done"},
		"not what followed another": {[]string{strings.Replace(says("m0", text("older")), `"u1"`, `"u0"`, 1), prompt}, ""},
		"escaped and wide": {[]string{prompt, says("m1", `{"type":"text","text":"a\u00e9\n\"ü\" 🙂"}`)},
			"aé\n\"ü\" 🙂"},
	} {
		t.Run(name, func(t *testing.T) {
			said, err := LastWords(transcriptOf(t, c.lines...))
			got := said.Text
			if said.Earlier {
				got = ""
			}
			if err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		lines []string
		last  bool
	}{
		"nothing":            {nil, false},
		"words":              {[]string{prompt, says("m1", text("done"))}, true},
		"words and remarks":  {[]string{prompt, says("m1", text("done")), system, note}, true},
		"a call":             {[]string{prompt, says("m1", text("let me look")), says("m1", call)}, false},
		"a call's result":    {[]string{prompt, says("m1", text("let me look")), says("m1", call), result}, false},
		"a call in one line": {[]string{prompt, says("m1", text("let me look")+","+call), result}, false},
		"remarks on a call":  {[]string{prompt, says("m1", text("let me look")), says("m1", call), system}, false},
		"thoughts":           {[]string{prompt, says("m1", text("let me look")), says("m2", thinking)}, false},
		"a prompt":           {[]string{says("m0", text("old")), typed}, false},
		"a subagent's call":  {[]string{prompt, says("m1", text("done")), side}, true},
	} {
		if said, err := LastWords(transcriptOf(t, c.lines...)); err != nil || said.Last != c.last {
			t.Errorf("%s: last %v, %v", name, said.Last, err)
		}
	}
	if said, err := LastWords(transcriptOf(t, prompt, says("m1", text("old")), typed, says("m2", call))); err != nil ||
		said.Text != "old" || !said.Earlier || said.Last || said.Entry != "a-m1" {
		t.Errorf("words of an earlier turn: %+v, %v", said, err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(transcriptOf(t, prompt, says("m1", text("done"))), link); err != nil {
		t.Fatal(err)
	}
	if said, err := LastWords(link); err != nil || said.Text != "done" {
		t.Errorf("by a link: %+v, %v", said, err)
	}
	if _, err := LastWords(filepath.Join(t.TempDir(), "none.jsonl")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}
