package hooks

import (
	"encoding/json"
	"fmt"

	"gchat-hooks/state"
)

// annotation is what Claude Code's dialog notes beside an answer; it passes both on to Claude.
type annotation struct {
	Preview string `json:"preview,omitempty"`
	Notes   string `json:"notes,omitempty"`
}

// answeredInput is the call's whole input with the answers put in: Claude Code takes nothing less (a bare allow answers
// the question with nothing). Members that we do not know go back as they came.
func answeredInput(toolInput json.RawMessage, q *state.Question) (json.RawMessage, error) {
	in := map[string]json.RawMessage{}
	if err := json.Unmarshal(toolInput, &in); err != nil {
		return nil, fmt.Errorf("answer input: %w", err)
	}
	notes := map[string]annotation{}
	for _, prompt := range q.Questions {
		a := annotation{Notes: q.Notes[prompt.Question]}
		for _, o := range prompt.Options {
			if !prompt.MultiSelect && o.Label == q.Answers[prompt.Question] {
				a.Preview = o.Preview
				break
			}
		}
		if a != (annotation{}) {
			notes[prompt.Question] = a
		}
	}
	var err error
	if in["answers"], err = json.Marshal(q.Answers); err != nil {
		return nil, fmt.Errorf("answer input: %w", err)
	}
	if len(notes) > 0 {
		if in["annotations"], err = json.Marshal(notes); err != nil {
			return nil, fmt.Errorf("answer input: %w", err)
		}
	}
	return json.Marshal(in)
}

// permissionAllow is the PermissionRequest decision that closes the dialog with the answers.
func permissionAllow(input json.RawMessage) any {
	return map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PermissionRequest",
		"decision":      map[string]any{"behavior": "allow", "updatedInput": input},
	}}
}

// toolAllow is the PreToolUse decision that answers before a dialog is drawn (hold mode, from 2.1.85 on).
func toolAllow(input json.RawMessage) any {
	return map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": input,
	}}
}

// Print writes one JSON object to stdout, whole or not at all. An error is that of a pipe whose other end is gone.
func (h *Hook) Print(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print decision: %w", err)
	}
	if _, err := h.Stdout.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("print decision: %w", err)
	}
	return nil
}
