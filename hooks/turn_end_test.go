package hooks

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func TestTurnEnd_TextEndsInQuestion(t *testing.T) {
	for text, want := range map[string]bool{
		"Shall I?": true, "Done. *Shall I go on?*\n": true, "コミットしますか？": true,
		`He said "why?"`: true, "Done.": false, "Why? Because.": false, "": false,
	} {
		kit.Equalf(t, endsInQuestion(text), want, "%q", text)
	}
}

// A turn that ends without a question leaves one line. If the person is asked for the
// next instruction, that question replaces the line.
func TestTurnEnd_LeavesALine(t *testing.T) {
	const done = "Done, all tests pass.\n\nThe *details* are in the log."
	long := strings.Repeat("word ", 100)
	for name, c := range map[string]struct {
		text   string
		config string
		want   string // "": none
	}{
		"a text": {done, "", "[Turn Done] orch-epic4\n`Done, all tests pass. The *details* are in the log.`"},
		"a long text": {long, "", "[Turn Done] orch-epic4\n" + strings.Repeat("word ",
			39) + "word…"},
		"a question":      {"Shall I commit?", "", ""},
		"every end waits": {done, `{"idle":"on"}`, ""},
		"no end waits": {"Shall I commit?", `{"idle":"off"}`,
			"[Turn Done] orch-epic4\nShall I commit?"},
		"switched off": {done, `{"reports":{"turn_done":"off"}}`, ""},
		"a key in it": {"The key is sk-ant-api03-" + strings.Repeat("a", 93) + "AA.", "",
			"[Turn Done] orch-epic4\nThe key is sk-ant-api03-•••."},
		"without a text": {"", "", "[Turn Done] orch-epic4"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReportWorld(t)
			w.writeConfig(c.config)
			w.callHook(sessionHook, w.event("single-02-UserPromptSubmit"))
			beginning := reportText(w.reports()[0].Report)
			w.env["TMUX_PANE"] = "%1" // the poller would type the answer, so the hook does not wait
			w.callHook(rewakeHook, w.event("single-07-Stop", "last_assistant_message", c.text))
			w.wantReports(nonEmpty(beginning, c.want)...)
		})
	}
}

// If a session gets nothing from a thread, its turns leave no lines.
func TestTurnEnd_QuietSessionLeavesNothing(t *testing.T) {
	w := newReportWorld(t)
	w.callHook(rewakeHook, w.event("single-07-Stop", "last_assistant_message", "Done."))
	w.wantReports()
}

// The line, and the question for the next instruction, say what the transcript tells of
// the turn, and nothing else.
func TestTurnEnd_SaysFigures(t *testing.T) {
	since := time.Now().Add(-252 * time.Second)
	message := func(content any, tokens int) string {
		line := assistantLine(t, since, map[string]any{"type": "x"})
		b := kit.JSON(t, content)
		usage := fmt.Sprintf(`],"usage":{"input_tokens":2,"cache_read_input_tokens":%d}`, tokens)
		line = strings.Replace(line, `[{"type":"x"}]`, "["+string(b)+"]", 1)
		return strings.Replace(line, "]", usage, 1)
	}
	prompt := entryLine(t, "user", since, "go")
	bash := message(call("1", "Bash", map[string]any{"command": "ls"}), 83_600)
	for name, c := range map[string]struct{ lines, want string }{
		"a turn":            {prompt + strings.Repeat(bash, 3), "4m, 3 tool calls, context 84k tokens"},
		"one call":          {prompt + message(call("1", "Read", nil), 838), "4m, 1 tool call, context 840 tokens"},
		"only words":        {prompt + entryLine(t, "assistant", since, "Hello."), "4m"},
		"without its start": {bash, "context 84k tokens"},
		"nothing":           {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := transcript(t, c.lines)
			w := newReportWorld(t)
			w.callHook(sessionHook, w.event("single-02-UserPromptSubmit"))
			beginning := reportText(w.reports()[0].Report)
			w.env["TMUX_PANE"] = "%1"
			w.callHook(rewakeHook, w.event("single-07-Stop", "last_assistant_message", "Done.",
				"transcript_path", path))
			want := strings.TrimSpace("[Turn Done] orch-epic4\nDone.\n\n" + c.want)
			w.wantReports(beginning, want)
			w.callHook(rewakeHook, w.event("single-07-Stop", "last_assistant_message", "Shall I?",
				"transcript_path", path))
			questions, _ := state.QuestionsIn(state.SpareStateDir(w.getenv)).All()
			kit.Must(t, len(questions) == 1, "%d questions", len(questions))
			kit.Equal(t, questions[0].TurnFigures, c.want)
		})
	}
}

// A usage limit that stopped a session is over once a turn ends as it should.
func TestTurnEnd_EndsUsageLimit(t *testing.T) {
	w := newReportWorld(t)
	w.callHook(sessionHook, w.event("single-02-UserPromptSubmit"))
	failed := w.event("single-07-Stop", "hook_event_name", "StopFailure", "error", "rate_limit",
		"last_assistant_message", "You've hit your weekly limit · resets Dec 2, 1:24pm (UTC)")
	w.callHook(notifyHook, failed)
	limit := func() time.Time {
		sessions, _ := state.SessionsIn(state.UserStateDir(w.getenv)).All()
		kit.Must(t, len(sessions) == 1, "%d sessions", len(sessions))
		return sessions[0].UsageLimitUntil
	}
	kit.True(t, limit().After(time.Now()), "after the failure: %v", limit())
	w.env["TMUX_PANE"] = "%1"
	w.callHook(rewakeHook, w.event("single-07-Stop", "last_assistant_message", "Done."))
	kit.True(t, limit().IsZero(), "after a turn: %v", limit())
}

// Two turns may end within seconds, with the same text. Each end asks a question of its
// own. The hooks of two installs ask one question at one end.
func TestTurnEnd_ShortTurnsAskAgain(t *testing.T) {
	w := newReportWorld(t)
	w.env["TMUX_PANE"] = "%1" // the poller would type the answer, so the hook does not wait
	for _, prompt := range []string{"p1", "p1", "p2"} {
		w.callHook(rewakeHook, w.event("single-07-Stop", "last_assistant_message", "Shall I?",
			"prompt_id", prompt))
	}
	var ends []string
	questions, _ := state.QuestionsIn(state.SpareStateDir(w.getenv)).All()
	for _, q := range questions {
		ends = append(ends, string(q.Status)+" "+q.ResolvedBy)
	}
	slices.Sort(ends)
	kit.Equal(t, strings.Join(ends, ", "), "cancelled instead, pending ")
}
