package hooks

import (
	"bytes"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// withHalfSurrogate is an event in which every "HALF" is half of an emoji, written as
// JSON.stringify writes it.
func withHalfSurrogate(event []byte) []byte {
	return bytes.ReplaceAll(event, []byte("HALF"), []byte(`\ud83d`))
}

// A text that was cut within an emoji ends in half of it. Keys and labels are returned
// unchanged, byte for byte.
func TestSurrogates_ComeBackUnchanged(t *testing.T) {
	t.Parallel()
	input := map[string]any{"questions": []any{map[string]any{
		"question": `Which \ud83d of HALF? 🚀`, "header": "Pick", "multiSelect": false,
		"options": []any{map[string]any{"label": "Red HALF", "description": "r", "preview": "HALF"},
			map[string]any{"label": "Blue", "description": "b"}},
	}}}
	for name, c := range map[string]struct {
		response map[string]any
		status   state.Status
		says     string
	}{
		"its own key": {map[string]any{"answers": map[string]any{`Which \ud83d of HALF? 🚀`: "Red HALF"}}, state.Resolved, "[Answered]"},
		"the key is not the text": {map[string]any{"answers": map[string]any{`Which \ud83d of ` +
			"\ufffd" + `? 🚀`: "Red HALF"}}, state.Cancelled, "Your reply did not reach Claude."},
		"no answer came through": {map[string]any{"answers": map[string]any{}}, state.Cancelled,
			"Your reply did not reach Claude."},
		"one text for all questions": {map[string]any{"answers": map[string]any{},
			"response": "Red HALF"}, state.Resolved, "[Answered]"},
	} {
		w := newWorld(t)
		w.runHook(forwardHook, withHalfSurrogate(recorded(t, "single-03-PreToolUse",
			"tool_input", input)))
		q := w.question()
		w.markPosted(q)
		p := w.startHook(forwardHook, withHalfSurrogate(recorded(t, "single-04-PermissionRequest",
			"tool_input", input)))
		w.awaitWaiter(q)
		w.markReplied(q, q.SubQuestions[0].Options[0].Label)
		out := p.awaitOutput()
		for _, want := range []string{
			`"answers":{"Which \\ud83d of \ud83d? 🚀":"Red \ud83d"}`,
			`"annotations":{"Which \\ud83d of \ud83d? 🚀":{"preview":"\ud83d"}}`,
			`"label":"Red \ud83d"`,
		} {
			kit.Containsf(t, out, want, "%s: output", name)
		}
		w.runHook(answeredHook, withHalfSurrogate(recorded(t, "single-05-PostToolUse", "tool_input",
			input, "tool_response", c.response)))
		q = w.reload(q)
		kit.Equalf(t, q.Status, c.status, "%s", name)
		kit.Containsf(t, closingNote(q), c.says, "%s: note", name)
	}
}
