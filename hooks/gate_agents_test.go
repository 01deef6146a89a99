package hooks

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// newAgentGate is a machine whose gate looks at the team only.
func newAgentGate(t testing.TB) *machine {
	m := newGate(t)
	m.config(`{"stop_gate":{"question_asked":"off"},"reports":{"session_end":"off"}}`)
	return m
}

func (m *machine) team(name, config string) string {
	path := filepath.Join(m.env["HOME"], ".claude", "teams", name, "config.json")
	m.put(path, config)
	return path
}

func TestGatePersistentAgents(t *testing.T) {
	for name, c := range map[string]struct {
		members string // "" for no team
		block   bool
	}{
		"no team":                 {"", false},
		"heartbeat and validator": {`[{"name":"team-lead"},{"name":"s3-heartbeat"},{"name":"s3-validator"}]`, false},
		"communicator only":       {`[{"name":"s3-communicator","isActive":true}]`, false},
		"one of two is left":      {`[{"name":"s3-heartbeat","isActive":false},{"name":"s3-validator","status":"running"}]`, false},
		"a second one":            {`[{"name":"s3-heartbeat","isActive":false},{"name":"s3-heartbeat-2","isActive":true}]`, false},
		"case":                    {`[{"name":"S3-Heartbeat","status":"Idle"}]`, false},
		"all gone":                {`[{"name":"team-lead","isActive":true}]`, true},
		"nobody at all":           {`[]`, true},
		"all inactive":            {`[{"name":"s3-heartbeat","isActive":false},{"name":"s3-validator","isActive":false}]`, true},
		"all ended": {`[{"name":"s3-heartbeat","status":"stopped"},{"name":"s3-validator","status":"Shutdown"},` +
			`{"name":"s3-communicator","status":"dead","isActive":true}]`, true},
		"another name": {`[{"name":"my-s3-heartbeat"}]`, true},
		"members of odd types": {`[7,"s3-heartbeat",null,{"name":["s3-heartbeat"]},` +
			`{"name":"s3-validator","isActive":"false"}]`, true},
		"an odd status is no reason": {`[{"name":"s3-heartbeat","status":{"phase":"idle"},"isActive":null}]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newAgentGate(t)
			if c.members != "" {
				m.team("s3-live", `{"name":"s3-live","members":`+c.members+`}`)
			}
			v := m.stop()
			if (v.Decision == "block") != c.block || c.block && (!strings.Contains(v.Reason, "s3-heartbeat") ||
				!strings.Contains(v.Reason, "s3-live")) || strings.Contains(v.Reason, "AskUserQuestion") {
				t.Errorf("said %+v", v)
			}
			if log := m.log(); strings.Contains(log, "team") {
				t.Errorf("log: %s", log)
			}
		})
	}
}

// The session's own team goes before the one that all share.
func TestGateFindsTheTeam(t *testing.T) {
	const here, away = `{"members":[{"name":"s3-heartbeat"}]}`, `{"members":[]}`
	for name, c := range map[string]struct {
		set   func(m *machine)
		block bool
	}{
		"by the session's id":   {func(m *machine) { m.team("s3-live-ession-1", away); m.team("s3-live", here) }, true},
		"by the session's name": {func(m *machine) { m.team("s3-live-a7f3b9e1", away); m.team("s3-live", here) }, true},
		"the name goes first":   {func(m *machine) { m.team("s3-live-a7f3b9e1", here); m.team("s3-live-ession-1", away) }, false},
		"shared":                {func(m *machine) { m.team("s3-live-00000000", here); m.team("s3-live", away) }, true},
		"own, without a file": {func(m *machine) {
			_ = os.MkdirAll(filepath.Join(m.env["HOME"], ".claude", "teams", "s3-live-a7f3b9e1"), 0o700)
			m.team("s3-live", away)
		}, true},
		"in the configuration folder": {func(m *machine) {
			m.env["CLAUDE_CONFIG_DIR"] = filepath.Join(m.dir, "claude")
			m.put(filepath.Join(m.env["CLAUDE_CONFIG_DIR"], "teams", "s3-live", "config.json"), away)
			m.team("s3-live", here)
		}, true},
		"configured folder without teams": {func(m *machine) { m.env["CLAUDE_CONFIG_DIR"] = m.dir; m.team("s3-live", away) }, true},
		"configured agents": {func(m *machine) {
			m.env["GCHAT_PERSISTENT_AGENTS"] = "night-watch"
			m.team("s3-live",
				here)
		}, true},
		"a name that leads elsewhere": {func(m *machine) {
			m.env["CLAUDE_SESSION_ID"] = "x/../../s3"
			m.put(filepath.Join(m.env["HOME"], ".claude", "teams", "s3", "config.json"), away)
			m.team("s3-live-x", "{}")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newAgentGate(t)
			m.env["CLAUDE_SESSION_ID"] = "20260221T103000Z-a7f3b9e1"
			c.set(m)
			if v := m.stop("session_id", "my-session-1"); (v.Decision == "block") != c.block {
				t.Errorf("said %+v", v)
			}
		})
	}
}

func TestGateTeamThatCannotBeRead(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"garbage":    func(path string) error { return os.WriteFile(path, []byte(`{"members":[`), 0o600) },
		"no members": func(path string) error { return os.WriteFile(path, []byte(`{"name":"s3-live"}`), 0o600) },
		"huge":       func(path string) error { return os.WriteFile(path, make([]byte, 5<<20), 0o600) },
		"a pipe":     func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newAgentGate(t)
			path := filepath.Join(m.env["HOME"], ".claude", "teams", "s3-live", "config.json")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			if v := m.stop(); v != (verdict{}) {
				t.Errorf("said %+v", v)
			}
			if n := strings.Count(m.log(), "team not read"); n != 1 {
				t.Errorf("%d lines in the log: %s", n, m.log())
			}
		})
	}
}

// Both checks are made, each at its own level, and one decision comes of it.
func TestGateJoinsItsChecks(t *testing.T) {
	for name, c := range map[string]struct{ question, agents, reason, told string }{
		"both on":      {"on", "on", "AskUserQuestion s3-live", ""},
		"one advises":  {"on", "advice", "AskUserQuestion", "s3-live"},
		"the other":    {"advice", "on", "s3-live", "without having asked you"},
		"both advise":  {"advice", "advice", "", "without having asked you s3-live"},
		"one is off":   {"off", "advice", "", "s3-live"},
		"both are off": {"off", "off", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			m.config(`{"stop_gate":{"question_asked":"` + c.question + `","persistent_agents":"` + c.agents +
				`"},"reports":{"session_end":"off"}}`)
			m.team("s3-live", `{"members":[]}`)
			v := m.stop()
			said := func(what, text string) {
				if (what == "") != (text == "") {
					t.Errorf("said %+v", v)
				}
				for _, part := range []string{"AskUserQuestion", "s3-live", "without having asked you"} {
					if strings.Contains(what, part) != strings.Contains(text, part) {
						t.Errorf("%q: said %+v", part, v)
					}
				}
			}
			said(c.reason, v.Reason)
			said(c.told, v.SystemMessage)
		})
	}
}
