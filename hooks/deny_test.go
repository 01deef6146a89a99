package hooks

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// Two sessions ask two questions each in deny mode, at once. The replies come in any
// order, as numbers, labels or free text.
func TestDeny_RepliesReachTheirSession(t *testing.T) {
	t.Parallel()
	runs := 12
	if n, err := strconv.Atoi(os.Getenv("GCHAT_CROSS_RUNS")); err == nil {
		runs = n
	}
	w := newChatWorld(t)
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
	var calls []*call
	for session := range 2 {
		for n := range 2 {
			c := &call{question: fmt.Sprintf("Which of run %d, session %d, call %d?",
				run, session, n)}
			ask := questionEvent(w, fmt.Sprintf("s-%d-%d", run, session), fmt.Sprintf("t-%d", n),
				c.question, labels...)
			c.p = w.startHook(rewakeHook, ask)
			if out := w.runHook(forwardHook, ask); out != "" {
				w.readDenial(out)
			} else {
				// This machine was too busy to deny the call within three seconds, so the
				// call is asked in the terminal.
				var in map[string]any
				kit.NoError(w, json.Unmarshal(ask, &in))
				c.dialog = w.startHook(forwardHook,
					recorded(w, "single-04-PermissionRequest", "session_id", in["session_id"],
						"tool_input", in["tool_input"]))
			}
			calls = append(calls, c)
		}
	}
	for _, i := range rand.Perm(len(calls)) {
		c, choice := calls[i], rand.N(len(labels))
		reply := []string{strconv.Itoa(choice + 1), labels[choice],
			"own words " + strconv.Itoa(rand.N(1000000))}[rand.N(3)]
		if c.want = labels[choice]; strings.HasPrefix(reply, "own") {
			c.want = reply
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
		w.sendAsUser(ann, thread, reply)
	}
	// A process may deliver the session's other reply as well if both come at the same
	// moment.
	var received [2]string
	for i, c := range calls {
		received[i/2] += c.p.awaitWakeText()
	}
	for i, c := range calls {
		if c.dialog != nil {
			got := w.readAnswers(c.dialog.awaitOutput())[c.question]
			kit.Equalf(w, got, c.want, "run %d: %q in its dialog", run, c.question)
			continue
		}
		for s, text := range received {
			pair := fmt.Sprintf("%q=%q", c.question, c.want)
			if n := strings.Count(text, pair); s == i/2 && n != 1 || s != i/2 &&
				strings.Contains(text, c.question) {
				w.Errorf("run %d: session %d got %d times %s: %s", run, s, n, pair, text)
			}
		}
	}
}

// Chat stores the question of a denied call but does not answer in time. The question is
// asked in the terminal, and the reply in that same thread counts.
func TestDeny_LatePostKeepsItsThread(t *testing.T) {
	t.Parallel()
	w := newChatWorld(t)
	w.env["GCHAT_ASK_MODE"] = "deny"
	open := make(chan struct{})
	w.trace.setIntercept(storeAndHang(w, open))
	kit.Equalf(t, w.runHook(forwardHook, recorded(t, "single-03-PreToolUse")), "", "printed")
	close(open)
	p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
	w.sendAsUser(ann, w.awaitThread(1), "canary")
	p.wantAnswer("Canary")
	kit.Equalf(t, len(w.messages("[AskUserQuestion]")), 1, "asked")
}

// A stop gate and a poll script in Python find a deny-mode question. The poll script
// answers it, and the session is woken with that.
func TestDeny_PythonReadersAgree(t *testing.T) {
	kit.NeedProgram(t, "python3")
	for name, c := range map[string]struct{ called, gate, file string }{
		"named by a launch script": {"system3-1763726400", "system3-1763726400",
			"ask-system3-1763726400-"},
		"a name that is no file's name": {"orch/epic 4", "orch/epic 4", "ask-orch_epic_4_"},
		"not named":                     {"", "s-1", "ask-s-1-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newChatWorld(t)
			w.env["GCHAT_ASK_MODE"], w.env["CLAUDE_SESSION_ID"] = "deny", c.called
			gate := w.withVariables("CLAUDE_SESSION_ID", c.gate)
			ask := databaseEvent(t)
			id := w.readDenial(w.runHook(forwardHook, ask))
			kit.True(t, strings.HasPrefix(id, c.file) && id[len(id)-9] == '-',
				"the question and its thread are called %s", id)
			gate.wantGateSees(gateExpectation{Asked: 1, Waiting: 1})
			w.withVariables("CLAUDE_SESSION_ID", "another").wantGateSees(gateExpectation{})
			p := w.startHook(rewakeHook, ask)
			w.awaitWaiter(w.question())
			var looked []struct {
				ID     string    `json:"question_id"`
				Thread string    `json:"thread_name"`
				Since  time.Time `json:"forwarded_at"`
			}
			posted, err := time.Parse(time.RFC3339, w.messages("[AskUserQuestion]")[0].CreateTime)
			kit.NoError(t, err)
			w.runPython("poll_replies.py", &looked, "2")
			kit.Must(t, len(looked) == 1 && looked[0].ID == id &&
				looked[0].Thread == w.awaitThread(1), "a poll script looks at %v", looked)
			// the time is that of the post
			since, asked := looked[0].Since, w.question().AskedAt.Truncate(time.Second)
			kit.True(t, !since.Before(asked) && !since.After(posted),
				"it looks from %s on: asked at %s, posted at %s", since, asked, posted)
			kit.Containsf(t, p.awaitWakeText(), `"Which DB?"="Postgres"`, "woken with")
			gate.wantGateSees(gateExpectation{Asked: 1, Answer: "2"})
			q := w.question()
			kit.Equal(t, [4]string{q.ClaudeSessionID, q.SessionID, q.AnsweredBy, q.AnsweredByName},
				[4]string{"s-1", c.gate, state.LocalSender, "Ann"})
			w.awaitMessage("[Answered]")
		})
	}
}

// runPython runs one of testdata/readers on the project's state, like a program in the
// session's environment.
func (w *world) runPython(script string, target any, args ...string) {
	w.Helper()
	cmd := bound.Command(w, "python3", append([]string{filepath.Join("testdata", "readers", script),
		w.projectState()}, args...)...)
	cmd.Env = append(w.environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	kit.NoError(w, err)
	kit.NoError(w, json.Unmarshal(out, target))
}

// gateExpectation is how a stop gate in Python judges the session's markers.
type gateExpectation struct {
	Asked, Waiting int
	Answer         string
}

func (w *world) wantGateSees(want gateExpectation) {
	w.Helper()
	var got gateExpectation
	w.runPython("stop_gate.py", &got)
	kit.Equalf(w, got, want, "what a stop gate sees")
}

// newDenyWorld returns a world whose sessions are in deny mode, without a poller.
func newDenyWorld(t testing.TB) *world {
	w := newWorld(t)
	w.env["GCHAT_ASK_MODE"] = "deny"
	return w
}

// databaseEvent is the PreToolUse event that most tests of denied calls use.
func databaseEvent(t testing.TB) []byte {
	return questionEvent(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
}

// startWaiter has a call denied. It returns the hook that waits for its reply, and its
// question.
func (w *world) startWaiter(ask []byte) (*hookProcess, *state.Question) {
	w.Helper()
	q := w.askDenied(ask)
	p := w.startHook(rewakeHook, ask)
	w.awaitWaiter(q)
	return p, q
}

// runRewake runs a rewake hook, and returns the text that wakes the session.
func (w *world) runRewake(event []byte) string {
	w.Helper()
	return w.startHook(rewakeHook, event).awaitWakeText()
}

// readDenial checks that a hook denied the call, and returns the question's id.
func (w *world) readDenial(out string) (id string) {
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
	_, id, _ = strings.Cut(d.Output.Reason, "(thread: ")
	id, _, _ = strings.Cut(id, ")")
	return id
}

// runWhileAsked runs a call's hook. Meanwhile it does to the question what the poller
// would do.
func (w *world) runWhileAsked(ask []byte, poller func(*state.Question)) (out string) {
	w.Helper()
	before := len(w.questions())
	p := w.startHook(forwardHook, ask)
	w.waitUntil("the question", func() bool { return len(w.questions()) > before })
	poller(w.questions()[0])
	return p.awaitOutput()
}

// askDenied has a call denied and returns its question.
func (w *world) askDenied(ask []byte) *state.Question {
	w.Helper()
	id := w.readDenial(w.runWhileAsked(ask, w.markPosted))
	q, err := state.LoadQuestion(filepath.Join(state.MarkersIn(w.projectState()).Dir, id+".json"))
	kit.Must(w, err == nil && q.IsDenied && q.ThreadKey == id && q.TimesOutAt != nil,
		"marker of a denied call: %+v, %v", q, err)
	return q
}

// markTimedOut does what the poller does when a question's time is up.
func (w *world) markTimedOut(q *state.Question, change func(*state.Question)) {
	w.Helper()
	w.closeQuestion(q, state.TimedOut, "timeout", change)
}

// A question is never denied when nobody can answer it. If it cannot be posted, or if no
// hook would wake the session, it is asked in the terminal.
func TestDeny_OnlyIfAnswerable(t *testing.T) {
	settings := func(hooks string) func(*world) {
		return func(w *world) {
			writeFile(w, filepath.Join(w.env["HOME"], ".claude", "settings.json"), hooks)
		}
	}
	for name, c := range map[string]struct {
		before    func(*world)
		postError string
	}{
		"it cannot be posted": {func(*world) {}, "nobody may answer"},
		"it takes too long":   {func(*world) {}, ""},
		"no rewake hook":      {settings(`{"hooks":"gchat-ask-user-forward"}`), ""},
		"no state for the index": {func(w *world) {
			writeFile(w, filepath.Join(state.UserStateDir(w.getenv), "open"), "")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDenyWorld(t)
			c.before(w)
			out := w.runWhileAsked(recorded(t, "single-03-PreToolUse"), func(q *state.Question) {
				w.changeQuestion(q, func(q *state.Question) { q.PostError = c.postError })
			})
			kit.Equalf(t, out, "", "printed")
			q := w.question()
			kit.True(t, q.Mode == state.ModeNative && q.Status == state.Pending && !q.IsDenied &&
				q.TimesOutAt == nil, "%s, %s, denied %v, until %v", q.Mode, q.Status,
				q.IsDenied, q.TimesOutAt)
			lacksHook := name == "no rewake hook"
			kit.Equalf(t, state.IsMarkerFile(q.Path), !lacksHook, "marker: %s", q.Path)
			logged := strings.Contains(w.log(), "no gchat-ask-user-rewake hook is registered")
			kit.Equalf(t, logged, lacksHook, "log: %s", w.log())
			kit.Equalf(t, w.runRewake(recorded(t, "single-03-PreToolUse")), "", "woken with")
		})
	}
	t.Run("a rewake hook is registered", func(t *testing.T) {
		t.Parallel()
		w := newDenyWorld(t)
		settings(`{"hooks":"gchat-ask-user-forward gchat-ask-user-rewake"}`)(w)
		w.env["GCHAT_REPLY_TIMEOUT"], w.env["GCHAT_TIMEOUT_POLICY"] = "2", "recommended"
		q := w.askDenied(recorded(t, "single-03-PreToolUse"))
		kit.True(t, q.TimesOutAt.Equal(q.AskedAt.Add(2*time.Second)) &&
			q.TimeoutPolicy == state.TimeoutRecommended, "until %v, by %s", q.TimesOutAt,
			q.TimeoutPolicy)
	})
}

// A dialog does not reclaim an equal question that was denied long ago.
func TestDeny_OldMarkerIsNotReclaimed(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	old := w.askDenied(recorded(t, "single-03-PreToolUse", "tool_use_id", "t1"))
	w.changeQuestion(old, func(q *state.Question) { q.AskedAt = q.AskedAt.Add(-time.Hour) })
	w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
	w.waitUntil("the dialog's question", func() bool { return len(w.questions()) == 2 })
	w.wantEnd(old, state.Pending, "")
	kit.Equalf(t, w.reload(old).Mode, state.ModeDeny, "mode of the old one")
}

// The hook is killed before it can deny, and the dialog's hook can write nothing. The
// terminal's answer still closes the marker.
func TestDeny_KilledHookAnsweredInTerminal(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	p := w.startHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", "t2"))
	q := w.awaitQuestion()
	p.kill()
	w.runHook(answeredHook, recorded(t, "single-05-PostToolUse", "tool_use_id", "t2"))
	w.wantEnd(q, state.Resolved, "terminal")
	kit.True(t, !w.reload(q).IsDenied, "denied")
}

// The denial does not arrive, or the question is asked in the terminal instead. The
// dialog's hook waits for the same record, which the rewake hook releases. The record
// ends as that of any dialog.
func TestDeny_DialogTakesTheRecord(t *testing.T) {
	reply := func(w *world, p *hookProcess) {
		w.markReplied(w.questionOfCall("t2"), "Canary")
		p.wantAnswer("Canary")
	}
	event := func(kv ...any) func(w *world, p *hookProcess) {
		return func(w *world, p *hookProcess) {
			w.runHook(answeredHook, recorded(w, "single-05-PostToolUse", kv...))
			p.awaitOutput()
		}
	}
	prompt := event("hook_event_name", "UserPromptSubmit", "tool_name", "", "tool_use_id", "")
	for name, c := range map[string]struct {
		instead bool // the question was not posted in time
		end     func(w *world, p *hookProcess)
		status  state.Status
		by      string
	}{
		"a reply":                      {false, reply, state.Answered, ""},
		"a reply, asked there instead": {true, reply, state.Answered, ""},
		"the terminal, asked there instead": {true, event("tool_use_id", "t2"),
			state.Resolved, "terminal"},
		"a new prompt, asked there instead": {true, prompt, state.Cancelled, "prompt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDenyWorld(t)
			ask := recorded(t, "single-03-PreToolUse", "tool_use_id", "t2")
			waking := w.startHook(rewakeHook, ask)
			var first *state.Question
			if c.instead {
				out := w.runWhileAsked(ask, func(q *state.Question) {
					first = q
					w.awaitWaiter(q)
					w.changeQuestion(q, func(q *state.Question) { q.PostError = "nobody may answer" })
				})
				kit.Equalf(t, out, "", "printed")
			} else {
				first = w.askDenied(ask)
				w.awaitWaiter(first)
			}
			p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
			kit.Equalf(t, waking.awaitWakeText(), "", "woken with")
			w.awaitWaiter(first)
			if q := w.question(); q.Path != first.Path || q.Mode != state.ModeNative ||
				q.IsDenied || q.IsMessageSent == c.instead {
				t.Errorf("the dialog's question: %s, %s, sent %v, denied %v", q.Path, q.Mode,
					q.IsMessageSent, q.IsDenied)
			}
			c.end(w, p)
			w.wantEnd(first, c.status, c.by)
		})
	}
}

// Only the timed-out question itself may be asked in the terminal again.
func TestDeny_AskTerminalIsForOneQuestion(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	w.env["GCHAT_TIMEOUT_POLICY"] = "ask-terminal"
	for i, text := range []string{"Which DB?", "Which zone?"} {
		w.markTimedOut(w.askDenied(questionEvent(t, "s-1", fmt.Sprint("t", i), text, "A",
			fmt.Sprint("B", i))), nil)
	}
	kit.Equalf(t, w.runHook(forwardHook, questionEvent(t, "s-1", "u0", "Which DB, then?", "A",
		"B0")), "", "printed")
	for call, want := range map[string]bool{"t0": true, "t1": false} {
		kit.Equalf(t, w.questionOfCall(call).IsAskedAgain, want, "%s: asked again", call)
	}
}

// Whatever fails on the way to the denial, the question is either denied and recorded as
// denied, or asked in the terminal.
func TestDeny_FailingLocks(t *testing.T) {
	kit.NeedProgram(t, "strace")
	for nth := 1; nth <= 12; nth++ {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			t.Parallel()
			w := newDenyWorld(t)
			p := w.startHook(forwardHook, databaseEvent(t), "strace", "-f", "-qq", "-b", "execve",
				"-o", os.DevNull, "-e", "trace=flock", "-e", fmt.Sprintf("inject=flock:error=EIO:when=%d", nth))
			w.waitUntil("the question or the end",
				func() bool { return len(w.questions()) > 0 || p.hasEnded() })
			for _, q := range w.questions() {
				w.changeQuestion(q, func(q *state.Question) { q.IsMessageSent = true })
			}
			<-p.done
			w.wantLogged(`"panic"`, 0)
			isRecorded := slices.ContainsFunc(w.questions(),
				func(q *state.Question) bool { return q.IsDenied })
			kit.Equalf(t, strings.Contains(p.out.String(), `"deny"`), isRecorded,
				"printed %q", &p.out)
		})
	}
}

// storeAndHang is a Chat that stores the first message and does not answer until release
// is closed.
func storeAndHang(
	w *world, release <-chan struct{},
) func(http.ResponseWriter, *http.Request) bool {
	isFirst := atomic.Bool{}
	isFirst.Store(true)
	return func(_ http.ResponseWriter, r *http.Request) (handled bool) {
		if r.Method != http.MethodPost || !isFirst.CompareAndSwap(true, false) {
			return false
		}
		w.chat.Handler().ServeHTTP(httptest.NewRecorder(), r)
		select {
		case <-release:
		case <-time.After(testTimeout):
		}
		return true
	}
}
