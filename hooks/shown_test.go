package hooks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"gchat-hooks/state"
)

func TestPermissionShown(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(file, []byte("one\ntwo\nthree\nfour\nfive\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		tool, about, shown string
		input              map[string]any
	}{
		"a command":      {"Bash", "Clean up", "rm -rf build", map[string]any{"command": "rm -rf build", "description": "Clean up"}},
		"an edit":        {"Edit", "a.txt", " x\n a\n b\n-c\n+C\n d", map[string]any{"file_path": file, "old_string": "x\na\nb\nc\nd", "new_string": "x\na\nb\nC\nd"}},
		"a file anew":    {"Write", "a.txt", " one\n two\n-three\n+3\n four\n five", map[string]any{"file_path": file, "content": "one\ntwo\n3\nfour\nfive\n"}},
		"a new file":     {"Write", "b/c.txt", "+x\n+y", map[string]any{"file_path": filepath.Join(dir, "b/c.txt"), "content": "x\ny\n"}},
		"elsewhere":      {"Write", "/etc/x", "+x", map[string]any{"file_path": "/etc/x", "content": "x"}},
		"an address":     {"WebFetch", "https://x/", "{\n  \"prompt\": \"read it\",\n  \"url\": \"https://x/\"\n}", map[string]any{"url": "https://x/", "prompt": "read it"}},
		"another tool":   {"mcp__db__drop", "", "{\n  \"table\": \"a\\nforce: true\"\n}", map[string]any{"table": "a\nforce: true"}},
		"right to left":  {"Bash", "", "rm -rf ‹U+05D0›/‹U+05D1› 1", map[string]any{"command": "rm -rf א/ב 1"}},
		"line ends":      {"Bash", "", "ls‹U+000D›\nrm x", map[string]any{"command": "ls\r\nrm x"}},
		"control":        {"Bash", "", "echo ‹U+001B›[2J‹U+000D›x‹U+202E›y r‹U+200D›m", map[string]any{"command": "echo \x1b[2J\rx\u202ey r\u200dm"}},
		"blank lines":    {"Bash", "", "ls\n‹40 blank lines›\nrm -rf /", map[string]any{"command": "ls\n" + strings.Repeat(" \n", 40) + "rm -rf /"}},
		"blanks":         {"Bash", "", "ls ‹5000 blanks› ; rm -rf /", map[string]any{"command": "ls" + strings.Repeat(" ", 5000) + "; rm -rf /"}},
		"hidden joiners": {"Bash", "", "ls ‹U+200D›" + "\n‹U+200D›\nrm", map[string]any{"command": "ls \u200d\n\u200d\nrm"}},
		"a secret":       {"Bash", "", "TOKEN=••• ./run", map[string]any{"command": "TOKEN=hunter2hunter2 ./run"}},
	} {
		input, _ := json.Marshal(test.input)
		if about, shown := permissionShown(test.tool, input, dir); about != test.about || shown != test.shown {
			t.Errorf("%s: %q\n%q, want\n%q", name, about, shown, test.shown)
		}
	}
}

func FuzzPermissionShown(f *testing.F) {
	f.Add("Bash", `{"command":"ls\u202e"}`)
	f.Add("Edit", `{"old_string":"a","new_string":"b"}`)
	f.Fuzz(func(t *testing.T, tool, input string) {
		about, shown := permissionShown(tool, json.RawMessage(input), "/x")
		for _, text := range []string{about, shown, alwaysAllows(json.RawMessage(input))} {
			for _, c := range text {
				if unicode.IsControl(c) && c != '\n' && c != '\t' || c == '\u202e' || c == '\u200b' || c == '\ufeff' {
					t.Errorf("%q has %U", text, c)
				}
			}
		}
	})
}

func TestAlwaysAllows(t *testing.T) {
	for suggestions, want := range map[string]string{
		`[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"rm -rf build"},{"toolName":"Bash","ruleContent":"git push *"}],"behavior":"allow","destination":"localSettings"}]`: "Bash(rm -rf build), Bash(git push *) in this project (.claude/settings.local.json)",
		`[{"type":"addDirectories","directories":["/x/out"],"destination":"session"},{"type":"setMode","mode":"acceptEdits","destination":"session"}]`:                                     "access to /x/out in this session; edits without asking in this session",
		`[{"type":"addRules","rules":[{"toolName":"WebFetch"}],"behavior":"allow","destination":"userSettings"}]`:                                                                          "WebFetch in all projects",
		`[{"type":"setMode","mode":"bypassPermissions","destination":"session"}]`:                                                                                                          "",
		`[{"type":"addRules","rules":[{"toolName":"Bash"}],"behavior":"deny","destination":"session"}]`:                                                                                    "",
		`[{"type":"addRules","rules":[{}],"behavior":"allow","destination":"session"}]`:                                                                                                    "",
		`[{"type":"addDirectories","directories":[""],"destination":"session"}]`:                                                                                                           "",
		`[{"type":"addDirectories","directories":["/x"],"destination":"session"},{"type":"new"}]`:                                                                                          "",
		`[{"type":"addDirectories","directories":["/x"],"destination":"nowhere"}]`:                                                                                                         "",
		`[]`: "", `{}`: "", ``: "", `null`: "",
	} {
		if got := alwaysAllows(json.RawMessage(suggestions)); got != want {
			t.Errorf("%s: %q, want %q", suggestions, got, want)
		}
	}
}

func TestPlanShown(t *testing.T) {
	dir := t.TempDir()
	plan, transcript := filepath.Join(dir, "plan.md"), filepath.Join(dir, "a.jsonl")
	line := `{"type":"attachment","attachment":{"type":"plan_mode","planFilePath":"` + plan + `","planExists":false}}` + "\n"
	for path, text := range map[string]string{plan: "# Do\u202e it", transcript: line + `{"type":"user"}` + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct{ input, transcript, want string }{
		"in the input":  {`{"plan":"# A plan\n"}`, transcript, "# A plan"},
		"in Arabic":     {`{"plan":"خطة\u202e می‌خواهم"}`, transcript, "خطة‹U+202E› می‌خواهم"},
		"in its file":   {`{}`, transcript, "# Do‹U+202E› it"},
		"nowhere":       {`{}`, filepath.Join(dir, "none.jsonl"), ""},
		"no transcript": {`{}`, "", ""},
	} {
		if got := planShown(json.RawMessage(test.input), test.transcript); got != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A call's result says what Claude was told of a permission, whoever decided it.
func TestWhatClaudeWasTold(t *testing.T) {
	for name, test := range map[string]struct {
		decided, words, response string
		printed                  bool
		by, label                string
	}{
		"allowed in the thread":       {state.LabelAllow, "", "", true, "chat", state.LabelAllow},
		"denied in the thread":        {state.LabelDeny, "use git mv", "use git mv", true, "chat", state.LabelDeny},
		"denied without words":        {state.LabelDeny, "", deniedText, true, "chat", state.LabelDeny},
		"allowed, denied in terminal": {state.LabelAllow, "", rejected + " The tool use was rejected", true, "terminal", state.LabelDeny},
		"denied, allowed in terminal": {state.LabelDeny, "no", "made it", true, "terminal", state.LabelAllow},
		"not printed yet":             {state.LabelDeny, "no", "made it", false, "terminal", state.LabelAllow},
		"answered in the terminal":    {"", "", "made it", false, "terminal", state.LabelAllow},
	} {
		q := &state.Question{
			QuestionID: "q", SessionID: "s", Kind: state.AskedPermission, Tool: "Bash", Status: state.Pending, Mode: state.Native,
			Questions: []state.Prompt{{Question: "Bash", Options: []state.Option{{Label: state.LabelAllow}, {Label: state.LabelDeny}}}},
		}
		if test.decided != "" {
			q.Status, q.Printed = state.Answered, test.printed
			q.Answers, q.Notes = map[string]string{"Bash": test.decided}, map[string]string{"Bash": test.words}
		}
		if err := state.QuestionsIn(t.TempDir()).Create("q", q); err != nil {
			t.Fatal(err)
		}
		h := &Hook{Env: func(string) string { return "" }, log: state.NewLog(func(string) string { return "" }, "t")}
		h.confirmDecision(q, test.response)
		is, err := state.LoadQuestion(q.Path)
		if err != nil {
			t.Fatal(err)
		}
		if label, _ := is.Decision(); is.Status != state.Resolved || is.ResolvedBy != test.by || label != test.label {
			t.Errorf("%s: %s by %s, %q", name, is.Status, is.ResolvedBy, label)
		}
	}
}

func TestEndsInQuestion(t *testing.T) {
	for text, want := range map[string]bool{
		"Shall I?": true, "Done. *Shall I go on?*\n": true, "コミットしますか？": true, `He said "why?"`: true, "Done.": false, "Why? Because.": false, "": false,
	} {
		if endsInQuestion(text) != want {
			t.Errorf("%q", text)
		}
	}
}
