package config

import (
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func TestSessionRules_Table(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		env  map[string]string
		a    SessionFacts
		want SessionRules
	}{
		"nothing said": {a: SessionFacts{Name: "web-1a2b"},
			want: SessionRules{AskMode: state.ModeNative}},
		"a name given on purpose": {a: SessionFacts{Name: "system3-epic4",
			IsNamedByPerson: true}, want: SessionRules{AskMode: state.ModeDeny}},
		"its launcher's timestamp": {a: SessionFacts{Name: "20260221T103000Z-a7f3b9e1",
			IsNamedByPerson: true}, want: SessionRules{AskMode: state.ModeDeny}},
		"a date": {a: SessionFacts{Name: "2026-02-21-review",
			IsNamedByPerson: true}, want: SessionRules{AskMode: state.ModeDeny}},
		"seconds": {a: SessionFacts{Name: "1771669800",
			IsNamedByPerson: true}, want: SessionRules{AskMode: state.ModeDeny}},
		"a number": {a: SessionFacts{Name: "20", IsNamedByPerson: true},
			want: SessionRules{AskMode: state.ModeNative}},
		"s3": {a: SessionFacts{Name: "s3-live",
			IsNamedByPerson: true}, want: SessionRules{AskMode: state.ModeDeny}},
		"cccb": {a: SessionFacts{Name: "cccb-1", IsNamedByPerson: true},
			want: SessionRules{AskMode: state.ModeDeny}},
		"a tmux session about buckets": {a: SessionFacts{Name: "s3-uploader"},
			want: SessionRules{AskMode: state.ModeNative}},
		"its style": {a: SessionFacts{Name: "web",
			OutputStyle: "System3-meta-orchestrator"}, want: SessionRules{AskMode: state.ModeDeny}},
		"supervised, whatever its style": {a: SessionFacts{Name: "orch-epic4",
			IsNamedByPerson: true, OutputStyle: "system3"},
			want: SessionRules{AskMode: state.ModeNative}},
		"style of the supervised": {a: SessionFacts{Name: "s3-live", IsNamedByPerson: true,
			OutputStyle: "orchestrator"}, want: SessionRules{AskMode: state.ModeNative}},
		"the mode of this very session": {env: map[string]string{"GCHAT_ASK_MODE": "native"},
			a:    SessionFacts{Name: "s3-live", IsNamedByPerson: true},
			want: SessionRules{AskMode: state.ModeNative}},
		"the others have the default mode": {file: `{"ask_mode":"hold"}`,
			a: SessionFacts{Name: "web"}, want: SessionRules{AskMode: state.ModeHold}},
		"the preset beats the default": {file: `{"ask_mode":"hold"}`,
			a:    SessionFacts{Name: "s3-live", IsNamedByPerson: true},
			want: SessionRules{AskMode: state.ModeDeny}},
		"a rule beats the preset": {file: `{"rules":[{"preset":"system3","ask_mode":"native"}]}`,
			a:    SessionFacts{Name: "s3-live", IsNamedByPerson: true},
			want: SessionRules{AskMode: state.ModeNative}},
		"the preset for found names": {file: `{"rules":[{"preset":"system3"}]}`,
			a: SessionFacts{Name: "s3-live"}, want: SessionRules{AskMode: state.ModeDeny}},
		"each setting's first rule": {file: `{"rules":[{"session":"a*","timeout_policy":"recommended"},{"project":"/srv/*","ask_mode":"deny","stop_gate":{"question_asked":"advice"}}],"stop_gate":"off"}`,
			a: SessionFacts{Name: "abc", ProjectDir: "/srv/x"},
			want: SessionRules{AskMode: state.ModeDeny, TimeoutPolicy: state.TimeoutRecommended,
				StopGate: StopGate{GateQuestionAsked: GateAdvice, GatePersistentAgents: GateOff}}},
		"a rule that leaves the gate open": {file: `{"rules":[{"session":"w*","ask_mode":"hold","stop_gate":null,"idle":null}],"stop_gate":null}`,
			a: SessionFacts{Name: "web"}, want: SessionRules{AskMode: state.ModeHold}},
		"the gate for all": {env: map[string]string{"GCHAT_STOP_GATE": "on"},
			a: SessionFacts{Name: "web"},
			want: SessionRules{AskMode: state.ModeNative,
				StopGate: StopGate{GateQuestionAsked: GateOn, GatePersistentAgents: GateOn}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			for k, v := range c.env {
				p.env[k] = v
			}
			if c.file != "" {
				p.write(projectFile, c.file)
			}
			cfg := p.load()
			kit.Must(t, len(cfg.Problems) == 0, "%v", cfg.Problems)
			if c.want.TimeoutPolicy == "" {
				c.want.TimeoutPolicy = state.TimeoutLeaveOpen
			}
			got := cfg.RulesFor(c.a)
			for _, check := range []string{GateQuestionAsked, GatePersistentAgents} {
				want := c.want.StopGate[check]
				if want == "" && c.want.AskMode == state.ModeDeny {
					want = GateOn
				} else if want == "" {
					want = GateOff
				}
				kit.Equalf(t, got.StopGate[check], want, "%s", check)
			}
			kit.True(t, got.AskMode == c.want.AskMode && got.TimeoutPolicy == c.want.TimeoutPolicy,
				"got %+v, want %+v", got, c.want)
		})
	}
}

func TestSessionRules_ReportsNonsense(t *testing.T) {
	p := newPlace(t)
	p.write(projectFile, `{"timeout_policy":"guess","stop_gate":{"question_asked":"maybe","nothing":"on"},"format":"opus",
		"rules":[{"session":"[","preset":"system4","ask_mode":"deny"},{"sesion":"x-*","ask_mode":"deny"}]}`)
	c := p.load()
	kit.Equalf(t, len(c.Problems), 5, "problems: %v", c.Problems)
	got := c.RulesFor(SessionFacts{Name: "web"})
	kit.True(t, got.AskMode == state.ModeNative && got.TimeoutPolicy == state.TimeoutLeaveOpen &&
		!got.StopGate.HasChecks(),
		"got %+v", got)
}
