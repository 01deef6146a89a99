package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// newGate returns a machine whose session is in deny mode and therefore guarded.
func newGate(t testing.TB) *machine {
	t.Helper()
	m := newMachine(t)
	delete(m.env, "CLAUDE_SESSION_ID")
	m.env["GCHAT_ASK_MODE"] = "deny"
	return m
}

// gateVerdict is what the gate printed.
type gateVerdict struct {
	Decision      string `json:"decision"`
	Reason        string `json:"reason"`
	SystemMessage string `json:"systemMessage"`
}

// runGate has the session sess-1 stop, with some members of its event set, and returns
// the verdict.
func (m *machine) runGate(kv ...any) (v gateVerdict) {
	m.Helper()
	out := m.run(gateHook, setMembers(m.TB, m.event("single-07-Stop"), kv...))
	if out == "" {
		return v
	}
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil || d.More() {
		m.Fatalf("printed %q: %v", out, err)
	}
	if v == (gateVerdict{}) || (v.Decision != "" && v.Decision != "block") || (v.Decision == "") != (v.Reason == "") {
		m.Fatalf("printed %q", out)
	}
	return v
}

func (m *machine) markerPath(name string) string {
	return filepath.Join(m.env["CLAUDE_PROJECT_DIR"], ".claude", "state", "gchat-forwarded-ask", name+".json")
}

// writeMarker writes a marker as a program of the first design does, with some members
// set; nil removes one.
func (m *machine) writeMarker(id, session, status string, asked time.Time, kv ...any) string {
	m.Helper()
	b, err := json.Marshal(map[string]any{
		"question_id": id, "session_id": session, "asked_at": asked.UTC().Format("2006-01-02T15:04:05Z"), "gchat_thread_key": id,
		"status":    status,
		"questions": []any{map[string]any{"question": "What is \"next\"?", "header": "Next", "options": []any{}, "multiSelect": false}},
	})
	kit.NoError(m, err)
	m.writeFile(m.markerPath(id), string(setMembers(m.TB, b, kv...)))
	return m.markerPath(id)
}

// makeOlder changes when a file was written.
func makeOlder(t testing.TB, path string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	kit.NoError(t, os.Chtimes(path, at, at))
}

func TestStopGate_MarkersOfOthers(t *testing.T) {
	now := time.Now()
	const minute, hour = time.Minute, time.Hour
	at := func(ago time.Duration) string { return now.Add(-ago).UTC().Format(time.RFC3339Nano) }
	for name, c := range map[string]struct {
		session, status string
		asked           time.Duration // ago
		kv              []any
		block           bool
	}{
		"pending":                              {"sess-1", "pending", minute, nil, false},
		"pending, just asked":                  {"sess-1", "pending", 0, nil, false},
		"pending for 29 minutes":               {"sess-1", "pending", 29 * minute, nil, false},
		"pending for 31 minutes":               {"sess-1", "pending", 31 * minute, nil, true},
		"pending, the clock a minute off":      {"sess-1", "pending", -minute, nil, false},
		"pending, from the future":             {"sess-1", "pending", -hour, nil, true},
		"pending, of the session's name":       {"system3-main", "pending", minute, nil, false},
		"pending, of another session":          {"sess-2", "pending", minute, nil, true},
		"pending, of a session that begins so": {"sess-12", "pending", minute, nil, true},
		"pending, ours": {"sess-1", "pending", minute, []any{"mode", "deny", "gchat_thread_name",
			"spaces/S/threads/T", "resolved_at", nil, "denied", true}, false},
		"pending, no zone": {"sess-1", "pending", minute, []any{"asked_at",
			now.Add(-minute).UTC().Format("2006-01-02T15:04:05.000000")}, false},
		"pending, another zone": {"sess-1", "pending", minute, []any{"asked_at",
			now.Add(-minute).In(time.FixedZone("", 5*3600)).Format(time.RFC3339)}, false},
		"timeout":                              {"sess-1", "timeout", 31 * minute, nil, false},
		"timeout 23 hours ago":                 {"sess-1", "timeout", 23 * hour, nil, false},
		"timeout 25 hours ago":                 {"sess-1", "timeout", 25 * hour, nil, true},
		"timeout, of another session":          {"sess-2", "timeout", hour, nil, true},
		"timeout, from the future":             {"sess-1", "timeout", -hour, nil, true},
		"resolved now, asked long ago":         {"sess-1", "resolved", 5 * hour, []any{"resolved_at", at(minute)}, false},
		"resolved long ago":                    {"sess-1", "resolved", 5 * hour, []any{"resolved_at", at(hour)}, true},
		"resolved, when is in the file's time": {"sess-1", "resolved", 5 * hour, nil, false},
		"answered":                             {"sess-1", "answered", 5 * hour, []any{"answer", "2"}, false},
		"asked and resolved lately":            {"sess-1", "resolved", 29 * minute, nil, false},
		"cancelled":                            {"sess-1", "cancelled", minute, nil, true},
		"abandoned":                            {"sess-1", "abandoned", minute, nil, true},
		"expired":                              {"sess-1", "expired", minute, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			m.env["CLAUDE_SESSION_ID"] = "system3-main"
			path := m.writeMarker("ask-"+c.session+"-0a1b2c3d", c.session, c.status, now.Add(-c.asked), c.kv...)
			v := m.runGate()
			if (v.Decision == "block") != c.block || v.SystemMessage != "" {
				t.Errorf("said %+v", v)
			}
			if c.block && (!strings.Contains(v.Reason, "AskUserQuestion") || !strings.Contains(v.Reason, "Google Chat")) {
				t.Errorf("the reason does not say what to do: %q", v.Reason)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("a marker of today is gone: %v", err)
			}
		})
	}
}

// If another program's marker lacks something, or has an unknown word for it, the file's
// time counts.
func TestStopGate_MarkersWithoutTimeOrStatus(t *testing.T) {
	for name, kv := range map[string][]any{
		"no asked_at":                  {"asked_at", nil},
		"no asked_at, answered":        {"asked_at", nil, "status", "answered", "answer", "2"},
		"a status of its own":          {"status", "auth_failed"},
		"a status of its own, no time": {"status", "forwarded", "asked_at", nil},
		"closed in a word of its own":  {"status", "resolved", "closed_as", "pondered"},
	} {
		t.Run(name, func(t *testing.T) {
			for block, written := range map[bool]time.Duration{false: 29 * time.Minute, true: 31 * time.Minute} {
				m := newGate(t)
				m.env["CLAUDE_SESSION_ID"] = "system3-main"
				path := m.writeMarker("system3-main-0a1b2c3d", "system3-main", "pending", time.Now().Add(-5*time.Hour), kv...)
				makeOlder(t, path, written)
				if v := m.runGate(); (v.Decision == "block") != block {
					t.Errorf("written %s ago: said %+v", written, v)
				}
			}
		})
	}
}

// The more exact status of a closed marker counts. A marker belongs to the session by its
// name or by Claude Code's id, which /clear and a resume change.
func TestStopGate_MarkersOfThisVersion(t *testing.T) {
	for name, c := range map[string]struct {
		name, claude string
		status       state.Status
		block        bool
	}{
		"pending":                     {"system3-main", "sess-1", state.Pending, false},
		"resolved":                    {"system3-main", "sess-1", state.Resolved, false},
		"cancelled":                   {"system3-main", "sess-1", state.Cancelled, true},
		"expired":                     {"system3-main", "sess-1", state.Expired, true},
		"before /clear":               {"system3-main", "sess-0", state.Pending, false},
		"under another name":          {"system3-old", "sess-1", state.Pending, false},
		"cancelled before /clear":     {"system3-main", "sess-0", state.Cancelled, true},
		"of another name and session": {"system3-old", "sess-0", state.Pending, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			m.env["CLAUDE_SESSION_ID"] = "system3-main"
			q := &state.Question{QuestionID: "ask-system3-old-0a1b2c3d", SessionID: c.name, ClaudeSessionID: c.claude,
				AskedAt: time.Now(), Status: c.status, Mode: state.ModeDeny}
			kit.NoError(t, state.MarkersIn(filepath.Dir(filepath.Dir(m.markerPath(q.QuestionID)))).Create(q.QuestionID, q))
			if v := m.runGate(); (v.Decision == "block") != c.block {
				t.Errorf("said %+v", v)
			}
		})
	}
}

// A marker may be in the person's own state and have another kind of name.
func TestStopGate_MarkersElsewhere(t *testing.T) {
	for name, path := range map[string]func(m *machine) string{
		"spare folder": func(m *machine) string {
			env := func(k string) string { return m.env[k] }
			return filepath.Join(state.MarkersIn(state.SpareStateDir(env)).Dir, "ask-sess-1-0a1b2c3d.json")
		},
		"other digits": func(m *machine) string { return m.markerPath("ask-sess-1-x4k2m8") },
		"another name": func(m *machine) string { return m.markerPath("question") },
		"state folder set": func(m *machine) string {
			m.env["GCHAT_STATE_DIR"] = filepath.Join(m.dir, "elsewhere")
			return filepath.Join(m.env["GCHAT_STATE_DIR"], "gchat-forwarded-ask", "ask-sess-1-0a1b2c3d.json")
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			m.writeFile(path(m), fmt.Sprintf(`{"question_id":"q","session_id":"sess-1","status":"pending","asked_at":%q}`,
				time.Now().UTC().Format(time.RFC3339)))
			kit.Equal(t, m.runGate(), (gateVerdict{}))
		})
	}
}

// A question in the terminal is proved by our hooks' record of it.
func TestStopGate_QuestionsInTheTerminal(t *testing.T) {
	for name, c := range map[string]struct {
		status, session string
		asked           time.Duration
		block           bool
	}{
		"pending": {"pending", "sess-1", time.Minute, false}, "resolved": {"resolved", "sess-1", 29 * time.Minute, false},
		"cancelled": {"cancelled", "sess-1", time.Minute, false},
		"expired":   {"expired", "sess-1", time.Minute, true}, "long ago": {"resolved", "sess-1", 31 * time.Minute, true},
		"another session's": {"resolved", "sess-2", time.Minute, true},
		"from the future":   {"pending", "sess-1", -time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			asked := time.Now().Add(-c.asked)
			m.writeFile(filepath.Join(m.env["CLAUDE_PROJECT_DIR"], ".claude", "state", "pending-questions", fmt.Sprintf("%s-%d.json",
				c.session, asked.Unix())),
				fmt.Sprintf(`{"question_id":"0a1b2c3d","session_id":%q,"status":%q,"asked_at":%q}`, c.session, c.status,
					asked.UTC().Format(time.RFC3339)))
			if v := m.runGate(); (v.Decision == "block") != c.block {
				t.Errorf("said %+v", v)
			}
		})
	}
}

// A permission, a plan and a next instruction do not ask what comes next.
func TestStopGate_CountsOnlyQuestions(t *testing.T) {
	for kind, block := range map[state.Kind]bool{
		state.KindQuestion: false, state.KindPermission: true, state.KindPlan: true, state.KindNext: true,
		state.KindPrompt: true,
	} {
		t.Run(string(kind), func(t *testing.T) {
			m := newGate(t)
			env := func(name string) string { return m.env[name] }
			q := &state.Question{
				QuestionID: "0a1b2c3d", Kind: kind, SessionID: "sess-1", ClaudeSessionID: "sess-1",
				AskedAt: time.Now().Add(-time.Minute), Status: state.Resolved, Mode: state.ModeNative,
			}
			kit.NoError(t, state.QuestionsIn(state.SpareStateDir(env)).Create("sess-1-1", q))
			if v := m.runGate(); (v.Decision == "block") != block {
				t.Errorf("said %+v", v)
			}
		})
	}
}

// A session that may stop has reported what it had to: its question is in the space. Only
// its end brings a summary.
func TestStopGate_AllowedStopIsSilent(t *testing.T) {
	m := newGate(t)
	m.writeMarker("ask-sess-1-0a1b2c3d", "sess-1", "pending", time.Now())
	kit.Equal(t, m.runGate("last_assistant_message", "All done."), (gateVerdict{}))
	if s := m.session(); s != nil && !s.SummaryOwedFor.IsZero() || len(m.reports()) != 0 {
		t.Errorf("session %+v", s)
	}
}

// These are the gate's own limits: whom it guards, how often it sends a session back, and
// what it ignores.
func TestStopGate_LevelOfEachSession(t *testing.T) {
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
		"off, and the gate is on":       {"off", `{}`, "on", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			m.env["GCHAT_ASK_MODE"], m.env["GCHAT_STOP_GATE"], m.env["CLAUDE_SESSION_ID"] = c.mode, c.env, "orch-epic4"
			m.writeConfig(c.config)
			v := m.runGate()
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

func TestStopGate_OnlyTheSessionsOwnStop(t *testing.T) {
	m := newGate(t)
	for name, event := range map[string][]byte{
		"a subagent's":               m.event("single-07-Stop", "agent_id", "a1"),
		"SubagentStop":               m.event("plan-12-SubagentStop"),
		"SessionEnd":                 m.event("timing-10-SessionEnd"),
		"no session id":              m.event("single-07-Stop", "session_id", ""),
		"sent back":                  m.event("single-07-Stop", "stop_hook_active", true),
		"sent back, in another type": m.event("single-07-Stop", "stop_hook_active", "true"),
	} {
		kit.Equalf(t, m.run(gateHook, event), "", "%s: printed", name)
	}
	for name, event := range map[string][]byte{
		"no flag":           setMembers(t, m.event("single-07-Stop"), "stop_hook_active", nil, "session_id", "sess-2"),
		"odd other members": m.event("single-07-Stop", "background_tasks", "many", "transcript_path", 7, "session_id", "sess-3"),
	} {
		kit.Containsf(t, m.run(gateHook, event), `"decision":"block"`, "%s: printed", name)
	}
}

// The gate blocks three times a minute, whatever Claude Code says about earlier blocks.
// It counts for each session separately.
func TestStopGate_EndsALoop(t *testing.T) {
	m := newGate(t)
	for i := range 3 {
		if v := m.runGate(); v.Decision != "block" {
			t.Fatalf("stop %d: said %+v", i+1, v)
		}
	}
	for range 2 {
		if v := m.runGate(); v.Decision != "" || !strings.Contains(v.SystemMessage, "sent back 3 times") ||
			!strings.Contains(v.SystemMessage, "without having asked you") {
			t.Errorf("the fourth: said %+v", v)
		}
	}
	if n := strings.Count(m.log(), "lets a session stop"); n != 2 {
		t.Errorf("%d lines in the log: %s", n, m.log())
	}
	if v := m.runGate("session_id", "sess-2"); v.Decision != "block" {
		t.Errorf("another session: said %+v", v)
	}
	m.changeSession(func(s *state.Session) {
		for i := range s.GateBlocks {
			s.GateBlocks[i] = s.GateBlocks[i].Add(-time.Hour)
		}
	})
	if v := m.runGate(); v.Decision != "block" {
		t.Errorf("an hour later: said %+v", v)
	}
}

// A block that cannot be counted could repeat forever.
func TestStopGate_UncountableBlockLetsStop(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"a folder":  func(path string) error { return os.MkdirAll(path, 0o700) },
		"no folder": func(path string) error { return os.WriteFile(filepath.Dir(path), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			path := filepath.Join(state.UserStateDir(m.getenv), "sessions", "sess-1.json")
			kit.NoError(t, os.MkdirAll(filepath.Dir(filepath.Dir(path)), 0o700))
			kit.NoError(t, spoil(path))
			v := m.runGate("stop_hook_active", nil)
			if v.Decision != "" || !strings.Contains(v.SystemMessage, "cannot be written down") {
				t.Errorf("said %+v", v)
			}
		})
	}
}

// None of these files counts as a question, hides one that does, delays the gate, or is
// changed. A file that names the session is logged.
func TestStopGate_SkipsOddFiles(t *testing.T) {
	good := `{"question_id":"ask-sess-1-0a1b2c3d","session_id":"sess-1","status":"pending","asked_at":"2999-01-01T00:00:00Z"}`
	file := func(content string) func(path string) error {
		return func(path string) error { return os.WriteFile(path, []byte(content), 0o600) }
	}
	old := func(content string) func(path string) error {
		at := time.Now().Add(-time.Minute)
		return func(path string) error { return errors.Join(file(content)(path), os.Chtimes(path, at, at)) }
	}
	for name, c := range map[string]struct {
		put    func(path string) error
		logged int
	}{
		"from the future":     {file(good), 0},
		"half-written":        {file(good[:len(good)-5]), 0}, // it may still be written
		"broken off":          {old(good[:len(good)-5]), 1},
		"broken further on":   {file(good[:len(good)-1] + `,"questions":[{]]}`), 1},
		"no question":         {file(strings.Replace(good, `"question_id"`, `"question"`, 1)), 1},
		"another session's":   {file(`{"session_id":"sess-2"`), 0},
		"garbage":             {file("\x00\xff{{{"), 1},
		"a folder":            {func(path string) error { return os.Mkdir(path, 0o700) }, 1},
		"a pipe":              {func(path string) error { return syscall.Mkfifo(path, 0o600) }, 1},
		"a link into nothing": {func(path string) error { return os.Symlink(path+".gone", path) }, 1},
		"a link to a device":  {func(path string) error { return os.Symlink("/dev/zero", path) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			path := m.markerPath("ask-sess-1-0a1b2c3d")
			kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			kit.NoError(t, c.put(path))
			before, _ := os.Lstat(path)
			if v := m.runGate(); v.Decision != "block" {
				t.Errorf("said %+v", v)
			}
			if n := strings.Count(m.log(), "record passed over"); n != c.logged {
				t.Errorf("%d lines in the log: %s", n, m.log())
			}
			m.writeMarker("ask-sess-1-0a1b2c3e", "sess-1", "pending", time.Now())
			kit.Equalf(t, m.runGate(), (gateVerdict{}), "with evidence beside it")
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) || after.Size() != before.Size() {
				t.Errorf("it was touched: %v", err)
			}
		})
	}
}

// It does not matter what the folder is, or whether it can be written.
func TestStopGate_WithoutAFolder(t *testing.T) {
	m := newGate(t)
	dir := state.MarkersIn(filepath.Join(m.env["CLAUDE_PROJECT_DIR"], ".claude", "state")).Dir
	if v := m.runGate(); v.Decision != "block" || strings.Contains(m.log(), "marker") {
		t.Errorf("no folder: said %+v, log %s", v, m.log())
	}
	m.writeFile(dir, "a file where a folder should be")
	if v := m.runGate(); v.Decision != "block" {
		t.Errorf("a file: said %+v", v)
	}
}

// newAgentGate returns a machine whose gate checks only the team.
func newAgentGate(t testing.TB) *machine {
	m := newGate(t)
	m.writeConfig(`{"stop_gate":{"question_asked":"off"},"reports":{"session_end":"off"}}`)
	return m
}

func (m *machine) writeTeam(name, config string) string {
	path := filepath.Join(m.env["HOME"], ".claude", "teams", name, "config.json")
	m.writeFile(path, config)
	return path
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
			m := newAgentGate(t)
			if c.members != "" {
				m.writeTeam("s3-live", `{"name":"s3-live","members":`+c.members+`}`)
			}
			v := m.runGate()
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

// The session's own team is preferred to the one that all share.
func TestStopGate_FindsTheTeam(t *testing.T) {
	const here, away = `{"members":[{"name":"s3-heartbeat"}]}`, `{"members":[]}`
	for name, c := range map[string]struct {
		set   func(m *machine)
		block bool
	}{
		"by the session's id":   {func(m *machine) { m.writeTeam("s3-live-ession-1", away); m.writeTeam("s3-live", here) }, true},
		"by the session's name": {func(m *machine) { m.writeTeam("s3-live-a7f3b9e1", away); m.writeTeam("s3-live", here) }, true},
		"the name goes first":   {func(m *machine) { m.writeTeam("s3-live-a7f3b9e1", here); m.writeTeam("s3-live-ession-1", away) }, false},
		"shared":                {func(m *machine) { m.writeTeam("s3-live-00000000", here); m.writeTeam("s3-live", away) }, true},
		"own, without a file": {func(m *machine) {
			_ = os.MkdirAll(filepath.Join(m.env["HOME"], ".claude", "teams", "s3-live-a7f3b9e1"), 0o700)
			m.writeTeam("s3-live", away)
		}, true},
		"in the configuration folder": {func(m *machine) {
			m.env["CLAUDE_CONFIG_DIR"] = filepath.Join(m.dir, "claude")
			m.writeFile(filepath.Join(m.env["CLAUDE_CONFIG_DIR"], "teams", "s3-live", "config.json"), away)
			m.writeTeam("s3-live", here)
		}, true},
		"configured agents": {func(m *machine) {
			m.env["GCHAT_PERSISTENT_AGENTS"] = "night-watch"
			m.writeTeam("s3-live",
				here)
		}, true},
		"a name that leads elsewhere": {func(m *machine) {
			m.env["CLAUDE_SESSION_ID"] = "x/../../s3"
			m.writeFile(filepath.Join(m.env["HOME"], ".claude", "teams", "s3", "config.json"), away)
			m.writeTeam("s3-live-x", "{}")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newAgentGate(t)
			m.env["CLAUDE_SESSION_ID"] = "20260221T103000Z-a7f3b9e1"
			c.set(m)
			if v := m.runGate("session_id", "my-session-1"); (v.Decision == "block") != c.block {
				t.Errorf("said %+v", v)
			}
		})
	}
}

func TestStopGate_UnreadableTeam(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"garbage":    func(path string) error { return os.WriteFile(path, []byte(`{"members":[`), 0o600) },
		"no members": func(path string) error { return os.WriteFile(path, []byte(`{"name":"s3-live"}`), 0o600) },
		"huge":       func(path string) error { return os.WriteFile(path, make([]byte, 5<<20), 0o600) },
		"a pipe":     func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newAgentGate(t)
			path := filepath.Join(m.env["HOME"], ".claude", "teams", "s3-live", "config.json")
			kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			kit.NoError(t, put(path))
			kit.Equal(t, m.runGate(), (gateVerdict{}))
			if n := strings.Count(m.log(), "team not read"); n != 1 {
				t.Errorf("%d lines in the log: %s", n, m.log())
			}
		})
	}
}

// Both checks are made, each at its own level, and lead to one decision.
func TestStopGate_JoinsItsChecks(t *testing.T) {
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
			m.writeConfig(`{"stop_gate":{"question_asked":"` + c.question + `","persistent_agents":"` + c.agents +
				`"},"reports":{"session_end":"off"}}`)
			m.writeTeam("s3-live", `{"members":[]}`)
			v := m.runGate()
			said := func(what, text string) {
				kit.Equalf(t, (what == ""), (text == ""), "said %+v", v)
				for _, part := range []string{"AskUserQuestion", "s3-live", "without having asked you"} {
					kit.Equalf(t, strings.Contains(what, part), strings.Contains(text, part), "%q: said %+v", part, v)
				}
			}
			said(c.reason, v.Reason)
			said(c.told, v.SystemMessage)
		})
	}
}
