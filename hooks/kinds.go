package hooks

import (
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// kindRow is what the hooks do for a kind of question. To add a kind, add a row here, beside that
// in state.KindRow.
type kindRow struct {
	// describe completes a new record of what goes to the person's own space.
	describe func(h *Hook, q *state.Question, e *Event, own *config.Config)
	// answer is what Claude Code takes for the answer; nil prints nothing. Told is what the log of
	// decisions says of it.
	answer func(e *Event, q *state.Question) (members map[string]any, told any, err error)
	// brokenOff is what Claude Code is told by a hook that still waits when the turn was broken off;
	// nil for nothing.
	brokenOff map[string]any
}

func rowOf(kind state.Kind) kindRow {
	switch kind {
	case state.AskedPermission, state.AskedPlan:
		return kindRow{describe: (*Hook).describe, answer: answerDecision}
	case state.AskedForm:
		return kindRow{(*Hook).describeForm, answerForm, map[string]any{"action": cancelForm}}
	}
	return kindRow{answer: answerQuestion}
}

// asksPerson are the events whose hook waits for a person's answer.
var asksPerson = map[string]bool{"PermissionRequest": true, formEvent: true}

// endsBy is what an event that is of one kind alone does to what is open; nil for any other.
func endsBy(e *Event) func(*Hook, *Event) error {
	if e.HookEventName == formResult {
		return (*Hook).formAnswered
	}
	return nil
}

// kindOf is what an event asks that goes to the person's own space.
func kindOf(e *Event) state.Kind {
	switch {
	case e.HookEventName == formEvent:
		return state.AskedForm
	case e.ToolName == planTool:
		return state.AskedPlan
	}
	return state.AskedPermission
}
