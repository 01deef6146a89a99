package poller

import (
	"context"
	"fmt"
	"slices"
)

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
