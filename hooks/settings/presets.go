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
	Event   string
	Matcher string // as narrow as can be: a hook that is not started costs nothing
	Name    string // what it is called as
	Timeout int    // seconds
	Rewake  bool   // it wakes its session, in the background
}

// The time limits of hooks, in seconds.
const (
	waiting = 86400 // for a person: config.HookTimeout
	quick   = 10    // hooks that do not wait end by themselves before that
	agent   = 30    // to put a message for another agent
	decide  = 600   // for another agent to say whether the session may stop
)

const ask = "AskUserQuestion"

// dialogs are the notification types that tell of a dialog in the terminal.
const dialogs = "permission_prompt|worker_permission_prompt|agent_needs_input|elicitation_dialog|elicitation_url_dialog"

// table has every hook with the part of the presets that it belongs to. The first hook of a part is in no other.
//
// gchat-ask-user-forward may wait on PreToolUse too, in hold mode. gchat-notification-dispatch has no matcher: which
// notifications are sent is for the configuration to say, at any time.
var table = []struct {
	part string
	Hook
}{
	{"post", Hook{"PreToolUse", ask, "gchat-ask-user-forward", waiting, false}},
	{"answer", Hook{"PermissionRequest", ask, "gchat-ask-user-forward", waiting, false}},
	{"post", Hook{"PostToolUse", ask, "gchat-ask-user-answered", quick, false}},
	{"post", Hook{"UserPromptSubmit", "", "gchat-ask-user-answered", quick, false}},
	{"post", Hook{"Stop", "", "gchat-ask-user-answered", quick, false}},
	{"post", Hook{"StopFailure", "", "gchat-ask-user-answered", quick, false}},
	{"post", Hook{"SessionEnd", "", "gchat-ask-user-answered", quick, false}},

	{"approve", Hook{"PostToolBatch", "", "gchat-ask-user-answered", quick, false}},
	{"approve", Hook{"PermissionRequest", "", "gchat-ask-user-forward", waiting, false}},
	{"approve", Hook{"Elicitation", "", "gchat-ask-user-forward", waiting, false}},
	{"approve", Hook{"ElicitationResult", "", "gchat-ask-user-answered", quick, false}},
	{"approve", Hook{"Notification", dialogs, "gchat-ask-user-forward", quick, false}},
	{"approve", Hook{"Stop", "", "gchat-ask-user-rewake", waiting, true}},
	{"approve", Hook{"PermissionDenied", "", "gchat-ask-user-answered", quick, false}},
	{"approve", Hook{"SubagentStop", "", "gchat-ask-user-answered", quick, false}},
	{"approve", Hook{"UserPromptSubmit", "", "gchat-session-event", quick, false}},
	{"approve", Hook{"SessionStart", "fork|resume", "gchat-ask-user-answered", quick, false}},

	{"notify", Hook{"Notification", "", "gchat-notification-dispatch", quick, false}},
	{"notify", Hook{"UserPromptSubmit", "", "gchat-notification-dispatch", quick, false}},
	{"notify", Hook{"SubagentStop", "", "gchat-notification-dispatch", quick, false}},
	{"notify", Hook{"StopFailure", "", "gchat-notification-dispatch", quick, false}},
	{"report", Hook{"SessionStart", "", "gchat-session-event", quick, false}},
	{"report", Hook{"Stop", "", "gchat-session-event", quick, false}},
	{"report", Hook{"SessionEnd", "", "gchat-session-event", quick, false}},

	{"system3", Hook{"Stop", "", "gchat-stop-gate", quick, false}},
	{"system3", Hook{"PreToolUse", ask, "gchat-ask-user-rewake", waiting, true}},
	{"system3", Hook{"Stop", "", "gchat-ask-user-rewake", waiting, true}},

	{"wake", Hook{"Stop", "", "stop-hook", decide, false}},
	{"wake", Hook{"PreToolUse", ask, "pre-tool-use-hook", agent, false}},
	{"wake", Hook{"Notification", "idle_prompt", "notification-idle-hook", agent, false}},
	{"wake", Hook{"Notification", "permission_prompt", "notification-permission-hook", agent, false}},
	{"wake", Hook{"SessionEnd", "", "session-end-hook", quick, false}},
	{"wake", Hook{"PreCompact", "", "pre-compact-hook", agent, false}},
}

// presets are the presets with their parts.
var presets = map[string][]string{
	"answer":  {"post", "answer"},
	"approve": {"post", "answer", "approve"},
	"report":  {"post", "answer", "notify", "report"},
	"system3": {"post", "answer", "notify", "report", "system3"},
	"wake":    {"wake"},
	"send":    {"post", "notify"}, // beside another bridge: no reply is used
}

// Presets are the names that Hooks knows, the default first.
func Presets() []string { return []string{"answer", "approve", "report", "system3", "wake", "send"} }

// Hooks are the hooks of these presets together, each once; of the default one, "answer", when none is named.
func Hooks(names ...string) ([]Hook, error) {
	if len(names) == 0 {
		names = Presets()[:1]
	}
	var parts []string
	for _, name := range names {
		if presets[name] == nil {
			return nil, fmt.Errorf("no such preset: %s (there are %s)", name, strings.Join(Presets(), ", "))
		}
		parts = append(parts, presets[name]...)
	}
	return hooksIn(parts), nil
}

// hooksIn are the hooks of these parts, each once: where one of them is for every tool, that one.
func hooksIn(parts []string) (hooks []Hook) {
	for _, row := range table {
		same := func(h Hook) bool { return h.Event == row.Event && h.Name == row.Name }
		i := slices.IndexFunc(hooks, same)
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

// partOf is the part whose first hook that is, by which a part is known again; "" for another one.
func partOf(event, name string) string {
	known := map[string]bool{}
	for _, row := range table {
		if !known[row.part] && row.Event == event && row.Name == name {
			return row.part
		}
		known[row.part] = true
	}
	return ""
}

// Entries are the hooks as this Claude Code takes them, and those that it cannot have. They start the program at that absolute
// path; its name is gchat-hooks, by which the entries are known again.
func Entries(program string, claude Version, hooks []Hook) (entries []Entry, left []Hook) {
	for _, h := range hooks {
		if h.Rewake && !claude.AtLeast(AsyncRewake) {
			left = append(left, h)
			continue
		}
		e := Entry{Event: h.Event, Matcher: h.Matcher, Timeout: h.Timeout, AsyncRewake: h.Rewake}
		if claude.AtLeast(execForm) {
			e.Command, e.Args = program, []string{"hook", h.Name}
		} else {
			e.Command = state.ShellQuoted(program) + " hook " + h.Name
		}
		entries = append(entries, e)
	}
	return entries, left
}

// A Version is Claude Code's. The zero one is unknown, and taken for Oldest.
type Version [3]int

// Oldest is the oldest version that is supported: before it, an event that Claude Code does not know voids the whole
// settings file, hooks and all (Claude Code's changelog).
var Oldest = Version{2, 1, 101}

var (
	// execForm is when hooks got "args": the program is started without a shell (Claude Code's changelog). An older
	// version takes no notice of them, and would start the program with no words at all.
	execForm = Version{2, 1, 139}

	// AsyncRewake is the oldest version on which it was measured. One that does not know it runs such a hook in the
	// foreground, for as long as the person takes.
	AsyncRewake = Version{2, 1, 197}
)

// AtLeast says whether a version is that one or a newer one.
func (v Version) AtLeast(min Version) bool {
	if v == (Version{}) {
		v = Oldest
	}
	return slices.Compare(v[:], min[:]) >= 0
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// Supported says why hooks cannot be registered with this version; nil when they can.
func (v Version) Supported() error {
	if v.AtLeast(Oldest) {
		return nil
	}
	//lint:ignore ST1005 it is a name
	return fmt.Errorf("Claude Code %s is too old: update it (`claude update`)", v)
}

// ParseVersion reads what `claude --version` prints, "2.1.329 (Claude Code)", or the number alone. It has a line of its own: a
// wrapper may print the versions of other programs before it.
func ParseVersion(s string) (v Version, ok bool) {
	m := regexp.MustCompile(`(?m)^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})\S*(?: \(Claude Code\))?$`).FindStringSubmatch(s)
	if m == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+1])
	}
	return v, true
}

// AskVersion asks the claude on PATH, for so long. Others may be installed: an editor brings its own.
func AskVersion(ctx context.Context, env state.Getenv, wait time.Duration) (Version, error) {
	path, err := exec.LookPath("claude")
	for _, usual := range []string{".local/bin/claude", ".claude/local/claude"} { // by its installers; the second is an alias
		if err != nil {
			path, err = exec.LookPath(filepath.Join(state.Home(env), usual))
		}
	}
	if err != nil {
		return Version{}, errors.New("claude is not on PATH")
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = 300 * time.Millisecond // a child of it may hold the pipe
	out, err := cmd.Output()
	if v, ok := ParseVersion(string(out)); ok {
		return v, nil
	}
	return Version{}, fmt.Errorf("claude --version: %w", cmp.Or(ctx.Err(), err, errors.New("it prints no version")))
}
