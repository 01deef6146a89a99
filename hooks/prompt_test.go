package hooks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// addOldPrompt records an answered question of a session.
func (w *world) addOldPrompt(session, text string, change func(*state.Question)) *state.Question {
	w.Helper()
	now := time.Now().UTC().Truncate(time.Millisecond).Add(-5 * time.Second)
	q := &state.Question{
		QuestionID: state.MessageID("kept", text), Mode: state.ModeNative, Status: state.Answered, AskedAt: now, PostedAt: &now,
		SessionID: session, ClaudeSessionID: session, SessionName: "shop", IsMessageSent: true, TmuxPane: "%1", TmuxSocket: "/nonexistent",
		SubQuestions: []state.SubQuestion{{Header: "Next", Question: text}}, Answers: map[string]string{text: text},
		AnsweredMessage: "spaces/x/messages/m", AnsweredBy: ann.Name,
	}
	change(q)
	q, err := state.QuestionsIn(state.SpareStateDir(w.getenv)).Record(session, func([]*state.Question) *state.Question { return q })
	kit.NoError(w, err)
	return q
}

func (w *world) inbox() state.Inbox { return state.InboxIn(state.UserStateDir(w.getenv)) }

// addPrompt records a waiting prompt for a session, as the poller does.
func (w *world) addPrompt(session, text string, change func(*state.Incoming)) *state.Incoming {
	w.Helper()
	at := time.Now().UTC().Truncate(time.Millisecond).Add(-5 * time.Second)
	in := &state.Incoming{
		ID: state.IncomingID("x", text), Chat: "x/spaces/x", MessageName: "spaces/x/messages/" + text, Sender: ann.Name,
		Text: text, CreatedAt: at, LocalCreatedAt: at, ReadAt: at, Status: state.IncomingKept, SessionID: session,
	}
	change(in)
	kit.NoError(w, w.inbox().Create(in.ID, in))
	return in
}

func (w *world) wantStillKept(in *state.Incoming, what string) {
	w.Helper()
	current, err := w.inbox().Load(in.ID)
	kit.NoError(w, err)
	if !current.IsWaitingPrompt() {
		w.Errorf("%s: %s by %s", what, current.Status, current.ResolvedBy)
	}
}

// A poller was killed after it recorded that it types and before the first key. Then the
// turn ends.
func TestPrompt_StopProvesNothing(t *testing.T) {
	w := newWorldWithoutPoller(t)
	w.env["GCHAT_IDLE"] = "on"
	now := time.Now().UTC()
	q := w.addPrompt("s-1", "go on", func(in *state.Incoming) {
		in.Typing = &state.Typing{LastKeyAt: now, LastKey: "queued", IsSubmit: true, KeyCount: 1}
	})
	p := w.startHook("gchat-ask-user-rewake", namedEvent(w, "Stop", "s-1"))
	time.Sleep(1500 * time.Millisecond)
	terminate(p)
	w.wantStillKept(q, "queued, Stop")
}

// The person types the same text in the terminal as a prompt that waits and was never
// typed.
func TestPrompt_EqualTextFromTheTerminal(t *testing.T) {
	w := newWorldWithoutPoller(t)
	q := w.addPrompt("s-1", "go on", func(*state.Incoming) {})
	w.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "go on"))
	w.wantStillKept(q, "equal words")
}

// 2.1.332 combines a letter and its accent into one character.
func TestPrompt_AccentIsCombined(t *testing.T) {
	w := newWorldWithoutPoller(t)
	q := w.addPrompt("s-1", "cafe\u0301, please", func(in *state.Incoming) { in.Typing = &state.Typing{LastKeyAt: time.Now(), LastKey: "text"} })
	w.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "café, please"))
	if current, err := w.inbox().Load(q.ID); err != nil || current.ResolvedBy != "chat" {
		t.Errorf("it is %v, %v", current, err)
	}
}

// A background task ends, and Claude Code starts a turn by itself. No person gave a
// prompt, and nothing was dismissed.
func TestPrompt_TaskNotificationIsNone(t *testing.T) {
	w := newWorldWithoutPoller(t)
	kept := w.addOldPrompt("s-1", "go on", func(q *state.Question) { q.Kind = state.KindNext })
	asked := w.addOldPrompt("s-1", "", func(q *state.Question) { q.Kind, q.Status = state.KindPermission, state.Pending })
	const prompt = "<task-notification>\n<task-id>b</task-id>\n</task-notification>"
	w.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", prompt))
	if current, err := state.LoadQuestion(kept.Path); err != nil || current.Status != state.Answered {
		t.Errorf("the reply is %v, %v", current.Status, err)
	}
	if current, err := state.LoadQuestion(asked.Path); err != nil || current.Status != state.Pending {
		t.Errorf("the permission is %v, %v", current.Status, err)
	}
}

// A prompt went into Claude Code's queue a moment before a dialog opened. The dialog's
// question stays open.
func TestPrompt_QueuedLeavesADialogOpen(t *testing.T) {
	w := newWorldWithoutPoller(t)
	at := time.Now().UTC().Add(-time.Second).Format(time.RFC3339Nano)
	transcript := filepath.Join(t.TempDir(), "t.jsonl")
	line := `{"type":"queue-operation","operation":"enqueue","timestamp":"` + at + `","content":"go on"}` + "\n"
	kit.NoError(t, os.WriteFile(transcript, []byte(line), 0o600))
	q := w.addOldPrompt("s-1", "", func(q *state.Question) { q.Kind, q.Status = state.KindPermission, state.Pending })
	say := func(words string) {
		w.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", words, "transcript_path", transcript))
	}
	say("go on")
	if now, err := state.LoadQuestion(q.Path); err != nil || now.Status != state.Pending {
		t.Errorf("after a prompt that was queued it is %v, %v", now.Status, err)
	}
	w.addPrompt("s-1", "and tag", func(in *state.Incoming) { in.Typing = &state.Typing{LastKeyAt: time.Now(), LastKey: state.KeyQueued} })
	say("and tag") // the transcript does not show it yet
	if now, err := state.LoadQuestion(q.Path); err != nil || now.Status != state.Pending {
		t.Errorf("after words that were typed while Claude works it is %v, %v", now.Status, err)
	}
	say("something else")
	if now, err := state.LoadQuestion(q.Path); err != nil || now.Status != state.Cancelled {
		t.Errorf("after a prompt at the empty box it is %v, %v", now.Status, err)
	}
}

// Outside of tmux, the hook was killed after it recorded that it printed a prompt. The
// person types something else.
func TestPrompt_PrintedThenAnother(t *testing.T) {
	w := newWorldWithoutPoller(t)
	now := time.Now().UTC()
	q := w.addPrompt("s-1", "go on", func(in *state.Incoming) { in.Status, in.PrintedAt = state.IncomingDoing, now })
	w.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "what time is it?"))
	w.wantStillKept(q, "printed, another prompt")
}

// A /clear that was typed for Chat closes the question for the next instruction without a
// note. Prompts that came after it stay. Other questions are closed as cleared.
func TestPrompt_TypedClearCancelsNothing(t *testing.T) {
	w := newWorldWithoutPoller(t)
	w.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "hello"))
	qs := map[string]*state.Question{}
	for name, kind := range map[string]state.Kind{"next": state.KindNext, "plan": state.KindPlan} {
		qs[name] = w.addOldPrompt("s-1", name, func(q *state.Question) {
			q.Kind, q.Status, q.Answers, q.AnsweredMessage = kind, state.Pending, nil, ""
		})
	}
	words := map[string]*state.Incoming{
		"/clear": w.addPrompt("s-1", "/clear", func(in *state.Incoming) { in.Typing = &state.Typing{LastKeyAt: time.Now(), LastKey: "text"} }),
		"before": w.addPrompt("s-1", "before", func(in *state.Incoming) { in.CreatedAt = in.CreatedAt.Add(-time.Minute) }),
		"after":  w.addPrompt("s-1", "after", func(in *state.Incoming) { in.CreatedAt = in.CreatedAt.Add(time.Second) }),
	}
	w.runHook(answeredHook, namedEvent(t, "SessionEnd", "s-1", "reason", "clear"))
	for name, want := range map[string]string{"next": "cancelled instead", "plan": "cancelled cleared"} {
		current, err := state.LoadQuestion(qs[name].Path)
		kit.NoError(t, err)
		kit.Equalf(t, string(current.Status)+" "+current.ResolvedBy, want, "%s", name)
	}
	for name, want := range map[string]string{"/clear": "", "before": "cleared", "after": ""} {
		current, err := w.inbox().Load(words[name].ID)
		if err != nil || current.ResolvedBy != want {
			t.Errorf("%s: %v, %v, want %q", name, current, err, want)
		}
	}
}

// Without a SessionStart hook, the first prompt after a session's end shows that the
// session goes on: after /resume, in the same Claude Code.
func TestPrompt_AfterTheEndGoesOn(t *testing.T) {
	w := newWorldWithoutPoller(t)
	prompt := recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "go on")
	w.runHook(answeredHook, prompt)
	sessions := state.SessionsIn(state.UserStateDir(w.getenv))
	first, err := sessions.Get("s-1")
	kit.NoError(t, err)
	w.runHook(answeredHook, namedEvent(t, "SessionEnd", "s-1", "reason", "resume"))
	if current, err := sessions.Get("s-1"); err != nil || current.EndReason != "resume" {
		t.Fatalf("after its end: %+v, %v", current, err)
	}
	w.runHook(answeredHook, prompt)
	if current, err := sessions.Get("s-1"); err != nil || current.EndReason != "" || !current.LastSeen.After(first.LastSeen) {
		t.Errorf("after the next prompt: %+v, %v", current, err)
	}
	w.runHook(answeredHook, namedEvent(t, "SessionEnd", "s-2", "reason", "resume"))
	if _, err := sessions.Get("s-2"); err == nil {
		t.Error("the end of a session that no hook wrote down begins it")
	}
}

// Outside of tmux, the end of a turn wakes the session with each waiting prompt once, the
// oldest first. The prompt that carries it proves that it arrived.
func TestPrompt_WakesOutsideTmux(t *testing.T) {
	w := newWorldWithoutPoller(t)
	first := w.addPrompt("s-1", "go on", func(*state.Incoming) {})
	second := w.addPrompt("s-1", "and tag", func(in *state.Incoming) { in.CreatedAt = in.CreatedAt.Add(time.Second) })
	stop := namedEvent(w, "Stop", "s-1")
	said := w.startHook(rewake, stop).awaitWakeText()
	if !strings.Contains(said, "go on") || strings.Contains(said, "and tag") {
		t.Errorf("said %q", said)
	}
	w.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", said))
	if current, err := w.inbox().Load(first.ID); err != nil || current.ResolvedBy != "chat" {
		t.Errorf("the first is %v, %v", current, err)
	}
	said = w.startHook(rewake, stop).awaitWakeText()
	if strings.Contains(said, "go on") || !strings.Contains(said, "and tag") {
		t.Errorf("then said %q", said)
	}
	w.wantStillKept(second, "woken with")
}

// A prompt that a version without an inbox kept as a question is not lost if a hook runs
// before the poller moves it to the inbox. A prompt event leaves such prompts alone, and
// the next turn's end wakes the session with the first of them.
func TestPrompt_OldFormatIsDelivered(t *testing.T) {
	w := newWorldWithoutPoller(t)
	old := func(words string) *state.Question {
		return w.addOldPrompt("s-1", words, func(q *state.Question) {
			q.Kind, q.TmuxPane, q.TmuxSocket, q.Chat = state.KindPrompt, "", "", "x/spaces/x"
			q.AnsweredMessage += words
			q.Replies = []state.Reply{{
				MessageName: q.AnsweredMessage, Sender: ann.Name, Text: words, CreatedAt: q.AskedAt, Verdict: state.VerdictUsed,
			}}
		})
	}
	first := old("go on")
	w.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", "something else"))
	second := old("and on")
	for _, q := range []*state.Question{first, second} {
		said := w.startHook("gchat-ask-user-rewake", namedEvent(w, "Stop", "s-1")).awaitWakeText()
		words := q.SubQuestions[0].Question
		if !strings.HasSuffix(strings.TrimSpace(said), words) {
			t.Errorf("the hook says %q, want %q", said, words)
		}
		w.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1", "prompt", said))
		if current, err := state.LoadQuestion(q.Path); err != nil || current.Status.IsOpen() || current.FindReply(q.AnsweredMessage) == nil {
			t.Errorf("%s is %v, %v", words, current.Status, err)
		}
	}
}

// The hooks of two installs that get one Stop wake the session with one text. The second
// hook's event does not prove that the first one's text arrived.
func TestPrompt_WakesOnceForAStop(t *testing.T) {
	w := newWorldWithoutPoller(t)
	first := w.addPrompt("s-1", "go on", func(*state.Incoming) {})
	second := w.addPrompt("s-1", "and tag", func(in *state.Incoming) { in.CreatedAt = in.CreatedAt.Add(time.Second) })
	stop := namedEvent(w, "Stop", "s-1")
	kit.Contains(t, w.startHook(rewake, stop).awaitWakeText(), "go on")
	kit.Equalf(t, w.startHook(rewake, stop).awaitWakeText(), "", "then")
	w.wantStillKept(first, "the same Stop")
	w.wantStillKept(second, "the same Stop")
}
