package hooks

import (
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// promptEvent is an attended session's prompt.
func (m *machine) promptEvent(kv ...any) []byte {
	return m.event("single-02-UserPromptSubmit", kv...)
}

// A session's thread starts with its first prompt. From then on the session gets what is
// written there.
func TestSession_ThreadBeginsWithFirstPrompt(t *testing.T) {
	m := newMachine(t)
	kit.Equalf(t, m.run(sessionHook, m.promptEvent()), "", "printed")
	began := "(session_start) orch-epic4\nProject: shop\nMachine: " + state.MachineName() + "\n\n" + state.OutsideTmuxWarning
	m.wantReports(began)
	if s := m.session(); !s.AcceptsCommands || !s.IsRunning() {
		t.Errorf("session %+v", s)
	}
	m.run(sessionHook, m.promptEvent())
	m.wantReports(began)
}

// If a session has a thread, the next prompt starts no other.
func TestSession_ThreadBeginsOnce(t *testing.T) {
	for name, has := range map[string]func(*machine){
		"a thread": func(m *machine) { m.changeSession(func(s *state.Session) { s.ThreadName = "spaces/x/threads/t" }) },
		"a report of its start": func(m *machine) {
			m.writeConfig(`{"reports":{"session_start":"on"}}`)
			m.run(sessionHook, m.event("single-01-SessionStart"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			has(m)
			before := len(m.reports())
			m.run(sessionHook, m.promptEvent())
			kit.Equalf(t, len(m.reports()), before, "reports")
		})
	}
}

// No thread starts for a program's own session, for a session that asks nothing in Chat,
// or where the person wants no report of a start.
func TestSession_WithoutAThread(t *testing.T) {
	for name, set := range map[string]func(*machine){
		"claude -p of 2.1.332": func(m *machine) { m.env["CLAUDE_CODE_SESSION_ATTENDED"] = "0" },
		"claude -p of 2.1.197": func(m *machine) { m.env["CLAUDE_CODE_ENTRYPOINT"] = "sdk-cli" },
		"ask_mode off":         func(m *machine) { m.env["GCHAT_ASK_MODE"] = "off" },
		"reports off":          func(m *machine) { m.writeConfig(`{"reports":{"session_start":"off"}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			set(m)
			m.run(sessionHook, m.promptEvent())
			m.wantReports()
		})
	}
}

// A turn that ends without a question leaves one line. If the person is asked for the
// next instruction, that question replaces the line.
func TestTurnEnd_LeavesALine(t *testing.T) {
	const done = "Done, all tests pass.\n\nThe *details* are in the log."
	long := strings.Repeat("word ", 100)
	for name, c := range map[string]struct {
		said   string
		config string
		want   string // "": none
	}{
		"words":            {done, "", "[Turn Done] orch-epic4\n`Done, all tests pass. The *details* are in the log.`"},
		"long words":       {long, "", "[Turn Done] orch-epic4\n" + strings.Repeat("word ", 39) + "word…"},
		"a question":       {"Shall I commit?", "", ""},
		"every end waits":  {done, `{"idle":"on"}`, ""},
		"no end waits":     {"Shall I commit?", `{"idle":"off"}`, "[Turn Done] orch-epic4\nShall I commit?"},
		"switched off":     {done, `{"reports":{"turn_done":"off"}}`, ""},
		"a key in it":      {"The key is sk-ant-api03-" + strings.Repeat("a", 93) + "AA.", "", "[Turn Done] orch-epic4\nThe key is sk-ant-api03-•••."},
		"without any word": {"", "", "[Turn Done] orch-epic4"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.writeConfig(c.config)
			m.run(sessionHook, m.promptEvent())
			began := len(m.reports())
			m.env["TMUX_PANE"] = "%1" // the poller would type the answer, so the hook does not wait
			m.run("gchat-ask-user-rewake", m.event("single-07-Stop", "last_assistant_message", c.said))
			var got []string
			for _, one := range m.reports()[began:] {
				got = append(got, reportText(one.Report))
			}
			kit.Equalf(t, strings.Join(got, "|"), c.want, "told %q", got)
		})
	}
}

// If a session gets nothing from a thread, its turns leave no lines.
func TestTurnEnd_QuietSessionLeavesNothing(t *testing.T) {
	m := newMachine(t)
	m.run("gchat-ask-user-rewake", m.event("single-07-Stop", "last_assistant_message", "Done."))
	m.wantReports()
}
