package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"gchat-hooks/state"
)

// untilTold is a context that ends when the hook is told to end: Claude Code sends SIGTERM on Esc and when it quits.
func untilTold() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(),
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT)
}

// wait waits for the answer and prints it. Told to end (Esc, quit), it closes the question. It gives up by itself just before
// Claude Code would kill it: the question then stays open in the terminal.
func (h *Hook) wait(ctx context.Context, e *Event, q *state.Question, allow func(json.RawMessage) any) error {
	path := q.Path
	// At once, not when everything has ended: Claude Code may follow up with SIGKILL.
	told := context.AfterFunc(ctx, func() { h.dismiss(path) })
	waiting, cancel := context.WithTimeout(ctx, state.HookTimeout-30*time.Second)
	defer cancel()
	debug.FreeOSMemory() // a waiting hook should be small
	q, err := state.Await(waiting, h.Env, h.Self, path, func(q *state.Question) bool { return q.Status != state.Pending })
	if !told() { // from here on the answer is on its way, and a signal changes nothing
		h.dismiss(path)
		return nil
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, state.ErrUnserved):
		return nil
	case err != nil || q.Status != state.Answered:
		return err // closed otherwise: the dialog had its answer
	}
	input, err := answeredInput(e.ToolInput, q)
	if err != nil {
		return err
	}
	if err := h.Print(allow(input)); err != nil {
		return err
	}
	_, err = state.UpdateQuestion(path, func(q *state.Question) error {
		now := time.Now().UTC()
		q.Printed, q.PrintedAt = true, &now
		return nil
	})
	return err
}

// dismiss closes a question that its person dismissed.
func (h *Hook) dismiss(path string) {
	defer h.catch()
	h.close(path, state.Cancelled, "signal")
}

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
