package hooks_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// python runs one of testdata/readers over the project's state, as a program in the session's environment.
func (w *world) python(script string, into any, args ...string) {
	w.Helper()
	cmd := exec.Command("python3", append([]string{filepath.Join("testdata", "readers", script), w.projectState()}, args...)...)
	cmd.Env = append(w.environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("%s: %v", script, err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		w.Fatalf("%s printed %q: %v", script, out, err)
	}
}

func (w *world) projectState() string {
	return filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state")
}

// gateSees is what a stop gate in Python makes of the session's markers.
type gateSees struct {
	Asked, Waiting int
	Answer         string
}

func (w *world) gateSees(want gateSees) {
	w.Helper()
	var got gateSees
	if w.python("stop_gate.py", &got); got != want {
		w.Errorf("a stop gate sees %+v, want %+v", got, want)
	}
}

// A stop gate and a poll script in Python find a question of deny mode, the poll script answers it, and its session is
// woken with that.
func TestReadersInPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not there: that stop gates and poll scripts in Python can read our files is not shown")
	}
	for name, c := range map[string]struct{ called, gate, file string }{
		"named by a launch script":      {"system3-1763726400", "system3-1763726400", "ask-system3-1763726400-"},
		"a name that is no file's name": {"orch/epic 4", "orch/epic 4", "ask-orch_epic_4_"},
		"not named":                     {"", "s-1", "ask-s-1-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := denying(t)
			w.env["CLAUDE_SESSION_ID"] = c.called
			gate := w.with("CLAUDE_SESSION_ID", c.gate)
			event := asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
			id := w.denial(w.run(forward, event))
			if !strings.HasPrefix(id, c.file) || id[len(id)-9] != '-' {
				t.Errorf("the question and its thread are called %s", id)
			}
			gate.gateSees(gateSees{Asked: 1, Waiting: 1})
			w.with("CLAUDE_SESSION_ID", "another").gateSees(gateSees{})
			p := w.start(rewake, event)
			w.until("the waiter", func() bool { return state.HasWaiter(w.question()) })
			var looked []struct {
				ID     string    `json:"question_id"`
				Thread string    `json:"thread_name"`
				Since  time.Time `json:"forwarded_at"`
			}
			w.python("poll_replies.py", &looked, "2")
			posted, err := time.Parse(time.RFC3339, w.messages("[AskUserQuestion]")[0].CreateTime)
			if err != nil || len(looked) != 1 || looked[0].ID != id || looked[0].Thread != w.thread(1) || looked[0].Since.After(posted) || posted.Sub(looked[0].Since) > time.Second {
				t.Errorf("a poll script looks at %v, the message is of %s, %v", looked, posted, err)
			}
			if got := p.woken(); !strings.Contains(got, `"Which DB?"="Postgres"`) {
				t.Errorf("woken with %q", got)
			}
			gate.gateSees(gateSees{Asked: 1, Answer: "2"})
			q := w.question()
			if q.ClaudeSessionID != "s-1" || q.SessionID != c.gate || *q.ResponseType != "single_select" || q.AnsweredBy != "local" || q.AnsweredByName != "Ann" {
				t.Errorf("session %q of Claude's %q, %s by %s %s", q.SessionID, q.ClaudeSessionID, *q.ResponseType, q.AnsweredBy, q.AnsweredByName)
			}
			w.awaitMessage("[Answered]")
		})
	}
}

// Of two sessions that one launch script named alike, each gets its own answer, and each one's events close its own question.
func TestSessionsOfOneNameGetTheirOwnAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["CLAUDE_SESSION_ID"] = "orch-epic4"
	call := func(event, session string) []byte {
		return recorded(t, event, "session_id", session, "tool_use_id", "toolu_"+session)
	}
	waits := map[string]*process{}
	for n, session := range []string{"s-1", "s-2"} {
		w.run(forward, call("single-03-PreToolUse", session))
		waits[session] = w.start(forward, recorded(t, "single-04-PermissionRequest", "session_id", session))
		w.until("the thread's name", func() bool {
			qs := w.questions()
			return len(qs) == n+1 && !slices.ContainsFunc(qs, func(q *state.Question) bool { return q.ThreadName == "" })
		})
	}
	byClaude := map[string]*state.Question{}
	for _, q := range w.questions() {
		byClaude[q.ClaudeSessionID] = q
		if base := filepath.Base(q.Path); q.SessionID != "orch-epic4" || !strings.HasPrefix(base, fmt.Sprintf("orch-epic4-%d", q.AskedAt.Unix())) {
			t.Errorf("session %s: session_id %s in %s", q.ClaudeSessionID, q.SessionID, base)
		}
	}
	w.say(ann, byClaude["s-2"].ThreadName, "canary")
	if got := w.answers(waits["s-2"].end())[single]; got != "Canary" {
		t.Errorf("s-2 is answered %q", got)
	}
	w.run(answered, recorded(t, "single-05-PostToolUse", "hook_event_name", "SessionEnd", "session_id", "s-2"))
	if q, err := state.LoadQuestion(byClaude["s-1"].Path); err != nil || q.Status != state.Pending {
		t.Errorf("s-1's question: %v, %v", q.Status, err)
	}
	// A file of that name could be for either, one of Claude Code's own id is not.
	queue := filepath.Join(w.projectState(), "user-input-queue")
	writeFile(t, filepath.Join(queue, "s-1.txt"), "1")
	if got := w.answers(waits["s-1"].end())[single]; got == "" || got == "Canary" {
		t.Errorf("s-1 is answered %q", got)
	}
}

// A session that is resumed under another name still gets the reply to what it asked under the former one.
func TestReplyAfterResumingUnderAnotherName(t *testing.T) {
	t.Parallel()
	w := denying(t)
	w.env["CLAUDE_SESSION_ID"] = "system3-1"
	w.denial(w.run(forward, asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")))
	w.run(answered, recorded(t, "single-05-PostToolUse", "hook_event_name", "SessionEnd", "session_id", "s-1"))
	if _, err := state.UpdateQuestion(w.question().Path, func(q *state.Question) error {
		q.Replies = append(q.Replies, state.Reply{MessageName: "spaces/local/messages/m", Sender: ann.Name, Text: "2", CreateTime: time.Now()})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.env["CLAUDE_SESSION_ID"] = "system3-2"
	other := recorded(t, "single-05-PostToolUse", "hook_event_name", "SessionStart", "source", "resume", "session_id", "s-2")
	if out := w.with("CLAUDE_SESSION_ID", "system3-1").run(sessionHook, other); out != "" {
		t.Errorf("another session of the former name is told %q", out)
	}
	start := recorded(t, "single-05-PostToolUse", "hook_event_name", "SessionStart", "source", "resume", "session_id", "s-1")
	if out := w.run(sessionHook, start); !strings.Contains(out, `Which DB?\"=\"Postgres\"`) {
		t.Errorf("resumed with %q", out)
	}
}

// A reply by hand goes by the session's name, also where that is no name of a file.
func TestReplyByHandGoesByTheName(t *testing.T) {
	for name, file := range map[string]string{"orch-epic4": "orch-epic4.txt", "orch/epic 4": "orch_epic_4_"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.env["CLAUDE_SESSION_ID"] = name
			w.run(forward, recorded(t, "single-03-PreToolUse"))
			p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			w.thread(1)
			called, _, _ := strings.Cut(filepath.Base(w.question().Path), fmt.Sprintf("-%d", w.question().AskedAt.Unix()))
			if !strings.HasPrefix(called+".txt", file) {
				t.Errorf("the question's file is called %s", called)
			}
			writeFile(t, filepath.Join(w.projectState(), "user-input-queue", called+".txt"), "canary")
			if got := w.answers(p.end())[single]; got != "Canary" {
				t.Errorf("answered %q", got)
			}
		})
	}
}

// What is ours in a project does not get into a commit by itself, and a .gitignore that a person wrote stays.
func TestStateFolderIsKeptOutOfGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(w.projectState(), ".gitignore")
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	if b, err := os.ReadFile(path); err != nil || string(b) != "*\n" {
		t.Errorf(".gitignore: %q, %v", b, err)
	}
	writeFile(t, path, "!kept\n")
	w.run(forward, recorded(t, "single-03-PreToolUse", "tool_use_id", "t2"))
	if b, err := os.ReadFile(path); err != nil || string(b) != "!kept\n" {
		t.Errorf(".gitignore: %q, %v", b, err)
	}
}
