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
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// earlier is an app whose cards were posted when the machine had another subscription.
type earlier struct {
	eventSource
	chat string
}

func (e earlier) Chat() string              { return e.chat }
func (earlier) Foreign(*wording.Tap) bool   { return true }
func (x *talk) ofAnother(q *state.Question) { x.announcedBy(q, "another") }

// announcedBy has another environment serve a question.
func (x *talk) announcedBy(q *state.Question, environment string) {
	x.t.Helper()
	x.p.scan()
	for file, s := range x.p.index {
		if s.Path != q.Path {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			x.t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), x.p.environment, environment)
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			x.t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			x.t.Fatal(err)
		}
	}
	x.p.scan()
	if len(x.p.others) == 0 {
		x.t.Fatal("no other environment serves it")
	}
}

// A card of ours that names another subscription, of before a new setup, is tapped right after
// a poller began: the tap counts.
func TestATapOnACardOfAnEarlierSetupCounts(t *testing.T) {
	x := newTalk(t, nil)
	q := x.ask(x.posted)
	x.beginThread(q)
	x.p.scan()
	q = x.load(q)
	card := gchat.Message{Name: q.MessageName, ThreadName: q.ThreadName}
	tap := &wording.Tap{Question: state.CardID(x.env, q.QuestionID), Choice: "2"}
	err := x.p.takeEvent(earlier{chat: x.r.chat}, gchat.Pulled{
		ID: "e", Event: gchat.Event{At: time.Now(), By: gchat.Person{Name: "users/1"}, Human: true, Message: card, Tap: tap},
	})
	if err != nil {
		t.Fatal(err)
	}
	if x.left() != 1 {
		t.Error("the tap is acknowledged as another machine's, and is nowhere")
	}
}

// What another environment does not decide holds back nothing of ours for longer than a minute.
func TestAnotherEnvironmentsMessageHoldsNothingBack(t *testing.T) {
	x := newTalk(t, nil)
	theirs, ours := x.ask(x.posted), x.ask(x.posted)
	thread := x.beginThread(theirs)
	x.beginThread(ours)
	x.change(ours, func(q *state.Question) { q.ThreadName = thread })
	x.ofAnother(theirs)
	x.reply(thread, "", "2")
	x.hears()
	later := time.Now().Add(2 * time.Minute)
	x.p.Now = func() time.Time { return later }
	x.p.readRecords()
	x.p.routeAll(t.Context())
	if x.left() != 1 {
		t.Fatalf("%d messages are undecided", x.left())
	}
	if x.p.isUndecided(x.r.chat) {
		t.Error("what only another environment decides counts as still to be decided here")
	}
	_, space, _ := strings.Cut(x.r.chat, "/")
	err := x.p.take(incomingOf(x.r.chat, gchat.Message{
		Name: space + "/messages/quoting", ThreadName: thread, Quotes: x.load(ours).MessageName, Text: "2",
		Sender: "users/1", Human: true, CreateTime: later,
	}, 0))
	if err != nil {
		t.Fatal(err)
	}
	x.p.round(t.Context())
	if x.load(ours).Status != state.Answered {
		t.Error("a reply to ours waits behind what another environment decides")
	}
}

// A message that was deleted before its event came is not used.
func TestADeletionThatIsReadFirstCounts(t *testing.T) {
	x := newTalk(t, nil)
	x.p.scanSessions()
	_, space, _ := strings.Cut(x.r.chat, "/")
	if err := x.p.takeBack(state.IncomingID(x.r.chat, space+"/messages/deleted")); err != nil {
		t.Fatal(err)
	}
	x.pull("deleted", "delete it all", time.Now().Add(-time.Second))
	x.hears()
	if got := x.said(); len(got) > 0 {
		t.Errorf("said %q", got)
	}
}

// A command that a process began is not done again by who read its record before that.
func TestACommandThatWasBegunMeanwhileIsNotRepeated(t *testing.T) {
	x := newTalk(t, nil)
	x.p.scanSessions()
	x.pull("m", "/mute 2h", time.Now().Add(-time.Second))
	x.p.readRecords()
	x.p.routeAll(t.Context())
	stale := slices.Clone(x.p.routed[x.id])
	if len(stale) != 1 {
		t.Fatalf("%d messages are for the session", len(stale))
	}
	_, err := state.InboxIn(state.UserStateDir(x.env)).Update(stale[0].ID, func(in *state.Incoming) error {
		in.Status = state.IncomingDoing
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.p.room().Work(t.Context(), x.is(), stale); err != nil {
		t.Fatal(err)
	}
	if !x.is().MutedUntil.IsZero() {
		t.Error("it is done once more")
	}
}

// What did not reach Claude is sent on to it also where its question lies in the folder that
// words are written into, since its project cannot be written to.
func TestAnswersAreSentOnFromTheSpareFolder(t *testing.T) {
	x := newTalk(t, nil)
	dir := state.SpareStateDir(state.ProjectEnv(x.env, x.is().ProjectDir, true))
	x.session(x.id, func(s *state.Session) { s.StateDir = dir })
	q, err := state.QuestionsIn(dir).Record(x.id, func([]*state.Question) *state.Question {
		return &state.Question{
			QuestionID: "00000000-away", Mode: state.ModeNative, Status: state.Cancelled, ResolvedBy: state.EndedAway,
			AskedAt: time.Now(), ResolvedAt: new(time.Now()), SessionID: x.id, ClaudeSessionID: x.id,
			ThreadKey: "session-" + x.id, AcceptsPrompts: true, Chat: x.is().Chat, ThreadName: x.thread,
			SubQuestions:   []state.SubQuestion{{Question: "Which?"}, {Question: "When?"}},
			PartialAnswers: map[int]state.Answer{0: {Labels: []string{"Two"}}},
			Replies: []state.Reply{{
				MessageName: "spaces/local/messages/send", Sender: "users/1", Text: "send", Verdict: state.VerdictUsed, CreatedAt: time.Now(),
			}},
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.p.sendOn(q, "spaces/local/messages/send"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		x.hears()
	}
	if got := x.said(); len(got) != 1 {
		t.Errorf("said %q, left %d", got, x.left())
	}
}

// An event that is another environment's has its poller called, as what a list brings does.
func TestAnEventCallsThePollerThatItConcerns(t *testing.T) {
	x := newTalk(t, nil)
	theirs := x.ask(x.posted)
	thread := x.beginThread(theirs)
	x.ofAnother(theirs)
	calls := filepath.Join(state.UserStateDir(x.env), "pollers", "another.lock")
	writeAll(t, calls, "", 0o600)
	x.thread = thread
	x.pull("m", "2", time.Now())
	x.p.readRecords()
	x.p.routeAll(t.Context())
	if info, err := os.Stat(calls); err != nil || info.Size() == 0 {
		t.Errorf("not called: %v", err)
	}
}

// listed takes what a person wrote from a list.
func (x *talk) listed(name, thread, text string) {
	x.t.Helper()
	_, space, _ := strings.Cut(x.r.chat, "/")
	err := x.p.take(incomingOf(x.r.chat, gchat.Message{
		Name: space + "/messages/" + name, ThreadName: thread, Text: text,
		Sender: "users/1", Human: true, CreateTime: time.Now(),
	}, 0))
	if err != nil {
		x.t.Fatal(err)
	}
}

// Another process may read a space: a reply can be in the inbox before this one has seen the
// question that it is for, which was posted before it.
func TestAReplyThatIsReadSoonerThanItsQuestionCounts(t *testing.T) {
	x := newTalk(t, nil)
	over := x.ask(x.posted)
	thread := x.beginThread(over)
	_, err := state.CloseQuestion(over.Path, state.Resolved, "chat", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan bool)
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			x.p.readRecords()
			x.p.routeAll(ctx)
		}
	}()
	var asked []*state.Question
	for n := range 100 {
		asked = append(asked, x.ask(func(q *state.Question) {
			x.posted(q)
			q.ThreadName = thread
		}))
		x.listed(fmt.Sprint("reply", n), thread, "2")
		bound.Until(t, "the reply is decided", func() bool { return x.left() == 0 })
		if is := x.load(asked[n]); len(is.Replies) != 1 {
			t.Errorf("round %d: %d replies are stored", n, len(is.Replies))
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

// The poller of another environment's session was killed. The next one decides what is said
// there meanwhile; where none comes for a minute, the session's thread is told.
func TestWordsForASessionWhosePollerWasKilledWaitForTheNext(t *testing.T) {
	x := newTalk(t, func(s *state.Session) { s.Environment = "another" })
	x.listed("words", x.thread, "go on")
	x.p.round(t.Context())
	if x.left() != 1 {
		t.Fatal("they are dropped at once")
	}
	later := time.Now().Add(undecidedFor + time.Second)
	x.p.Now = func() time.Time { return later }
	x.p.round(t.Context())
	if told := x.notesIn(x.thread); x.left() != 0 || len(told) != 1 {
		t.Errorf("after a minute %d wait, and the thread is told %q", x.left(), told)
	}
}

// A reply can be in the inbox before the receipt of its question's post is written down: it waits
// for that.
func TestAReplyWaitsForTheReceipt(t *testing.T) {
	x := newTalk(t, nil)
	q := x.ask(x.posted)
	thread := x.beginThread(q)
	q = x.change(q, func(q *state.Question) { q.ThreadName = "" })
	x.listed("reply", thread, "2")
	x.p.round(t.Context())
	q = x.change(q, func(q *state.Question) { q.ThreadName = thread })
	x.p.scan()
	x.p.round(t.Context())
	if is := x.load(q); len(is.Replies) != 1 {
		t.Errorf("%d replies are stored", len(is.Replies))
	}
}
