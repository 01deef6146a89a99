package hooks

import (
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// A hook that neither asks nor reports reads no policy. It does not even log that a
// policy cannot be read.
func TestPolicy_IdleHooksReadNone(t *testing.T) {
	for name, c := range map[string]struct {
		hook, event, tool string
		variable          [2]string
	}{
		"off": {forwardHook, "single-03-PreToolUse", "AskUserQuestion",
			[2]string{"GCHAT_ASK_MODE", "off"}},
		"another tool":  {forwardHook, "timing-03-PreToolUse", "Bash", [2]string{}},
		"answered":      {answeredHook, "single-05-PostToolUse", "AskUserQuestion", [2]string{}},
		"a turn's end":  {rewakeHook, "single-07-Stop", "", [2]string{}},
		"a start":       {sessionHook, "single-01-SessionStart", "", [2]string{}},
		"an end":        {sessionHook, "timing-10-SessionEnd", "", [2]string{}},
		"a stop":        {gateHook, "single-07-Stop", "", [2]string{}},
		"what is quiet": {notifyHook, "timing-09-Notification", "", [2]string{}},
		"no webhook": {forwardHook, "single-04-PermissionRequest", "Bash",
			[2]string{"GOOGLE_CHAT_WEBHOOK_URL", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReportWorld(t).withVariables(c.variable[0], c.variable[1])
			w.writePolicy("")
			w.callHook(c.hook, w.event(c.event, "tool_name", c.tool))
			w.wantLogged("policy", 0)
		})
	}
}

// What a policy keeps in the terminal is not reported either. If a policy shows titles
// only, a permission's report does not say what it is about.
func TestPolicy_ReportsUnderOne(t *testing.T) {
	for name, test := range map[string]struct{ policy, want string }{
		"none":           {`{}`, permissionReport + "\nBash: `touch a.txt`"},
		"titles only":    {`{"titles_only": true}`, permissionReport},
		"no reports":     {`{"terminal_only": ["report"]}`, ""},
		"no permissions": {`{"terminal_only": ["permission"]}`, ""},
		"no questions": {`{"terminal_only": ["question", "plan", "next", "said"]}`,
			permissionReport + "\nBash: `touch a.txt`"},
		"that cannot be read": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReportWorld(t)
			w.writePolicy(test.policy)
			path := transcript(t, assistantLine(t, time.Now(),
				call("1", "Bash", map[string]any{"command": "touch a.txt"})))
			w.callHook(notifyHook, recorded(t, "timing-05-Notification", "transcript_path", path))
			w.wantReports(nonEmpty(test.want)...)
			kit.Equalf(t, strings.Contains(w.log(), "read policy"),
				test.policy == "", "%s", w.log())
		})
	}
}

// If a policy keeps questions in the terminal, the session may stop, since no record
// shows them. If it keeps next instructions there, too, the session is not asked for one.
func TestPolicy_StopUnderOne(t *testing.T) {
	for policy, blocked := range map[string]bool{`{}`: true,
		`{"terminal_only": ["question"]}`: false, `{"terminal_only": ["plan"]}`: true} {
		w := newGate(t)
		w.writePolicy(policy)
		w.wantBlock(blocked)
	}
	for policy, asks := range map[string]bool{`{}`: true,
		`{"terminal_only": ["next"]}`: false, ``: false} {
		w := newReportWorld(t)
		w.env["GCHAT_IDLE"] = "on"
		w.writePolicy(policy)
		event := w.event("single-07-Stop", "last_assistant_message", "Done. What next?")
		q, err := w.newHook().askNextInstruction(t.Context(), eventOf(t, event))
		kit.NoError(t, err)
		kit.Equalf(t, q != nil, asks, "%s: asks", policy)
	}
}

// A question that a policy keeps in the terminal is not asked in Chat. Its hook ends at
// once and writes nothing. If a policy cannot be read, that goes for every kind and mode.
func TestPolicy_TerminalOnlyAsksNothing(t *testing.T) {
	for name, test := range map[string]struct {
		policy, mode string
		event        []byte
	}{
		"a question": {`{"terminal_only": ["question"]}`, "native",
			recorded(t, "single-03-PreToolUse")},
		"a question's dialog": {`{"terminal_only": ["question"]}`, "native",
			recorded(t, "single-04-PermissionRequest")},
		"a question, hold": {`{"terminal_only": ["question"]}`, "hold",
			recorded(t, "single-03-PreToolUse")},
		"a question, deny": {`{"terminal_only": ["question"]}`, "deny",
			recorded(t, "single-03-PreToolUse")},
		"a permission": {`{"terminal_only": ["permission"]}`, "native",
			permissionEvent(t, "s-1", "make")},
		"a plan":               {`{"terminal_only": ["plan"]}`, "native", planEvent(t, "s-1", "Read")},
		"broken: a question":   {`{`, "hold", recorded(t, "single-03-PreToolUse")},
		"broken: a permission": {`{`, "native", permissionEvent(t, "s-1", "make")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.env["GOOGLE_CHAT_WEBHOOK_URL"], w.env["GCHAT_ASK_MODE"] = webhookURL, test.mode
			w.writePolicy(test.policy)
			kit.Equalf(t, w.runHook(forwardHook, test.event), "", "printed")
			kit.Equalf(t, len(w.indexed()), 0, "records")
			logged := strings.Contains(w.log(), "nothing is asked in Chat")
			kit.Equalf(t, logged, test.policy == "{", "log: %s", w.log())
		})
	}
}

// If a policy shows titles only, no message says what a permission or a plan is about. An
// approval does not count, and a denial does.
func TestPolicy_TitlesOnlyHidesContent(t *testing.T) {
	t.Parallel()
	w := newChatWorld(t)
	w.writePolicy(`{"titles_only": true}`)
	edit := map[string]any{
		"file_path": "hidden-word.go", "old_string": "a", "new_string": "tables",
		"description": "Run it",
	}
	command := permissionEvent(w, "s-1", "deploy --to hidden-word")
	for _, e := range [][]byte{
		command,
		planEvent(w, "s-1", "# hidden-word\n\nDrop the tables"),
		setMembers(w, command, "tool_name", "Edit", "tool_input", edit),
	} {
		p, thread := w.askPermission(e)
		for i, reply := range []string{"more", "yes", "always", "yes, auto"} {
			w.sendAsUser(ann, thread, reply)
			w.waitUntil(reply, func() bool {
				return len(w.messagesInThread(thread, "[Not used]")) == i+1
			})
		}
		kit.True(t, w.openPermission().IsTerminalOnly, "it is not the terminal's")
		p.wantUndecided(thread)
		w.runHook(answeredHook, namedEvent(w, "Stop", "s-1"))
		w.waitUntil("the end", func() bool {
			return len(w.messagesInThread(thread, "[Answered]")) > 0
		})
	}
	shown := ""
	for _, m := range w.chat.Messages() {
		shown += m.Text + "\n"
	}
	for _, word := range []string{"hidden-word", "deploy", "tables", "Run it"} {
		kit.True(t, !strings.Contains(shown, word), "%s is in Chat:\n%s", word, shown)
	}
	for _, title := range []string{"Bash", "Edit", "[Plan]", "Only the terminal can allow this."} {
		kit.Contains(t, shown, title)
	}
}

// messagesInThread are the texts of a thread that begin with a prefix.
func (w *world) messagesInThread(thread, prefix string) (texts []string) {
	for _, m := range w.messages(prefix) {
		if m.Thread.Name == thread {
			texts = append(texts, m.Text)
		}
	}
	return texts
}
