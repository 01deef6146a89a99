package poller

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// waitingPrompts returns the prompts that wait for sessions, in the order in which
// Claude gets them.
func (x *testSession) waitingPrompts() (words []string) {
	x.t.Helper()
	for _, in := range state.InboxIn(state.UserStateDir(x.env)).WaitingPrompts() {
		words = append(words, in.Text)
	}
	return words
}

// Claude gets prompts in the order in which they were written, each once, however often
// they are read. It gets none from a stranger.
func TestWordsAreSaidOnce(t *testing.T) {
	x := newTestSession(t, nil)
	for _, words := range []string{"one", "two", "three"} {
		x.reply(x.threadName, "", words)
	}
	x.reply(x.threadName, "users/9", "four")
	x.reply(x.threadName, "", "!rm -rf /")
	for range 3 {
		x.readNotes()
	}
	want := []string{"one", "two", "three"}
	if got := x.waitingPrompts(); !slices.Equal(got, want) {
		t.Fatalf("said %q, want %q", got, want)
	}
	later := &testSession{newReadTest(x.testMachine, &state.Question{Chat: x.reader.chat}), x.threadName, x.sessionID}
	if notes := later.readNotes(); len(notes) > 0 || !slices.Equal(later.waitingPrompts(), want) {
		t.Errorf("a later poller says %q, and tells %q", later.waitingPrompts(), notes)
	}
	if n := x.countUnfinished(); n > 0 {
		t.Errorf("%d are left in the session", n)
	}
}

// A poller that is killed between two writes delivers nothing twice, and loses nothing.
func TestWordsSurviveAKill(t *testing.T) {
	x := newTestSession(t, nil)
	c := state.OldCommand{MessageName: "spaces/local/messages/m", Sender: "users/1", Text: "go on", LocalCreatedAt: time.Now()}
	x.changeSession(x.sessionID, func(s *state.Session) { s.OldCommands = []state.OldCommand{c} })
	// The poller was killed before it removed the command from the session's record.
	if _, err := state.InboxIn(state.UserStateDir(x.env)).Add(c.Incoming(x.loadSession(), time.Now()), false); err != nil {
		t.Fatal(err)
	}
	x.readNotes()
	if got := x.waitingPrompts(); len(got) != 1 || x.countUnfinished() > 0 {
		t.Errorf("said %q, left in the session %d", got, x.countUnfinished())
	}
}

// addNextQuestion adds a "next instruction" question that a hook waits for. The
// function that it returns ends the hook.
func (x *testSession) addNextQuestion(change func(*state.Question)) (q *state.Question, end func()) {
	x.t.Helper()
	dir := state.SpareStateDir(state.ProjectEnv(x.env, x.loadSession().ProjectDir, true))
	q, err := state.QuestionsIn(dir).Record(x.sessionID, func([]*state.Question) *state.Question {
		q := &state.Question{
			QuestionID: "00000000-next", Kind: state.KindNext, Mode: state.ModeNative, Status: state.Pending, AskedAt: time.Now(),
			SessionID: x.sessionID, ClaudeSessionID: x.sessionID, ThreadKey: "session-" + x.sessionID, SubQuestions: []state.SubQuestion{{Question: "next"}},
		}
		change(q)
		return q
	})
	if err == nil {
		err = state.AddQuestionToIndex(x.env, q)
	}
	hook, lerr := state.LockWaiter(x.env, q.Path)
	if err = errors.Join(err, lerr); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(hook.Unlock)
	return q, hook.Unlock
}

// A hook waits for the next instruction, and Chat has not confirmed the question yet. A
// message in the session's thread is that instruction: outside of tmux, no other hook
// would deliver it to an idle Claude.
func TestWordsAreWhatAHookWaitsFor(t *testing.T) {
	x := newTestSession(t, nil)
	q, end := x.addNextQuestion(func(*state.Question) {})
	x.reply(x.threadName, "", "go on")
	for range 2 {
		x.readNotes()
	}
	stored := x.loadQuestion(q)
	if words, _ := stored.Decision(); words != "go on" || stored.Status != state.Answered || len(stored.Replies) != 1 || len(x.waitingPrompts()) > 0 {
		t.Errorf("the next instruction is %q, %s; said %q", words, stored.Status, x.waitingPrompts())
	}
	end()
	x.reply(x.threadName, "", "and on")
	x.readNotes()
	if got := x.waitingPrompts(); !slices.Equal(got, []string{"and on"}) {
		t.Errorf("said %q", got)
	}
}

// A stranger writes in the thread before its person does, and both messages are read at
// once. The person's message is the next instruction.
func TestAStrangersWordsAreNoNextInstruction(t *testing.T) {
	x := newTestSession(t, nil)
	asked := time.Now().Add(-time.Minute)
	q, _ := x.addNextQuestion(func(q *state.Question) {
		q.IsMessageSent, q.AskedAt, q.PostedAt, q.ThreadName, q.Chat = true, asked, &asked, x.threadName, x.loadSession().Chat
	})
	x.reply(x.threadName, "users/9", "one")
	x.reply(x.threadName, "", "two")
	x.poller.readIndex()
	x.readNotes()
	if words, _ := x.loadQuestion(q).Decision(); words != "two" || len(x.waitingPrompts()) > 0 {
		t.Errorf("the next instruction is %q, said %q", words, x.waitingPrompts())
	}
}

// A message that cannot be saved is read again.
func TestWordsThatCannotBeWrittenDownAreReadAgain(t *testing.T) {
	x := newTestSession(t, nil)
	x.poller.readSessions()
	x.reply(x.threadName, "", "go on")
	inbox := filepath.Join(state.UserStateDir(x.env), "inbox")
	if err := os.WriteFile(inbox, nil, 0o600); err != nil { // nothing can be created in it
		t.Fatal(err)
	}
	if err := x.readOnce(); err == nil {
		t.Error("the list counts as read")
	}
	kit.NoError(t, os.Remove(inbox))
	x.readNotes()
	if got := x.waitingPrompts(); !slices.Equal(got, []string{"go on"}) {
		t.Errorf("said %q", got)
	}
}

// A message after one of Claude Code's own commands is delivered after the command,
// even if a question waits for a reply.
func TestWordsComeBehindACommand(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) { s.TmuxPane, s.TmuxSocket = "%1", "/nonexistent" })
	next := x.addQuestion(func(q *state.Question) {
		x.markPosted(q)
		q.Kind, q.Mode, q.ThreadName, q.ClaudeSessionID, q.AskedAt = state.KindNext, state.ModeNative, x.threadName, x.sessionID, time.Now().Add(-time.Minute)
	})
	for _, words := range []string{"/clear", "one"} {
		x.reply(x.threadName, "", words)
	}
	x.readNotes()
	x.reply(x.threadName, "", "two")
	x.readNotes()
	if got, want := x.waitingPrompts(), []string{"/clear", "one", "two"}; !slices.Equal(got, want) {
		t.Errorf("said %q, want %q", got, want)
	}
	if q := x.loadQuestion(next); len(q.Replies) > 0 {
		t.Errorf("a reply: %q", q.Replies[0].Text)
	}
}

// Prompts that a version without an inbox kept as questions are delivered, each once.
// No note about them is repeated.
func TestWordsOfAnEarlierVersionGoOn(t *testing.T) {
	x := newTestSession(t, nil)
	old := func(name string, change func(*state.Question)) *state.Question {
		at := time.Now().Add(-time.Minute)
		q := &state.Question{
			QuestionID: state.MessageID("said", name), Kind: state.KindPrompt, Mode: state.ModeNative, Status: state.Answered,
			AskedAt: at, PostedAt: &at, SessionID: x.sessionID, ClaudeSessionID: x.sessionID, ThreadName: x.threadName, Chat: x.loadSession().Chat,
			IsMessageSent: true, ThreadKey: state.SessionThreadKey(x.sessionID), SubQuestions: []state.SubQuestion{{Question: name}},
			Answers: map[string]string{name: name}, AnsweredMessage: name, AnsweredBy: "users/1",
			Replies: []state.Reply{{MessageName: name, Sender: "users/1", Text: name, CreatedAt: at, Verdict: state.VerdictUsed}},
		}
		change(q)
		folder := state.QuestionsIn(state.SpareStateDir(state.ProjectEnv(x.env, x.loadSession().ProjectDir, true)))
		q, err := folder.Record(x.sessionID, func([]*state.Question) *state.Question { return q })
		if err == nil {
			err = state.AddQuestionToIndex(x.env, q)
		}
		kit.NoError(t, err)
		return q
	}
	unread := old("first", func(q *state.Question) {
		q.Status, q.Answers, q.AnsweredMessage, q.Replies[0].Verdict = state.Pending, nil, "", state.VerdictUnread
	})
	old("second", func(q *state.Question) {})
	printed := old("third", func(q *state.Question) { q.IsPrinted, q.PrintedAt = true, new(time.Now()) })
	old("fourth", func(q *state.Question) { // its thread has the note that it was sent
		q.IsPrinted, q.PrintedAt, q.HasSentNote = true, new(time.Now().Add(-time.Minute)), true
	})
	old("fifth", func(q *state.Question) { // a poller was killed before it enqueued the notes
		q.OwedNotes = []state.OwedNote{{About: state.NoteAttached, ReplyMessage: "fifth"}, {About: state.NoteNotTyped, Text: "so"}}
	})
	x.poller.readIndex()
	var notes []string
	for range 3 {
		notes = append(notes, x.readNotes()...)
	}
	if got := x.waitingPrompts(); !slices.Equal(got, []string{"first", "second", "third", "fourth", "fifth"}) {
		t.Errorf("said %q", got)
	}
	// The first was not judged. The other notes are owed for the fifth.
	all := strings.Join(notes, "\n")
	isTold := strings.Contains(all, "[Kept] The session") && strings.Contains(all, "[Kept] So;") &&
		strings.Contains(all, "[Words only]")
	if len(notes) != 3 || !isTold {
		t.Errorf("told %q", notes)
	}
	for _, q := range []*state.Question{unread, printed} {
		if stored := x.loadQuestion(q); stored.Status.IsOpen() || len(stored.OwedNotes) > 0 {
			t.Errorf("%s: %s, owes %v", stored.SubQuestions[0].Question, stored.Status, stored.OwedNotes)
		}
	}
	third := state.InboxIn(state.UserStateDir(x.env)).WaitingPrompts()[2]
	if third.PrintedAt.IsZero() || third.Status != state.IncomingDoing {
		t.Errorf("it is to wake the session again: %+v", third)
	}
}

// A version without an inbox ignores what is in our inbox, by the session's record: it
// delivers nothing a second time, and does not deliver what waits. Messages in another
// thread do not count for that.
func TestAnEarlierVersionPassesOverWhatIsInTheInbox(t *testing.T) {
	x := newTestSession(t, nil)
	at := time.Now().Add(-10 * time.Second).UTC().Truncate(time.Millisecond)
	x.addEventMessage("m1", "go on", at)
	x.addEventMessage("m2", "/status", at.Add(time.Second))
	x.readNotes()
	if stored := x.loadSession(); !stored.OldIgnoredUntil.Equal(at.Add(time.Second)) {
		t.Errorf("it passes over what was written until %v", stored.OldIgnoredUntil)
	}
	x.addEventMessage("m0", "and on", at.Add(-time.Second)) // its event arrived late
	x.readNotes()
	if got := x.waitingPrompts(); len(got) != 2 || !x.loadSession().OldIgnoredUntil.Equal(at.Add(time.Second)) {
		t.Errorf("said %q, until %v", got, x.loadSession().OldIgnoredUntil)
	}
}

// A message came just when the turn ended, so the Stop hook did not find it and waits
// for the next instruction. The message is that instruction: outside of tmux, no other
// hook would deliver it to an idle Claude.
func TestKeptWordsAreWhatAHookWaitsFor(t *testing.T) {
	x := newTestSession(t, nil)
	for _, words := range []string{"one", "two"} {
		x.reply(x.threadName, "", words)
	}
	x.readNotes()
	q, _ := x.addNextQuestion(func(*state.Question) {})
	x.poller.readIndex()
	x.readNotes()
	stored := x.loadQuestion(q)
	words, _ := stored.Decision()
	if words != "one" || stored.Status != state.Answered || !slices.Equal(x.waitingPrompts(), []string{"two"}) {
		t.Errorf("the next instruction is %q, %s; said %q", words, stored.Status, x.waitingPrompts())
	}
}

// After /branch or /resume, another session runs there. Outside of tmux, no Stop hook
// delivers the prompt, and a note says so.
func TestWordsOfASessionThatClaudeCodeLeft(t *testing.T) {
	for name, reason := range map[string]string{"/branch": "", "just after /clear": "clear"} {
		x := newTestSession(t, nil)
		x.reply(x.threadName, "", "go on")
		x.readNotes()
		x.changeSession(x.sessionID, func(s *state.Session) { s.EndReason = reason })
		x.changeSession("other", func(s *state.Session) {
			stored := x.loadSession()
			s.ClaudePID, s.ClaudeStart, s.Environment = stored.ClaudePID, stored.ClaudeStart, stored.Environment
			s.LastSeen = stored.LastSeen.Add(time.Second)
		})
		x.readNotes()
		x.readNotes()
		told := ""
		box, _ := state.OutboxIn(state.UserStateDir(x.env)).All()
		for _, message := range box {
			told += strings.Join(message.Parts, "\n")
		}
		isTold := strings.Contains(told, "Another session now runs in its terminal.")
		if ended := len(x.waitingPrompts()) == 0; ended != (reason == "") || isTold != ended {
			t.Errorf("%s: said %q, told %q", name, x.waitingPrompts(), told)
		}
	}
}
