// Package config loads what a person set: the layers of configuration files and
// variables, the rules for sessions and reports, and an administrator's policies. It
// reads files with the readers of package state.
package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/state"
)

// Defaults of the configuration.
const (
	defaultPollInterval = 3 * time.Second
	// HookTimeout is how long Claude Code lets a hook run that waits for a person. The
	// installed hooks have it as "timeout": 86400.
	HookTimeout    = 24 * time.Hour
	digestInterval = time.Hour // from one digest to the next
	// Google Chat's quota for a space, which all its apps share
	defaultWritesPerMinute = 60
	DefaultReplyTimeout    = 30 * time.Minute
)

// Config is what a person set. Each setting comes from the first of these places that has
// it: the environment, .claude/gchat-hooks.json in the project,
// ~/.config/gchat-hooks/config.json ($GCHAT_CONFIG), mcpServers.google-chat-bridge.env in
// the project's .mcp.json, the same in ~/.mcp.json. A command puts its flags into the
// environment. The comment at each field names its variable and its member in a file.
type Config struct {
	WebhookURL     string // GOOGLE_CHAT_WEBHOOK_URL, webhook_url; a secret
	WebhookCommand string // webhook_url_command: prints the URL
	SpaceID        string // GOOGLE_CHAT_SPACE_ID, space_id: spaces/S
	// GOOGLE_CHAT_CREDENTIALS_FILE, credentials_file; by default the login's file. It is
	// NoCredentials where none may be used.
	CredentialsFile string
	// GCHAT_ALLOWED_USERS, allowed_users: who may answer, as users/ID or e-mail address.
	// Load adds the person who logged in.
	AllowedUsers []string
	AskMode      state.Mode // GCHAT_ASK_MODE, ask_mode
	// GCHAT_API_ENDPOINT, api_endpoint: base URL to use instead of Google's
	APIEndpoint string
	// GCHAT_PUBSUB_SUBSCRIPTION, pubsub_subscription: the subscription of a Chat app
	Subscription string
	// GCHAT_PUBSUB_ENDPOINT, pubsub_endpoint: base URL to use instead of Google's
	PubSubEndpoint string
	PollInterval   time.Duration // GCHAT_POLLER_INTERVAL, poll_interval: seconds, or "10s"
	Rules          []Rule        // rules: settings for the sessions that they match
	// GCHAT_TIMEOUT_POLICY, timeout_policy: for a question in deny mode
	TimeoutPolicy state.TimeoutPolicy
	// GCHAT_REPLY_TIMEOUT, reply_timeout: for a question in deny mode
	ReplyTimeout time.Duration
	StopGate     StopGate // GCHAT_STOP_GATE, stop_gate
	TeamAgents   []string // GCHAT_PERSISTENT_AGENTS, persistent_agents: their names
	// GCHAT_APPROVERS, approvers: who decides permissions and plans; by default
	// AllowedUsers
	Approvers []string
	// never_remote: patterns of the calls that only the terminal can allow
	NeverRemote []string
	// menu_decides: menu-driver may choose in the dialogs of permissions and plans
	MenuCanDecide bool
	// start_sessions: a message to a session that ended resumes it, and /new starts one
	CanStartSessions bool
	// claude_commands: more of Claude Code's own commands that a person may give in a
	// session's thread
	ClaudeCommands []string
	// timed_yes: "yes 30m" to a permission allows what its session asks for until then
	AllowsTimedYes bool
	// keep_awake: the machine does not fall asleep while something is open
	KeepsAwake     bool
	Idle           Idle            // GCHAT_IDLE, idle; "" if the person set nothing
	GracePeriod    time.Duration   // GCHAT_GRACE, grace
	BackgroundWait time.Duration   // GCHAT_BACKGROUND_WAIT, background_wait
	RemindAfter    []time.Duration // GCHAT_REMIND, remind: from asking on, ascending
	// GCHAT_WRITES_PER_MINUTE, writes_per_minute: from this machine to one space
	WritesPerMinute int

	Format       Format // GCHAT_FORMAT, format
	AnthropicKey string // ANTHROPIC_API_KEY, anthropic_api_key; a secret

	Notify      *Notify       // notify: how a person who is away is called; nil for not at all
	NotifyAfter time.Duration // notify_after
	// ShowsPushText (push_text) shows a question's text in a browser's notification.
	ShowsPushText bool
	PushHosts     []string // push_hosts: push services beyond those of browsers' makers

	// check_claude: a new version of Claude Code is checked by itself
	ChecksClaude bool

	Reports    map[string]ReportRule // reports: by kind
	QuietHours *QuietHours           // quiet_hours; nil for none

	// Problems are the files that cannot be parsed and the invalid values. Load uses no
	// file below a broken one.
	Problems []error

	Misspellings []error // members that are spelled much like a setting, and are none

	// IsAllowlistUnknown means that more people than AllowedUsers may be allowed: a place
	// that could name them cannot be read, such as a file that is being edited.
	IsAllowlistUnknown bool
	// HasUnreadFile means that a file, a policy or a member that only the person may set
	// could not be read. Then nobody decides anything in Chat.
	HasUnreadFile bool

	// ReadPolicy asks a hub for its policy. If it is nil, only the saved copy counts.
	ReadPolicy PolicyReader
	// RenewsPolicy has the saved copy read again after policyRenewAge, as the poller
	// does; by default it is read again after policyMaxAge.
	RenewsPolicy bool

	// ApplyPolicies sets these.
	hasAppliedPolicies bool
	policyError        error      // what ApplyPolicies returned
	titlesOnly         bool       // a policy has titles_only
	terminalOnly       []string   // the kinds in all policies' terminal_only
	policyUsers        [][]string // each policy's allowed_users

	// isModeInEnv means that GCHAT_ASK_MODE is set. It is meant for this very session, so
	// the built-in preset does not guess a mode from the session's name.
	isModeInEnv bool
}

// Format is how the texts of questions are written: "haiku" has a model reword them,
// "builtin" does not.
type Format string

// LoadPersonal loads what the person set outside of any project. It decides who may
// decide, and in which space.
func LoadPersonal(env state.Getenv) *Config { return Load(state.ProjectEnv(env, "", false), "") }

// Load reads the configuration of a project, "" for none. It never fails: Problems lists
// what is wrong.
func Load(env state.Getenv, projectDir string) *Config {
	return LoadIgnoring(env, projectDir, nil)
}

// LoadIgnoring reads the configuration as Load does, as if no file had the settings of
// these variables.
func LoadIgnoring(env state.Getenv, projectDir string, variables []string) *Config {
	state.BeforeSlowCall("reads the configuration")
	c := &Config{
		AskMode:         state.ModeNative,
		TimeoutPolicy:   state.TimeoutLeaveOpen,
		ReplyTimeout:    DefaultReplyTimeout,
		StopGate:        StopGate{},
		TeamAgents:      []string{"s3-heartbeat", "s3-validator", "s3-communicator"},
		GracePeriod:     DefaultGrace,
		BackgroundWait:  defaultBackgroundWait,
		NotifyAfter:     defaultNotifyAfter,
		ChecksClaude:    true,
		PollInterval:    defaultPollInterval,
		WritesPerMinute: defaultWritesPerMinute,
		Format:          "builtin",
		Reports:         map[string]ReportRule{},
	}
	layers := c.readLayers(env, projectDir)
	for _, file := range layers[1:] {
		for _, variable := range variables {
			delete(file.texts, variable)
		}
	}
	for _, s := range settings {
		c.applySetting(s, layers)
	}
	c.setWebhook(layers)
	c.setEmbeddedSpace(env, layers)
	// A list in a place above the unread file is the one that counts.
	c.IsAllowlistUnknown = c.IsAllowlistUnknown && len(c.AllowedUsers) == 0
	configuredUsers := len(c.AllowedUsers)
	c.setCredentials(env, projectDir, layers) // it appends the person who logged in
	c.setApprovers(layers, c.AllowedUsers[configuredUsers:])
	c.isModeInEnv = env("GCHAT_ASK_MODE") != ""
	return c
}

// applySetting sets a setting from the highest layer that has it. An object or a list is
// read from all layers.
func (c *Config) applySetting(s Setting, layers []layer) {
	var err error
	text := firstWith(layers, s.key()).texts[s.key()]
	switch {
	case s.readObject != nil:
		c.readFromLayers(s, layers)
	case text == "":
	case s.target != nil:
		err = setValue(s.target(c), text)
	case s.parse != nil:
		err = s.parse(c, text)
	}
	if err != nil {
		c.addProblem(fmt.Sprintf("%s is %q", s.JSONName, text), err)
	}
}

// setWebhook sets the webhook, or the command that prints it: the one in the higher
// layer. In one layer the webhook wins.
func (c *Config) setWebhook(layers []layer) {
	layer := firstWith(layers, "GOOGLE_CHAT_WEBHOOK_URL", "webhook_url_command")
	c.WebhookURL = layer.texts["GOOGLE_CHAT_WEBHOOK_URL"]
	switch {
	case c.WebhookURL == "":
		c.WebhookCommand = layer.texts["webhook_url_command"]
	case layer.isProject && !isOwnHost(layers, c.WebhookURL):
		c.WebhookURL = ""
		c.Problems = append(c.Problems, errForeignWebhook)
	}
}

// readFromLayers reads an object or a list from each layer, the highest first. A variable
// holds one word in place of the object.
func (c *Config) readFromLayers(s Setting, layers []layer) {
	for _, l := range layers {
		value := l.objects[s.JSONName]
		if word := l.texts[s.key()]; word != "" {
			value = json.RawMessage(strconv.Quote(word))
		}
		if value != nil {
			err := s.readObject(c, value)
			c.addProblem(s.JSONName, err)
			// never_remote is personal. If it is invalid, it may name any call.
			c.HasUnreadFile = c.HasUnreadFile || s.IsPersonal && err != nil
		}
	}
}

// addProblem adds a problem with a part of the configuration, unless err is nil.
func (c *Config) addProblem(where string, err error) {
	if err != nil {
		c.Problems = append(c.Problems, fmt.Errorf("%s: %w", where, err))
	}
}

// maxConfigSize is the limit for a configuration file, in bytes: a repository could
// contain a link to an endless file.
const maxConfigSize = 4 << 20

func splitList(s string) (items []string) {
	for _, item := range strings.Split(s, ",") {
		item = strings.TrimSpace(item)
		if item != "" {
			items = append(items, item)
		}
	}
	return items
}

// ParseInterval reads seconds (10, 0.5) or a duration (10s, 1m).
func ParseInterval(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if seconds, parseErr := strconv.ParseFloat(s, 64); parseErr == nil && seconds < 1e9 {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d < 10*time.Millisecond {
		return 0, errors.New("it takes seconds (10) or a duration (10s)")
	}
	return d, nil
}

// ErrNoWebhook means that no place of the configuration names a webhook.
var ErrNoWebhook = errors.New("no webhook URL is configured")

// ErrUnreadableFile means that a configuration file cannot be read. The file is ignored,
// and so is every place below it.
var ErrUnreadableFile = errors.New("read configuration")

// ErrFileGone means that a file was read before and is missing: see readMarkPath. An
// error that wraps it also wraps ErrUnreadableFile.
var ErrFileGone = errors.New("the file was there before and is missing")

// noWebhookError returns ErrNoWebhook, with the problems of the places that could name a
// webhook.
func (c *Config) noWebhookError() error {
	if len(c.Problems) == 0 {
		return ErrNoWebhook
	}
	return fmt.Errorf("%w: %w", ErrNoWebhook, errors.Join(c.Problems...))
}

// CanSend reports whether the configuration has a way to send: a webhook, a command that
// prints it, or a Chat app.
func (c *Config) CanSend() bool {
	return c.WebhookURL != "" || c.WebhookCommand != "" || c.ReceivesEvents()
}

// ReceivesEvents reports whether a Chat app is configured, which receives messages and
// taps as events.
func (c *Config) ReceivesEvents() bool { return c.Subscription != "" }

// UsesChatPage reports whether questions go to the embedded space, whose page is the
// chat.
func (c *Config) UsesChatPage() bool {
	return strings.Contains(c.WebhookURL, "/v1/"+state.EmbeddedSpaceName+"/") ||
		c.WebhookURL == "" && c.SpaceID == state.EmbeddedSpaceName
}

// CheckDaemonHasWork returns an error if neither these projects nor the known ones have
// anything for a daemon to do. A person then has to configure something.
func CheckDaemonHasWork(env state.Getenv, dirs []string) error {
	projects, _ := state.KnownProjects(env)
	for _, project := range projects {
		dirs = append(dirs, project.Dir)
	}
	reason := errors.New("no webhook and no space are configured")
	for _, dir := range dirs {
		cfg := Load(state.ProjectEnv(env, dir, true), dir)
		if cfg.CanSend() || cfg.SpaceID != "" {
			return nil // credentials alone name no space to read
		}
		if len(cfg.Problems) > 0 {
			reason = cfg.Problems[0]
		}
	}
	return &state.UserError{
		Err: reason,
		Hint: "gchat-hooks setup, or webhook_url in ~/.config/gchat-hooks/config.json; " +
			"then start the daemon again: gchat-hooks poller install",
	}
}

// ResolveWebhook returns the webhook URL, from the configuration or from the command that
// prints it. The command has 10 seconds.
func (c *Config) ResolveWebhook(ctx context.Context) (string, error) {
	if c.WebhookURL == "" && c.WebhookCommand != "" {
		out, err := runWebhookCommand(ctx, c.WebhookCommand)
		if err != nil {
			return "", &state.UserError{
				Err: fmt.Errorf("run webhook_url_command: %w", err),
				Hint: "run webhook_url_command by hand: " +
					"it has to print the URL within 10 seconds, without asking",
			}
		}
		c.WebhookURL = out
	}
	if c.WebhookURL == "" {
		return "", c.noWebhookError()
	}
	return c.WebhookURL, nil
}

func runWebhookCommand(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	// The shell gets a process group of its own. Cancel kills the whole group: otherwise
	// a child of the shell that hangs would live on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
