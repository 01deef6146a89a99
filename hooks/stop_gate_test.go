package hooks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// newGate is a machine whose session is in deny mode, and so guarded.
func newGate(t testing.TB) *machine {
	t.Helper()
	m := newMachine(t)
	delete(m.env, "CLAUDE_SESSION_ID")
	m.env["GCHAT_ASK_MODE"] = "deny"
	return m
}

// verdict is what the gate printed.
type verdict struct {
	Decision      string `json:"decision"`
	Reason        string `json:"reason"`
	SystemMessage string `json:"systemMessage"`
}

// stop lets the session sess-1 stop, with some members of its event set.
func (m *machine) stop(kv ...any) (v verdict) {
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
	if v == (verdict{}) || (v.Decision != "" && v.Decision != "block") || (v.Decision == "") != (v.Reason == "") {
		m.Fatalf("printed %q", out)
	}
	return v
}

func (m *machine) markerPath(name string) string {
	return filepath.Join(m.env["CLAUDE_PROJECT_DIR"], ".claude", "state", "gchat-forwarded-ask", name+".json")
}

// marker writes one as a program of the first design does, with some members set; nil takes one away.
func (m *machine) marker(id, session, status string, asked time.Time, kv ...any) string {
	m.Helper()
	b, err := json.Marshal(map[string]any{
		"question_id": id, "session_id": session, "asked_at": asked.UTC().Format("2006-01-02T15:04:05Z"), "gchat_thread_key": id,
		"status":    status,
		"questions": []any{map[string]any{"question": "What is \"next\"?", "header": "Next", "options": []any{}, "multiSelect": false}},
	})
	if err != nil {
		m.Fatal(err)
	}
	m.put(m.markerPath(id), string(setMembers(m.TB, b, kv...)))
	return m.markerPath(id)
}

// age sets a file's time of writing.
func age(t testing.TB, path string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestGateMarkers(t *testing.T) {
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
			path := m.marker("ask-"+c.session+"-0a1b2c3d", c.session, c.status, now.Add(-c.asked), c.kv...)
			v := m.stop()
			if (v.Decision == "block") != c.block || v.SystemMessage != "" {
				t.Errorf("said %+v", v)
			}
			if c.block && (!strings.Contains(v.Reason, "AskUserQuestion") || !strings.Contains(v.Reason, "Google Chat")) {
				t.Errorf("the reason does not say what to do: %q", v.Reason)
			}
			if future := strings.Contains(name, "future"); future != (strings.Count(m.log(), "from the future") == 1) {
				t.Errorf("log: %s", m.log())
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("a marker of today is gone: %v", err)
			}
		})
	}
}

// What another program's marker does not say, or says in a word that we do not know, its file's time says.
func TestGateMarkersWithoutTimeOrKnownStatus(t *testing.T) {
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
				path := m.marker("system3-main-0a1b2c3d", "system3-main", "pending", time.Now().Add(-5*time.Hour), kv...)
				age(t, path, written)
				if v := m.stop(); (v.Decision == "block") != block {
					t.Errorf("written %s ago: said %+v", written, v)
				}
			}
		})
	}
}

// The finer word of a closed marker counts. Of two sessions that are called the same, each has its own markers.
func TestGateMarkersOfThisVersion(t *testing.T) {
	for name, c := range map[string]struct {
		claude string
		status state.Status
		block  bool
	}{
		"pending": {"sess-1", state.Pending, false}, "resolved": {"sess-1", state.Resolved, false}, "cancelled": {"sess-1",
			state.Cancelled, true}, "expired": {"sess-1", state.Expired, true},
		"of the other session": {"sess-2", state.Pending, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			m.env["CLAUDE_SESSION_ID"] = "system3-main"
			q := &state.Question{QuestionID: "ask-system3-old-0a1b2c3d", SessionID: "system3-main", ClaudeSessionID: c.claude,
				AskedAt: time.Now(), Status: c.status, Mode: state.Deny}
			b, err := json.Marshal(q)
			if err != nil {
				t.Fatal(err)
			}
			m.put(m.markerPath(q.QuestionID), string(b))
			if v := m.stop(); (v.Decision == "block") != c.block {
				t.Errorf("said %+v", v)
			}
		})
	}
}

// A marker may lie in the person's own state, and be called in another way.
func TestGateMarkersElsewhere(t *testing.T) {
	for name, path := range map[string]func(m *machine) string{
		"spare folder": func(m *machine) string {
			env := func(k string) string { return m.env[k] }
			return filepath.Join(state.MarkersIn(state.SpareState(env)).Dir, "ask-sess-1-0a1b2c3d.json")
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
			m.put(path(m), fmt.Sprintf(`{"question_id":"q","session_id":"sess-1","status":"pending","asked_at":%q}`,
				time.Now().UTC().Format(time.RFC3339)))
			if v := m.stop(); v != (verdict{}) {
				t.Errorf("said %+v", v)
			}
		})
	}
}

// A question in the terminal is proved by our hooks' record of it.
func TestGateQuestionsInTheTerminal(t *testing.T) {
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
			m.put(filepath.Join(m.env["CLAUDE_PROJECT_DIR"], ".claude", "state", "pending-questions", fmt.Sprintf("%s-%d.json",
				c.session, asked.Unix())),
				fmt.Sprintf(`{"question_id":"0a1b2c3d","session_id":%q,"status":%q,"asked_at":%q}`, c.session, c.status,
					asked.UTC().Format(time.RFC3339)))
			if v := m.stop(); (v.Decision == "block") != c.block {
				t.Errorf("said %+v", v)
			}
		})
	}
}

func TestGateReadsTheTranscript(t *testing.T) {
	m := newGate(t)
	for file, block := range map[string]bool{"single": false, "discussed": false, "denied": true} {
		path, err := filepath.Abs(filepath.Join("testdata", "2.1.329", "transcripts", file+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if v := m.stop("transcript_path", path); (v.Decision == "block") != block {
			t.Errorf("%s: said %+v", file, v)
		}
	}
}

// A session that may stop is told of once for each of its starts; its end is told of by the session's own hook.
func TestGateOwesTheSummaryOnce(t *testing.T) {
	m := newGate(t)
	m.marker("ask-sess-1-0a1b2c3d", "sess-1", "pending", time.Now())
	pass := func() *state.Session {
		t.Helper()
		if v := m.stop("last_assistant_message", "All done."); v != (verdict{}) {
			t.Errorf("said %+v", v)
		}
		return m.session()
	}
	s := pass()
	if s.OwesSummary.IsZero() || !s.Running() || s.Reason != "stopped; the session is still open" || s.LastWords != "All done." {
		t.Errorf("after the first: %+v", s)
	}
	owed := s.OwesSummary
	if s = pass(); !s.OwesSummary.Equal(owed) {
		t.Errorf("still owed, and owed anew: %+v", s)
	}
	m.change(func(s *state.Session) { s.OwesSummary, s.ToldSummary = time.Time{}, owed })
	m.run(sessionHook, m.event("single-01-SessionStart", "source", "compact"))
	if s = pass(); !s.OwesSummary.IsZero() {
		t.Errorf("told already: %+v", s)
	}
	m.run(sessionHook, m.event("single-01-SessionStart", "source", "resume"))
	if s = pass(); s.OwesSummary.IsZero() {
		t.Errorf("after a new start: %+v", s)
	}
}

// The transcript of a session that just stopped lags: its last answer may be missing.
func TestSummaryOfAStop(t *testing.T) {
	m := newGate(t)
	m.marker("ask-sess-1-0a1b2c3d", "sess-1", "pending", time.Now())
	m.put(filepath.Join(m.dir, "sess-1.jsonl"), entryLine(t, "user", time.Now(), "go"))
	m.stop("last_assistant_message", "All done.")
	m.change(func(s *state.Session) { s.Name = "orch-epic4" })
	want := "(session_end) orch-epic4\nTurns: 1\nReason: stopped; the session is still open\nLast words: All done."
	if text, turns := m.summary(); text != want || turns != 1 {
		t.Errorf("%d turns, got %q\nwant %q", turns, text, want)
	}
}

func TestGateOwesNoSummary(t *testing.T) {
	task := []any{map[string]any{"id": "1", "status": "running"}}
	for name, c := range map[string]struct {
		set  func(m *machine)
		stop []any
		owes bool
	}{
		"passed":            {func(*machine) {}, nil, true},
		"sent back once":    {func(m *machine) { m.dropMarker() }, []any{"stop_hook_active", true}, true},
		"advised":           {func(m *machine) { m.dropMarker(); m.env["GCHAT_STOP_GATE"] = "advice" }, nil, true},
		"sent back":         {func(m *machine) { m.dropMarker() }, nil, false},
		"no gate":           {func(m *machine) { m.env["GCHAT_STOP_GATE"] = "off" }, nil, false},
		"turned off":        {func(m *machine) { m.config(`{"reports":{"session_end":"off"}}`) }, nil, false},
		"no space":          {func(m *machine) { delete(m.env, "GOOGLE_CHAT_WEBHOOK_URL") }, nil, false},
		"a task still runs": {func(*machine) {}, []any{"background_tasks", task}, false},
		"a subagent's":      {func(*machine) {}, []any{"agent_id", "a1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newGate(t)
			m.marker("ask-sess-1-0a1b2c3d", "sess-1", "pending", time.Now())
			c.set(m)
			m.stop(c.stop...)
			if s := m.session(); (s != nil && !s.OwesSummary.IsZero()) != c.owes {
				t.Errorf("session %+v", s)
			}
			if log := m.log(); strings.Contains(log, `"level":"error"`) {
				t.Errorf("log: %s", log)
			}
		})
	}
}

func (m *machine) dropMarker() { _ = os.Remove(m.markerPath("ask-sess-1-0a1b2c3d")) }
