package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gchat-hooks/state"
)

// Setting is one thing that a person can set. docs/configuration.md says what it means.
type Setting struct {
	Member   string // of gchat-hooks.json and config.json; "" for the environment only
	Variable string // in the environment; "" for none
	Personal bool   // a project's files may not set it

	to   func(c *Config) any                          // where its text goes; nil: it takes more than its own text to settle it
	take func(c *Config, text string) error           // of what put does not know
	read func(c *Config, value json.RawMessage) error // of each place with such an object or list, the highest first
}

// key is what the setting is called in a layer: its variable. What has none stands for itself.
func (s Setting) key() string { return cmp.Or(s.Variable, s.Member) }

// Settings are all that can be set. The configuration is read by this list.
func Settings() []Setting { return slices.Clone(settings) }

var settings = []Setting{
	{Member: "webhook_url", Variable: "GOOGLE_CHAT_WEBHOOK_URL"},
	{Member: "webhook_url_command", Personal: true},
	{Member: "space_id", Variable: "GOOGLE_CHAT_SPACE_ID", take: func(c *Config, text string) error {
		text = strings.TrimPrefix(strings.Trim(text, " /"), "spaces/")
		if text != "" {
			c.SpaceID = "spaces/" + text
		}
		return nil
	}},
	{Member: "credentials_file", Variable: "GOOGLE_CHAT_CREDENTIALS_FILE"},
	{Member: "allowed_users", Variable: "GCHAT_ALLOWED_USERS", Personal: true, to: func(c *Config) any {
		return &c.AllowedUsers
	}},
	{Member: "api_endpoint", Variable: "GCHAT_API_ENDPOINT", Personal: true, to: func(c *Config) any { return &c.APIEndpoint }},
	{Member: "pubsub_subscription", Variable: "GCHAT_PUBSUB_SUBSCRIPTION", Personal: true, take: takeSubscription},
	{Member: "pubsub_endpoint", Variable: "GCHAT_PUBSUB_ENDPOINT", Personal: true, to: func(c *Config) any {
		return &c.PubSubEndpoint
	}},
	{Member: "writes_per_minute", Variable: "GCHAT_WRITES_PER_MINUTE", take: func(c *Config, text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 60000 {
			return errors.New("it takes a number from 1 to 60000")
		}
		c.WritesPerMinute = n
		return nil
	}},

	{Member: "ask_mode", Variable: "GCHAT_ASK_MODE", to: func(c *Config) any { return &c.AskMode }},
	{Member: "rules", read: (*Config).readRules},
	{Member: "poll_interval", Variable: "GCHAT_POLLER_INTERVAL", to: func(c *Config) any { return &c.PollInterval }},
	{Member: "keep_awake", Personal: true, to: func(c *Config) any { return &c.KeepAwake }},

	{Member: "reply_timeout", Variable: "GCHAT_REPLY_TIMEOUT", to: func(c *Config) any { return &c.ReplyTimeout }},
	{Member: "timeout_policy", Variable: "GCHAT_TIMEOUT_POLICY", to: func(c *Config) any { return &c.TimeoutPolicy }},
	{Member: "stop_gate", Variable: "GCHAT_STOP_GATE", read: (*Config).readGate},
	{Member: "persistent_agents", Variable: "GCHAT_PERSISTENT_AGENTS", to: func(c *Config) any { return &c.TeamAgents }},

	{Member: "idle", Variable: "GCHAT_IDLE", to: func(c *Config) any { return &c.Idle }},
	{Member: "approvers", Variable: "GCHAT_APPROVERS", Personal: true},
	{Member: "never_remote", Personal: true, read: (*Config).readNever},
	{Member: "menu_decides", Personal: true, to: func(c *Config) any { return &c.MenuDecides }},
	{Member: "start_sessions", Personal: true, to: func(c *Config) any { return &c.StartSessions }},
	{Member: "claude_commands", Personal: true, to: func(c *Config) any { return &c.ClaudeCommands }},
	{Member: "timed_yes", Personal: true, to: func(c *Config) any { return &c.TimedYes }},
	{Member: "grace", Variable: "GCHAT_GRACE", take: func(c *Config, text string) error {
		if text == "0" || text == "0s" {
			c.Grace = 0
			return nil
		}
		return put(&c.Grace, text)
	}},
	{Member: "background_wait", Variable: "GCHAT_BACKGROUND_WAIT", Personal: true, to: func(c *Config) any {
		return &c.BackgroundWait
	}},
	{Member: "remind", Variable: "GCHAT_REMIND", take: takeReminders},

	{Member: "reports", read: (*Config).readReports},
	{Member: "quiet_hours", read: (*Config).readQuiet},

	{Member: "format", Variable: "GCHAT_FORMAT", to: func(c *Config) any { return &c.Format }},
	{Member: "anthropic_api_key", Variable: "ANTHROPIC_API_KEY", to: func(c *Config) any { return &c.AnthropicKey }},

	{Variable: "GCHAT_CONFIG"},
	{Variable: "GCHAT_POLICY_FILE"},
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

var subscriptionForm = state.Pattern(`^projects/[^/\s]+/subscriptions/[^/\s]+$`)

// takeWord takes a word that means something here, in whatever case it is written.
func takeWord[T ~string](to *T, text string, words []T) error {
	word := T(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), "_", "-"))
	if !slices.Contains(words, word) {
		return fmt.Errorf("it takes %s", strings.ReplaceAll(strings.Trim(fmt.Sprint(words), "[]"), " ", ", "))
	}
	*to = word
	return nil
}

// put puts a setting's text where it goes, as the type there has it.
func put(to any, text string) error {
	switch to := to.(type) {
	case *string:
		*to = text
	case *[]string:
		if words := list(text); len(words) > 0 {
			*to = words
		}
	case *bool:
		var word string
		err := takeWord(&word, text, []string{"true", "false"})
		*to = word == "true"
		return err
	case *time.Duration:
		d, err := ParseInterval(text)
		if err != nil {
			return err
		}
		*to = d
	case *state.Mode:
		return takeWord(to, text, modes)
	case *state.TimeoutPolicy:
		return takeWord(to, text, policies)
	case *Idle:
		return takeWord(to, text, idles)
	case *Format:
		return takeWord(to, text, []Format{"haiku", "builtin"})
	}
	return nil
}

func takeSubscription(c *Config, text string) error {
	if !subscriptionForm().MatchString(text) {
		return errors.New("it takes projects/P/subscriptions/S")
	}
	c.Subscription = text
	return nil
}

// takeReminders takes those that mean something, in order.
func takeReminders(c *Config, text string) (err error) {
	for _, s := range list(text) {
		after, bad := ParseInterval(s)
		if bad != nil || after < time.Minute || len(c.Remind) >= mostReminds {
			err = fmt.Errorf("it takes up to %d durations of a minute or more", mostReminds)
			continue
		}
		c.Remind = append(c.Remind, after)
	}
	slices.Sort(c.Remind)
	return err
}

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
