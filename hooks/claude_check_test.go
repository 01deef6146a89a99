package hooks

import (
	"os"
	"path/filepath"
	"slices"
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
		"no dialog beside the hook, in tmux": {
			[]string{state.ContractDialog}, true, state.ModeInject, false,
		},
		"no dialog beside the hook, outside tmux": {
			[]string{state.ContractDialog}, false, state.ModeNative, true,
		},
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

// A permission that this Claude Code does not take from a hook, or whose dialog would not
// be drawn meanwhile, is left to the terminal. A session's first message says why.
func TestClaudeCheck_PermissionIsLeftToTheTerminal(t *testing.T) {
	t.Parallel()
	for _, contract := range []string{state.ContractPermission, state.ContractDialog} {
		w, transcript := newCheckedWorld(t, false, contract)
		for i, version := range []string{"2.1.400", ""} {
			command := []string{"mkdir out", "mkdir in"}[i]
			printed := w.runHook(forwardHook,
				setMembers(t, permissionEvent(t, "s-1", command), "transcript_path", transcript))
			kit.Equalf(t, printed, "", "printed")
			all := w.indexed()
			kit.Equalf(t, len(all), i+1, "permissions")
			slices.SortFunc(all, func(a, b *state.Question) int { return a.AskedAt.Compare(b.AskedAt) })
			kit.Equalf(t, all[i].UnsupportedClaude, version, "the version that is named")
			kit.True(t, all[i].HandedOverAt != nil && all[i].Status == state.Pending,
				"%s is not left to the terminal", command)
		}
	}
}

// Without a terminal, a missing dialog is no reason to leave a permission to it.
func TestClaudeCheck_NoTerminalNeedsNoDialog(t *testing.T) {
	t.Parallel()
	w, transcript := newCheckedWorld(t, false, state.ContractDialog)
	w.env["CLAUDE_CODE_SESSION_ATTENDED"] = "0"
	h := &Hook{Env: w.getenv}
	q := &state.Question{Kind: state.KindPermission}
	h.handOverIfBroken(q, &Event{SessionID: "s-1", TranscriptPath: LooseText(transcript)})
	kit.True(t, q.HandedOverAt == nil, "left to a terminal")
}
