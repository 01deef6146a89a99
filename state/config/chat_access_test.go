package config

import (
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// The strictest of the record, the configuration and the policy counts, in every
// combination.
func TestChatAccess_StricterTermsCount(t *testing.T) {
	kinds := []state.Kind{
		state.KindQuestion, state.KindPermission, state.KindPlan, state.KindNext, state.KindPrompt,
		KindReport, KindScreen, KindTurnDone,
	}
	titled := map[state.Kind]bool{state.KindPermission: true, state.KindPlan: true,
		KindScreen: true, KindTurnDone: true}
	for _, kind := range kinds {
		for bits := range 1 << 5 {
			has := func(bit int) bool { return bits&(1<<bit) != 0 }
			isKept, isTitlesOnly, isNamed := has(0), has(1), has(2)
			isTerminalOnly, hasApprovers := has(3), has(4)
			cfg := &Config{titlesOnly: isTitlesOnly, NeverRemote: []string{"Bash(rm *)"},
				terminalOnly: []string{"other"}}
			if isKept {
				cfg.terminalOnly = append(cfg.terminalOnly, string(kind))
			}
			if isKept && kind == state.KindQuestion {
				cfg.terminalOnly = []string{"question"}
			}
			q := &state.Question{Kind: kind, ToolName: "Bash", CallTexts: []string{"ls"},
				IsTerminalOnly: isTerminalOnly}
			if isNamed {
				q.CallTexts = []string{"ls; rm x"}
			}
			if hasApprovers {
				q.Approvers = &[]string{}
			}
			want := ChatAccess{CanAsk: !isKept, CanShow: !isTitlesOnly || !titled[kind]}
			want.CanAllow = want.CanAsk && want.CanShow && !isNamed
			kit.Equalf(t, cfg.AccessTo(kind, q.ToolName, q.CallTexts...), want, "%q %05b", kind,
				bits)
			want.CanAllow = want.CanAllow && !isTerminalOnly && hasApprovers
			kit.Equalf(t, cfg.AccessToQuestion(q), want, "%q %05b, its record", kind, bits)
		}
	}
}

// A configuration or policy that cannot be read allows nothing.
func TestChatAccess_UnreadTermsAllowNothing(t *testing.T) {
	// see Restrict
	broken := &Config{NeverRemote: []string{"*"}, terminalOnly: policyKinds(), titlesOnly: true}
	for _, kind := range policyKinds() {
		if kind == "question" {
			kind = ""
		}
		terms := broken.AccessTo(state.Kind(kind), "Read", "x")
		kit.True(t, !terms.CanAsk && !terms.CanAllow, "%q: %+v", kind, terms)
	}
	q := &state.Question{Kind: state.KindPermission, ToolName: "Read", CallTexts: []string{"x"},
		Approvers: &[]string{"users/1"}}
	for what, cfg := range map[string]*Config{
		"nothing set": {}, "never_remote not read": {NeverRemote: []string{"*"}},
	} {
		kit.Equalf(t, cfg.AccessToQuestion(q).CanAllow, (what == "nothing set"), "%s: allowed",
			what)
	}
}
