package hooks

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"gchat-hooks/state"
)

// maxEvent bounds a hook event, in bytes. Stop carries the last message and PostToolUse a tool's result; neither comes
// near.
const maxEvent = 32 << 20

// askTool is the tool whose calls are questions to the person.
const askTool = "AskUserQuestion"

// Event is what Claude Code tells a hook on stdin, as far as ours need it. PermissionRequest has no tool_use_id, and
// prompt_id comes from 2.1.196 on.
type Event struct {
	HookEventName string          `json:"hook_event_name"`
	SessionID     string          `json:"session_id"`
	CWD           string          `json:"cwd"`
	PromptID      words           `json:"prompt_id"`
	AgentID       words           `json:"agent_id"` // of the subagent whose event this is; "" for the session's own
	Transcript    words           `json:"transcript_path"`
	ToolName      string          `json:"tool_name"`
	ToolUseID     string          `json:"tool_use_id"`
	ToolInput     json.RawMessage `json:"tool_input"`
	ToolResponse  json.RawMessage `json:"tool_response"`

	raw []byte
}

// Read reads further members into v. A member of another type than v's is an error, and the others are read all the same.
// They are not in Event: a member that changes its type in some version must not keep other hooks from reading the event.
func (e *Event) Read(v any) error {
	if err := json.Unmarshal(e.raw, v); err != nil {
		return fmt.Errorf("hook event: %w", err)
	}
	return nil
}

// decode reads an event. One that does not say which it is counts as own; where that is "", it is an error.
func decode(b []byte, own string) (*Event, error) {
	e := &Event{raw: b}
	if err := json.Unmarshal(b, e); err != nil {
		return nil, fmt.Errorf("hook event: %w", err)
	}
	if e.HookEventName = cmp.Or(e.HookEventName, own); e.HookEventName == "" {
		return nil, errors.New("hook event: hook_event_name is missing")
	}
	return e, nil
}

// askInput is the tool_input of an AskUserQuestion call.
type askInput struct {
	Questions []state.Prompt `json:"questions"`
}

// prompts reads the questions of an AskUserQuestion call.
func (e *Event) prompts() ([]state.Prompt, error) {
	var in askInput
	if err := json.Unmarshal(e.ToolInput, &in); err != nil {
		return nil, fmt.Errorf("tool input: %w", err)
	}
	if len(in.Questions) == 0 {
		return nil, errors.New("tool input: no questions")
	}
	for i := range in.Questions {
		in.Questions[i].OptionCount = len(in.Questions[i].Options)
	}
	return in.Questions, nil
}

// inputHash is equal for the PreToolUse, PermissionRequest and PostToolUse of one call: they carry the same questions,
// though not the same bytes, and PostToolUse adds answers beside them.
func (e *Event) inputHash() string {
	var in struct {
		Questions any `json:"questions"`
	}
	if json.Unmarshal(e.ToolInput, &in) != nil {
		return ""
	}
	b, err := json.Marshal(in.Questions) // sorts the keys
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
