package hooks_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// These stories go from Claude Code's event to the phone and back, with the real program,
// its poller and an embedded space.

func TestQuestion_RoundTripThroughChat(t *testing.T) {
	for name, c := range map[string]struct {
		mode   string
		waits  string // the event whose hook waits
		answer func(w *world, thread string)
		says   string // in the thread, at the end
	}{
		"native":     {"native", "single-04-PermissionRequest", replyInChat("2"), "Selected: Rolling deployment"},
		"hold":       {"hold", "single-03-PreToolUse", replyInChat("rolling"), "Selected: Rolling deployment"},
		"at a shell": {"native", "single-04-PermissionRequest", answerAtShell("2"), "Answered with gchat-hooks answer."},
		"in the dialog": {"native", "single-04-PermissionRequest", func(w *world, _ string) {
			w.runHook(answeredHook, answeredEvent(w, "Rolling deployment"))
		}, "terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.env["GCHAT_ASK_MODE"], w.env["CLAUDE_SESSION_ID"] = c.mode, "orch-epic4"
			if c.waits != "single-03-PreToolUse" {
				w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
			}
			p := w.startHook(forwardHook, recorded(t, c.waits))
			c.answer(w, w.awaitThread(1))
			out := p.awaitOutput()
			kit.Equalf(t, name != "in the dialog", strings.Contains(out, `"answers":{"`+singleQuestion+`":"Rolling deployment"}`), "printed %q", out)
			w.runHook(answeredHook, answeredEvent(t, "Rolling deployment"))
			kit.Containsf(t, w.awaitMessage("[Answered]"), c.says, "the thread")
			kit.Equalf(t, w.messages("[Answered]")[0].Thread.Name, w.awaitThread(1), "it is said in")
			if asked, closed := len(w.messages("[AskUserQuestion]")), len(w.messages("[Answered]")); asked != 1 || closed != 1 {
				t.Errorf("asked %d times, closed %d times", asked, closed)
			}
		})
	}
}

func replyInChat(text string) func(*world, string) {
	return func(w *world, thread string) { w.sendAsUser(ann, thread, text) }
}

func answerAtShell(text string) func(*world, string) {
	return func(w *world, _ string) {
		cmd := bound.Command(w, program, "answer", "orch-epic4", text)
		cmd.Env, cmd.Dir = append(w.environ(), "USER=carl"), w.env["CLAUDE_PROJECT_DIR"]
		if out, err := cmd.CombinedOutput(); err != nil {
			w.Errorf("answer: %v: %s", err, out)
		}
	}
}

// Two sessions ask two questions each in deny mode, at once. The replies come in any
// order, as numbers, labels or free text.
func TestDeny_RepliesReachTheirSession(t *testing.T) {
	t.Parallel()
	runs := 12
	if n, err := strconv.Atoi(os.Getenv("GCHAT_CROSS_RUNS")); err == nil {
		runs = n
	}
	w := newWorld(t)
	w.env["GCHAT_ASK_MODE"] = "deny"
	// beyond the usual 60 messages a minute, questions would go to the terminal
	w.env["GCHAT_WRITES_PER_MINUTE"] = "60000"
	var wg sync.WaitGroup
	sem := make(chan struct{}, 4)
	for run := range runs {
		sem <- struct{}{}
		wg.Go(func() {
			defer func() { <-sem }()
			testCrosswise(w, run)
		})
	}
	wg.Wait()
}

func testCrosswise(w *world, run int) {
	type call struct {
		p, dialog      *hookProcess // dialog is nil where the call was denied
		question, want string
	}
	labels := []string{"alpha", "beta", "gamma"}
	var calls []*call
	for session := range 2 {
		for n := range 2 {
			c := &call{question: fmt.Sprintf("Which of run %d, session %d, call %d?", run, session, n)}
			ask := questionEvent(w, fmt.Sprintf("s-%d-%d", run, session), fmt.Sprintf("t-%d", n), c.question, labels...)
			c.p = w.startHook(rewake, ask)
			if out := w.runHook(forwardHook, ask); out != "" {
				w.readDenial(out)
			} else {
				// This machine was too busy to deny the call within three seconds, so the
				// call is asked in the terminal.
				var in map[string]any
				kit.NoError(w, json.Unmarshal(ask, &in))
				c.dialog = w.startHook(forwardHook, recorded(w, "single-04-PermissionRequest", "session_id", in["session_id"], "tool_input", in["tool_input"]))
			}
			calls = append(calls, c)
		}
	}
	for _, i := range rand.Perm(len(calls)) {
		c, choice := calls[i], rand.N(len(labels))
		said := []string{strconv.Itoa(choice + 1), labels[choice], "own words " + strconv.Itoa(rand.N(1000000))}[rand.N(3)]
		if c.want = labels[choice]; strings.HasPrefix(said, "own") {
			c.want = said
		}
		var thread string
		w.waitUntil(c.question, func() bool {
			for _, m := range w.messages("[AskUserQuestion]") {
				if strings.Contains(m.Text, c.question) {
					thread = m.Thread.Name
				}
			}
			return thread != ""
		})
		w.sendAsUser(space.Person(), thread, "not mine to answer")
		w.sendAsUser(ann, thread, said)
	}
	// A process may deliver the session's other reply as well if both come at the same
	// moment.
	var told [2]string
	for i, c := range calls {
		told[i/2] += c.p.awaitWakeText()
	}
	for i, c := range calls {
		if c.dialog != nil {
			if got := w.readAnswers(c.dialog.awaitOutput())[c.question]; got != c.want {
				w.Errorf("run %d: %q is answered %q in its dialog, want %q", run, c.question, got, c.want)
			}
			continue
		}
		for s, text := range told {
			pair := fmt.Sprintf("%q=%q", c.question, c.want)
			if n := strings.Count(text, pair); s == i/2 && n != 1 || s != i/2 && strings.Contains(text, c.question) {
				w.Errorf("run %d: session %d was told %d times of %s: %s", run, s, n, pair, text)
			}
		}
	}
}

// Chat stores the question of a denied call but does not answer in time. The question is
// asked in the terminal, and the reply in that same thread counts.
func TestDeny_LatePostKeepsItsThread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["GCHAT_ASK_MODE"] = "deny"
	open := make(chan struct{})
	var once sync.Once
	w.trace.setIntercept(storesAndHangs(w, open, &once))
	if out := w.runHook(forwardHook, recorded(t, "single-03-PreToolUse")); out != "" {
		t.Fatalf("printed %q", out)
	}
	close(open)
	p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
	w.sendAsUser(ann, w.awaitThread(1), "canary")
	kit.Equalf(t, w.readAnswers(p.awaitOutput())[singleQuestion], "Canary", "answered")
	kit.Equalf(t, len(w.messages("[AskUserQuestion]")), 1, "asked")
}

// A stop gate and a poll script in Python find a deny-mode question. The poll script
// answers it, and the session is woken with that.
func TestDeny_PythonReadersAgree(t *testing.T) {
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
			w := newWorld(t)
			w.env["GCHAT_ASK_MODE"], w.env["CLAUDE_SESSION_ID"] = "deny", c.called
			gate := w.withVariables("CLAUDE_SESSION_ID", c.gate)
			ask := questionEvent(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
			id := w.readDenial(w.runHook(forwardHook, ask))
			if !strings.HasPrefix(id, c.file) || id[len(id)-9] != '-' {
				t.Errorf("the question and its thread are called %s", id)
			}
			gate.wantGateSees(gateExpectation{Asked: 1, Waiting: 1})
			w.withVariables("CLAUDE_SESSION_ID", "another").wantGateSees(gateExpectation{})
			p := w.startHook(rewake, ask)
			w.awaitWaiter(w.question())
			var looked []struct {
				ID     string    `json:"question_id"`
				Thread string    `json:"thread_name"`
				Since  time.Time `json:"forwarded_at"`
			}
			w.runPython("poll_replies.py", &looked, "2")
			posted, err := time.Parse(time.RFC3339, w.messages("[AskUserQuestion]")[0].CreateTime)
			if err != nil || len(looked) != 1 || looked[0].ID != id || looked[0].Thread != w.awaitThread(1) ||
				looked[0].Since.After(posted) || posted.Sub(looked[0].Since) > time.Second {
				t.Errorf("a poll script looks at %v, the message is of %s, %v", looked, posted, err)
			}
			kit.Containsf(t, p.awaitWakeText(), `"Which DB?"="Postgres"`, "woken with")
			gate.wantGateSees(gateExpectation{Asked: 1, Answer: "2"})
			q := w.question()
			if q.ClaudeSessionID != "s-1" || q.SessionID != c.gate || q.AnsweredBy != state.LocalSender || q.AnsweredByName != "Ann" {
				t.Errorf("session %q of Claude's %q, by %s %s", q.SessionID, q.ClaudeSessionID, q.AnsweredBy, q.AnsweredByName)
			}
			w.awaitMessage("[Answered]")
		})
	}
}

// runPython runs one of testdata/readers on the project's state, like a program in the
// session's environment.
func (w *world) runPython(script string, target any, args ...string) {
	w.Helper()
	cmd := bound.Command(w, "python3", append([]string{filepath.Join("testdata", "readers", script), w.projectState()}, args...)...)
	cmd.Env = append(w.environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("%s: %v", script, err)
	}
	if err := json.Unmarshal(out, target); err != nil {
		w.Fatalf("%s printed %q: %v", script, out, err)
	}
}

// gateExpectation is how a stop gate in Python judges the session's markers.
type gateExpectation struct {
	Asked, Waiting int
	Answer         string
}

func (w *world) wantGateSees(want gateExpectation) {
	w.Helper()
	var got gateExpectation
	if w.runPython("stop_gate.py", &got); got != want {
		w.Errorf("a stop gate sees %+v, want %+v", got, want)
	}
}
