package poller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// humanReply is the third scenario: a person's reply to a question is found among bots' messages, judged by the allowlist,
// and read as the option that its number means.
func (c *check) humanReply(ctx context.Context) error {
	th := c.thread("reply")
	options := []state.Option{{Label: "Left"}, {Label: "Middle", Description: "neither of the two"}, {Label: "Right"}}
	q, err := c.ask(ctx, th, state.Prompt{
		Header: "Verify", Question: "Correlation check of gchat-hooks: pick any of these, best by its number.",
		Options: options, OptionCount: len(options),
	})
	if err != nil {
		return err
	}
	first := ""
	if len(c.config(c.ProjectDir).AllowedUsers) == 0 {
		first = ". Nobody is on allowed_users yet: the thread tells what to set; set it, and reply again"
	}
	c.tell("waiting up to %s for a reply: answer the question of \"%s\" in the space (Ctrl-C ends the check)%s",
		Spoken(c.Wait), q.SessionName, first)
	if err := c.await(ctx, th, q, c.Wait); err != nil {
		return err
	}
	if a := c.res.Answer; a != nil {
		// The person should see that the reply was read, and as what.
		_, err := c.note(ctx, th, fmt.Sprintf("[Verify] Read as: %s. %s", gchat.Line(gchat.Cut(a.ReadAs, 1000)), verifyOver))
		th.over = err == nil
		return err
	}
	if len(c.res.Refused) > 0 {
		return found("add them to allowed_users in ~/.config/gchat-hooks/config.json or to GCHAT_ALLOWED_USERS, and run it again",
			"within %s only people replied who may not answer: %s", Spoken(c.Wait), strings.Join(c.res.Refused, ", "))
	}
	return found("reply to the question in its own thread; --no-human leaves this scenario out, --wait waits longer",
		"no person replied in the question's thread within %s", Spoken(c.Wait))
}

// timesOut is the fourth scenario: a question without an answer times out, whatever else is in its thread and its space.
func (c *check) timesOut(ctx context.Context) error {
	th := c.thread("timeout")
	q, err := c.ask(ctx, th, state.Prompt{
		Header: "Verify", Question: "Correlation check of gchat-hooks: please leave this one without a reply.",
		Options: []state.Option{{Label: "Yes"}, {Label: "No"}}, OptionCount: 2,
	})
	if err != nil {
		return err
	}
	if err := c.await(ctx, th, q, c.Timeout); err != nil {
		return err
	}
	if a := c.res.Answer; a != nil {
		return found("run it again, and leave the second question without a reply",
			"%s replied to the question that was to be left without a reply", a.who())
	}
	_, err = c.note(ctx, th, fmt.Sprintf("[Verify] No reply within %s, as it was to be. %s", Spoken(c.Timeout), verifyOver))
	th.over = err == nil
	return err
}

// ask posts a question in the product's own words, and a message of a bot below it that would be an answer if a person
// had written it. Both are listed when it returns, so that an empty list cannot pass for silence.
func (c *check) ask(ctx context.Context, th *begun, prompt state.Prompt) (*state.Question, error) {
	q := c.question(uuid.NewString(), "run", th, prompt)
	asked, err := c.say(ctx, th, gchat.QuestionText(q))
	if err != nil {
		return nil, err
	}
	q.MessageSent, q.MessageName, q.ThreadName = true, asked.name, asked.thread
	bot, err := c.note(ctx, th, "[Verify] 1. This is a bot's message: it is no reply.")
	if err != nil {
		return nil, err
	}
	if err := c.find(ctx, asked, bot); err != nil {
		return nil, err
	}
	c.datePost(q)
	return q, nil
}

// question is the record of a question that the check asks.
func (c *check) question(id, what string, th *begun, prompt state.Prompt) *state.Question {
	return &state.Question{
		QuestionID: id, SessionName: "[Verify] " + what + " " + c.run, AskedAt: c.now().UTC(), ThreadKey: th.Key,
		Questions: []state.Prompt{prompt}, Status: state.Pending, Mode: state.Native,
		ProjectDir: c.ProjectDir, Chat: c.hook.Chat(), Space: c.hook.Space,
	}
}

// datePost dates a question by its message, as it was last listed.
func (c *check) datePost(q *state.Question) {
	for _, m := range c.listed {
		if m.Name == q.MessageName && !m.CreateTime.IsZero() {
			q.PostedAt = &m.CreateTime
		}
	}
}

// await lists at the pace of the inbox until the question is answered or its time is over; the last list comes after that.
func (c *check) await(ctx context.Context, th *begun, q *state.Question, wait time.Duration) error {
	began, seen := c.now(), map[string]bool{}
	until := began.Add(wait)
	for {
		over := !c.now().Before(until)
		ms, err := c.list(ctx)
		if err != nil {
			return err
		}
		for _, m := range ms {
			if !seen[m.Name] {
				seen[m.Name] = true
				if err := c.see(ctx, th, q, m); err != nil {
					return err
				}
			}
		}
		c.res.WaitedMS = milliseconds(c.now().Sub(began))
		if q.Status != state.Pending || over {
			return nil
		}
		sleep(ctx, min(cycle(c.now().Sub(began), c.cfg.PollInterval), until.Sub(c.now())))
	}
}

// see decides what a listed message is to the question, by the inbox's rules.
func (c *check) see(ctx context.Context, th *begun, q *state.Question, m gchat.Message) error {
	switch {
	case m.ThreadName != q.ThreadName:
		if m.Human {
			c.res.Elsewhere++
		}
		return nil
	case c.ours[m.Name]:
		c.res.BotMessages++
		return c.ourOwn(m, q.ThreadName)
	case !m.Human:
		c.res.BotMessages++
		return nil
	case m.Deleted, m.Sender == "":
		return nil
	}
	reply := replyOf(m, gchat.Cut(m.Text, gchat.MaxText))
	r := &reply
	said := c.judge(c.config(c.ProjectDir), q, r)
	switch r.Verdict {
	case state.Used:
		c.res.Answer = &VerifyAnswer{
			Message: r.MessageName, By: r.Sender, Name: r.DisplayName, Text: *q.Response,
			ReadAs: q.Answers[q.Questions[0].Question], Kind: *q.ResponseType,
		}
	case state.Refused:
		c.res.Refused = append(c.res.Refused, gchat.Line(r.Sender))
		who := gchat.Line(r.Sender)
		c.tell("%s replied, but may not answer. If that is you: gchat-hooks setup --allow %s",
			gchat.Line(cmp.Or(r.DisplayName, who)), who)
		if len(c.res.Refused) == 1 { // as the outbox does it: once in a thread
			_, err := c.note(ctx, th, said.Parts[0])
			return err
		}
	}
	return nil
}

// who names the person for another one.
func (a *VerifyAnswer) who() string {
	if a.Name == "" {
		return gchat.Line(a.By)
	}
	return gchat.Line(a.By) + " (" + gchat.Line(a.Name) + ")"
}

// threadMapped is the first scenario: a fresh key begins a thread, the answer to the post names it, the list has the
// message in it, and the key leads there again.
func (c *check) threadMapped(ctx context.Context) error {
	th := c.thread("thread")
	first, err := c.say(ctx, th, "[Verify] Correlation check of gchat-hooks, run "+c.run+
		": a thread of its own. No reply is needed.")
	if err != nil {
		return err
	}
	if err := c.find(ctx, first); err != nil {
		return err
	}
	again, err := c.say(ctx, th, "[Verify] A second message with the same thread key. "+verifyOver)
	if err != nil {
		return err
	}
	th.over = true
	if err := c.find(ctx, again); err != nil {
		return err
	}
	return c.alone(th)
}

// noCrossTalk is the second scenario: what is posted to two threads by turns is listed in its own each, and nothing else is.
func (c *check) noCrossTalk(ctx context.Context) error {
	a, b := c.thread("a"), c.thread("b")
	var posts []sent
	for i, th := range []*begun{a, b, a, b} {
		text := fmt.Sprintf("[Verify] Message %d of the thread %s.", i/2+1, th.Key)
		if i >= 2 {
			text += " " + verifyOver
		}
		s, err := c.say(ctx, th, text)
		if err != nil {
			return err
		}
		th.over = i >= 2
		posts = append(posts, s)
		if a.Name == b.Name {
			return found(noThreads, "two thread keys, %s and %s, were mapped to one thread, %s", a.Key, b.Key, a.Name)
		}
	}
	if err := c.find(ctx, posts...); err != nil {
		return err
	}
	return c.alone(a, b)
}

// alone sees to it that the threads hold, as they were last listed, the messages that were posted to them and no other
// program's. A person who writes there is no cross-talk.
func (c *check) alone(threads ...*begun) error {
	for _, th := range threads {
		people := 0
		for _, m := range c.listed {
			switch {
			case m.ThreadName != th.Name || slices.Contains(th.Messages, m.Name):
			case m.Human && !c.ours[m.Name]:
				people++
			case c.ours[m.Name]:
				return found(noThreads, "the thread of %s holds a message of another thread, %s", th.Key, m.Name)
			default:
				return found("see whether another app of the space answers in every thread",
					"the thread of %s holds a message that the check did not post there, %s", th.Key, m.Name)
			}
		}
		if people > 0 {
			c.res.Notes = append(c.res.Notes, fmt.Sprintf("messages of people in the thread of %s: %d", th.Key, people))
		}
	}
	return nil
}
