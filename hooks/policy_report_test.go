package hooks

import (
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// writePolicy puts a policy into force on this machine; "" names a file that does not
// exist.
func (m *machine) writePolicy(text string) {
	m.env["GCHAT_POLICY_FILE"] = filepath.Join(m.dir, "policy.json")
	if text != "" {
		m.writeFile(m.env["GCHAT_POLICY_FILE"], text)
	}
}

// A hook that neither asks nor reports reads no policy. It does not even log that a
// policy cannot be read.
func TestPolicy_IdleHooksReadNone(t *testing.T) {
	for name, run := range map[string]func(*machine) (hook string, event []byte){
		"off": func(m *machine) (string, []byte) {
			m.env["GCHAT_ASK_MODE"] = "off"
			return "gchat-ask-user-forward", m.event("single-03-PreToolUse")
		},
		"another tool": func(m *machine) (string, []byte) {
			return "gchat-ask-user-forward", m.event("timing-03-PreToolUse", "tool_name", "Bash")
		},
		"answered":      func(m *machine) (string, []byte) { return "gchat-ask-user-answered", m.event("single-05-PostToolUse") },
		"a turn's end":  func(m *machine) (string, []byte) { return "gchat-ask-user-rewake", m.event("single-07-Stop") },
		"a start":       func(m *machine) (string, []byte) { return sessionHook, m.event("single-01-SessionStart") },
		"an end":        func(m *machine) (string, []byte) { return sessionHook, m.event("timing-10-SessionEnd") },
		"a stop":        func(m *machine) (string, []byte) { return gateHook, m.event("single-07-Stop") },
		"what is quiet": func(m *machine) (string, []byte) { return notifyHook, m.event("timing-09-Notification") },
		"no webhook": func(m *machine) (string, []byte) {
			delete(m.env, "GOOGLE_CHAT_WEBHOOK_URL")
			return "gchat-ask-user-forward", m.event("single-04-PermissionRequest", "tool_name", "Bash")
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.writePolicy("")
			hook, event := run(m)
			m.run(hook, event)
			if strings.Contains(m.log(), "policy") {
				t.Error(m.log())
			}
		})
	}
}

// What a policy keeps in the terminal is not reported either. If a policy shows titles
// only, a permission's report does not say what it is about.
func TestPolicy_ReportsUnderOne(t *testing.T) {
	const head = "[Permission] orch-epic4\nClaude waits for a permission in the terminal"
	for name, test := range map[string]struct{ policy, want string }{
		"none":                {`{}`, head + "\nBash: `touch a.txt`"},
		"titles only":         {`{"titles_only": true}`, head},
		"no reports":          {`{"terminal_only": ["report"]}`, ""},
		"no permissions":      {`{"terminal_only": ["permission"]}`, ""},
		"no questions":        {`{"terminal_only": ["question", "plan", "next", "said"]}`, head + "\nBash: `touch a.txt`"},
		"that cannot be read": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.writePolicy(test.policy)
			path := filepath.Join(m.dir, "session.jsonl")
			mustWrite(t, path, `{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"Bash",`+
				`"input":{"command":"touch a.txt"}}]}}`+"\n")
			m.run(notifyHook, payload(t, "timing-05-Notification", "transcript_path", path))
			if test.want == "" {
				m.wantReports()
			} else {
				m.wantReports(test.want)
			}
			if strings.Contains(m.log(), "read policy") != (test.policy == "") {
				t.Error(m.log())
			}
		})
	}
}

// If a policy keeps questions in the terminal, the session may stop, since no record
// shows them. If it keeps next instructions there, too, the session is not asked for one.
func TestPolicy_StopUnderOne(t *testing.T) {
	for policy, blocked := range map[string]bool{`{}`: true, `{"terminal_only": ["question"]}`: false, `{"terminal_only": ["plan"]}`: true} {
		m := newGate(t)
		m.writePolicy(policy)
		if v := m.runGate(); (v.Decision == "block") != blocked {
			t.Errorf("%s: %+v", policy, v)
		}
	}
	for policy, asks := range map[string]bool{`{}`: true, `{"terminal_only": ["next"]}`: false, ``: false} {
		m := newMachine(t)
		m.env["GCHAT_IDLE"] = "on"
		m.writePolicy(policy)
		h := &Hook{Env: m.getenv}
		e, err := decode(m.event("single-07-Stop", "last_assistant_message", "Done. What next?"))
		kit.NoError(t, err)
		h.log = state.NewLog(m.getenv, "test")
		q, err := h.askNextInstruction(t.Context(), e)
		if err != nil || (q != nil) != asks {
			t.Errorf("%s: %+v, %v", policy, q, err)
		}
	}
}
