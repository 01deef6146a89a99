package poller

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// listSpace makes the poller the one that lists the space for all environments.
func (x *testSession) listSpace() {
	x.t.Helper()
	x.poller.readAndAttend(x.t.Context())
	kit.NoError(x.t, x.reader.listSpace(x.t.Context(), x.poller.spaceViews()[x.reader.chat]))
	x.poller.readAndAttend(x.t.Context())
}

// The poller of a question's environment does not come. Then the poller that reads the
// space writes one note for a reply to the question. The question stays for the next hook
// of its session.
func TestEnvironments_UnclaimedReplyGetsNote(t *testing.T) {
	for name, c := range map[string]struct {
		lives, reads bool
		after        time.Duration
		notes        int
	}{
		"after a minute": {reads: true, after: undecidedTimeout, notes: 1},
		"before that": {
			reads: true, after: undecidedTimeout - 10*time.Second,
		},
		"while its poller runs": {
			lives: true, reads: true, after: undecidedTimeout,
		},
		"by a poller that does not read there":   {after: undecidedTimeout},
		"long after, by the next one that reads": {reads: true, after: 20 * time.Hour, notes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, nil)
			theirs, thread := x.addTheirs(nil)
			lock := filepath.Join(state.UserStateDir(x.env), "pollers", "another.lock")
			if c.lives {
				its, err := state.TryLock(lock)
				kit.NoError(t, err)
				defer its.Unlock()
			}
			x.reply(thread, "", "2")
			x.reply(thread, "", "I mean 1")
			x.listSpace()
			if !c.reads {
				release(&x.reader.lock)
			}
			x.poller.Now = shifted(c.after + time.Second)
			for range 2 {
				x.poller.readAndAttend(t.Context())
			}
			notes, left := x.notesIn(thread), 2
			if c.notes > 0 {
				left = 0
			}
			kit.True(t, len(notes) == c.notes && x.countUnfinished() == left,
				"notes %q, %d are undecided", notes, x.countUnfinished())
			kit.True(t, len(notes) == 0 || strings.HasPrefix(notes[0], "[Not read] "),
				"notes %q", notes)
			stored := x.loadQuestion(theirs)
			kit.True(t, stored.Status == state.Pending && len(stored.Replies) == 0,
				"the question is %s, with %+v", stored.Status, stored.Replies)
			kit.True(t, state.IsLocked(lock) == c.lives, "its poller's lock is not left as it was")
		})
	}
}

// The poller that reads a space for all environments changes no record of another
// environment. The other's poller uses the replies, edited and deleted ones too, and
// notes the times of its own messages.
func TestEnvironments_ReaderWritesNoOtherRecord(t *testing.T) {
	for name, c := range map[string]struct {
		replies []string // what one message says, one time after another; "" deletes it
		want    string
		verdict state.Verdict
	}{
		"a reply":                {[]string{"2"}, "2", state.VerdictUnread},
		"a reply that is edited": {[]string{"2", "1"}, "1", state.VerdictUnread},
		"one that is deleted":    {[]string{"2", ""}, "2", state.VerdictIgnored},
		"edited, then deleted":   {[]string{"2", "1", ""}, "1", state.VerdictIgnored},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, nil)
			theirs, thread := x.addTheirs(func(q *state.Question) { q.Mode = state.ModeNative })
			asked := kit.ReadFile(t, theirs.Path)
			x.listSpace()
			kit.Equalf(t, kit.ReadFile(t, theirs.Path), asked,
				"of the question's own message the reader wrote")
			other := x.newPoller()
			other.environment = "another"
			m := gchat.Message{
				Name: space.Name + "/messages/m", ThreadName: thread, Sender: "users/1",
				IsHuman: true, CreateTime: time.Now(),
			}
			for _, text := range c.replies {
				m.Text, m.IsDeleted = text, text == ""
				before := kit.ReadFile(t, theirs.Path)
				x.poller.readIndex()
				x.reader.readPage(&listPass{spaceView: x.poller.spaceViews()[x.reader.chat]},
					[]gchat.Message{m})
				x.poller.readAndAttend(t.Context())
				kit.Equalf(t, kit.ReadFile(t, theirs.Path), before,
					"with %q the reader wrote", text)
				other.readAndAttend(t.Context())
			}
			stored := x.loadQuestion(theirs)
			kit.True(t, len(stored.Replies) == 1 && stored.Replies[0].Text == c.want &&
				stored.Replies[0].Verdict == c.verdict && x.countUnfinished() == 0,
				"the question has %+v, %d are undecided", stored.Replies, x.countUnfinished())
		})
	}
}

// A process of one environment begins to wait in a thread while another environment's
// poller reads the space. Its own poller finds our last message there. The first reply
// after that message is for this process.
func TestEnvironments_WaitBesideAnotherReader(t *testing.T) {
	x := newTestSession(t, nil)
	x.addQuestion(x.markPosted) // keeps the space open
	thread := x.postAsApp("", "look at this").Thread.Name
	x.reply(thread, "", "of the message before")
	x.clockLead.Store(int64(10 * time.Millisecond)) // records have whole milliseconds
	x.postAsApp(thread, "and at this")
	x.clockLead.Store(int64(20 * time.Millisecond))
	x.listSpace()
	waits := x.waitInThread(thread, 0)
	x.startWaiter(waits)
	first := x.reply(thread, "", "the first reply")
	x.reply(thread, "", "another")
	x.moveToAnother(waits)
	before := kit.ReadFile(t, waits.Path)
	x.listSpace()
	kit.Equalf(t, kit.ReadFile(t, waits.Path), before, "the reader wrote")
	other := &readTest{testMachine: x.testMachine, poller: x.newPoller()}
	other.poller.environment = "another"
	other.reader = other.poller.readerFor(waits.Chat)
	for range 2 {
		other.mustRead()
		x.listSpace()
		other.poller.readAndAttend(t.Context())
	}
	stored := x.loadQuestion(waits)
	kit.True(t, stored.Status == state.Answered && stored.AnsweredMessage == first.Name,
		"%s, with %q of %+v", stored.Status, stored.AnsweredMessage, stored.Replies)
}

// Few places handle several environments. Index entries and sessions are separated as
// they are read, and little other code asks which environment a record is of.
func TestEnvironments_ComparedInFewPlaces(t *testing.T) {
	asks := regexp.MustCompile(
		`(\.Env|\w*nvironment(\(env\))?) [!=]= [^"]|[!=]= (\w+\.)?(\w*nvironment|Env)\b`)
	var places []string
	for _, dir := range []string{".", "../state"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		kit.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for n, line := range strings.Split(kit.ReadFile(t, file), "\n") {
				if asks.MatchString(line) {
					places = append(places,
						fmt.Sprintf("%s:%d: %s", file, n+1, strings.TrimSpace(line)))
				}
			}
		}
	}
	kit.True(t, len(places) != 0 && len(places) <= 10,
		"%d places:\n%s", len(places), strings.Join(places, "\n"))
}

// The poller neither posts nor judges a question of another environment. It leaves the
// replies to that environment's poller.
func TestEnvironments_OtherQuestionIsReadOnly(t *testing.T) {
	d := newTestMachine(t)
	own := d.addQuestion(d.markPosted)
	d.vars["GCHAT_ALLOWED_USERS"] += ",users/3"
	theirs := d.addQuestion(d.markPosted)
	unposted := d.addQuestion(nil)
	d.vars["GCHAT_ALLOWED_USERS"] = space.PersonName
	own = d.changeQuestion(own, func(q *state.Question) {})
	kit.NoError(t, state.RemoveFromIndex(d.env, own.Path))
	kit.NoError(t, state.AddQuestionToIndex(d.env, own))
	m := d.startThread(theirs)
	p := d.newPoller()
	p.readAndAttend(t.Context())
	for chat, v := range p.spaceViews() {
		kit.NoError(t, p.readerFor(chat).listAndRelease(t.Context(), v))
	}
	p.readAndAttend(t.Context())
	stored := d.loadQuestion(theirs)
	kit.True(t, len(stored.Replies) == 0, "replies %+v", stored.Replies)
	left, _ := d.inbox().All()
	kit.True(t, len(left) == 1 && left[0].MessageName == m.Name &&
		left[0].Status == state.IncomingNew,
		"left for its own poller: %+v", left)
	kit.True(t, !d.loadQuestion(unposted).IsMessageSent,
		"another environment's question was posted")
}

// A message that another environment does not decide holds back none of ours for longer
// than a minute.
func TestEnvironments_OtherMessageHoldsNothingBack(t *testing.T) {
	x := newTestSession(t, nil)
	theirs, ours := x.addQuestion(x.markPosted), x.addQuestion(x.markPosted)
	thread := x.beginThread(theirs)
	x.beginThread(ours)
	x.changeQuestion(ours, func(q *state.Question) { q.ThreadName = thread })
	x.moveToAnother(theirs)
	x.reply(thread, "", "2")
	x.readNotes()
	x.poller.Now = shifted(2 * time.Minute)
	x.route()
	kit.Must(t, x.countUnfinished() == 1, "%d messages are undecided", x.countUnfinished())
	kit.True(t, !x.poller.hasUndecided(x.reader.chat),
		"what only another environment decides counts as still to be decided here")
	_, space, _ := strings.Cut(x.reader.chat, "/")
	err := x.poller.addIncoming(newIncoming(x.reader.chat, gchat.Message{
		Name: space + "/messages/quoting", ThreadName: thread,
		QuotedMessage: x.loadQuestion(ours).MessageName, Text: "2",
		Sender: "users/1", IsHuman: true, CreateTime: x.poller.Now(),
	}, 0))
	kit.NoError(t, err)
	x.poller.readAndAttend(t.Context())
	kit.True(t, x.loadQuestion(ours).Status == state.Answered,
		"a reply to ours waits behind what another environment decides")
}

// A poller that pulls an event of another environment calls that environment's poller, as
// with a listed message.
func TestEnvironments_EventCallsItsPoller(t *testing.T) {
	x := newTestSession(t, nil)
	_, thread := x.addTheirs(nil)
	calls := filepath.Join(state.UserStateDir(x.env), "pollers", "another.lock")
	kit.WriteFile(t, calls, "", 0o600)
	x.threadName = thread
	x.addEventMessage("m", "2", time.Now())
	x.route()
	info, err := os.Stat(calls)
	kit.True(t, err == nil && info.Size() != 0, "not called: %v", err)
}

// The poller of another environment's session was killed. The next one decides the
// messages from meanwhile. Where none comes within a minute, the session's thread gets a
// note.
func TestEnvironments_MessageWaitsForNextPoller(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) { s.Environment = "another" })
	x.addListedMessage("prompt", x.threadName, "go on")
	x.poller.readAndAttend(t.Context())
	kit.Must(t, x.countUnfinished() == 1, "they are dropped at once")
	x.poller.Now = shifted(undecidedTimeout + time.Second)
	x.poller.readAndAttend(t.Context())
	notes := x.notesIn(x.threadName)
	kit.True(t, x.countUnfinished() == 0 && len(notes) == 1,
		"after a minute %d wait, and the thread has the notes %q", x.countUnfinished(), notes)
}

// A session runs on another machine with the same home folder, whose poller is silent: the
// machine sleeps. This one cannot see whether the session runs, and does not say that it
// has ended. After a minute, the thread is told that nobody serves it.
func TestEnvironments_SessionOfASleepingMachine(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) {
		s.Environment, s.ClaudeStart = "another", "1@another machine"
	})
	x.addQuestion(x.markPosted) // this machine's own, so that it reads the space
	x.reply(x.threadName, "", "go on")
	x.listSpace()
	kit.Must(t, x.countUnfinished() == 1 && len(x.notesIn(x.threadName)) == 0,
		"decided at once: %q", x.notesIn(x.threadName))
	x.poller.Now = shifted(undecidedTimeout + time.Second)
	x.poller.readAndAttend(t.Context())
	kit.Equal(t, x.notesIn(x.threadName), []string{wording.UnservedText})
}

// Two environments share a space. The other one has no poller, and its session has
// ended: a message to that session gets a note.
func TestEnvironments_EndedSessionWithoutPoller(t *testing.T) {
	x := newEndedSession(t, func(s *state.Session) { s.Environment = "0123456789abcdef" })
	x.changeSession("live", func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Environment, s.ProjectDir =
			"other", x.threadName+"2", x.reader.chat, state.Environment(x.env), x.dir
		s.AcceptsCommands, s.StartedAt, s.LastSeen = true, time.Now(), time.Now()
		s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid())
	})
	x.poller.readAndAttend(t.Context())
	notes := x.say("go on")
	kit.True(t, len(notes) == 1 && strings.HasPrefix(notes[0], "[Not read]") &&
		x.countUnfinished() == 0,
		"notes %q, left %d", notes, x.countUnfinished())
}

// The poller that pulls for all environments leaves a tap to the one whose question it is
// on.
func TestEnvironments_TapIsLeftToItsOwner(t *testing.T) {
	d, g := newAppMachine(t)
	q, card := d.addCardQuestion(func(q *state.Question) { d.markPostedByApp(q, g) })
	p := d.newReadyPoller()
	for _, record := range p.ownRecords {
		record.Environment = "another"
	}
	var e gchat.PulledEvent
	e.Message.Name, e.At, e.Person = q.MessageName, time.Now(), gchat.Person{Name: "users/7"}
	e.Tap = &wording.Tap{QuestionID: card, Choice: "1"}
	kit.NoError(t, p.addIncoming(newIncomingTap(q.Chat, e)))
	p.readState()
	p.routeAll(t.Context())
	stored := d.loadQuestion(q)
	kit.True(t, len(stored.Replies) == 0,
		"it was given to another one's question: %+v", stored.Replies)
	own := d.newPoller()
	own.readState()
	own.routeAll(t.Context())
	stored = d.loadQuestion(q)
	kit.True(t, len(stored.Replies) == 1, "%d taps are stored", len(stored.Replies))
}

// addTheirs adds a question that another environment serves. It is posted in a thread of
// its own.
func (x *testSession) addTheirs(change func(*state.Question)) (q *state.Question, thread string) {
	x.t.Helper()
	q = x.addPosted(change)
	thread = x.beginThread(q)
	x.moveToAnother(q)
	return q, thread
}

func (x *testSession) moveToAnother(q *state.Question) { x.moveToEnvironment(q, "another") }

// moveToEnvironment makes another environment serve a question.
func (x *testSession) moveToEnvironment(q *state.Question, environment string) {
	x.t.Helper()
	x.poller.readIndex()
	for file, record := range x.poller.ownRecords {
		if record.Path != q.Path {
			continue
		}
		text := strings.ReplaceAll(kit.ReadFile(x.t, file), x.poller.environment, environment)
		kit.NoError(x.t, os.WriteFile(file+".new", []byte(text), 0o600))
		kit.NoError(x.t, os.Rename(file+".new", file))
	}
	x.poller.readIndex()
	kit.Must(x.t, len(x.poller.otherRecords) != 0, "no other environment serves it")
}

// notesIn returns the texts that wait in the outbox for a thread.
func (x *testSession) notesIn(thread string) (texts []string) {
	x.t.Helper()
	all, bad := x.outbox().All()
	kit.Must(x.t, len(bad) == 0, "%v", bad)
	for _, message := range all {
		if message.ThreadName == thread {
			texts = append(texts, message.Parts...)
		}
	}
	return texts
}
