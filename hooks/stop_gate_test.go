package hooks_test

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

const stopGate = "gchat-stop-gate"

// gateWorld is a machine whose sessions are in deny mode, and so guarded; they tell nobody of their end.
func gateWorld(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.env["GCHAT_ASK_MODE"] = "deny"
	w.config(`{"reports":{"session_end":"off"}}`)
	return w
}

// verdict is what the gate printed.
type verdict struct {
	Decision      string `json:"decision"`
	Reason        string `json:"reason"`
	SystemMessage string `json:"systemMessage"`
}

// stop lets the session sess-1 stop, with some members of its event set.
func (w *world) stop(kv ...any) (v verdict) {
	w.Helper()
	out := w.run(stopGate, with(w.TB, w.event("single-07-Stop"), kv...))
	if out == "" {
		return v
	}
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil || d.More() {
		w.Fatalf("printed %q: %v", out, err)
	}
	if v == (verdict{}) || (v.Decision != "" && v.Decision != "block") || (v.Decision == "") != (v.Reason == "") {
		w.Fatalf("printed %q", out)
	}
	return v
}

func (w *world) markerPath(name string) string {
	return filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state", "gchat-forwarded-ask", name+".json")
}

// marker writes one as a program of the first design does, with some members set; nil takes one away.
func (w *world) marker(id, session, status string, asked time.Time, kv ...any) string {
	w.Helper()
	b, err := json.Marshal(map[string]any{
		"question_id": id, "session_id": session, "asked_at": asked.UTC().Format("2006-01-02T15:04:05Z"), "gchat_thread_key": id, "status": status,
		"questions": []any{map[string]any{"question": "What is \"next\"?", "header": "Next", "options": []any{}, "multiSelect": false}},
	})
	if err != nil {
		w.Fatal(err)
	}
	writeFile(w.TB, w.markerPath(id), string(with(w.TB, b, kv...)))
	return w.markerPath(id)
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
		"pending, ours":                        {"sess-1", "pending", minute, []any{"mode", "deny", "gchat_thread_name", "spaces/S/threads/T", "resolved_at", nil, "denied", true}, false},
		"pending, no zone":                     {"sess-1", "pending", minute, []any{"asked_at", now.Add(-minute).UTC().Format("2006-01-02T15:04:05.000000")}, false},
		"pending, another zone":                {"sess-1", "pending", minute, []any{"asked_at", now.Add(-minute).In(time.FixedZone("", 5*3600)).Format(time.RFC3339)}, false},
		"timeout":                              {"sess-1", "timeout", 31 * minute, nil, false},
		"timeout 23 hours ago":                 {"sess-1", "timeout", 23 * hour, nil, false},
		"timeout 25 hours ago":                 {"sess-1", "timeout", 25 * hour, nil, true},
		"timeout, of another session":          {"sess-2", "timeout", hour, nil, true},
		"timeout, from the future":             {"sess-1", "timeout", -hour, nil, true},
		"resolved now, asked long ago":         {"sess-1", "resolved", 5 * hour, []any{"resolved_at", at(minute)}, false},
		"resolved long ago":                    {"sess-1", "resolved", 5 * hour, []any{"resolved_at", at(hour)}, true},
		"resolved, when is in the file's time": {"sess-1", "resolved", 5 * hour, nil, false},
		"answered":                             {"sess-1", "answered", 5 * hour, nil, false},
		"asked and resolved lately":            {"sess-1", "resolved", 29 * minute, nil, false},
		"cancelled":                            {"sess-1", "cancelled", minute, nil, true},
		"abandoned":                            {"sess-1", "abandoned", minute, nil, true},
		"expired":                              {"sess-1", "expired", minute, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := gateWorld(t)
			w.env["CLAUDE_SESSION_ID"] = "system3-main"
			path := w.marker("ask-"+c.session+"-0a1b2c3d", c.session, c.status, now.Add(-c.asked), c.kv...)
			v := w.stop()
			if (v.Decision == "block") != c.block || v.SystemMessage != "" {
				t.Errorf("said %+v", v)
			}
			if c.block && (!strings.Contains(v.Reason, "AskUserQuestion") || !strings.Contains(v.Reason, "Google Chat")) {
				t.Errorf("the reason does not say what to do: %q", v.Reason)
			}
			if future := strings.Contains(name, "future"); future != (strings.Count(w.log(), "from the future") == 1) {
				t.Errorf("log: %s", w.log())
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
		"no asked_at":                   {"asked_at", nil},
		"no asked_at, but forwarded_at": {"asked_at", nil, "forwarded_at", "2026-02-21T10:30:00.123456+00:00"},
		"asked_at is no time":           {"asked_at", "just now"},
		"no asked_at, answered":         {"asked_at", nil, "status", "answered", "answer", "2"},
		"a status of its own":           {"status", "auth_failed"},
		"a status of its own, no time":  {"status", "forwarded", "asked_at", nil},
		"no status":                     {"status", nil},
		"closed in a word of its own":   {"status", "resolved", "closed_as", "pondered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for block, written := range map[bool]time.Duration{false: 29 * time.Minute, true: 31 * time.Minute} {
				w := gateWorld(t)
				w.env["CLAUDE_SESSION_ID"] = "system3-main"
				path := w.marker("system3-main-0a1b2c3d", "system3-main", "pending", time.Now().Add(-5*time.Hour), kv...)
				age(t, path, written)
				if v := w.stop(); (v.Decision == "block") != block {
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
		"pending": {"sess-1", state.Pending, false}, "resolved": {"sess-1", state.Resolved, false}, "cancelled": {"sess-1", state.Cancelled, true}, "expired": {"sess-1", state.Expired, true},
		"of the other session": {"sess-2", state.Pending, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := gateWorld(t)
			w.env["CLAUDE_SESSION_ID"] = "system3-main"
			q := &state.Question{QuestionID: "ask-system3-old-0a1b2c3d", SessionID: "system3-main", ClaudeSessionID: c.claude, AskedAt: time.Now(), Status: c.status, Mode: state.Deny}
			b, err := json.Marshal(q)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, w.markerPath(q.QuestionID), string(b))
			if v := w.stop(); (v.Decision == "block") != c.block {
				t.Errorf("said %+v", v)
			}
		})
	}
}

// A marker may lie in the person's own state, and be called in another way.
func TestGateMarkersElsewhere(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]func(w *world) string{
		"spare folder": func(w *world) string {
			env := func(k string) string { return w.env[k] }
			return filepath.Join(state.MarkersIn(state.SpareState(env)).Dir, "ask-sess-1-0a1b2c3d.json")
		},
		"other digits": func(w *world) string { return w.markerPath("ask-sess-1-x4k2m8") },
		"another name": func(w *world) string { return w.markerPath("question") },
		"state folder set": func(w *world) string {
			w.env["GCHAT_STATE_DIR"] = filepath.Join(w.dir, "elsewhere")
			return filepath.Join(w.env["GCHAT_STATE_DIR"], "gchat-forwarded-ask", "ask-sess-1-0a1b2c3d.json")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := gateWorld(t)
			writeFile(t, path(w), fmt.Sprintf(`{"question_id":"q","session_id":"sess-1","status":"pending","asked_at":%q}`, time.Now().UTC().Format(time.RFC3339)))
			if v := w.stop(); v != (verdict{}) {
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
		"pending": {"pending", "sess-1", time.Minute, false}, "resolved": {"resolved", "sess-1", 29 * time.Minute, false}, "cancelled": {"cancelled", "sess-1", time.Minute, false},
		"expired": {"expired", "sess-1", time.Minute, true}, "long ago": {"resolved", "sess-1", 31 * time.Minute, true}, "another session's": {"resolved", "sess-2", time.Minute, true},
		"from the future": {"pending", "sess-1", -time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := gateWorld(t)
			asked := time.Now().Add(-c.asked)
			writeFile(t, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state", "pending-questions", fmt.Sprintf("%s-%d.json", c.session, asked.Unix())),
				fmt.Sprintf(`{"question_id":"0a1b2c3d","session_id":%q,"status":%q,"asked_at":%q}`, c.session, c.status, asked.UTC().Format(time.RFC3339)))
			if v := w.stop(); (v.Decision == "block") != c.block {
				t.Errorf("said %+v", v)
			}
		})
	}
}

func TestGateReadsTheTranscript(t *testing.T) {
	t.Parallel()
	w := gateWorld(t)
	for file, block := range map[string]bool{"single": false, "discussed": false, "denied": true} {
		path, err := filepath.Abs(filepath.Join("testdata", "2.1.329", "transcripts", file+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if v := w.stop("transcript_path", path); (v.Decision == "block") != block {
			t.Errorf("%s: said %+v", file, v)
		}
	}
}
