package hooks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func TestCallPreview_ShowsTheCall(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.txt")
	kit.NoError(t, os.WriteFile(file, []byte("one\ntwo\nthree\nfour\nfive\n"), 0o600))
	real, _ := filepath.EvalSymlinks(dir)
	out, _ := filepath.EvalSymlinks(t.TempDir())
	for name, content := range map[string]string{"bin": "a\xffb",
		"large": strings.Repeat("x", 2<<20)} {
		kit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for name, to := range map[string]string{"docs": out, "soon": filepath.Join(out, "later")} {
		kit.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	for name, test := range map[string]struct {
		tool, about, shown string
		input              map[string]any
	}{
		"a command": {"Bash", "Clean up", "rm -rf build",
			map[string]any{"command": "rm -rf build", "description": "Clean up"}},
		"an edit": {"Edit", "a.txt", " x\n a\n b\n-c\n+C\n d",
			map[string]any{"file_path": file, "old_string": "x\na\nb\nc\nd",
				"new_string": "x\na\nb\nC\nd"}},
		"a file that exists": {"Write", "a.txt", " one\n two\n-three\n+3\n four\n five",
			map[string]any{"file_path": file, "content": "one\ntwo\n3\nfour\nfive\n"}},
		"a new file": {"Write", "b/c.txt", "+x\n+y",
			map[string]any{"file_path": filepath.Join(dir, "b/c.txt"), "content": "x\ny\n"}},
		"elsewhere": {"Write", "/etc/x (outside of the folder)", "+x",
			map[string]any{"file_path": "/etc/x", "content": "x"}},
		"an address": {"WebFetch", "https://x/",
			"{\n  \"prompt\": \"read it\",\n  \"url\": \"https://x/\"\n}",
			map[string]any{"url": "https://x/", "prompt": "read it"}},
		"another tool": {"mcp__db__drop", "", "{\n  \"table\":\n  | a\n  | force: true\n}",
			map[string]any{"table": "a\nforce: true"}},
		"its own members": {"mcp__db__drop", "",
			"{\n  \"description\": \"Read a table\",\n  \"url\": \"https://x\"\n}",
			map[string]any{"description": "Read a table", "url": "https://x"}},
		"code in a member": {"Workflow", "", "{\n  \"list\": [\n    {\n      \"n\\ne\": 1,\n      \"s\":\n      | \\ \"a\",\n      | \n      | b\n    }\n  ],\n  \"script\":\n  | x()\n  | y()\n}", map[string]any{
			"script": "x()\ny()", "list": []any{map[string]any{"n\ne": 1, "s": "\\ \"a\",\n\nb"}}}},
		"a block in a note": {"Bash", "", "‹other:\n| a\n| b›\nls",
			map[string]any{"command": "ls", "other": "a\nb"}},
		"marks of ours": {"Bash", "", "ls ‹U+2039›U+0020‹U+203A› ghp_‹U+2022›‹U+2022›‹U+2022› ‹U+22EF›", map[string]any{"command": "ls ‹U+0020› ghp_••• ⋯"}},
		"hosts": {"Bash", "", "curl https://xn--80ak6aa92e.com:8/x https://u@xn--80ak6aa92e.com https://evil.example/p ‹U+0430›‹U+0440›‹U+0440›‹U+04CF›‹U+0435›.com https://a.example/é", map[string]any{
			"command": "curl https://аррӏе.com:8/x https://u@аррӏе.com https://evil。example/p аррӏе.com https://a.example/é"}},
		"more letters alike": {"Bash", "", "‹U+0261›it c‹U+0251›t ‹U+217C›s ‹U+1D04›at ‹U+A731›udo g‹U+1040›‹U+1040›gle chm‹U+0966›d g‹U+0131›t ‹U+2113›s ma‹U+212A›e 1‹U+FF10›", map[string]any{
			"command": "ɡit cɑt ⅼs ᴄat ꜱudo g၀၀gle chm०d gıt ℓs ma\u212ae 1０"}},
		"more signs alike": {"Bash", "", "‹U+2032› ‹U+02BC› ‹U+02CB› ‹U+FF1B› ‹U+FF5C› ‹U+A78A›",
			map[string]any{"command": "′ ʼ ˋ ； ｜ ꞊"}},
		"languages": {"Bash", "", "git commit -m 'Gro‹U+00DF›, älter, déjà vu, ‹U+0142›ódź: Привет мир 版本 v2版本 한국어 नमस्ते 🚀👍🏽'", map[string]any{
			"command": "git commit -m 'Groß, älter, déjà vu, łódź: Привет мир 版本 v2版本 한국어 नमस्ते 🚀👍🏽'"}},
		"right to left": {"Bash", "", "rm -rf ‹U+05D0›/‹U+05D1› 1",
			map[string]any{"command": "rm -rf א/ב 1"}},
		"line ends": {"Bash", "", "ls‹U+000D›\nrm x", map[string]any{"command": "ls\r\nrm x"}},
		"control": {"Bash", "", "echo ‹U+001B›[2J‹U+000D›x‹U+202E›y r‹U+200D›m",
			map[string]any{"command": "echo \x1b[2J\rx\u202ey r\u200dm"}},
		"blank lines": {"Bash", "", "ls\n‹40 blank lines›\nrm -rf /",
			map[string]any{"command": "ls\n" + strings.Repeat(" \n", 40) + "rm -rf /"}},
		"blanks": {"Bash", "", "ls ‹5000 blanks› ; rm -rf /",
			map[string]any{"command": "ls" + strings.Repeat(" ", 5000) + "; rm -rf /"}},
		"no longer line": {"Bash", "", "echo \\‹U+0020›\nrm x \\\n-f",
			map[string]any{"command": "echo \\ \nrm x \\\n-f"}},
		"letters alike": {"Bash", "", "curl ‹U+0430›pple.com # Привет, мир: x=‹U+00B5›s Goで",
			map[string]any{"command": "curl аpple.com # Привет, мир: x=µs Goで"}},
		"signs alike": {"Bash", "", "rsync ‹U+2013›n ‹U+2014›del x ‹U+2013› y 1‹U+2013›2 ‹U+2011›n a‹U+2215›b x>‹U+0338›y ‹U+037E› e\u0301 ñ", map[string]any{
			"command": "rsync –n —del x – y 1–2 ‑n a∕b x>\u0338y \u037e e\u0301 ñ"}},
		"hidden joiners": {"Bash", "", "ls ‹U+200D›" + "\n‹U+200D›\nrm",
			map[string]any{"command": "ls \u200d\n\u200d\nrm"}},
		"a key": {"Bash", "", "TOKEN=ghp_••• ./run",
			map[string]any{"command": "TOKEN=ghp_abcdefghij0123456789 ./run"}},
		"no key": {"Bash", "", `echo "password="; touch PWN; echo "x"`,
			map[string]any{"command": `echo "password="; touch PWN; echo "x"`}},
		"more members": {"Bash", "", "‹run_in_background: true›\n‹dangerouslyDisableSandbox: true›\nls", map[string]any{
			"command": "ls", "run_in_background": true, "dangerouslyDisableSandbox": true}},
		"defaults": {"Bash", "", "‹run_in_background: \"false\"›\nls", map[string]any{
			"command": "ls", "run_in_background": "false", "dangerouslyDisableSandbox": false}},
		"a default of an edit": {"Edit", "a.txt", "‹dangerouslyDisableSandbox: false›\n-o\n+0",
			map[string]any{"file_path": file, "old_string": "o", "new_string": "0",
				"replace_all": false, "dangerouslyDisableSandbox": false}},
		"another tool's default": {"Monitor", "", "‹run_in_background: false›\nls",
			map[string]any{"command": "ls", "run_in_background": false}},
		"a watch": {"Monitor", "watch", "‹timeout_ms: 9›\nwhile :\ndo ls; done", map[string]any{
			"command": "while :\ndo ls; done", "description": "watch", "timeout_ms": 9}},
		"all places": {"Edit", "a.txt", "‹replaces 3 places in the file›\n‹replace_all: true›\n-o\n+0", map[string]any{
			"file_path": file, "old_string": "o", "new_string": "0", "replace_all": true}},
		"a name with blanks": {"Write", "a b .c", "‹file: \"DIR/a  b .c\"›\n+x",
			map[string]any{"file_path": "a  b .c", "content": "x"}},
		"a name with marks": {"Edit", "__init__.py", "‹file: \"DIR/__init__.py\"›\n-x\n+y",
			map[string]any{"file_path": "__init__.py", "old_string": "x", "new_string": "y"}},
		"another case": {"Bash", "", "‹Description: \"no\"›\n‹Command: \"echo harmless\"›\nrm x",
			map[string]any{
				"command": "rm x", "Command": "echo harmless", "Description": "no"}},
		"over a binary": {"Write", "bin", "‹replaces a file of 3 bytes, which is not shown›\n+x",
			map[string]any{"file_path": filepath.Join(dir, "bin"), "content": "x"}},
		"over a large one": {"Write", "large",
			"‹replaces a file of 2097152 bytes, which is not shown›\n+x",
			map[string]any{"file_path": filepath.Join(dir, "large"), "content": "x"}},
		"a read through a link": {"Read", "OUT/keys (outside of the folder) (through the link docs/keys)", "{\n  \"file_path\": \"docs/keys\"\n}", map[string]any{
			"file_path": "docs/keys"}},
		"a page through a link": {"Artifact",
			"OUT/page (outside of the folder) (through the link docs/page)",
			"{\n  \"file_path\": \"docs/page\"\n}", map[string]any{
				"file_path": "docs/page"}},
		"a new file through a link": {"Write",
			"OUT/new (outside of the folder) (through the link docs/new)", "+x",
			map[string]any{"file_path": "docs/new", "content": "x"}},
		"a link to what is not there": {"Write",
			"OUT/later (outside of the folder) (through the link soon)", "+x",
			map[string]any{"file_path": "soon", "content": "x"}},
	} {
		input := kit.JSON(t, test.input)
		test.about = strings.ReplaceAll(test.about, "OUT", out)
		test.shown = strings.ReplaceAll(test.shown, "DIR", real)
		c := previewCall(test.tool, input, dir)
		kit.True(t, c.about == test.about && c.text == test.shown && c.isComplete,
			"%s: %q\n%q, want\n%q", name, c.about, c.text, test.shown)
	}
}

// A search may read every file below its folder, so never_remote applies to all of these.
func TestCallPreview_SearchCountsAsItsFolder(t *testing.T) {
	dir := t.TempDir()
	real, _ := filepath.EvalSymlinks(dir)
	kit.NoError(t, os.Symlink("/", filepath.Join(dir, "all")))
	for name, test := range map[string]struct {
		tool, path, searched, pattern string
		want                          bool
	}{
		"the folder where it is": {"Grep", "", "x", "Read(" + real + "/keys/*)", true},
		"a folder":               {"Glob", "src", "*", "Read(" + real + "/keys/*)", false},
		"the folder of the file": {"Glob", "keys", "*", "Read(" + real + "/keys/*)", true},
		"the file":               {"Grep", "keys/a", "x", "Read(" + real + "/keys/*)", true},
		"through a link":         {"Grep", "all", "x", "Read(/etc/*)", true},
		"by an absolute pattern": {"Glob", "src", real + "/keys/[a-z]*",
			"Read(" + real + "/keys/*)", true},
		"by a pattern upwards": {"Glob", "src", "../k*", "Read(" + real + "/keys/*)", true},
		"another tool":         {"Read", "src", "x", "Read(" + real + "/src/*)", false},
	} {
		member := fileInputMember[test.tool]
		input := kit.JSON(t, map[string]string{member: test.path, "pattern": test.searched})
		never := &config.Config{NeverRemote: []string{test.pattern}}
		c := previewCall(test.tool, input, dir)
		if got := never.AccessTo(state.KindPermission, test.tool,
			c.ruleTexts...); got.CanAllow == test.want {
			t.Errorf("%s: %s beside %q: %v", name, test.pattern, c.ruleTexts, got)
		}
	}
}

func FuzzCallPreview(f *testing.F) {
	f.Add("Bash", `{"command":"ls\u202e"}`)
	f.Add("Edit", `{"old_string":"a","new_string":"b"}`)
	f.Fuzz(func(t *testing.T, tool, input string) {
		never := func(string) bool { return false }
		c := previewCall(tool, json.RawMessage(input), "/x")
		for _, text := range []string{c.about, c.text,
			alwaysRulesText(json.RawMessage(input), false, never, localRulesPlace("", ""))} {
			for _, c := range text {
				kit.True(t, (!unicode.IsControl(c) || c == '\n' || c == '\t') && c != '\u202e' &&
					c != '\u200b' && c != '\ufeff', "%q has %U", text, c)
			}
		}
	})
}

func TestCallPreview_AlwaysRules(t *testing.T) {
	for suggestions, want := range map[string]string{
		`[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"rm -rf build"},{"toolName":"Bash","ruleContent":"git push *"}],"behavior":"allow","destination":"localSettings"}]`: "Bash(rm -rf build), Bash(git push *) in this project (.claude/settings.local.json)",
		`[{"type":"addDirectories","directories":["/x/out"],"destination":"session"},{"type":"setMode","mode":"acceptEdits","destination":"session"}]`:                                     "access to /x/out in this session; all edits and common file commands (mkdir, touch, rm, rmdir, mv, cp, sed) in this session",
		`[{"type":"addRules","rules":[{"toolName":"WebFetch"}],"behavior":"allow","destination":"userSettings"}]`:                                                                          "WebFetch in all projects",
		`[{"type":"setMode","mode":"bypassPermissions","destination":"session"}]`:                                                                                                          "",
		`[{"type":"addRules","rules":[{"toolName":"Bash"}],"behavior":"deny","destination":"session"}]`:                                                                                    "",
		`[{"type":"addRules","rules":[{}],"behavior":"allow","destination":"session"}]`:                                                                                                    "",
		`[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"ls\nrm *"}],"behavior":"allow","destination":"session"}]`:                                                          "",
		"[{\"type\":\"addRules\",\"rules\":[{\"toolName\":\"Bash\",\"ruleContent\":\"echo `id`\"}],\"behavior\":\"allow\",\"destination\":\"session\"}]":                                   "",
		`[{"type":"addDirectories","directories":[""],"destination":"session"}]`:                                                                                                           "",
		`[{"type":"addDirectories","directories":["/x"],"destination":"session"},{"type":"new"}]`:                                                                                          "",
		`[{"type":"addDirectories","directories":["/x"],"destination":"nowhere"}]`:                                                                                                         "",
		`[]`: "", `{}`: "", ``: "", `null`: "",
	} {
		kit.Equalf(t, alwaysRulesText(json.RawMessage(suggestions), false, nil,
			localRulesPlace("", "")), want, "%s", suggestions)
	}
	// With never_remote set, only rules of tools that it does not name are offered.
	never := func(tool string) bool { return tool == "Bash" }
	for suggestions, offered := range map[string]bool{
		`[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"git *"}],"behavior":"allow","destination":"session"}]`:                                        false,
		`[{"type":"addRules","rules":[{"toolName":"WebFetch"}],"behavior":"allow","destination":"session"}]`:                                                          true,
		`[{"type":"addRules","rules":[{"toolName":"WebFetch"},{"toolName":"Bash"}],"behavior":"allow","destination":"session"}]`:                                      false,
		`[{"type":"addRules","rules":[{"toolName":"mcp__db__read"}],"behavior":"allow","destination":"session"}]`:                                                     true,
		`[{"type":"addRules","rules":[{"toolName":"mcp__db"}],"behavior":"allow","destination":"session"}]`:                                                           false,
		`[{"type":"addRules","rules":[{"toolName":"mcp__*"}],"behavior":"allow","destination":"session"}]`:                                                            false,
		`[{"type":"setMode","mode":"acceptEdits","destination":"session"}]`:                                                                                           false,
		`[{"type":"addDirectories","directories":["/x"],"destination":"session"}]`:                                                                                    false,
		`[{"type":"addRules","rules":[{"toolName":"X"}],"behavior":"allow","destination":"session"},{"type":"setMode","mode":"acceptEdits","destination":"session"}]`: false,
	} {
		if got := alwaysRulesText(json.RawMessage(suggestions), true, never,
			localRulesPlace("", "")); (got != "") != offered {
			t.Errorf("%s: %q", suggestions, got)
		}
	}
	// A rule for one file tool allows the other file tools, and commands may read what a
	// tool may read.
	for rule, named := range map[string]string{"Read": "Bash", "Edit": "Write", "Grep": "Read"} {
		suggestion := `[{"type":"addRules","rules":[{"toolName":"` + rule +
			`","ruleContent":"//x/**"}],"behavior":"allow","destination":"session"}]`
		kit.Equalf(t, alwaysRulesText(json.RawMessage(suggestion), true,
			func(tool string) bool { return tool == named }, "here"), "",
			"%s beside %s", rule, named)
	}
}

// A host with many foreign characters does not take long: converting it to Punycode takes
// the square of its length.
func TestCallPreview_LongHostIsShown(t *testing.T) {
	host := make([]rune, 60_000)
	for i := range host {
		host[i] = rune(0x4e00 + i%20_000)
	}
	command := "curl https://" + string(host) + "/x"
	input := kit.JSON(t, map[string]string{"command": command})
	text := previewCall("Bash", input, t.TempDir()).text
	kit.True(t, strings.HasPrefix(text, "curl https://一丁"), "%.60q", text)
}

// A preview that is not complete says so, and does not take long.
func TestCallPreview_TooLongIsIncomplete(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	var was, is strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&was, "line %d of the old file\n", i)
		fmt.Fprintf(&is, "line %d of the new file\n", i)
	}
	kit.NoError(t, os.WriteFile(file, []byte(was.String()), 0o600))
	for name, in := range map[string]map[string]any{
		"Bash":  {"command": "ls " + strings.Repeat("x", maxShownBytes)},
		"Write": {"file_path": file, "content": is.String()},
	} {
		c := previewCall(name, kit.JSON(t, in), dir)
		kit.True(t, !c.isComplete, "%s is complete", name)
		kit.True(t, strings.Contains(c.text, " bytes are not shown›"), "%s does not say so", name)
	}
	deep := `{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`
	c := previewCall("mcp__x", json.RawMessage(deep), dir)
	kit.True(t, c.text == deep && c.isComplete, "a deep input: %d bytes", len(c.text))
	changed := strings.Replace(was.String(), "line 10000 of the old", "line 10000 of the new", 1)
	input := kit.JSON(t, map[string]any{"file_path": file, "content": changed})
	c = previewCall("Write", input, dir)
	kit.True(t, c.isComplete && strings.Count(c.text, "\n") == 7, "one line changed: %q", c.text)
}

// A path below the project but not below the working folder is shown in full, since it is
// not the file of that name in the working folder.
func TestCallPreview_PathFromTheWorkingFolder(t *testing.T) {
	project, _ := filepath.EvalSymlinks(t.TempDir())
	for path, want := range map[string]string{"docs/a": "a",
		"Makefile":         filepath.Join(project, "Makefile"),
		"docs/../Makefile": filepath.Join(project, "Makefile")} {
		if shown, _, _ := displayPath(filepath.Join(project, path),
			[]string{filepath.Join(project, "docs"), project}); shown != want {
			t.Errorf("%s is shown as %s", path, shown)
		}
	}
	if shown, _, _ := displayPath("/"+strings.Repeat("x/", 200)+"y",
		[]string{project}); len(shown) > state.MaxAboutLength {
		input := kit.JSON(t, map[string]string{"file_path": shown, "content": "x"})
		kit.True(t, !previewCall("Write", input, project).isComplete,
			"a path that a message shortens may be allowed")
	}
}
