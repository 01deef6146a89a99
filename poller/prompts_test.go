package poller

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fmt"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
	"os/exec"
	"sync/atomic"
)

// Claude gets prompts in the order in which they were written, each once, however often
// they are read. It gets none from a stranger.
func TestPrompts_DeliveredOnceInOrder(t *testing.T) {
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
func TestPrompts_SurviveAKill(t *testing.T) {
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
func TestPrompts_GoToWaitingHook(t *testing.T) {
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
func TestPrompts_StrangerGivesNoInstruction(t *testing.T) {
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
func TestPrompts_FullDiskReadsAgain(t *testing.T) {
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
func TestPrompts_FollowTheirCommand(t *testing.T) {
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
func TestPrompts_OfEarlierVersion(t *testing.T) {
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
func TestPrompts_EarlierVersionIgnoresInbox(t *testing.T) {
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
func TestPrompts_KeptGoesToWaitingHook(t *testing.T) {
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
func TestPrompts_LeftSessionGetsNote(t *testing.T) {
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

// Session A (cleared, then ended) and session B, which continues in another process
// (claude --resume B), share a thread.
func TestPrompts_ResumedAfterClear(t *testing.T) {
	x := newTestSession(t, nil)
	dead := exec.Command("true")
	_ = dead.Run()
	x.changeSession("a", func(s *state.Session) {
		stored := x.loadSession()
		s.Name, s.ThreadName, s.Chat, s.Environment, s.ProjectDir = "shop", stored.ThreadName, stored.Chat, stored.Environment, stored.ProjectDir
		s.AcceptsCommands, s.StartedAt, s.LastSeen, s.EndedAt = true, time.Now().Add(-3*time.Hour), time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		s.ClaudePID, s.ClaudeStart = dead.Process.Pid, "1@"+state.PIDScope()
	})
	x.changeSession(x.sessionID, func(s *state.Session) { s.PreviousSession = "a" })
	x.reply(x.threadName, "", "go on")
	notes := x.readNotes()
	if got := x.waitingPrompts(); len(got) != 1 {
		t.Errorf("said %q, told %q", got, notes)
	}
}

// Sessions A and B of one thread both run (claude --resume A beside B): a message in
// the thread that has B's last report. Also messages that were written while a session
// had ended, and that are read after it was resumed.
func TestPrompts_BeforeTheStart(t *testing.T) {
	x := newTestSession(t, nil)
	x.reply(x.threadName, "", "go on")
	x.changeSession(x.sessionID, func(s *state.Session) { s.StartedAt = time.Now().Add(3 * time.Second) })
	notes := x.readNotes()
	if got := x.waitingPrompts(); len(got)+len(notes) == 0 {
		t.Errorf("said %q, told %q", got, notes)
	}
}

func TestPrompts_ManyAtOnce(t *testing.T) {
	x := newTestSession(t, nil)
	at := time.Now().Add(-time.Second)
	acked := 0
	for i := range 21 {
		if x.addEventMessage(fmt.Sprint("m", i), fmt.Sprint("words ", i), at.Add(time.Duration(i)*time.Millisecond)) {
			acked++
		}
	}
	notes := x.readNotes()
	if got := x.waitingPrompts(); acked == 21 && !slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, "words 20") }) {
		t.Errorf("acknowledged %d, said %d, told %d", acked, len(got), len(notes))
	}
}

func TestPrompts_PulledOutOfOrder(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) { s.TmuxPane = "%1" })
	at := time.Now().Add(-time.Second)
	b := x.addEventMessage("m2", "/status", at.Add(100*time.Millisecond))
	a := x.addEventMessage("m1", "/compact", at)
	notes := x.readNotes()
	if got := x.waitingPrompts(); len(got) == 0 {
		t.Errorf("acknowledged %v %v, said %q, told %q", a, b, got, notes)
	}
}

func TestPrompts_EditedToCommand(t *testing.T) {
	x := newTestSession(t, nil)
	m := x.reply(x.threadName, "", "go on")
	x.readNotes()
	x.addEventEdit(m.Name, "/mute 2h")
	notes := x.readNotes()
	if !x.loadSession().MutedUntil.IsZero() {
		t.Errorf("one message is words and a command: %q, told %q", x.waitingPrompts(), notes)
	}
}

func TestPrompts_BrokenConfigurationKeepsThem(t *testing.T) {
	x := newTestSession(t, nil)
	c := state.OldCommand{MessageName: "spaces/local/messages/m", Sender: "users/1", Text: "go on", LocalCreatedAt: time.Now()}
	x.changeSession(x.sessionID, func(s *state.Session) { s.OldCommands = []state.OldCommand{c} })
	dir := filepath.Join(x.dir, ".config", "gchat-hooks")
	_ = os.MkdirAll(dir, 0o700)
	_ = os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"approvers": [`), 0o600)
	notes := x.readNotes()
	if n := x.countUnfinished(); n+len(x.waitingPrompts())+len(notes) == 0 {
		t.Errorf("gone: unread %v", x.poller.loadPersonalConfig().HasUnreadFile)
	}
}

// The session ended or was cleared after the message was added and before it was
// delivered. A message that was not used gets two notes: one that it was not used, and
// one when the session ends or after a day.
func TestPrompts_UnclearGetsOneNote(t *testing.T) {
	x := newTestSession(t, nil)
	x.reply(x.threadName, "", "!rm -rf /")
	notes := x.readNotes()
	notes = append(notes, x.readNotes()...)
	x.poller.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	for range 3 {
		notes = append(notes, x.readNotes()...)
	}
	box, _ := state.OutboxIn(state.UserStateDir(x.env)).All()
	for _, message := range box {
		t.Logf("outbox %s %v %q", message.Type, message.IsUrgent, message.Parts)
	}
	t.Logf("told %q", notes)
	kit.Equalf(t, len(notes)+len(box), 1, "told %q", notes)
}

// The record is removed after a day, and the list may reach back a little further.
func TestPrompts_ListedAfterADay(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) { s.StartedAt = time.Now().Add(-100 * time.Hour) })
	at := time.Now()
	x.addEventMessage("m", "go on", at)
	x.readNotes()
	inbox := state.InboxIn(state.UserStateDir(x.env))
	for _, in := range inbox.WaitingPrompts() {
		if _, err := inbox.EndPrompt(in.ID, "chat", ""); err != nil {
			t.Fatal(err)
		}
	}
	x.readNotes()
	x.poller.Now = func() time.Time { return time.Now().Add(24*time.Hour + time.Minute) }
	x.poller.readAndAttend(t.Context())
	x.changeSession(x.sessionID, func(s *state.Session) { s.LastSeen = x.poller.Now() })
	x.poller.sweep()
	x.poller.readAndAttend(t.Context())
	t.Logf("after the sweep: %q", x.waitingPrompts())
	x.addEventMessage("m", "go on", at)
	x.readNotes()
	box, _ := state.OutboxIn(state.UserStateDir(x.env)).All()
	for _, message := range box {
		t.Logf("outbox %s %v %q", message.Type, message.IsUrgent, message.Parts)
	}
	t.Logf("again: %q, left %d, takes %v", x.waitingPrompts(), x.countUnfinished(), x.poller.canTakeCommands(x.loadSession()))
}

// One Claude Code process has had the sessions a and s, which share a thread. Claude
// Code's own file names the current one. Messages reach only that one, also after
// /resume of a session that no hook knows.
func TestPrompts_GoToCurrentSession(t *testing.T) {
	for name, test := range map[string]struct{ has, reason, said, told string }{
		"it goes on with s":           {has: "s", said: "s"},
		"/resume of a":                {has: "a", reason: "resume", said: "a"},
		"just after /clear":           {has: "new", reason: "clear", said: "s"},
		"/resume of an unknown one":   {has: "new", reason: "resume", told: "Another session now runs in that terminal"},
		"that file is of another pid": {has: "", said: "s"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, nil)
			start, _, _ := strings.Cut(inject.ProcessStart(os.Getpid()), "@")
			own := fmt.Sprintf(`{"sessionId":%q,"procStart":%q}`, test.has, start)
			file := filepath.Join(x.dir, "sessions", fmt.Sprint(os.Getpid(), ".json"))
			kit.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			kit.NoError(t, os.WriteFile(file, []byte(own), 0o600))
			stored := x.loadSession()
			x.changeSession("a", func(s *state.Session) {
				one := *stored
				one.Record, one.ID, one.LastSeen = s.Record, s.ID, stored.LastSeen.Add(-time.Minute)
				one.TranscriptPath = filepath.Join(x.dir, "projects", "p", "a.jsonl")
				*s = one
			})
			x.changeSession(x.sessionID, func(s *state.Session) {
				s.PreviousSession, s.EndReason, s.TranscriptPath = "a", test.reason, filepath.Join(x.dir, "projects", "p", "s.jsonl")
			})
			x.reply(x.threadName, "", "go on")
			told := strings.Join(x.readNotes(), "\n")
			said := ""
			for _, in := range state.InboxIn(state.UserStateDir(x.env)).WaitingPrompts() {
				said += in.SessionID
			}
			if said != test.said || !strings.Contains(told, test.told) {
				t.Errorf("said to %q, want %q; told %q", said, test.said, told)
			}
		})
	}
}

// A person writes two messages in a row: the second before the Claude Code that the
// first started has called its first hook.
func TestPrompts_WhileSessionStarts(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) { s.StartingAt = time.Now().Add(-2 * time.Second) })
	x.reply(x.threadName, "", "and run the tests")
	x.changeSession(x.sessionID, func(s *state.Session) { s.StartedAt = time.Now().Add(3 * time.Second) })
	notes := x.readNotes()
	if got := x.waitingPrompts(); !slices.Equal(got, []string{"and run the tests"}) {
		t.Errorf("said %q, told %q", got, notes)
	}
}

// A message waits for a configuration that can be read, and the poller does not check
// for it all the time.
func TestPrompts_WaitingKeepsPollerIdle(t *testing.T) {
	t.Parallel()
	x := newTestSession(t, func(s *state.Session) {
		s.OldCommands = []state.OldCommand{{MessageName: "spaces/local/messages/m", Sender: "users/1", Text: "go on", LocalCreatedAt: time.Now()}}
	})
	writeFile(t, state.ConfigFile(x.env), `{"approvers": [`, 0o600)
	var asked atomic.Int64
	end := x.runPoller(Options{Daemon: true, Now: func() time.Time { asked.Add(1); return time.Now() }})
	time.Sleep(500 * time.Millisecond)
	asked.Store(0)
	time.Sleep(time.Second)
	if n := asked.Load(); n > 500 {
		t.Errorf("the time was asked for %d times in a second", n)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// A message to a session that has ended gets a note with the command to type, unless
// the message resumes the session. For that a Google space is read for five minutes,
// and the page for a while after a message on it, which starts a poller.
func TestPrompts_EndedSessionGetsNote(t *testing.T) {
	const chat = "chat.googleapis.com/spaces/S"
	for name, c := range map[string]struct {
		ago, runs time.Duration // since the session ended, and since the poller started
		chat      string        // "" for the page's
		read      bool
	}{
		"on the page":                      {time.Minute, 0, "", true},
		"on the page, a day after":         {20 * time.Hour, 0, "", true},
		"on the page, where nobody wrote":  {20 * time.Hour, time.Hour, "", false},
		"in Google Chat":                   {time.Minute, time.Hour, chat, true},
		"in Google Chat, and not for ever": {time.Hour, 0, chat, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, func(s *state.Session) { s.EndedAt = time.Now().Add(-c.ago) })
			if c.chat != "" {
				x.changeSession(x.sessionID, func(s *state.Session) { s.Chat = c.chat })
			}
			x.poller.startedAt = time.Now().Add(-c.runs)
			x.poller.readSessions()
			if read := x.poller.spaceViews()[x.loadSession().Chat] != nil; read != c.read {
				t.Fatalf("its thread is read: %v", read)
			}
			if c.chat == "" && c.read {
				x.checkAnswer("go on", "This session has ended")
			}
		})
	}
}
