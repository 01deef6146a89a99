package poller

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gchat-hooks/gchat"
)

// verifyOver ends the last message of a thread of the check.
const verifyOver = "The check of this thread is over: it can be deleted."

// begun is a thread of the scenario that runs.
type begun struct {
	VerifyThread
	over bool // its last message says so
}

// sent is a message of the check.
type sent struct {
	name, thread string    // as Chat's answer said them
	answered     time.Time // when that answer was there
}

// thread names a new thread of the scenario. It begins with the first message to it.
func (c *check) thread(what string) *begun {
	th := &begun{VerifyThread: VerifyThread{Key: "verify-" + c.run + "-" + what}}
	c.open = append(c.open, th)
	return th
}

// say posts to a thread, by its key, and holds Chat to it: the answer must name the thread that the key's first one named.
func (c *check) say(ctx context.Context, th *begun, text string) (sent, error) {
	return c.post(ctx, th, gchat.Post{Text: text, ThreadKey: th.Key})
}

// note posts to a thread by its name, as notes in a question's thread are posted.
func (c *check) note(ctx context.Context, th *begun, text string) (sent, error) {
	return c.post(ctx, th, gchat.Post{Text: text, ThreadKey: th.Key, ThreadName: th.Name})
}

func (c *check) post(ctx context.Context, th *begun, p gchat.Post) (s sent, err error) {
	c.posts++
	p.MessageID = messageID("verify", c.run, strconv.Itoa(c.posts))
	var done gchat.Posted
	err = c.patiently(ctx, func() error {
		if wait := c.quota.Take(c.now(), perWrite(c.cfg), questionBurst, true); wait > 0 {
			return &QuotaError{wait, c.quota.Why(c.now())}
		}
		ctx, cancel := lingering(ctx) // else a thread may stay that is not told of its end
		defer cancel()
		began := c.now()
		done, err = c.hook.Post(ctx, p)
		if gchat.AlreadyExists(err) { // an earlier try had arrived
			done, err = c.lookUp(ctx, c.cfg, c.hook, p.MessageID), nil
		}
		if s.answered = c.now(); err == nil {
			c.res.PostMS = append(c.res.PostMS, milliseconds(s.answered.Sub(began)))
		}
		return err
	})
	if err != nil {
		return s, err
	}
	c.quota.Worked(c.hook.ID(), c.ProjectDir, c.now())
	s.name, s.thread = done.Name, done.ThreadName
	c.ours[s.name] = true
	if s.thread == "" {
		return s, found("look what stands between here and Google Chat",
			"Chat's answer to a post names no thread: no reply could be bound to it")
	}
	if th.Name == "" {
		th.Name = s.thread
	}
	if s.thread == th.Name {
		th.Messages = append(th.Messages, s.name)
		return s, nil
	}
	c.open = append(c.open, &begun{VerifyThread: VerifyThread{Key: th.Key, Name: s.thread, Messages: []string{s.name}}})
	if p.ThreadName != "" {
		return s, found(noThreads, "a message to the thread %s landed in %s: thread names are not kept to", th.Name, s.thread)
	}
	return s, found(noThreads, "the thread key %s was mapped to %s and then to %s: thread keys are not kept to",
		th.Key, th.Name, s.thread)
}

const noThreads = "use a space with threads (in Google Chat: one that is no direct message), through the webhook's own URL; " +
	"what stands between must not drop messageReplyOption and threadKey"

// patiently tries, and tries again what Chat asked for later or stumbled over, as long as that stays within the patience.
func (c *check) patiently(ctx context.Context, try func() error) error {
	until := c.now().Add(c.patience)
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := try()
		wait := waitOf(err)
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case wait > 0: // the machine's own pace
		case gchat.TooMany(err):
			wait = max(gchat.RetryAfter(err), backoff(perWrite(c.cfg), c.quota.Failed()))
			c.quota.TooMany(c.now().Add(wait), c.Log.Clean(err.Error())) // for all processes
		case gchat.Overloaded(err), !gchat.Permanent(err) && !gchat.AuthFailure(err) && gchat.MayHaveArrived(err):
			wait = max(gchat.RetryAfter(err), backoff(verifyLook, n))
		default:
			return err
		}
		if c.now().Add(wait).After(until) {
			return err
		}
		sleep(ctx, wait)
	}
}

// list reads the space from shortly before the run on, oldest first.
func (c *check) list(ctx context.Context) ([]gchat.Message, error) {
	err := c.patiently(ctx, func() error {
		c.listed = nil
		_, err := c.reader.Since(ctx, c.hook.Space, c.from, func(page []gchat.Message) { c.listed = append(c.listed, page...) })
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, m := range c.listed {
		if c.ours[m.Name] && !c.exact && !m.CreateTime.IsZero() {
			c.from, c.exact = m.CreateTime.Add(-dateSlack), true // the check looks at what is younger than its first message
		}
	}
	return c.listed, nil
}

// find lists until the messages are there, each in the thread that the answer to its post named, and each as a bot's.
func (c *check) find(ctx context.Context, posts ...sent) error {
	until, pause := c.now().Add(c.patience), verifyLook
	for {
		ms, err := c.list(ctx)
		if err != nil {
			return err
		}
		missing := 0
		for _, s := range posts {
			i := slices.IndexFunc(ms, func(m gchat.Message) bool { return m.Name == s.name })
			if i < 0 {
				missing++
				continue
			}
			if err := c.ourOwn(ms[i], s.thread); err != nil {
				return err
			}
		}
		if missing == 0 {
			c.res.ListedMS = append(c.res.ListedMS, milliseconds(c.now().Sub(posts[len(posts)-1].answered)))
			return nil
		}
		if c.now().Add(pause).After(until) {
			return &mismatch{
				why: fmt.Sprintf("%d of %d messages that Chat took could not be found by listing within %s",
					missing, len(posts), Spoken(c.patience)),
				hint: "check that the credentials read the space that the webhook posts to, " + c.hook.Space,
				last: true,
			}
		}
		sleep(ctx, pause)
		pause = min(2*pause, time.Second)
	}
}

// ourOwn holds what is listed of a message of the check to what it is: a bot's, in that thread.
func (c *check) ourOwn(m gchat.Message, thread string) error {
	switch {
	case m.ThreadName != thread:
		return found(noThreads, "the message %s was posted to %s and is listed in %s", m.Name, thread, gchat.Line(m.ThreadName))
	case m.Human:
		return found("replies cannot be told from the program's own messages here: look what answers in Google Chat's place",
			"the check's own message %s is listed as a person's: it would be taken for a reply", m.Name)
	}
	return nil
}

// endThreads has each thread of the scenario say that it can be deleted, where its last message did not. When the scenario
// failed or was cut short that may take a moment only, and may fail.
func (c *check) endThreads(ctx context.Context, passed bool) {
	if !passed {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), linger)
		defer cancel()
	}
	for _, th := range c.open {
		if th.Name != "" && !th.over {
			if _, err := c.note(ctx, th, "[Verify] "+verifyOver); err != nil && ctx.Err() == nil {
				c.res.Notes = append(c.res.Notes, "the thread of "+th.Key+" could not be told its end: "+c.Log.Clean(err.Error()))
			}
		}
		c.res.Threads = append(c.res.Threads, th.VerifyThread)
	}
}
