package hooks_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// newAgentWorld returns a world whose permissions are asked in Chat.
func newAgentWorld(t *testing.T) *world {
	w := newWorldWithoutPoller(t)
	w.env["GOOGLE_CHAT_WEBHOOK_URL"] = "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"
	w.env["GCHAT_ALLOWED_USERS"] = ann.Name
	return w
}

// withMembers returns an event with some members set.
func withMembers(t *testing.T, event []byte, kv ...any) []byte {
	t.Helper()
	var e map[string]any
	kit.NoError(t, json.Unmarshal(event, &e))
	for i := 0; i < len(kv); i += 2 {
		e[kv[i].(string)] = kv[i+1]
	}
	b, err := json.Marshal(e)
	kit.NoError(t, err)
	return b
}

// onlyPermission returns the one permission that is recorded.
func (w *world) onlyPermission() *state.Question {
	w.Helper()
	qs, loadErrs := state.ReadIndexedQuestions(w.getenv)
	if len(qs) != 1 || len(loadErrs) > 0 {
		w.Fatalf("%d records, %v", len(qs), loadErrs)
	}
	return qs[0]
}

// startPermission has an agent ask for a permission, and waits until its hook waits.
func (w *world) startPermission(t *testing.T, agentID string) (*hookProcess, *state.Question) {
	w.Helper()
	return w.awaitOnlyPermission(w.startHook(forwardHook, withMembers(t, permissionEvent(w, "s-1", "mkdir out"), "agent_id", agentID, "agent_type", "Explore")))
}

// awaitOnlyPermission waits until a hook waits for the one question that is open.
func (w *world) awaitOnlyPermission(p *hookProcess) (*hookProcess, *state.Question) {
	w.Helper()
	var q *state.Question
	w.waitUntil("the hook", func() bool {
		qs, _ := state.ReadIndexedQuestions(w.getenv)
		if len(qs) == 1 {
			q = qs[0]
		}
		return q != nil && state.HasWaiter(w.getenv, q.Path)
	})
	return p, q
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
		"its batch":              {"PostToolBatch", []any{"agent_id", "a1"}, state.Resolved, "terminal"},
		"its batch, after clear": {"PostToolBatch", []any{"agent_id", "a1", "session_id", "s-9"}, state.Resolved, "terminal"},
		"it was denied": {"PermissionDenied", []any{"agent_id", "a1", "tool_name", "Bash", "tool_input", denied, "tool_use_id", "x"},
			state.Resolved, "terminal"},
		"its end":             {"SubagentStop", []any{"agent_id", "a1"}, state.Cancelled, "agent_end"},
		"the session's end":   {"SessionEnd", []any{"reason", "prompt_input_exit"}, state.Cancelled, "session_end"},
		"a prompt":            {"UserPromptSubmit", []any{"prompt", "go on"}, state.Pending, ""},
		"a turn's end":        {"Stop", nil, state.Pending, ""},
		"a turn that broke":   {"StopFailure", nil, state.Pending, ""},
		"a clear":             {"SessionEnd", []any{"reason", "clear"}, state.Pending, ""},
		"a resume":            {"SessionEnd", []any{"reason", "resume"}, state.Pending, ""},
		"another agent's end": {"SubagentStop", []any{"agent_id", "a2"}, state.Pending, ""},
		"the session's batch": {"PostToolBatch", nil, state.Pending, ""},
		"a task is done":      {"UserPromptSubmit", []any{"prompt", "<task-notification>x</task-notification>"}, state.Pending, ""},
		"another was stopped": {"UserPromptSubmit", []any{"prompt", `Background agent "other" was stopped by the user.`}, state.Pending, ""},
		"agent was stopped":   {"UserPromptSubmit", []any{"prompt", `Background agent "help" was stopped by the user.`}, state.Cancelled, "agent_end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAgentWorld(t)
			_, q := w.startPermission(t, "a1")
			if !q.IsDialogHidden || q.AgentType != "Explore" {
				t.Fatalf("hidden %v, of %q", q.IsDialogHidden, q.AgentType)
			}
			w.changeQuestion(q, func(q *state.Question) {
				if name == "agent was stopped" || name == "another was stopped" {
					q.AgentTask = "help"
					q.HandOver(q.AskedAt)
				}
			})
			e := namedEvent(w, c.event, "s-1", c.kv...)
			if c.event == "PostToolBatch" {
				e = withMembers(t, batchEvent(w, "s-1", "mkdir out", "done"), c.kv...)
			}
			w.runHook(answeredHook, e)
			current, err := state.LoadQuestion(q.Path)
			kit.NoError(t, err)
			if current.Status != c.status || current.ResolvedBy != c.by {
				t.Errorf("%s by %q, want %s by %q", current.Status, current.ResolvedBy, c.status, c.by)
			}
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
		"2.1.197, in front":          {begun, `{"description":"help","toolUseId":"toolu_1"}`, false},
		"2.1.197, in the background": {inBackground + launched, `{"description":"help","toolUseId":"toolu_1"}`, true},
		"2.1.197, not written yet":   {inBackground, `{"description":"help","toolUseId":"toolu_1"}`, true},
		"2.1.332, in front":          {begun, `{"description":"help","toolUseId":"toolu_1","requestShape":"foreground"}`, false},
		"2.1.332, in the background": {begun, `{"description":"help","toolUseId":"toolu_1","requestShape":"background"}`, true},
		"sent to the background":     {begun + launched, `{"description":"help","toolUseId":"toolu_1","requestShape":"foreground"}`, true},
		"nothing is known":           {begun, ``, true},
		"of another agent":           {begun, `{"description":"help","toolUseId":"toolu_2"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAgentWorld(t)
			transcript := filepath.Join(w.dir, "projects", "shop", "s-1.jsonl")
			writeFile(t, transcript, c.transcript)
			if c.meta != "" {
				writeFile(t, filepath.Join(w.dir, "projects", "shop", "s-1", "subagents", "agent-a1.meta.json"), c.meta)
			}
			e := withMembers(t, permissionEvent(w, "s-1", "mkdir out"), "agent_id", "a1", "transcript_path", transcript)
			w.startHook(forwardHook, e)
			w.waitUntil("the record", func() bool {
				qs, _ := state.ReadIndexedQuestions(w.getenv)
				return len(qs) == 1
			})
			if q := w.onlyPermission(); q.IsDialogHidden != c.hidden || c.meta != "" && q.AgentTask != "help" {
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
			w := newAgentWorld(t)
			_, q := w.startPermission(t, "a1")
			_, err := state.SessionsIn(state.UserStateDir(w.getenv)).Change("s-1", func(s *state.Session) {
				s.LastTyped = &state.TypedPrompt{Text: "please  go on", TypedAt: time.Now().UTC()}
			})
			kit.NoError(t, err)
			w.runHook(answeredHook, namedEvent(w, "UserPromptSubmit", "s-1", "prompt", c.prompt))
			current, err := state.LoadQuestion(q.Path)
			if err != nil || current.Status != state.Pending || (current.WantedInTerminalAt != nil) != c.wanted {
				t.Errorf("%v: %s, wanted in the terminal: %v", err, current.Status, current.WantedInTerminalAt)
			}
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
			w := newAgentWorld(t)
			w.env["GCHAT_BACKGROUND_WAIT"] = "7s"
			p, q := w.startPermission(t, "a1")
			if isPosted {
				w.markPosted(q)
			}
			kit.Equalf(t, p.awaitOutput(), "", "it printed")
			current, err := state.LoadQuestion(q.Path)
			if err != nil || current.HandedOverAt == nil || current.Status != state.Pending {
				t.Errorf("%v: %s, handed over at %v", err, current.Status, current.HandedOverAt)
			}
			w.wantOwedNotes(q, state.OwedNote{About: state.NoteHandedOver})
		})
	}
}

// A question that was handed over explains Claude Code's own notification of its dialog.
// A hidden question does not.
func TestSubagent_HandedOverIsNotReported(t *testing.T) {
	t.Parallel()
	for _, isOver := range []bool{true, false} {
		w := newAgentWorld(t)
		_, q := w.startPermission(t, "a1")
		if isOver {
			w.changeQuestion(q, func(q *state.Question) { q.HandOver(time.Now()) })
		}
		w.runHook("gchat-notification-dispatch", namedEvent(w, "Notification", "s-1", "notification_type", "permission_prompt", "message", "x"))
		all, err := state.OutboxIn(state.UserStateDir(w.getenv)).All()
		if err != nil || (len(all) == 0) != isOver {
			t.Errorf("handed over %v: %d reports, %v", isOver, len(all), err)
		}
	}
}

// A hook whose dialog the poller hands over ends and prints nothing. A reply that came
// first is printed.
func TestSubagent_HookEndsWhenHandedOver(t *testing.T) {
	t.Parallel()
	for _, isAnswered := range []bool{false, true} {
		w := newAgentWorld(t)
		p, q := w.startPermission(t, "a1")
		w.changeQuestion(q, func(q *state.Question) {
			if isAnswered {
				_ = q.MoveTo(state.Answered, time.Now())
				q.Answers = map[string]string{q.SubQuestions[0].Question: state.LabelAllow}
				q.AnsweredMessage = "spaces/x/messages/reply"
			}
			q.HandOver(time.Now())
		})
		if behavior, _ := readDecision(p.awaitOutput()); (behavior == "allow") != isAnswered {
			t.Errorf("answered %v: it printed %q", isAnswered, behavior)
		}
	}
}
