package migrate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const agents = "# Any of these keeps the session's team alive.\nPERSISTENT_AGENTS = (\"s3-heartbeat\", \"s3-validator\", \"s3-communicator\")\n"

func TestChecker(t *testing.T) {
	for name, tt := range map[string]struct{ src, want string }{
		"in":             {"import os\n\nx = \"s3-communicator\" in names\n", "import os\n\n" + agents + "\nx = any(agent in names for agent in PERSISTENT_AGENTS)\n"},
		"not in":         {"x = 's3-communicator' not in m[\"a\"].get('b')\n", agents + "\nx = not any(agent in m[\"a\"].get('b') for agent in PERSISTENT_AGENTS)\n"},
		"equals":         {"from a import (\n    b,\n)\nx = m.get(\"name\") == \"s3-communicator\" and y\n", "from a import (\n    b,\n)\n\n" + agents + "\nx = m.get(\"name\") in PERSISTENT_AGENTS and y\n"},
		"equals, turned": {"x = \"s3-communicator\" == m.name\n", agents + "\nx = m.name in PERSISTENT_AGENTS\n"},
		"constant":       {"NAME = \"s3-communicator\"\nx = NAME in names  # NAME\n", agents + "\nNAME = \"s3-communicator\"\nx = any(agent in names for agent in PERSISTENT_AGENTS)  # NAME\n"},
		"of a class":     {"class A:\n    NAME: str = 's3-communicator'\n    def f(self, n):\n        return n == self.NAME\n", agents + "\nclass A:\n    NAME: str = 's3-communicator'\n    def f(self, n):\n        return n in PERSISTENT_AGENTS\n"},
		"docstring":      {"\"\"\"Doc s3-communicator.\"\"\"\nx = 's3-communicator' in n\n", "\"\"\"Doc s3-communicator.\"\"\"\n\n" + agents + "\nx = any(agent in n for agent in PERSISTENT_AGENTS)\n"},
		"message":        {"x = 's3-communicator' in n or 'spawn s3-communicator'\n", agents + "\nx = any(agent in n for agent in PERSISTENT_AGENTS) or 'spawn s3-heartbeat'\n"},
		"returns":        {"x = 's3-communicator' in n\r\n", strings.ReplaceAll(agents+"\nx = any(agent in n for agent in PERSISTENT_AGENTS)\n", "\n", "\r\n")},
		"brackets in it": {"x = \"s3-communicator\" in set(get_names(team[\"a\"])).union(d[keys[0]])\n", agents + "\nx = any(agent in set(get_names(team[\"a\"])).union(d[keys[0]]) for agent in PERSISTENT_AGENTS)\n"},
		"equals a call":  {"x = [n for n in m if \"s3-communicator\" == first(names(n))]  # y\n", agents + "\nx = [n for n in m if first(names(n)) in PERSISTENT_AGENTS]  # y\n"},
		"several lines":  {"x = (\n    \"s3-communicator\" in a\n    or n == \"s3-communicator\"\n)\n", agents + "\nx = (\n    any(agent in a for agent in PERSISTENT_AGENTS)\n    or n in PERSISTENT_AGENTS\n)\n"},
		// Not understood: nothing is changed.
		"a sum":           {"x = 's3-communicator' in members + extra\n", ""},
		"a sum below":     {"x = ('s3-communicator' in members\n  # c\n  + extra)\n", ""},
		"a sum before":    {"x = prefix + 's3-communicator' in n\n", ""},
		"open brackets":   {"x = 's3-communicator' in set(\n  n)\n", ""},
		"a chain":         {"x = 's3-communicator' == a == b\n", ""},
		"equals a method": {"x = a == 's3-communicator'.upper()\n", ""},
		"two in a row":    {"x = a == 's3-communicator' '-v2'\n", ""},
		"awaited":         {"x = 's3-communicator' in f(await g())\n", ""},
		"named as ours":   {"x = [1 for agent in m if 's3-communicator' in agent['names']]\n", ""},
		"default":         {"def f(name='s3-communicator'):\n    return name == 's3-communicator'\n", ""},
		"filter":          {"x = [m for m in n if m != 's3-communicator'] or 's3-communicator' in n\n", ""},
		"one of two":      {"x = 's3-communicator' in n\ny = d['s3-communicator']\n", ""},
		"a dictionary":    {"x = d['s3-communicator']\n", ""},
		"constant shown":  {"NAME = 's3-communicator'\nx = NAME in n\nprint(NAME)\n", ""},
		"constant in f":   {"NAME = 's3-communicator'\nx = NAME in n\ny = f'{NAME} is gone'\n", ""},
		"open string":     {"x = 's3-communicator' in n\ny = 'abc\n", ""},
		"here already":    {"PERSISTENT_AGENTS = ()\nx = 's3-communicator' in n\n", ""},
		"no comparison":   {"# s3-communicator\nx = 1\n", ""},
		"shebang":         {"#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n\"\"\"D.\"\"\"\nfrom __future__ import annotations\nx = 's3-communicator' in n\n", "#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n\"\"\"D.\"\"\"\nfrom __future__ import annotations\n\n" + agents + "\nx = any(agent in n for agent in PERSISTENT_AGENTS)\n"},
		"byte order mark": {"\ufeffx = 's3-communicator' in n\n", "\ufeff" + agents + "\nx = any(agent in n for agent in PERSISTENT_AGENTS)\n"},
		"quote in remark": {"# don't\nx = 's3-communicator' in n\n", "# don't\n\n" + agents + "\nx = any(agent in n for agent in PERSISTENT_AGENTS)\n"},
	} {
		text := newText("x.py", tt.src)
		ok := checkPersistent(text)
		if tt.want == "" {
			tt.want = tt.src
			if ok {
				t.Errorf("%s: is said to be understood", name)
			}
		}
		if got := text.result(); got != tt.want {
			t.Errorf("%s: %q becomes\n%s\nwant\n%s", name, tt.src, got, tt.want)
		}
	}
}

// The checker's constant stays: the harness's other files may import it.
func TestCheckerKeepsItsConstant(t *testing.T) {
	dir := makeHarness(t, map[string]string{
		".claude/hooks/gate/communicator_checker.py": "AGENT = \"s3-communicator\"\n\n\ndef check(names):\n    return AGENT in names\n",
		".claude/hooks/gate/gate.py":                 "from .communicator_checker import AGENT, check\n",
	})
	p := find(t, dir)
	apply(t, p)
	const want = agents + "\nAGENT = \"s3-communicator\"\n\n\ndef check(names):\n    return any(agent in names for agent in PERSISTENT_AGENTS)\n"
	if got := contents(t, dir, ".claude/hooks/gate/persistent_agent_checker.py"); got != want {
		t.Errorf("the checker becomes\n%s\nwant\n%s", got, want)
	}
	if why := lookAt(p, ".claude/hooks/gate/communicator_checker.py"); !strings.Contains(why, "nothing here compares with it") {
		t.Errorf("the constant is listed as %q", why)
	}
}

// Python's own word on the migrated stop gate: any persistent agent keeps the team alive, the relay too; without one it
// blocks; a denied question with a fresh marker counts as asked.
func TestStopGateRuns(t *testing.T) {
	py, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	for name, tt := range map[string]struct{ members, marker, want string }{
		"heartbeat and validator": {`[{"name": "s3-heartbeat"}, {"name": "s3-validator"}]`, "m.json", "continue"},
		"validator, other key":    {`[{"agentName": "s3-validator"}]`, "m.json", "continue"},
		"the relay still there":   {`[{"name": "s3-communicator"}]`, "m.json", "continue"},
		"nobody":                  {`[{"name": "worker"}]`, "m.json", "block"},
		"nobody was asked":        {`[{"name": "s3-heartbeat"}]`, "", "block"},
		"no marker":               {`[{"name": "s3-heartbeat"}]`, "note.txt", "block"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, home := harnessCopy(t), t.TempDir()
			apply(t, find(t, dir))
			put(t, home, ".claude/teams/s3-live-1/config.json", `{"members": `+tt.members+`}`)
			if tt.marker != "" {
				put(t, dir, ".claude/state/gchat-forwarded-ask/"+tt.marker, "{}")
			}
			cmd := exec.Command(py, "-c", "from unified_stop_gate.checker import run; print(run('s', [])[0])")
			cmd.Dir = filepath.Join(dir, ".claude/hooks")
			cmd.Env = append(os.Environ(), "HOME="+home, "CLAUDE_PROJECT_DIR="+dir, "PYTHONDONTWRITEBYTECODE=1", "GCHAT_STATE_DIR=")
			out, err := cmd.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != tt.want {
				t.Errorf("the gate says %s (%v), want %s", out, err, tt.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	const call = "    if gchat_question_was_asked():\n        return True\n"
	for name, tt := range map[string]struct {
		src, want string
	}{
		"body":       {"def check_ask_user_question_presented():\n    return False\n", judgeHelper + "def check_ask_user_question_presented():\n" + call + "    return False\n"},
		"docstring":  {"x = 1\ndef check_ask_user_question_presented() -> bool:  # c\n    \"\"\"D\n    d.\"\"\"\n\n    return True\n", "x = 1\n" + judgeHelper + "def check_ask_user_question_presented() -> bool:  # c\n    \"\"\"D\n    d.\"\"\"\n" + call + "\n    return True\n"},
		"a reason":   {"def check_ask_user_question_presented():\n    return False, 'why'\n", ""},
		"variable":   {"def check_ask_user_question_presented():\n    found = 1\n    return found\n", ""},
		"no return":  {"def check_ask_user_question_presented():\n    pass\n", ""},
		"in a class": {"class A:\n    def check_ask_user_question_presented(self):\n        return False\n", ""},
		"there":      {"def check_ask_user_question_presented():\n    # gchat-forwarded-ask\n    return False\n", ""},
	} {
		text := newText("x.py", tt.src)
		text.judge()
		if tt.want == "" {
			tt.want = tt.src
		}
		if got := text.result(); got != tt.want {
			t.Errorf("%s: %q becomes\n%s\nwant\n%s", name, tt.src, got, tt.want)
		}
	}
}

// A file that uses the checker and is not changed keeps the checker's name; a paper of its time does not.
func TestCheckerKeepsItsName(t *testing.T) {
	const checker = ".claude/hooks/gate/communicator_checker.py"
	for name, keeps := range map[string]bool{
		"run": true, "gate.ini": true, "Makefile": true, "x.ipynb": true, "gchat-hooks.json": true,
		"CLAUDE.md": false, "gate.toml": false, "docs/prds/PRD.md": false,
	} {
		dir := makeHarness(t, map[string]string{
			checker: "def check(names):\n    return 's3-communicator' in names\n",
			name:    "gate/communicator_checker.py\n",
		})
		p := find(t, dir)
		apply(t, p)
		if _, err := os.Stat(filepath.Join(dir, checker)); (err == nil) != keeps {
			t.Errorf("with %s, the checker's old name: %v", name, err)
		}
		if why := lookAt(p, checker); keeps != strings.HasPrefix(why, "keeps its name: "+name+" uses it") {
			t.Errorf("with %s, the checker is listed as %q", name, why)
		}
	}
}
