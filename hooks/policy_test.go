package hooks_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// writePolicy puts a policy into force on this machine.
func (w *world) writePolicy(text string) {
	w.Helper()
	w.env["GCHAT_POLICY_FILE"] = filepath.Join(w.dir, "policy.json")
	writeFile(w.TB, w.env["GCHAT_POLICY_FILE"], text)
}

// A question that a policy keeps in the terminal is not asked in Chat. Its hook ends at
// once and writes nothing. If a policy cannot be read, that goes for every kind and mode.
func TestPolicy_TerminalOnlyAsksNothing(t *testing.T) {
	for name, test := range map[string]struct {
		policy, mode string
		event        func(*world) []byte
	}{
		"a question":           {`{"terminal_only": ["question"]}`, "native", func(w *world) []byte { return recorded(w, "single-03-PreToolUse") }},
		"a question's dialog":  {`{"terminal_only": ["question"]}`, "native", func(w *world) []byte { return recorded(w, "single-04-PermissionRequest") }},
		"a question, hold":     {`{"terminal_only": ["question"]}`, "hold", func(w *world) []byte { return recorded(w, "single-03-PreToolUse") }},
		"a question, deny":     {`{"terminal_only": ["question"]}`, "deny", func(w *world) []byte { return recorded(w, "single-03-PreToolUse") }},
		"a permission":         {`{"terminal_only": ["permission"]}`, "native", func(w *world) []byte { return permissionEvent(w, "s-1", "make") }},
		"a plan":               {`{"terminal_only": ["plan"]}`, "native", func(w *world) []byte { return planEvent(w, "s-1", "Read") }},
		"broken: a question":   {`{`, "hold", func(w *world) []byte { return recorded(w, "single-03-PreToolUse") }},
		"broken: a permission": {`{`, "native", func(w *world) []byte { return permissionEvent(w, "s-1", "make") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWithoutPoller(t)
			w.env["GOOGLE_CHAT_WEBHOOK_URL"], w.env["GCHAT_ASK_MODE"] = "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t", test.mode
			w.writePolicy(test.policy)
			kit.Equalf(t, w.runHook(forwardHook, test.event(w)), "", "printed")
			if open, _ := state.ReadIndexedQuestions(w.getenv); len(open) > 0 {
				t.Errorf("written down: %+v", open[0])
			}
			if told := strings.Contains(w.log(), "nothing is asked in Chat"); told != (test.policy == "{") {
				t.Errorf("log: %s", w.log())
			}
		})
	}
}

// If a policy shows titles only, no message says what a permission or a plan is about. An
// approval does not count, and a denial does.
func TestPolicy_TitlesOnlyHidesContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.writePolicy(`{"titles_only": true}`)
	edit := permissionEvent(w, "s-1", "")
	edit = bytes.Replace(edit, []byte(`"tool_name":"Bash"`), []byte(`"tool_name":"Edit"`), 1)
	edit = bytes.Replace(edit, []byte(`"command":""`), []byte(`"file_path":"hidden-word.go","old_string":"a","new_string":"tables"`), 1)
	for _, e := range [][]byte{permissionEvent(w, "s-1", "deploy --to hidden-word"), planEvent(w, "s-1", "# hidden-word\n\nDrop the tables"), edit} {
		p, thread := startPermission(w, e)
		for i, reply := range []string{"more", "yes", "always", "yes, auto"} {
			w.sendAsUser(ann, thread, reply)
			w.waitUntil(reply, func() bool { return len(messagesInThread(w, thread, "[Not used]")) == i+1 })
		}
		if q := onlyPermissionOf(w); !q.IsTerminalOnly || q.Status != state.Pending {
			t.Errorf("%+v", q)
		}
		wantUndecided(w, p, thread)
		w.runHook(answeredHook, namedEvent(w, "Stop", "s-1"))
		w.waitUntil("the end", func() bool { return len(messagesInThread(w, thread, "[Answered]")) > 0 })
	}
	shown := ""
	for _, m := range w.chat.Messages() {
		shown += m.Text + "\n"
	}
	for _, word := range []string{"hidden-word", "deploy", "tables", "Run it"} {
		if strings.Contains(shown, word) {
			t.Errorf("%s is in Chat:\n%s", word, shown)
		}
	}
	for _, title := range []string{"Bash", "Edit", "[Plan]", "Only the terminal can allow this."} {
		kit.Contains(t, shown, title)
	}
}

// messagesInThread are the texts of a thread that begin with a prefix.
func messagesInThread(w *world, thread, prefix string) (texts []string) {
	for _, m := range w.messages(prefix) {
		if m.Thread.Name == thread {
			texts = append(texts, m.Text)
		}
	}
	return texts
}
