package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// way is how messages get into the space and back.
type way struct {
	space  string                                                  // spaces/S
	post   func(context.Context, gchat.Post) (gchat.Posted, error) // nil: there is none
	app    *gchat.App                                              // nil: a webhook posts
	reader *gchat.API                                              // nil: there are no credentials
}

func (e *exam) findWay(ctx context.Context) (w way, err error) {
	if e.cfg.HearsEvents() {
		app, err := gchat.NewApp(ctx, e.cfg)
		if err != nil {
			return w, err
		}
		return way{app.Space, app.Post, app, app.API}, nil
	}
	hook, err := e.webhook()
	if err != nil {
		return w, err
	}
	w.space, w.post = hook.Space, hook.Post
	w.reader, err = gchat.NewReader(ctx, cmp.Or(e.cfg.APIEndpoint, hook.LocalEndpoint()), e.cfg.CredentialsFile)
	return w, err
}

const over = "The test is over."

// listedWithin is how long Chat has to list a message that it took.
const listedWithin = 15 * time.Second

// roundTrip posts to two threads of the space, or only the question, reads that back, and waits for a person's reply. What it
// finds is its way out, to the space and back by listing, and its way in, from a person to here. Where the space cannot be read
// nothing is posted.
// It keeps nothing in the state folder: no hook and no poller sees its question. Interrupted, it still tells the thread that
// it is over.
func (e *exam) roundTrip(ctx context.Context) []*Finding {
	ctx, cancel := context.WithTimeout(ctx, liveBound+e.Wait)
	defer cancel()
	out, in := &result{check: check{id: live + ".out"}}, &result{check: check{id: live + ".in"}}
	if e.cfg.HearsEvents() && !e.cfg.InEmbeddedApp() {
		out.skip("with a Chat app there is a card to tap in its place: gchat-hooks setup --app")
		return out.found
	}
	e.from = time.Now()
	var err error
	e.way, err = e.findWay(ctx)
	if e.app != nil { // no poller is to take what is replied
		reads, _ := state.SpacesIn(state.UserState(e.Env)).LockReader(e.app.Subscription)
		defer reads.Unlock()
	}
	if err == nil { // a thread that cannot be read back is of no use
		_, err = e.listed(ctx)
	}
	if err != nil {
		out.fail("%v", err).Mend = Hint(err)
		return out.found
	}
	e.from = e.from.Add(e.reader.Ahead - 5*time.Second)
	question := e.wayOut(ctx, out)
	switch {
	case out.found[0].Level != OK:
	case e.Wait <= 0:
		in.skip("no person was asked; --wait TIME asks one, without a terminal too")
	default:
		defer e.tapped(context.WithoutCancel(ctx), question)
		question.Status = state.Cancelled
		if as := e.wayIn(ctx, in, question); as != "" {
			question.Status = state.Resolved
			question.Answers = map[string]string{question.Questions[0].Question: as}
		}
		told := wording.NoteTexts(question, state.Owed{About: state.NoteClosed})[0] + "\n\n" + over + " Go on in the terminal."
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if question.Card != "" {
			_, card := wording.ClosedCard(question, time.Now())
			_ = e.app.Patch(ctx, question.Card, told, gchat.StoredCard(card))
			return append(out.found, in.found...)
		}
		_, _ = e.post(ctx, gchat.Post{Text: told, ThreadName: question.ThreadName})
	}
	return append(out.found, in.found...)
}

// wayOut posts the question, and unless that is all, a message to another thread and one more to the question's thread. It finds
// all of them there, as a program's. A Chat that does not keep to thread keys begins a thread for each, or puts all into one.
func (e *exam) wayOut(ctx context.Context, r *result) *state.Question {
	run := uuid.NewString()[:8]
	q := &state.Question{
		QuestionID: run, SessionName: "[Verify] round trip " + run, ThreadKey: "verify-" + run + "-a",
		Status: state.Pending, Mode: state.Native, Questions: []state.Prompt{{
			Header: "Test", Question: "This is a test: please choose ok.", OptionCount: 1,
			Options: []state.Option{{Label: "ok"}},
		}},
	}
	if e.OneThread {
		q.SessionName = "gchat-hooks setup" // which alone asks so
	}
	text, again := wording.QuestionTexts(q)[0], "[Verify] 1. This message only tests the thread: please reply to the one above."
	if e.Wait <= 0 {
		text = "[Verify] Round trip of gchat-hooks. No reply is needed."
		again = "[Verify] 1. This message only tests the thread. " + over
	}
	posts := []gchat.Post{
		{Text: text, ThreadKey: q.ThreadKey},
		{Text: "[Verify] This message only tests a second thread. " + over, ThreadKey: "verify-" + run + "-b"},
		{Text: again, ThreadKey: q.ThreadKey},
	}
	if e.OneThread {
		posts = posts[:1]
	}
	if e.app != nil && e.Wait > 0 { // it is tapped
		texts, card := wording.CardTexts(q, e.app.CardID(run), gchat.CardSize)
		posts[0].Text, posts[0].Card = texts[0], gchat.StoredCard(card)
	}
	var sent []gchat.Posted
	began := time.Now()
	for _, p := range posts {
		done, err := e.post(ctx, p)
		if err != nil {
			r.fail("%v", err).Mend = Hint(err)
			return q
		}
		sent = append(sent, done)
	}
	posted := time.Since(began)
	q.ThreadName = sent[0].ThreadName
	if posts[0].Card != nil {
		q.Card = sent[0].Name
	}
	if e.OneThread {
		e.find(ctx, r, sent)
		r.ok("a message was posted and listed")
		return q
	}
	other := sent[1].ThreadName
	if q.ThreadName == "" || sent[2].ThreadName != q.ThreadName || other == q.ThreadName {
		r.fail("thread keys are not kept to: one was mapped to %q and then to %q, another one to %q",
			q.ThreadName, sent[2].ThreadName, other).Mend =
			"use a space with threads (in Google Chat: one that is no direct message), through the webhook's own URL; " +
				"what stands between must not drop messageReplyOption and threadKey"
		return q
	}
	e.find(ctx, r, sent)
	r.ok("three messages were posted in %d ms, and listed in their two threads as a program's %d ms later (%s, %s)",
		posted.Milliseconds(), (time.Since(began) - posted).Milliseconds(), q.ThreadName, other)
	return q
}

// wayIn waits for a person's reply in the question's thread, and reads it as the poller does.
func (e *exam) wayIn(ctx context.Context, r *result, q *state.Question) (readAs string) {
	do := fmt.Sprintf("Now choose ok in the thread %q", q.SessionName)
	if e.OneThread {
		do = "Now open the page, and tap ok"
	}
	e.Tell(do + " (Ctrl-C ends the test; it waits for " + state.InWords(e.Wait) + ")")
	seen := map[string]bool{}
	none, mend := "no person replied within "+state.InWords(e.Wait), "reply in the thread, or wait longer (--wait)"
	for until := time.Now().Add(e.Wait); ; state.Sleep(ctx, min(time.Second, time.Until(until))) {
		late := !time.Now().Before(until)
		listed, err := e.listed(ctx) // where Chat stumbles, the next second's list tells
		if err != nil && (late || ctx.Err() != nil) {
			r.fail("%v", err).Mend = Hint(err)
			return ""
		}
		for _, m := range append(listed, e.tapped(ctx, q)...) {
			if !m.Human || m.Deleted || m.ThreadName != q.ThreadName || seen[m.Name] {
				continue
			}
			seen[m.Name] = true
			who := wording.Line(cmp.Or(strings.TrimSpace(m.Sender+" "+m.DisplayName), "a person"))
			cfg := config.Load(e.Env, e.project) // a person who was refused may just have set the allowlist
			_ = cfg.Restrict(ctx, e.Env)         // then nobody may
			if !cfg.Allows(m.Sender, m.SenderEmail) {
				mend = "if that is you: gchat-hooks setup --allow " + wording.Line(m.Sender)
				none = "only people replied who may not answer: " + who
				e.Tell(who + " replied, but may not answer; " + mend)
				continue
			}
			answers, _ := wording.ParseReply(m.Text, q.Questions, nil)
			if as := answers[0].Value(); as != "" {
				e.replier = m.Sender
				whose := "the reply of " + who
				if !config.IsPerson(m.Sender) { // it came from the page
					whose = "your reply"
				}
				r.ok("%s was read: %q means %q", whose, wording.Cut(m.Text, 200), wording.Cut(as, 200))
				return as
			}
		}
		if late {
			r.fail("%s", none).Mend = mend
			return ""
		}
	}
}

// tapped is what was tapped on the question's card, as words that say the same. No poller is told
// of what a person did in the test's thread.
func (e *exam) tapped(ctx context.Context, q *state.Question) (said []gchat.Message) {
	if q.Card == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	events, _ := e.app.Pull(ctx)
	for _, one := range events {
		if one.Message.ThreadName != q.ThreadName {
			continue
		}
		_ = e.app.Ack(ctx, []string{one.AckID})
		if one.Tap == nil { // it is listed
			continue
		}
		m := gchat.Message{
			Name: one.ID, ThreadName: q.ThreadName, Sender: one.By.Name, SenderEmail: one.By.Email,
			DisplayName: one.By.DisplayName, Human: one.Human,
		}
		_, m.Text, _ = wording.ReadTap(q, one.Tap)
		said = append(said, m)
	}
	return said
}

func (e *exam) listed(ctx context.Context) (listed []gchat.Message, err error) {
	err = e.reader.Since(ctx, e.space, e.from, func(page []gchat.Message) { listed = append(listed, page...) })
	return listed, err
}

// find lists until the messages are there, each as a program's.
func (e *exam) find(ctx context.Context, r *result, sent []gchat.Posted) {
	for began := time.Now(); ; {
		listed, err := e.listed(ctx)
		if err != nil {
			r.fail("%v", err).Mend = Hint(err)
			return
		}
		missing := 0
		for _, s := range sent {
			i := slices.IndexFunc(listed, func(m gchat.Message) bool { return m.Name == s.Name })
			if i < 0 {
				missing++
			} else if listed[i].Human {
				r.fail("the round trip's own message %s is listed as a person's: it would be taken for a reply", s.Name).Mend =
					"no reply can be told from the program's own messages: look what answers in Google Chat's place"
				return
			}
		}
		if missing == 0 {
			return
		}
		if ctx.Err() != nil || time.Since(began) > listedWithin {
			r.fail("%d of %d messages that Chat took could not be found by listing within %s",
				missing, len(sent), state.InWords(listedWithin)).Mend =
				"check that the credentials read the space that the webhook posts to, " + e.space
			return
		}
		state.Sleep(ctx, 300*time.Millisecond)
	}
}

// Hint says what a person can do about an error of Google Chat or a login. A command tries nothing again by itself.
func Hint(err error) string {
	return strings.Replace(gchat.Hint(err), "it is tried again", "run it again later", 1)
}
