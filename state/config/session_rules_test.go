package config

import (
	"testing"

	"gchat-hooks/state"
)

func TestSessionRules(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		env  map[string]string
		a    Asked
		want SessionRules
	}{
		"nothing said":                     {a: Asked{Session: "web-1a2b"}, want: SessionRules{AskMode: state.Native}},
		"a name given on purpose":          {a: Asked{Session: "system3-epic4", Named: true}, want: SessionRules{AskMode: state.Deny}},
		"its launcher's timestamp":         {a: Asked{Session: "20260221T103000Z-a7f3b9e1", Named: true}, want: SessionRules{AskMode: state.Deny}},
		"a date":                           {a: Asked{Session: "2026-02-21-review", Named: true}, want: SessionRules{AskMode: state.Deny}},
		"seconds":                          {a: Asked{Session: "1771669800", Named: true}, want: SessionRules{AskMode: state.Deny}},
		"a number":                         {a: Asked{Session: "20", Named: true}, want: SessionRules{AskMode: state.Native}},
		"s3":                               {a: Asked{Session: "s3-live", Named: true}, want: SessionRules{AskMode: state.Deny}},
		"cccb":                             {a: Asked{Session: "cccb-1", Named: true}, want: SessionRules{AskMode: state.Deny}},
		"a tmux session about buckets":     {a: Asked{Session: "s3-uploader"}, want: SessionRules{AskMode: state.Native}},
		"its style":                        {a: Asked{Session: "web", OutputStyle: "System3-meta-orchestrator"}, want: SessionRules{AskMode: state.Deny}},
		"supervised, whatever its style":   {a: Asked{Session: "orch-epic4", Named: true, OutputStyle: "system3"}, want: SessionRules{AskMode: state.Native}},
		"style of the supervised":          {a: Asked{Session: "s3-live", Named: true, OutputStyle: "orchestrator"}, want: SessionRules{AskMode: state.Native}},
		"the mode of this very session":    {env: map[string]string{"GCHAT_ASK_MODE": "native"}, a: Asked{Session: "s3-live", Named: true}, want: SessionRules{AskMode: state.Native}},
		"the others have the default mode": {file: `{"ask_mode":"hold"}`, a: Asked{Session: "web"}, want: SessionRules{AskMode: state.Hold}},
		"the preset beats the default":     {file: `{"ask_mode":"hold"}`, a: Asked{Session: "s3-live", Named: true}, want: SessionRules{AskMode: state.Deny}},
		"a rule beats the preset":          {file: `{"rules":[{"preset":"system3","ask_mode":"native"}]}`, a: Asked{Session: "s3-live", Named: true}, want: SessionRules{AskMode: state.Native}},
		"the preset for found names":       {file: `{"rules":[{"preset":"system3"}]}`, a: Asked{Session: "s3-live"}, want: SessionRules{AskMode: state.Deny}},
		"each setting's first rule": {file: `{"rules":[{"session":"a*","timeout_policy":"recommended"},{"project":"/srv/*","ask_mode":"deny","stop_gate":{"question_asked":"advice"}}],"stop_gate":"off"}`,
			a: Asked{Session: "abc", Project: "/srv/x"}, want: SessionRules{AskMode: state.Deny, TimeoutPolicy: state.Recommended, StopGate: StopGate{QuestionAsked: GateAdvice, PersistentAgents: GateOff}}},
		"a rule that leaves the gate open": {file: `{"rules":[{"session":"w*","ask_mode":"hold","stop_gate":null,"idle":null}],"stop_gate":null}`,
			a: Asked{Session: "web"}, want: SessionRules{AskMode: state.Hold}},
		"the gate for all": {env: map[string]string{"GCHAT_STOP_GATE": "on"}, a: Asked{Session: "web"}, want: SessionRules{AskMode: state.Native, StopGate: StopGate{QuestionAsked: GateOn, PersistentAgents: GateOn}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			for k, v := range c.env {
				p.env[k] = v
			}
			if c.file != "" {
				p.write(".claude/gchat-hooks.json", c.file)
			}
			cfg := Load(p.getenv, p.proj)
			if len(cfg.Problems) > 0 {
				t.Fatal(cfg.Problems)
			}
			if c.want.TimeoutPolicy == "" {
				c.want.TimeoutPolicy = state.LeaveOpen
			}
			got := cfg.For(c.a)
			for _, check := range []string{QuestionAsked, PersistentAgents} {
				want := c.want.StopGate[check]
				if want == "" && c.want.AskMode == state.Deny {
					want = GateOn
				} else if want == "" {
					want = GateOff
				}
				if got.StopGate[check] != want {
					t.Errorf("%s is %s, want %s", check, got.StopGate[check], want)
				}
			}
			if got.AskMode != c.want.AskMode || got.TimeoutPolicy != c.want.TimeoutPolicy {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestNonsenseInRulesIsReported(t *testing.T) {
	p := newPlace(t)
	p.write(".claude/gchat-hooks.json", `{"timeout_policy":"guess","stop_gate":{"question_asked":"maybe","nothing":"on"},"format":"opus",
		"rules":[{"session":"[","preset":"system4","ask_mode":"deny"},{"sesion":"x-*","ask_mode":"deny"}]}`)
	c := Load(p.getenv, p.proj)
	if len(c.Problems) != 5 {
		t.Errorf("%d problems: %v", len(c.Problems), c.Problems)
	}
	if got := c.For(Asked{Session: "web"}); got.AskMode != state.Native || got.TimeoutPolicy != state.LeaveOpen || got.StopGate.Guards() {
		t.Errorf("got %+v", got)
	}
}
