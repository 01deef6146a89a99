package hooks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// keeps writes down a question of a session, answered.
func (w *world) keeps(session, words string, as func(*state.Question)) *state.Question {
	w.Helper()
	now := time.Now().UTC().Truncate(time.Millisecond).Add(-5 * time.Second)
	q := &state.Question{
		QuestionID: state.MessageID("kept", words), Mode: state.Native, Status: state.Answered, AskedAt: now, PostedAt: &now,
		SessionID: session, ClaudeSessionID: session, SessionName: "shop", MessageSent: true, TmuxPane: "%1", TmuxSocket: "/nonexistent",
		Questions: []state.Prompt{{Header: "Next", Question: words}}, Answers: map[string]string{words: words},
		AnsweredMessage: "spaces/x/messages/m", AnsweredBy: ann.Name,
	}
	as(q)
	q, err := state.QuestionsIn(state.SpareState(w.getenv)).Record(session, func([]*state.Question) *state.Question { return q })
	if err != nil {
		w.Fatal(err)
	}
	return q
}

func (w *world) inbox() state.Inbox { return state.InboxIn(state.UserState(w.getenv)) }

// saysTo writes down words for a session as the poller does, which wait.
func (w *world) saysTo(session, words string, as func(*state.Incoming)) *state.Incoming {
	w.Helper()
	at := time.Now().UTC().Truncate(time.Millisecond).Add(-5 * time.Second)
	in := &state.Incoming{
		ID: state.IncomingID("x", words), Chat: "x/spaces/x", MessageName: "spaces/x/messages/" + words, Sender: ann.Name,
		Text: words, CreatedAt: at, SaidAt: at, ReadAt: at, Status: state.IncomingKept, SessionID: session,
	}
	as(in)
	if err := w.inbox().Create(in.ID, in); err != nil {
		w.Fatal(err)
	}
	return in
}

func (w *world) stillKept(in *state.Incoming, what string) {
	w.Helper()
	is, err := w.inbox().Load(in.ID)
	if err != nil {
		w.Fatal(err)
	}
	if !is.Waits() {
		w.Errorf("%s: %s by %s", what, is.Status, is.ResolvedBy)
	}
}

// A poller was killed after it wrote that it types, before the first key; the turn ends.
func TestSaidStopProvesNothing(t *testing.T) {
	w := newDesk(t)
	w.env["GCHAT_IDLE"] = "on"
	now := time.Now().UTC()
	q := w.saysTo("s-1", "go on", func(in *state.Incoming) { in.Typing = &state.Typing{At: now, Last: "queued", Commit: true, Keys: 1} })
	p := w.start("gchat-ask-user-rewake", event(w, "Stop", "s-1"))
	time.Sleep(1500 * time.Millisecond)
	terminate(p)
	w.stillKept(q, "queued, Stop")
}

// The person types the same words in the terminal, while the thread's are kept and were never typed.
func TestSaidEqualWordsFromTheTerminal(t *testing.T) {
	w := newDesk(t)
	q := w.saysTo("s-1", "go on", func(*state.Incoming) {})
	w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "go on"))
	w.stillKept(q, "equal words")
}

// 2.1.332 makes one character of a letter and its accent.
func TestSaidWithAnAccentApart(t *testing.T) {
	w := newDesk(t)
	q := w.saysTo("s-1", "cafe\u0301, please", func(in *state.Incoming) { in.Typing = &state.Typing{At: time.Now(), Last: "text"} })
	w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "café, please"))
	if is, err := w.inbox().Load(q.ID); err != nil || is.ResolvedBy != "chat" {
		t.Errorf("it is %v, %v", is, err)
	}
}

// Something in the background is done, and Claude Code begins a turn by itself: nobody went on, and nothing was dismissed.
func TestATaskNotificationIsNoPrompt(t *testing.T) {
	w := newDesk(t)
	kept := w.keeps("s-1", "go on", func(q *state.Question) { q.Kind = state.AskedNext })
	asked := w.keeps("s-1", "", func(q *state.Question) { q.Kind, q.Status = state.AskedPermission, state.Pending })
	const prompt = "<task-notification>\n<task-id>b</task-id>\n</task-notification>"
	w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", prompt))
	if is, err := state.LoadQuestion(kept.Path); err != nil || is.Status != state.Answered {
		t.Errorf("the reply is %v, %v", is.Status, err)
	}
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
	q := w.keeps("s-1", "", func(q *state.Question) { q.Kind, q.Status = state.AskedPermission, state.Pending })
	say := func(words string) {
		w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", words, "transcript_path", transcript))
	}
	say("go on")
	if now, err := state.LoadQuestion(q.Path); err != nil || now.Status != state.Pending {
		t.Errorf("after a prompt that was queued it is %v, %v", now.Status, err)
	}
	w.saysTo("s-1", "and tag", func(in *state.Incoming) { in.Typing = &state.Typing{At: time.Now(), Last: state.TypedQueued} })
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
	q := w.saysTo("s-1", "go on", func(in *state.Incoming) { in.Status, in.PrintedAt = state.IncomingDoing, now })
	w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "what time is it?"))
	w.stillKept(q, "printed, another prompt")
}

// A /clear that was typed for Chat ends what waited for the next instruction without a word, and leaves what was said after it;
// other questions were cleared.
func TestATypedClearCancelsNothing(t *testing.T) {
	w := newDesk(t)
	w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "hello"))
	qs := map[string]*state.Question{}
	for name, kind := range map[string]state.Kind{"next": state.AskedNext, "plan": state.AskedPlan} {
		qs[name] = w.keeps("s-1", name, func(q *state.Question) {
			q.Kind, q.Status, q.Answers, q.AnsweredMessage = kind, state.Pending, nil, ""
		})
	}
	words := map[string]*state.Incoming{
		"/clear": w.saysTo("s-1", "/clear", func(in *state.Incoming) { in.Typing = &state.Typing{At: time.Now(), Last: "text"} }),
		"before": w.saysTo("s-1", "before", func(in *state.Incoming) { in.CreatedAt = in.CreatedAt.Add(-time.Minute) }),
		"after":  w.saysTo("s-1", "after", func(in *state.Incoming) { in.CreatedAt = in.CreatedAt.Add(time.Second) }),
	}
	w.run(answered, event(t, "SessionEnd", "s-1", "reason", "clear"))
	for name, want := range map[string]string{"next": "cancelled instead", "plan": "cancelled cleared"} {
		is, err := state.LoadQuestion(qs[name].Path)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(is.Status) + " " + is.ResolvedBy; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{"/clear": "", "before": "cleared", "after": ""} {
		is, err := w.inbox().Load(words[name].ID)
		if err != nil || is.ResolvedBy != want {
			t.Errorf("%s: %v, %v, want %q", name, is, err, want)
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

// Outside of tmux the end of a turn wakes the session with what was said, once, the oldest first.
// The prompt that carries it proves it.
func TestSaidWakesASessionOutsideTmux(t *testing.T) {
	w := newDesk(t)
	first := w.saysTo("s-1", "go on", func(*state.Incoming) {})
	second := w.saysTo("s-1", "and tag", func(in *state.Incoming) { in.CreatedAt = in.CreatedAt.Add(time.Second) })
	stop := event(w, "Stop", "s-1")
	said := w.start(rewake, stop).woken()
	if !strings.Contains(said, "go on") || strings.Contains(said, "and tag") {
		t.Errorf("said %q", said)
	}
	w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", said))
	if is, err := w.inbox().Load(first.ID); err != nil || is.ResolvedBy != "chat" {
		t.Errorf("the first is %v, %v", is, err)
	}
	said = w.start(rewake, stop).woken()
	if strings.Contains(said, "go on") || !strings.Contains(said, "and tag") {
		t.Errorf("then said %q", said)
	}
	w.stillKept(second, "woken with")
}

// Words that a version without an inbox kept as a question are not lost where a hook comes before
// the poller that takes them: a prompt leaves them, and the next turn's end wakes the session with
// the first of them.
func TestOldWordsBeforeTheirPollerCame(t *testing.T) {
	w := newDesk(t)
	old := func(words string) *state.Question {
		return w.keeps("s-1", words, func(q *state.Question) {
			q.Kind, q.TmuxPane, q.TmuxSocket, q.Chat = state.Said, "", "", "x/spaces/x"
			q.AnsweredMessage += words
			q.Replies = []state.Reply{{
				MessageName: q.AnsweredMessage, Sender: ann.Name, Text: words, CreateTime: q.AskedAt, Verdict: state.Used,
			}}
		})
	}
	first := old("go on")
	w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "something else"))
	second := old("and on")
	for _, q := range []*state.Question{first, second} {
		said := w.start("gchat-ask-user-rewake", event(w, "Stop", "s-1")).woken()
		words := q.Questions[0].Question
		if !strings.HasSuffix(strings.TrimSpace(said), words) {
			t.Errorf("the hook says %q, want %q", said, words)
		}
		w.run(answered, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", said))
		if is, err := state.LoadQuestion(q.Path); err != nil || is.Status.Open() || is.Reply(q.AnsweredMessage) == nil {
			t.Errorf("%s is %v, %v", words, is.Status, err)
		}
	}
}

// Two installs' hooks that get one Stop wake the session with one text, and the second proves
// nothing of the first.
func TestSaidWakesOnceForAStop(t *testing.T) {
	w := newDesk(t)
	first := w.saysTo("s-1", "go on", func(*state.Incoming) {})
	second := w.saysTo("s-1", "and tag", func(in *state.Incoming) { in.CreatedAt = in.CreatedAt.Add(time.Second) })
	stop := event(w, "Stop", "s-1")
	if said := w.start(rewake, stop).woken(); !strings.Contains(said, "go on") {
		t.Errorf("said %q", said)
	}
	if said := w.start(rewake, stop).woken(); said != "" {
		t.Errorf("then said %q", said)
	}
	w.stillKept(first, "the same Stop")
	w.stillKept(second, "the same Stop")
}
