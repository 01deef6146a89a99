package poller

import (
	"context"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// ThreadOf is the thread that a message of ours with this key is in; "" when none of the last day is known.
func (p *Poller) ThreadOf(key string) string {
	_, threads := p.outbox().Known()
	return threads[key]
}

// AwaitInThread waits for a reply of an allowed person in a thread that no question is known of: the first after the last
// message of an app, or, where there is none, after now. Errors are ErrNoReply at that time, and what keeps it from reading
// from the beginning: what was well once may come back.
func (p *Poller) AwaitInThread(ctx context.Context, thread string, until time.Time) (state.Reply, error) {
	space := thread[:strings.Index(thread, "/threads/")]
	begun, trouble := p.now(), trouble{}
	var r *gchat.Reader
	for read := false; ; {
		cfg := p.config(state.ProjectDir(p.Env))
		var err error
		if r == nil { // also after a refusal: a person may have logged in again
			endpoint := cfg.APIEndpoint
			if hook, werr := p.webhook(ctx, cfg); werr == nil {
				endpoint = p.endpoint(cfg, hook)
			}
			r, err = gchat.NewReader(ctx, endpoint, cfg.CredentialsFile)
		}
		var reply state.Reply
		if err == nil {
			reply, err = p.replyIn(ctx, cfg, r, space, thread, begun)
		}
		switch {
		case ctx.Err() != nil:
			return state.Reply{}, ctx.Err()
		case err == nil && reply.MessageName != "":
			return reply, nil
		case err != nil && !read && (gchat.AuthFailure(err) || gchat.Permanent(err)):
			return state.Reply{}, err
		case err == nil:
			read = true
		case gchat.AuthFailure(err):
			r = nil
		}
		if !p.now().Before(until) {
			if err != nil {
				return state.Reply{}, err // that nobody replied is more than we know
			}
			return state.Reply{}, ErrNoReply
		}
		pause := max(trouble.after(err), cycle(p.now().Sub(begun), cfg.PollInterval))
		sleep(ctx, min(pause, max(until.Sub(p.now()), time.Millisecond)))
	}
}

// replyIn looks once for the reply; without a name there is none.
func (p *Poller) replyIn(ctx context.Context, cfg *state.Config, r *gchat.Reader, space, thread string, begun time.Time) (state.Reply, error) {
	var found state.Reply
	asked := false
	_, err := r.Since(ctx, space, begun.Add(-clockSlack), func(page []gchat.Message) {
		for _, m := range page {
			reply := state.Reply{MessageName: m.Name, Sender: m.Sender, SenderEmail: m.SenderEmail, DisplayName: m.DisplayName, Text: gchat.CleanReply(m.Text), CreateTime: m.CreateTime}
			switch {
			case m.ThreadName != thread || m.Deleted:
			case !m.Human:
				found, asked = state.Reply{}, true
			case found.MessageName != "" || strings.TrimSpace(reply.Text) == "" || !allowed(cfg, &reply):
			case asked || m.CreateTime.After(begun.Add(-dateSlack)):
				found = reply
			}
		}
	})
	return found, err
}
