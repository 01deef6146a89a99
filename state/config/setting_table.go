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
	JSONName   string // of gchat-hooks.json and config.json; "" for the environment only
	Variable   string // in the environment; "" for none
	IsPersonal bool   // a project's files may not set it

	// How applySetting sets the setting, by one of these. If all are nil, more than the
	// setting's own text decides, and Load does it.

	// returns a pointer to the field that setValue writes the text into
	target func(c *Config) any
	// parses a text that setValue cannot parse
	parse func(c *Config, text string) error
	// reads an object or a list; it is called for each place that has one, the highest
	// first
	readObject func(c *Config, value json.RawMessage) error
}

// key returns the name of the setting in a layer: its variable, or its member's name if
// it has no variable.
func (s Setting) key() string { return cmp.Or(s.Variable, s.JSONName) }

// AllSettings returns all settings that exist.
func AllSettings() []Setting { return slices.Clone(settings) }

// settings is the list by which the configuration is read. To add a setting, add an
// entry.
var settings = []Setting{
	{JSONName: "webhook_url", Variable: "GOOGLE_CHAT_WEBHOOK_URL"},
	{JSONName: "webhook_url_command", IsPersonal: true},
	{
		JSONName: "space_id",
		Variable: "GOOGLE_CHAT_SPACE_ID",
		parse: func(c *Config, text string) error {
			text = strings.TrimPrefix(strings.Trim(text, " /"), "spaces/")
			if text != "" {
				c.SpaceID = "spaces/" + text
			}
			return nil
		},
	},
	{JSONName: "credentials_file", Variable: "GOOGLE_CHAT_CREDENTIALS_FILE"},
	{
		JSONName:   "allowed_users",
		Variable:   "GCHAT_ALLOWED_USERS",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.AllowedUsers },
	},
	{
		JSONName:   "api_endpoint",
		Variable:   "GCHAT_API_ENDPOINT",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.APIEndpoint },
	},
	{
		JSONName:   "pubsub_subscription",
		Variable:   "GCHAT_PUBSUB_SUBSCRIPTION",
		IsPersonal: true,
		parse:      setSubscription,
	},
	{
		JSONName:   "pubsub_endpoint",
		Variable:   "GCHAT_PUBSUB_ENDPOINT",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.PubSubEndpoint },
	},
	{
		JSONName: "writes_per_minute",
		Variable: "GCHAT_WRITES_PER_MINUTE",
		parse: func(c *Config, text string) error {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 60000 {
				return errors.New("it takes a number from 1 to 60000")
			}
			c.WritesPerMinute = n
			return nil
		},
	},

	{
		JSONName: "ask_mode",
		Variable: "GCHAT_ASK_MODE",
		target:   func(c *Config) any { return &c.AskMode },
	},
	{JSONName: "rules", readObject: (*Config).readRules},
	{
		JSONName: "poll_interval",
		Variable: "GCHAT_POLLER_INTERVAL",
		target:   func(c *Config) any { return &c.PollInterval },
	},
	{
		JSONName:   "keep_awake",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.KeepsAwake },
	},

	{
		JSONName: "reply_timeout",
		Variable: "GCHAT_REPLY_TIMEOUT",
		target:   func(c *Config) any { return &c.ReplyTimeout },
	},
	{
		JSONName: "timeout_policy",
		Variable: "GCHAT_TIMEOUT_POLICY",
		target:   func(c *Config) any { return &c.TimeoutPolicy },
	},
	{JSONName: "stop_gate", Variable: "GCHAT_STOP_GATE", readObject: (*Config).readStopGate},
	{
		JSONName: "persistent_agents",
		Variable: "GCHAT_PERSISTENT_AGENTS",
		target:   func(c *Config) any { return &c.TeamAgents },
	},

	{JSONName: "idle", Variable: "GCHAT_IDLE", target: func(c *Config) any { return &c.Idle }},
	{JSONName: "approvers", Variable: "GCHAT_APPROVERS", IsPersonal: true},
	{JSONName: "never_remote", IsPersonal: true, readObject: (*Config).readNeverRemote},
	{
		JSONName:   "menu_decides",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.MenuCanDecide },
	},
	{
		JSONName:   "start_sessions",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.CanStartSessions },
	},
	{
		JSONName:   "claude_commands",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.ClaudeCommands },
	},
	{
		JSONName:   "timed_yes",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.AllowsTimedYes },
	},
	{
		JSONName: "grace",
		Variable: "GCHAT_GRACE",
		parse: func(c *Config, text string) error {
			if text == "0" || text == "0s" {
				c.GracePeriod = 0
				return nil
			}
			return setValue(&c.GracePeriod, text)
		},
	},
	{
		JSONName:   "background_wait",
		Variable:   "GCHAT_BACKGROUND_WAIT",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.BackgroundWait },
	},
	{JSONName: "notify", IsPersonal: true, readObject: (*Config).readNotify},
	{
		JSONName:   "notify_after",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.NotifyAfter },
	},
	{
		JSONName:   "push_text",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.ShowsPushText },
	},
	{
		JSONName:   "push_hosts",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.PushHosts },
	},
	{
		JSONName:   "check_claude",
		IsPersonal: true,
		target:     func(c *Config) any { return &c.ChecksClaude },
	},
	{JSONName: "remind", Variable: "GCHAT_REMIND", parse: setReminders},

	{JSONName: "reports", readObject: (*Config).readReports},
	{JSONName: "quiet_hours", readObject: (*Config).readQuietHours},

	{
		JSONName: "format",
		Variable: "GCHAT_FORMAT",
		target:   func(c *Config) any { return &c.Format },
	},
	{
		JSONName: "anthropic_api_key",
		Variable: "ANTHROPIC_API_KEY",
		target:   func(c *Config) any { return &c.AnthropicKey },
	},

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

var subscriptionPattern = state.LazyPattern(`^projects/[^/\s]+/subscriptions/[^/\s]+$`)

// setWord sets target to the allowed word that text contains. Text may be in any case,
// and have "_" in place of "-".
func setWord[T ~string](target *T, text string, allowed []T) error {
	word := T(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), "_", "-"))
	if !slices.Contains(allowed, word) {
		list := strings.Trim(fmt.Sprint(allowed), "[]")
		return fmt.Errorf("it takes %s", strings.ReplaceAll(list, " ", ", "))
	}
	*target = word
	return nil
}

// setValue parses a setting's text into target, a pointer, according to target's type.
func setValue(target any, text string) error {
	switch to := target.(type) {
	case *string:
		*to = text
	case *[]string:
		if words := splitList(text); len(words) > 0 {
			*to = words
		}
	case *bool:
		var word string
		err := setWord(&word, text, []string{"true", "false"})
		*to = word == "true"
		return err
	case *time.Duration:
		d, err := ParseInterval(text)
		if err != nil {
			return err
		}
		*to = d
	case *state.Mode:
		return setWord(to, text, modeWords)
	case *state.TimeoutPolicy:
		return setWord(to, text, timeoutPolicyWords)
	case *Idle:
		return setWord(to, text, idleWords)
	case *Format:
		return setWord(to, text, []Format{"haiku", "builtin"})
	}
	return nil
}

func setSubscription(c *Config, text string) error {
	if !subscriptionPattern().MatchString(text) {
		return errors.New("it takes projects/P/subscriptions/S")
	}
	c.Subscription = text
	return nil
}

// setReminders adds the reminders in text, in order of time. It skips the invalid ones,
// and returns an error if there are any.
func setReminders(c *Config, text string) (err error) {
	for _, text := range splitList(text) {
		after, parseErr := ParseInterval(text)
		if parseErr != nil || after < time.Minute || len(c.RemindAfter) >= maxReminders {
			err = fmt.Errorf("it takes up to %d durations of a minute or more", maxReminders)
			continue
		}
		c.RemindAfter = append(c.RemindAfter, after)
	}
	slices.Sort(c.RemindAfter)
	return err
}

// FileVariables returns the environment variables of the settings that a file can set,
// too, sorted.
func FileVariables() (names []string) {
	for _, s := range settings {
		if s.Variable != "" && s.JSONName != "" {
			names = append(names, s.Variable)
		}
	}
	slices.Sort(names)
	return names
}
