package hooks

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// These are the names of our hooks.
const (
	forwardHook  = "gchat-ask-user-forward"
	answeredHook = "gchat-ask-user-answered"
	rewakeHook   = "gchat-ask-user-rewake"
	notifyHook   = "gchat-notification-dispatch"
	sessionHook  = "gchat-session-event"
	gateHook     = "gchat-stop-gate"
)

// hookProcess is a hook that runs.
type hookProcess struct {
	*exec.Cmd
	w        *world
	out, err bytes.Buffer
	done     chan struct{}
}

// startHook runs a hook with an event, as Claude Code does.
func (w *world) startHook(name string, event []byte, wrap ...string) *hookProcess {
	w.Helper()
	argv, env := append(slices.Clone(wrap), program, "hook", name), w.environ()
	if w.chat == nil {
		argv, env = append(slices.Clone(wrap), os.Args[0]), append(env, hookNameVariable+"="+name)
	}
	p := &hookProcess{Cmd: exec.Command(argv[0], argv[1:]...), w: w, done: make(chan struct{})}
	p.Env, p.Dir, p.Stdin, p.Stdout, p.Stderr = env, w.env["CLAUDE_PROJECT_DIR"],
		bytes.NewReader(event), &p.out, &p.err
	// A detached poller must not keep the test waiting. It has none of our descriptors,
	// and this proves it.
	p.WaitDelay = testTimeout
	kit.NoError(w, p.Start())
	go func() {
		_ = p.Wait()
		close(p.done)
	}()
	w.Cleanup(p.kill)
	return p
}

func (w *world) runHook(name string, event []byte) string {
	w.Helper()
	return w.startHook(name, event).awaitOutput()
}

// awaitEnd waits for the hook's end.
func (p *hookProcess) awaitEnd() {
	p.w.Helper()
	select {
	case <-p.done:
	case <-time.After(testTimeout):
		p.w.Fatalf("%v does not end:\n%s", p.Args, bound.Kill(p.Process.Pid))
	}
}

// awaitOutput waits for the hook's end and returns what it printed; its exit code must be
// 0 and its stderr empty.
func (p *hookProcess) awaitOutput() string {
	p.w.Helper()
	p.awaitEnd()
	kit.Equalf(p.w, p.ProcessState.ExitCode(), 0, "%v ended with", p.Args)
	kit.Equalf(p.w, p.err.String(), "", "stderr of %v", p.Args)
	return p.out.String()
}

// awaitWakeText waits for the end of a rewake hook. It returns the text that wakes the
// session, or "" if the hook ended quietly.
func (p *hookProcess) awaitWakeText() string {
	p.w.Helper()
	p.awaitEnd()
	switch code := p.ProcessState.ExitCode(); {
	case p.out.Len() > 0, code == 0 && p.err.Len() > 0, code == 2 && p.err.Len() == 0, code != 0 && code != 2:
		p.w.Errorf("%v: exit %d, stdout %q, stderr %q", p.Args, code, &p.out, &p.err)
	}
	return p.err.String()
}

// hasEnded reports whether the hook has ended.
func (p *hookProcess) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the hook with -9.
func (p *hookProcess) kill() {
	_ = p.Process.Kill()
	<-p.done
}

func terminate(p *hookProcess) { _ = p.Process.Signal(syscall.SIGTERM) }

// printedDecision is the output of a PermissionRequest hook.
type printedDecision struct {
	HookOutput struct {
		Event    string `json:"hookEventName"`
		Decision struct {
			Behavior string          `json:"behavior"`
			Input    json.RawMessage `json:"updatedInput"`
		} `json:"decision"`
	} `json:"hookSpecificOutput"`
}

// readAnswers reads the decision that a hook printed.
func (w *world) readAnswers(out string) map[string]string {
	w.Helper()
	var d printedDecision
	var in struct {
		Answers map[string]string `json:"answers"`
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		w.Fatalf("no decision in %q: %v", out, err)
	}
	kit.Must(w, d.HookOutput.Event == "PermissionRequest" &&
		d.HookOutput.Decision.Behavior == "allow", "not an allow: %s", out)
	kit.NoError(w, json.Unmarshal(d.HookOutput.Decision.Input, &in))
	return in.Answers
}

// wantAnswer checks which answer to the recorded question a hook prints.
func (p *hookProcess) wantAnswer(want string) {
	p.w.Helper()
	kit.Equalf(p.w, p.w.readAnswers(p.awaitOutput())[singleQuestion], want, "answered")
}

// readDecision reads what a hook printed for a permission.
func readDecision(out string) (behavior, message string) {
	var d struct {
		Out struct {
			Decision struct{ Behavior, Message string }
		} `json:"hookSpecificOutput"`
	}
	_ = json.Unmarshal([]byte(out), &d)
	return d.Out.Decision.Behavior, d.Out.Decision.Message
}

// wantDecision checks what a hook decides about a permission. It ignores the reason if
// message is "".
func (p *hookProcess) wantDecision(behavior, message string) {
	p.w.Helper()
	gotBehavior, gotMessage := readDecision(p.awaitOutput())
	kit.Equalf(p.w, gotBehavior, behavior, "behavior")
	if message != "" {
		kit.Equalf(p.w, gotMessage, message, "reason")
	}
}

// newHook returns a hook of this process, which is to be given events directly.
func (w *world) newHook() *Hook {
	return &Hook{Env: w.getenv, log: state.NewLog(w.getenv, "test")}
}

// callHook runs a hook in this process, and returns what it prints. It starts no poller.
func (w *world) callHook(name string, event []byte) string {
	w.Helper()
	var out, errs bytes.Buffer
	h := &Hook{Name: name, Stdin: bytes.NewReader(event), Stdout: &out,
		Stderr: &errs, Env: w.getenv}
	kit.Equalf(w, h.Run(), 0, "%s ended with", name)
	kit.Equalf(w, errs.String(), "", "stderr of %s", name)
	return out.String()
}

// recorded is an event that Claude Code 2.1.329 sent, with some members set; nil removes
// one.
func recorded(t testing.TB, name string, kv ...any) []byte {
	t.Helper()
	event := kit.ReadFile(t, filepath.Join("testdata", "2.1.329", name+".json"))
	return setMembers(t, []byte(event), kv...)
}

// setMembers returns an event with some members set; nil removes one.
func setMembers(t testing.TB, event []byte, kv ...any) []byte {
	t.Helper()
	var members map[string]any
	kit.NoError(t, json.Unmarshal(event, &members))
	for i := 0; i < len(kv); i += 2 {
		name := kv[i].(string)
		members[name] = kv[i+1]
		if kv[i+1] == nil {
			delete(members, name)
		}
	}
	return kit.JSON(t, members)
}

// event is an event of the session sess-1 in the world's project.
func (w *world) event(name string, kv ...any) []byte {
	w.Helper()
	return recorded(w, name, append([]any{
		"session_id", "sess-1", "cwd", w.env["CLAUDE_PROJECT_DIR"], "transcript_path",
		filepath.Join(w.dir, "sess-1.jsonl"),
	}, kv...)...)
}

// namedEvent is an event of a session that is about no tool.
func namedEvent(t testing.TB, name, session string, kv ...any) []byte {
	members := []any{"hook_event_name", name, "session_id", session, "tool_name", ""}
	return recorded(t, "single-05-PostToolUse", append(members, kv...)...)
}

const singleQuestion = "Which deployment approach should we use?"

// questionEvent is a PreToolUse event of a session that asks a question.
func questionEvent(t testing.TB, session, call, question string, labels ...string) []byte {
	var options []map[string]string
	for _, l := range labels {
		options = append(options, map[string]string{"label": l, "description": "about " + l})
	}
	return recorded(t, "single-03-PreToolUse", "session_id", session, "tool_use_id", call,
		"tool_input", map[string]any{
			"questions": []any{map[string]any{"question": question, "header": "Pick",
				"options": options, "multiSelect": false}},
		})
}

// answeredEvent is a PostToolUse of the recorded call with this answer.
func answeredEvent(t testing.TB, answer string, kv ...any) []byte {
	response := map[string]any{"answers": map[string]string{singleQuestion: answer}}
	return recorded(t, "single-05-PostToolUse", append([]any{"tool_response", response}, kv...)...)
}

// planEvent is a PermissionRequest for a plan.
func planEvent(t testing.TB, session, plan string) []byte {
	return namedEvent(t, "PermissionRequest", session, "tool_name", "ExitPlanMode", "tool_input",
		map[string]any{"plan": plan})
}

// permissionEvent is a PermissionRequest for a shell command.
func permissionEvent(t testing.TB, session, command string) []byte {
	return namedEvent(t, "PermissionRequest", session, "tool_name", "Bash", "tool_input",
		shellInput(command))
}

func shellInput(command string) map[string]any {
	return map[string]any{"command": command, "description": "Run it"}
}

// batchEvent is the PostToolBatch with the result of a shell command.
func batchEvent(t testing.TB, session, command, response string) []byte {
	call := map[string]any{
		"tool_name": "Bash", "tool_use_id": "x", "tool_response": response,
		"tool_input": shellInput(command),
	}
	return namedEvent(t, "PostToolBatch", session, "tool_calls", []any{call})
}

// newGate returns a world whose session is in deny mode and therefore guarded.
func newGate(t testing.TB) *world {
	t.Helper()
	w := newReportWorld(t)
	delete(w.env, "CLAUDE_SESSION_ID")
	w.env["GCHAT_ASK_MODE"] = "deny"
	return w
}

// gateVerdict is what the gate printed.
type gateVerdict struct {
	Decision      string `json:"decision"`
	Reason        string `json:"reason"`
	SystemMessage string `json:"systemMessage"`
}

// runGate has the session sess-1 stop, with some members of its event set, and returns
// the verdict.
func (w *world) runGate(kv ...any) (v gateVerdict) {
	w.Helper()
	out := w.callHook(gateHook, setMembers(w, w.event("single-07-Stop"), kv...))
	if out == "" {
		return v
	}
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil || d.More() {
		w.Fatalf("printed %q: %v", out, err)
	}
	kit.Must(w, v != (gateVerdict{}) && (v.Decision == "" || v.Decision == "block") &&
		(v.Decision == "") == (v.Reason == ""), "printed %q", out)
	return v
}

// wantBlock has the session sess-1 stop, and checks whether the gate blocks.
func (w *world) wantBlock(want bool, kv ...any) {
	w.Helper()
	v := w.runGate(kv...)
	kit.Equalf(w, v.Decision == "block", want, "blocks: %+v", v)
}
