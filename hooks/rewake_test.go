package hooks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// Of two installs only one wakes the session, whichever hook of the call starts first.
func TestRewake_ReplyWakesOnce(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	ask := databaseEvent(t)
	first, second := w.startHook(rewakeHook, ask), w.startHook(rewakeHook, ask)
	q := w.askDenied(ask)
	w.awaitWaiter(q)
	w.waitUntil("the other one to leave", func() bool { return first.hasEnded() != second.hasEnded() })
	w.markReplied(q, "Postgres")
	want := `GCHAT_RESPONSE: The user has answered your question from Google Chat: "Which DB?"="Postgres". ` +
		"You can now continue with this answer in mind. (answered question " + q.QuestionID + ")\n"
	kit.Equalf(t, first.awaitWakeText()+second.awaitWakeText(), want, "woken with")
	w.wantEnd(q, state.Resolved, "chat")
	kit.True(t, w.reload(q).DeliveredAt != nil, "not delivered")
	w.wantOwedNotes(q, closedNote)
}

// A stopped process holds the question's lock when the reply comes. The hook wakes the
// session when that process releases the lock.
func TestRewake_WaitsForALock(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	ask := databaseEvent(t)
	hook := w.startHook(rewakeHook, ask)
	q := w.askDenied(ask)
	w.awaitWaiter(q)
	lock, err := state.LockWithTimeout(lockPath(q))
	kit.NoError(t, err)
	w.changeUnderLock(q, func(q *state.Question) { w.markReplied(q, "Postgres") })
	w.waitUntil("the hook to find the lock taken",
		func() bool { return time.Since(q.AskedAt) > 3*time.Second || hook.hasEnded() })
	lock.Unlock()
	kit.Containsf(t, hook.awaitWakeText(), "Postgres", "woken with")
}

// changeUnderLock changes a question whose lock somebody else holds: change gets the same
// record at another path, which then takes the question's place.
func (w *world) changeUnderLock(q *state.Question, change func(*state.Question)) {
	w.Helper()
	elsewhere := *q
	elsewhere.Path = filepath.Join(w.TempDir(), filepath.Base(q.Path))
	kit.NoError(w, os.Link(q.Path, elsewhere.Path))
	change(&elsewhere)
	kit.NoError(w, os.Rename(elsewhere.Path, q.Path))
}

// The session ends after a hook became the waiter and before it wrote that down. The hook
// ends, and the reply waits for the next start.
func TestRewake_SessionEndsWhileItBegins(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	ask := databaseEvent(t)
	q := w.askDenied(ask)
	lock, err := state.LockWithTimeout(lockPath(q))
	kit.NoError(t, err)
	hook := w.startHook(rewakeHook, ask)
	w.awaitWaiter(q)
	w.changeUnderLock(q, func(q *state.Question) {
		w.changeQuestion(q, func(q *state.Question) { q.SessionEndedAt = new(time.Now().UTC()) })
	})
	lock.Unlock()
	kit.Equalf(t, hook.awaitWakeText(), "", "an ended session was woken with")
}

// The session's end ends its waiters. The reply comes with the next session start, once.
func TestRewake_ResumedSessionGetsTheReply(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	w.env["CLAUDE_SESSION_ID"] = "system3-1"
	p, q := w.startWaiter(databaseEvent(t))
	w.runHook(answeredHook, namedEvent(t, "SessionEnd", "s-1"))
	kit.Equalf(t, p.awaitWakeText(), "", "an ended session was woken with")
	w.markReplied(q, "SQLite")
	w.env["CLAUDE_SESSION_ID"] = "system3-2" // the session is resumed under another name
	kit.Equalf(t, w.runHook(sessionHook, namedEvent(t, "SessionStart", "s-2", "source", "resume")),
		"", "another session gets")
	start := namedEvent(t, "SessionStart", "s-1", "source", "resume")
	out := w.runHook(sessionHook, start)
	kit.Contains(t, out, `"hookEventName":"SessionStart"`)
	kit.Contains(t, out, `Which DB?\"=\"SQLite\"`)
	kit.Equalf(t, w.runHook(sessionHook, start), "", "resumed again with")
	w.wantOwedNotes(w.question(), closedNote)
}

// After a restart, a session is resumed with other variables. The poller of the new
// environment reads its question.
func TestRewake_ResumedInAnotherEnvironment(t *testing.T) {
	t.Parallel()
	w := newChatWorld(t)
	w.env["GCHAT_ASK_MODE"] = "deny"
	const session = "5ca1ab1e-0000-4000-8000-000000000003"
	w.readDenial(w.runHook(forwardHook, questionEvent(t, session, "c1", "Which DB?",
		"SQLite", "Postgres")))
	thread := w.awaitThread(1)
	w.endPollers()
	elsewhere := w.withVariables("NO_PROXY", "example.org")
	elsewhere.runHook(answeredHook, namedEvent(t, "SessionStart", session))
	p := elsewhere.startHook(rewakeHook, namedEvent(t, "Stop", session))
	elsewhere.awaitWaiter(w.question())
	w.sendAsUser(ann, thread, "2")
	kit.Containsf(t, p.awaitWakeText(), "Postgres", "woken with")
}

// A Stop hook delivers what a killed waiter left, and does nothing if there is nothing.
func TestRewake_StopReplacesAKilledWaiter(t *testing.T) {
	t.Parallel()
	w := newDenyWorld(t)
	stop := namedEvent(t, "Stop", "s-1")
	kit.Equalf(t, w.runRewake(stop), "", "woken with")
	p, q := w.startWaiter(databaseEvent(t))
	p.kill()
	other := w.askDenied(questionEvent(t, "s-1", "t2", "Which zone?", "a", "b"))
	p = w.startHook(rewakeHook, stop)
	w.awaitWaiter(q)
	w.awaitWaiter(other)
	w.markReplied(other, "b")
	kit.Containsf(t, p.awaitWakeText(), `="b"`, "woken with")
	w.markReplied(q, "SQLite")
	kit.Containsf(t, w.runRewake(stop), `="SQLite"`, "woken with")
	kit.Equalf(t, w.runRewake(stop), "", "woken again with")
}

// The session is woken once with the timeout's outcome, and with a reply that comes
// later.
func TestRewake_TimeoutWakesOnce(t *testing.T) {
	both := []any{
		map[string]any{"question": "Drop table users?", "header": "Drop", "options": []any{},
			"multiSelect": false},
		map[string]any{"question": "Which zone?", "header": "Zone", "options": []any{},
			"multiSelect": false},
	}
	partial := func(q *state.Question) { q.PartialAnswers = map[int]state.Answer{0: {Labels: []string{"No"}}} }
	for name, c := range map[string]struct {
		also   func(*state.Question)
		before func(w *world, q *state.Question)
		says   []string
	}{
		"left open": {also: partial, says: []string{
			"GCHAT_TIMEOUT: No response in 30 minutes. Go on without an answer",
			"a later reply still comes to you",
			`The user did answer: "Drop table users?"="No"`, `The question was: "Which zone?"`}},
		"chosen by the policy": {also: func(q *state.Question) {
			partial(q)
			q.ResolvedBy, q.Answers = "policy",
				map[string]string{"Drop table users?": "No", "Which zone?": "a"}
		}, says: []string{
			`The timeout policy chose, not the user: "Which zone?"="a".`,
			`The user did answer: "Drop table users?"="No"`}},
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
			ask := recorded(t, "single-03-PreToolUse", "session_id", "s-1", "tool_input",
				map[string]any{"questions": both})
			q := w.askDenied(ask)
			if c.before != nil {
				c.before(w, q)
			}
			p := w.startHook(rewakeHook, ask)
			w.awaitWaiter(q)
			w.markTimedOut(q, c.also)
			got := p.awaitWakeText()
			for _, part := range c.says {
				kit.Contains(t, got, part)
			}
			if q = w.question(); !q.IsLate(time.Now()) {
				return
			}
			p = w.startHook(rewakeHook, namedEvent(t, "Stop", "s-1"))
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
	q := w.askDenied(databaseEvent(t))
	w.markTimedOut(q, func(q *state.Question) { q.IsAskedAgain = true })
	transcript := writeFile(t, filepath.Join(w.dir, "transcript.jsonl"), `{"type":"user"}`)
	stop := namedEvent(t, "Stop", "s-1", "transcript_path", transcript)
	for i, want := range []string{"GCHAT_TIMEOUT: ", "GCHAT_TIMEOUT: ", ""} {
		got := w.runRewake(stop)
		kit.True(t, strings.HasPrefix(got, want) && (want != "" || got == ""),
			"Stop %d: woken with %q", i+1, got)
		w.changeQuestion(w.question(), func(q *state.Question) {
			q.DeliveredAt = new(q.DeliveredAt.Add(-time.Minute))
		})
	}
}

// A reply is delivered as the context of a prompt, but another hook may block the prompt.
// Then Claude gets neither. The transcript shows that, and also whether a wake-up arrived
// whose process was killed before its end.
func TestRewake_LostDeliveryIsRepeated(t *testing.T) {
	turn := `{"type":"assistant","version":"2.1.197","timestamp":"` +
		time.Now().UTC().Format(time.RFC3339Nano) + `"}`
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
			w.markReplied(w.askDenied(databaseEvent(t)), "Postgres")
			transcript := writeFile(t, filepath.Join(w.dir, "transcript.jsonl"), `{"type":"user"}`)
			count := 0
			for range 3 {
				out := w.runHook(answeredHook,
					namedEvent(t, "UserPromptSubmit", "s-1", "transcript_path", transcript))
				if strings.Contains(out, `=\"Postgres\"`) {
					count++
					writeFile(t, transcript, strings.Replace(c.after, "%s",
						strings.TrimSpace(out), 1))
				}
				w.changeQuestion(w.question(), func(q *state.Question) {
					// the transcript has it by then
					q.DeliveredAt = new(q.DeliveredAt.Add(-time.Minute))
					q.ResolvedAt = new(q.ResolvedAt.Add(-time.Minute))
				})
			}
			kit.Equalf(t, count, c.want, "deliveries")
		})
	}
}

// A full disk does not let the session be woken again and again. It is woken once, when
// that can be recorded.
func TestRewake_FullDiskWakesOnce(t *testing.T) {
	w := newDenyWorld(t)
	dir := w.smallDisk()
	p, q := w.startWaiter(databaseEvent(t))
	w.markTimedOut(q, nil)
	fillDisk(w, dir)
	kit.Must(t, !bound.WaitFor(time.Second, p.hasEnded), "woken while the disk is full")
	kit.NoError(t, os.Remove(filepath.Join(dir, "fill")))
	kit.Containsf(t, p.awaitWakeText(), "GCHAT_TIMEOUT", "woken with")
	again := w.startHook(rewakeHook, namedEvent(t, "Stop", "s-1"))
	// it waits for a late reply
	kit.True(t, !bound.WaitFor(time.Second, again.hasEnded), "woken again")
}
