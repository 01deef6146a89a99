package poller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// livePatience is how long the round trip waits for its message to be listed. verify waits a minute; here a person does.
const livePatience = 15 * time.Second

// A Leg is one way of the round trip.
type Leg struct {
	Name   string       // "out": this machine to the space, and back by listing; "in": a person to this machine
	Status VerifyStatus // VerifyCut: it was not made to its end, as where no person replied
	What   string       // a sentence for a person
	Hint   string       // what that person can do
}

// RoundTrip is that of doctor and setup: two messages are posted to a thread of their own and read back, then the thread waits
// up to wait for the person's "ok", judged as a reply to a question is. It is verify's first and third scenario, cut short. The
// second message has the first one's thread key: a Chat that does not keep to keys begins a thread for each.
func (p *Poller) RoundTrip(ctx context.Context, projectDir string, wait time.Duration, tell func(string)) (legs []Leg) {
	v := &Verify{Poller: p, ProjectDir: projectDir, Wait: wait, Patience: livePatience, Tell: tell}
	c, err := v.prepare(ctx)
	if err != nil {
		return v.liveFailed(ctx, "out", err)
	}
	c.res = &VerifyResult{}
	th, passed := c.thread("doctor"), false
	defer func() { c.endThreads(ctx, passed) }()
	q := c.question(c.run, "doctor", th, state.Prompt{
		Header: "Verify", Question: "Round trip of gchat-hooks: reply ok in this thread.",
		Options: []state.Option{{Label: "ok"}, {Label: "not ok"}}, OptionCount: 2,
	})
	text, again := gchat.QuestionText(q), "[Verify] A second message with the same thread key."
	if v.Wait <= 0 {
		text = fmt.Sprintf("[Verify] Round trip of gchat-hooks doctor, run %s. No reply is needed.", c.run)
		again += " " + verifyOver
	}
	asked, err := c.say(ctx, th, text)
	var second sent
	if err == nil {
		second, err = c.say(ctx, th, again)
	}
	th.over = err == nil && v.Wait <= 0
	if err == nil {
		err = c.find(ctx, asked, second)
	}
	if err != nil {
		return v.liveFailed(ctx, "out", err)
	}
	legs = []Leg{{Name: "out", Status: VerifyPass, What: fmt.Sprintf(
		"a message was posted in %.0f ms and another one into its thread, "+
			"and both were listed there as a program's %.0f ms later",
		c.res.PostMS[0], c.res.ListedMS[0])}}
	if passed = v.Wait <= 0; passed {
		return append(legs, Leg{Name: "in", Status: VerifySkipped, What: "no person was to be asked"})
	}
	q.MessageSent, q.MessageName, q.ThreadName = true, asked.name, asked.thread
	c.datePost(q)
	c.tell("waiting up to %s: reply ok in the thread of \"%s\" (Ctrl-C ends it)", Spoken(v.Wait), q.SessionName)
	if err := c.await(ctx, th, q, v.Wait); err != nil {
		return append(legs, v.liveFailed(ctx, "in", err)...)
	}
	a := c.res.Answer
	switch {
	case a != nil:
		passed = true
		_, err := c.note(ctx, th, fmt.Sprintf("[Verify] Read as: %s. %s", gchat.Line(gchat.Cut(a.ReadAs, 1000)), verifyOver))
		th.over = err == nil
		read := "the reply of " + a.who() + " was read" + c.sinceSaid(a)
		return append(legs, Leg{Name: "in", Status: VerifyPass, What: read})
	case ctx.Err() != nil:
		return append(legs, v.liveFailed(ctx, "in", ctx.Err())...)
	case len(c.res.Refused) > 0:
		return append(legs, Leg{
			Name: "in", Status: VerifyFail,
			What: "only people replied who may not answer: " + strings.Join(c.res.Refused, ", "),
			Hint: "gchat-hooks setup --allow with your own users/ID, if it is among them",
		})
	}
	return append(legs, Leg{
		Name: "in", Status: VerifyCut, What: "no person replied within " + Spoken(v.Wait),
		Hint: "gchat-hooks doctor --live --wait 5m, and reply in the thread",
	})
}

// sinceSaid is how long a reply was under way, by Chat's clock; "" where that cannot be told. Listing has a pace of its own
// (cycle), so most of it is waiting for the next look.
func (c *check) sinceSaid(a *VerifyAnswer) string {
	for _, m := range c.listed {
		if ahead, ok := c.reader.Ahead(); ok && m.Name == a.Message && !m.CreateTime.IsZero() {
			return fmt.Sprintf(" about %.0f s after it was sent", max(c.now().Add(ahead).Sub(m.CreateTime), 0).Seconds())
		}
	}
	return ""
}

func (v *Verify) liveFailed(ctx context.Context, leg string, err error) []Leg {
	var m *mismatch
	l := Leg{Name: leg, Status: VerifyFail, What: gchat.Cut(gchat.Line(v.Log.Clean(err.Error())), 400), Hint: VerifyHint(err)}
	switch {
	case ctx.Err() != nil:
		l.Status, l.What, l.Hint = VerifyCut, "interrupted", "gchat-hooks doctor --live"
	case errors.As(err, &m):
		l.What = gchat.Line(v.Log.Clean(m.why))
	}
	return []Leg{l}
}
