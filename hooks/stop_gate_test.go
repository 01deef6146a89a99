package hooks

import (
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
	"gchat-hooks/state/config"
)

// The reason for Claude names the chat in which a question would be asked.
func TestStopGate_NamesTheChat(t *testing.T) {
	for _, tt := range []struct {
		cfg  config.Config
		want bool
	}{
		{config.Config{WebhookURL: "https://chat.googleapis.com/v1/spaces/AAAA/messages?key=k&token=t"}, false},
		{config.Config{WebhookURL: "http://127.0.0.1:8765/v1/spaces/local/messages?key=k&token=t"},
			true},
		{config.Config{SpaceID: "spaces/local", Subscription: "projects/p/subscriptions/s"}, true},
		{config.Config{WebhookCommand: "pass webhook"}, false},
	} {
		kit.Equalf(t, tt.cfg.UsesChatPage(), tt.want, "%+v is on the page", tt.cfg)
	}
	w := newGate(t)
	w.env["GOOGLE_CHAT_WEBHOOK_URL"] = "http://127.0.0.1:8765/v1/spaces/local/messages?key=k&token=t"
	kit.Contains(t, w.runGate().Reason, "The question goes to the chat page")
}

func (w *world) markerPath(name string) string {
	return filepath.Join(state.MarkersIn(w.projectState()).Dir, name+".json")
}

// writeMarker writes a marker as a program of the first design does, with some members
// set; nil removes one.
func (w *world) writeMarker(id, session, status string, asked time.Time, kv ...any) string {
	w.Helper()
	b := kit.JSON(w, map[string]any{
		"question_id": id, "session_id": session,
		"asked_at": asked.UTC().Format("2006-01-02T15:04:05Z"), "gchat_thread_key": id,
		"status": status,
		"questions": []any{map[string]any{"question": "What is \"next\"?", "header": "Next",
			"options": []any{}, "multiSelect": false}},
	})
	return writeFile(w, w.markerPath(id), string(setMembers(w, b, kv...)))
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
		"timeout":                     {"sess-1", "timeout", 31 * minute, nil, false},
		"timeout 23 hours ago":        {"sess-1", "timeout", 23 * hour, nil, false},
		"timeout 25 hours ago":        {"sess-1", "timeout", 25 * hour, nil, true},
		"timeout, of another session": {"sess-2", "timeout", hour, nil, true},
		"timeout, from the future":    {"sess-1", "timeout", -hour, nil, true},
		"resolved now, asked long ago": {"sess-1", "resolved", 5 * hour,
			[]any{"resolved_at", at(minute)}, false},
		"resolved long ago":                    {"sess-1", "resolved", 5 * hour, []any{"resolved_at", at(hour)}, true},
		"resolved, when is in the file's time": {"sess-1", "resolved", 5 * hour, nil, false},
		"answered":                             {"sess-1", "answered", 5 * hour, []any{"answer", "2"}, false},
		"asked and resolved lately":            {"sess-1", "resolved", 29 * minute, nil, false},
		"cancelled":                            {"sess-1", "cancelled", minute, nil, true},
		"abandoned":                            {"sess-1", "abandoned", minute, nil, true},
		"expired":                              {"sess-1", "expired", minute, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGate(t)
			w.env["CLAUDE_SESSION_ID"] = "system3-main"
			w.writeMarker("ask-"+c.session+"-0a1b2c3d", c.session, c.status,
				now.Add(-c.asked), c.kv...)
			v := w.runGate()
			kit.Equalf(t, v.Decision == "block", c.block, "blocks: %+v", v)
			kit.Equalf(t, strings.Contains(v.Reason, "AskUserQuestion"), c.block,
				"reason %q", v.Reason)
			kit.Equalf(t, v.SystemMessage, "", "message")
			kit.Equalf(t, len(w.questions()), 1, "markers of today")
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
			for block, written := range map[bool]time.Duration{false: 29 * time.Minute,
				true: 31 * time.Minute} {
				w := newGate(t)
				w.env["CLAUDE_SESSION_ID"] = "system3-main"
				path := w.writeMarker("system3-main-0a1b2c3d", "system3-main", "pending",
					time.Now().Add(-5*time.Hour), kv...)
				makeOlder(t, path, written)
				w.wantBlock(block)
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
			w := newGate(t)
			w.env["CLAUDE_SESSION_ID"] = "system3-main"
			q := &state.Question{QuestionID: "ask-system3-old-0a1b2c3d", SessionID: c.name,
				ClaudeSessionID: c.claude,
				AskedAt:         time.Now(), Status: c.status, Mode: state.ModeDeny}
			kit.NoError(t, state.MarkersIn(w.projectState()).Create(q.QuestionID, q))
			w.wantBlock(c.block)
		})
	}
}

// A marker may be in the person's own state and have another kind of name.
func TestStopGate_MarkersElsewhere(t *testing.T) {
	for name, path := range map[string]func(w *world) string{
		"spare folder": func(w *world) string {
			spare := state.MarkersIn(state.SpareStateDir(w.getenv))
			return filepath.Join(spare.Dir, "ask-sess-1-0a1b2c3d.json")
		},
		"other digits": func(w *world) string { return w.markerPath("ask-sess-1-x4k2m8") },
		"another name": func(w *world) string { return w.markerPath("question") },
		"state folder set": func(w *world) string {
			w.env["GCHAT_STATE_DIR"] = filepath.Join(w.dir, "elsewhere")
			return filepath.Join(w.env["GCHAT_STATE_DIR"], "gchat-forwarded-ask",
				"ask-sess-1-0a1b2c3d.json")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGate(t)
			writeFile(w, path(w), fmt.Sprintf(`{"question_id":"q","session_id":"sess-1","status":"pending","asked_at":%q}`,
				time.Now().UTC().Format(time.RFC3339)))
			kit.Equal(t, w.runGate(), (gateVerdict{}))
		})
	}
}

// A question in the terminal is proved by our hooks' record of it.
func TestStopGate_QuestionsInTheTerminal(t *testing.T) {
	for name, c := range map[string]struct {
		asked           time.Duration // ago
		status, session string
		block           bool
	}{
		"pending":           {time.Minute, "pending", "sess-1", false},
		"resolved":          {29 * time.Minute, "resolved", "sess-1", false},
		"cancelled":         {time.Minute, "cancelled", "sess-1", false},
		"expired":           {time.Minute, "expired", "sess-1", true},
		"long ago":          {31 * time.Minute, "resolved", "sess-1", true},
		"another session's": {time.Minute, "resolved", "sess-2", true},
		"from the future":   {-time.Hour, "pending", "sess-1", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGate(t)
			asked := time.Now().Add(-c.asked)
			writeFile(w, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state",
				"pending-questions", fmt.Sprintf("%s-%d.json",
					c.session, asked.Unix())),
				fmt.Sprintf(`{"question_id":"0a1b2c3d","session_id":%q,"status":%q,"asked_at":%q}`,
					c.session, c.status,
					asked.UTC().Format(time.RFC3339)))
			w.wantBlock(c.block)
		})
	}
}

// A permission, a plan and a next instruction do not ask what comes next.
func TestStopGate_CountsOnlyQuestions(t *testing.T) {
	for kind, block := range map[state.Kind]bool{
		state.KindQuestion: false, state.KindPermission: true, state.KindPlan: true,
		state.KindNext:   true,
		state.KindPrompt: true,
	} {
		t.Run(string(kind), func(t *testing.T) {
			w := newGate(t)
			q := &state.Question{
				QuestionID: "0a1b2c3d", Kind: kind, SessionID: "sess-1", ClaudeSessionID: "sess-1",
				AskedAt: time.Now().Add(-time.Minute), Status: state.Resolved,
				Mode: state.ModeNative,
			}
			kit.NoError(t, state.QuestionsIn(state.SpareStateDir(w.getenv)).Create("sess-1-1", q))
			w.wantBlock(block)
		})
	}
}

// A session that may stop has reported what it had to: its question is in the space. Only
// its end brings a summary.
func TestStopGate_AllowedStopIsSilent(t *testing.T) {
	w := newGate(t)
	w.writeMarker("ask-sess-1-0a1b2c3d", "sess-1", "pending", time.Now())
	kit.Equal(t, w.runGate("last_assistant_message", "All done."), (gateVerdict{}))
	w.wantReports()
	session, err := w.sessions().Get("sess-1")
	kit.True(t, err != nil || session.SummaryOwedFor.IsZero(), "a summary is owed")
}

// These are the gate's own limits: whom it guards, how often it sends a session back, and
// what it ignores.
func TestStopGate_LevelOfEachSession(t *testing.T) {
	for name, c := range map[string]struct {
		mode, config, env string
		block             bool
		advice            string
	}{
		"deny mode":      {"deny", `{}`, "", true, ""},
		"deny mode, off": {"deny", `{"stop_gate":"off"}`, "", false, ""},
		"deny mode, that check off": {"deny", `{"stop_gate":{"question_asked":"off"}}`,
			"", false, ""},
		"deny mode, advice": {"deny", `{"stop_gate":"advice"}`, "", false,
			"without having asked you"},
		"native mode":     {"native", `{}`, "", false, ""},
		"native mode, on": {"native", `{}`, "on", true, ""},
		"native mode, on by a rule": {"native",
			`{"rules":[{"session":"orch-*","stop_gate":{"question_asked":"on"}}]}`, "",
			true, ""},
		"native mode, another's rule": {"native",
			`{"rules":[{"session":"main-*","stop_gate":"on"}]}`, "", false, ""},
		"native mode, only other check": {"native", `{"stop_gate":{"persistent_agents":"on"}}`,
			"", false, ""},
		"off, and the gate is on": {"off", `{}`, "on", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGate(t)
			w.env["GCHAT_ASK_MODE"], w.env["GCHAT_STOP_GATE"], w.env["CLAUDE_SESSION_ID"] = c.mode,
				c.env, "orch-epic4"
			w.writeConfig(c.config)
			v := w.runGate()
			kit.Equalf(t, v.Decision == "block", c.block, "blocks: %+v", v)
			kit.Equalf(t, v.SystemMessage == "", c.advice == "", "says nothing: %+v", v)
			kit.Contains(t, v.SystemMessage, c.advice)
			kit.Equalf(t, strings.Contains(v.Reason, "Google Chat"), c.block, "reason %q", v.Reason)
		})
	}
}

func TestStopGate_OnlyTheSessionsOwnStop(t *testing.T) {
	w := newGate(t)
	for name, event := range map[string][]byte{
		"a subagent's":               w.event("single-07-Stop", "agent_id", "a1"),
		"SubagentStop":               w.event("plan-12-SubagentStop"),
		"SessionEnd":                 w.event("timing-10-SessionEnd"),
		"no session id":              w.event("single-07-Stop", "session_id", ""),
		"sent back":                  w.event("single-07-Stop", "stop_hook_active", true),
		"sent back, in another type": w.event("single-07-Stop", "stop_hook_active", "true"),
	} {
		kit.Equalf(t, w.callHook(gateHook, event), "", "%s: printed", name)
	}
	for name, event := range map[string][]byte{
		"no flag": setMembers(t, w.event("single-07-Stop"), "stop_hook_active", nil,
			"session_id", "sess-2"),
		"odd other members": w.event("single-07-Stop", "background_tasks", "many",
			"transcript_path", 7, "session_id", "sess-3"),
	} {
		kit.Containsf(t, w.callHook(gateHook, event), `"decision":"block"`, "%s: printed", name)
	}
}

// The gate blocks three times a minute, whatever Claude Code says about earlier blocks.
// It counts for each session separately.
func TestStopGate_EndsALoop(t *testing.T) {
	w := newGate(t)
	for range 3 {
		w.wantBlock(true)
	}
	for range 2 {
		v := w.runGate()
		kit.Equalf(t, v.Decision, "", "the fourth decision")
		kit.Contains(t, v.SystemMessage, "sent back 3 times")
		kit.Contains(t, v.SystemMessage, "without having asked you")
	}
	w.wantLogged("lets a session stop", 2)
	w.wantBlock(true, "session_id", "sess-2")
	w.changeSession("sess-1", func(s *state.Session) {
		for i := range s.GateBlocks {
			s.GateBlocks[i] = s.GateBlocks[i].Add(-time.Hour)
		}
	})
	w.wantBlock(true)
}

// A block that cannot be counted could repeat forever.
func TestStopGate_UncountableBlockLetsStop(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.MkdirAll(path, 0o700) },
		"no folder": func(path string) error {
			return os.WriteFile(filepath.Dir(path), nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGate(t)
			path := filepath.Join(state.UserStateDir(w.getenv), "sessions", "sess-1.json")
			kit.NoError(t, os.MkdirAll(filepath.Dir(filepath.Dir(path)), 0o700))
			kit.NoError(t, spoil(path))
			v := w.runGate("stop_hook_active", nil)
			kit.Equalf(t, v.Decision, "", "decision")
			kit.Contains(t, v.SystemMessage, "cannot be written down")
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
		return func(path string) error {
			return errors.Join(file(content)(path), os.Chtimes(path, at, at))
		}
	}
	for name, c := range map[string]struct {
		put    func(path string) error
		logged int
	}{
		"from the future":   {file(good), 0},
		"half-written":      {file(good[:len(good)-5]), 0}, // it may still be written
		"broken off":        {old(good[:len(good)-5]), 1},
		"broken further on": {file(good[:len(good)-1] + `,"questions":[{]]}`), 1},
		"no question":       {file(strings.Replace(good, `"question_id"`, `"question"`, 1)), 1},
		"another session's": {file(`{"session_id":"sess-2"`), 0},
		"garbage":           {file("\x00\xff{{{"), 1},
		"a folder":          {func(path string) error { return os.Mkdir(path, 0o700) }, 1},
		"a pipe":            {func(path string) error { return syscall.Mkfifo(path, 0o600) }, 1},
		"a link into nothing": {func(path string) error { return os.Symlink(path+".gone", path) },
			1},
		"a link to a device": {func(path string) error { return os.Symlink("/dev/zero", path) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGate(t)
			path := w.markerPath("ask-sess-1-0a1b2c3d")
			kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			kit.NoError(t, c.put(path))
			before, _ := os.Lstat(path)
			w.wantBlock(true)
			w.wantLogged("record passed over", c.logged)
			w.writeMarker("ask-sess-1-0a1b2c3e", "sess-1", "pending", time.Now())
			kit.Equalf(t, w.runGate(), (gateVerdict{}), "with evidence beside it")
			after, err := os.Lstat(path)
			kit.True(t, err == nil && os.SameFile(before, after) && after.Size() == before.Size(),
				"it was touched: %v", err)
		})
	}
}

// It does not matter what the folder is, or whether it can be written.
func TestStopGate_WithoutAFolder(t *testing.T) {
	w := newGate(t)
	w.wantBlock(true)
	w.wantLogged("marker", 0)
	writeFile(w, state.MarkersIn(w.projectState()).Dir, "a file where a folder should be")
	w.wantBlock(true)
}
