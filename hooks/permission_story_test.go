package hooks_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// permissionEvent is a PermissionRequest for a shell command.
func permissionEvent(w *world, session, command string) []byte {
	var e map[string]any
	kit.NoError(w, json.Unmarshal(namedEvent(w, "PermissionRequest", session), &e))
	e["tool_name"], e["tool_input"] = "Bash", map[string]any{"command": command, "description": "Run it"}
	b, _ := json.Marshal(e)
	return b
}

// batchEvent is the PostToolBatch with the result of a shell command.
func batchEvent(w *world, session, command, response string) []byte {
	var e map[string]any
	kit.NoError(w, json.Unmarshal(namedEvent(w, "PostToolBatch", session), &e))
	e["tool_calls"] = []map[string]any{{"tool_name": "Bash", "tool_use_id": "x", "tool_response": response,
		"tool_input": map[string]any{"command": command, "description": "Run it"}}}
	b, _ := json.Marshal(e)
	return b
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

// Many sessions ask for permissions at once, while pollers die and Chat fails. Each
// permission gets the decision from its own thread.
//
// With GCHAT_LOAD=1, ten sessions ask for six permissions each, at 60 messages a minute.
func TestFaults_EveryPermissionIsDecided(t *testing.T) {
	t.Parallel()
	sessions, each, pace := 3, 2, "60000"
	if os.Getenv("GCHAT_LOAD") != "" {
		sessions, each, pace = 10, 6, "60"
	}
	x := &troubleMaker{world: newWorld(t), waiting: map[int]*hookProcess{}, stop: make(chan struct{})}
	x.env["GCHAT_WRITES_PER_MINUTE"] = pace
	x.trace.setIntercept(x.interceptBadly)
	var beside, asking sync.WaitGroup
	beside.Go(x.runKiller) // kills pollers only
	beside.Go(func() {
		replied := map[string]bool{}
		for {
			select {
			case <-x.stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			for _, m := range x.messages("[Permission]") {
				if replied[m.Name] {
					continue
				}
				replied[m.Name] = true
				command := strings.Split(m.Text, "\n```\n")[1]
				x.sendAsUser(ann, m.Thread.Name, map[bool]string{true: "yes", false: "no, not " + command}[choice(command) == 0])
			}
		}
	})
	for s := range sessions {
		asking.Go(func() {
			w := x.withVariables("CLAUDE_SESSION_ID", fmt.Sprintf("session-%d", s))
			for n := range each {
				command := fmt.Sprintf("make target-%d-%d", s, n)
				p := w.startHook(forwardHook, permissionEvent(w, fmt.Sprintf("s-%d", s), command))
				select {
				case <-p.done:
				case <-time.After(300 * time.Second):
					x.Errorf("%s: its hook does not end", command)
					return
				}
				behavior, message := readDecision(p.out.String())
				if want := choice(command) == 0; want != (behavior == "allow") || !want && message != "not "+command {
					x.Errorf("%s: %s %q", command, behavior, message)
				}
				w.runHook(answeredHook, batchEvent(w, fmt.Sprintf("s-%d", s), command, message))
			}
		})
	}
	began := time.Now()
	asking.Wait()
	took := time.Since(began)
	close(x.stop)
	beside.Wait()
	x.trace.setIntercept(nil)
	for end := time.Now().Add(4 * time.Minute); len(x.messages("[Answered]")) < sessions*each && time.Now().Before(end); {
		// like any hook, it starts a poller if none is left
		x.runHook(answeredHook, namedEvent(x, "Stop", "another"))
		time.Sleep(100 * time.Millisecond)
	}
	kit.Equalf(t, len(x.messages("[Answered]")), sessions*each, "notes")
	var at []time.Time
	for _, m := range x.messages("[") {
		posted, _ := time.Parse(time.RFC3339Nano, m.CreateTime)
		at = append(at, posted)
	}
	slices.SortFunc(at, time.Time.Compare)
	most := 0
	for i, from := range at {
		n := 0
		for _, t := range at[i:] {
			if t.Sub(from) < time.Minute {
				n++
			}
		}
		most = max(most, n)
	}
	t.Logf("%d decided in %s, %d pollers killed or stopped, %d requests failed, at most %d messages in a minute",
		sessions*each, took.Round(time.Second), x.kills.Load(), x.faults.Load(), most)
	kit.Equalf(t, len(x.messages("[Permission]")), sessions*each, "asked")
	if pace == "60" && most > 60+13 {
		t.Errorf("%d messages within a minute", most)
	}
}

// A project's files cannot approve anything, nor can a file that Claude could write.
func TestPermission_ProjectFilesDecideNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.startHook(forwardHook, permissionEvent(w, "s-1", "rm -rf /"))
	w.waitUntil("the permission", func() bool { return len(w.messages("[Permission]")) == 1 })
	qs, _ := state.ReadIndexedQuestions(w.getenv)
	if len(qs) != 1 || qs[0].Kind != state.KindPermission || strings.HasPrefix(qs[0].Path, w.env["CLAUDE_PROJECT_DIR"]) {
		t.Fatalf("%d records, %+v", len(qs), qs)
	}
	queue := filepath.Join(w.projectState(), "user-input-queue")
	kit.NoError(t, os.MkdirAll(queue, 0o700))
	for _, name := range []string{"s-1", qs[0].SessionID, qs[0].SessionName} {
		kit.NoError(t, os.WriteFile(filepath.Join(queue, name+".txt"), []byte("yes"), 0o600))
	}
	w.sendAsUser(ann, w.messages("[Permission]")[0].Thread.Name, "no, never")
	<-p.done
	if behavior, message := readDecision(p.out.String()); behavior != "deny" || message != "never" {
		t.Errorf("%s %q", behavior, message)
	}
}

// "claude -p" has no person at the keyboard. It does not wait for the next instruction,
// and it waits for a permission only once that is posted.
func TestPermission_UnattendedSession(t *testing.T) {
	t.Parallel()
	for name, vars := range map[string]map[string]string{
		"2.1.330": {"CLAUDE_CODE_SESSION_ATTENDED": "0"}, "2.1.197": {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"},
	} {
		w := newWorldWithoutPoller(t)
		maps.Copy(w.env, vars)
		w.env["GCHAT_IDLE"], w.env["GOOGLE_CHAT_WEBHOOK_URL"] = "on", "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"
		w.env["GCHAT_ALLOWED_USERS"] = ann.Name
		kit.Equalf(t, w.runHook(forwardHook, permissionEvent(w, "s-1", "ls")), "", "%s: printed", name)
		qs, _, _ := state.QuestionsIn(state.SpareStateDir(w.getenv)).OfSession("s-1")
		if len(qs) != 1 || qs[0].ResolvedBy != "unposted" {
			t.Errorf("%s: the permission that no poller posted: %+v", name, qs)
		}
		w.runHook("gchat-ask-user-rewake", namedEvent(t, "Stop", "s-2", "last_assistant_message", "Shall I?"))
		if qs, _, _ := state.QuestionsIn(state.SpareStateDir(w.getenv)).OfSession("s-2"); len(qs) > 0 {
			t.Errorf("%s: its end asks for the next instruction", name)
		}
	}
	w := newWorld(t)
	w.env["CLAUDE_CODE_SESSION_ATTENDED"] = "0"
	p := w.startHook(forwardHook, permissionEvent(w, "s-1", "ls"))
	w.awaitMessage("[Permission]")
	w.sendAsUser(ann, w.messages("[Permission]")[0].Thread.Name, "yes")
	if behavior, _ := readDecision(p.awaitOutput()); behavior != "allow" {
		t.Errorf("a yes in the thread: %q", behavior)
	}
}
