package hooks_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// event is an event of a session that is about no tool.
func event(t testing.TB, name, session string, kv ...any) []byte {
	return recorded(t, "single-05-PostToolUse", append([]any{"hook_event_name", name, "session_id", session, "tool_name", ""}, kv...)...)
}

// waits runs gchat-wait to its end, on another machine's terms where env says so.
func (w *world) waits(args ...string) (out string, code int) {
	w.Helper()
	cmd := exec.Command(program, append([]string{"wait", "--interval", "0.1"}, args...)...)
	cmd.Env, cmd.Dir = w.environ(), w.env["CLAUDE_PROJECT_DIR"]
	b, _ := cmd.Output()
	return string(b), cmd.ProcessState.ExitCode()
}

func (w *world) unreadable(status int) {
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			rw.WriteHeader(status)
		}
		return r.Method == http.MethodGet
	})
}

// Nobody else reads the space: the session itself waits on for a reply that is late.
func TestLateReplyWakesTheSession(t *testing.T) {
	t.Parallel()
	w := denying(t)
	w.env["GCHAT_REPLY_TIMEOUT"] = "0.3"
	ask := asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
	w.denial(w.run(forward, ask))
	if got := w.start(rewake, ask).woken(); !strings.Contains(got, "a later reply still comes to you") {
		t.Errorf("woken with %q", got)
	}
	p := w.start(rewake, event(t, "Stop", "s-1"))
	w.until("the waiter", func() bool { return state.HasWaiter(w.question()) })
	w.say(ann, w.thread(1), "2")
	if got := p.woken(); !strings.Contains(got, `="Postgres"`) {
		t.Errorf("woken with %q", got)
	}
	w.awaitMessage("[Answered]")
}

// The reply came in time, and nobody was there to read it until the time was up.
func TestReplyInTimeBeatsThePolicy(t *testing.T) {
	t.Parallel()
	w := denying(t)
	w.env["GCHAT_REPLY_TIMEOUT"], w.env["GCHAT_TIMEOUT_POLICY"] = "0.5", "recommended"
	ask := asks(t, "s-1", "t1", "Delete the data?", "Yes", "No")
	w.denial(w.run(forward, ask))
	w.say(ann, w.thread(1), "No")
	w.until("the timeout", func() bool { return time.Now().After(*w.question().TimesOutAt) })
	if got := w.start(rewake, event(t, "Stop", "s-1")).woken(); !strings.Contains(got, `="No"`) {
		t.Errorf("woken with %q", got)
	}
}

// What cannot be read may hold a reply: nothing is chosen in the person's place.
func TestUnreadableSpaceIsNoSilence(t *testing.T) {
	t.Parallel()
	w := denying(t)
	w.env["GCHAT_REPLY_TIMEOUT"], w.env["GCHAT_TIMEOUT_POLICY"] = "0.5", "recommended"
	ask := asks(t, "s-1", "t1", "Delete the data?", "Yes", "No")
	id := w.denial(w.run(forward, ask))
	w.unreadable(403)
	if out, code := w.waits("--question-id", id, "--timeout", "0.2"); code != 2 || out != "" {
		t.Errorf("gchat-wait: %q, %d", out, code)
	}
	if got := w.start(rewake, ask).woken(); !strings.Contains(got, "the user may have replied") || strings.Contains(got, `="Yes"`) {
		t.Errorf("woken with %q", got)
	}
	if q := w.question(); q.Status != state.TimedOut || len(q.Answers) > 0 {
		t.Errorf("%s, %v", q.Status, q.Answers)
	}
	// From now on it is known, and no question is denied into the void.
	if out := w.run(forward, asks(t, "s-1", "t2", "Which rack?", "x", "y")); out != "" {
		t.Errorf("printed %q", out)
	}
}

// A reply is there, and the file that says who may answer is half-written: nothing is chosen against that reply.
func TestUnjudgedReplyIsNoSilence(t *testing.T) {
	t.Parallel()
	w := denying(t)
	file := filepath.Join(w.env["HOME"], ".config", "gchat-hooks", "config.json")
	delete(w.env, "GCHAT_ALLOWED_USERS")
	w.env["GCHAT_REPLY_TIMEOUT"], w.env["GCHAT_TIMEOUT_POLICY"] = "0.5", "recommended"
	writeFile(t, file, `{"allowed_users":["users/ann"]}`)
	w.denial(w.run(forward, asks(t, "s-1", "t1", "Delete the data?", "Yes", "No")))
	w.replied("No")
	writeFile(t, file, `{"allowed_us`)
	if got := w.start(rewake, event(t, "Stop", "s-1")).woken(); !strings.Contains(got, "the user may have replied") || strings.Contains(got, `="Yes"`) {
		t.Errorf("woken with %q", got)
	}
	if q := w.question(); q.Status != state.TimedOut || len(q.Answers) > 0 {
		t.Errorf("%s, %v", q.Status, q.Answers)
	}
	writeFile(t, file, `{"allowed_users":["users/ann"]}`)
	if got := w.start(rewake, event(t, "Stop", "s-1")).woken(); !strings.Contains(got, `="No"`) {
		t.Errorf("woken with %q", got)
	}
}

// A disk that is full does not have the session woken again and again.
func TestFullDiskWakesNobodyForEver(t *testing.T) {
	w := denying(t)
	w.env["GCHAT_REPLY_TIMEOUT"] = "1"
	dir := w.smallDisk(t)
	ask := asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
	w.denial(w.run(forward, ask))
	p := w.start(rewake, ask)
	w.until("the waiter", func() bool { return state.HasWaiter(w.question()) })
	free := fill(t, dir)
	defer free()
	p.woken()
	for range 3 {
		if got := w.start(rewake, event(t, "Stop", "s-1")).woken(); got != "" {
			t.Errorf("woken with %q", got)
		}
	}
}

// Only the session's own processes say who may answer.
func TestWhoJudgesAReply(t *testing.T) {
	t.Run("another project's leader", func(t *testing.T) {
		t.Parallel()
		w := denying(t)
		w.denial(w.run(forward, asks(t, "s-a", "t1", "Deploy?", "Yes", "No"))) // its waiter was killed
		b := w.with("CLAUDE_PROJECT_DIR", filepath.Join(w.dir, "other"), "GCHAT_ALLOWED_USERS", bob.Name)
		if err := os.MkdirAll(b.env["CLAUDE_PROJECT_DIR"], 0o755); err != nil {
			t.Fatal(err)
		}
		other := asks(t, "s-b", "t2", "Which rack?", "x", "y")
		b.denial(b.run(forward, other))
		p := b.start(rewake, other)
		w.say(bob, w.thread(1), "Yes")
		w.until("the reply", func() bool { return len(w.question().Replies) > 0 })
		terminate(p)
		w.say(ann, w.thread(1), "No")
		if got := w.start(rewake, event(t, "Stop", "s-a")).woken(); !strings.Contains(got, `="No"`) {
			t.Errorf("woken with %q", got)
		}
	})
	t.Run("a script beside the waiter", func(t *testing.T) {
		t.Parallel()
		w := denying(t)
		ask := asks(t, "s-a", "t1", "Deploy?", "Yes", "No")
		id := w.denial(w.run(forward, ask))
		p := w.start(rewake, ask)
		w.until("the waiter", func() bool { return state.HasWaiter(w.question()) })
		script := make(chan string)
		go func() {
			out, _ := w.with("GCHAT_ALLOWED_USERS", "users/nobody").waits("--question-id", id)
			script <- out
		}()
		time.Sleep(200 * time.Millisecond) // not needed; so that the script is there, mostly
		w.say(ann, w.thread(1), "1")
		if got := p.woken(); !strings.Contains(got, `="Yes"`) {
			t.Errorf("woken with %q", got)
		}
		if out := <-script; out != "GCHAT_RESPONSE: 1\n" {
			t.Errorf("the script heard %q", out)
		}
		if n := len(w.messages("[Not used]")); n > 0 {
			t.Error("the allowed person was refused")
		}
	})
}

// The pid of the Claude Code that asked is gone, and that of the one that runs now cannot be told: no reason to go round.
func TestUnknownClaudeWaitsQuietly(t *testing.T) {
	t.Parallel()
	w := denying(t)
	gone := exec.Command("sleep", "60")
	if err := gone.Start(); err != nil {
		t.Fatal(err)
	}
	w.env["CLAUDE_PID"] = fmt.Sprint(gone.Process.Pid)
	w.denial(w.run(forward, asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")))
	_ = gone.Process.Kill()
	_ = gone.Wait()
	delete(w.env, "CLAUDE_PID")
	p := w.start(rewake, event(t, "Stop", "s-1"))
	w.until("the waiter", func() bool { return state.HasWaiter(w.question()) })
	w.say(ann, w.thread(1), "1")
	if got := p.woken(); !strings.Contains(got, `="SQLite"`) {
		t.Errorf("woken with %q", got)
	}
	if n := strings.Count(w.log(), "nobody waited for"); n > 1 {
		t.Errorf("adopted %d times", n)
	}
}

func TestFirstOfSeveral(t *testing.T) {
	t.Parallel()
	w := denying(t)
	var ids []string
	for i := range 2 {
		ids = append(ids, w.denial(w.run(forward, asks(t, "s-1", fmt.Sprint("t", i), fmt.Sprint("Q", i, "?"), "A", "B"))))
	}
	if out, code := w.waits("--first-of", ids[0], ids[1], "--timeout", "0.3"); code != 3 || out != "GCHAT_TIMEOUT: No response in 300ms\n" {
		t.Errorf("%q, %d", out, code)
	}
	for _, q := range w.questions() {
		if q.Status != state.TimedOut {
			t.Errorf("%s: %s", q.Questions[0].Question, q.Status)
		}
	}
	w.say(ann, w.thread(2), "2")
	if out, code := w.waits("--first-of", ids[1], ids[1], ids[0]); code != 0 || out != "GCHAT_RESPONSE: 2\n" {
		t.Errorf("%q, %d", out, code)
	}
	for _, q := range w.questions() {
		if want := map[string]state.Status{ids[0]: state.TimedOut, ids[1]: state.Resolved}[q.QuestionID]; q.Status != want {
			t.Errorf("%s: %s, want %s", q.Questions[0].Question, q.Status, want)
		}
	}
}

// What the person did answer stays, whatever the policy.
func TestPartialAnswerOutlivesTheTimeout(t *testing.T) {
	for policy, want := range map[string][]string{
		"leave":       {`The user did answer: "Drop table users?"="No"`, `The question was: "Which zone?"`},
		"recommended": {`chose, not the user: "Which zone?"="a".`, `The user did answer: "Drop table users?"="No"`},
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			w := denying(t)
			w.env["GCHAT_REPLY_TIMEOUT"], w.env["GCHAT_TIMEOUT_POLICY"] = "3", policy
			options := func(labels ...string) (all []map[string]string) {
				for _, l := range labels {
					all = append(all, map[string]string{"label": l, "description": ""})
				}
				return all
			}
			ask := recorded(t, "single-03-PreToolUse", "session_id", "s-1", "tool_use_id", "t1", "tool_input", map[string]any{"questions": []any{
				map[string]any{"question": "Drop table users?", "header": "Drop", "options": options("Yes (Recommended)", "No"), "multiSelect": false},
				map[string]any{"question": "Which zone?", "header": "Zone", "options": options("a", "b"), "multiSelect": false}}})
			w.denial(w.run(forward, ask))
			p := w.start(rewake, ask)
			w.say(ann, w.thread(1), "Q1: No")
			w.awaitMessage("[Kept]")
			got := p.woken()
			for _, part := range want {
				if !strings.Contains(got, part) {
					t.Errorf("woken with %q, which does not hold %q", got, part)
				}
			}
			if !strings.Contains(w.awaitMessage("[Timeout]"), "Your answer: No") {
				t.Errorf("the thread reads %q", w.messages("[Timeout]")[0].Text)
			}
		})
	}
}

// Whatever fails on the way to the denial, the question is in the space and denied, or in the terminal.
func TestFailingLocksDenyNothingIntoTheVoid(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("needs strace: apt-get install strace")
	}
	for nth := 1; nth <= 18; nth++ {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			t.Parallel()
			w := denying(t)
			p := w.start(forward, asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres"),
				"strace", "-f", "-qq", "-b", "execve", "-o", os.DevNull, "-e", "trace=flock", "-e", fmt.Sprintf("inject=flock:error=EIO:when=%d", nth))
			<-p.done
			if strings.Contains(w.log(), `"panic"`) {
				t.Error("it panicked")
			}
			if denied := strings.Contains(p.out.String(), `"deny"`); denied != (len(w.questions()) > 0 && w.questions()[0].Denied) {
				t.Errorf("printed %q", &p.out)
			}
		})
	}
}

// The token to ask in the terminal is the question's.
func TestAskTerminalIsMeantForTheQuestion(t *testing.T) {
	t.Parallel()
	w := denying(t)
	w.env["GCHAT_REPLY_TIMEOUT"], w.env["GCHAT_TIMEOUT_POLICY"] = "0.3", "ask-terminal"
	var all [][]byte
	for i, text := range []string{"Which DB?", "Which zone?"} {
		ask := asks(t, "s-1", fmt.Sprint("t", i), text, "A", fmt.Sprint("B", i))
		w.denial(w.run(forward, ask))
		w.start(rewake, ask).woken()
		all = append(all, asks(t, "s-1", fmt.Sprint("u", i), text, "A", fmt.Sprint("B", i)))
	}
	if out := w.run(forward, all[0]); out != "" {
		t.Errorf("printed %q", out)
	}
	for _, q := range w.questions() {
		if q.Mode == state.Deny && q.AskedAgain != (q.Questions[0].Question == "Which DB?") {
			t.Errorf("%s: asked again %v", q.Questions[0].Question, q.AskedAgain)
		}
	}
}

// A message of ours after the reply is no reason to pass the reply over.
func TestReplyInAThreadCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	send := func(text string) {
		cmd := exec.Command(program, "send", "--thread-key", "build-7", text)
		cmd.Env = w.environ()
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, b)
		}
	}
	send("build 7 is ready: deploy?")
	thread := w.chat.Messages()[0].Thread.Name
	_, before := w.trace.counts()
	go func() {
		w.until("the first look", func() bool { _, lists := w.trace.counts(); return lists > before })
		w.say(ann, thread, "yes, deploy")
		send("build 7: docs uploaded")
	}()
	if out, code := w.waits("--thread-key", "build-7", "--timeout", "20", "--interval", "1"); code != 0 || out != "GCHAT_RESPONSE: yes, deploy\n" {
		t.Errorf("%q, %d", out, code)
	}
}

// A copy of a marker stands for its question, and stays as it is.
func TestCopyOfAMarkerIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := denying(t)
	w.denial(w.run(forward, asks(t, "s-1", "t1", "Q?", "A", "B")))
	b, _ := os.ReadFile(w.question().Path)
	copied := filepath.Join(w.dir, "mine", "copy.json")
	writeFile(t, copied, string(b))
	w.say(ann, w.thread(1), "B")
	if out, code := w.waits("--marker", copied, "--timeout", "20"); code != 0 || out != "GCHAT_RESPONSE: B\n" {
		t.Errorf("%q, %d", out, code)
	}
	if after, _ := os.ReadFile(copied); string(after) != string(b) {
		t.Error("the copy was rewritten")
	}
	if beside, _ := os.ReadDir(filepath.Dir(copied)); len(beside) != 1 {
		t.Errorf("beside it: %v", beside)
	}
	if w.question().Status != state.Resolved {
		t.Errorf("its question is %s", w.question().Status)
	}
}

// The hook was killed between writing the question down for the terminal and removing its marker. An equal question that was
// denied before is none of the dialog's business.
func TestMarkerBesideItsDialogGoes(t *testing.T) {
	t.Parallel()
	w := denying(t)
	first := w.denial(w.run(forward, recorded(t, "single-03-PreToolUse", "tool_use_id", "t1")))
	second := w.denial(w.run(forward, recorded(t, "single-03-PreToolUse", "tool_use_id", "t2")))
	for _, q := range w.questions() {
		if q.QuestionID == second {
			dir := filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state")
			if _, err := state.QuestionsIn(dir).Record(q.SessionID, func([]*state.Question) *state.Question { return poller.Instead(q) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.until("the waiter", func() bool {
		return slices.ContainsFunc(w.questions(), func(q *state.Question) bool { return q.Mode == state.Native && state.HasWaiter(q) })
	})
	w.say(ann, w.thread(2), "canary")
	if got := w.answers(p.end())[single]; got != "Canary" {
		t.Errorf("answered %q", got)
	}
	var markers []string
	for _, q := range w.questions() {
		if q.Mode == state.Deny {
			markers = append(markers, fmt.Sprint(q.QuestionID, " ", q.Status))
		}
	}
	if want := first + " pending"; len(markers) != 1 || markers[0] != want {
		t.Errorf("markers %q, want %q", markers, want)
	}
	if n := len(w.messages("[AskUserQuestion]")); n != 2 {
		t.Errorf("asked %d times", n)
	}
}
