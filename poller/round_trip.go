package poller

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// RoundTrip is a message to the space and a person's reply to it, for `gchat-hooks setup`: the least that shows that a
// question will get its answer. Verify looks closer.
type RoundTrip struct {
	Verify *Verify // NoHuman, Timeout and Keep are not used

	check  *check
	thread *begun
	seen   map[string]bool
}

// There is what the way out showed.
type There struct {
	Chat   string        // host/spaces/S
	Posted time.Duration // from the request to Chat's answer
	Listed time.Duration // from that until a list had the message
}

// Out posts text as the first message of a thread and finds it by listing: then the space can be written and read. Errors
// are those of Verify.Run.
func (r *RoundTrip) Out(ctx context.Context, text string) (There, error) {
	c, err := r.Verify.prepare(ctx)
	if err != nil {
		return There{}, err
	}
	c.res, r.check, r.seen = &VerifyResult{}, c, map[string]bool{}
	r.thread = &begun{VerifyThread: VerifyThread{Key: "setup-" + uuid.NewString()[:8]}}
	post, err := c.say(ctx, r.thread, text)
	if err == nil {
		err = c.find(ctx, post)
	}
	if err != nil {
		return There{}, err
	}
	took := func(ms []float64) time.Duration { return time.Duration(ms[len(ms)-1] * float64(time.Millisecond)) }
	return There{Chat: c.hook.Chat(), Posted: took(c.res.PostMS), Listed: took(c.res.ListedMS)}, nil
}

// Back waits, for Verify.Wait, until a person replies in the thread, and returns the reply; called again, the next one.
// ErrNoReply when there is none. Whether that person may answer is for the caller to judge.
func (r *RoundTrip) Back(ctx context.Context) (*state.Reply, error) {
	c := r.check
	began := c.now()
	until := began.Add(r.Verify.Wait)
	for {
		over := !c.now().Before(until)
		ms, err := c.list(ctx)
		if err != nil {
			return nil, err
		}
		for _, m := range ms {
			if r.seen[m.Name] || c.ours[m.Name] || m.ThreadName != r.thread.Name || !m.Human || m.Deleted || m.Sender == "" {
				continue
			}
			r.seen[m.Name] = true
			reply := replyOf(m, gchat.Cut(m.Text, 200))
			return &reply, nil
		}
		if over {
			return nil, fmt.Errorf("%w within %s", ErrNoReply, Spoken(r.Verify.Wait))
		}
		if sleep(ctx, min(cycle(c.now().Sub(began), c.cfg.PollInterval), until.Sub(c.now()))); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// MayAnswer says whether a reply's sender is on the allowlist, as it is now.
func (r *RoundTrip) MayAnswer(reply *state.Reply) bool {
	return allowed(r.Verify.config(r.Verify.ProjectDir), reply)
}

// Say tells the thread something.
func (r *RoundTrip) Say(ctx context.Context, text string) error {
	_, err := r.check.note(ctx, r.thread, text)
	return err
}
