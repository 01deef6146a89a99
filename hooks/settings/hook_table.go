package settings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gchat-hooks/state"
)

// A Hook is one of our hooks on one of Claude Code's events.
type Hook struct {
	Event        string
	Matcher      string // as narrow as can be: a hook that is not started costs nothing
	Name         string // what it is called as
	Timeout      int    // seconds
	WakesSession bool   // it wakes its session, in the background
}

// The time limits of hooks, in seconds.
const (
	personTimeout   = 86400 // for a person: config.HookTimeout
	quickTimeout    = 10    // hooks that do not wait end by themselves before that
	agentTimeout    = 30    // to put a message for another agent
	decisionTimeout = 600   // for another agent to say whether the session may stop
)

const questionTool = "AskUserQuestion"

// dialogTypes are the notification types that tell of a dialog in the terminal.
const dialogTypes = "permission_prompt|worker_permission_prompt|agent_needs_input|elicitation_dialog|elicitation_url_dialog"

// hookTable has every hook with the part of the presets that it belongs to. The first
// hook of a part is in no other.
//
// gchat-ask-user-forward may wait on PreToolUse too, in hold mode.
// gchat-notification-dispatch has no matcher: which notifications are sent is for the
// configuration to say, at any time.
var hookTable = []struct {
	part string
	Hook
}{
	{"post", Hook{"PreToolUse", questionTool, "gchat-ask-user-forward", personTimeout, false}},
	{
		"answer",
		Hook{"PermissionRequest", questionTool, "gchat-ask-user-forward", personTimeout, false},
	},
	{"post", Hook{"PostToolUse", questionTool, "gchat-ask-user-answered", quickTimeout, false}},
	{"post", Hook{"UserPromptSubmit", "", "gchat-ask-user-answered", quickTimeout, false}},
	{"post", Hook{"Stop", "", "gchat-ask-user-answered", quickTimeout, false}},
	{"post", Hook{"StopFailure", "", "gchat-ask-user-answered", quickTimeout, false}},
	{"post", Hook{"SessionEnd", "", "gchat-ask-user-answered", quickTimeout, false}},

	{"approve", Hook{"PostToolBatch", "", "gchat-ask-user-answered", quickTimeout, false}},
	{"approve", Hook{"PermissionRequest", "", "gchat-ask-user-forward", personTimeout, false}},
	{"approve", Hook{"Elicitation", "", "gchat-ask-user-forward", personTimeout, false}},
	{"approve", Hook{"ElicitationResult", "", "gchat-ask-user-answered", quickTimeout, false}},
	{"approve", Hook{"Notification", dialogTypes, "gchat-ask-user-forward", quickTimeout, false}},
	{"approve", Hook{"Stop", "", "gchat-ask-user-rewake", personTimeout, true}},
	{"approve", Hook{"PermissionDenied", "", "gchat-ask-user-answered", quickTimeout, false}},
	{"approve", Hook{"SubagentStop", "", "gchat-ask-user-answered", quickTimeout, false}},
	{"approve", Hook{"UserPromptSubmit", "", "gchat-session-event", quickTimeout, false}},
	{
		"approve",
		Hook{"SessionStart", "fork|resume", "gchat-ask-user-answered", quickTimeout, false},
	},

	{"notify", Hook{"Notification", "", "gchat-notification-dispatch", quickTimeout, false}},
	{"notify", Hook{"UserPromptSubmit", "", "gchat-notification-dispatch", quickTimeout, false}},
	{"notify", Hook{"SubagentStop", "", "gchat-notification-dispatch", quickTimeout, false}},
	{"notify", Hook{"StopFailure", "", "gchat-notification-dispatch", quickTimeout, false}},
	{"report", Hook{"SessionStart", "", "gchat-session-event", quickTimeout, false}},
	{"report", Hook{"Stop", "", "gchat-session-event", quickTimeout, false}},
	{"report", Hook{"SessionEnd", "", "gchat-session-event", quickTimeout, false}},

	{"system3", Hook{"Stop", "", "gchat-stop-gate", quickTimeout, false}},
	{"system3", Hook{"PreToolUse", questionTool, "gchat-ask-user-rewake", personTimeout, true}},
	{"system3", Hook{"Stop", "", "gchat-ask-user-rewake", personTimeout, true}},

	{"wake", Hook{"Stop", "", "stop-hook", decisionTimeout, false}},
	{"wake", Hook{"PreToolUse", questionTool, "pre-tool-use-hook", agentTimeout, false}},
	{"wake", Hook{"Notification", "idle_prompt", "notification-idle-hook", agentTimeout, false}},
	{
		"wake",
		Hook{
			"Notification",
			"permission_prompt",
			"notification-permission-hook",
			agentTimeout,
			false,
		},
	},
	{"wake", Hook{"SessionEnd", "", "session-end-hook", quickTimeout, false}},
	{"wake", Hook{"PreCompact", "", "pre-compact-hook", agentTimeout, false}},
}

// presetParts are the presets with their parts.
var presetParts = map[string][]string{
	"answer":  {"post", "answer"},
	"approve": {"post", "answer", "approve"},
	"report":  {"post", "answer", "notify", "report"},
	"system3": {"post", "answer", "notify", "report", "system3"},
	"wake":    {"wake"},
	"send":    {"post", "notify"}, // beside another bridge: no reply is used
}

// PresetNames are the names that Hooks knows, the default first.
func PresetNames() []string {
	return []string{"answer", "approve", "report", "system3", "wake", "send"}
}

// PresetHooks are the hooks of these presets together, each once; of the default one,
// "answer", when none is named.
func PresetHooks(names ...string) ([]Hook, error) {
	if len(names) == 0 {
		names = PresetNames()[:1]
	}
	var parts []string
	for _, name := range names {
		if presetParts[name] == nil {
			return nil, fmt.Errorf(
				"no such preset: %s (there are %s)",
				name,
				strings.Join(PresetNames(), ", "),
			)
		}
		parts = append(parts, presetParts[name]...)
	}
	return hooksOfParts(parts), nil
}

// hooksOfParts are the hooks of these parts, each once: where one of them is for every
// tool, that one.
func hooksOfParts(parts []string) (hooks []Hook) {
	for _, row := range hookTable {
		isSameHook := func(h Hook) bool { return h.Event == row.Event && h.Name == row.Name }
		i := slices.IndexFunc(hooks, isSameHook)
		switch {
		case !slices.Contains(parts, row.part):
		case i < 0:
			hooks = append(hooks, row.Hook)
		case row.Matcher == "":
			hooks[i] = row.Hook
		}
	}
	return hooks
}

// partOf is the part whose first hook that is, by which a part is known again; "" for
// another one.
func partOf(event, name string) string {
	isSeen := map[string]bool{}
	for _, row := range hookTable {
		if !isSeen[row.part] && row.Event == event && row.Name == name {
			return row.part
		}
		isSeen[row.part] = true
	}
	return ""
}

// EntriesFor are the hooks as this Claude Code takes them, and those that it cannot have.
// They start the program at that absolute path; its name is gchat-hooks, by which the
// entries are known again.
func EntriesFor(
	program string,
	claude Version,
	hooks []Hook,
) (entries []Entry, unsupported []Hook) {
	for _, h := range hooks {
		if h.WakesSession && !claude.IsAtLeast(MinRewakeVersion) {
			unsupported = append(unsupported, h)
			continue
		}
		e := Entry{
			Event:       h.Event,
			Matcher:     h.Matcher,
			Timeout:     h.Timeout,
			AsyncRewake: h.WakesSession,
		}
		if claude.IsAtLeast(minArgsVersion) {
			e.Command, e.Args = program, []string{"hook", h.Name}
		} else {
			e.Command = state.QuoteForShell(program) + " hook " + h.Name
		}
		entries = append(entries, e)
	}
	return entries, unsupported
}

// A Version is Claude Code's. The zero one is unknown, and taken for Oldest.
type Version [3]int

// MinVersion is the oldest version that is supported: before it, an event that Claude
// Code does not know voids the whole settings file, hooks and all (Claude Code's
// changelog).
var MinVersion = Version{2, 1, 101}

var (
	// minArgsVersion is when hooks got "args": the program is started without a shell
	// (Claude Code's changelog). An older version takes no notice of them, and would
	// start the program with no words at all.
	minArgsVersion = Version{2, 1, 139}

	// MinRewakeVersion is the oldest version on which it was measured. One that does not
	// know it runs such a hook in the foreground, for as long as the person takes.
	MinRewakeVersion = Version{2, 1, 197}
)

// IsAtLeast says whether a version is that one or a newer one.
func (v Version) IsAtLeast(minimum Version) bool {
	if v == (Version{}) {
		v = MinVersion
	}
	return slices.Compare(v[:], minimum[:]) >= 0
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// CheckSupported says why hooks cannot be registered with this version; nil when they
// can.
func (v Version) CheckSupported() error {
	if v.IsAtLeast(MinVersion) {
		return nil
	}
	//lint:ignore ST1005 it is a name
	return fmt.Errorf("Claude Code %s is too old: update it (`claude update`)", v)
}

// ParseVersion reads what `claude --version` prints, "2.1.329 (Claude Code)", or the
// number alone. It has a line of its own: a wrapper may print the versions of other
// programs before it.
func ParseVersion(s string) (v Version, ok bool) {
	match := regexp.MustCompile(`(?m)^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})\S*(?: \(Claude Code\))?$`).
		FindStringSubmatch(s)
	if match == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(match[i+1])
	}
	return v, true
}

// InstalledVersion asks the claude on PATH, for so long. Others may be installed: an
// editor brings its own.
func InstalledVersion(
	ctx context.Context,
	env state.Getenv,
	timeout time.Duration,
) (Version, error) {
	path, err := exec.LookPath("claude")
	for _, candidate := range []string{".local/bin/claude", ".claude/local/claude"} {
		// by its installers; the second is an alias
		if err != nil {
			path, err = exec.LookPath(filepath.Join(state.Home(env), candidate))
		}
	}
	if err != nil {
		return Version{}, errors.New("claude is not on PATH")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = 300 * time.Millisecond // a child of it may hold the pipe
	out, err := cmd.Output()
	if v, ok := ParseVersion(string(out)); ok {
		return v, nil
	}
	return Version{}, fmt.Errorf(
		"claude --version: %w",
		cmp.Or(ctx.Err(), err, errors.New("it prints no version")),
	)
}
