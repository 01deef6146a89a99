package hooks

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/kit"
)

// newAgentGate returns a world whose gate checks only the team.
func newAgentGate(t testing.TB) *world {
	w := newGate(t)
	w.writeConfig(`{"stop_gate":{"question_asked":"off"},"reports":{"session_end":"off"}}`)
	return w
}

func (w *world) writeTeam(name, config string) string {
	return writeFile(w, filepath.Join(w.env["HOME"], ".claude", "teams", name,
		"config.json"), config)
}

func TestStopGate_PersistentAgents(t *testing.T) {
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
			w := newAgentGate(t)
			if c.members != "" {
				w.writeTeam("s3-live", `{"name":"s3-live","members":`+c.members+`}`)
			}
			v := w.runGate()
			kit.Equalf(t, v.Decision == "block", c.block, "blocks: %+v", v)
			for text, want := range map[string]bool{
				"s3-heartbeat": c.block, "s3-live": c.block, "AskUserQuestion": false,
			} {
				kit.Equalf(t, strings.Contains(v.Reason, text), want, "%s in %q", text, v.Reason)
			}
			w.wantLogged("team", 0)
		})
	}
}

// The session's own team is preferred to the one that all share.
func TestStopGate_FindsTheTeam(t *testing.T) {
	const here, away = `{"members":[{"name":"s3-heartbeat"}]}`, `{"members":[]}`
	for name, c := range map[string]struct {
		set   func(w *world)
		block bool
	}{
		"by the session's id": {func(w *world) {
			w.writeTeam("s3-live-ession-1", away)
			w.writeTeam("s3-live", here)
		}, true},
		"by the session's name": {func(w *world) {
			w.writeTeam("s3-live-a7f3b9e1", away)
			w.writeTeam("s3-live", here)
		}, true},
		"the name goes first": {func(w *world) {
			w.writeTeam("s3-live-a7f3b9e1", here)
			w.writeTeam("s3-live-ession-1", away)
		}, false},
		"shared": {func(w *world) {
			w.writeTeam("s3-live-00000000", here)
			w.writeTeam("s3-live", away)
		}, true},
		"own, without a file": {func(w *world) {
			_ = os.MkdirAll(filepath.Join(w.env["HOME"], ".claude", "teams",
				"s3-live-a7f3b9e1"), 0o700)
			w.writeTeam("s3-live", away)
		}, true},
		"in the configuration folder": {func(w *world) {
			w.env["CLAUDE_CONFIG_DIR"] = filepath.Join(w.dir, "claude")
			writeFile(w, filepath.Join(w.env["CLAUDE_CONFIG_DIR"], "teams", "s3-live",
				"config.json"), away)
			w.writeTeam("s3-live", here)
		}, true},
		"configured agents": {func(w *world) {
			w.env["GCHAT_PERSISTENT_AGENTS"] = "night-watch"
			w.writeTeam("s3-live", here)
		}, true},
		"a name that leads elsewhere": {func(w *world) {
			w.env["CLAUDE_SESSION_ID"] = "x/../../s3"
			writeFile(w, filepath.Join(w.env["HOME"], ".claude", "teams", "s3",
				"config.json"), away)
			w.writeTeam("s3-live-x", "{}")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAgentGate(t)
			w.env["CLAUDE_SESSION_ID"] = "20260221T103000Z-a7f3b9e1"
			c.set(w)
			w.wantBlock(c.block, "session_id", "my-session-1")
		})
	}
}

func TestStopGate_UnreadableTeam(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"garbage": func(path string) error {
			return os.WriteFile(path, []byte(`{"members":[`), 0o600)
		},
		"no members": func(path string) error {
			return os.WriteFile(path, []byte(`{"name":"s3-live"}`), 0o600)
		},
		"huge": func(path string) error {
			return os.WriteFile(path, make([]byte, 5<<20), 0o600)
		},
		"a pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newAgentGate(t)
			path := w.writeTeam("s3-live", "")
			kit.NoError(t, os.Remove(path))
			kit.NoError(t, put(path))
			kit.Equal(t, w.runGate(), (gateVerdict{}))
			w.wantLogged("team not read", 1)
		})
	}
}

// Both checks are made, each at its own level, and lead to one decision.
func TestStopGate_JoinsItsChecks(t *testing.T) {
	for name, c := range map[string]struct{ question, agents, reason, advice string }{
		"both on":      {"on", "on", "AskUserQuestion s3-live", ""},
		"one advises":  {"on", "advice", "AskUserQuestion", "s3-live"},
		"the other":    {"advice", "on", "s3-live", "without having asked you"},
		"both advise":  {"advice", "advice", "", "without having asked you s3-live"},
		"one is off":   {"off", "advice", "", "s3-live"},
		"both are off": {"off", "off", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGate(t)
			w.writeConfig(`{"stop_gate":{"question_asked":"` + c.question +
				`","persistent_agents":"` + c.agents +
				`"},"reports":{"session_end":"off"}}`)
			w.writeTeam("s3-live", `{"members":[]}`)
			v := w.runGate()
			wantParts := func(what, text string) {
				kit.Equalf(t, what == "", text == "", "printed %+v", v)
				for _, part := range []string{"AskUserQuestion", "s3-live",
					"without having asked you"} {
					kit.Equalf(t, strings.Contains(what, part), strings.Contains(text, part),
						"%q: printed %+v", part, v)
				}
			}
			wantParts(c.reason, v.Reason)
			wantParts(c.advice, v.SystemMessage)
		})
	}
}
