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

// LiveChecks are the round trip of doctor and setup: two messages are posted to a thread of their own and read back, then the
// thread waits up to wait for the person's "ok", judged as a reply to a question is. It is verify's first and third scenario,
// cut short. The second message has the first one's thread key: a Chat that does not keep to keys begins a thread for each.
func (p *Poller) LiveChecks(projectDir string, wait time.Duration, tell func(string)) []state.Check {
	v := &Verify{Poller: p, ProjectDir: projectDir, Wait: wait, Patience: livePatience, Tell: tell}
	return []state.Check{{ID: "live", Run: v.roundTrip}}
}

const (
	liveOut = "live.out" // this machine to the space, and back by listing
	liveIn  = "live.in"  // a person to this machine
)

// NotLive stands in the round trip's place where it was not asked for: nothing else tries a thread, or the way back.
var NotLive = state.Finding{
	ID: liveOut, Level: state.LevelSkip,
	What: "threads and the round trip were not tried; gchat-hooks doctor --live posts two messages for that",
}

func (v *Verify) roundTrip(ctx context.Context) (fs []state.Finding) {
	c, err := v.prepare(ctx)
	if err != nil {
		return v.liveFailed(ctx, liveOut, err)
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
		return v.liveFailed(ctx, liveOut, err)
	}
	fs = append(fs, state.Finding{ID: liveOut, Level: state.LevelOK, What: fmt.Sprintf(
		"a message was posted in %.0f ms and another one into its thread, "+
			"and both were listed there as a program's %.0f ms later",
		c.res.PostMS[0], c.res.ListedMS[0])})
	if passed = v.Wait <= 0; passed {
		return append(fs, state.Finding{ID: liveIn, Level: state.LevelSkip, What: "no person was to be asked"})
	}
	q.MessageSent, q.MessageName, q.ThreadName = true, asked.name, asked.thread
	c.datePost(q)
	c.tell("waiting up to %s: reply ok in the thread of \"%s\" (Ctrl-C ends it)", Spoken(v.Wait), q.SessionName)
	if err := c.await(ctx, th, q, v.Wait); err != nil {
		return append(fs, v.liveFailed(ctx, liveIn, err)...)
	}
	a := c.res.Answer
	switch {
	case a != nil:
		passed = true
		_, err := c.note(ctx, th, fmt.Sprintf("[Verify] Read as: %s. %s", gchat.Line(gchat.Cut(a.ReadAs, 1000)), verifyOver))
		th.over = err == nil
		read := "the reply of " + a.who() + " was read" + c.sinceSaid(a)
		return append(fs, state.Finding{ID: liveIn, Level: state.LevelOK, What: read})
	case ctx.Err() != nil:
		return append(fs, v.liveFailed(ctx, liveIn, ctx.Err())...)
	case len(c.res.Refused) > 0:
		return append(fs, state.Finding{
			ID: liveIn, Level: state.LevelFail,
			What:  "only people replied who may not answer: " + strings.Join(c.res.Refused, ", "),
			Means: "their replies are not used", Mend: "gchat-hooks setup --allow " + c.res.Refused[0] + ", if that is you",
		})
	}
	return append(fs, state.Finding{
		ID: liveIn, Level: state.LevelWarn, What: "no person replied within " + Spoken(v.Wait),
		Means: "the way back was not tried", Mend: "gchat-hooks doctor --live --wait 5m, and reply in the thread",
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

func (v *Verify) liveFailed(ctx context.Context, id string, err error) []state.Finding {
	f := state.Finding{
		ID: id, Level: state.LevelFail, Means: "questions do not get into the space and back",
		Mend: v.loginMend(v.config(v.ProjectDir), VerifyHint(err)),
	}
	var m *mismatch
	switch {
	case ctx.Err() != nil:
		f.Level, f.What = state.LevelWarn, "interrupted"
		f.Means, f.Mend = "the round trip was not made to its end", "gchat-hooks doctor --live"
	case errors.As(err, &m):
		f.What, f.Mend = gchat.Line(v.Log.Clean(m.why)), m.hint
		if m.hint == noThreads {
			f.Means = "replies cannot be told apart: whose question one is for, its thread says"
		}
	default:
		f.What = gchat.Cut(gchat.Line(v.Log.Clean(err.Error())), 400)
	}
	return []state.Finding{f}
}
