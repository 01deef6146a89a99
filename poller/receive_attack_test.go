package poller

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// otherMachineEvents is an app whose cards were posted while the machine had another
// subscription.
type otherMachineEvents struct {
	eventSource
	chat string
}

func (e otherMachineEvents) Chat() string                      { return e.chat }
func (otherMachineEvents) IsForOtherMachine(*wording.Tap) bool { return true }
func (x *testSession) moveToAnother(q *state.Question)         { x.moveToEnvironment(q, "another") }

// moveToEnvironment makes another environment serve a question.
func (x *testSession) moveToEnvironment(q *state.Question, environment string) {
	x.t.Helper()
	x.poller.readIndex()
	for file, record := range x.poller.ownRecords {
		if record.Path != q.Path {
			continue
		}
		b, err := os.ReadFile(file)
		kit.NoError(x.t, err)
		text := strings.ReplaceAll(string(b), x.poller.environment, environment)
		kit.NoError(x.t, os.WriteFile(file+".new", []byte(text), 0o600))
		kit.NoError(x.t, os.Rename(file+".new", file))
	}
	x.poller.readIndex()
	if len(x.poller.otherRecords) == 0 {
		x.t.Fatal("no other environment serves it")
	}
}

// A card of ours may name a subscription from before a new setup. A tap on it counts
// right after a poller started.
func TestATapOnACardOfAnEarlierSetupCounts(t *testing.T) {
	x := newTestSession(t, nil)
	q := x.addQuestion(x.markPosted)
	x.beginThread(q)
	x.poller.readIndex()
	q = x.loadQuestion(q)
	card := gchat.Message{Name: q.MessageName, ThreadName: q.ThreadName}
	tap := &wording.Tap{QuestionID: state.CardID(x.env, q.QuestionID), Choice: "2"}
	err := x.poller.addEvent(otherMachineEvents{chat: x.reader.chat}, gchat.PulledEvent{
		ID: "e", Event: gchat.Event{At: time.Now(), Person: gchat.Person{Name: "users/1"}, IsHuman: true, Message: card, Tap: tap},
	})
	kit.NoError(t, err)
	if x.countUnfinished() != 1 {
		t.Error("the tap is acknowledged as another machine's, and is nowhere")
	}
}

// A message that another environment does not decide holds back none of ours for longer
// than a minute.
func TestAnotherEnvironmentsMessageHoldsNothingBack(t *testing.T) {
	x := newTestSession(t, nil)
	theirs, ours := x.addQuestion(x.markPosted), x.addQuestion(x.markPosted)
	thread := x.beginThread(theirs)
	x.beginThread(ours)
	x.changeQuestion(ours, func(q *state.Question) { q.ThreadName = thread })
	x.moveToAnother(theirs)
	x.reply(thread, "", "2")
	x.readNotes()
	later := time.Now().Add(2 * time.Minute)
	x.poller.Now = func() time.Time { return later }
	x.poller.readState()
	x.poller.routeAll(t.Context())
	if x.countUnfinished() != 1 {
		t.Fatalf("%d messages are undecided", x.countUnfinished())
	}
	if x.poller.hasUndecided(x.reader.chat) {
		t.Error("what only another environment decides counts as still to be decided here")
	}
	_, space, _ := strings.Cut(x.reader.chat, "/")
	err := x.poller.addIncoming(newIncoming(x.reader.chat, gchat.Message{
		Name: space + "/messages/quoting", ThreadName: thread, QuotedMessage: x.loadQuestion(ours).MessageName, Text: "2",
		Sender: "users/1", IsHuman: true, CreateTime: later,
	}, 0))
	kit.NoError(t, err)
	x.poller.readAndAttend(t.Context())
	if x.loadQuestion(ours).Status != state.Answered {
		t.Error("a reply to ours waits behind what another environment decides")
	}
}

// A message that was deleted before its event came is not used.
func TestADeletionThatIsReadFirstCounts(t *testing.T) {
	x := newTestSession(t, nil)
	x.poller.readSessions()
	_, space, _ := strings.Cut(x.reader.chat, "/")
	kit.NoError(t, x.poller.revokeIncoming(state.IncomingID(x.reader.chat, space+"/messages/deleted")))
	x.addEventMessage("deleted", "delete it all", time.Now().Add(-time.Second))
	x.readNotes()
	if got := x.waitingPrompts(); len(got) > 0 {
		t.Errorf("said %q", got)
	}
}

// A poller does not carry out a command that another process began after the poller read
// its record.
func TestACommandThatWasBegunMeanwhileIsNotRepeated(t *testing.T) {
	x := newTestSession(t, nil)
	x.poller.readSessions()
	x.addEventMessage("m", "/mute 2h", time.Now().Add(-time.Second))
	x.poller.readState()
	x.poller.routeAll(t.Context())
	stale := slices.Clone(x.poller.routedBySession[x.sessionID])
	if len(stale) != 1 {
		t.Fatalf("%d messages are for the session", len(stale))
	}
	_, err := state.InboxIn(state.UserStateDir(x.env)).Update(stale[0].ID, func(in *state.Incoming) error {
		in.Status = state.IncomingDoing
		return nil
	})
	kit.NoError(t, err)
	kit.NoError(t, x.poller.commandRunner().RunCommands(t.Context(), x.loadSession(), stale))
	if !x.loadSession().MutedUntil.IsZero() {
		t.Error("it is done once more")
	}
}

// Answers that did not reach Claude go to it as a prompt, even if the question lies in
// the folder of prompts because its project cannot be written to.
func TestAnswersAreSentOnFromTheSpareFolder(t *testing.T) {
	x := newTestSession(t, nil)
	dir := state.SpareStateDir(state.ProjectEnv(x.env, x.loadSession().ProjectDir, true))
	x.changeSession(x.sessionID, func(s *state.Session) { s.StateDir = dir })
	q, err := state.QuestionsIn(dir).Record(x.sessionID, func([]*state.Question) *state.Question {
		return &state.Question{
			QuestionID: "00000000-away", Mode: state.ModeNative, Status: state.Cancelled, ResolvedBy: state.EndedAway,
			AskedAt: time.Now(), ResolvedAt: new(time.Now()), SessionID: x.sessionID, ClaudeSessionID: x.sessionID,
			ThreadKey: "session-" + x.sessionID, AcceptsPrompts: true, Chat: x.loadSession().Chat, ThreadName: x.threadName,
			SubQuestions:   []state.SubQuestion{{Question: "Which?"}, {Question: "When?"}},
			PartialAnswers: map[int]state.Answer{0: {Labels: []string{"Two"}}},
			Replies: []state.Reply{{
				MessageName: "spaces/local/messages/send", Sender: "users/1", Text: "send", Verdict: state.VerdictUsed, CreatedAt: time.Now(),
			}},
		}
	})
	kit.NoError(t, err)
	kit.NoError(t, x.poller.forwardUnsentAnswers(q, "spaces/local/messages/send"))
	for range 2 {
		x.readNotes()
	}
	if got := x.waitingPrompts(); len(got) != 1 {
		t.Errorf("said %q, left %d", got, x.countUnfinished())
	}
}

// A poller that pulls an event of another environment calls that environment's poller, as
// with a listed message.
func TestAnEventCallsThePollerThatItConcerns(t *testing.T) {
	x := newTestSession(t, nil)
	theirs := x.addQuestion(x.markPosted)
	thread := x.beginThread(theirs)
	x.moveToAnother(theirs)
	calls := filepath.Join(state.UserStateDir(x.env), "pollers", "another.lock")
	writeFile(t, calls, "", 0o600)
	x.threadName = thread
	x.addEventMessage("m", "2", time.Now())
	x.poller.readState()
	x.poller.routeAll(t.Context())
	if info, err := os.Stat(calls); err != nil || info.Size() == 0 {
		t.Errorf("not called: %v", err)
	}
}

// addListedMessage adds a message of a person as a list brings it.
func (x *testSession) addListedMessage(name, thread, text string) {
	x.t.Helper()
	_, space, _ := strings.Cut(x.reader.chat, "/")
	err := x.poller.addIncoming(newIncoming(x.reader.chat, gchat.Message{
		Name: space + "/messages/" + name, ThreadName: thread, Text: text,
		Sender: "users/1", IsHuman: true, CreateTime: time.Now(),
	}, 0))
	kit.NoError(x.t, err)
}

// Another process may read the space. Then a reply can be in the inbox before this poller
// has seen its question.
func TestAReplyThatIsReadSoonerThanItsQuestionCounts(t *testing.T) {
	x := newTestSession(t, nil)
	over := x.addQuestion(x.markPosted)
	thread := x.beginThread(over)
	_, err := state.CloseQuestion(over.Path, state.Resolved, "chat", nil)
	kit.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan bool)
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			x.poller.readState()
			x.poller.routeAll(ctx)
		}
	}()
	var asked []*state.Question
	for n := range 100 {
		asked = append(asked, x.addQuestion(func(q *state.Question) {
			x.markPosted(q)
			q.ThreadName = thread
		}))
		x.addListedMessage(fmt.Sprint("reply", n), thread, "2")
		bound.Until(t, "the reply is decided", func() bool { return x.countUnfinished() == 0 })
		if stored := x.loadQuestion(asked[n]); len(stored.Replies) != 1 {
			t.Errorf("round %d: %d replies are stored", n, len(stored.Replies))
			break
		}
		_, err := state.CloseQuestion(asked[n].Path, state.Resolved, "chat", nil)
		if err != nil {
			t.Error(err)
		}
	}
	stop()
	<-stopped
}

// The poller of another environment's session was killed. The next one decides the
// messages from meanwhile. Where none comes within a minute, the session's thread gets a
// note.
func TestWordsForASessionWhosePollerWasKilledWaitForTheNext(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) { s.Environment = "another" })
	x.addListedMessage("words", x.threadName, "go on")
	x.poller.readAndAttend(t.Context())
	if x.countUnfinished() != 1 {
		t.Fatal("they are dropped at once")
	}
	later := time.Now().Add(undecidedTimeout + time.Second)
	x.poller.Now = func() time.Time { return later }
	x.poller.readAndAttend(t.Context())
	if notes := x.notesIn(x.threadName); x.countUnfinished() != 0 || len(notes) != 1 {
		t.Errorf("after a minute %d wait, and the thread is told %q", x.countUnfinished(), notes)
	}
}

// A reply can be in the inbox before the receipt of its question's post is on disk. The
// reply waits for the receipt.
func TestAReplyWaitsForTheReceipt(t *testing.T) {
	x := newTestSession(t, nil)
	q := x.addQuestion(x.markPosted)
	thread := x.beginThread(q)
	q = x.changeQuestion(q, func(q *state.Question) { q.ThreadName = "" })
	x.addListedMessage("reply", thread, "2")
	x.poller.readAndAttend(t.Context())
	q = x.changeQuestion(q, func(q *state.Question) { q.ThreadName = thread })
	x.poller.readIndex()
	x.poller.readAndAttend(t.Context())
	if stored := x.loadQuestion(q); len(stored.Replies) != 1 {
		t.Errorf("%d replies are stored", len(stored.Replies))
	}
}
