package poller

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

func TestReadMessages_ListStart(t *testing.T) {
	posted := noon.Add(-time.Hour)
	old := &state.Question{
		QuestionID: "old", Status: state.Pending, AskedAt: noon.Add(-2 * time.Hour),
		PostedAt: &posted,
	}
	unknown := &state.Question{
		QuestionID: "unknown", Status: state.Pending, AskedAt: noon.Add(-time.Hour),
	}
	closed := &state.Question{
		QuestionID: "closed", Status: state.Resolved, AskedAt: noon.Add(-20 * time.Hour),
	}
	covered := map[string]bool{"old": true}
	for name, c := range map[string]struct {
		mark    time.Time
		covered map[string]bool
		qs      []*state.Question
		want    time.Time
	}{
		"all read": {
			noon, covered, []*state.Question{old, closed}, noon.Add(-listOverlap),
		},
		"one not read": {
			noon, nil, []*state.Question{old, closed}, posted.Add(-listOverlap),
		},
		"posted at an unknown time": {
			noon, nil, []*state.Question{unknown}, unknown.AskedAt.Add(-clockSlack),
		},
		"nothing read yet": {
			time.Time{}, nil, []*state.Question{old}, posted.Add(-listOverlap),
		},
		"a watermark further back": {
			noon.Add(-9 * time.Hour), nil, []*state.Question{old},
			noon.Add(-9*time.Hour - listOverlap),
		},
		"a watermark of last week": {
			noon.Add(-200 * time.Hour), nil, []*state.Question{old},
			noon.Add(-state.MaxQuestionAge - clockSlack),
		},
	} {
		got := listStart(c.mark, c.covered,
			&spaceView{questionsByThread: map[string][]*state.Question{"T": c.qs}}, noon)
		kit.True(t, got.Equal(c.want), "%s: since %v, want %v", name, got, c.want)
	}
}

// A message from the future must not stop the reading. A message that is listed late is
// read.
func TestReadMessages_WatermarkKeepsServersClock(t *testing.T) {
	d, q, x := newPostedQuestion(t)
	first := d.startThread(q)
	d.clockLead.Store(int64(73 * 365 * 24 * time.Hour))
	d.reply(first.Thread.Name, "users/9", "from 2099")
	d.clockLead.Store(0)
	x.mustRead()
	stored := d.loadQuestion(q)
	kit.True(t, len(stored.Replies) == 2 && stored.Status == state.Answered,
		"%s, %+v", stored.Status, stored.Replies)
	mark := d.spaces().Get(q.Chat).Watermark
	kit.Must(t, !mark.After(time.Now().Add(10*time.Second)) && !mark.IsZero(),
		"the watermark is %v", mark)
	next := d.addQuestion(d.markPosted)
	late := d.startThread(next)
	x.mustRead()
	stored = d.loadQuestion(next)
	kit.True(t, stored.FindReply(late.Name) != nil,
		"what came after a message from the future is not read")
}

// This machine's clock is a day ahead. The space is read all the same, once a list has
// brought the server's time.
func TestReadMessages_ClockADayAhead(t *testing.T) {
	d := newTestMachine(t)
	d.clockLead.Store(int64(-26 * time.Hour))
	q := d.addQuestion(d.markPosted)
	m := d.startThread(q)
	x := newReadTest(d, q)
	x.mustRead()
	x.mustRead()
	stored := d.loadQuestion(q)
	kit.True(t, stored.FindReply(m.Name) != nil,
		"the reply of %s is not read; the question is of %s, posted %s", m.CreateTime,
		stored.AskedAt, stored.PostedAt)
}

// Each message is added once, although the overlap lists it many times.
func TestReadMessages_OverlapIsSkipped(t *testing.T) {
	d := newTestMachine(t)
	d.addQuestion(d.markPosted) // keeps the space open
	q := d.addPosted(func(q *state.Question) { q.Mode = state.ModeDeny })
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
	kit.True(t, len(stored.Replies) == 2 && stored.Replies[1].Verdict == state.VerdictLate,
		"%+v", stored.Replies)
	kit.Equalf(t, strings.Join(d.noteKinds(q), " "), state.NoteLater+" "+state.NoteLate, "notes")
}

// For two minutes each list brings a question's own message. The question's file is not
// locked for that.
func TestReadMessages_OwnMessageIsReadOnce(t *testing.T) {
	d, q, x := newPostedQuestion(t)
	d.startThread(q)
	x.mustRead()
	lock, err := state.TryLock(filepath.Join(filepath.Dir(q.Path), ".locks",
		state.RecordName(q.Path)))
	kit.NoError(t, err)
	defer lock.Unlock()
	x.poller.readIndex()
	kit.NoError(t, x.list())
}

// A list that fails halfway does not move the watermark. A message that a full disk kept
// from being written is read once more.
func TestReadMessages_FullDiskKeepsWatermark(t *testing.T) {
	d, q, x := newPostedQuestion(t)
	m := d.startThread(q)
	inbox := filepath.Join(state.UserStateDir(d.env), "inbox")
	// nothing can be put there
	kit.NoError(t, os.WriteFile(inbox, nil, 0o600))
	x.poller.readIndex()
	err := x.list()
	kit.True(t, err != nil, "no error")
	at := d.spaces().Get(q.Chat).Watermark
	kit.True(t, at.IsZero(), "the watermark moved to %v", at)
	kit.NoError(t, os.Remove(inbox))
	x.mustRead()
	stored := d.loadQuestion(q)
	kit.True(t, stored.FindReply(m.Name) != nil, "the reply is lost")
}

// A reply that is deleted before it is judged answers nothing, even where Chat leaves out
// who wrote it. In this test, judging waits for the file that says who may answer.
func TestReadMessages_DeletedReplyIsNone(t *testing.T) {
	d := newTestMachine(t)
	delete(d.vars, "GCHAT_ALLOWED_USERS")
	thread, deleted := space.Name+"/threads/00000001", false
	d.writeConfig(`{"allowed_users": [`)
	answer := func(w http.ResponseWriter, r *http.Request) {
		m := &chatapi.Message{
			Name: space.Name + "/messages/M", Thread: &chatapi.Thread{Name: thread},
			CreateTime: time.Now().UTC().Format(time.RFC3339Nano),
			Sender:     &chatapi.User{Name: "users/1", Type: "HUMAN"}, Text: "2",
		}
		list := &chatapi.ListMessagesResponse{Messages: []*chatapi.Message{m}}
		if deleted {
			m.Text, m.Sender, m.DeleteTime = "", nil, m.CreateTime
		}
		if deleted && r.URL.Query().Get("showDeleted") != "true" {
			list.Messages = nil
		}
		_ = json.NewEncoder(w).Encode(list)
	}
	chat := kit.NewServer(t, strict.CheckRequests(t, http.HandlerFunc(answer)))
	d.vars["GCHAT_API_ENDPOINT"] = chat.URL
	q := d.addQuestion(d.markPosted)
	x := newReadTest(d, q)
	x.mustRead()
	stored := d.loadQuestion(q)
	kit.True(t, len(stored.Replies) == 1 && stored.HasUnreadReply(), "before: %+v", stored.Replies)
	deleted = true
	x.mustRead()
	d.writeConfig(`{"allowed_users": ["users/1"]}`)
	x.mustRead()
	stored = d.loadQuestion(q)
	kit.True(t, stored.Status == state.Pending && len(stored.Replies) == 1 &&
		stored.Replies[0].Verdict == state.VerdictIgnored,
		"%s, %+v", stored.Status, stored.Replies)
}

// A process that waits in a thread gets the first reply after our last message there.
// Each reply goes to one process only.
func TestReadMessages_WaitGetsFirstReply(t *testing.T) {
	d := newTestMachine(t)
	d.clockLead.Store(int64(-time.Hour)) // before the wait begins
	thread := d.postAsApp("", "look at this").Thread.Name
	d.reply(thread, "", "of the message before")
	d.postAsApp(thread, "and at this")
	d.reply(thread, "users/9", "not allowed")
	first := d.reply(thread, "", "  yes, "+strings.Repeat("please ", 3))
	// The reply came before the wait.
	d.postAsApp(thread, wording.NobodyWaitsText(&state.Session{}, true))
	d.clockLead.Store(0)
	one := d.waitInThread(thread, 0)
	x := newReadTest(d, d.writeQuestion(d.markPosted))
	x.mustRead()
	x.mustRead()
	stored := d.loadQuestion(one)
	kit.Must(t, stored.Status == state.Answered && stored.AnsweredMessage == first.Name &&
		strings.HasPrefix(strings.TrimSpace(*stored.Response), "yes, please"),
		"%s by %s, replies %+v", stored.Status, stored.AnsweredMessage, stored.Replies)
	two := d.waitInThread(thread, 0)
	x.mustRead()
	kit.Equalf(t, d.loadQuestion(two).Status, state.Pending, "the second wait")
	second := d.reply(thread, "", "and this")
	x.mustRead()
	stored = d.loadQuestion(two)
	kit.True(t, stored.AnsweredMessage == second.Name, "the second wait has %+v", stored.Replies)
	kit.True(t, len(d.noteKinds(one)) == 0 && len(d.loadQuestion(one).OwedNotes) == 0,
		"the thread of a wait is given notes")
}

// A process that begins to wait in a thread gets what people write from then on, even
// where this machine's clock is ahead of Chat's.
func TestReadMessages_WaitWithFastClock(t *testing.T) {
	d := newTestMachine(t)
	d.clockLead.Store(int64(-time.Hour))
	thread := d.reply("", "users/carl", "a thread of other people").Thread.Name
	d.clockLead.Store(int64(-30 * time.Second))
	q := d.waitInThread(thread, 0)
	x := newReadTest(d, d.writeQuestion(d.markPosted))
	x.mustRead()
	d.reply(thread, "", "written after the wait began")
	x.mustRead()
	stored := d.loadQuestion(q)
	kit.True(t, stored.Status == state.Answered,
		"%s, replies %+v, read since %v", stored.Status, stored.Replies, stored.PostedAt)
}

// A process that waited in a thread and was killed gets no reply. The next process that
// waits there gets it.
func TestReadMessages_KilledWaitGetsNoReply(t *testing.T) {
	d := newTestMachine(t)
	thread := d.postAsApp("", "look at this").Thread.Name
	one := d.waitInThread(thread, time.Minute)
	lock := d.startWaiter(one)
	x := newReadTest(d, one)
	x.mustRead()
	lock.Unlock()
	m := d.reply(thread, "", "yes")
	x.poller.readIndex()
	kit.NoError(t, x.list()) // before the poller has seen that the process is gone
	x.poller.readState()
	x.poller.attendAll(t.Context(), x.poller.loadOwnConfig()) // between two rounds
	x.poller.readAndAttend(t.Context())
	stored := d.loadQuestion(one)
	kit.True(t, stored.Status == state.Cancelled && len(stored.Replies) == 0,
		"the killed one is %s, with %+v", stored.Status, stored.Replies)
	two := d.waitInThread(thread, 0)
	d.startWaiter(two)
	x.mustRead()
	stored = d.loadQuestion(two)
	kit.True(t, stored.AnsweredMessage == m.Name,
		"the next is %s, with %+v", stored.Status, stored.Replies)
}

// A poller was off for long, and a list has more pages than are read at once: it is read
// to its end, a piece with each list. The log does not say that replies cannot be read.
func TestReadMessages_LongBacklog(t *testing.T) {
	d := newTestMachine(t)
	d.pageSize.Store(2)
	long := 10 * time.Hour
	d.clockLead.Store(int64(-long))
	q := d.addPosted(func(q *state.Question) {
		q.AskedAt = q.AskedAt.Add(-long)
	})
	thread := d.postAsApp("", "look at this").Thread.Name
	other := d.reply("", "users/9", "of other people").Thread.Name
	for n := range 300 {
		d.clockLead.Store(int64(-long + time.Duration(n)*time.Minute))
		d.reply(other, "users/9", fmt.Sprint("word ", n))
	}
	d.reply(thread, "", "an answer to the message before")
	d.clockLead.Store(int64(-time.Hour))
	d.postAsApp(thread, "and now?")
	right := d.reply(thread, "", "the answer")
	d.clockLead.Store(0)
	m := d.startThread(q)
	d.changeQuestion(q, func(q *state.Question) { q.PostedAt = new(time.Now().Add(-long)) })
	wait := d.waitInThread(thread, 0)
	x := newReadTest(d, q)
	lists := 0
	for d.loadQuestion(q).FindReply(m.Name) == nil || d.loadQuestion(wait).Status == state.Pending {
		lists++
		kit.Must(t, lists <= 10,
			"%d lists, %d pages: %+v", lists, d.listCount.Load(), d.loadQuestion(wait))
		x.poller.readAndAttend(t.Context())
		kit.NoError(t, x.reader.listSpace(t.Context(), x.poller.spaceViews()[x.reader.chat]))
		x.poller.readAndAttend(t.Context())
	}
	stored := d.loadQuestion(wait)
	kit.True(t, stored.AnsweredMessage == right.Name,
		"the thread's wait has %q of %+v", *stored.Response, stored.Replies)
	kit.True(t, lists != 1, "one list read all of its %d pages", d.listCount.Load())
	kit.Equalf(t, d.logLines("replies cannot be read"), nil, "the log")
}
