package hooks

import (
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// kindHandlers is what the hooks do for a kind of question. To add a kind, add a row
// here, beside that in state.KindTraits.
type kindHandlers struct {
	// describe completes a new record of what goes to the person's own space.
	completeRecord func(h *Hook, q *state.Question, e *Event, personal *config.Config)
	// answer is what Claude Code takes for the answer; nil prints nothing. Told is what
	// the log of decisions says of it.
	output func(e *Event, q *state.Question) (members map[string]any, auditDetail any, err error)
	// interruptedOutput is what Claude Code is told by a hook that still waits when the
	// turn was broken off; nil for nothing.
	interruptedOutput map[string]any
}

func handlersFor(kind state.Kind) kindHandlers {
	switch kind {
	case state.KindPermission, state.KindPlan:
		return kindHandlers{completeRecord: (*Hook).completePermission, output: decisionOutput}
	case state.KindForm:
		return kindHandlers{
			(*Hook).completeForm,
			formOutput,
			map[string]any{"action": cancelAction},
		}
	}
	return kindHandlers{output: questionOutput}
}

// asksPerson are the events whose hook waits for a person's answer.
var asksPerson = map[string]bool{"PermissionRequest": true, formEvent: true}

// endHandlerFor is what an event that is of one kind alone does to what is open; nil for
// any other.
func endHandlerFor(e *Event) func(*Hook, *Event) error {
	if e.HookEventName == formResultEvent {
		return (*Hook).confirmForm
	}
	return nil
}

// askedKind is what an event asks that goes to the person's own space.
func askedKind(e *Event) state.Kind {
	switch {
	case e.HookEventName == formEvent:
		return state.KindForm
	case e.ToolName == planTool:
		return state.KindPlan
	}
	return state.KindPermission
}
