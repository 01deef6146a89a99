package settings

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Hook is one of our hooks on one of Claude Code's events.
type Hook struct {
	Event   string
	Matcher string // as narrow as can be: a hook that is not started costs nothing
	Name    string // what it is called as
	Timeout int    // seconds; Waiting for one that waits for a person
	Rewake  bool   // it wakes its session, in the background
}

// Waiting is the time limit of hooks that wait for a person, in seconds, unless Program.Waiting says otherwise.
const Waiting = 24 * 60 * 60

const (
	quick  = 10  // hooks that do not wait end by themselves before that
	agent  = 30  // to reach another agent
	decide = 600 // for another agent to say whether the session may stop
)

type row struct {
	preset string
	Hook
}

const ask = "AskUserQuestion"

// table has every hook with the preset that brings it.
//
// gchat-ask-user-forward may wait on PreToolUse too, in hold mode. gchat-notification-dispatch has no matcher: which
// notifications are sent is for the configuration to say, at any time.
var table = []row{
	{"answer", Hook{"PreToolUse", ask, "gchat-ask-user-forward", Waiting, false}},
	{"answer", Hook{"PermissionRequest", ask, "gchat-ask-user-forward", Waiting, false}},
	{"answer", Hook{"PostToolUse", ask, "gchat-ask-user-answered", quick, false}},
	{"answer", Hook{"UserPromptSubmit", "", "gchat-ask-user-answered", quick, false}},
	{"answer", Hook{"Stop", "", "gchat-ask-user-answered", quick, false}},
	{"answer", Hook{"StopFailure", "", "gchat-ask-user-answered", quick, false}},
	{"answer", Hook{"SessionEnd", "", "gchat-ask-user-answered", quick, false}},

	{"report", Hook{"Notification", "", "gchat-notification-dispatch", quick, false}},
	{"report", Hook{"SubagentStop", "", "gchat-notification-dispatch", quick, false}},
	{"report", Hook{"StopFailure", "", "gchat-notification-dispatch", quick, false}},
	{"report", Hook{"SessionStart", "", "gchat-session-event", quick, false}},
	{"report", Hook{"Stop", "", "gchat-session-event", quick, false}},
	{"report", Hook{"SessionEnd", "", "gchat-session-event", quick, false}},

	{"system3", Hook{"PreToolUse", ask, "gchat-ask-user-rewake", Waiting, true}},
	{"system3", Hook{"Stop", "", "gchat-ask-user-rewake", Waiting, true}},
	{"system3", Hook{"Stop", "", "gchat-stop-gate", quick, false}},

	{"wake", Hook{"Stop", "", "stop-hook", decide, false}},
	{"wake", Hook{"PreToolUse", ask, "pre-tool-use-hook", agent, false}},
	{"wake", Hook{"Notification", "idle_prompt", "notification-idle-hook", agent, false}},
	{"wake", Hook{"Notification", "permission_prompt", "notification-permission-hook", agent, false}},
	{"wake", Hook{"SessionEnd", "", "session-end-hook", quick, false}},
	{"wake", Hook{"PreCompact", "", "pre-compact-hook", agent, false}},
}

// presets are the presets with those that they take in.
var presets = map[string][]string{
	"answer":  {"answer"},
	"report":  {"answer", "report"},
	"system3": {"answer", "report", "system3"},
	"wake":    {"wake"},
}

// Presets are the names that Hooks knows, the default first.
func Presets() []string { return []string{"answer", "report", "system3", "wake"} }

// Hooks are the hooks of these presets together, each once; of the default one, "answer", when none is named.
func Hooks(names ...string) (hooks []Hook, err error) {
	if len(names) == 0 {
		names = Presets()[:1]
	}
	var want []string
	for _, name := range names {
		if presets[name] == nil {
			return nil, fmt.Errorf("no such preset: %s (there are %s)", name, strings.Join(Presets(), ", "))
		}
		want = append(want, presets[name]...)
	}
	for _, r := range table {
		if slices.Contains(want, r.preset) {
			hooks = append(hooks, r.Hook)
		}
	}
	return hooks, nil
}

// Phase are the hooks of a step of the roll-out beside another bridge: 1 only sends, so that both run side by side and no
// reply is used; 2 also answers and tells how sessions went; 3 has all that makes the other one needless. A step back is
// taken by installing the phase before.
func Phase(n int) (hooks []Hook, err error) {
	switch n {
	case 1:
		hooks, err = Hooks("report")
		return slices.DeleteFunc(hooks, func(h Hook) bool { return h.Event == "PermissionRequest" || h.Name == "gchat-session-event" }), err
	case 2:
		return Hooks("report")
	case 3:
		return Hooks("system3")
	}
	return nil, fmt.Errorf("no such phase: %d (there are 1, 2 and 3)", n)
}

// A Program is what the hooks start, and what starts them.
type Program struct {
	Path    string  // of gchat-hooks; absolute, or a name that is on every session's PATH
	Claude  Version // the oldest that reads the file
	Waiting int     // seconds for hooks that wait for a person, 0 is Waiting
}

// Entries are the hooks as this Claude Code takes them, and those that it cannot have. The program has to be called
// gchat-hooks: by that its entries are known again.
func (p Program) Entries(hooks []Hook) (entries []Entry, left []Hook, err error) {
	if path.Base(p.Path) != program {
		return nil, nil, fmt.Errorf("the program is called %s; hooks are known again by the name %s", path.Base(p.Path), program)
	}
	for _, h := range hooks {
		if h.Rewake && !p.Claude.atLeast(AsyncRewake) {
			left = append(left, h)
			continue
		}
		e := Entry{Event: h.Event, Matcher: h.Matcher, Timeout: h.Timeout, AsyncRewake: h.Rewake}
		if h.Timeout == Waiting && p.Waiting > 0 {
			e.Timeout = p.Waiting
		}
		if p.Claude.atLeast(execForm) {
			e.Command, e.Args = p.Path, []string{"hook", h.Name}
		} else {
			e.Command = shellQuote(p.Path) + " hook " + h.Name
		}
		entries = append(entries, e)
	}
	return entries, left, nil
}

// chosen are the hooks that entries of ours register, with this version's time limits.
func chosen(entries []Entry) (hooks []Hook) {
	for _, e := range entries {
		_, name := ours(e.Command, e.Args)
		hook := Hook{e.Event, e.Matcher, name, e.Timeout, e.AsyncRewake}
		if i := slices.IndexFunc(table, func(r row) bool { return r.Event == e.Event && r.Name == name }); i >= 0 {
			hook = table[i].Hook
			hook.Matcher = e.Matcher
		}
		hooks = append(hooks, hook)
	}
	return hooks
}
