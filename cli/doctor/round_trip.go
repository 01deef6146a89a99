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

// transport has the clients that post to the space and read it.
type transport struct {
	space string                                                         // spaces/S
	post  func(context.Context, gchat.Post) (gchat.PostedMessage, error) // nil: there is none
	app   *gchat.App                                                     // nil: a webhook posts
	// nil: there are no credentials
	reader *gchat.API
}

func (e *exam) findTransport(ctx context.Context) (w transport, err error) {
	if e.cfg.ReceivesEvents() {
		app, err := gchat.NewApp(ctx, e.cfg)
		if err != nil {
			return w, err
		}
		return transport{app.Space, app.Post, app, app.API}, nil
	}
	hook, err := e.webhook()
	if err != nil {
		return w, err
	}
	w.space, w.post = hook.Space, hook.Post
	w.reader, err = gchat.NewReader(
		ctx,
		cmp.Or(e.cfg.APIEndpoint, hook.LocalEndpoint()),
		e.cfg.CredentialsFile,
	)
	return w, err
}

const testIsOver = "The test is over."

// listTimeout is how long the round trip waits until Chat lists a message that it
// accepted.
const listTimeout = 15 * time.Second

// roundTrip posts to two threads of the space (or, with OneThread, only its question),
// reads that back, and waits for a person's reply. Its findings are live.out, from here
// to the space and back by listing, and live.in, from a person to here. If the space
// cannot be read, it posts nothing. It keeps nothing in the state folder, so no hook and
// no poller sees its question. If it is interrupted, it still posts to the thread that
// the test is over.
func (e *exam) roundTrip(ctx context.Context) []*Finding {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout+e.Wait)
	defer cancel()
	outbound := &result{check: check{id: liveID + ".out"}}
	inbound := &result{check: check{id: liveID + ".in"}}
	if e.cfg.ReceivesEvents() && !e.cfg.UsesEmbeddedApp() {
		outbound.skip("not tried: for a Chat app, gchat-hooks setup --app tests a card instead")
		return outbound.found
	}
	e.listSince = time.Now()
	var err error
	e.transport, err = e.findTransport(ctx)
	if e.app != nil { // no poller may take the reply from the subscription
		readerLock, _ := state.SpacesIn(state.UserStateDir(e.Env)).LockReader(e.app.Subscription)
		defer readerLock.Unlock()
	}
	if err == nil { // without reading, a test message would be useless
		_, err = e.listMessages(ctx)
	}
	if err != nil {
		outbound.fail("%v", err).Fix = Hint(err)
		return outbound.found
	}
	e.listSince = e.listSince.Add(e.reader.ClockAhead - 5*time.Second)
	question := e.postAndFind(ctx, outbound)
	switch {
	case outbound.found[0].Level != OK:
	case e.Wait <= 0:
		inbound.skip("not tried: nobody was asked to reply; --wait TIME asks, even without a terminal")
	default:
		defer e.pullTaps(context.WithoutCancel(ctx), question)
		question.Status = state.Cancelled
		if answer := e.awaitReply(ctx, inbound, question); answer != "" {
			question.Status = state.Resolved
			question.Answers = map[string]string{question.SubQuestions[0].Question: answer}
		}
		text := wording.NoteTexts(question, state.OwedNote{About: state.NoteClosed})[0] + "\n\n" + testIsOver + " Go on in the terminal."
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if question.CardMessage != "" {
			_, card := wording.ClosedCard(question, time.Now())
			_ = e.app.Patch(ctx, question.CardMessage, text, gchat.StoredCard(card))
			return append(outbound.found, inbound.found...)
		}
		_, _ = e.post(ctx, gchat.Post{Text: text, ThreadName: question.ThreadName})
	}
	return append(outbound.found, inbound.found...)
}

// postAndFind posts the question. Unless OneThread is set, it also posts a message to
// another thread and one more to the question's thread. It checks that all are listed
// there, as messages of a program. A space that ignores thread keys gives each message a
// thread of its own, or puts all into one.
func (e *exam) postAndFind(ctx context.Context, r *result) *state.Question {
	runID := uuid.NewString()[:8]
	q := &state.Question{
		QuestionID: runID, SessionName: "[Verify] round trip " + runID, ThreadKey: "verify-" + runID + "-a",
		Status: state.Pending, Mode: state.ModeNative, SubQuestions: []state.SubQuestion{{
			Header: "Test", Question: "This is a test: please choose ok.", OptionCount: 1,
			Options: []state.Option{{Label: "ok"}},
		}},
	}
	if e.OneThread {
		q.SessionName = "gchat-hooks setup" // only setup sets OneThread
	}
	text, second := wording.QuestionTexts(q)[0], "[Verify] 1. This message only tests the thread: please reply to the one above."
	if e.Wait <= 0 {
		text = "[Verify] Round trip of gchat-hooks. No reply is needed."
		second = "[Verify] 1. This message only tests the thread. " + testIsOver
	}
	posts := []gchat.Post{
		{Text: text, ThreadKey: q.ThreadKey},
		{
			Text:      "[Verify] This message only tests a second thread. " + testIsOver,
			ThreadKey: "verify-" + runID + "-b",
		},
		{Text: second, ThreadKey: q.ThreadKey},
	}
	if e.OneThread {
		posts = posts[:1]
	}
	if e.app != nil && e.Wait > 0 { // the person taps a card
		texts, card := wording.CardTexts(q, e.app.CardID(runID), gchat.CardSize)
		posts[0].Text, posts[0].Card = texts[0], gchat.StoredCard(card)
	}
	var sent []gchat.PostedMessage
	start := time.Now()
	for _, p := range posts {
		posted, err := e.post(ctx, p)
		if err != nil {
			r.fail("%v", err).Fix = Hint(err)
			return q
		}
		sent = append(sent, posted)
	}
	postTime := time.Since(start)
	q.ThreadName = sent[0].ThreadName
	if posts[0].Card != nil {
		q.CardMessage = sent[0].Name
	}
	if e.OneThread {
		e.findPosted(ctx, r, sent)
		r.ok("a message was posted and listed")
		return q
	}
	otherThread := sent[1].ThreadName
	if q.ThreadName == "" || sent[2].ThreadName != q.ThreadName || otherThread == q.ThreadName {
		r.fail("thread keys do not work: one led to %q and then to %q, another one to %q",
			q.ThreadName, sent[2].ThreadName, otherThread).Fix =
			"use a space with threads (in Google Chat: not a direct message), through the webhook's own URL; " +
				"a proxy must not drop messageReplyOption and threadKey"
		return q
	}
	e.findPosted(ctx, r, sent)
	listTime := time.Since(start) - postTime
	r.ok("three messages were posted in two threads within %d ms, and read back %d ms later (%s, %s)",
		postTime.Milliseconds(), listTime.Milliseconds(), q.ThreadName, otherThread)
	return q
}

// awaitReply waits for a person's reply in the question's thread, and interprets it as
// the poller does.
func (e *exam) awaitReply(ctx context.Context, r *result, q *state.Question) (answer string) {
	instruction := fmt.Sprintf("Now choose ok in the thread %q", q.SessionName)
	if e.OneThread {
		instruction = "Now open the page, and tap ok"
	}
	wait := state.DescribeDuration(e.Wait)
	e.Notify(instruction + " (Ctrl-C ends the test; it waits for " + wait + ")")
	seen := map[string]bool{}
	failure := "no person replied within " + wait
	fix := "reply in the thread, or wait longer (--wait)"
	for deadline := time.Now().Add(e.Wait); ; state.Sleep(ctx, min(time.Second, time.Until(deadline))) {
		isLate := !time.Now().Before(deadline)
		listed, err := e.listMessages(ctx) // before the deadline, an error means: try again
		if err != nil && (isLate || ctx.Err() != nil) {
			r.fail("%v", err).Fix = Hint(err)
			return ""
		}
		for _, m := range append(listed, e.pullTaps(ctx, q)...) {
			if !m.IsHuman || m.IsDeleted || m.ThreadName != q.ThreadName || seen[m.Name] {
				continue
			}
			seen[m.Name] = true
			sender := wording.SafeLine(
				cmp.Or(strings.TrimSpace(m.Sender+" "+m.DisplayName), "a person"),
			)
			// Load it again: a person who was refused may have changed the list
			// meanwhile.
			cfg := config.Load(e.Env, e.project)
			_ = cfg.ApplyPolicies(ctx, e.Env) // after an error nobody may answer
			if !cfg.CanAnswer(m.Sender, m.SenderEmail) {
				fix = "if that is you: gchat-hooks setup --allow " + wording.SafeLine(m.Sender)
				failure = "the only reply is from someone who may not answer: " + sender
				e.Notify(sender + " replied, but may not answer; " + fix)
				continue
			}
			answers, _ := wording.ParseReply(m.Text, q.SubQuestions, nil)
			if value := answers[0].Value(); value != "" {
				e.replier = m.Sender
				whoseReply := "the reply of " + sender
				if !config.IsPersonName(m.Sender) { // the sender is the embedded space's page
					whoseReply = "your reply"
				}
				r.ok("%s was read: %q means %q", whoseReply, wording.Cut(m.Text, 200), wording.Cut(value, 200))
				return value
			}
		}
		if isLate {
			r.fail("%s", failure).Fix = fix
			return ""
		}
	}
}

// pullTaps returns the taps on the question's card, as messages with the same meaning. It
// acknowledges all events of the test's thread, so that no poller receives them.
func (e *exam) pullTaps(ctx context.Context, q *state.Question) (taps []gchat.Message) {
	if q.CardMessage == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	events, _ := e.app.Pull(ctx)
	for _, event := range events {
		if event.Message.ThreadName != q.ThreadName {
			continue
		}
		_ = e.app.Ack(ctx, []string{event.AckID})
		if event.Tap == nil { // a message: listMessages returns it
			continue
		}
		m := gchat.Message{
			Name: event.ID, ThreadName: q.ThreadName, Sender: event.Person.Name, SenderEmail: event.Person.Email,
			DisplayName: event.Person.DisplayName, IsHuman: event.IsHuman,
		}
		_, m.Text, _ = wording.ReadTap(q, event.Tap)
		taps = append(taps, m)
	}
	return taps
}

func (e *exam) listMessages(ctx context.Context) (listed []gchat.Message, err error) {
	err = e.reader.ListSince(
		ctx,
		e.space,
		e.listSince,
		func(page []gchat.Message) { listed = append(listed, page...) },
	)
	return listed, err
}

// findPosted lists the space until the posted messages are there, each as a program's.
func (e *exam) findPosted(ctx context.Context, r *result, sent []gchat.PostedMessage) {
	for start := time.Now(); ; {
		listed, err := e.listMessages(ctx)
		if err != nil {
			r.fail("%v", err).Fix = Hint(err)
			return
		}
		missing := 0
		for _, s := range sent {
			i := slices.IndexFunc(listed, func(m gchat.Message) bool { return m.Name == s.Name })
			if i < 0 {
				missing++
			} else if listed[i].IsHuman {
				r.fail("the round trip's own message %s is listed as a person's: it would count as a reply", s.Name).Fix =
					"the program cannot tell replies from its own messages: check which server answers in place of Google Chat"
				return
			}
		}
		if missing == 0 {
			return
		}
		if ctx.Err() != nil || time.Since(start) > listTimeout {
			r.fail("%d of %d messages that Chat accepted were not listed within %s",
				missing, len(sent), state.DescribeDuration(listTimeout)).Fix =
				"check that the credentials read the space that the webhook posts to, " + e.space
			return
		}
		state.Sleep(ctx, 300*time.Millisecond)
	}
}

// Hint says what a person can do about an error of Google Chat or of a login. Where
// gchat's hint says that gchat-hooks tries again, it says to run the command again: a
// command does not retry.
func Hint(err error) string {
	return strings.Replace(gchat.Hint(err), "gchat-hooks tries again", "run it again later", 1)
}
