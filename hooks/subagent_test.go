package hooks

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// startSubagentPermission has the agent a1 ask for a permission, and waits until its hook
// waits.
func (w *world) startSubagentPermission() (*hookProcess, *state.Question) {
	w.Helper()
	event := permissionEvent(w, "s-1", "mkdir out")
	return w.startWaiting(setMembers(w, event, "agent_id", "a1", "agent_type", "Explore"))
}

// A background agent's question ends with that agent's own events and with no other event
// of its session. The session goes on.
func TestSubagent_PermissionEndsByItsEvents(t *testing.T) {
	t.Parallel()
	denied := map[string]any{"command": "mkdir out", "description": "Run it"}
	for name, c := range map[string]struct {
		event  string
		kv     []any
		status state.Status
		by     string
	}{
		"its batch": {"PostToolBatch", []any{"agent_id", "a1"}, state.Resolved, "terminal"},
		"its batch, after clear": {"PostToolBatch", []any{"agent_id", "a1", "session_id", "s-9"},
			state.Resolved, "terminal"},
		"it was denied": {"PermissionDenied",
			[]any{"agent_id", "a1", "tool_name", "Bash", "tool_input", denied, "tool_use_id", "x"},
			state.Resolved, "terminal"},
		"its end": {"SubagentStop", []any{"agent_id", "a1"}, state.Cancelled, "agent_end"},
		"the session's end": {"SessionEnd", []any{"reason", "prompt_input_exit"}, state.Cancelled,
			"session_end"},
		"a prompt":            {"UserPromptSubmit", []any{"prompt", "go on"}, state.Pending, ""},
		"a turn's end":        {"Stop", nil, state.Pending, ""},
		"a turn that broke":   {"StopFailure", nil, state.Pending, ""},
		"a clear":             {"SessionEnd", []any{"reason", "clear"}, state.Pending, ""},
		"a resume":            {"SessionEnd", []any{"reason", "resume"}, state.Pending, ""},
		"another agent's end": {"SubagentStop", []any{"agent_id", "a2"}, state.Pending, ""},
		"the session's batch": {"PostToolBatch", nil, state.Pending, ""},
		"a task is done": {"UserPromptSubmit",
			[]any{"prompt", "<task-notification>x</task-notification>"}, state.Pending, ""},
		"another was stopped": {"UserPromptSubmit",
			[]any{"prompt", `Background agent "other" was stopped by the user.`},
			state.Pending, ""},
		"agent was stopped": {"UserPromptSubmit",
			[]any{"prompt", `Background agent "help" was stopped by the user.`},
			state.Cancelled, "agent_end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPermissionWorld(t)
			_, q := w.startSubagentPermission()
			kit.Must(t, q.IsDialogHidden && q.AgentType == "Explore", "hidden %v, of %q",
				q.IsDialogHidden, q.AgentType)
			if strings.HasSuffix(name, "was stopped") {
				w.changeQuestion(q, func(q *state.Question) {
					q.AgentTask = "help"
					q.HandOver(q.AskedAt)
				})
			}
			e := namedEvent(w, c.event, "s-1", c.kv...)
			if c.event == "PostToolBatch" {
				e = setMembers(t, batchEvent(w, "s-1", "mkdir out", "done"), c.kv...)
			}
			w.runHook(answeredHook, e)
			w.wantEnd(q, c.status, c.by)
		})
	}
}

// If the session waits for an agent's call, the agent's dialog is drawn beside the hook.
// If that is not known, the dialog counts as hidden.
func TestSubagent_WhichDialogIsHidden(t *testing.T) {
	t.Parallel()
	const begun = `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"toolu_1","name":"Agent","input":{"prompt":"x"}}]}}` + "\n"
	const inBackground = `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"toolu_1","name":"Agent","input":{"run_in_background":true}}]}}` + "\n"
	const launched = `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"Async agent launched"}]}}` + "\n"
	for name, c := range map[string]struct {
		transcript, meta string
		hidden           bool
	}{
		"2.1.197, in front": {begun, `{"description":"help","toolUseId":"toolu_1"}`, false},
		"2.1.197, in the background": {inBackground + launched,
			`{"description":"help","toolUseId":"toolu_1"}`, true},
		"2.1.197, not written yet": {inBackground,
			`{"description":"help","toolUseId":"toolu_1"}`, true},
		"2.1.332, in front": {begun,
			`{"description":"help","toolUseId":"toolu_1","requestShape":"foreground"}`, false},
		"2.1.332, in the background": {begun,
			`{"description":"help","toolUseId":"toolu_1","requestShape":"background"}`, true},
		"sent to the background": {begun + launched,
			`{"description":"help","toolUseId":"toolu_1","requestShape":"foreground"}`, true},
		"nothing is known": {begun, ``, true},
		"of another agent": {begun, `{"description":"help","toolUseId":"toolu_2"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPermissionWorld(t)
			transcript := filepath.Join(w.dir, "projects", "shop", "s-1.jsonl")
			writeFile(t, transcript, c.transcript)
			if c.meta != "" {
				writeFile(t, filepath.Join(w.dir, "projects", "shop", "s-1", "subagents",
					"agent-a1.meta.json"), c.meta)
			}
			e := setMembers(t, permissionEvent(w, "s-1", "mkdir out"), "agent_id", "a1",
				"transcript_path", transcript)
			w.startHook(forwardHook, e)
			if q := w.awaitOne(w.indexed); q.IsDialogHidden != c.hidden || c.meta != "" &&
				q.AgentTask != "help" {
				t.Errorf("hidden %v, its task %q", q.IsDialogHidden, q.AgentTask)
			}
		})
	}
}

// A prompt at the keyboard shows that a person is there. A prompt from Chat or of Claude
// Code's own does not.
func TestSubagent_PromptAtTheKeyboard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prompt string
		wanted bool
	}{
		"a person's":           {"what is that agent doing?", true},
		"the poller's":         {"please go on", false},
		"a task is done":       {"<task-notification>\n<task-id>a</task-id></task-notification>", false},
		"a wake":               {"<task-notification>\n<summary>Stop hook feedback</summary>\n</task-notification>\n<system-reminder>x</system-reminder>", false},
		"an agent was stopped": {`Background agent "other" was stopped by the user.`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPermissionWorld(t)
			_, q := w.startSubagentPermission()
			w.changeSession("s-1", func(s *state.Session) {
				s.LastTyped = &state.TypedPrompt{Text: "please  go on", TypedAt: time.Now().UTC()}
			})
			w.runHook(answeredHook, namedEvent(w, "UserPromptSubmit", "s-1", "prompt", c.prompt))
			w.wantEnd(q, state.Pending, "")
			kit.Equalf(t, w.reload(q).WantedInTerminalAt != nil, c.wanted, "wanted in the terminal")
		})
	}
}

// If no poller serves it, the hook itself hands a hidden dialog to the terminal: when it
// was not posted in time, or after background_wait. The hook prints nothing then.
func TestSubagent_HookHandsOverByItself(t *testing.T) {
	t.Parallel()
	for name, isPosted := range map[string]bool{"in no thread": false, "in its thread": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPermissionWorld(t)
			w.env["GCHAT_BACKGROUND_WAIT"] = "7s"
			p, q := w.startSubagentPermission()
			if isPosted {
				w.markPosted(q)
			}
			kit.Equalf(t, p.awaitOutput(), "", "it printed")
			w.wantEnd(q, state.Pending, "")
			kit.True(t, w.reload(q).HandedOverAt != nil, "not handed over")
			w.wantOwedNotes(q, state.OwedNote{About: state.NoteHandedOver})
		})
	}
}

// A question that was handed over explains Claude Code's own notification of its dialog.
// A hidden question does not.
func TestSubagent_HandedOverIsNotReported(t *testing.T) {
	t.Parallel()
	for _, isOver := range []bool{true, false} {
		w := newPermissionWorld(t)
		_, q := w.startSubagentPermission()
		if isOver {
			w.changeQuestion(q, func(q *state.Question) { q.HandOver(time.Now()) })
		}
		w.runHook(notifyHook, namedEvent(w, "Notification", "s-1", "notification_type",
			"permission_prompt", "message", "x"))
		kit.Equalf(t, len(w.reports()) == 0, isOver, "no reports")
	}
}

// A hook whose dialog the poller hands over ends and prints nothing. A reply that came
// first is printed.
func TestSubagent_HookEndsWhenHandedOver(t *testing.T) {
	t.Parallel()
	for _, isAnswered := range []bool{false, true} {
		w := newPermissionWorld(t)
		p, q := w.startSubagentPermission()
		w.changeQuestion(q, func(q *state.Question) {
			if isAnswered {
				_ = q.MoveTo(state.Answered, time.Now())
				q.Answers = map[string]string{q.SubQuestions[0].Question: state.LabelAllow}
				q.AnsweredMessage = "spaces/x/messages/reply"
			}
			q.HandOver(time.Now())
		})
		p.wantDecision(map[bool]string{true: "allow"}[isAnswered], "")
	}
}
