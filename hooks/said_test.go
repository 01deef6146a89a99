package hooks_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gchat-hooks/state"
)

// saysTo writes down words for a session as the poller does, answered.
func (w *world) saysTo(session, words string, as func(*state.Question)) *state.Question {
	w.Helper()
	now := time.Now().UTC().Truncate(time.Millisecond).Add(-5 * time.Second)
	q := &state.Question{
		QuestionID: state.MessageID("said", words), Kind: state.Said, Mode: state.Native, Status: state.Answered, AskedAt: now, PostedAt: &now,
		SessionID: session, ClaudeSessionID: session, SessionName: "shop", MessageSent: true, TmuxPane: "%1", TmuxSocket: "/nonexistent",
		Questions: []state.Prompt{{Header: "Said", Question: words}}, Answers: map[string]string{words: words},
		AnsweredMessage: "spaces/x/messages/m", AnsweredBy: ann.Name,
	}
	as(q)
	q, err := state.QuestionsIn(state.SpareState(w.getenv)).Record(session, func([]*state.Question) *state.Question { return q })
	if err != nil {
		w.Fatal(err)
	}
	return q
}

func (w *world) stillKept(q *state.Question, what string) {
	w.Helper()
	is, err := state.LoadQuestion(q.Path)
	if err != nil {
		w.Fatal(err)
	}
	if is.Status != state.Answered {
		w.Errorf("%s: %s by %s, owes %v", what, is.Status, is.ResolvedBy, is.Owes)
	}
}

// A poller was killed after it wrote that it types, before the first key; the turn ends.
func TestSaidStopProvesNothing(t *testing.T) {
	w := newDesk(t)
	w.env["GCHAT_IDLE"] = "on"
	now := time.Now().UTC()
	q := w.saysTo("s-1", "go on", func(q *state.Question) { q.Typing = &state.Typing{At: now, Last: "queued", Commit: true, Keys: 1} })
	p := w.start("gchat-ask-user-rewake", event(w, "Stop", "s-1"))
	time.Sleep(1500 * time.Millisecond)
	terminate(p)
	w.stillKept(q, "queued, Stop")
}

// The person types the same words in the terminal, while the thread's are kept and were never typed.
func TestSaidEqualWordsFromTheTerminal(t *testing.T) {
	w := newDesk(t)
	q := w.saysTo("s-1", "go on", func(*state.Question) {})
	w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "go on"))
	w.stillKept(q, "equal words")
}

// 2.1.332 makes one character of a letter and its accent.
func TestSaidWithAnAccentApart(t *testing.T) {
	w := newDesk(t)
	q := w.saysTo("s-1", "cafe\u0301, please", func(q *state.Question) { q.Typing = &state.Typing{At: time.Now(), Last: "text"} })
	w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "café, please"))
	if is, err := state.LoadQuestion(q.Path); err != nil || is.Status != state.Resolved {
		t.Errorf("it is %v, %v", is.Status, err)
	}
}

// Something in the background is done, and Claude Code begins a turn by itself: nobody went on, and nothing was dismissed.
func TestATaskNotificationIsNoPrompt(t *testing.T) {
	w := newDesk(t)
	kept := w.saysTo("s-1", "go on", func(q *state.Question) { q.Kind = state.AskedNext })
	asked := w.saysTo("s-1", "", func(q *state.Question) { q.Kind, q.Status = state.AskedPermission, state.Pending })
	const prompt = "<task-notification>\n<task-id>b</task-id>\n</task-notification>"
	w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", prompt))
	w.stillKept(kept, "the reply")
	if is, err := state.LoadQuestion(asked.Path); err != nil || is.Status != state.Pending {
		t.Errorf("the permission is %v, %v", is.Status, err)
	}
}

// Words went into Claude Code's queue a moment before a dialog opened: what that asks goes on waiting.
func TestQueuedWordsLeaveADialogOpen(t *testing.T) {
	w := newDesk(t)
	at := time.Now().UTC().Add(-time.Second).Format(time.RFC3339Nano)
	transcript := filepath.Join(t.TempDir(), "t.jsonl")
	line := `{"type":"queue-operation","operation":"enqueue","timestamp":"` + at + `","content":"go on"}` + "\n"
	if err := os.WriteFile(transcript, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	q := w.saysTo("s-1", "", func(q *state.Question) { q.Kind, q.Status = state.AskedPermission, state.Pending })
	say := func(words string) {
		w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", words, "transcript_path", transcript))
	}
	say("go on")
	if now, err := state.LoadQuestion(q.Path); err != nil || now.Status != state.Pending {
		t.Errorf("after a prompt that was queued it is %v, %v", now.Status, err)
	}
	w.saysTo("s-1", "and tag", func(q *state.Question) { q.Typing = &state.Typing{At: time.Now(), Last: state.TypedQueued} })
	say("and tag") // the transcript does not say so yet
	if now, err := state.LoadQuestion(q.Path); err != nil || now.Status != state.Pending {
		t.Errorf("after words that were typed while Claude works it is %v, %v", now.Status, err)
	}
	say("something else")
	if now, err := state.LoadQuestion(q.Path); err != nil || now.Status != state.Cancelled {
		t.Errorf("after a prompt at the empty box it is %v, %v", now.Status, err)
	}
}

// Outside of tmux: the hook was killed after it wrote that it printed; the person types something else.
func TestSaidPrintedAndAnotherPrompt(t *testing.T) {
	w := newDesk(t)
	now := time.Now().UTC()
	q := w.saysTo("s-1", "go on", func(q *state.Question) { q.TmuxPane, q.TmuxSocket, q.Printed, q.PrintedAt = "", "", true, &now })
	w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "what time is it?"))
	w.stillKept(q, "printed, another prompt")
}

// A /clear that was typed for Chat ends what waited for the next instruction without a word, and leaves what was said after it;
// other questions were cleared.
func TestATypedClearCancelsNothing(t *testing.T) {
	w := newDesk(t)
	qs := map[string]*state.Question{}
	for name, kind := range map[string]state.Kind{
		"/clear": state.Said, "next": state.AskedNext, "plan": state.AskedPlan, "before": state.Said, "after": state.Said,
	} {
		qs[name] = w.saysTo("s-1", name, func(q *state.Question) {
			q.Kind = kind
			if kind != state.Said {
				q.Status, q.Answers, q.AnsweredMessage = state.Pending, nil, ""
			}
			switch name {
			case "/clear":
				q.Typing = &state.Typing{At: time.Now(), Last: "text"}
			case "before":
				q.AskedAt = q.AskedAt.Add(-time.Minute)
			case "after":
				q.AskedAt = q.AskedAt.Add(time.Second)
			}
		})
	}
	w.run(answered, event(t, "SessionEnd", "s-1", "reason", "clear"))
	want := map[string]string{
		"/clear": "answered ", "next": "cancelled instead", "plan": "cancelled cleared", "before": "cancelled cleared", "after": "answered ",
	}
	for name, q := range qs {
		is, err := state.LoadQuestion(q.Path)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(is.Status) + " " + is.ResolvedBy; got != want[name] {
			t.Errorf("%s: %s, want %s", name, got, want[name])
		}
	}
}

// Without SessionStart's hook, the first prompt after a session's end says that it goes on: after /resume, in the same Claude Code.
func TestAPromptAfterTheEndGoesOn(t *testing.T) {
	w := newDesk(t)
	prompt := recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "go on")
	w.run(answered, prompt)
	sessions := state.SessionsIn(state.UserState(w.getenv))
	first, err := sessions.Of("s-1")
	if err != nil {
		t.Fatal(err)
	}
	w.run(answered, event(t, "SessionEnd", "s-1", "reason", "resume"))
	if is, err := sessions.Of("s-1"); err != nil || is.Reason != "resume" {
		t.Fatalf("after its end: %+v, %v", is, err)
	}
	w.run(answered, prompt)
	if is, err := sessions.Of("s-1"); err != nil || is.Reason != "" || !is.LastSeen.After(first.LastSeen) {
		t.Errorf("after the next prompt: %+v, %v", is, err)
	}
	w.run(answered, event(t, "SessionEnd", "s-2", "reason", "resume"))
	if _, err := sessions.Of("s-2"); err == nil {
		t.Error("the end of a session that no hook wrote down begins it")
	}
}
