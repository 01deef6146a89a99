package state

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// Setting is one thing that a person can set. Settings is the only list of them: the configuration is read by it, and
// docs/configuration.md is written from it.
type Setting struct {
	Group    string // of what it is about
	Variable string // in the environment; "" for none
	Member   string // of gchat-hooks.json and config.json; those of an object follow a dot. "" for the environment only
	Object   bool   // in a file it is an object, or a list of objects, and is read by a function of its own
	Default  string // what holds where nothing is set, as it would be set; of an Object, in words
	Example  string // in JSON, as it stands in a file
	Meaning  string // in Markdown, without a full stop
	Personal bool   // a project's files may not set it
}

// The groups of settings, in the order in which they are told.
const (
	chatGroup   = "Google Chat"
	askGroup    = "How questions are answered"
	denyGroup   = "Deny mode and the stop gate"
	reportGroup = "What sessions tell"
	modelGroup  = "A model's wording"
	envGroup    = "In the environment only"
)

// Settings are all that can be set, by group.
func Settings() []Setting { return slices.Clone(settings) }

var settings = []Setting{
	{
		Group: chatGroup, Variable: "GOOGLE_CHAT_WEBHOOK_URL", Member: "webhook_url",
		Example: `"https://chat.googleapis.com/v1/spaces/AAAA/messages?key=KEY&token=TOKEN"`,
		Meaning: "where messages are posted; a secret",
	},
	{
		Group: chatGroup, Member: "webhook_url_command", Personal: true, Example: `"pass show gchat-webhook"`,
		Meaning: "a command, run by `sh`, that prints the webhook URL within 10 seconds; a URL in the same or a higher place " +
			"goes before it",
	},
	{
		Group: chatGroup, Variable: "GOOGLE_CHAT_SPACE_ID", Member: "space_id", Example: `"spaces/AAAA"`,
		Meaning: "the space, where no webhook says it; it follows from the webhook URL",
	},
	{
		Group: chatGroup, Variable: "GOOGLE_CHAT_CREDENTIALS_FILE", Member: "credentials_file",
		Example: `"~/.config/gchat-hooks/credentials.json"`,
		Meaning: "what replies are read with: an authorized user's file or a service account's; a relative path counts from " +
			"the file's folder. Without it the login counts, else Application Default Credentials",
	},
	{
		Group: chatGroup, Variable: "GCHAT_ALLOWED_USERS", Member: "allowed_users", Personal: true,
		Example: `["users/123456789"]`,
		Meaning: "who may answer: `users/ID`, or an e-mail address where Chat gives one; in a variable separated by commas. " +
			"Who logged in may, too; with nobody, nobody may",
	},
	{
		Group: chatGroup, Variable: "GCHAT_API_ENDPOINT", Member: "api_endpoint", Personal: true,
		Example: `"http://127.0.0.1:8765/"`,
		Meaning: "base URL in place of Google's; plain http to this machine only, and then without credentials",
	},
	{
		Group: chatGroup, Variable: "GCHAT_WRITES_PER_MINUTE", Member: "writes_per_minute", Default: "60",
		Example: `30`,
		Meaning: "messages to one space from this machine, 1 to 60000; 60 is Google's quota for all apps of a space, so take " +
			"less when several machines share it",
	},

	{
		Group: askGroup, Variable: "GCHAT_ASK_MODE", Member: "ask_mode", Default: "native", Example: `"deny"`,
		Meaning: "`native`, `hold`, `deny`, `inject` or `off`: see [Modes](modes.md)",
	},
	{
		Group: askGroup, Member: "rules", Object: true, Default: "none",
		Example: `[{"session": "orch-*", "ask_mode": "off"}]`,
		Meaning: "how single sessions are treated, by [patterns](modes.md#rules) for `session`, `project`, `output_style` or " +
			"`preset`; the rules of the highest place that has any. Of `ask_mode`, `timeout_policy` and `stop_gate` the " +
			"first rule that matches and names it counts",
	},
	{
		Group: askGroup, Variable: "GCHAT_POLLER_INTERVAL", Member: "poll_interval", Default: "3s", Example: `5`,
		Meaning: "time between two looks into the space when nobody answers, in seconds or as `10s`; for two minutes after " +
			"a question and after a person's message it is 1 second",
	},

	{
		Group: denyGroup, Variable: "GCHAT_REPLY_TIMEOUT", Member: "reply_timeout", Default: "30m",
		Example: `"2h"`,
		Meaning: "how long a question waits in deny mode before `timeout_policy` counts",
	},
	{
		Group: denyGroup, Variable: "GCHAT_TIMEOUT_POLICY", Member: "timeout_policy", Default: "leave",
		Example: `"ask-terminal"`,
		Meaning: "`leave`, `recommended` or `ask-terminal`: see [Nobody replies](modes.md#nobody-replies)",
	},
	{
		Group: denyGroup, Variable: "GCHAT_STOP_GATE", Member: "stop_gate", Object: true,
		Default: "`on` in deny mode, else `off`",
		Example: `{"question_asked": "on", "persistent_agents": "advice"}`,
		Meaning: "the checks of [the stop gate](modes.md#the-stop-gate), `question_asked` and `persistent_agents`, each `on`, " +
			"`off` or `advice`; one word is for both, and in the variable there is only that",
	},
	{
		Group: denyGroup, Variable: "GCHAT_PERSISTENT_AGENTS", Member: "persistent_agents",
		Default: "s3-heartbeat,s3-validator,s3-communicator", Example: `["s3-heartbeat"]`,
		Meaning: "names of agents; in a variable separated by commas",
	},

	{
		Group: reportGroup, Member: "reports", Object: true, Default: "all `on` but `session_start`",
		Example: `{"subagent_done": "digest", "heartbeat": "off", "session_start": "on"}`,
		Meaning: "by kind, `on`, `off` or `digest` (collected, then sent as one message an hour). The kinds are the types of " +
			"`gchat-send` (`task_completion`, `progress_update`, `blocked_alert`, `heartbeat`, `session_start`, " +
			"`session_end`, `error`, `plain`) and the finer `subagent_done`, `task_done` and `permission`",
	},
	{
		Group: reportGroup, Member: "notifications", Object: true,
		Default: "`on` for `subagent_complete`, `background_task_complete`, `agent_completed`, `error`, `permission_prompt`, " +
			"`agent_needs_input` and `elicitation_dialog`, else `off`",
		Example: `{"idle_prompt": "on", "agent_completed": "off", "deploy": {"type": "error", "prefix": "[Deploy]"}}`,
		Meaning: "by Claude Code's notification type: `on`, `off`, or an object with the `type` of message that it becomes and " +
			"the `prefix` that is its header",
	},
	{
		Group: reportGroup, Member: "quiet_hours", Object: true, Default: "none",
		Example: `{"from": "22:00", "to": "07:00", "time_zone": "Europe/Berlin"}`,
		Meaning: "everything but questions, blocked alerts and errors waits until they end, and comes as one digest; " +
			"`time_zone` is the machine's own when it is left out",
	},

	{
		Group: modelGroup, Variable: "GCHAT_FORMAT", Member: "format", Default: "builtin", Example: `"haiku"`,
		Meaning: "`builtin`, or `haiku`: see [A model's wording](modes.md#a-models-wording)",
	},
	{
		Group: modelGroup, Variable: "ANTHROPIC_API_KEY", Member: "anthropic_api_key", Example: `"sk-ant-KEY"`,
		Meaning: "the key for it; a secret",
	},

	{
		Group: envGroup, Variable: "GCHAT_CONFIG", Default: "~/.config/gchat-hooks/config.json",
		Meaning: "the person's configuration file",
	},
	{
		Group: envGroup, Variable: "GCHAT_STATE_DIR", Default: ".claude/state",
		Meaning: "where a project's questions are kept; without it, in the project",
	},
	{
		Group: envGroup, Variable: "GCHAT_POLLER_PENDING_DIR",
		Meaning: "as the daemon's `--pending-dir`; several are separated by `:`",
	},
	{
		Group: envGroup, Variable: "GCHAT_WAKE_REGISTRY", Default: "~/.config/gchat-hooks/recovery-registry.json",
		Meaning: "[who supervises what](openclaw.md)",
	},
	{
		Group: envGroup, Variable: "CLAUDE_SESSION_ID",
		Meaning: "the session's name, where you give it one; Claude Code itself does not set it",
	},
	{
		Group: envGroup, Variable: "CLAUDE_OUTPUT_STYLE",
		Meaning: "the output style, for rules; your launch script sets it",
	},
	{
		Group: envGroup, Variable: "CLAUDE_PROJECT_DIR",
		Meaning: "the project, set by Claude Code for its hooks; else the working folder. Where it names the project, the " +
			"project's files count: see [whom the program trusts](security.md#whom-the-program-trusts)",
	},
	{
		Group: envGroup, Variable: "CLAUDE_CONFIG_DIR", Default: "~/.claude",
		Meaning: "where Claude Code keeps its settings and its teams",
	},
	{
		Group: envGroup, Variable: "XDG_CONFIG_HOME", Default: "~/.config",
		Meaning: "our `gchat-hooks` folder in it holds the configuration; a relative path does not count",
	},
	{
		Group: envGroup, Variable: "XDG_STATE_HOME", Default: "~/.local/state",
		Meaning: "our `gchat-hooks` folder in it holds the outbox, locks, logins; a relative path does not count",
	},
	{
		Group: envGroup, Variable: "GOOGLE_APPLICATION_CREDENTIALS",
		Meaning: "the file of Application Default Credentials, as in all of Google's programs",
	},
}

// fileKeys names the members of the files that hold text, a number or a list after the variables that they stand for. What
// has no variable stands for itself.
var fileKeys = sync.OnceValue(func() map[string]string {
	keys := map[string]string{}
	for _, s := range settings {
		if s.Member != "" && !s.Object && !strings.ContainsAny(s.Member, ".[") {
			keys[s.Member] = cmp.Or(s.Variable, s.Member)
		}
	}
	return keys
})

// Variables are the environment variables that configure what a file can configure too, sorted.
func Variables() (names []string) {
	for _, s := range settings {
		if s.Variable != "" && s.Member != "" {
			names = append(names, s.Variable)
		}
	}
	slices.Sort(names)
	return names
}
