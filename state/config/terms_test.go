package config

import (
	"testing"

	"gchat-hooks/state"
)

// The stricter of record, configuration and policy counts, in every combination of them.
func TestTheStricterTermsCount(t *testing.T) {
	kinds := []state.Kind{
		state.AskedQuestion, state.AskedPermission, state.AskedPlan, state.AskedNext, state.Said, Report, Screen, TurnDone,
	}
	titled := map[state.Kind]bool{state.AskedPermission: true, state.AskedPlan: true, Screen: true, TurnDone: true}
	for _, kind := range kinds {
		for bits := range 1 << 5 {
			has := func(bit int) bool { return bits&(1<<bit) != 0 }
			isKept, isTitlesOnly, isNamed := has(0), has(1), has(2)
			isTerminalOnly, hasApprovers := has(3), has(4)
			cfg := &Config{titlesOnly: isTitlesOnly, NeverRemote: []string{"Bash(rm *)"}, terminalOnly: []string{"other"}}
			if isKept {
				cfg.terminalOnly = append(cfg.terminalOnly, string(kind))
			}
			if isKept && kind == state.AskedQuestion {
				cfg.terminalOnly = []string{"question"}
			}
			q := &state.Question{Kind: kind, Tool: "Bash", Call: []string{"ls"}, TerminalOnly: isTerminalOnly}
			if isNamed {
				q.Call = []string{"ls; rm x"}
			}
			if hasApprovers {
				q.Approvers = &[]string{}
			}
			want := Terms{Asked: !isKept, Shown: !isTitlesOnly || !titled[kind]}
			want.Allowed = want.Asked && want.Shown && !isNamed
			if got := cfg.Terms(kind, q.Tool, q.Call...); got != want {
				t.Errorf("%q %05b: %+v, want %+v", kind, bits, got, want)
			}
			want.Allowed = want.Allowed && !isTerminalOnly && hasApprovers
			if got := cfg.TermsOf(q); got != want {
				t.Errorf("%q %05b, its record: %+v, want %+v", kind, bits, got, want)
			}
		}
	}
}

// What cannot be read allows nothing: not a configuration, and not a policy.
func TestUnreadTermsAllowNothing(t *testing.T) {
	broken := &Config{NeverRemote: []string{"*"}, terminalOnly: kinds(), titlesOnly: true} // see Restrict
	for _, kind := range kinds() {
		if kind == "question" {
			kind = ""
		}
		if terms := broken.Terms(state.Kind(kind), "Read", "x"); terms.Asked || terms.Allowed {
			t.Errorf("%q: %+v", kind, terms)
		}
	}
	q := &state.Question{Kind: state.AskedPermission, Tool: "Read", Call: []string{"x"}, Approvers: &[]string{"users/1"}}
	for what, cfg := range map[string]*Config{
		"nothing set": {}, "never_remote not read": {NeverRemote: []string{"*"}},
	} {
		if allowed := cfg.TermsOf(q).Allowed; allowed != (what == "nothing set") {
			t.Errorf("%s: allowed %v", what, allowed)
		}
	}
}
