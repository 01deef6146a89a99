package hooks

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// In auto mode a subagent reports by a tool. Its end is reported once, with that report,
// however often Claude Code sent it back for it.
func TestNotification_SubagentHandsBack(t *testing.T) {
	const (
		asked  = `{"type":"user","isSidechain":true,"message":{"content":"Look at it.\n\nYour final report is delivered through SubagentHandback."}}` + "\n"
		plain  = `{"type":"assistant","isSidechain":true,"message":{"id":"m1","content":[{"type":"text","text":"All is well."}]}}` + "\n"
		handed = `{"type":"assistant","isSidechain":true,"message":{"id":"m2","content":[{"type":"tool_use","id":"t1","name":"SubagentHandback","input":{"message":"All is well, in full."}}]}}` + "\n" +
			`{"type":"user","isSidechain":true,"message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}` + "\n"
		done = "[Subagent Done] orch-epic4\ngeneral-purpose completed task"
	)
	type stop struct {
		transcript string
		text       any // nil for no report
		sentBack   bool
	}
	for name, c := range map[string]struct {
		mode  string
		stops []stop
		want  []string
	}{
		"at once": {"auto", []stop{{asked + handed, nil, false}},
			[]string{done + "\nAll is well, in full."}},
		"sent back once": {"auto", []stop{{asked + plain, "All is well.", false},
			{asked + plain + handed, nil, true}}, []string{done + "\nAll is well, in full."}},
		"without a text": {"auto", []stop{{asked, nil, false}, {asked, nil, true},
			{asked, nil, true}, {asked + handed, nil, true}},
			[]string{done + "\nAll is well, in full."}},
		"never by the tool": {"auto", []stop{{asked + plain, "All is well.", false},
			{asked + plain, "All is well.", true}, {asked + plain, "All is well.", true}},
			[]string{done + "\nAll is well."}},
		"asked once more": {"auto", []stop{{asked + handed + asked + plain, "All is well.",
			true}}, []string{done + "\nAll is well."}},
		"without that tool": {"auto", []stop{{strings.ReplaceAll(asked, "SubagentHandback",
			"words") + plain, "All is well.", false}}, []string{done + "\nAll is well."}},
		"in another mode": {"default", []stop{{plain, "All is well.", false}},
			[]string{done + "\nAll is well."}},
		"no transcript here": {"auto", []stop{{"", "All is well.", false}},
			[]string{done + "\nAll is well."}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReportWorld(t)
			for _, s := range c.stops {
				writeFile(w, filepath.Join(w.dir, "sess-1", "subagents",
					"agent-a1.jsonl"), s.transcript)
				w.callHook(notifyHook, w.event("plan-12-SubagentStop", "permission_mode", c.mode,
					"agent_id", "a1",
					"agent_type", "general-purpose", "last_assistant_message", s.text, "stop_hook_active", s.sentBack))
			}
			w.wantReports(c.want...)
		})
	}
}

// oldNotificationEvent is a notification as scripts send it that are older than
// notification_type.
func oldNotificationEvent(t testing.TB, kind, title, body, agent string) []byte {
	t.Helper()
	b := kit.JSON(t, map[string]any{"session_id": "orch-epic4",
		"hook_event_name": "Notification",
		"notification": map[string]any{
			"type": kind, "title": title, "body": body, "agent_name": agent, "timestamp": "2026-02-21T10:45:00Z"}})
	return b
}

func TestNotification_ReportOfEachKind(t *testing.T) {
	claude := func(kind string, kv ...any) []byte {
		return recorded(t, "timing-05-Notification",
			append([]any{"notification_type", kind, "message", "The message."}, kv...)...)
	}
	stop := func(kv ...any) []byte { return recorded(t, "plan-12-SubagentStop", kv...) }
	failure := func(kv ...any) []byte {
		return setMembers(t, recorded(t, "single-07-Stop"),
			append([]any{"hook_event_name", "StopFailure", "last_assistant_message",
				nil}, kv...)...)
	}
	limited := transcript(t, kit.ReadFile(t, "testdata/2.1.332/usage-limit.jsonl"))
	prompt := func(text string) []byte {
		return recorded(t, "single-02-UserPromptSubmit", "prompt", text)
	}
	// 2.1.332 and 2.1.197 report the end of a task in this form.
	task := func(status, summary string) []byte {
		if status != "" {
			status = "<status>" + status + "</status>\n"
		}
		return prompt("<task-notification>\n<task-id>b1</task-id>\n<tool-use-id>toolu_1</tool-use-id>\n" +
			"<output-file>/tmp/tasks/b1.output</output-file>\n" + status +
			"<summary>" + summary + "</summary>\n</task-notification>")
	}
	const body = "The tdd-test-engineer subagent has completed its task."
	for name, c := range map[string]struct {
		event  []byte
		config string
		want   string // "": suppressed, and nothing is written
	}{
		"first form, subagent": {oldNotificationEvent(t, "subagent_complete", "Subagent finished",
			body, "tdd-test-engineer"), "",
			"[Subagent Done] orch-epic4\ntdd-test-engineer completed task\n" + body},
		"first form, subagent without a name": {oldNotificationEvent(t, "subagent_complete",
			"Subagent finished", body, ""), "",
			"[Subagent Done] orch-epic4\nSubagent finished\n" + body},
		"first form, background task": {oldNotificationEvent(t, "background_task_complete",
			"Build finished", "All green.", ""), "",
			"[Task Done] orch-epic4\nBuild finished\nAll green."},
		"first form, background task of an agent": {oldNotificationEvent(t,
			"background_task_complete", "Build finished", "All green.",
			"builder"), "",
			"[Task Done] orch-epic4\nbuilder completed task\nAll green."},
		"first form, error": {oldNotificationEvent(t, "error", "Oops", "Disk is full.", ""), "",
			"[Error] orch-epic4\nAn error occurred that requires attention.\nDisk is full."},
		"first form, idle": {oldNotificationEvent(t, "idle", "Idle", "Waiting.", ""), "", ""},
		"first form, new":  {oldNotificationEvent(t, "moon_phase", "Full", "Howl.", ""), "", ""},
		"first form, no notification": {
			[]byte(`{"session_id":"s","hook_event_name":"Notification","notification":"hello"}`),
			"", ""},
		"no type":   {[]byte(`{"session_id":"s","hook_event_name":"Notification"}`), "", ""},
		"idle":      {recorded(t, "timing-09-Notification"), "", ""},
		"logged in": {claude("auth_success"), "", ""},
		"unknown":   {claude("moon_phase"), "", ""},
		"agent completed": {claude("agent_completed", "title", "Build"), "",
			"[Task Done] orch-epic4\nBuild\nThe message."},
		"agent waits": {claude("agent_needs_input"), "",
			"[Permission] orch-epic4\nClaude waits in the terminal: The message."},
		"form": {claude("elicitation_dialog", "title", "Server"), "",
			"[Permission] orch-epic4\nClaude waits in the terminal: The message."},
		"permission": {recorded(t, "timing-05-Notification"), "", permissionReport},
		"turned on, idle": {recorded(t, "timing-09-Notification"),
			`{"reports":{"idle_prompt":"on"}}`,
			"[Notification] orch-epic4\nClaude is waiting for your input"},
		"turned on, new": {claude("moon_phase", "title", "Full"), `{"reports":{"moon_phase":"on"}}`,
			"[Notification] orch-epic4\nFull\nThe message."},
		"several lines": {claude("moon_phase", "message", "One.\nTwo."),
			`{"reports":{"moon_phase":"on"}}`,
			"[Notification] orch-epic4\nOne.\nTwo."},
		"no rule for it": {recorded(t, "timing-05-Notification"),
			`{"reports":{"permission":"off"}}`, ""},
		"off by its type": {stop(), `{"reports":{"progress_update":"off"}}`, ""},
		"on by its kind": {stop(), `{"reports":{"progress_update":"off","subagent_done":"on"}}`,
			"[Subagent Done] orch-epic4\ngeneral-purpose completed task\nsub text"},
		"members of other types": {[]byte(`{"session_id":"s","hook_event_name":"Notification",` +
			`"notification_type":"agent_completed","title":["a","b"],"message":{"x":1}}`), "",
			"[Task Done] orch-epic4\n[\"a\",\"b\"]\n{\"x\":1}"},

		"subagent": {stop(), "", "[Subagent Done] orch-epic4\ngeneral-purpose completed task\nsub text"},
		"subagent with much to say": {stop("last_assistant_message",
			strings.Repeat("line\n", 20)), "",
			"[Subagent Done] orch-epic4\ngeneral-purpose completed task\n" + strings.Repeat("line\n", 7) + "line…"},
		"subagent without a text": {stop("last_assistant_message", nil), "",
			"[Subagent Done] orch-epic4\ngeneral-purpose completed task"},
		"subagent without a type": {stop("agent_type", ""), "",
			"[Subagent Done] orch-epic4\nSubagent completed task\nsub text"},
		"Claude Code's own helper": {stop("agent_type", "", "last_assistant_message", nil), "", ""},

		"background command": {task("completed",
			`Background command "a long job" completed (exit code 0)`), "",
			"[Task Done] orch-epic4\nBackground command \"a long job\" completed (exit code 0)"},
		"background command that failed": {task("failed",
			`Background command "a &amp;&amp; &lt;b&gt;" failed with exit code 3`), "",
			"[Task Done] orch-epic4\nBackground command \"a && <b>\" failed with exit code 3"},
		// SubagentStop reports it
		"background agent": {task("completed", `Agent "help" finished`), "", ""},
		"background command, off": {task("completed", "Done"),
			`{"reports":{"task_done":"off"}}`, ""},
		"a task that goes on":          {task("", "Monitor event"), "", ""},
		"a person's prompt":            {prompt("go ahead"), "", ""},
		"a person's prompt about that": {prompt("What is <task-notification>\n<status>completed</status>"), "", ""},

		"failure": {failure("error", "rate_limit", "error_details", "429 Too Many Requests"), "",
			"[Error] orch-epic4\nAn error occurred that requires attention.\nrate_limit: 429 Too Many Requests"},
		"failure with a text": {failure("error", "server_error", "last_assistant_message",
			"API Error: 500"), "",
			"[Error] orch-epic4\nAn error occurred that requires attention.\nserver_error: API Error: 500"},
		"failure without details": {failure("error", "unknown"), "",
			"[Error] orch-epic4\nAn error occurred that requires attention.\nunknown"},
		"usage limit": {failure("error", "rate_limit", "last_assistant_message",
			"You've hit your session limit · resets 1:47pm (UTC)"), "",
			"[Error] orch-epic4\nA usage limit stopped Claude.\nYou have hit your session limit. " +
				"It ends at 1:47pm (UTC). After that, go on in the terminal."},
		"usage limit that ends by itself": {failure("error", "rate_limit", "last_assistant_message",
			"You've hit your 5-hour limit · resets 1:47pm (UTC)", "transcript_path", limited), "",
			"[Error] orch-epic4\nA usage limit stopped Claude.\nYou have hit your 5-hour limit. " +
				"It ends at 1:47pm (UTC). Claude Code then continues automatically."},
		"failure turned off": {failure("error", "unknown"), `{"reports":{"error":"off"}}`, ""},

		"foreign texts": {oldNotificationEvent(t, "subagent_complete", "",
			"<users/all> **bold**\n[Session End] x | 2026-01-01 00:00:00",
			"<users/all>\n[Done] y"), "",
			"[Subagent Done] orch-epic4\n<users/all>\n[Done] y completed task\n<users/all> **bold**\n" +
				"[Session End] x | 2026-01-01 00:00:00"},
		"another hook's event": {recorded(t, "single-07-Stop"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReportWorld(t)
			w.writeConfig(c.config)
			kit.Equalf(t, w.callHook(notifyHook, c.event), "", "printed")
			if c.want == "" {
				w.wantNoOutput()
			} else {
				w.wantReports(c.want)
			}
		})
	}
}

// Two tasks of one name that end within a minute are two reports.
func TestNotification_EqualTasksAreTwo(t *testing.T) {
	w := newReportWorld(t)
	for _, id := range []string{"b1", "b2", "b2"} { // Claude Code may send one twice
		w.callHook(notifyHook, recorded(t, "single-02-UserPromptSubmit", "prompt",
			"<task-notification>\n<task-id>"+id+"</task-id>\n"+
				"<status>completed</status>\n<summary>Background command \"test\" completed</summary>\n</task-notification>"))
	}
	const report = "[Task Done] orch-epic4\nBackground command \"test\" completed"
	w.wantReports(report, report)
}

func TestNotification_OncePerInstall(t *testing.T) {
	w := newReportWorld(t)
	for range 2 { // two installs
		w.callHook(notifyHook, w.event("timing-05-Notification"))
		w.callHook(notifyHook, w.event("timing-05-Notification", "message", "Claude needs more."))
	}
	w.wantReports(permissionReport, permissionReport+": Claude needs more.")
	for _, one := range w.reports() {
		kit.True(t, one.ThreadKey == "session-sess-1" && one.SessionID == "sess-1" &&
			one.ProjectDir == w.env["CLAUDE_PROJECT_DIR"] && one.Type == state.MessageReport &&
			one.Report.RuleKind == "permission" && !one.IsUrgent, "message %+v", one)
	}
}

func TestNotification_DigestIsHeld(t *testing.T) {
	w := newReportWorld(t)
	w.writeConfig(`{"reports":{"progress_update":"digest"}}`)
	w.callHook(notifyHook, w.event("plan-12-SubagentStop"))
	if one := w.reports()[0]; !one.IsDigest || one.NotBefore.IsZero() ||
		!strings.HasPrefix(one.ThreadKey, "digest-") {
		t.Errorf("message %+v", one)
	}
}

func TestNotification_NameOfTheSession(t *testing.T) {
	w := newReportWorld(t)
	w.callHook(sessionHook, w.event("single-01-SessionStart"))
	delete(w.env, "CLAUDE_SESSION_ID")
	w.callHook(notifyHook, w.event("plan-12-SubagentStop"))
	w.wantReports("[Subagent Done] orch-epic4\ngeneral-purpose completed task\nsub text")
}

func TestNotification_WithoutAWebhook(t *testing.T) {
	w := newReportWorld(t)
	delete(w.env, "GOOGLE_CHAT_WEBHOOK_URL")
	for _, event := range []string{"timing-05-Notification", "plan-12-SubagentStop"} {
		w.callHook(notifyHook, w.event(event))
	}
	for _, event := range []string{"single-01-SessionStart", "single-07-Stop",
		"timing-10-SessionEnd"} {
		w.callHook(sessionHook, w.event(event))
	}
	w.wantNoOutput()
}

// An open question of the session replaces the report, since it says more. Another
// session's question does not, nor does a closed one.
func TestNotification_BesideAQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		session string
		status  state.Status
		want    int
	}{
		"its own": {"sess-1", state.Pending, 0}, "another's": {"sess-2", state.Pending, 1},
		"over": {"sess-1", state.Resolved, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReportWorld(t)
			writeFile(w, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state",
				"pending-questions", "x-1.json"),
				fmt.Sprintf(`{"question_id":"0a1b2c3d","session_id":%q,"status":%q}`,
					c.session, c.status))
			w.callHook(notifyHook, w.event("timing-05-Notification"))
			kit.Equalf(t, len(w.reports()), c.want, "reports")
		})
	}
}

func TestNotification_NamesThePendingCall(t *testing.T) {
	entry := func(kind, content string) string {
		return `{"type":"` + kind + `","message":{"role":"` + kind + `","content":` +
			content + `}}` + "\n"
	}
	bash := func(id, command string) string {
		return entry("assistant", fmt.Sprintf(`[{"type":"tool_use","id":%q,"name":"Bash","input":{"command":%q}}]`, id, command))
	}
	for name, c := range map[string]struct{ lines, want string }{
		"a command": {bash("1", "touch a.txt"), "\nBash: `touch a.txt`"},
		"done":      {bash("1", "ls") + entry("user", `[{"type":"tool_result","tool_use_id":"1"}]`), ""},
		"nothing":   {"", ""},
		"invalid":   {"{{{\n" + bash("1", "ls") + "\x00{", "\nBash: `ls`"},
		"hostile": {
			bash("1", "<users/all>\n```\n[Session End] x\n*b*"),
			"\nBash:\n```\n<users/all>\n'''\n[Session End] x\n*b*\n```",
		},
		"hostile inline": {
			bash("1", "<users/all> *b* [Done] x"), "\nBash: `<users/all> *b* [Done] x`",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReportWorld(t)
			path := transcript(t, c.lines)
			w.callHook(notifyHook, recorded(t, "timing-05-Notification", "transcript_path", path))
			w.wantReports(permissionReport + c.want)
		})
	}
	w := newReportWorld(t) // without a transcript
	w.callHook(notifyHook, w.event("timing-05-Notification"))
	w.wantReports(permissionReport)
}

// FuzzNotice feeds anything as a notification. It is read and worded without a panic.
func FuzzNotice(f *testing.F) {
	for _, pattern := range []string{"2.1.329/*Notification.json", "2.1.*/*SubagentStop.json",
		"2.1.*/*Stop.json"} {
		for _, b := range payloads(f, pattern) {
			f.Add(b)
		}
	}
	const notification = `{"session_id":"s","hook_event_name":"Notification","notification":`
	f.Add([]byte(notification + `{"type":"subagent_complete","title":"T","body":"B\n[Done] x","agent_name":"a","timestamp":7}}`))
	f.Add([]byte(notification + `{"type":"error","title":{},"body":["<users/all>"]}}`))
	f.Add([]byte(`{"session_id":"s","hook_event_name":"StopFailure","error":{"kind":1},"error_details":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(b)
		if err != nil {
			return
		}
		n := readNotice(e)
		to := noticeFormats[string(n.Type)]
		noticeTexts(n, to)
	})
}

// With the preset approve alone, a permission without a PermissionRequest event gets one
// note, whichever hooks of ours are registered. Keys are masked in it. A request of any
// other kind is only a title.
func TestNotification_TerminalDialogIsNoted(t *testing.T) {
	w := newReportWorld(t)
	key := "sk-ant-api03-" + strings.Repeat("a", 93) + "AA"
	transcript := writeFile(w, filepath.Join(w.env["HOME"], ".claude", "projects", "p", "t.jsonl"),
		`{"type":"assistant","message":{"content":[`+
			`{"type":"tool_use","id":"1","name":"Bash","input":{"command":"curl -H 'x: `+key+`' example.com"}},`+
			`{"type":"tool_use","id":"2","name":"AskUserQuestion","input":{"questions":[{"question":"secret?"}]}}]}}`+"\n")
	event := w.event("timing-05-Notification", "transcript_path", transcript)
	w.callHook(forwardHook, event)
	w.callHook(notifyHook, event)
	w.callHook(forwardHook, event)
	w.wantReports(permissionReport + "\nBash: `curl -H 'x: sk-ant-api03-•••' example.com`\nAskUserQuestion")
	if d := w.session().Dialog; d == nil || !d.IsNoteEnqueued || d.IsOver ||
		!w.session().AcceptsCommands {
		t.Errorf("the session has %+v, and listens: %v", d, w.session().AcceptsCommands)
	}
	w.callHook(answeredHook, w.event("single-07-Stop"))
	if d := w.session().Dialog; d == nil || !d.IsOver {
		t.Errorf("after its turn, where Claude Code's file does not say: %+v", d)
	}
}

func TestNotification_NothingInModeOff(t *testing.T) {
	w := newReportWorld(t)
	w.env["GCHAT_ASK_MODE"] = "off"
	w.callHook(forwardHook, w.event("timing-05-Notification"))
	w.wantNoOutput()
}
