package hooks_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/state"
)

// shell runs `gchat-hooks answer` to its end.
func (w *world) shell(args ...string) (code int, stdout, stderr string) {
	w.Helper()
	cmd := exec.Command(program, append([]string{"answer"}, args...)...)
	var out, errOut bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = append(w.environ(), "USER=carl"), w.env["CLAUDE_PROJECT_DIR"], &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// An answer at a shell goes the way of a reply: the hook that waits has it at once, Claude Code confirms it, the thread hears
// where it came from. A later reply, from wherever, is told so where it was given.
func TestAnswerAtShellReachesTheWaitingHook(t *testing.T) {
	for mode, event := range map[string]string{"native": "single-04-PermissionRequest", "hold": "single-03-PreToolUse"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.env["CLAUDE_SESSION_ID"], w.env["GCHAT_ASK_MODE"], w.env["GCHAT_POLLER_INTERVAL"] = "orch-epic4", mode, "60"
			w.env["GCHAT_ALLOWED_USERS"] = "users/nobody-else" // whoever has the machine may answer, listed or not
			p := w.start(forward, recorded(t, event))
			thread := w.thread(1)
			began := time.Now()
			code, out, stderr := w.shell("orch-epic4", "2 - but keep the footer")
			if code != 0 || stderr != "" || !strings.Contains(out, single+" = Rolling deployment (note: but keep the footer)\nthe hook that waits hands it to Claude\n") {
				t.Errorf("answer ended with %d: %q %q", code, out, stderr)
			}
			if out := p.end(); !strings.Contains(out, `"Rolling deployment"`) {
				t.Errorf("Claude was told %q", out)
			}
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("that took %v: the hook did not hear of it", took)
			}
			q := w.question()
			if q.Status != state.Answered || q.AnsweredBy != "local" || q.AnsweredByName != "carl" || *q.Response != "2 - but keep the footer" || *q.ResponseType != "single_select" {
				t.Errorf("record: %s by %q %q: %q", q.Status, q.AnsweredBy, q.AnsweredByName, *q.Response)
			}
			if code, _, stderr := w.shell(q.ThreadKey, "1"); code != 2 || !strings.Contains(stderr, "[Not used] This question was already answered.") {
				t.Errorf("the second answer ended with %d: %s", code, stderr)
			}
			w.run(answered, recorded(t, "single-05-PostToolUse", "tool_response", map[string]any{"answers": map[string]string{single: "Rolling deployment"}}))
			if said := w.awaitMessage("[Answered]"); !strings.HasSuffix(strings.TrimSpace(said), "Answered at a shell by carl.") || w.messages("[Answered]")[0].Thread.Name != thread {
				t.Errorf("the thread was told %q", said)
			}
			if ms := w.messages("[Not used]"); len(ms) > 0 {
				t.Errorf("the thread was told of what the shell was told: %q", ms[0].Text)
			}
		})
	}
}

// Of a reply in Chat and an answer at a shell that come at the same moment, one is the answer, and Claude is told that one.
func TestFirstAnswerWinsBetweenShellAndChat(t *testing.T) {
	t.Parallel()
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			thread := w.thread(1)
			w.until("the thread's name on disk", func() bool { return w.question().ThreadName == thread })
			key := w.question().ThreadKey
			codes := make([]int, 3)
			var all sync.WaitGroup
			for n := range codes {
				all.Go(func() { codes[n], _, _ = w.shell(key, fmt.Sprint(n%2+2)) })
			}
			w.say(ann, thread, "1")
			all.Wait()
			got := w.answers(p.end())[single]
			q := w.question()
			won := 0
			for _, code := range codes {
				if code == 0 {
					won++
				} else if code != 2 {
					t.Errorf("answer ended with %d", code)
				}
			}
			used := 0
			for _, r := range q.Replies {
				if r.Verdict == state.Used {
					used++
				}
			}
			inChat := q.AnsweredBy == ann.Name
			if used > 1 || inChat && won != 0 || !inChat && won != 1 || got != q.Answers[single] || (got == "Blue-green deployment") != inChat {
				t.Errorf("Claude was told %q, the record says %q by %s, %d of three shells were told that they won, %d replies were used", got, q.Answers[single], q.AnsweredBy, won, used)
			}
		})
	}
}

// In deny mode it wakes the session, or ends gchat-wait, whoever waits.
func TestAnswerAtShellInDenyMode(t *testing.T) {
	t.Parallel()
	w := denying(t)
	event := asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
	w.denial(w.run(forward, event))
	p := w.start(rewake, event)
	w.until("the waiter", func() bool { _, name, _ := state.WaiterOf(w.question()); return name == rewake })
	if code, out, stderr := w.shell(w.question().QuestionID, "postgres"); code != 0 || !strings.Contains(out, "it wakes the session") {
		t.Errorf("answer ended with %d: %s %s", code, out, stderr)
	}
	if got := p.woken(); !strings.Contains(got, `"Which DB?"="Postgres"`) {
		t.Errorf("woken with %q", got)
	}
	if said := w.awaitMessage("[Answered]"); !strings.Contains(said, "Answered at a shell by carl.") {
		t.Errorf("the thread was told %q", said)
	}

	w.denial(w.run(forward, asks(t, "s-1", "t2", "Which rack?", "top", "low")))
	key := w.questions()[0].ThreadKey
	printed := make(chan string)
	go func() {
		out, _ := w.waits("--question-id", key)
		printed <- out
	}()
	w.until("gchat-wait", func() bool { _, name, _ := state.WaiterOf(w.questions()[0]); return name == "gchat-wait" })
	if code, out, stderr := w.shell(key, "2"); code != 0 || !strings.Contains(out, "gchat-wait prints it") {
		t.Errorf("answer ended with %d: %s %s", code, out, stderr)
	}
	if out := <-printed; out != "GCHAT_RESPONSE: 2\n" {
		t.Errorf("gchat-wait printed %q", out)
	}
}

// Nobody is there to hand it over: it is not taken, and the hook that comes later does not find it. One that is stopped
// keeps nobody waiting, and has the answer when it goes on.
func TestAnswerAtShellWithoutAWaiter(t *testing.T) {
	t.Parallel()
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
		w.thread(1)
		_ = p.Process.Kill()
		<-p.done
		code, _, stderr := w.shell(w.question().ThreadKey, "2")
		if code != 2 || !strings.Contains(stderr, "[Not used] Nobody waits for a reply to this question: answer it in the terminal") {
			t.Errorf("answer ended with %d: %s", code, stderr)
		}
		if q := w.question(); q.Status != state.Pending || len(q.Replies) > 0 {
			t.Errorf("left behind: %s, %+v", q.Status, q.Replies)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
		w.thread(1)
		// Not in the moment in which it writes the question: then the file is locked for as long as it is stopped.
		w.until("its second list", func() bool { _, lists := w.trace.counts(); return lists >= 2 })
		if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := w.shell(w.question().ThreadKey, "2")
		if err := p.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if code != 0 {
			t.Errorf("answer ended with %d: %s", code, stderr)
		}
		if got := w.answers(p.end())[single]; got != "Rolling deployment" {
			t.Errorf("Claude was told %q", got)
		}
	})
	t.Run("just starting", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.run(forward, recorded(t, "single-03-PreToolUse"))
		key := w.question().ThreadKey
		ended := make(chan int)
		go func() {
			code, _, _ := w.shell(key, "3")
			ended <- code
		}()
		w.until("the answer on disk", func() bool { return len(w.question().Replies) > 0 })
		p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
		if code := <-ended; code != 0 {
			t.Errorf("answer ended with %d", code)
		}
		if got := w.answers(p.end())[single]; got != "Canary" {
			t.Errorf("Claude was told %q", got)
		}
	})
}

// A reply in Chat that was there before, of somebody who may answer, goes first; one of somebody who may not changes nothing.
func TestAnswerAtShellKeepsTheOrder(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{true, false} {
		t.Run(fmt.Sprint("allowed ", allowed), func(t *testing.T) {
			t.Parallel()
			w := denying(t)
			w.denial(w.run(forward, asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")))
			q := w.question()
			sender := bob.Name
			if allowed {
				sender = ann.Name
			}
			if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { // as another session's inbox leaves it
				q.Replies = append(q.Replies, state.Reply{MessageName: "m1", Sender: sender, Text: "1", CreateTime: time.Now().UTC()})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			code, _, stderr := w.shell(q.QuestionID, "2")
			q = w.question()
			if allowed && (code != 2 || q.Answers["Which DB?"] != "SQLite") {
				t.Errorf("ended with %d: %s; the answer is %v", code, stderr, q.Answers)
			}
			if !allowed && (code != 0 || q.Answers["Which DB?"] != "Postgres" || q.Reply("m1").Verdict != state.Unread) {
				t.Errorf("ended with %d: %s; the answer is %v, the other reply %q", code, stderr, q.Answers, q.Reply("m1").Verdict)
			}
		})
	}
}

// The daemon, where it runs, takes an answer as it takes a reply.
func TestAnswerAtShellWithTheDaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["CLAUDE_SESSION_ID"] = "orch-epic4"
	dir := filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state")
	q, err := state.QuestionsIn(dir).Record("s-1", func([]*state.Question) *state.Question {
		return &state.Question{
			QuestionID: "1a2b3c4d-0000", ThreadKey: "ask-user-1a2b3c4d", SessionID: "s-1", SessionName: "orch-epic4", AskedAt: time.Now().UTC(), Status: state.Pending, Mode: state.Inject,
			ProjectDir: w.env["CLAUDE_PROJECT_DIR"], Questions: []state.Prompt{{Question: "Which DB?", Options: []state.Option{{Label: "SQLite"}, {Label: "Postgres"}}}},
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := w.shell("1a2b", "2"); code != 2 || !strings.Contains(stderr, "gchat-hooks poller install") {
		t.Errorf("without a daemon, answer ended with %d: %s", code, stderr)
	}
	cmd := exec.Command(program, "poller", "--dry-run", "--poll-interval", "60", "--pending-dir", filepath.Dir(q.Path))
	cmd.Env, cmd.Dir = w.environ(), w.env["CLAUDE_PROJECT_DIR"]
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	w.until("the daemon", func() bool { return state.DaemonRuns(dir) })
	code, out, stderr := w.shell("1a2b", "2")
	if code != 0 || !strings.Contains(out, "the daemon types it into the terminal") {
		t.Errorf("answer ended with %d: %s%s", code, out, stderr)
	}
	b, err := os.ReadFile(w.logPath())
	if err != nil || !strings.Contains(string(b), fmt.Sprintf(`"job":"gchat-response-poller","pid":%d,"question":"1a2b3c4d-0000","message":"shell/`, cmd.Process.Pid)) {
		t.Errorf("the daemon did not judge it: %s", b)
	}
}
