package hooks

import (
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// kindHandlers is what the hooks do for a kind of question. To add a kind, add a case to
// handlersFor, beside the row in state.KindTraits.
type kindHandlers struct {
	// completeRecord fills in a new record of a kind that goes to the person's own space.
	completeRecord func(h *Hook, q *state.Question, e *Event, personal *config.Config)
	// output returns what Claude Code accepts as the answer, or nil to print nothing.
	// auditDetail is what the log of decisions keeps of it.
	output func(e *Event, q *state.Question) (members map[string]any, auditDetail any, err error)
	// interruptedOutput is what a hook prints that still waits when its turn is
	// interrupted; nil for nothing.
	interruptedOutput map[string]any
}

// handlersFor returns the handlers of a kind.
func handlersFor(kind state.Kind) kindHandlers {
	switch kind {
	case state.KindPermission, state.KindPlan:
		return kindHandlers{completeRecord: (*Hook).completePermission, output: decisionOutput}
	case state.KindForm:
		return kindHandlers{
			completeRecord:    (*Hook).completeForm,
			output:            formOutput,
			interruptedOutput: map[string]any{"action": cancelAction},
		}
	}
	return kindHandlers{output: questionOutput}
}

// asksPerson has the events whose hook waits for a person's answer.
var asksPerson = map[string]bool{"PermissionRequest": true, formEvent: true}

// endHandlerFor returns what an event does that only ends questions of one kind; nil for
// any other event.
func endHandlerFor(e *Event) func(*Hook, *Event) error {
	if e.HookEventName == formResultEvent {
		return (*Hook).confirmForm
	}
	return nil
}

// askedKind is the kind of question that an event asks in the person's own space.
func askedKind(e *Event) state.Kind {
	switch {
	case e.HookEventName == formEvent:
		return state.KindForm
	case e.ToolName == planTool:
		return state.KindPlan
	}
	return state.KindPermission
}
