package hooks

import (
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// claudeCheck returns what a check found about the Claude Code that called this hook, and
// its version.
func (h *Hook) claudeCheck(e *Event) (check state.ClaudeCheck, version string) {
	version = inject.ClaudeVersion(string(e.TranscriptPath), h.claudePID())
	if version != "" {
		check, _ = state.LoadClaudeCheck(h.Env, version)
	}
	return check, version
}

// workingMode returns a mode in which this Claude Code takes answers to questions: the
// one that is set, unless a check found that it does not work. If none works, the
// question's record says that only the terminal can answer it.
func (h *Hook) workingMode(e *Event, mode state.Mode) state.Mode {
	if e.ToolName != questionTool {
		return mode
	}
	check, version := h.claudeCheck(e)
	if mode == state.ModeDeny && check.IsBroken(state.ContractDeny) {
		mode = state.ModeNative
	}
	traits := mode.Traits()
	canType := h.ensureSession(e).TmuxPane != "" && !check.IsBroken(state.ContractTyped)
	isHookBroken := check.IsBroken(state.ContractQuestion) ||
		mode != state.ModeHold && h.isDialogBroken(check)
	switch {
	case traits.NeedsHook && isHookBroken && canType:
		return state.ModeInject
	case traits.NeedsHook && isHookBroken, traits.NeedsPane && !canType && isHookBroken:
		h.cached.isLeftToTerminal = true
		h.cached.unsupportedClaude = h.unexplainedClaude(e, version)
		return state.ModeNative
	case traits.NeedsPane && check.IsBroken(state.ContractTyped):
		return state.ModeNative
	}
	return mode
}

// isDialogBroken reports whether the terminal of this session shows no dialog while a
// hook waits that should wait beside it. Nobody could answer there.
func (h *Hook) isDialogBroken(check state.ClaudeCheck) bool {
	return check.IsBroken(state.ContractDialog) && !h.isUnattended()
}

// unexplainedClaude returns the version of Claude Code that a question's message names as
// the reason why only the terminal answers. It is "" from a session's second question on:
// a person needs that reason once.
func (h *Hook) unexplainedClaude(e *Event, version string) string {
	if h.ensureSession(e).ExplainedClaude == version {
		return ""
	}
	_, err := h.sessions().Change(e.SessionID, func(s *state.Session) {
		s.ExplainedClaude = version
	})
	h.logFailed(err, "the reason may be given again")
	return version
}

// contractOf returns the contract with Claude Code on which a permission, a plan or a
// form depends.
func contractOf(q *state.Question) string {
	if q.IsDialogHidden && q.Kind != state.KindForm {
		return state.ContractAgent
	}
	return q.Kind.Traits().Contract
}

// handOverIfBroken leaves a permission, a plan or a form to the terminal if a check found
// that this Claude Code does not take its answer from a hook, or that its dialog would be
// kept from somebody at the keyboard.
func (h *Hook) handOverIfBroken(q *state.Question, e *Event) {
	check, version := h.claudeCheck(e)
	isStuck := q.IsDialogHidden && check.IsBroken(state.ContractAgentKeyboard) ||
		!q.IsDialogHidden && h.isDialogBroken(check)
	if isStuck || check.IsBroken(contractOf(q)) {
		q.LeaveToTerminal(h.unexplainedClaude(e, version))
	}
}
