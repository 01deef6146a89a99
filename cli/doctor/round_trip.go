package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
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
	if e.cfg.Subscription != "" {
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

// roundTrip posts a question, reads it back, and waits for a person's reply. What it finds is its way out, to the space and back by
// listing, and its way in, from a person to here. Where the space cannot be read nothing is posted.
// It keeps nothing in the state folder: no hook and no poller sees its question. Interrupted, it still tells the thread that
// it is over.
func (e *exam) roundTrip(ctx context.Context) []*Finding {
	ctx, cancel := context.WithTimeout(ctx, liveBound+e.Wait)
	defer cancel()
	out, in := &result{check: check{id: live + ".out"}}, &result{check: check{id: live + ".in"}}
	if e.cfg.Subscription != "" {
		out.skip("with a Chat app there is a card to tap in its place: gchat-hooks setup --app")
		return out.found
	}
	e.from = time.Now()
	var err error
	e.way, err = e.findWay(ctx)
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
		question.Status = state.Cancelled
		if as := e.wayIn(ctx, in, question); as != "" {
			question.Status = state.Resolved
			question.Answers = map[string]string{question.Questions[0].Question: as}
		}
		told := gchat.NoteTexts(question, state.Owed{About: state.NoteClosed})[0] + "\n\n" + over + " Go on in the terminal."
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_, _ = e.post(ctx, gchat.Post{Text: told, ThreadName: question.ThreadName})
	}
	return append(out.found, in.found...)
}

// wayOut posts the question, and finds it in the list. Whether Chat keeps to thread keys is for a probe to say.
func (e *exam) wayOut(ctx context.Context, r *result) *state.Question {
	run := uuid.NewString()[:8]
	q := &state.Question{
		QuestionID: run, SessionName: "[Verify] round trip " + run, ThreadKey: "verify-" + run,
		Status: state.Pending, Mode: state.Native, Questions: []state.Prompt{{
			Header: "Test", Question: "This is a test: please choose ok.", OptionCount: 1,
			Options: []state.Option{{Label: "ok"}},
		}},
	}
	text := gchat.QuestionTexts(q)[0]
	if e.Wait <= 0 {
		text = "[Verify] Round trip of gchat-hooks. No reply is needed. " + over
	}
	began := time.Now()
	sent, err := e.post(ctx, gchat.Post{Text: text, ThreadKey: q.ThreadKey})
	posted := time.Since(began)
	if err == nil && sent.ThreadName == "" {
		const hint = "look what answers in Google Chat's place: it drops the thread"
		err = &state.UserError{Err: errors.New("what answers names no thread"), Hint: hint}
	}
	if err == nil {
		err = e.find(ctx, sent.Name)
	}
	if err != nil {
		r.fail("%v", err).Mend = Hint(err)
		return q
	}
	q.ThreadName = sent.ThreadName
	r.ok("a message was posted in %d ms, and listed %d ms later (%s)",
		posted.Milliseconds(), (time.Since(began) - posted).Milliseconds(), q.ThreadName)
	return q
}

// wayIn waits for a person's reply in the question's thread, and reads it as the poller does.
func (e *exam) wayIn(ctx context.Context, r *result, q *state.Question) (readAs string) {
	e.Tell(fmt.Sprintf("Now choose ok in the thread %q (Ctrl-C ends the test; it waits for %s)", q.SessionName, state.InWords(e.Wait)))
	seen := map[string]bool{}
	none, mend := "no person replied within "+state.InWords(e.Wait), "reply in the thread (a direct message has none), or wait longer (--wait)"
	for until := time.Now().Add(e.Wait); ; pause(ctx, min(time.Second, time.Until(until))) {
		late := !time.Now().Before(until)
		listed, err := e.listed(ctx) // where Chat stumbles, the next second's list tells
		if err != nil && (late || ctx.Err() != nil) {
			r.fail("%v", err).Mend = Hint(err)
			return ""
		}
		for _, m := range listed {
			if !m.Human || m.Deleted || m.ThreadName != q.ThreadName || seen[m.Name] {
				continue
			}
			seen[m.Name] = true
			who := gchat.Line(cmp.Or(strings.TrimSpace(m.Sender+" "+m.DisplayName), "a person"))
			cfg := config.Load(e.Env, e.project) // a person who was refused may just have set the allowlist
			_ = cfg.Restrict(ctx, e.Env)         // then nobody may
			if !cfg.Allows(m.Sender, m.SenderEmail) {
				mend = "if that is you: gchat-hooks setup --allow " + gchat.Line(m.Sender)
				none = "only people replied who may not answer: " + who
				e.Tell(who + " replied, but may not answer; " + mend)
				continue
			}
			answers, _, _ := gchat.ParseReply(m.Text, q.Questions, nil)
			if as := answers[0].Value(); as != "" {
				e.replier = m.Sender
				r.ok("the reply of %s was read: %q means %q", who, gchat.Cut(m.Text, 200), gchat.Cut(as, 200))
				return as
			}
		}
		if late {
			r.fail("%s", none).Mend = mend
			return ""
		}
	}
}

func (e *exam) listed(ctx context.Context) (listed []gchat.Message, err error) {
	err = e.reader.Since(ctx, e.space, e.from, func(page []gchat.Message) { listed = append(listed, page...) })
	return listed, err
}

// find lists until a message is there.
func (e *exam) find(ctx context.Context, name string) error {
	for until := time.Now().Add(listedWithin); ; pause(ctx, 300*time.Millisecond) {
		listed, err := e.listed(ctx)
		if err != nil || slices.ContainsFunc(listed, func(m gchat.Message) bool { return m.Name == name }) {
			return err
		}
		if ctx.Err() != nil || time.Now().After(until) {
			err := fmt.Errorf("a message that Chat took is not listed within %s", state.InWords(listedWithin))
			return &state.UserError{Err: err, Hint: "check that the credentials read the space that the webhook posts to, " + e.space}
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Hint says what a person can do about an error of Google Chat or a login. A command tries nothing again by itself.
func Hint(err error) string {
	return strings.Replace(gchat.Hint(err), "it is tried again", "run it again later", 1)
}
