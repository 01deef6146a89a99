package hooks_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

const rewake, sessionHook = "gchat-ask-user-rewake", "gchat-session-event"

// newDenyWorld returns a machine whose sessions are in deny mode, without a poller.
func newDenyWorld(t testing.TB) *world {
	w := newWorldWithoutPoller(t)
	w.env["GCHAT_ASK_MODE"] = "deny"
	return w
}

// questionEvent is a PreToolUse event of a session that asks a question.
func questionEvent(t testing.TB, session, call, question string, labels ...string) []byte {
	var options []map[string]string
	for _, l := range labels {
		options = append(options, map[string]string{"label": l, "description": "about " + l})
	}
	return recorded(t, "single-03-PreToolUse", "session_id", session, "tool_use_id", call, "tool_input", map[string]any{
		"questions": []any{map[string]any{"question": question, "header": "Pick", "options": options, "multiSelect": false}},
	})
}

// namedEvent is an event of a session that is about no tool.
func namedEvent(t testing.TB, name, session string, kv ...any) []byte {
	members := []any{"hook_event_name", name, "session_id", session, "tool_name", ""}
	return recorded(t, "single-05-PostToolUse", append(members, kv...)...)
}

// awaitWakeText waits for the end of a rewake hook. It returns the text that wakes the
// session, or "" if the hook ended quietly.
func (p *hookProcess) awaitWakeText() string {
	p.w.Helper()
	select {
	case <-p.done:
	case <-time.After(testTimeout):
		p.w.Fatalf("%v does not end", p.Args)
	}
	switch code := p.ProcessState.ExitCode(); {
	case p.out.Len() > 0, code == 0 && p.err.Len() > 0, code == 2 && p.err.Len() == 0, code != 0 && code != 2:
		p.w.Errorf("%v: exit %d, stdout %q, stderr %q", p.Args, code, &p.out, &p.err)
	}
	return p.err.String()
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
	if err != nil || !q.IsDenied || q.ThreadKey != id || q.TimesOutAt == nil {
		w.Fatalf("marker of a denied call: %+v, %v", q, err)
	}
	return q
}

// markTimedOut does what the poller does when a question's time is up.
func (w *world) markTimedOut(q *state.Question, change func(*state.Question)) {
	w.Helper()
	if ended, err := state.CloseQuestion(q.Path, state.TimedOut, "timeout", change); err != nil || !ended {
		w.Fatal(ended, err)
	}
}

// Of two installs only one wakes the session, whichever hook of the call starts first.
func TestRewake_ReplyWakesOnce(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	ask := questionEvent(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
	first, second := w.startHook(rewake, ask), w.startHook(rewake, ask)
	q := w.askDenied(ask)
	w.awaitWaiter(q)
	w.waitUntil("the other one to leave", func() bool { return first.hasEnded() != second.hasEnded() })
	w.markReplied(q, "Postgres")
	want := `GCHAT_RESPONSE: The user has answered your question from Google Chat: "Which DB?"="Postgres". ` +
		"You can now continue with this answer in mind. (answered question " + q.QuestionID + ")\n"
	kit.Equalf(t, first.awaitWakeText()+second.awaitWakeText(), want, "woken with")
	if q = w.question(); q.Status != state.Resolved || q.ResolvedBy != "chat" || q.DeliveredAt == nil {
		t.Errorf("%s by %q, delivered %v", q.Status, q.ResolvedBy, q.DeliveredAt)
	}
	w.wantOwedNotes(q, closedNote)
}

// A stopped process holds the question's lock when the reply comes. The hook wakes the
// session when that process releases the lock.
func TestRewake_WaitsForALock(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	ask := questionEvent(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
	hook := w.startHook(rewake, ask)
	q := w.askDenied(ask)
	w.awaitWaiter(q)
	dir, file := filepath.Split(q.Path)
	lock, err := state.LockWithTimeout(filepath.Join(dir, ".locks", state.RecordName(file)))
	kit.NoError(t, err)
	elsewhere := *q
	elsewhere.Path = filepath.Join(t.TempDir(), file)
	kit.NoError(t, os.Link(q.Path, elsewhere.Path))
	w.markReplied(&elsewhere, "Postgres")
	kit.NoError(t, os.Rename(elsewhere.Path, q.Path))
	w.waitUntil("the hook to find the lock taken", func() bool { return time.Since(q.AskedAt) > 3*time.Second || hook.hasEnded() })
	lock.Unlock()
	kit.Containsf(t, hook.awaitWakeText(), "Postgres", "woken with")
}

// A question is never denied when nobody can answer it. If it cannot be posted, or if no
// hook would wake the session, it is asked in the terminal.
func TestDeny_OnlyIfAnswerable(t *testing.T) {
	settings := func(hooks string) func(*world) {
		return func(w *world) { writeFile(w, filepath.Join(w.env["HOME"], ".claude", "settings.json"), hooks) }
	}
	for name, c := range map[string]struct {
		before func(*world)
		poller func(*world, *state.Question)
	}{
		"it cannot be posted": {poller: func(w *world, q *state.Question) {
			w.changeQuestion(q, func(q *state.Question) { q.PostError = "nobody may answer" })
		}},
		"it takes too long": {},
		"no rewake hook":    {before: settings(`{"hooks":"gchat-ask-user-forward"}`)},
		"no state for the index": {before: func(w *world) {
			writeFile(w, filepath.Join(w.env["XDG_STATE_HOME"], "gchat-hooks", "open"), "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDenyWorld(t)
			if c.before != nil {
				c.before(w)
			}
			out := w.runWhileAsked(recorded(t, "single-03-PreToolUse"), func(q *state.Question) {
				if c.poller != nil {
					c.poller(w, q)
				}
			})
			if out != "" {
				t.Fatalf("printed %q", out)
			}
			q := w.question()
			if q.Mode != state.ModeNative || q.Status != state.Pending || q.IsDenied || q.TimesOutAt != nil {
				t.Errorf("%s, %s, denied %v, until %v", q.Mode, q.Status, q.IsDenied, q.TimesOutAt)
			}
			kit.Equalf(t, state.IsMarkerFile(q.Path), (name != "no rewake hook"), "it went on in another file: %s", q.Path)
			if told := strings.Contains(w.log(), "no gchat-ask-user-rewake hook is registered"); told != (name == "no rewake hook") {
				t.Errorf("log: %s", w.log())
			}
			kit.Equalf(t, w.startHook(rewake, recorded(t, "single-03-PreToolUse")).awaitWakeText(), "", "woken with")
		})
	}
	t.Run("a rewake hook is registered", func(t *testing.T) {
		t.Parallel()
		w := newDenyWorld(t)
		settings(`{"hooks":"gchat-ask-user-forward gchat-ask-user-rewake"}`)(w)
		w.askDenied(recorded(t, "single-03-PreToolUse"))
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
	if q := w.questionOfCall("t1"); q.Status != state.Pending || q.Mode != state.ModeDeny {
		t.Errorf("the old one is %s, %s", q.Status, q.Mode)
	}
}

// The hook is killed before it can deny, and the dialog's hook can write nothing. The
// terminal's answer still closes the marker.
func TestDeny_KilledHookAnsweredInTerminal(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	p := w.startHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", "t2"))
	w.waitUntil("the marker", func() bool { return len(w.questions()) == 1 })
	kit.NoError(t, p.Process.Kill())
	<-p.done
	w.runHook(answeredHook, recorded(t, "single-05-PostToolUse", "tool_use_id", "t2"))
	if q := w.questionOfCall("t2"); q.IsDenied || q.Status != state.Resolved || q.ResolvedBy != "terminal" {
		t.Errorf("denied %v, %s by %q", q.IsDenied, q.Status, q.ResolvedBy)
	}
}

// The denial does not arrive, or the question is asked in the terminal instead. The
// dialog's hook waits for the same record, which the rewake hook releases. The record
// ends as that of any dialog.
func TestDeny_DialogTakesTheRecord(t *testing.T) {
	for name, c := range map[string]struct {
		instead bool // the question was not posted in time
		ends    func(w *world, p *hookProcess) (out string)
		to      state.Status
		by      string
	}{
		"a reply": {ends: func(w *world, p *hookProcess) string {
			w.markReplied(w.questionOfCall("t2"), "Canary")
			return p.awaitOutput()
		}, to: state.Answered},
		"a reply, asked in the terminal instead": {instead: true, to: state.Answered,
			ends: func(w *world, p *hookProcess) string {
				w.markReplied(w.questionOfCall("t2"), "Canary")
				return p.awaitOutput()
			}},
		"the terminal, asked there instead": {instead: true, to: state.Resolved, by: "terminal", ends: func(w *world, p *hookProcess) string {
			w.runHook(answeredHook, recorded(w.TB, "single-05-PostToolUse", "tool_use_id", "t2"))
			return p.awaitOutput()
		}},
		"a new prompt, asked there instead": {instead: true, to: state.Cancelled, by: "prompt", ends: func(w *world, p *hookProcess) string {
			w.runHook(answeredHook, recorded(w.TB, "single-05-PostToolUse", "hook_event_name", "UserPromptSubmit", "tool_name", "", "tool_use_id", ""))
			return p.awaitOutput()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDenyWorld(t)
			ask := recorded(t, "single-03-PreToolUse", "tool_use_id", "t2")
			waking := w.startHook(rewake, ask)
			first := (*state.Question)(nil)
			if c.instead {
				out := w.runWhileAsked(ask, func(q *state.Question) {
					first = q
					w.awaitWaiter(q)
					w.changeQuestion(q, func(q *state.Question) { q.PostError = "nobody may answer" })
				})
				if out != "" {
					t.Fatalf("printed %q", out)
				}
			} else {
				first = w.askDenied(ask)
				w.awaitWaiter(first)
			}
			p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
			kit.Equalf(t, waking.awaitWakeText(), "", "woken with")
			w.awaitWaiter(first)
			if q := w.question(); q.Path != first.Path || q.Mode != state.ModeNative || q.IsDenied || q.IsMessageSent == c.instead {
				t.Errorf("the dialog's question: %s, %s, sent %v, denied %v", q.Path, q.Mode, q.IsMessageSent, q.IsDenied)
			}
			out := c.ends(w, p)
			if got := ""; c.to == state.Answered {
				if got = w.readAnswers(out)[singleQuestion]; got != "Canary" {
					t.Errorf("answered %q", got)
				}
			}
			if q := w.question(); q.Status != c.to || q.ResolvedBy != c.by {
				t.Errorf("%s by %q", q.Status, q.ResolvedBy)
			}
		})
	}
}

// The session's end ends its waiters. The reply comes with the next session start, once.
func TestRewake_ResumedSessionGetsTheReply(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	w.env["CLAUDE_SESSION_ID"] = "system3-1"
	ask := questionEvent(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
	q := w.askDenied(ask)
	p := w.startHook(rewake, ask)
	w.awaitWaiter(q)
	w.runHook(answeredHook, namedEvent(t, "SessionEnd", "s-1"))
	kit.Equalf(t, p.awaitWakeText(), "", "an ended session was woken with")
	w.markReplied(q, "SQLite")
	w.env["CLAUDE_SESSION_ID"] = "system3-2" // the session is resumed under another name
	kit.Equalf(t, w.runHook(sessionHook, namedEvent(t, "SessionStart", "s-2", "source", "resume")), "", "another session is told")
	start := namedEvent(t, "SessionStart", "s-1", "source", "resume")
	out := w.runHook(sessionHook, start)
	if !strings.Contains(out, `"hookEventName":"SessionStart"`) || !strings.Contains(out, `Which DB?\"=\"SQLite\"`) {
		t.Errorf("resumed with %q", out)
	}
	kit.Equalf(t, w.runHook(sessionHook, start), "", "resumed again with")
	w.wantOwedNotes(w.question(), closedNote)
}

// After a restart, a session is resumed with other variables. The poller of the new
// environment reads its question.
func TestRewake_ResumedInAnotherEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["GCHAT_ASK_MODE"] = "deny"
	const session = "5ca1ab1e-0000-4000-8000-000000000003"
	w.readDenial(w.runHook(forwardHook, questionEvent(t, session, "c1", "Which DB?", "SQLite", "Postgres")))
	thread := w.awaitThread(1)
	w.endPollers()
	elsewhere := w.withVariables("NO_PROXY", "example.org")
	elsewhere.runHook("gchat-ask-user-answered", namedEvent(t, "SessionStart", session))
	p := elsewhere.startHook(rewake, namedEvent(t, "Stop", session))
	elsewhere.awaitWaiter(w.question())
	w.sendAsUser(ann, thread, "2")
	kit.Containsf(t, p.awaitWakeText(), "Postgres", "woken with")
}

// A Stop hook delivers what a killed waiter left, and does nothing if there is nothing.
func TestRewake_StopReplacesAKilledWaiter(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	stop := namedEvent(t, "Stop", "s-1")
	kit.Equalf(t, w.startHook(rewake, stop).awaitWakeText(), "", "woken with")
	ask := questionEvent(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
	q := w.askDenied(ask)
	p := w.startHook(rewake, ask)
	w.awaitWaiter(q)
	_ = p.Process.Kill()
	<-p.done
	other := w.askDenied(questionEvent(t, "s-1", "t2", "Which zone?", "a", "b"))
	p = w.startHook(rewake, stop)
	w.awaitWaiter(q)
	w.awaitWaiter(other)
	w.markReplied(other, "b")
	kit.Containsf(t, p.awaitWakeText(), `="b"`, "woken with")
	w.markReplied(q, "SQLite")
	kit.Containsf(t, w.startHook(rewake, stop).awaitWakeText(), `="SQLite"`, "woken with")
	kit.Equalf(t, w.startHook(rewake, stop).awaitWakeText(), "", "woken again with")
}

// The session is woken once with the timeout's outcome, and with a reply that comes
// later.
func TestRewake_TimeoutWakesOnce(t *testing.T) {
	both := []any{
		map[string]any{"question": "Drop table users?", "header": "Drop", "options": []any{}, "multiSelect": false},
		map[string]any{"question": "Which zone?", "header": "Zone", "options": []any{}, "multiSelect": false},
	}
	partial := func(q *state.Question) { q.PartialAnswers = map[int]state.Answer{0: {Labels: []string{"No"}}} }
	for name, c := range map[string]struct {
		also   func(*state.Question)
		before func(w *world, q *state.Question)
		says   []string
	}{
		"left open": {also: partial, says: []string{
			"GCHAT_TIMEOUT: No response in 30 minutes. Go on without an answer", "a later reply still comes to you",
			`The user did answer: "Drop table users?"="No"`, `The question was: "Which zone?"`}},
		"chosen by the policy": {also: func(q *state.Question) {
			partial(q)
			q.ResolvedBy, q.Answers = "policy", map[string]string{"Drop table users?": "No", "Which zone?": "a"}
		}, says: []string{
			`The timeout policy chose, not the user: "Which zone?"="a".`, `The user did answer: "Drop table users?"="No"`}},
		"a reply that could not be judged": {also: func(q *state.Question) {
			q.Replies = []state.Reply{{MessageName: "m", Sender: ann.Name, Text: "No"}}
		}, says: []string{"Google Chat cannot be read at present: the user may have replied."}},
		"a space that cannot be read": {before: func(w *world, q *state.Question) {
			w.changeQuestion(q, func(q *state.Question) { q.Chat = "chat.googleapis.com/spaces/A" })
			_, err := state.SpacesIn(state.UserStateDir(w.getenv)).Change("chat.googleapis.com/spaces/A", func(s *state.Space) {
				s.ReadTrouble = &state.ReadTrouble{Why: "403"}
			})
			kit.NoError(w, err)
		}, says: []string{"Google Chat cannot be read at present: the user may have replied."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDenyWorld(t)
			ask := recorded(t, "single-03-PreToolUse", "session_id", "s-1", "tool_input", map[string]any{"questions": both})
			q := w.askDenied(ask)
			if c.before != nil {
				c.before(w, q)
			}
			p := w.startHook(rewake, ask)
			w.awaitWaiter(q)
			w.markTimedOut(q, c.also)
			got := p.awaitWakeText()
			for _, part := range c.says {
				if !strings.Contains(got, part) {
					t.Errorf("woken with %q, which does not hold %q", got, part)
				}
			}
			if q = w.question(); !q.IsLate(time.Now()) {
				return
			}
			p = w.startHook(rewake, namedEvent(t, "Stop", "s-1"))
			w.awaitWaiter(q)
			w.markReplied(q, "Yes")
			kit.Containsf(t, p.awaitWakeText(), `="Yes"`, "woken late with")
		})
	}
}

// No process waits when the time is up. The next Stop delivers the timeout, and delivers
// it once more if the transcript lacks it.
func TestRewake_TimeoutWithoutAWaiter(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	q := w.askDenied(questionEvent(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres"))
	w.markTimedOut(q, func(q *state.Question) { q.IsAskedAgain = true })
	transcript := filepath.Join(w.dir, "transcript.jsonl")
	writeFile(t, transcript, `{"type":"user"}`)
	stop := namedEvent(t, "Stop", "s-1", "transcript_path", transcript)
	for i, want := range []string{"GCHAT_TIMEOUT: ", "GCHAT_TIMEOUT: ", ""} {
		got := w.startHook(rewake, stop).awaitWakeText()
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("Stop %d: woken with %q", i+1, got)
		}
		w.changeQuestion(w.question(), func(q *state.Question) {
			then := q.DeliveredAt.Add(-time.Minute)
			q.DeliveredAt = &then
		})
	}
}

// Only the timed-out question itself may be asked in the terminal again.
func TestDeny_AskTerminalIsForOneQuestion(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	w.env["GCHAT_TIMEOUT_POLICY"] = "ask-terminal"
	for i, text := range []string{"Which DB?", "Which zone?"} {
		w.markTimedOut(w.askDenied(questionEvent(t, "s-1", fmt.Sprint("t", i), text, "A", fmt.Sprint("B", i))), nil)
	}
	kit.Equalf(t, w.runHook(forwardHook, questionEvent(t, "s-1", "u0", "Which DB, then?", "A", "B0")), "", "printed")
	for call, want := range map[string]bool{"t0": true, "t1": false} {
		if q := w.questionOfCall(call); q.IsAskedAgain != want {
			t.Errorf("%s: asked again %v", q.SubQuestions[0].Question, q.IsAskedAgain)
		}
	}
}

// A reply is delivered as the context of a prompt, but another hook may block the prompt.
// Then Claude gets neither. The transcript shows that, and also whether a wake-up arrived
// whose process was killed before its end.
func TestRewake_LostDeliveryIsRepeated(t *testing.T) {
	turn := `{"type":"assistant","version":"2.1.197","timestamp":"` + time.Now().UTC().Format(time.RFC3339Nano) + `"}`
	for name, c := range map[string]struct {
		after string // what the transcript has after the delivery; %s stands for the delivered text
		want  int
	}{
		"blocked":           {`{"type":"system"}`, 2},
		"let through":       {`{"type":"attachment","version":"2.1.197","content":%s}`, 1},
		"in another's turn": {turn, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDenyWorld(t)
			w.markReplied(w.askDenied(questionEvent(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")), "Postgres")
			transcript := filepath.Join(w.dir, "transcript.jsonl")
			writeFile(t, transcript, `{"type":"user"}`)
			count := 0
			for range 3 {
				out := w.runHook(answeredHook, namedEvent(t, "UserPromptSubmit", "s-1", "transcript_path", transcript))
				if strings.Contains(out, `=\"Postgres\"`) {
					count++
					writeFile(t, transcript, strings.Replace(c.after, "%s", strings.TrimSpace(out), 1))
				}
				w.changeQuestion(w.question(), func(q *state.Question) {
					// the transcript has it by then
					then, was := q.DeliveredAt.Add(-time.Minute), q.ResolvedAt.Add(-time.Minute)
					q.DeliveredAt, q.ResolvedAt = &then, &was
				})
			}
			kit.Equalf(t, count, c.want, "told")
		})
	}
}

// Whatever fails on the way to the denial, the question is either denied and recorded as
// denied, or asked in the terminal.
func TestDeny_FailingLocks(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("needs strace: apt-get install strace")
	}
	for nth := 1; nth <= 12; nth++ {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			t.Parallel()
			w := newDenyWorld(t)
			p := w.startHook(forwardHook, questionEvent(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres"), "strace", "-f", "-qq", "-b", "execve",
				"-o", os.DevNull, "-e", "trace=flock", "-e", fmt.Sprintf("inject=flock:error=EIO:when=%d", nth))
			w.waitUntil("the question or the end", func() bool { return len(w.questions()) > 0 || p.hasEnded() })
			if qs := w.questions(); len(qs) > 0 {
				_, _ = state.UpdateQuestion(qs[0].Path, func(q *state.Question) error { q.IsMessageSent = true; return nil })
			}
			<-p.done
			if strings.Contains(w.log(), `"panic"`) {
				t.Error("it panicked")
			}
			if denied := strings.Contains(p.out.String(), `"deny"`); denied != (len(w.questions()) > 0 && w.questions()[0].IsDenied) {
				t.Errorf("printed %q", &p.out)
			}
		})
	}
}
