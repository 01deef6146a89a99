package hooks

import (
	"os"
	"path/filepath"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// newCheckedWorld is a world whose Claude Code does not keep these contracts. It returns
// the path of its transcript.
func newCheckedWorld(t *testing.T, isTmux bool, broken ...string) (w *world, transcript string) {
	w = newPermissionWorld(t)
	dir := filepath.Join(w.dir, "claude")
	w.env["CLAUDE_PID"] = livingPID(t)
	if isTmux {
		w.inTmux()
	}
	kit.NoError(t, os.MkdirAll(filepath.Join(dir, "sessions"), 0o700))
	writeFile(t, filepath.Join(dir, "sessions", w.env["CLAUDE_PID"]+".json"),
		`{"version":"2.1.400"}`)
	kit.NoError(t, state.SaveClaudeCheck(w.getenv, "2.1.400", state.ClaudeCheck{Broken: broken}))
	return w, filepath.Join(dir, "projects", "p", "s.jsonl")
}

// A question takes another way if a check found that its own does not work with this
// Claude Code: it is typed in tmux; else, only the terminal answers it, and its thread
// says why.
func TestClaudeCheck_QuestionFallsBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		broken []string
		isTmux bool
		mode   state.Mode
		isLeft bool // to the terminal
	}{
		"all holds":         {nil, true, state.ModeNative, false},
		"another is broken": {[]string{state.ContractPlan}, true, state.ModeNative, false},
		"in tmux":           {[]string{state.ContractQuestion}, true, state.ModeInject, false},
		"outside tmux":      {[]string{state.ContractQuestion}, false, state.ModeNative, true},
		"neither works": {
			[]string{state.ContractQuestion, state.ContractTyped}, true, state.ModeNative, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, transcript := newCheckedWorld(t, test.isTmux, test.broken...)
			event := func(name string) []byte {
				return recorded(t, name, "transcript_path", transcript)
			}
			w.runHook(forwardHook, event("single-03-PreToolUse"))
			q := w.question()
			kit.Equalf(t, q.Mode, test.mode, "mode")
			kit.Equalf(t, q.HandedOverAt != nil, test.isLeft, "left to the terminal")
			kit.Equalf(t, q.UnsupportedClaude != "", test.isLeft, "the thread says why")
			if test.isLeft { // the hook does not wait, so the terminal is not held up
				kit.Equalf(t, w.runHook(forwardHook, event("single-04-PermissionRequest")), "", "printed")
			}
		})
	}
}

// A permission that this Claude Code does not take from a hook is left to the terminal.
func TestClaudeCheck_PermissionIsLeftToTheTerminal(t *testing.T) {
	t.Parallel()
	w, transcript := newCheckedWorld(t, false, state.ContractPermission)
	printed := w.runHook(forwardHook,
		setMembers(t, permissionEvent(t, "s-1", "mkdir out"), "transcript_path", transcript))
	kit.Equalf(t, printed, "", "printed")
	q := w.onlyIndexed()
	kit.Equalf(t, q.UnsupportedClaude, "2.1.400", "version")
	kit.True(t, q.HandedOverAt != nil && q.Status == state.Pending, "not left to the terminal")
}
