package config

import (
	"cmp"
	"slices"
	"sync"
)

// Setting is one thing that a person can set. docs/configuration.md says what it means.
type Setting struct {
	Member   string // of gchat-hooks.json and config.json; "" for the environment only
	Variable string // in the environment; "" for none
	Object   bool   // in a file it is an object, or a list of objects, and is read by a function of its own
	Personal bool   // a project's files may not set it
}

// Settings are all that can be set. The configuration is read by this list.
func Settings() []Setting { return slices.Clone(settings) }

var settings = []Setting{
	{Member: "webhook_url", Variable: "GOOGLE_CHAT_WEBHOOK_URL"},
	{Member: "webhook_url_command", Personal: true},
	{Member: "space_id", Variable: "GOOGLE_CHAT_SPACE_ID"},
	{Member: "credentials_file", Variable: "GOOGLE_CHAT_CREDENTIALS_FILE"},
	{Member: "allowed_users", Variable: "GCHAT_ALLOWED_USERS", Personal: true},
	{Member: "api_endpoint", Variable: "GCHAT_API_ENDPOINT", Personal: true},
	{Member: "pubsub_subscription", Variable: "GCHAT_PUBSUB_SUBSCRIPTION", Personal: true},
	{Member: "pubsub_endpoint", Variable: "GCHAT_PUBSUB_ENDPOINT", Personal: true},
	{Member: "writes_per_minute", Variable: "GCHAT_WRITES_PER_MINUTE"},

	{Member: "ask_mode", Variable: "GCHAT_ASK_MODE"},
	{Member: "rules", Object: true},
	{Member: "poll_interval", Variable: "GCHAT_POLLER_INTERVAL"},
	{Member: "keep_awake", Personal: true},

	{Member: "reply_timeout", Variable: "GCHAT_REPLY_TIMEOUT"},
	{Member: "timeout_policy", Variable: "GCHAT_TIMEOUT_POLICY"},
	{Member: "stop_gate", Variable: "GCHAT_STOP_GATE", Object: true},
	{Member: "persistent_agents", Variable: "GCHAT_PERSISTENT_AGENTS"},

	{Member: "idle", Variable: "GCHAT_IDLE"},
	{Member: "approvers", Variable: "GCHAT_APPROVERS", Personal: true},
	{Member: "never_remote", Object: true, Personal: true},
	{Member: "menu_decides", Personal: true},
	{Member: "grace", Variable: "GCHAT_GRACE"},
	{Member: "remind", Variable: "GCHAT_REMIND"},

	{Member: "reports", Object: true},
	{Member: "notifications", Object: true},
	{Member: "quiet_hours", Object: true},

	{Member: "format", Variable: "GCHAT_FORMAT"},
	{Member: "anthropic_api_key", Variable: "ANTHROPIC_API_KEY"},

	{Variable: "GCHAT_CONFIG"},
	{Variable: "GCHAT_STATE_DIR"},
	{Variable: "GCHAT_POLLER_PENDING_DIR"},
	{Variable: "GCHAT_WAKE_REGISTRY"},
	{Variable: "CLAUDE_SESSION_ID"},
	{Variable: "CLAUDE_OUTPUT_STYLE"},
	{Variable: "CLAUDE_PROJECT_DIR"},
	{Variable: "CLAUDE_PLUGIN_ROOT"},
	{Variable: "CLAUDE_CONFIG_DIR"},
	{Variable: "XDG_CONFIG_HOME"},
	{Variable: "XDG_STATE_HOME"},
	{Variable: "GOOGLE_APPLICATION_CREDENTIALS"},
}

// fileKeys names the members of the files that hold text, a number or a list after the variables that they stand for. What
// has no variable stands for itself.
var fileKeys = sync.OnceValue(func() map[string]string {
	keys := map[string]string{}
	for _, s := range settings {
		if s.Member != "" && !s.Object {
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
