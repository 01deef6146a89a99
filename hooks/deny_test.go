package hooks_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

const rewake = "gchat-ask-user-rewake"

// denying is a machine whose sessions are in deny mode.
func denying(t testing.TB) *world {
	w := newWorld(t)
	w.env["GCHAT_ASK_MODE"] = "deny"
	return w
}

// asks is a PreToolUse event of a session with a question.
func asks(t testing.TB, session, call, question string, labels ...string) []byte {
	var options []map[string]string
	for _, l := range labels {
		options = append(options, map[string]string{"label": l, "description": "about " + l})
	}
	return recorded(t, "single-03-PreToolUse", "session_id", session, "tool_use_id", call, "tool_input", map[string]any{
		"questions": []any{map[string]any{"question": question, "header": "Pick", "options": options, "multiSelect": false}},
	})
}

// woken waits for the end of a rewake hook, and returns what it wakes its session with; "" when it ended quietly.
func (p *process) woken() string {
	p.w.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.w.Fatalf("%v does not end", p.Args)
	}
	switch code := p.ProcessState.ExitCode(); {
	case p.out.Len() > 0, code == 0 && p.err.Len() > 0, code == 2 && p.err.Len() == 0, code != 0 && code != 2:
		p.w.Errorf("%v: exit %d, stdout %q, stderr %q", p.Args, code, &p.out, &p.err)
	}
	return p.err.String()
}

// denial checks that a hook denied the call, and returns the question's id.
func (w *world) denial(out string) (id string) {
	w.Helper()
	var d struct {
		Output struct {
			Decision string `json:"permissionDecision"`
			Reason   string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil || d.Output.Decision != "deny" {
		w.Fatalf("not denied: %q", out)
	}
	_, id, _ = strings.Cut(d.Output.Reason, "question: ")
	id, _, _ = strings.Cut(id, ")")
	return id
}

// foreign is what another program reads from the markers of a session.
func (w *world) foreign(session string) (found []string) {
	w.Helper()
	files, _ := filepath.Glob(filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state", "gchat-forwarded-ask", "*.json"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		var m map[string]any
		if err != nil || json.Unmarshal(b, &m) != nil {
			w.Errorf("%s: %v: %s", f, err, b)
			continue
		}
		if m["session_id"] == session {
			found = append(found, fmt.Sprintf("%v | %v | %v", m["status"], m["response"], m["questions"].([]any)[0].(map[string]any)["question"]))
		}
	}
	return found
}

func (w *world) reads(session string, want ...string) {
	w.Helper()
	if got := w.foreign(session); fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("a reader of the markers finds %q, want %q", got, want)
	}
}

// Readers of other programs find what they look for at every stage.
func TestMarkersAreReadByOtherPrograms(t *testing.T) {
	t.Parallel()
	w := denying(t)
	event := asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
	id := w.denial(w.run(forward, event))
	if _, err := os.Stat(filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state", "gchat-forwarded-ask", id+".json")); err != nil || !strings.HasPrefix(id, "ask-s-1-") {
		t.Errorf("marker of %q: %v", id, err)
	}
	w.reads("s-1", "pending | <nil> | Which DB?")
	if q := w.question(); q.ThreadKey != id || q.ThreadName == "" {
		t.Errorf("thread %q, %q", q.ThreadKey, q.ThreadName)
	}
	w.say(ann, w.thread(1), "2")
	if got := w.start(rewake, event).woken(); !strings.Contains(got, `"Which DB?"="Postgres"`) {
		t.Errorf("woken with %q", got)
	}
	w.reads("s-1", "resolved | 2 | Which DB?")
	w.env["GCHAT_REPLY_TIMEOUT"] = "0.2"
	late := asks(t, "s-2", "t2", "Which zone?", "a", "b")
	w.denial(w.run(forward, late))
	w.start(rewake, late).woken()
	w.reads("s-2", "timeout | <nil> | Which zone?")
	// A reply that came too late still counts, as nothing else was chosen, and is read along with another question's.
	w.say(ann, w.thread(2), "1")
	w.env["GCHAT_REPLY_TIMEOUT"] = "30m"
	other := asks(t, "s-3", "t3", "Which rack?", "x", "y")
	w.denial(w.run(forward, other))
	p := w.start(rewake, other)
	w.awaitMessage("[Kept]")
	w.reads("s-2", "timeout | <nil> | Which zone?") // judged by its own session only
	if out := w.run(answered, recorded(t, "single-05-PostToolUse", "hook_event_name", "UserPromptSubmit", "session_id", "s-2")); !strings.Contains(out, `"additionalContext":"GCHAT_RESPONSE: `) || !strings.Contains(out, `Which zone?\"=\"a\"`) {
		t.Errorf("the next prompt brings %q", out)
	}
	w.reads("s-2", "resolved | 1 | Which zone?")
	w.say(ann, w.thread(3), "y")
	if got := p.woken(); !strings.Contains(got, `"Which rack?"="y"`) {
		t.Errorf("woken with %q", got)
	}
}

func TestWhicheverHookOfADeniedCallStartsFirst(t *testing.T) {
	t.Parallel()
	w := denying(t)
	event := asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
	first, second := w.start(rewake, event), w.start(rewake, event)
	w.denial(w.run(forward, event))
	w.say(bob, w.thread(1), "1")
	w.awaitMessage("[Not used]")
	w.say(ann, w.thread(1), "2")
	// Of two installs one wakes the session, the other one ends quietly.
	if got := []string{first.woken(), second.woken()}; (got[0] == "") == (got[1] == "") || !strings.Contains(got[0]+got[1], `="Postgres"`) {
		t.Errorf("woken with %q", got)
	}
	w.awaitMessage("[Answered]")
}

func TestNeverDeniedIntoTheVoid(t *testing.T) {
	event := func(t *testing.T) []byte { return recorded(t, "single-03-PreToolUse") }
	inTerminal := func(t *testing.T, w *world) {
		t.Helper()
		if out := w.run(forward, event(t)); out != "" {
			t.Fatalf("printed %q", out)
		}
		if q := w.question(); q.Mode != state.Native || q.Status != state.Pending {
			t.Errorf("%s, %s", q.Mode, q.Status)
		}
		if got := w.start(rewake, event(t)).woken(); got != "" {
			t.Errorf("woken with %q", got)
		}
	}
	t.Run("nobody may answer", func(t *testing.T) {
		t.Parallel()
		w := denying(t)
		w.env["GCHAT_ALLOWED_USERS"] = ""
		inTerminal(t, w)
	})
	t.Run("no webhook", func(t *testing.T) {
		t.Parallel()
		w := denying(t)
		w.env["GOOGLE_CHAT_WEBHOOK_URL"] = ""
		inTerminal(t, w)
		w.endOfFlusherNow() // it would wait for a configuration
	})
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"Chat refuses": func(rw http.ResponseWriter, r *http.Request) bool { rw.WriteHeader(403); return true },
		"Chat is busy": func(rw http.ResponseWriter, r *http.Request) bool { rw.WriteHeader(503); return true },
		"Chat answers nonsense": func(rw http.ResponseWriter, r *http.Request) bool {
			fmt.Fprint(rw, "<html>")
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := denying(t)
			w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool { return r.Method == http.MethodPost && fault(rw, r) })
			inTerminal(t, w)
			w.trace.set(nil)
			p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			w.say(ann, w.thread(1), "canary")
			if got := w.answers(p.end())[single]; got != "Canary" {
				t.Errorf("answered %q", got)
			}
		})
	}
	// What was stored before Chat fell silent is not posted a second time.
	t.Run("Chat stores and hangs", func(t *testing.T) {
		t.Parallel()
		w := denying(t)
		open := make(chan struct{})
		var once sync.Once
		handler := w.chat.Handler()
		w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			hang := false
			once.Do(func() { hang = true })
			if hang {
				handler.ServeHTTP(&nowhere{}, r)
				<-open
			}
			return hang
		})
		defer close(open)
		inTerminal(t, w)
		p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
		w.say(ann, w.thread(1), "canary")
		if got := w.answers(p.end())[single]; got != "Canary" {
			t.Errorf("answered %q", got)
		}
		if n := len(w.messages("[AskUserQuestion]")); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// The hook was killed before it could deny: the dialog is on the screen, and the question goes on there.
func TestDialogDespiteDeny(t *testing.T) {
	t.Parallel()
	w := denying(t)
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.say(ann, w.thread(1), "canary")
	if got := w.answers(p.end())[single]; got != "Canary" {
		t.Errorf("answered %q", got)
	}
	if q := w.question(); q.Mode != state.Native || len(w.messages("[AskUserQuestion]")) != 1 {
		t.Errorf("%s, asked %d times", q.Mode, len(w.messages("[AskUserQuestion]")))
	}
}

func TestEndedSessionGetsTheReplyWhenItIsResumed(t *testing.T) {
	t.Parallel()
	w := denying(t)
	event := asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
	w.denial(w.run(forward, event))
	p := w.start(rewake, event)
	w.until("the waiter", func() bool { return state.HasWaiter(w.question()) })
	w.run(answered, recorded(t, "single-05-PostToolUse", "hook_event_name", "SessionEnd", "session_id", "s-1"))
	if got := p.woken(); got != "" {
		t.Errorf("an ended session was woken with %q", got)
	}
	w.say(ann, w.thread(1), "1")
	// Another session of the machine reads for it.
	other := asks(t, "s-2", "t2", "Which rack?", "x", "y")
	w.denial(w.run(forward, other))
	q := w.start(rewake, other)
	w.awaitMessage("[Kept] The session has ended")
	terminate(q)
	start := recorded(t, "single-05-PostToolUse", "hook_event_name", "SessionStart", "source", "resume", "session_id", "s-1")
	if out := w.run(sessionHook, start); !strings.Contains(out, `"hookEventName":"SessionStart"`) || !strings.Contains(out, `Which DB?\"=\"SQLite\"`) {
		t.Errorf("resumed with %q", out)
	}
	if out := w.run(sessionHook, start); out != "" {
		t.Errorf("resumed again with %q", out)
	}
	w.awaitMessage("[Answered]")
}

// A Stop brings what a killed waiter left, and does nothing when there is nothing.
func TestStopTakesOverFromAKilledWaiter(t *testing.T) {
	t.Parallel()
	w := denying(t)
	stop := recorded(t, "single-05-PostToolUse", "hook_event_name", "Stop", "session_id", "s-1")
	if got := w.start(rewake, stop).woken(); got != "" {
		t.Errorf("woken with %q", got)
	}
	event := asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
	w.denial(w.run(forward, event))
	p := w.start(rewake, event)
	w.until("the waiter", func() bool { return state.HasWaiter(w.question()) })
	_ = p.Process.Kill()
	<-p.done
	p = w.start(rewake, stop)
	w.say(ann, w.thread(1), "1")
	if got := p.woken(); !strings.Contains(got, `="SQLite"`) {
		t.Errorf("woken with %q", got)
	}
	if got := w.start(rewake, stop).woken(); got != "" {
		t.Errorf("woken again with %q", got)
	}
}

// Two sessions ask two questions each, at once; the replies come in any order, as numbers, labels or words.
func TestCrosswiseRepliesReachWhoAsked(t *testing.T) {
	t.Parallel()
	runs := 12
	if n, err := strconv.Atoi(os.Getenv("GCHAT_CROSS_RUNS")); err == nil {
		runs = n
	}
	const day = 24 // runs in one space
	for first := 0; first < runs; first += day {
		t.Run(strconv.Itoa(first), func(t *testing.T) {
			w := denying(t)
			w.env["GCHAT_WRITES_PER_MINUTE"] = "60000" // beyond the usual 60, questions would go to the terminal
			var wg sync.WaitGroup
			sem := make(chan struct{}, 4)
			for run := first; run < min(first+day, runs); run++ {
				wg.Add(1)
				sem <- struct{}{}
				go func() {
					defer func() { <-sem; wg.Done() }()
					crosswise(w, run)
				}()
			}
			wg.Wait()
		})
	}
}

func crosswise(w *world, run int) {
	type call struct {
		p        *process
		question string
		want     string
	}
	labels := []string{"alpha", "beta", "gamma"}
	var calls []*call
	for session := range 2 {
		for n := range 2 {
			id := fmt.Sprintf("s-%d-%d", run, session)
			c := &call{question: fmt.Sprintf("Which of run %d, session %d, call %d?", run, session, n)}
			event := asks(w, id, fmt.Sprintf("t-%d", n), c.question, labels...)
			if rand.N(2) == 0 {
				c.p = w.start(rewake, event)
			}
			w.denial(w.run(forward, event))
			if c.p == nil {
				c.p = w.start(rewake, event)
			}
			calls = append(calls, c)
		}
	}
	for _, i := range rand.Perm(len(calls)) {
		c := calls[i]
		choice := rand.N(len(labels))
		c.want = labels[choice]
		reply := []string{strconv.Itoa(choice + 1), labels[choice], "own words " + strconv.Itoa(rand.N(1000000))}[rand.N(3)]
		if strings.HasPrefix(reply, "own") {
			c.want = reply
		}
		for _, m := range w.messages("[AskUserQuestion]") {
			if strings.Contains(m.Text, c.question) {
				if _, err := w.chat.Say(space.Person(), m.Thread.Name, "not mine to answer"); err != nil {
					w.Error(err)
				}
				if _, err := w.chat.Say(ann, m.Thread.Name, reply); err != nil {
					w.Error(err)
				}
			}
		}
	}
	// A process may bring the session's other reply along: it came at the same moment.
	var told [2]string
	for i, c := range calls {
		told[i/2] += c.p.woken()
	}
	for i, c := range calls {
		for s, text := range told {
			pair := fmt.Sprintf("%q=%q", c.question, c.want)
			if n := strings.Count(text, pair); s == i/2 && n != 1 || s != i/2 && strings.Contains(text, c.question) {
				w.Errorf("run %d: session %d was told %d times of %s: %s", run, s, n, pair, text)
			}
		}
	}
}

// Where no hook waits, the thread says so, and hears when a script does.
func TestThreadHearsThatNothingReadsIt(t *testing.T) {
	t.Parallel()
	w := denying(t)
	id := w.denial(w.run(forward, asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")))
	stop := recorded(t, "single-05-PostToolUse", "hook_event_name", "Stop", "session_id", "s-1")
	w.until("the note", func() bool {
		w.run(answered, stop)
		return len(w.messages("[Not read]")) > 0
	})
	w.run(answered, stop)
	cmd := exec.Command(program, "gchat-wait", "--question-id", id, "--interval", "0.1")
	cmd.Env, cmd.Dir = w.environ(), w.dir
	go func() {
		w.until("the waiter", func() bool { return len(w.messages("Replies to this question are read now.")) > 0 })
		w.say(ann, w.thread(1), "1")
	}()
	if out, err := cmd.Output(); err != nil || string(out) != "GCHAT_RESPONSE: 1\n" {
		t.Errorf("printed %q, %v", out, err)
	}
	if n := len(w.messages("[Not read]")); n != 1 {
		t.Errorf("said %d times", n)
	}
}
