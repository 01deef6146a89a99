package poller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// Another program posted two questions into one thread. A reply answers the older one,
// and the next reply answers the other.
func TestRoute_OneReplyOneQuestion(t *testing.T) {
	d := newTestMachine(t)
	older, newer := d.addQuestion(d.markPosted), d.addQuestion(d.markPosted)
	x := newReadTest(d, older)
	first := d.startThread(older)
	d.changeQuestion(newer, func(q *state.Question) {
		q.ThreadName, q.ThreadKey, q.AskedAt =
			first.Thread.Name, older.ThreadKey, q.AskedAt.Add(time.Second)
	})
	x.mustRead()
	x.mustRead()
	kit.Must(t, d.loadQuestion(older).Answers["Which?"] == "Two" &&
		d.loadQuestion(newer).Status == state.Pending,
		"older %v, newer %v", d.loadQuestion(older).Answers, d.loadQuestion(newer).Answers)
	d.reply(first.Thread.Name, "", "1")
	x.mustRead()
	kit.True(t, d.loadQuestion(newer).Answers["Which?"] == "One" &&
		len(d.loadQuestion(older).Replies) == 1,
		"newer %v, older has %d replies", d.loadQuestion(newer).Answers,
		len(d.loadQuestion(older).Replies))
}

// In a space without threads a reply answers the question that it quotes. A reply without
// a quote, written while two are open, answers none, even after one of them is closed.
func TestRoute_QuoteNamesTheQuestion(t *testing.T) {
	d := newTestMachine(t)
	first, second := d.addQuestion(d.markPosted), d.addQuestion(d.markPosted)
	at := d.loadQuestion(second).PostedAt.Add(time.Second)
	d.changeQuestion(second, func(q *state.Question) { q.ThreadName = first.ThreadName })
	x := newReadTest(d, first)
	say := func(name, text, quotes string) {
		x.poller.readAndAttend(t.Context())
		m := gchat.Message{
			Name: space.Name + "/messages/" + name, ThreadName: first.ThreadName, Text: text,
			CreateTime: at, QuotedMessage: quotes,
		}
		m.Sender, m.IsHuman = "users/1", true
		kit.NoError(t, x.poller.addIncoming(newIncoming(x.reader.chat, m, 0)))
		x.poller.readAndAttend(t.Context())
	}
	say("a", "1", "")
	q := d.loadQuestion(first)
	kit.True(t, q.Status == state.Pending &&
		fmt.Sprint(d.noteKinds(q)) == "["+state.NoteUnclear+"]",
		"%s, notes %q", q.Status, d.noteKinds(q))
	say("b", "2", second.MessageName)
	kit.Equalf(t, d.loadQuestion(second).Answers["Which?"], "Two",
		"the quoted one is answered with")
	say("a", "1", "")
	q = d.loadQuestion(first)
	kit.True(t, q.Status == state.Pending, "answered with %v", q.Answers)
	say("c", "1", "")
	kit.Equalf(t, d.loadQuestion(first).Answers["Which?"], "One",
		"the last one that is open is answered with")
}

// A question that timed out may have been asked again, or have its answer. Then a reply
// in its thread goes to the younger question.
func TestRoute_YoungerQuestionGetsReply(t *testing.T) {
	for name, over := range map[string]func(*state.Question){
		"asked again": func(q *state.Question) { q.IsAskedAgain = true },
		"answered":    func(q *state.Question) { q.Answers = map[string]string{"Which?": "One"} },
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestMachine(t)
			m := d.postAsApp("", "question")
			d.addPosted(func(q *state.Question) {
				q.ThreadName, q.AskedAt, q.Status, q.Mode =
					m.Thread.Name, q.AskedAt.Add(-time.Minute), state.TimedOut, state.ModeDeny
				over(q)
			})
			young := d.addPosted(func(q *state.Question) {
				q.ThreadName = m.Thread.Name
			})
			x := newReadTest(d, young)
			x.mustRead()
			d.reply(m.Thread.Name, "", "1")
			x.mustRead()
			stored := d.loadQuestion(young)
			kit.True(t, stored.Status == state.Answered, "the younger is %s", stored.Status)
		})
	}
}

// An allowed person who writes into a thread of reports gets one note that no process
// waits there.
func TestRoute_ReplyToReportGetsNote(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	m := d.postAsApp("", "a report")
	d.changeSession("s", func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Environment =
			"shop", m.Thread.Name, q.Chat, state.Environment(d.env)
	})
	x := newReadTest(d, q)
	d.reply(m.Thread.Name, "users/9", "hello?")
	mine := d.reply(m.Thread.Name, "", "why?")
	other, err := d.space.PostAs(nil, "", "a thread of other people")
	kit.NoError(t, err)
	x.mustRead()
	x.mustRead()
	all, _ := d.outbox().All()
	var keys []string
	for _, one := range all {
		keys = append(keys, one.Key)
	}
	kit.Must(t, len(keys) == 1 && keys[0] == state.MessageID("nobody", mine.Name),
		"%d echoes: %q (not to %s)", len(keys), keys, other.Name)
	for all[0].SentAt.IsZero() {
		x.poller.sender.sendUntilIdle(t.Context())
		all, _ = d.outbox().All()
	}
	// its receipt was swept
	kit.NoError(t, d.outbox().RemoveMessage(d.env, all[0]))
	newReadTest(d, q).mustRead()
	all, _ = d.outbox().All()
	kit.True(t, len(all) == 0, "a later poller tells it again: %+v", all)
}

// Another process may read the space. Then a reply can be in the inbox before this poller
// has seen its question.
func TestRoute_ReplyBeforeItsQuestion(t *testing.T) {
	x := newTestSession(t, nil)
	over := x.addQuestion(x.markPosted)
	thread := x.beginThread(over)
	x.closeQuestion(over, state.Resolved, "chat")
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan bool)
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			x.poller.readState()
			x.poller.routeAll(ctx)
		}
	}()
	t.Cleanup(func() { stop(); <-stopped })
	for n := range 100 {
		q := x.addPosted(func(q *state.Question) { q.ThreadName = thread })
		x.addListedMessage(fmt.Sprint("reply", n), thread, "2")
		bound.Until(t, "the reply is decided", func() bool { return x.countUnfinished() == 0 })
		stored := x.loadQuestion(q)
		kit.Must(t, len(stored.Replies) == 1, "round %d: replies %+v", n, stored.Replies)
		x.closeQuestion(q, state.Resolved, "chat")
	}
}

// A reply can be in the inbox before the receipt of its question's post is on disk. The
// reply waits for the receipt.
func TestRoute_ReplyWaitsForReceipt(t *testing.T) {
	x := newTestSession(t, nil)
	q := x.addQuestion(x.markPosted)
	thread := x.beginThread(q)
	q = x.changeQuestion(q, func(q *state.Question) { q.ThreadName = "" })
	x.addListedMessage("reply", thread, "2")
	x.poller.readAndAttend(t.Context())
	q = x.changeQuestion(q, func(q *state.Question) { q.ThreadName = thread })
	x.poller.readIndex()
	x.poller.readAndAttend(t.Context())
	stored := x.loadQuestion(q)
	kit.True(t, len(stored.Replies) == 1, "%d replies are stored", len(stored.Replies))
}

// The same holds in a session's thread, for a message that is no reply.
func TestRoute_AttachmentGetsNote(t *testing.T) {
	x := newTestSession(t, nil)
	x.readNotes()
	err := x.poller.addIncoming(newIncoming(x.reader.chat, gchat.Message{
		Name: "spaces/local/messages/picture", ThreadName: x.threadName,
		Sender: "users/local-human", IsHuman: true,
		Text: "make it look like this", CreateTime: time.Now(), HasAttachment: true,
	}, 0))
	kit.NoError(t, err)
	notes := slices.Concat(x.readNotes(), x.readNotes())
	kit.True(t, slices.ContainsFunc(notes, func(text string) bool {
		return strings.HasPrefix(text,
			"[Words only] The attachment was not read")
	}), "notes %q", notes)
}
