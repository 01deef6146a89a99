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
	Matcher      string // as narrow as possible: a hook that is not started costs nothing
	Name         string // the name that it is called by
	Timeout      int    // seconds
	WakesSession bool   // it runs in the background and can wake its session
}

// These are the timeouts of hooks, in seconds.
const (
	personTimeout   = 86400 // to wait for a person: config.HookTimeout
	quickTimeout    = 10    // for hooks that do not wait; they end by themselves before
	agentTimeout    = 30    // to enqueue a message for another agent
	decisionTimeout = 600   // for another agent to decide whether the session may stop
)

const questionTool = "AskUserQuestion"

// dialogTypes are the types of notifications about a dialog in the terminal.
const dialogTypes = "permission_prompt|worker_permission_prompt|agent_needs_input" +
	"|elicitation_dialog|elicitation_url_dialog"

// hookTable lists every hook with the part of the presets that it belongs to. The first
// hook of a part is in no other part.
//
// gchat-ask-user-forward can also wait on PreToolUse, in hold mode.
// gchat-notification-dispatch has no matcher: the configuration says which notifications
// are sent, and it may change at any time.
var hookTable = []struct {
	part string
	Hook
}{
	{"post", Hook{"PreToolUse", questionTool, "gchat-ask-user-forward", personTimeout, false}},
	{"answer", Hook{"PermissionRequest", questionTool, "gchat-ask-user-forward", personTimeout, false}},
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
	{"approve", Hook{"SessionStart", "fork|resume", "gchat-ask-user-answered", quickTimeout, false}},

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
	{"wake", Hook{
		"Notification", "permission_prompt", "notification-permission-hook", agentTimeout, false,
	}},
	{"wake", Hook{"SessionEnd", "", "session-end-hook", quickTimeout, false}},
	{"wake", Hook{"PreCompact", "", "pre-compact-hook", agentTimeout, false}},
}

// presetParts are the parts of each preset.
var presetParts = map[string][]string{
	"answer":  {"post", "answer"},
	"approve": {"post", "answer", "approve"},
	"report":  {"post", "answer", "notify", "report"},
	"system3": {"post", "answer", "notify", "report", "system3"},
	"wake":    {"wake"},
	"send":    {"post", "notify"}, // for use beside another bridge: replies are not used
}

// PresetNames are the names of the presets, the default first.
func PresetNames() []string {
	return []string{"answer", "approve", "report", "system3", "wake", "send"}
}

// PresetHooks returns the hooks of these presets together, each once. Without names it
// returns those of the default preset, "answer".
func PresetHooks(names ...string) ([]Hook, error) {
	if len(names) == 0 {
		names = PresetNames()[:1]
	}
	var parts []string
	for _, name := range names {
		if presetParts[name] == nil {
			return nil, fmt.Errorf("no such preset: %s (there are %s)",
				name, strings.Join(PresetNames(), ", "))
		}
		parts = append(parts, presetParts[name]...)
	}
	return hooksOfParts(parts), nil
}

// hooksOfParts returns the hooks of these parts, each once. Of two that differ only in
// their matcher, it returns the one without a matcher, which is for every tool.
func hooksOfParts(parts []string) (hooks []Hook) {
	for _, row := range hookTable {
		i := slices.IndexFunc(hooks, func(h Hook) bool {
			return h.Event == row.Event && h.Name == row.Name
		})
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

// partOf returns the part whose first hook this is, which identifies the part; "" if it
// is not the first hook of any.
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

// EntriesFor returns the hooks as entries for this version of Claude Code, and those that
// the version does not support. The entries start the program at that absolute path. Its
// base name is gchat-hooks, by which the entries are recognised.
func EntriesFor(
	program string, claude Version, hooks []Hook,
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

// A Version is a version of Claude Code. The zero value is an unknown one and counts as
// MinVersion.
type Version [3]int

// MinVersion is the oldest supported version. In an older one, an event that Claude Code
// does not know makes the whole settings file void, with all hooks (Claude Code's
// changelog).
var MinVersion = Version{2, 1, 101}

var (
	// minArgsVersion is the first version in which hooks have "args": the program is
	// started without a shell (Claude Code's changelog). An older version ignores args
	// and would start the program without any.
	minArgsVersion = Version{2, 1, 139}

	// MinRewakeVersion is the oldest version on which asyncRewake was tested. A version
	// that does not know it runs such a hook in the foreground, for as long as the person
	// takes.
	MinRewakeVersion = Version{2, 1, 197}
)

// IsAtLeast reports whether a version is minimum or newer.
func (v Version) IsAtLeast(minimum Version) bool {
	if v == (Version{}) {
		v = MinVersion
	}
	return slices.Compare(v[:], minimum[:]) >= 0
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// CheckSupported returns why hooks cannot be registered with this version; nil if they
// can.
func (v Version) CheckSupported() error {
	if v.IsAtLeast(MinVersion) {
		return nil
	}
	//lint:ignore ST1005 "Claude Code" is a name
	return fmt.Errorf("Claude Code %s is too old: update it (`claude update`)", v)
}

// ParseVersion reads what `claude --version` prints, "2.1.329 (Claude Code)", or the
// number alone. The version has to be a line by itself: a wrapper may print the versions
// of other programs before it.
func ParseVersion(s string) (v Version, ok bool) {
	pattern := regexp.MustCompile(`(?m)^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})\S*(?: \(Claude Code\))?$`)
	match := pattern.FindStringSubmatch(s)
	if match == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(match[i+1])
	}
	return v, true
}

// InstalledVersion asks the claude on PATH for its version, for at most timeout. Other
// versions may be installed, too: an editor brings its own.
func InstalledVersion(
	ctx context.Context, env state.Getenv, timeout time.Duration,
) (Version, error) {
	path, err := exec.LookPath("claude")
	for _, candidate := range []string{".local/bin/claude", ".claude/local/claude"} {
		// Claude Code's installers use these paths; the second is behind an alias.
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
	cmd.WaitDelay = 300 * time.Millisecond // a child of claude may keep the pipe open
	out, err := cmd.Output()
	if v, ok := ParseVersion(string(out)); ok {
		return v, nil
	}
	err = cmp.Or(ctx.Err(), err, errors.New("it prints no version"))
	return Version{}, fmt.Errorf("run claude --version: %w", err)
}
