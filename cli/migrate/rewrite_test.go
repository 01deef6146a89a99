package migrate

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
)

func TestCalls(t *testing.T) {
	for name, tt := range map[string]struct{ src, want string }{
		"in prose":              {`Say SendMessage(recipient="s3-communicator", content="A") then`, `Say Bash("gchat-send --type plain 'A'") then`},
		"as an object":          {`SendMessage({to: 's3-communicator', "message": 'A'})`, `Bash("gchat-send --type plain 'A'")`},
		"a pattern":             {`SendMessage(recipient="s3-communicator", ...)`, ""},
		"quotes":                {`SendMessage(to="s3-communicator", message="it's \"$x\" \\ ` + "`y`" + `")`, `Bash("gchat-send --type plain 'it'\\''s \"$x\" \\ ` + "`y`" + `'")`},
		"lines":                 {"SendMessage(to=\"s3-communicator\",\n  message=\"\"\"a\n\"b\" c\"\"\")", `Bash("gchat-send --type plain 'a\n\"b\" c'")`},
		"in a prompt":           {"```\nTask(prompt=\"\"\"\nSendMessage(to=\"s3-communicator\", message=\"A\")\"\"\")\n```", "```\nTask(prompt=\"\"\"\nBash(\"gchat-send --type plain 'A'\")\"\"\")\n```"},
		"to another":            {`SendMessage(to="s3-heartbeat", message="A")`, ""},
		"of another kind":       {`SendMessage(type="shutdown_request", to="s3-communicator", message="A")`, ""},
		"with more":             {`SendMessage(to="s3-communicator", message="A", urgent="yes")`, ""},
		"a variable":            {`SendMessage(to="s3-communicator", message=text)`, ""},
		"a format string":       {`SendMessage(to="s3-communicator", message=f"{n} left")`, ""},
		"an unknown escape":     {`SendMessage(to="s3-communicator", message="\u00e9")`, ""},
		"an order":              {`SendMessage(to="s3-communicator", message="Poll GChat for replies")`, ""},
		"like a flag":           {`SendMessage(to="s3-communicator", message="-x")`, ""},
		"without content":       {`SendMessage(to="s3-communicator", message="")`, ""},
		"open":                  {`SendMessage(to="s3-communicator", message="A`, ""},
		"two strings in one":    {`SendMessage(to="s3-communicator", message="A""""B")`, ""},
		"backtick in a span":    {"`SendMessage(to=\"s3-communicator\", message=\"`a`\")`", ""},
		"bar in a table":        {`| a | SendMessage(to="s3-communicator", message="a|b") |`, ""},
		"above a skill's text":  {"---\ndescription: SendMessage(to=\"s3-communicator\", message=\"A\")\n---\n", ""},
		"within a quoted text":  {"```\nx = \"SendMessage(to='s3-communicator', message='A')\"\n```\n", ""},
		"ends a quoted text":    {"```\nx = '''\nSendMessage(to=\"s3-communicator\", message=\"A's'\")'''\n```\n", ""},
		"a list's code block":   {"- ```\n  x('SendMessage(to=\"s3-communicator\", message=\"A\")')\n  ```\n", ""},
		"a block within blocks": {"````\n```\n````\nSendMessage(to=\"s3-communicator\", message=\"A\")", "````\n```\n````\nBash(\"gchat-send --type plain 'A'\")"},
	} {
		if tt.want == "" {
			tt.want = tt.src
		}
		if got := newRules().replaceCalls(tt.src); got != tt.want {
			t.Errorf("%s: %s\nbecomes %s\nwant    %s", name, tt.src, got, tt.want)
		}
	}
}

func TestDrop(t *testing.T) {
	for name, tt := range map[string]struct{ src, want string }{
		"a row":                    {"| Agent |\n|---|\n| **s3-communicator** (GChat) | x |\n| b |\n", "| Agent |\n|---|\n| b |\n"},
		"a cost":                   {"| GChat relay (s3-communicator) | $1 |\n", "-"},
		"a row about what happens": {"| s3-communicator silent | page the on-call |\n", ""},
		"a row about another too":  {"| s3-communicator | tells s3-validator |\n", ""},
		"a row in code":            {"```\n| s3-communicator |\n```\n", ""},
		"a section is not a row":   {"# A\n## s3-communicator\nx\n", ""},
	} {
		switch tt.want {
		case "":
			tt.want = tt.src
		case "-":
			tt.want = ""
		}
		if got := newRules().drop(tt.src); got != tt.want {
			t.Errorf("%s: %q becomes %q, want %q", name, tt.src, got, tt.want)
		}
	}
}

// After a migration an output style starts no relay, asks for none and waits for none. Words about other agents stay.
func TestRetire(t *testing.T) {
	for name, tt := range map[string]struct{ src, want string }{
		"a section":            {"# A\n\n## Spawn s3-communicator\n\nx\n\n### how\n\n```\n# y\n```\n\n## B\nz\n", "# A\n\n## B\nz\n"},
		"a list's item":        {"1. Read.\n2. See that `s3-communicator` runs;\n   it takes a minute.\n3. Go.\n", "1. Read.\n3. Go.\n"},
		"a sentence":           {"Plan v1.2 first. Ask the S3 Communicator\n(`SendMessage(...)`). Then go.\n", "Plan v1.2 first. Then go.\n"},
		"a paragraph":          {"A\n\nSend it via s3-communicator:\n\nB\n", "A\n\nB\n"},
		"a row":                {"| a |\n| GChat relay (s3-communicator) x |\n", "| a |\n"},
		"a list of names":      {"Spawn three persistent agents (s3-communicator, s3-heartbeat, and s3-validator).\n", "Spawn two persistent agents (s3-heartbeat, and s3-validator).\n"},
		"behind another":       {"`s3-heartbeat` / `s3-communicator` and s3-validator + s3-communicator\n", "`s3-heartbeat` and s3-validator\n"},
		"a call":               {"```\nfirst()\nSendMessage(to=\"s3-communicator\", message=text)\n```\n", "```\nfirst()\n```\n"},
		"calls alone":          {"a\n\n```python\n# to s3-communicator\nSendMessage(to=\"s3-communicator\", ...)\n```\n\nb\n", "a\n\nb\n"},
		"a long call":          {"```\nTeam(\"a\")\nTask(\n  name=\"s3-communicator\",\n)\nTask(name=\"x\")\n```\n", "```\nTeam(\"a\")\nTask(name=\"x\")\n```\n"},
		"another's long text":  {"```\nTask(name=\"s3-heartbeat\", prompt=\"\"\"Scan.\n\nTell s3-communicator.\"\"\")\n```\n", ""},
		"about another, too":   {"Tell s3-communicator what s3-heartbeat finds.\n", ""},
		"no relay":             {"Three persistent agents.\n\n\n\n```\n```\n", ""},
		"above a style's text": {"---\ndescription: s3-communicator\n---\n", ""},
	} {
		if tt.want == "" {
			tt.want = tt.src
		}
		if got := newRules().retire(tt.src); got != tt.want {
			t.Errorf("%s: %q\nbecomes %q\nwant    %q", name, tt.src, got, tt.want)
		}
	}
}

// The new checker is Python, and so is a code block whose calls were replaced. What the shell gets of a command is the message.
func TestStillParses(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	dir := t.TempDir()
	put(t, dir, "persistent_agent_checker.py", checkerText)
	put(t, dir, "gchat-forwarded-ask/q.json", "{}")
	const asks = "from persistent_agent_checker import *; print(any_persistent_agent(['x', 's3-validator']), any_persistent_agent(['x']), asked_in_google_chat(), asked_in_google_chat(-1))"
	cmd := bound.Command(t, python, "-B", "-c", asks)
	cmd.Dir, cmd.Env = dir, append(cmd.Environ(), "GCHAT_STATE_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "True False True False\n" {
		t.Errorf("the checker says %s (%v)", out, err)
	}
	for i, m := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(styleAfter, -1) {
		put(t, dir, "block.py", m[1])
		if out, err := bound.Command(t, python, "-m", "py_compile", filepath.Join(dir, "block.py")).CombinedOutput(); err != nil {
			t.Errorf("block %d: %v %s", i, err, out)
		}
	}
	message := "it's `a` \"$b\" $(c) \\ !\ttwo\nlines ''"
	call := newRules().sendCall("SendMessage(to='s3-communicator', message='''it\\'s `a` \"$b\" $(c) \\\\ !\\ttwo\nlines \\'\\' ''')")
	script := "import subprocess\ndef Bash(s): print(subprocess.run(['bash', '-c', 'gchat-send() { printf %s \"$3\"; }; ' + s], capture_output=True, text=True).stdout, end='')\n" + call
	out, err := bound.Command(t, python, "-c", script).CombinedOutput()
	if err != nil || strings.TrimSuffix(string(out), " ") != message {
		t.Errorf("%s says %q (%v), want %q", call, out, err, message)
	}
	if out, err := bound.Command(t, "bash", "-n", "-c", strings.Replace(call, "Bash(", "# Bash(", 1)).CombinedOutput(); err != nil {
		t.Errorf("bash: %v %s", err, out)
	}
}

// Foreign bytes: a second time finds nothing more to change in a text that a first time changed.
func FuzzRewrite(f *testing.F) {
	f.Add(styleBefore)
	f.Add("- ```\n| 1 | s3-communicator |\n~~~\n## s3-communicator\nSendMessage(to=\"s3-communicator\", message='''a''')")
	r := newRules()
	f.Fuzz(func(t *testing.T, src string) {
		once := r.rewrite(".claude/output-styles/x.md", src)
		if twice := r.rewrite(".claude/output-styles/x.md", once); strings.Count(src, "ommunicator") < 2 && twice != once {
			t.Errorf("%q becomes %q, and then %q", src, once, twice)
		}
	})
}

// What is not about the relay alone stays in an output style.
func TestRetireKeeps(t *testing.T) {
	for name, c := range map[string]struct{ src, kept string }{
		"below a title":     {"# Orchestrator with s3-communicator\n\nText.\n\n## Rules\n\nNever push to main.\n", "Never push to main."},
		"another sum":       {"Tell s3-communicator.\n\nSpawn three agents per epic: two coders and a tester.\n", "three agents per epic"},
		"a shell's branch":  {"```bash\nif ok; then\n  deploy # s3-communicator knows\nfi\n```\n", "if ok; then\n  deploy"},
		"an item's rule":    {"- Ask s3-communicator first.\n  Never force-push.\n", "Never force-push."},
		"the English word":  {"Tell s3-communicator.\n\nA good communicator never invents results.\n", "never invents results"},
		"a quote's last":    {"> Tell s3-communicator.\n> Never lie.\n", "Never lie."},
		"a call's neighbor": {"```python\nbackup()\nSendMessage(\n    to=\"s3-communicator\",\n)\n```\n", "backup()"},
	} {
		if got := newRules().retire(c.src); !strings.Contains(got, c.kept) {
			t.Errorf("%s: %q is gone: %q", name, c.kept, got)
		}
	}
}
