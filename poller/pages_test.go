package poller

import (
	"fmt"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A poller was off for long, and a list has more pages than are read at once: it is read
// to its end, a piece with each list. Nobody is told that replies cannot be read.
func TestALongBacklogIsReadToItsEnd(t *testing.T) {
	d := newTestMachine(t)
	d.pageSize.Store(2)
	long := 10 * time.Hour
	d.clockLead.Store(int64(-long))
	q := d.addQuestion(func(q *state.Question) { d.markPosted(q); q.AskedAt = q.AskedAt.Add(-long) })
	said, err := d.space.PostAs(&chatapi.User{Name: "users/app", Type: "BOT"}, "", "look at this")
	kit.NoError(t, err)
	thread := said.Thread.Name
	other := d.reply("", "users/9", "of other people").Thread.Name
	for n := range 300 {
		d.clockLead.Store(int64(-long + time.Duration(n)*time.Minute))
		d.reply(other, "users/9", fmt.Sprint("word ", n))
	}
	d.reply(thread, "", "an answer to what was said before")
	d.clockLead.Store(int64(-time.Hour))
	if _, err := d.space.PostAs(&chatapi.User{Name: "users/app", Type: "BOT"}, thread, "and now?"); err != nil {
		t.Fatal(err)
	}
	right := d.reply(thread, "", "the answer")
	d.clockLead.Store(0)
	m := d.startThread(q)
	d.changeQuestion(q, func(q *state.Question) { q.PostedAt = new(time.Now().Add(-long)) })
	wait := d.writeQuestion(func(q *state.Question) {
		d.markPosted(q)
		q.Mode, q.ThreadName, q.SubQuestions, q.PostedAt = state.ModeThread, thread, nil, nil
	})
	kit.NoError(t, state.AddToIndex(d.env, state.IndexEntry{RecordType: state.IndexedQuestion, Path: wait.Path}))
	x := newReadTest(d, q)
	lists := 0
	for d.loadQuestion(q).FindReply(m.Name) == nil || d.loadQuestion(wait).Status == state.Pending {
		lists++
		if lists > 10 {
			t.Fatalf("%d lists, %d pages: %+v", lists, d.listCount.Load(), d.loadQuestion(wait))
		}
		x.poller.readAndAttend(t.Context())
		kit.NoError(t, x.reader.listSpace(t.Context(), x.poller.spaceViews()[x.reader.chat]))
		x.poller.readAndAttend(t.Context())
	}
	if stored := d.loadQuestion(wait); stored.AnsweredMessage != right.Name {
		t.Errorf("the thread's wait has %q of %+v", *stored.Response, stored.Replies)
	}
	if lists == 1 {
		t.Errorf("one list read all of its %d pages", d.listCount.Load())
	}
	if got := d.logLines("replies cannot be read"); len(got) > 0 {
		t.Errorf("logged: %q", got)
	}
}

// A broken server names a next page for ever. What came is used, the pauses grow, and the
// log has one line of it.
func TestAListWithoutEndIsReadEverMoreRarely(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	m := d.startThread(q)
	d.hasEndlessList.Store(true)
	x := newReadTest(d, q)
	for n, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		before := d.listCount.Load()
		if err := x.readOnce(); err == nil || x.reader.minPause != pause {
			t.Errorf("list %d: %v, and then a pause of %v", n+1, err, x.reader.minPause)
		}
		if pages := d.listCount.Load() - before; pages > 3 {
			t.Errorf("list %d read %d pages", n+1, pages)
		}
	}
	if stored := d.loadQuestion(q); stored.FindReply(m.Name) == nil || stored.Status != state.Answered {
		t.Errorf("%s, %+v", stored.Status, stored.Replies)
	}
	trouble := state.SpacesIn(state.UserStateDir(d.env)).Get(q.Chat).ReadTrouble
	if got := d.logLines("replies cannot be read"); len(got) != 1 || trouble == nil {
		t.Errorf("%+v, logged: %q", trouble, got)
	}
	d.hasEndlessList.Store(false)
	x.mustRead()
	if got := d.logLines(`"message":"` + logReadAgain); len(got) != 1 {
		t.Errorf("logged: %q", got)
	}
}
