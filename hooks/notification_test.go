package hooks_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const notify, sessionHook = "gchat-notification-dispatch", "gchat-session-event"

// with sets members of a JSON object; nil takes one away.
func with(t testing.TB, b []byte, kv ...any) []byte {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(kv); i += 2 {
		if m[kv[i].(string)] = kv[i+1]; kv[i+1] == nil {
			delete(m, kv[i].(string))
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// firstForm is a notification as the first design describes it.
func firstForm(t testing.TB, kind, title, body, agent string) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{"session_id": "orch-epic4", "hook_event_name": "Notification", "notification": map[string]any{
		"type": kind, "title": title, "body": body, "agent_name": agent, "timestamp": "2026-02-21T10:45:00Z"}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// namedWorld is a world whose session is called as in the first design.
func namedWorld(t testing.TB) *world {
	w := newWorld(t)
	w.env["CLAUDE_SESSION_ID"] = "orch-epic4"
	return w
}

func (w *world) config(json string) {
	writeFile(w.TB, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), json)
}

// wantMessages waits until the space holds these messages and no others, in any order.
func (w *world) wantMessages(want ...string) {
	w.Helper()
	w.until(fmt.Sprintf("%d messages", len(want)), func() bool { return len(w.chat.Messages()) >= len(want) })
	w.endFlusher()
	var got []string
	for _, m := range w.chat.Messages() {
		got = append(got, m.Text)
	}
	if len(got) != len(want) {
		w.Errorf("%d messages, want %d: %q", len(got), len(want), got)
	}
	for _, text := range want {
		if !strings.Contains("\x00"+strings.Join(got, "\x00")+"\x00", "\x00"+text+"\x00") {
			w.Errorf("the space does not say %q but %q", text, got)
		}
	}
}

// wantSilence says that a hook did nothing at all: nothing is on disk, so nothing will be sent either.
func (w *world) wantSilence() {
	w.Helper()
	if entries, err := os.ReadDir(w.env["XDG_STATE_HOME"]); err == nil {
		w.Errorf("state was written: %v", entries)
	}
	if log := w.log(); log != "" {
		w.Errorf("the log was written: %s", log)
	}
}

func TestNotificationRoutes(t *testing.T) {
	claude := func(kind string, kv ...any) []byte {
		return recorded(t, "timing-05-Notification", append([]any{"notification_type", kind, "message", "The message."}, kv...)...)
	}
	stop := func(kv ...any) []byte { return recorded(t, "plan-12-SubagentStop", kv...) }
	failure := func(kv ...any) []byte {
		return with(t, recorded(t, "single-07-Stop"), append([]any{"hook_event_name", "StopFailure", "last_assistant_message", nil}, kv...)...)
	}
	const body = "The tdd-test-engineer subagent has completed its task."
	for name, c := range map[string]struct {
		event  []byte
		config string
		want   string // "": suppressed, and nothing is written
	}{
		"first form, subagent": {firstForm(t, "subagent_complete", "Subagent finished", body, "tdd-test-engineer"), "",
			"[Subagent Done] orch-epic4\ntdd-test-engineer completed task\n" + body},
		"first form, subagent without a name": {firstForm(t, "subagent_complete", "Subagent finished", body, ""), "",
			"[Subagent Done] orch-epic4\nSubagent finished\n" + body},
		"first form, background task": {firstForm(t, "background_task_complete", "Build finished", "All green.", ""), "", "[Task Done] orch-epic4\nBuild finished\nAll green."},
		"first form, background task of an agent": {firstForm(t, "background_task_complete", "Build finished", "All green.", "builder"), "",
			"[Task Done] orch-epic4\nbuilder completed task\nAll green."},
		"first form, error": {firstForm(t, "error", "Oops", "Disk is full.", ""), "", "[Error] orch-epic4\nAn error occurred that requires attention.\nDisk is full."},
		"first form, idle":  {firstForm(t, "idle", "Idle", "Waiting.", ""), "", ""},
		"first form, new":   {firstForm(t, "moon_phase", "Full", "Howl.", ""), "", ""},
		"first form, no notification": {
			[]byte(`{"session_id":"s","hook_event_name":"Notification","notification":"hello"}`), "", ""},
		"no type":         {[]byte(`{"session_id":"s","hook_event_name":"Notification"}`), "", ""},
		"idle":            {recorded(t, "timing-09-Notification"), "", ""},
		"logged in":       {claude("auth_success"), "", ""},
		"unknown":         {claude("moon_phase"), "", ""},
		"agent completed": {claude("agent_completed", "title", "Build"), "", "[Task Done] orch-epic4\nBuild\nThe message."},
		"agent waits":     {claude("agent_needs_input"), "", "[Permission] orch-epic4\nThe message."},
		"form":            {claude("elicitation_dialog", "title", "Server"), "", "[Permission] orch-epic4\nThe message."},
		"permission":      {recorded(t, "timing-05-Notification"), "", "[Permission] orch-epic4\nClaude needs your permission"},
		"turned on, idle": {recorded(t, "timing-09-Notification"), `{"notifications":{"idle_prompt":"on"}}`, "[Notification] orch-epic4\nClaude is waiting for your input"},
		"turned on, new":  {claude("moon_phase", "title", "Full"), `{"notifications":{"moon_phase":"on"}}`, "[Notification] orch-epic4\nFull\nThe message."},
		"several lines":   {claude("moon_phase", "message", "One.\nTwo."), `{"notifications":{"moon_phase":"on"}}`, "[Notification] orch-epic4\n\nOne.\nTwo."},
		"turned off":      {recorded(t, "timing-05-Notification"), `{"notifications":{"permission_prompt":"off"}}`, ""},
		"no rule for it":  {recorded(t, "timing-05-Notification"), `{"reports":{"permission":"off"}}`, ""},
		"off by its type": {stop(), `{"reports":{"progress_update":"off"}}`, ""},
		"on by its kind": {stop(), `{"reports":{"progress_update":"off","subagent_done":"on"}}`,
			"[Subagent Done] orch-epic4\ngeneral-purpose completed task\nsub text"},
		"another prefix": {claude("idle_prompt"), `{"notifications":{"idle_prompt":{"type":"heartbeat","prefix":"[Waits]"}}}`, "[Waits] orch-epic4\nThe message."},
		"another type":   {firstForm(t, "subagent_complete", "T", "B", "a"), `{"notifications":{"subagent_complete":{"type":"task_completion"}}}`, "[Done] orch-epic4\na completed task\nB"},
		"no such type":   {firstForm(t, "subagent_complete", "T", "B", "a"), `{"notifications":{"subagent_complete":{"type":"whisper"}}}`, "[Subagent Done] orch-epic4\na completed task\nB"},
		"plain type":     {firstForm(t, "error", "T", "B", ""), `{"notifications":{"error":{"type":"plain"}}}`, "[Error] orch-epic4\nAn error occurred that requires attention.\nB"},
		"members of other types": {[]byte(`{"session_id":"s","hook_event_name":"Notification","notification_type":"agent_completed","title":["a","b"],"message":{"x":1}}`), "",
			"[Task Done] orch-epic4\n[\"a\",\"b\"]\n{\"x\":1}"},

		"subagent": {stop(), "", "[Subagent Done] orch-epic4\ngeneral-purpose completed task\nsub text"},
		"subagent with much to say": {stop("last_assistant_message", strings.Repeat("line\n", 20)), "",
			"[Subagent Done] orch-epic4\ngeneral-purpose completed task\n" + strings.Repeat("line\n", 7) + "line…"},
		"subagent without words":   {stop("last_assistant_message", nil), "", "[Subagent Done] orch-epic4\ngeneral-purpose completed task"},
		"subagent without a type":  {stop("agent_type", ""), "", "[Subagent Done] orch-epic4\nSubagent completed task\nsub text"},
		"Claude Code's own helper": {stop("agent_type", "", "last_assistant_message", nil), "", ""},

		"failure": {failure("error", "rate_limit", "error_details", "429 Too Many Requests"), "",
			"[Error] orch-epic4\nAn error occurred that requires attention.\nrate_limit: 429 Too Many Requests"},
		"failure in words": {failure("error", "server_error", "last_assistant_message", "API Error: 500"), "",
			"[Error] orch-epic4\nAn error occurred that requires attention.\nserver_error: API Error: 500"},
		"failure without details": {failure("error", "unknown"), "", "[Error] orch-epic4\nAn error occurred that requires attention.\nunknown"},
		"failure turned off":      {failure("error", "unknown"), `{"notifications":{"error":"off"}}`, ""},

		"foreign words": {firstForm(t, "subagent_complete", "", "<users/all> **bold**\n[Session End] x | 2026-01-01 00:00:00", "<users/all>\n[Done] y"), "",
			"[Subagent Done] orch-epic4\n‹users/all> [Done] y completed task\n‹users/all> *bold*\n(Session End) x | 2026-01-01 00:00:00"},
		"another hook's event": {recorded(t, "single-07-Stop"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := namedWorld(t)
			if c.config != "" {
				w.config(c.config)
			}
			if out := w.run(notify, c.event); out != "" {
				t.Errorf("printed %q", out)
			}
			if c.want == "" {
				w.wantSilence()
				return
			}
			w.wantMessages(c.want)
		})
	}
}

// A session's reports stand in one thread, and the same words within a minute come once: two installs, say.
func TestNotificationsOfASessionShareAThread(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	for range 2 {
		w.run(notify, recorded(t, "timing-05-Notification"))
		w.run(notify, recorded(t, "timing-05-Notification", "message", "Claude needs more."))
	}
	w.wantMessages("[Permission] orch-epic4\nClaude needs your permission", "[Permission] orch-epic4\nClaude needs more.")
	ms := w.chat.Messages()
	if ms[0].Thread.Name != ms[1].Thread.Name {
		t.Errorf("threads %s and %s", ms[0].Thread.Name, ms[1].Thread.Name)
	}
}

func TestNotificationWithoutAWebhook(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	delete(w.env, "GOOGLE_CHAT_WEBHOOK_URL")
	for _, event := range []string{"timing-05-Notification", "plan-12-SubagentStop"} {
		if out := w.run(notify, recorded(t, event)); out != "" {
			t.Errorf("printed %q", out)
		}
	}
	for _, event := range []string{"single-01-SessionStart", "single-07-Stop", "timing-10-SessionEnd"} {
		if out := w.run(sessionHook, recorded(t, event)); out != "" {
			t.Errorf("printed %q", out)
		}
	}
	w.wantSilence()
}

func TestPermissionPromptBesideAQuestion(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	p := w.start(forward, recorded(t, "timing-04-PermissionRequest"))
	w.thread(1)
	w.run(notify, recorded(t, "timing-05-Notification"))
	w.wantMessages(w.chat.Messages()[0].Text)
	// Another session's question is no reason; nor is one that is over.
	w.run(notify, recorded(t, "rewake-09-Notification"))
	w.awaitMessage("[Permission]")
	w.run(answered, recorded(t, "timing-06-PostToolUse"))
	p.end()
	w.run(notify, recorded(t, "timing-05-Notification", "message", "Claude needs more."))
	w.awaitMessage("[Permission] orch-epic4\nClaude needs more.")
	w.endFlusher()
	if n := len(w.messages("[Permission]")); n != 2 {
		t.Errorf("%d messages about a permission, want 2", n)
	}
}

func TestPermissionPromptTellsWhatIsAsked(t *testing.T) {
	said := func(kind, content string) string {
		return `{"type":"` + kind + `","message":{"role":"` + kind + `","content":` + content + `}}` + "\n"
	}
	bash := func(id, command string) string {
		return said("assistant", fmt.Sprintf(`[{"type":"tool_use","id":%q,"name":"Bash","input":{"command":%q}}]`, id, command))
	}
	const head = "[Permission] orch-epic4\nClaude needs your permission"
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want string
	}{
		"a command": {func(t *testing.T, path string) { writeFile(t, path, bash("1", "touch a.txt")) }, head + "\nBash: `touch a.txt`"},
		"done": {func(t *testing.T, path string) {
			writeFile(t, path, bash("1", "ls")+said("user", `[{"type":"tool_result","tool_use_id":"1"}]`))
		}, head},
		"nothing": {func(t *testing.T, path string) { writeFile(t, path, "") }, head},
		"absent":  {func(*testing.T, string) {}, head},
		"invalid": {func(t *testing.T, path string) { writeFile(t, path, "{{{\n"+bash("1", "ls")+"\x00{") }, head + "\nBash: `ls`"},
		"hostile": {func(t *testing.T, path string) {
			writeFile(t, path, bash("1", "<users/all>\n```\n[Session End] x\n*b*"))
		}, head + "\nBash:\n```\n‹users/all>\n'''\n[Session End] x\n*b*\n```"},
		"hostile inline": {func(t *testing.T, path string) { writeFile(t, path, bash("1", "<users/all> *b* [Done] x")) }, head + "\nBash: `‹users/all> *b* [Done] x`"},
		"a fifo": {func(t *testing.T, path string) {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}, head},
		"a link to zeros": {func(t *testing.T, path string) {
			if err := os.Symlink("/dev/zero", path); err != nil {
				t.Fatal(err)
			}
		}, head},
		"hundreds of megabytes": {func(t *testing.T, path string) {
			writeFile(t, path, bash("0", "early")) // and a hole that reads as zeros
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte("\n"+bash("1", "late")), 300<<20); err != nil {
				t.Fatal(err)
			}
		}, head + "\nBash: `late`"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := namedWorld(t)
			path := filepath.Join(w.dir, "session.jsonl")
			c.make(t, path)
			w.run(notify, recorded(t, "timing-05-Notification", "transcript_path", path))
			w.wantMessages(c.want)
		})
	}
	t.Run("not a transcript's name", func(t *testing.T) {
		t.Parallel()
		w := namedWorld(t)
		path := filepath.Join(w.dir, "notes.txt")
		writeFile(t, path, bash("1", "ls"))
		w.run(notify, recorded(t, "timing-05-Notification", "transcript_path", path))
		w.wantMessages(head)
	})
}

func TestReportHooksReadAnything(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	for name, in := range map[string]string{
		"nothing": "", "garbage": "\x00\x01\xff{{{", "null": "null", "list": "[]", "half": `{"hook_event_name":"Notif`,
		"deep":        `{"hook_event_name":"Notification","notification":` + strings.Repeat(`[`, 100000) + strings.Repeat("]", 100000) + "}",
		"wrong types": `{"hook_event_name":"Notification","session_id":"s","notification_type":[],"notification":7}`,
		"no session":  `{"hook_event_name":"SessionEnd"}`, "tasks of another type": `{"hook_event_name":"SessionEnd","background_tasks":{}}`,
		"an event of tomorrow": `{"hook_event_name":"PreCoffee","session_id":"s"}`,
	} {
		for _, hook := range []string{notify, sessionHook} {
			if out := w.run(hook, []byte(in)); out != "" {
				t.Errorf("%s, %s: printed %q", hook, name, out)
			}
		}
	}
	if n := len(w.chat.Messages()); n != 0 {
		t.Errorf("%d messages", n)
	}
	if log := w.log(); strings.Contains(log, "a bug in gchat-hooks") {
		t.Errorf("a panic: %s", log)
	}
}

func TestReportHooksWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	blocked := filepath.Join(w.dir, "blocked")
	writeFile(t, blocked, "")
	other := w.with("GCHAT_STATE_DIR", filepath.Join(blocked, "a"), "XDG_STATE_HOME", filepath.Join(blocked, "b"))
	if out := other.run(notify, recorded(t, "plan-12-SubagentStop")); out != "" {
		t.Errorf("printed %q", out)
	}
	for _, event := range []string{"single-01-SessionStart", "single-07-Stop", "timing-10-SessionEnd"} {
		if out := other.run(sessionHook, recorded(t, event)); out != "" {
			t.Errorf("%s printed %q", event, out)
		}
	}
	if n := strings.Count(w.log(), `"level":"error"`); n < 4 {
		t.Errorf("the log has %d errors, want one for each hook: %s", n, w.log())
	}
}

// The first design's sessions are called by their id, which is a readable name.
func TestFirstFormNamesItsSession(t *testing.T) {
	w := newWorld(t)
	if out := w.run(notify, firstForm(t, "error", "Oops", "Disk is full.", "")); out != "" {
		t.Errorf("printed %q", out)
	}
	w.wantMessages("[Error] orch-epic4\nAn error occurred that requires attention.\nDisk is full.")
}
