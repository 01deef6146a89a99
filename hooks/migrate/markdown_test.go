package migrate

import (
	"strings"
	"testing"
)

// migrated gives what becomes of a Markdown text, and the numbers of the lines that are listed.
func migrated(src string) (string, string) {
	f := &file{path: ".claude/commands/x.md", text: newText(".claude/commands/x.md", src)}
	f.migrate(true, true)
	var look []string
	for _, l := range f.text.look {
		look = append(look, strings.TrimPrefix(strings.SplitN(l.String(), ": ", 2)[0], f.path+":"))
	}
	return f.text.result(), strings.Join(look, " ")
}

const sendA = `SendMessage(recipient="s3-communicator", content="A")`
const gchatA = `Bash("gchat-send --type plain 'A'")`

const spawnBlock = "```python\nTask(name=\"s3-communicator\")\n```\n"

func TestMarkdown(t *testing.T) {
	for name, tt := range map[string]struct{ src, want, look string }{
		"nothing to do":                    {"# a\n\nb", "# a\n\nb", ""},
		"call in prose":                    {"Say " + sendA + " then.\n", "Say " + gchatA + " then.\n", ""},
		"call in a span":                   {"Say `" + sendA + "`.", "Say `" + gchatA + "`.", ""},
		"backtick in a span":               {"Say `SendMessage(recipient=\"s3-communicator\", content=\"a ``b`` c\")`.\n", "Say `SendMessage(recipient=\"s3-communicator\", content=\"a ``b`` c\")`.\n", "1"},
		"call with a blank":                {"`SendMessage(recipient=\"s3-communicator\", content=f\"Session started: {session_id}\")`\n", "`Bash(\"gchat-send --type session_start \\\"Session started: $session_id\\\"\")`\n", ""},
		"call in a shell block":            {"```sh\n" + sendA + "\n```\n", "```sh\ngchat-send --type plain 'A'\n```\n", ""},
		"call in an unclosed block":        {"```python\nx = " + sendA, "```python\nx = " + gchatA, ""},
		"call over a block's end":          {"```\nSendMessage(recipient=\"s3-communicator\", content=\"a\n```\nb\")\n", "```\nSendMessage(recipient=\"s3-communicator\", content=\"a\n```\nb\")\n", "2"},
		"call in a table":                  {"| a | b |\n|---|---|\n| x | `" + sendA + "` |\n", "| a | b |\n|---|---|\n| x | `" + gchatA + "` |\n", ""},
		"call in front matter":             {"---\nx: " + sendA + "\n---\n", "---\nx: " + sendA + "\n---\n", "2"},
		"call to another":                  {"`SendMessage(recipient=\"s3-heartbeat\", content=\"A\")`\n", "`SendMessage(recipient=\"s3-heartbeat\", content=\"A\")`\n", ""},
		"call in a quoted prompt":          {"```\nTask(prompt=\"x: SendMessage(recipient='s3-communicator', content='A')\")\n```\n", "```\nTask(prompt=\"x: SendMessage(recipient='s3-communicator', content='A')\")\n```\n", "2"},
		"call in a long prompt":            {"```\nTask(prompt=\"\"\"x: " + sendA + "\n\"\"\")\n```\n", "```\nTask(prompt=\"\"\"x: " + gchatA + "\n\"\"\")\n```\n", ""},
		"several lines, indented":          {"- x\n  ```sh\n  SendMessage(recipient=\"s3-communicator\", content=\"a\\nb\")\n  ```\n", "- x\n  ```sh\n  SendMessage(recipient=\"s3-communicator\", content=\"a\\nb\")\n  ```\n", "3"},
		"JSON alone":                       {"```json\n{\"recipient\": \"s3-communicator\", \"content\": \"A\"}\n```\n", "```bash\ngchat-send --type plain 'A'\n```\n", ""},
		"JSON below SendMessage":           {"Use SendMessage:\n```json\n{\"recipient\": \"s3-communicator\", \"content\": \"A\"}\n```\n", "Use SendMessage:\n```bash\ngchat-send --type plain 'A'\n```\n", "1"},
		"JSON among others":                {"```json\n{\"recipient\": \"s3-communicator\", \"content\": \"A\"}\n{\"x\": 1}\n```\n", "```json\n{\"recipient\": \"s3-communicator\", \"content\": \"A\"}\n{\"x\": 1}\n```\n", "2"},
		"JSON within JSON":                 {"```json\n{\"tool\": \"SendMessage\", \"input\": {\"recipient\": \"s3-communicator\", \"content\": \"A\"}}\n```\n", "```json\n{\"tool\": \"SendMessage\", \"input\": {\"recipient\": \"s3-communicator\", \"content\": \"A\"}}\n```\n", "2"},
		"the way to a call":                {"## Messages via s3-communicator\n\nTell it to s3-communicator:\n\n```\n" + sendA + "\n```\n", "## Messages via `gchat-send`\n\nTell it via `gchat-send`:\n\n```\n" + gchatA + "\n```\n", ""},
		"spawn, alone":                     {"Spawn s3-communicator:\n\n```python\n# the communicator\nTask(name=\"s3-communicator\", prompt=\"x (\")\n```\n\nGo on.\n", "Go on.\n", ""},
		"spawn, and when":                  {"a\n\nSpawn s3-communicator at session start:\n\n" + spawnBlock + "\nGo on.\n", "a\n\nGo on.\n", ""},
		"spawn, when first":                {"At session start, spawn the `s3-communicator` agent\nin the background:\n" + spawnBlock + "\nGo on.\n", "Go on.\n", ""},
		"spawn it":                         {"**Spawn it like this:**\n\n" + spawnBlock, "", ""},
		"spawn below other words":          {"Keep these rules in mind:\n\n" + spawnBlock, "Keep these rules in mind:\n", "1"},
		"spawn of two":                     {"Spawn s3-communicator beside s3-heartbeat:\n\n" + spawnBlock, "Spawn s3-communicator beside s3-heartbeat:\n", "1"},
		"spawn behind first things":        {"First run the migration, then spawn s3-communicator:\n\n" + spawnBlock, "First run the migration, then spawn s3-communicator:\n", "1"},
		"spawn below a sentence":           {"You lead.\n\n" + spawnBlock, "You lead.\n", ""},
		"spawn in an item of more":         {"- Spawn s3-communicator:\n  " + spawnBlock + "\n  Deploy.\n- b\n", "- Spawn s3-communicator:\n\n  Deploy.\n- b\n", "1"},
		"spawn, among others":              {"```python\nA = Task(name=\"s3-communicator\")\n\nTask(name=\"s3-heartbeat\")\n```\n", "```python\nTask(name=\"s3-heartbeat\")\n```\n", ""},
		"spawn in a line":                  {"```python\nx = [Task(name=\"s3-communicator\")]\n```\n", "```python\nx = [Task(name=\"s3-communicator\")]\n```\n", "2"},
		"spawn of another":                 {"```python\nTask(name=\"s3-heartbeat\", prompt=\"not s3-communicator\")\n```\n", "```python\nTask(name=\"s3-heartbeat\", prompt=\"not s3-communicator\")\n```\n", "2"},
		"section":                          {"# a\n\n## s3-communicator\n\nx\n\n### y\n\nz\n\n## b\n\nc\n", "# a\n\n## b\n\nc\n", ""},
		"section at the end":               {"# a\n\nb\n\n## Spawn s3-communicator\n\nx", "# a\n\nb", ""},
		"section about others too":         {"## s3-communicator\n\nAsk s3-validator.\n", "## s3-communicator\n\nAsk s3-validator.\n", "1"},
		"section of who knows":             {"## s3-communicator (deprecated)\n\nx\n", "## s3-communicator (deprecated)\n\nx\n", "1"},
		"section why":                      {"## Why s3-communicator is slow\n\nx\n", "## Why s3-communicator is slow\n\nx\n", "1"},
		"document about the relay":         {"# s3-communicator\n\nx\n", "# s3-communicator\n\nx\n", "1"},
		"steps counted anew":               {"## Step 1: Spawn s3-communicator\nx\n## Step 2: Plan\n### Step 7: y\n## Step 3: Go\n", "## Step 1: Plan\n### Step 7: y\n## Step 2: Go\n", ""},
		"item":                             {"- a\n- Spawn `s3-communicator`\n  at once. It needs a minute.\n\n- b\n", "- a\n\n- b\n", ""},
		"items counted anew":               {"1. a\n2. [ ] **Check s3-communicator**: alive?\n   - x\n3. b\n   1. c\n4. d\n\ntext\n\n5. e\n", "1. a\n2. b\n   1. c\n3. d\n\ntext\n\n5. e\n", ""},
		"two items counted anew":           {"1. a\n2. Spawn s3-communicator\n3. b\n4. Ping s3-communicator\n5. c\n", "1. a\n2. b\n3. c\n", ""},
		"first item counted anew":          {"3. Spawn s3-communicator\n\n4. b\n\n5. c\n", "3. b\n\n4. c\n", ""},
		"item with a call":                 {"1. a\n2. Spawn s3-communicator:\n```\nTask(name=\"s3-communicator\")\n```\n3. b\n```\nx\n```\n4. c\n", "1. a\n2. b\n```\nx\n```\n3. c\n", ""},
		"item with an indented one":        {"1. a\n2. Spawn s3-communicator:\n   ```\n   Task(name=\"s3-communicator\")\n   ```\n3. b\n", "1. a\n2. b\n", ""},
		"items in no order":                {"1. a\n1. Spawn s3-communicator\n1. b\n7. c\n", "1. a\n1. b\n7. c\n", ""},
		"item on the next line":            {"1. a\n2. Spawn s3-communicator\n3. b\ngoes on\n4. c\n", "1. a\n2. b\ngoes on\n3. c\n", ""},
		"item that goes on below":          {"- If s3-communicator is missing,\npage the on-call.\n- b\n", "- If s3-communicator is missing,\npage the on-call.\n- b\n", "1"},
		"item about others too":            {"- s3-communicator tells s3-validator\n", "- s3-communicator tells s3-validator\n", "1"},
		"item that forbids":                {"- Never spawn s3-communicator\n- Do not ask s3-communicator\n", "- Never spawn s3-communicator\n- Do not ask s3-communicator\n", "1 2"},
		"item of who knows":                {"- s3-communicator is deprecated\n", "- s3-communicator is deprecated\n", "1"},
		"item that goes on":                {"1. Start s3-communicator, then run the migration.\n2. Start s3-communicator; run the migration.\n3. Start s3-communicator. Run the migration.\n4. Start s3-communicator\n   and run the migration.\n", "1. Start s3-communicator, then run the migration.\n2. Start s3-communicator; run the migration.\n3. Start s3-communicator. Run the migration.\n4. Start s3-communicator\n   and run the migration.\n", "1 2 3 4"},
		"item that goes on on it":          {"1. Check s3-communicator, respawn it if need be.\n2. b\n", "1. b\n", ""},
		"section about more":               {"# a\n\n### s3-communicator and deployment rules\n\nNever deploy on Fridays.\n", "# a\n\n### s3-communicator and deployment rules\n\nNever deploy on Fridays.\n", "3"},
		"row about what happens":           {"| Problem | Remedy |\n|---|---|\n| s3-communicator silent | page the on-call |\n| other | x |\n", "| Problem | Remedy |\n|---|---|\n| s3-communicator silent | page the on-call |\n| other | x |\n", "3"},
		"row of more than its cost":        {"| What | Cost |\n|---|---|\n| Database of s3-communicator and billing | $5 |\n| b | $1 |\n", "| What | Cost |\n|---|---|\n| Database of s3-communicator and billing | $5 |\n| b | $1 |\n", "3"},
		"spawn behind other things":        {"Run the migration, then spawn s3-communicator:\n\n```\nTask(name=\"s3-communicator\")\n```\n", "Run the migration, then spawn s3-communicator:\n", "1"},
		"another agent's name":             {"- Spawn s3-communicator-v2\n", "- Spawn s3-communicator-v2\n", "1"},
		"row":                              {"| Agent | Model |\n|---|:-:|\n| a | b |\n| **s3-communicator** (GChat) | Haiku |\n| c | d |\n", "| Agent | Model |\n|---|:-:|\n| a | b |\n| c | d |\n", ""},
		"row without outer bars":           {"Agent | Model\n---|---\ns3-communicator | x\na | b", "Agent | Model\n---|---\na | b", ""},
		"only row":                         {"| Agent |\n|---|\n| s3-communicator |\n", "| Agent |\n|---|\n| s3-communicator |\n", "3"},
		"row about another":                {"| Agent | x |\n|---|---|\n| a | after s3-communicator |\n", "| Agent | x |\n|---|---|\n| a | after s3-communicator |\n", "3"},
		"total":                            {"| What | Cost |\n|---|---|\n| Relay (s3-communicator) | $0.50 |\n| b | $1.25 |\n| Total | $1.75 (all) |\n", "| What | Cost |\n|---|---|\n| b | $1.25 |\n| Total | $1.25 (all) |\n", ""},
		"total of something else":          {"| What | Cost |\n|---|---|\n| s3-communicator | $0.50 |\n| b | $1.25 |\n| Total | $9.75 |\n", "| What | Cost |\n|---|---|\n| b | $1.25 |\n| Total | $9.75 |\n", "5"},
		"total of mixed units":             {"| What | Cost |\n|---|---|\n| s3-communicator | $1/day |\n| b | $1/h |\n| Total | $2/day |\n", "| What | Cost |\n|---|---|\n| b | $1/h |\n| Total | $2/day |\n", "5"},
		"total in another cell":            {"| # | Agent | Cost |\n|---|---|---|\n| 1 | s3-communicator | $0.30 |\n| 2 | b | $0.10 |\n| | **Total** | **$0.40** |\n", "| # | Agent | Cost |\n|---|---|---|\n| 1 | b | $0.10 |\n| | **Total** | **$0.10** |\n", ""},
		"total with a remark":              {"| Agent | Cost |\n|---|---|\n| s3-communicator | $0.30 |\n| b | $0.10 |\n| Total: $0.40 | |\n", "| Agent | Cost |\n|---|---|\n| b | $0.10 |\n| Total: $0.40 | |\n", "5"},
		"total above":                      {"| Agent | Cost |\n|---|---|\n| Total | $0.40 |\n| s3-communicator | $0.30 |\n| b | $0.10 |\n", "| Agent | Cost |\n|---|---|\n| Total | $0.40 |\n| b | $0.10 |\n", "3"},
		"total of two relay rows":          {"| Agent | Cost |\n|---|---|\n| s3-communicator | $0.30 |\n| b | $0.10 |\n| Poll (s3-communicator) | $0.20 |\n| Total | $0.60 |\n", "| Agent | Cost |\n|---|---|\n| b | $0.10 |\n| Total | $0.10 |\n", ""},
		"total below a subtotal":           {"| Agent | Cost |\n|---|---|\n| s3-communicator | $0.30 |\n| b | $0.10 |\n| Sub total | $0.40 |\n| Total | $0.40 |\n", "| Agent | Cost |\n|---|---|\n| b | $0.10 |\n| Sub total | $0.10 |\n| Total | $0.40 |\n", "6"},
		"total of one that is left":        {"| Agent | Cost |\n|---|---|\n| s3-communicator | ~$0.30-$0.60/day |\n| b | ~$0.10/day |\n| Total | ~$0.40-$0.70/day |\n", "| Agent | Cost |\n|---|---|\n| b | ~$0.10/day |\n| Total | ~$0.10/day |\n", ""},
		"total below the table":            {"| Agent | Cost |\n|---|---|\n| s3-communicator | $0.30 |\n| b | $0.10 |\n\nTotal: $0.40 a day.\n", "| Agent | Cost |\n|---|---|\n| b | $0.10 |\n\nTotal: $0.10 a day.\n", ""},
		"total in prose":                   {"| Agent | Cost |\n|---|---|\n| s3-communicator | ~$0.30-$0.60/day |\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n| **Total** | ~$1.30-$1.60/day |\n\nTotal: 3 agents, ~$1.30-$1.60/day.\n", "| Agent | Cost |\n|---|---|\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n| **Total** | ~$1.00/day |\n\nTotal: 2 agents, ~$1.00/day.\n", ""},
		"total in prose before":            {"Total: ~$1.30-$1.60/day.\n\n## Costs\n\n| Agent | Cost |\n|---|---|\n| s3-communicator | ~$0.30-$0.60/day |\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n", "Total: ~$1.00/day.\n\n## Costs\n\n| Agent | Cost |\n|---|---|\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n", ""},
		"total of other agents":            {"| Agent | Cost |\n|---|---|\n| s3-communicator | ~$0.30-$0.60/day |\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n\nTotal: 4 agents, ~$1.30-$1.60/day.\n", "| Agent | Cost |\n|---|---|\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n\nTotal: 4 agents, ~$1.00/day.\n", "7"},
		"total of something else in prose": {"| Agent | Cost |\n|---|---|\n| s3-communicator | ~$0.30-$0.60/day |\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n\nTotal: ~$1.30-$1.70/day.\n", "| Agent | Cost |\n|---|---|\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n\nTotal: ~$1.30-$1.70/day.\n", "7"},
		"total of another unit in prose":   {"| Agent | Cost |\n|---|---|\n| s3-communicator | ~$0.30-$0.60/day |\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n\nTotal: ~$1.30-$1.60/h.\n", "| Agent | Cost |\n|---|---|\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n\nTotal: ~$1.30-$1.60/h.\n", "7"},
		"total and its like":               {"| Agent | Cost |\n|---|---|\n| s3-communicator | ~$0.30-$0.60/day |\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n\nTotal: ~$1.30-$1.60/day, ~$50/month.\n", "| Agent | Cost |\n|---|---|\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n\nTotal: ~$1.00/day, ~$50/month.\n", "7"},
		"sum, by no name":                  {"| Agent | Cost |\n|---|---|\n| s3-communicator | ~$0.30-$0.60/day |\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n\nWe pay ~$1.30-$1.60/day, and $1.305.\n", "| Agent | Cost |\n|---|---|\n| b | ~$0.50/day |\n| c | ~$0.50/day |\n\nWe pay ~$1.30-$1.60/day, and $1.305.\n", "7"},
		"list of agents":                   {"Three persistent agents: s3-heartbeat, s3-communicator, and s3-validator.\n", "Two persistent agents: s3-heartbeat and s3-validator.\n", ""},
		"list, the last":                   {"(heartbeat + validator + communicator)\n", "(heartbeat + validator)\n", ""},
		"list of strings":                  {"`AGENTS = [\"s3-communicator\", \"s3-heartbeat\"]`\n", "`AGENTS = [\"s3-heartbeat\"]`\n", ""},
		"number that does not fit":         {"All 4 agents (communicator + heartbeat + validator)\n", "All 4 agents (communicator + heartbeat + validator)\n", "1"},
		"number without a list":            {"- Ping s3-communicator\n- Our 3 persistent agents\n", "- Our 3 persistent agents\n", "2"},
		"path":                             {"See .claude/skills/s3-communicator/SKILL.md\n", "See .claude/skills/_archived/s3-communicator/SKILL.md\n", ""},
		"path to something else":           {"See ../s3-communicator/x and skills/s3-communicator-v2/x\n", "See ../s3-communicator/x and skills/s3-communicator-v2/x\n", "1"},
		"short name in prose":              {"The communicator tells.\n", "The communicator tells.\n", "1"},
		"carriage returns":                 {"- a\r\n- Spawn s3-communicator\r\n- b\r\n" + sendA + "\r\n", "- a\r\n- b\r\n" + gchatA + "\r\n", ""},
		"byte order mark":                  {"\ufeff---\nx: 1\n---\n- Spawn s3-communicator\n- b\n", "\ufeff---\nx: 1\n---\n- b\n", ""},
		"block in a longer block":          {"````\n```\n" + sendA + "\n```\n## s3-communicator\n````\n", "````\n```\n" + gchatA + "\n```\n## s3-communicator\n````\n", "5"},
	} {
		got, look := migrated(tt.src)
		if got != tt.want || look != tt.look {
			t.Errorf("%s:\n%s\nbecomes\n%s\nwant\n%s\nlisted %q, want %q", name, tt.src, got, tt.want, look, tt.look)
		}
	}
}

// What Claude Code reads as instructions is no paper of its time because its name has "plan" in it.
func TestKinds(t *testing.T) {
	for p, want := range map[string]kind{
		".claude/commands/plan.md":                instructions,
		".claude/agents/research.md":              instructions,
		".claude/skills/research/SKILL.md":        instructions,
		".claude/output-styles/design.md":         instructions,
		".claude/skills/x/CHANGELOG.md":           paper,
		".claude/commands/archive/old.md":         paper,
		".claude/skills/x/evidence/2026-01-02.md": paper,
		".claude/documentation/plan.md":           paper,
		"docs/plans/x.md":                         paper,
		"other/.claude/commands/plan.md":          paper,
	} {
		if got := kindOf(p); got != want {
			t.Errorf("%s is of kind %d, want %d", p, got, want)
		}
	}
}

// The pattern for a denied question is added once, where it is not there already, and the file goes on ending as it did.
func TestDeniedPattern(t *testing.T) {
	pattern := strings.TrimSuffix(deniedPattern, "\n")
	for name, tt := range map[string]struct{ src, want string }{
		"with a line ending":    {"# a\n", "# a\n\n" + pattern + "\n"},
		"without":               {"# a", "# a\n\n" + pattern},
		"carriage returns":      {"# a\r\n", strings.ReplaceAll("# a\n\n"+pattern+"\n", "\n", "\r\n")},
		"two line endings":      {"# a\n\n", "# a\n\n" + pattern + "\n\n"},
		"empty":                 {"", pattern + "\n"},
		"below what goes":       {"# a\n\n## s3-communicator\nx\n", "# a\n\n" + pattern + "\n"},
		"below, without ending": {"# a\n\n## s3-communicator\nx", "# a\n\n" + pattern},
		"there already":         {"# a\n\n" + pattern + "\n", "# a\n\n" + pattern + "\n"},
		"one of their own":      {"Wait for GCHAT_RESPONSE: in a Task.\n", "Wait for GCHAT_RESPONSE: in a Task.\n"},
	} {
		f := &file{path: ".claude/output-styles/system3.md", text: newText("x", tt.src)}
		f.migrate(false, false)
		if got := f.text.result(); got != tt.want {
			t.Errorf("%s: %q becomes\n%q\nwant\n%q", name, tt.src, got, tt.want)
		}
	}
}

func TestChangelog(t *testing.T) {
	for name, tt := range map[string]struct{ src, want string }{
		"newest first": {"# C\n\n## 2026-02-17\n\n- a\n\n## 2026-01-01\n", "# C\n\n## 2026-03-01 - X\n\n- E\n\n## 2026-02-17\n\n- a\n\n## 2026-01-01\n"},
		"newest last":  {"# C\n\n## 2026-01-01\n\n- a\n\n## 2026-02-17\n\n- b", "# C\n\n## 2026-01-01\n\n- a\n\n## 2026-02-17\n\n- b\n\n## 2026-03-01 - X\n\n- E"},
		"in brackets":  {"### [2026-02-17] b\n", "### [2026-03-01] - X\n\n- E\n\n### [2026-02-17] b\n"},
		"no dates":     {"# C\n\n- a\n", "# C\n\n- a\n\n## 2026-03-01 - X\n\n- E\n"},
	} {
		text := newText("x", tt.src)
		text.logEntry(&Plan{}, day)
		got := strings.ReplaceAll(text.result(), changelogMark, "X")
		got = strings.ReplaceAll(got, strings.TrimSuffix(entryLines(&Plan{}), "\n"), "- E")
		if got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}

// Whatever stands in a file: nothing panics, and a second run finds nothing more to do.
func FuzzMarkdown(f *testing.F) {
	f.Add("## 1. Spawn s3-communicator\n\n```python\nTask(name=\"s3-communicator\")\n```\n\n## 2. s3-heartbeat\n- s3-communicator: $1\n- Total: $2\n| a | b |\n|---|---|\n| s3-communicator | $1 |\n| Total | $1 |")
	f.Add("3 agents (communicator + heartbeat + validator) " + sendA + "\r\n```json\r\n{\"recipient\": \"s3-communicator\", \"content\": \"A\"}\r\n```\r\n")
	f.Add("1. x\n2. s3-communicator\n3. y\n\n> ```\n> " + sendA)
	f.Fuzz(func(t *testing.T, src string) {
		once, _ := migrated(src)
		if twice, _ := migrated(once); twice != once && strings.Count(src, "ommunicator") < 2 {
			t.Errorf("%q becomes %q, and then %q", src, once, twice)
		}
	})
}
