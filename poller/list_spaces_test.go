package poller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestCycleIsQuickForTwoMinutes(t *testing.T) {
	for _, c := range []struct{ since, interval, want time.Duration }{
		{0, 3 * time.Second, time.Second},
		{119 * time.Second, 3 * time.Second, time.Second},
		{2 * time.Minute, 3 * time.Second, 3 * time.Second},
		{20 * time.Hour, 10 * time.Second, 10 * time.Second},
		{0, 100 * time.Millisecond, 100 * time.Millisecond},
	} {
		d := newTestMachine(t)
		d.vars["GCHAT_POLLER_INTERVAL"] = c.interval.String()
		v := &spaceView{sources: []configSource{{"", false}}, youngestAskedAt: time.Now().Add(-c.since)}
		kit.Equalf(t, d.newPoller().readerFor("chat").listInterval(v), c.want, "%v after, interval %v", c.since, c.interval)
	}
}

func TestTroubleBacksOff(t *testing.T) {
	for code, wants := range map[int][]time.Duration{
		429: {30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute},
		500: {time.Second, 2 * time.Second, 4 * time.Second},
		503: {time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second},
	} {
		var tr listFailures
		for i, want := range wants {
			kit.Equalf(t, tr.pauseAfter(&gchat.APIError{HTTP: code}), want, "%d, failure %d", code, i+1)
		}
	}
	var tr listFailures
	kit.Equalf(t, tr.pauseAfter(&gchat.APIError{HTTP: 429, RetryAfter: 7 * time.Second}), 7*time.Second, "with Retry-After")
	if got := tr.pauseAfter(errors.New("connection refused")); got != 0 {
		t.Errorf("the network is down: %v; the usual cycle is enough", got)
	}
	for i := 1; i <= maxAuthFailures; i++ {
		if tr.isDegraded() {
			t.Errorf("degraded after %d failures", i-1)
		}
		kit.Equalf(t, tr.pauseAfter(&gchat.APIError{HTTP: 403}), time.Minute, "auth failure %d", i)
	}
	if !tr.isDegraded() {
		t.Error("not degraded after five")
	}
}

func TestSinceReachesBackForThreadsThatWereNotRead(t *testing.T) {
	posted := noon.Add(-time.Hour)
	old := &state.Question{QuestionID: "old", Status: state.Pending, AskedAt: noon.Add(-2 * time.Hour), PostedAt: &posted}
	unknown := &state.Question{QuestionID: "unknown", Status: state.Pending, AskedAt: noon.Add(-time.Hour)}
	closed := &state.Question{QuestionID: "closed", Status: state.Resolved, AskedAt: noon.Add(-20 * time.Hour)}
	covered := map[string]bool{"old": true}
	for name, c := range map[string]struct {
		mark    time.Time
		covered map[string]bool
		qs      []*state.Question
		want    time.Time
	}{
		"all read":                  {noon, covered, []*state.Question{old, closed}, noon.Add(-listOverlap)},
		"one not read":              {noon, nil, []*state.Question{old, closed}, posted.Add(-listOverlap)},
		"posted at an unknown time": {noon, nil, []*state.Question{unknown}, unknown.AskedAt.Add(-clockSlack)},
		"nothing read yet":          {time.Time{}, nil, []*state.Question{old}, posted.Add(-listOverlap)},
		"a watermark further back":  {noon.Add(-9 * time.Hour), nil, []*state.Question{old}, noon.Add(-9*time.Hour - listOverlap)},
		"a watermark of last week":  {noon.Add(-200 * time.Hour), nil, []*state.Question{old}, noon.Add(-state.MaxQuestionAge - clockSlack)},
	} {
		if got := listStart(c.mark, c.covered, &spaceView{questionsByThread: map[string][]*state.Question{"T": c.qs}}, noon); !got.Equal(c.want) {
			t.Errorf("%s: since %v, want %v", name, got, c.want)
		}
	}
}

// readTest is a poller that lists the space of a testMachine when the test says so.
type readTest struct {
	*testMachine
	poller *Poller
	reader *reader
}

func newReadTest(d *testMachine, q *state.Question) *readTest {
	x := &readTest{testMachine: d, poller: d.newPoller()}
	x.reader = x.poller.readerFor(q.Chat)
	return x
}

// listAndRelease lists the space, and then releases it for other readers.
func (r *reader) listAndRelease(ctx context.Context, v *spaceView) error {
	defer release(&r.lock)
	return r.listSpace(ctx, v)
}

// readOnce lists the space once, and judges the replies.
func (x *readTest) readOnce() error {
	x.t.Helper()
	x.poller.readAndAttend(x.t.Context())
	v := x.poller.spaceViews()[x.reader.chat]
	err := x.reader.listAndRelease(x.t.Context(), v)
	x.poller.readAndAttend(x.t.Context())
	return err
}

func (x *readTest) mustRead() {
	x.t.Helper()
	kit.NoError(x.t, x.readOnce())
}

// A message from the future must not stop the reading. A message that is listed late is
// read.
func TestTheWatermarkKeepsToTheServersClock(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	x := newReadTest(d, q)
	first := d.startThread(q)
	d.clockLead.Store(int64(73 * 365 * 24 * time.Hour))
	d.reply(first.Thread.Name, "users/9", "from 2099")
	d.clockLead.Store(0)
	x.mustRead()
	if stored := d.loadQuestion(q); len(stored.Replies) != 2 || stored.Status != state.Answered {
		t.Fatalf("%s, %+v", stored.Status, stored.Replies)
	}
	mark := state.SpacesIn(state.UserStateDir(d.env)).Get(q.Chat).Watermark
	if mark.After(time.Now().Add(10*time.Second)) || mark.IsZero() {
		t.Fatalf("the watermark is %v", mark)
	}
	next := d.addQuestion(d.markPosted)
	late := d.startThread(next)
	x.mustRead()
	if stored := d.loadQuestion(next); stored.FindReply(late.Name) == nil {
		t.Error("what came after a message from the future is not read")
	}
}

// This machine's clock is a day ahead. The space is read all the same, once a list has
// brought the server's time.
func TestAClockThatIsADayAhead(t *testing.T) {
	d := newTestMachine(t)
	d.clockLead.Store(int64(-26 * time.Hour))
	q := d.addQuestion(d.markPosted)
	m := d.startThread(q)
	x := newReadTest(d, q)
	x.mustRead()
	x.mustRead()
	if stored := d.loadQuestion(q); stored.FindReply(m.Name) == nil {
		t.Errorf("the reply of %s is not read; the question is of %s, posted %s", m.CreateTime, stored.AskedAt, stored.PostedAt)
	}
}

// Each message is added once, although the overlap lists it many times.
func TestWhatWasReadIsSkippedInTheOverlap(t *testing.T) {
	d := newTestMachine(t)
	d.addQuestion(d.markPosted) // keeps the space open
	q := d.addQuestion(func(q *state.Question) { d.markPosted(q); q.Mode = state.ModeDeny })
	x := newReadTest(d, q)
	m := d.startThread(q)
	x.mustRead()
	d.clockLead.Store(int64(-time.Minute))
	d.reply(m.Thread.Name, "", "and again") // it is listed after one that was created later
	d.clockLead.Store(0)
	for range 3 {
		x.mustRead()
	}
	stored := d.loadQuestion(q)
	if len(stored.Replies) != 2 || stored.Replies[1].Verdict != state.VerdictLate {
		t.Errorf("%+v", stored.Replies)
	}
	kit.Equalf(t, strings.Join(d.noteKinds(q), " "), state.NoteLater+" "+state.NoteLate, "notes")
}

// For two minutes each list brings a question's own message. The question's file is not
// locked for that.
func TestAQuestionsOwnMessageIsTakenOnce(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	d.startThread(q)
	x := newReadTest(d, q)
	x.mustRead()
	lock, err := state.TryLock(filepath.Join(filepath.Dir(q.Path), ".locks", state.RecordName(q.Path)))
	kit.NoError(t, err)
	defer lock.Unlock()
	x.poller.readIndex()
	if err := x.reader.listAndRelease(t.Context(), x.poller.spaceViews()[q.Chat]); err != nil {
		t.Error(err)
	}
}

// A list that fails halfway does not move the watermark. A message that a full disk kept
// from being written is read once more.
func TestWhatCouldNotBeWrittenDownIsReadAgain(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	x := newReadTest(d, q)
	m := d.startThread(q)
	inbox := filepath.Join(state.UserStateDir(d.env), "inbox")
	if err := os.WriteFile(inbox, nil, 0o600); err != nil { // nothing can be put there
		t.Fatal(err)
	}
	x.poller.readIndex()
	if err := x.reader.listAndRelease(t.Context(), x.poller.spaceViews()[q.Chat]); err == nil {
		t.Error("no error")
	}
	if at := state.SpacesIn(state.UserStateDir(d.env)).Get(q.Chat).Watermark; !at.IsZero() {
		t.Errorf("the watermark moved to %v", at)
	}
	kit.NoError(t, os.Remove(inbox))
	x.mustRead()
	if stored := d.loadQuestion(q); stored.FindReply(m.Name) == nil {
		t.Error("the reply is lost")
	}
}

// Another program posted two questions into one thread. A reply answers the older one,
// and the next reply answers the other.
func TestOneReplyAnswersOneQuestionOfAThread(t *testing.T) {
	d := newTestMachine(t)
	older, newer := d.addQuestion(d.markPosted), d.addQuestion(d.markPosted)
	x := newReadTest(d, older)
	first := d.startThread(older)
	d.changeQuestion(newer, func(q *state.Question) {
		q.ThreadName, q.ThreadKey, q.AskedAt = first.Thread.Name, older.ThreadKey, q.AskedAt.Add(time.Second)
	})
	x.mustRead()
	x.mustRead()
	if d.loadQuestion(older).Answers["Which?"] != "Two" || d.loadQuestion(newer).Status != state.Pending {
		t.Fatalf("older %v, newer %v", d.loadQuestion(older).Answers, d.loadQuestion(newer).Answers)
	}
	d.reply(first.Thread.Name, "", "1")
	x.mustRead()
	if d.loadQuestion(newer).Answers["Which?"] != "One" || len(d.loadQuestion(older).Replies) != 1 {
		t.Errorf("newer %v, older has %d replies", d.loadQuestion(newer).Answers, len(d.loadQuestion(older).Replies))
	}
}

// In a space without threads a reply answers the question that it quotes. A reply without
// a quote, written while two are open, answers none, even after one of them is closed.
func TestInASpaceWithoutThreadsAQuoteSaysWhatIsAnswered(t *testing.T) {
	d := newTestMachine(t)
	first, second := d.addQuestion(d.markPosted), d.addQuestion(d.markPosted)
	at := d.loadQuestion(second).PostedAt.Add(time.Second)
	d.changeQuestion(second, func(q *state.Question) { q.ThreadName = first.ThreadName })
	x := newReadTest(d, first)
	say := func(name, text, quotes string) {
		x.poller.readAndAttend(t.Context())
		m := gchat.Message{Name: space.Name + "/messages/" + name, ThreadName: first.ThreadName, Text: text, CreateTime: at, QuotedMessage: quotes}
		m.Sender, m.IsHuman = "users/1", true
		kit.NoError(t, x.poller.addIncoming(newIncoming(x.reader.chat, m, 0)))
		x.poller.readAndAttend(t.Context())
	}
	say("a", "1", "")
	if q := d.loadQuestion(first); q.Status != state.Pending || fmt.Sprint(d.noteKinds(q)) != "["+state.NoteUnclear+"]" {
		t.Errorf("%s, told %q", q.Status, d.noteKinds(q))
	}
	say("b", "2", second.MessageName)
	kit.Equalf(t, d.loadQuestion(second).Answers["Which?"], "Two", "the quoted one is answered with")
	say("a", "1", "")
	if q := d.loadQuestion(first); q.Status != state.Pending {
		t.Errorf("answered with %v", q.Answers)
	}
	say("c", "1", "")
	kit.Equalf(t, d.loadQuestion(first).Answers["Which?"], "One", "the last one that is open is answered with")
}

// A question that timed out may have been asked once more, or have its answer. It then
// takes no reply from a younger question of its thread.
func TestAnOldQuestionLeavesTheReplyToTheYounger(t *testing.T) {
	for name, over := range map[string]func(*state.Question){
		"asked again": func(q *state.Question) { q.IsAskedAgain = true },
		"answered":    func(q *state.Question) { q.Answers = map[string]string{"Which?": "One"} },
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestMachine(t)
			m, err := d.space.PostAs(&chatapi.User{Name: "users/app", Type: "BOT"}, "", "question")
			kit.NoError(t, err)
			d.addQuestion(func(q *state.Question) {
				d.markPosted(q)
				q.ThreadName, q.AskedAt, q.Status, q.Mode = m.Thread.Name, q.AskedAt.Add(-time.Minute), state.TimedOut, state.ModeDeny
				over(q)
			})
			young := d.addQuestion(func(q *state.Question) { d.markPosted(q); q.ThreadName = m.Thread.Name })
			x := newReadTest(d, young)
			x.mustRead()
			d.reply(m.Thread.Name, "", "1")
			x.mustRead()
			if stored := d.loadQuestion(young); stored.Status != state.Answered {
				t.Errorf("the younger is %s", stored.Status)
			}
		})
	}
}

// A reply that is edited before it is judged counts in its newest form.
func TestReplyIsReadAsItWasRevised(t *testing.T) {
	for name, c := range map[string]struct {
		judged  bool
		now     gchat.Message
		text    string
		verdict state.Verdict
	}{
		"edited":           {false, gchat.Message{Text: "2"}, "2", state.VerdictUnread},
		"deleted":          {false, gchat.Message{IsDeleted: true}, "1", state.VerdictIgnored},
		"as it was":        {false, gchat.Message{Text: "1"}, "1", state.VerdictUnread},
		"edited too late":  {true, gchat.Message{Text: "2"}, "1", state.VerdictUsed},
		"deleted too late": {true, gchat.Message{IsDeleted: true}, "1", state.VerdictUsed},
		"another sender's": {false, gchat.Message{Text: "2", Sender: "users/2"}, "1", state.VerdictUnread},
	} {
		t.Run(name, func(t *testing.T) {
			q := &state.Question{}
			m := gchat.Message{Name: "M", IsHuman: true, Sender: "users/1", Text: "1", CreateTime: noon}
			judge.AddReply(q, newIncoming("", m, 0).AsReply(), false)
			if c.judged {
				q.Replies[0].Verdict = state.VerdictUsed
			}
			m.Text, m.IsDeleted = c.now.Text, c.now.IsDeleted
			if c.now.Sender != "" {
				m.Sender = c.now.Sender
			}
			judge.ReviseReply(q, newIncoming("", m, 0))
			if r := q.Replies; len(r) != 1 || r[0].Text != c.text || r[0].Verdict != c.verdict {
				t.Errorf("%+v, want one, %q, %q", r, c.text, c.verdict)
			}
		})
	}
}

// A reply that is deleted before it is judged answers nothing, even where Chat leaves out
// who wrote it. In this test, judging waits for the file that says who may answer.
func TestADeletedReplyIsNone(t *testing.T) {
	d := newTestMachine(t)
	delete(d.vars, "GCHAT_ALLOWED_USERS")
	thread, deleted := space.Name+"/threads/00000001", false
	file := filepath.Join(d.dir, ".config", "gchat-hooks", "config.json")
	allow := func(text string) {
		t.Helper()
		kit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)))
	}
	allow(`{"allowed_users": [`)
	chat := httptest.NewServer(strict.CheckRequests(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := &chatapi.Message{
			Name: space.Name + "/messages/M", Thread: &chatapi.Thread{Name: thread}, CreateTime: time.Now().UTC().Format(time.RFC3339Nano),
			Sender: &chatapi.User{Name: "users/1", Type: "HUMAN"}, Text: "2",
		}
		list := &chatapi.ListMessagesResponse{Messages: []*chatapi.Message{m}}
		if deleted {
			m.Text, m.Sender, m.DeleteTime = "", nil, m.CreateTime
		}
		if deleted && r.URL.Query().Get("showDeleted") != "true" {
			list.Messages = nil
		}
		_ = json.NewEncoder(w).Encode(list)
	})))
	t.Cleanup(chat.Close)
	d.vars["GCHAT_API_ENDPOINT"] = chat.URL
	q := d.addQuestion(d.markPosted)
	x := newReadTest(d, q)
	x.mustRead()
	if stored := d.loadQuestion(q); len(stored.Replies) != 1 || !stored.HasUnreadReply() {
		t.Fatalf("before: %+v", stored.Replies)
	}
	deleted = true
	x.mustRead()
	allow(`{"allowed_users": ["users/1"]}`)
	x.mustRead()
	if stored := d.loadQuestion(q); stored.Status != state.Pending || len(stored.Replies) != 1 || stored.Replies[0].Verdict != state.VerdictIgnored {
		t.Errorf("%s, %+v", stored.Status, stored.Replies)
	}
}

func TestAThreadOfHoursIsBound(t *testing.T) {
	q := &state.Question{}
	for n := range judge.MaxReplies + 100 {
		if judge.AddReply(q, newIncoming("", gchat.Message{Name: fmt.Sprint(n), IsHuman: true, Sender: "users/1", Text: "chat", CreateTime: noon}, 0).AsReply(), false) {
			q.Replies[len(q.Replies)-1].Verdict = state.VerdictLate
		}
	}
	if len(q.Replies) != judge.MaxReplies || q.Replies[0].MessageName != "100" {
		t.Errorf("%d replies, from %s", len(q.Replies), q.Replies[0].MessageName)
	}
}

// A process that waits in a thread gets the first reply after our last message there.
// Each reply goes to one process only.
func TestAThreadIsWaitedIn(t *testing.T) {
	d := newTestMachine(t)
	app := &chatapi.User{Name: "users/app", Type: "BOT"}
	d.clockLead.Store(int64(-time.Hour)) // it was said before the wait begins
	said, err := d.space.PostAs(app, "", "look at this")
	kit.NoError(t, err)
	thread := said.Thread.Name
	d.reply(thread, "", "of the message before")
	if _, err := d.space.PostAs(app, thread, "and at this"); err != nil {
		t.Fatal(err)
	}
	d.reply(thread, "users/9", "not allowed")
	first := d.reply(thread, "", "  yes, "+strings.Repeat("please ", 3))
	if _, err := d.space.PostAs(app, thread, wording.NobodyWaitsText(&state.Session{}, true)); err != nil {
		// the reply came before the wait
		t.Fatal(err)
	}
	d.clockLead.Store(0)
	wait := func() *state.Question {
		q := d.writeQuestion(func(q *state.Question) {
			d.markPosted(q)
			q.Mode, q.ThreadName, q.SubQuestions, q.PostedAt = state.ModeThread, thread, nil, nil
		})
		kit.NoError(t, state.AddToIndex(d.env, state.IndexEntry{RecordType: state.IndexedQuestion, Path: q.Path}))
		return q
	}
	one := wait()
	x := newReadTest(d, d.writeQuestion(d.markPosted))
	x.mustRead()
	x.mustRead()
	stored := d.loadQuestion(one)
	if stored.Status != state.Answered || stored.AnsweredMessage != first.Name || !strings.HasPrefix(strings.TrimSpace(*stored.Response), "yes, please") {
		t.Fatalf("%s by %s, replies %+v", stored.Status, stored.AnsweredMessage, stored.Replies)
	}
	two := wait()
	x.mustRead()
	if stored := d.loadQuestion(two); stored.Status != state.Pending {
		t.Fatalf("the second wait got %v", *stored.Response)
	}
	second := d.reply(thread, "", "and this")
	x.mustRead()
	if stored := d.loadQuestion(two); stored.AnsweredMessage != second.Name {
		t.Errorf("the second wait has %+v", stored.Replies)
	}
	if len(d.noteKinds(one)) > 0 || len(d.loadQuestion(one).OwedNotes) > 0 {
		t.Error("the thread of a wait is given notes")
	}
}

// A process that begins to wait in a thread gets what people write from then on, even
// where this machine's clock is ahead of Chat's.
func TestAThreadIsWaitedInWithAFastClock(t *testing.T) {
	d := newTestMachine(t)
	d.clockLead.Store(int64(-time.Hour))
	said, err := d.space.PostAs(&chatapi.User{Name: "users/carl", Type: "HUMAN"}, "", "a thread of other people")
	kit.NoError(t, err)
	d.clockLead.Store(int64(-30 * time.Second))
	thread := said.Thread.Name
	q := d.writeQuestion(func(q *state.Question) {
		d.markPosted(q)
		q.Mode, q.ThreadName, q.SubQuestions, q.PostedAt = state.ModeThread, thread, nil, nil
	})
	kit.NoError(t, state.AddToIndex(d.env, state.IndexEntry{RecordType: state.IndexedQuestion, Path: q.Path}))
	x := newReadTest(d, d.writeQuestion(d.markPosted))
	x.mustRead()
	d.reply(thread, "", "said after the wait began")
	x.mustRead()
	if stored := d.loadQuestion(q); stored.Status != state.Answered {
		t.Errorf("%s, replies %+v, read since %v", stored.Status, stored.Replies, stored.PostedAt)
	}
}

// A process that waited in a thread and was killed gets no reply. The next process that
// waits there gets it.
func TestAKilledWaitTakesNoReply(t *testing.T) {
	d := newTestMachine(t)
	said, err := d.space.PostAs(&chatapi.User{Name: "users/app", Type: "BOT"}, "", "look at this")
	kit.NoError(t, err)
	thread := said.Thread.Name
	wait := func(ago time.Duration) (*state.Question, *state.Lock) {
		q := d.writeQuestion(func(q *state.Question) {
			d.markPosted(q)
			q.Mode, q.ThreadName, q.SubQuestions, q.PostedAt, q.AskedAt = state.ModeThread, thread, nil, nil, time.Now().Add(-ago)
		})
		kit.NoError(t, state.AddToIndex(d.env, state.IndexEntry{RecordType: state.IndexedQuestion, Path: q.Path}))
		lock, err := state.LockWaiter(d.env, q.Path)
		kit.NoError(t, err)
		return q, lock
	}
	one, lock := wait(time.Minute)
	x := newReadTest(d, one)
	x.mustRead()
	lock.Unlock()
	m := d.reply(thread, "", "yes")
	x.poller.readIndex()
	if err := x.reader.listAndRelease(t.Context(), x.poller.spaceViews()[x.reader.chat]); err != nil {
		// before the poller has seen that the process is gone
		t.Fatal(err)
	}
	x.poller.readState()
	x.poller.attendAll(t.Context(), x.poller.loadOwnConfig()) // between two rounds
	x.poller.readAndAttend(t.Context())
	if stored := d.loadQuestion(one); stored.Status != state.Cancelled || len(stored.Replies) > 0 {
		t.Fatalf("the killed one is %s, with %+v", stored.Status, stored.Replies)
	}
	two, lock := wait(0)
	defer lock.Unlock()
	x.mustRead()
	if stored := d.loadQuestion(two); stored.AnsweredMessage != m.Name {
		t.Errorf("the next is %s, with %+v", stored.Status, stored.Replies)
	}
}

// An allowed person who writes into a thread of reports gets one note that no process
// waits there.
func TestAReplyToAReportIsAnswered(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	m, err := d.space.PostAs(&chatapi.User{Name: "users/app", Type: "BOT"}, "", "a report")
	kit.NoError(t, err)
	if _, err := state.SessionsIn(state.UserStateDir(d.env)).Change("s", func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Environment = "shop", m.Thread.Name, q.Chat, state.Environment(d.env)
	}); err != nil {
		t.Fatal(err)
	}
	x := newReadTest(d, q)
	d.reply(m.Thread.Name, "users/9", "hello?")
	mine := d.reply(m.Thread.Name, "", "why?")
	other, err := d.space.PostAs(nil, "", "a thread of other people")
	kit.NoError(t, err)
	x.mustRead()
	x.mustRead()
	all, _ := state.OutboxIn(state.UserStateDir(d.env)).All()
	var keys []string
	for _, one := range all {
		keys = append(keys, one.Key)
	}
	if len(keys) != 1 || keys[0] != state.MessageID("nobody", mine.Name) {
		t.Fatalf("%d echoes: %q (not to %s)", len(keys), keys, other.Name)
	}
	for all[0].SentAt.IsZero() {
		x.poller.sender.sendUntilIdle(t.Context())
		all, _ = state.OutboxIn(state.UserStateDir(d.env)).All()
	}
	if err := state.OutboxIn(state.UserStateDir(d.env)).RemoveMessage(d.env, all[0]); err != nil {
		// its receipt was swept
		t.Fatal(err)
	}
	newReadTest(d, q).mustRead()
	if all, _ := state.OutboxIn(state.UserStateDir(d.env)).All(); len(all) > 0 {
		t.Errorf("a later poller tells it again: %q", all[0].Parts)
	}
}

// An outage is logged when it begins, changes and ends, not in every cycle. `status`
// shows it meanwhile.
func TestAnOutageIsSaidOnce(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	x := newReadTest(d, q)
	spaces := state.SpacesIn(state.UserStateDir(d.env))
	d.listStatus.Store(http.StatusServiceUnavailable)
	for range 10 {
		if err := x.readOnce(); err == nil {
			t.Fatal("no error")
		}
	}
	if is := spaces.Get(q.Chat).ReadTrouble; is == nil || is.IsDegraded {
		t.Errorf("status shows %+v", is)
	}
	if len(d.noteKinds(q)) != 0 {
		t.Errorf("of what passes by itself the thread is told %q", d.noteKinds(q))
	}
	d.listStatus.Store(0)
	for range 3 {
		x.mustRead()
	}
	if spaces.Get(q.Chat).ReadTrouble != nil {
		t.Error("status still shows trouble")
	}
	if got := d.logLines("replies "); len(got) != 2 || !strings.Contains(got[0], "cannot be read") || !strings.Contains(got[1], "are read again") {
		t.Errorf("the log says %q", got)
	}
}

// After five refusals in a row, the log and `status` say so, and each open thread gets
// one note.
func TestFiveRefusalsAreDegraded(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	x := newReadTest(d, q)
	x.poller.readAndAttend(t.Context())
	v := x.poller.spaceViews()[q.Chat]
	x.reader.spaceRecord = state.SpacesIn(state.UserStateDir(d.env)).Get(q.Chat)
	refused := &gchat.APIError{HTTP: http.StatusForbidden, Message: "no scope"}
	for n := 1; n <= 8; n++ {
		x.reader.failures.pauseAfter(refused)
		x.reader.reportTrouble(refused, v)
		x.poller.readAndAttend(t.Context())
		if is := x.reader.spaceRecord.ReadTrouble; is == nil || is.IsDegraded != (n >= 5) || (len(d.noteKinds(q)) == 1) != (n >= 5) {
			t.Errorf("after %d refusals: %+v, said %q", n, is, d.noteKinds(q))
		}
	}
	if !d.loadQuestion(q).HasUnreadNote || d.noteKinds(q)[0] != state.NoteUnread {
		t.Errorf("said %q", d.noteKinds(q))
	}
}

func TestOneReaderASpace(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	lock, err := state.SpacesIn(state.UserStateDir(d.env)).LockReader(q.Chat)
	kit.NoError(t, err)
	d.runPoller(Options{})
	d.awaitQuestion(d.addQuestion(nil), "the loop goes on", func(q *state.Question) bool { return q.IsMessageSent })
	kit.Equalf(t, d.listCount.Load(), 0, "lists beside another process's")
	m := d.startThread(q)
	lock.Unlock()
	d.awaitQuestion(q, "read after it", func(q *state.Question) bool { return q.FindReply(m.Name) != nil })
}

// A reader that fails releases the space for another environment's reader, which may have
// a better connection to Chat.
func TestAReaderThatFailsLetsAnotherRead(t *testing.T) {
	for _, code := range []int{http.StatusServiceUnavailable, http.StatusNotFound, http.StatusForbidden} {
		d := newTestMachine(t)
		q := d.addQuestion(d.markPosted)
		x := newReadTest(d, q)
		x.poller.readIndex()
		d.listStatus.Store(int64(code))
		if err := x.reader.listSpace(t.Context(), x.poller.spaceViews()[q.Chat]); err == nil {
			t.Fatal("no error")
		}
		lock, err := state.SpacesIn(state.UserStateDir(d.env)).LockReader(q.Chat)
		if err != nil {
			t.Fatalf("after %d: %v", code, err)
		}
		lock.Unlock()
	}
}

var _ = space.Name
