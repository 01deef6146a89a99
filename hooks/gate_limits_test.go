package hooks

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/state"
)

// The gate's own limits: whom it guards, how often it sends a session back, and what it passes over.

// The gate's own limits: whom it guards, how often it sends a session back, and what it passes over.
func TestGateLevels(t *testing.T) {
	for name, c := range map[string]struct {
		mode, config, env string
		block             bool
		told              string
	}{
		"deny mode":                 {"deny", `{}`, "", true, ""},
		"deny mode, off":            {"deny", `{"stop_gate":"off"}`, "", false, ""},
		"deny mode, that check off": {"deny", `{"stop_gate":{"question_asked":"off"}}`, "", false, ""},
		"deny mode, advice":         {"deny", `{"stop_gate":"advice"}`, "", false, "without having asked you"},
		"native mode":               {"native", `{}`, "", false, ""},
		"native mode, on":           {"native", `{}`, "on", true, ""},
		"native mode, on by a rule": {"native", `{"rules":[{"session":"orch-*","stop_gate":{"question_asked":"on"}}]}`, "",
			true, ""},
		"native mode, another's rule":   {"native", `{"rules":[{"session":"main-*","stop_gate":"on"}]}`, "", false, ""},
		"native mode, only other check": {"native", `{"stop_gate":{"persistent_agents":"on"}}`, "", false, ""},
		"off, and the gate is on":       {"off", `{}`, "on", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			m.env["GCHAT_ASK_MODE"], m.env["GCHAT_STOP_GATE"], m.env["CLAUDE_SESSION_ID"] = c.mode, c.env, "orch-epic4"
			m.config(c.config)
			v := m.stop()
			if (v.Decision == "block") != c.block || (v.SystemMessage == "") != (c.told == "") || !strings.Contains(v.SystemMessage,
				c.told) {
				t.Errorf("said %+v", v)
			}
			if c.block && strings.Contains(v.Reason, "Google Chat") != (c.mode != "off") {
				t.Errorf("reason %q", v.Reason)
			}
		})
	}
}

func TestGateKnowsOnlyTheSessionsOwnStop(t *testing.T) {
	m := newGate(t)
	for name, event := range map[string][]byte{
		"a subagent's":               m.event("single-07-Stop", "agent_id", "a1"),
		"SubagentStop":               m.event("plan-12-SubagentStop"),
		"SessionEnd":                 m.event("timing-10-SessionEnd"),
		"no session id":              m.event("single-07-Stop", "session_id", ""),
		"sent back":                  m.event("single-07-Stop", "stop_hook_active", true),
		"sent back, in another type": m.event("single-07-Stop", "stop_hook_active", "true"),
	} {
		if out := m.run(gateHook, event); out != "" {
			t.Errorf("%s: printed %q", name, out)
		}
	}
	for name, event := range map[string][]byte{
		"no flag":           setMembers(t, m.event("single-07-Stop"), "stop_hook_active", nil, "session_id", "sess-2"),
		"odd other members": m.event("single-07-Stop", "background_tasks", "many", "transcript_path", 7, "session_id", "sess-3"),
	} {
		if out := m.run(gateHook, event); !strings.Contains(out, `"decision":"block"`) {
			t.Errorf("%s: printed %q", name, out)
		}
	}
}

// Three times a minute, whatever Claude Code says of itself; and each session for itself.
func TestGateEndsALoop(t *testing.T) {
	m := newGate(t)
	for i := range 3 {
		if v := m.stop(); v.Decision != "block" {
			t.Fatalf("stop %d: said %+v", i+1, v)
		}
	}
	for range 2 {
		if v := m.stop(); v.Decision != "" || !strings.Contains(v.SystemMessage, "sent back 3 times") ||
			!strings.Contains(v.SystemMessage, "without having asked you") {
			t.Errorf("the fourth: said %+v", v)
		}
	}
	if n := strings.Count(m.log(), "lets a session stop"); n != 2 {
		t.Errorf("%d lines in the log: %s", n, m.log())
	}
	if v := m.stop("session_id", "sess-2"); v.Decision != "block" {
		t.Errorf("another session: said %+v", v)
	}
	m.change(func(s *state.Session) {
		for i := range s.GateBlocks {
			s.GateBlocks[i] = s.GateBlocks[i].Add(-time.Hour)
		}
	})
	if v := m.stop(); v.Decision != "block" {
		t.Errorf("an hour later: said %+v", v)
	}
}

// A block that cannot be counted could go round for ever.
func TestGateThatCannotCountLetsStop(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"a folder":  func(path string) error { return os.MkdirAll(path, 0o700) },
		"no folder": func(path string) error { return os.WriteFile(filepath.Dir(path), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			path := filepath.Join(state.UserState(m.getenv), "sessions", "sess-1.json")
			if err := os.MkdirAll(filepath.Dir(filepath.Dir(path)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			v := m.stop("stop_hook_active", nil)
			if v.Decision != "" || !strings.Contains(v.SystemMessage, "cannot be written down") {
				t.Errorf("said %+v", v)
			}
		})
	}
}

// None of these is evidence, keeps the gate from finding what is, holds it, or is touched. What names the session is logged.
func TestGatePassesOver(t *testing.T) {
	good := `{"question_id":"ask-sess-1-0a1b2c3d","session_id":"sess-1","status":"pending","asked_at":"2999-01-01T00:00:00Z"}`
	file := func(content string) func(path string) error {
		return func(path string) error { return os.WriteFile(path, []byte(content), 0o600) }
	}
	for name, c := range map[string]struct {
		put    func(path string) error
		logged int
	}{
		"from the future":     {file(good), 1},
		"half-written":        {file(good[:len(good)-5]), 1},
		"broken further on":   {file(good[:len(good)-1] + `,"questions":[{]]}`), 1},
		"no question":         {file(strings.Replace(good, `"question_id"`, `"question"`, 1)), 1},
		"another session's":   {file(`{"session_id":"sess-2"`), 0},
		"garbage":             {file("\x00\xff{{{"), 0},
		"a folder":            {func(path string) error { return os.Mkdir(path, 0o700) }, 0},
		"a pipe":              {func(path string) error { return syscall.Mkfifo(path, 0o600) }, 0},
		"a link into nothing": {func(path string) error { return os.Symlink(path+".gone", path) }, 0},
		"a link to a device":  {func(path string) error { return os.Symlink("/dev/zero", path) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			path := m.markerPath("ask-sess-1-0a1b2c3d")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := c.put(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(path)
			if v := m.stop(); v.Decision != "block" {
				t.Errorf("said %+v", v)
			}
			if n := strings.Count(m.log(), "marker passed over"); n != c.logged {
				t.Errorf("%d lines in the log: %s", n, m.log())
			}
			m.marker("ask-sess-1-0a1b2c3e", "sess-1", "pending", time.Now())
			if v := m.stop(); v != (verdict{}) {
				t.Errorf("with evidence beside it: said %+v", v)
			}
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) || after.Size() != before.Size() {
				t.Errorf("it was touched: %v", err)
			}
		})
	}
}

// What the folder is, and whether it can be written, is no matter.
func TestGateWithoutAFolder(t *testing.T) {
	m := newGate(t)
	dir := state.MarkersIn(filepath.Join(m.env["CLAUDE_PROJECT_DIR"], ".claude", "state")).Dir
	if v := m.stop(); v.Decision != "block" || strings.Contains(m.log(), "marker") {
		t.Errorf("no folder: said %+v, log %s", v, m.log())
	}
	m.put(dir, "a file where a folder should be")
	if v := m.stop(); v.Decision != "block" {
		t.Errorf("a file: said %+v", v)
	}
}
