package bench

import "embed"

// sources are the programs that ours is compared with: for each scenario the smallest one
// in Python and in bash that does the same work. The comment at its beginning says what it
// leaves out. Both are written to be fast. The bash programs start jq once. The Python
// programs import only what they need before the hook ends.
//
//go:embed programs
var sources embed.FS

// scenario is some work that each program does.
type scenario struct {
	name, about string
	own         []string // how this program is told to do the work
	args        []string // what each program gets
	stdin       string
	isPosted    bool // each program posts a message
	// Our poller posts after 1.5 s: it first waits for the hook of PermissionRequest. That
	// is awaited in the first round only.
	isPostedLate bool
	needsTmux    bool // it runs in a tmux session, with a registry of agents
}

// roundMark stands for a number that no other round has.
const roundMark = "@ROUND@"

// scenarios has the rows of the table. The events have the members that Claude Code
// 2.1.329 sends. Each question belongs to a session of its own. The Stop hooks belong to
// one session, and each has something new to report.
var scenarios = []scenario{
	{
		name:  "nothing",
		about: "a hook with nothing to do",
		own:   []string{"hook", "gchat-ask-user-answered"},
		stdin: `{"session_id":"bench","transcript_path":"","cwd":"/","permission_mode":"default",` +
			`"hook_event_name":"Stop","stop_hook_active":false,"last_assistant_message":"Done."}`,
	},
	{
		name:  "question",
		about: "a question recorded (PreToolUse)",
		own:   []string{"hook", "gchat-ask-user-forward"},
		stdin: `{"session_id":"bench-` + roundMark + `","transcript_path":"","cwd":"/",` +
			`"permission_mode":"default","hook_event_name":"PreToolUse",` +
			`"tool_name":"AskUserQuestion","tool_use_id":"toolu_` + roundMark + `",` +
			`"tool_input":{"questions":[{"question":"Which deployment approach should we use?",` +
			`"header":"Deploy","multiSelect":false,"options":[` +
			`{"label":"Blue-green deployment","description":"Zero downtime with instant rollback."},` +
			`{"label":"Rolling deployment","description":"Gradual rollout."},` +
			`{"label":"Canary","description":"Small slice first."}]}]}}`,
		isPosted:     true,
		isPostedLate: true,
	},
	{
		name:     "send",
		about:    "a message sent (gchat-send)",
		own:      []string{"send"},
		args:     []string{"--type", "task_completion", "Step " + roundMark + " is done."},
		isPosted: true,
	},
	{
		name:  "stop",
		about: "Claude's last words reported (stop-hook)",
		own:   []string{"hook", "stop-hook"},
		stdin: `{"session_id":"bench","transcript_path":"","cwd":"/","permission_mode":"default",` +
			`"hook_event_name":"Stop","stop_hook_active":false,` +
			`"last_assistant_message":"Step ` + roundMark + ` is done."}`,
		isPosted:  true,
		needsTmux: true,
	},
}

// The tmux session of a scenario, what its screen shows, and the registry that names its
// agent.
const (
	tmuxSession = "bench"
	screenText  = "* Done.\n\n> \n  ? for shortcuts                    ctx 31%\n"
	registry    = `{"agents": [{"agent_id": "bench", "tmux_session_name": "bench", "enabled": true, ` +
		`"hook_settings": {"deliver": "chat"}}]}`
)
