// Package wake speaks to OpenClaw agents: when a Claude Code session that an agent supervises has ended a turn, asks
// something, idles or ends, the agent is told, in a message that carries what Claude said, or else what changed on the
// session's screen.
package wake

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"gchat-hooks/hooks"
)

// trigger is what a hook of ours tells about.
type trigger struct {
	name  string // as messages and logs say it
	event string // of Claude Code
	kind  string // Claude Code's notification type; "" where there is none
}

// triggers are the hooks by name.
var triggers = map[string]trigger{
	"stop-hook":                    {"response_complete", "Stop", ""},
	"pre-tool-use-hook":            {askTrigger, "PreToolUse", ""},
	"notification-idle-hook":       {"idle_prompt", "Notification", "idle_prompt"},
	"notification-permission-hook": {permissionTrigger, "Notification", "permission_prompt"},
	"session-end-hook":             {endTrigger, "SessionEnd", ""},
	"pre-compact-hook":             {compactTrigger, "PreCompact", ""},
}

const (
	askTrigger        = "ask_user_question"
	permissionTrigger = "permission_prompt"
	endTrigger        = "session_end"
	compactTrigger    = "pre_compact"
)

// Names are the hooks' names, sorted.
func Names() []string { return slices.Sorted(maps.Keys(triggers)) }

// Known says whether name is one of the hooks here.
func Known(name string) bool { return triggers[name].name != "" }

// Hook gives h the job that its name stands for, and says whether the name is one of ours.
func Hook(h *hooks.Hook) bool {
	t, ok := triggers[h.Name]
	if ok {
		f := &fire{Hook: h, trigger: t, began: time.Now()}
		h.Own = t.event // settings name the hook for one event only
		h.Job = func(ctx context.Context, _ *hooks.Hook, e *hooks.Event) error { return f.run(ctx, e) }
		h.Waits = func(_ *hooks.Hook, e *hooks.Event) bool {
			return t.event == "Stop" && e.HookEventName == "Stop" && f.anyWaits()
		}
	}
	return ok
}

// news is what the events say that hooks are called for here.
type news struct {
	Active     json.RawMessage `json:"stop_hook_active"`
	LastWords  json.RawMessage `json:"last_assistant_message"` // from 2.1.197 on
	Transcript json.RawMessage `json:"transcript_path"`
	Kind       json.RawMessage `json:"notification_type"`
}

// text is a member's value where it is text.
func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}
