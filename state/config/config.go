// Package config is what a person set: the layers of configuration files and variables,
// the rules for sessions and reports. It reads with the readers of package state.
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
	// how long Claude Code lets a hook run that waits for a person: "timeout": 86400
	HookTimeout    = 24 * time.Hour
	digestInterval = time.Hour // from one digest to the next
	// a minute: Google Chat's quota for a space, shared by all its apps
	defaultWritesPerMinute = 60
	DefaultReplyTimeout    = 30 * time.Minute
)

// Config is what a person set, from the first of these that says it: the environment,
// .claude/gchat-hooks.json in the project, ~/.config/gchat-hooks/config.json
// ($GCHAT_CONFIG), mcpServers.google-chat-bridge.env in the project's .mcp.json, then in
// ~/.mcp.json. A flag is put into the environment by its command.
type Config struct {
	WebhookURL     string // GOOGLE_CHAT_WEBHOOK_URL, webhook_url; a secret
	WebhookCommand string // webhook_url_command: prints the URL
	SpaceID        string // GOOGLE_CHAT_SPACE_ID, space_id: spaces/S
	// GOOGLE_CHAT_CREDENTIALS_FILE, credentials_file; else the login's; or NoCredentials
	CredentialsFile string
	// GCHAT_ALLOWED_USERS, allowed_users: users/ID or e-mail; and who logged in to read
	AllowedUsers []string
	AskMode      state.Mode // GCHAT_ASK_MODE, ask_mode
	// GCHAT_API_ENDPOINT, api_endpoint: base URL in place of Google's
	APIEndpoint string
	// GCHAT_PUBSUB_SUBSCRIPTION, pubsub_subscription: of a Chat app
	Subscription string
	// GCHAT_PUBSUB_ENDPOINT, pubsub_endpoint: base URL in place of Google's
	PubSubEndpoint string
	PollInterval   time.Duration // GCHAT_POLLER_INTERVAL, poll_interval: seconds, or "10s"
	Rules          []Rule        // rules: how sessions are treated that they match
	// GCHAT_TIMEOUT_POLICY, timeout_policy: of a question in deny mode
	TimeoutPolicy state.TimeoutPolicy
	// GCHAT_REPLY_TIMEOUT, reply_timeout: of a question in deny mode
	ReplyTimeout time.Duration
	StopGate     StopGate // GCHAT_STOP_GATE, stop_gate
	TeamAgents   []string // GCHAT_PERSISTENT_AGENTS, persistent_agents: by name
	// GCHAT_APPROVERS, approvers: who decides permissions and plans; else AllowedUsers
	Approvers []string
	// never_remote: patterns of calls that only the terminal allows
	NeverRemote []string
	// menu_decides: menu-driver chooses in permissions and plans
	MenuCanDecide bool
	// start_sessions: what is said to a session that ended resumes it; /new begins one
	CanStartSessions bool
	// claude_commands: of Claude Code's own, that may be given in a session's thread, too
	ClaudeCommands []string
	// timed_yes: "yes 30m" to a permission allows what its session asks until then
	AllowsTimedYes bool
	// keep_awake: the machine does not fall asleep while something is open
	KeepsAwake     bool
	Idle           Idle            // GCHAT_IDLE, idle; "" where nothing is said
	GracePeriod    time.Duration   // GCHAT_GRACE, grace
	BackgroundWait time.Duration   // GCHAT_BACKGROUND_WAIT, background_wait
	RemindAfter    []time.Duration // GCHAT_REMIND, remind: after its asking, ascending
	// GCHAT_WRITES_PER_MINUTE, writes_per_minute: to one space, from this machine
	WritesPerMinute int

	Format       Format // GCHAT_FORMAT, format
	AnthropicKey string // ANTHROPIC_API_KEY, anthropic_api_key; a secret

	Reports    map[string]ReportRule // reports: by kind
	QuietHours *QuietHours           // quiet_hours; nil for none

	// files that do not parse, values that mean nothing; nothing below a broken file is
	// used
	Problems []error

	Misspellings []error // members that are no settings and are spelled much like one

	// IsAllowlistUnknown says that the allowlist may name more people than AllowedUsers
	// does: where they could stand cannot be read, as a file that is being edited. Unread
	// says that a file could not be read: then nobody decides anything from Chat.
	IsAllowlistUnknown, HasUnreadFile bool

	ReadPolicy   PolicyReader // nil: only the copy of a hub's policy counts
	RenewsPolicy bool         // as the poller does: the copy is read again after policyRenewAge
	titlesOnly   bool         // a policy's, as all that follows: see Restrict
	terminalOnly []string     // kinds: see Terms
	policyUsers  [][]string   // each policy's allowed_users
	isRestricted bool
	policyError  error // what Restrict returned

	isModeInEnv bool // GCHAT_ASK_MODE is set: said of this very session, so no preset guesses
}

// Format is who words the questions: "haiku" or "builtin".
type Format string

// LoadPersonal is what the person alone set: of this they decide who may decide, and
// where.
func LoadPersonal(env state.Getenv) *Config { return Load(state.ProjectEnv(env, "", false), "") }

// Load reads the configuration of a project, "" for none. It never fails: what is wrong
// stands in Problems.
func Load(env state.Getenv, projectDir string) *Config {
	state.BeforeSlowCall("reads the configuration")
	c := &Config{
		AskMode: state.ModeNative, TimeoutPolicy: state.TimeoutLeaveOpen, ReplyTimeout: DefaultReplyTimeout, StopGate: StopGate{},
		TeamAgents: []string{
			"s3-heartbeat",
			"s3-validator",
			"s3-communicator",
		}, GracePeriod: DefaultGrace,
		BackgroundWait: defaultBackgroundWait,
		PollInterval:   defaultPollInterval, WritesPerMinute: defaultWritesPerMinute, Format: "builtin",
		Reports: map[string]ReportRule{},
	}
	layers := c.readLayers(env, projectDir)
	for _, s := range settings {
		c.applySetting(s, layers)
	}
	c.setWebhook(layers)
	c.setEmbeddedSpace(env, layers)
	// what stands above says it all
	c.IsAllowlistUnknown = c.IsAllowlistUnknown && len(c.AllowedUsers) == 0
	namedUsers := len(c.AllowedUsers)
	c.setCredentials(env, projectDir, layers)
	c.setApprovers(layers, c.AllowedUsers[namedUsers:])
	c.isModeInEnv = env("GCHAT_ASK_MODE") != ""
	return c
}

// applySetting gives a setting what the highest layer says that has it. Objects and lists
// are read from all of them.
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

// setWebhook takes the webhook, or the command that prints it, whichever stands higher.
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

// readFromLayers reads what is more than a text, in each layer. A variable has a word for
// it.
func (c *Config) readFromLayers(s Setting, layers []layer) {
	for _, l := range layers {
		value := l.objects[s.JSONName]
		if word := l.texts[s.key()]; word != "" {
			value = json.RawMessage(strconv.Quote(word))
		}
		if value != nil {
			err := s.readObject(c, value)
			c.addProblem(s.JSONName, err)
			c.HasUnreadFile = c.HasUnreadFile || s.IsPersonal && err != nil
		}
	}
}

// addProblem notes what is wrong with a part of the configuration, where something is.
func (c *Config) addProblem(where string, err error) {
	if err != nil {
		c.Problems = append(c.Problems, fmt.Errorf("%s: %w", where, err))
	}
}

// maxConfigSize bounds a configuration file, in bytes. A repository could bring a link to
// something endless.
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

// ErrNoWebhook says that no place of the configuration names a webhook.
var ErrNoWebhook = errors.New("no webhook URL is configured")

// ErrUnreadableFile says that a file cannot be read: it counts no more, and no place
// below it.
var ErrUnreadableFile = errors.New("read configuration")

// ErrFileGone says that a file is missing that was read before: see readMarkPath. It is
// an ErrUnreadableFile, too.
var ErrFileGone = errors.New("it was there, and is gone")

// noWebhookError is ErrNoWebhook, and what is wrong with the places that could name one.
func (c *Config) noWebhookError() error {
	if len(c.Problems) == 0 {
		return ErrNoWebhook
	}
	return fmt.Errorf("%w: %w", ErrNoWebhook, errors.Join(c.Problems...))
}

// CanSend says whether there is a way to send: a webhook, a command for it, or a Chat
// app.
func (c *Config) CanSend() bool {
	return c.WebhookURL != "" || c.WebhookCommand != "" || c.ReceivesEvents()
}

// ReceivesEvents says whether it leads to a Chat app, which hears taps and words as
// events.
func (c *Config) ReceivesEvents() bool { return c.Subscription != "" }

// UsesChatPage says whether questions go to the embedded space, whose page is the chat.
func (c *Config) UsesChatPage() bool {
	return strings.Contains(c.WebhookURL, "/v1/"+state.EmbeddedSpaceName+"/") ||
		c.WebhookURL == "" && c.SpaceID == state.EmbeddedSpaceName
}

// CheckDaemonHasWork is an error where neither these projects nor the known ones have
// anything for a daemon to do: a person has to configure something.
func CheckDaemonHasWork(env state.Getenv, dirs []string) error {
	projects, _ := state.KnownProjects(env)
	for _, project := range projects {
		dirs = append(dirs, project.Dir)
	}
	reason := errors.New("no webhook and no space are configured")
	for _, dir := range dirs {
		cfg := Load(state.ProjectEnv(env, dir, true), dir)
		if cfg.CanSend() || cfg.SpaceID != "" {
			return nil // credentials alone say nowhere to read
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

// ResolveWebhook is the webhook URL, from the configuration or from the command that
// prints it (10 s at most).
func (c *Config) ResolveWebhook(ctx context.Context) (string, error) {
	if c.WebhookURL == "" && c.WebhookCommand != "" {
		out, err := runWebhookCommand(ctx, c.WebhookCommand)
		if err != nil {
			return "", &state.UserError{Err: fmt.Errorf("run webhook_url_command: %w", err),
				Hint: "run webhook_url_command by hand: it has to print the URL within 10 seconds, without asking"}
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
	// The shell's children too: one that hangs would stay behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
