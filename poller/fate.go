package poller

import (
	"cmp"
	"context"
	"time"

	"gchat-hooks/gchat"
)

// Fate is what became of a message that was put into the outbox; the zero value while it waits.
type Fate struct {
	Arrived    bool
	Name       string // spaces/S/messages/M, where Chat said it
	ThreadName string
	Refused    string // why it was put aside
	LastError  string // of a try, while it waits
}

// Known says that the message waits no more.
func (f Fate) Known() bool { return f.Arrived || f.Refused != "" }

// FateOf tells what became of a message. Of a repetition it is the fate of what was said first.
func (p *Poller) FateOf(o Outcome) Fate {
	box, m := p.outbox(), o.Message
	id := m.MessageID
	if o.Repeated {
		id = ""
	}
	if r, ok := box.Arrived(m.Key, id); ok {
		return Fate{Arrived: true, Name: r.Name, ThreadName: r.ThreadName}
	}
	if m.Path == "" {
		return Fate{} // it was put by another process, which knows where it is
	}
	if now, err := box.Load(m.Path); now != nil {
		f := Fate{LastError: cmp.Or(now.LastError, box.Quota(now.Chat).Why(p.now()))}
		for _, pause := range box.Pauses() {
			if pause.Chat == now.Chat {
				f.LastError = pause.Why
			}
		}
		return f
	} else if err != nil {
		return Fate{Refused: err.Error()}
	}
	for _, d := range box.Dead() {
		if d.MessageID == m.MessageID {
			return Fate{Refused: d.LastError}
		}
	}
	return Fate{}
}

// Webhook is the webhook of a project's configuration. Errors are state.ErrNoWebhook, gchat.ErrNotWebhook, and those of the
// command that prints it.
func (p *Poller) Webhook(ctx context.Context, projectDir string) (*gchat.Webhook, error) {
	return p.webhook(ctx, p.config(projectDir))
}

// PostNow sends a report past the outbox, once, within what the space allows. It returns what Chat says of its first part.
func (p *Poller) PostNow(ctx context.Context, r Report) (first gchat.Posted, err error) {
	cfg := p.config(r.ProjectDir)
	hook, err := p.webhook(ctx, cfg)
	if err != nil {
		return first, err
	}
	quota := p.outbox().Quota(hook.Chat())
	for m := r.outgoing(hook.Chat(), p.now()); m.PartsSent < len(m.Parts); m.PartsSent++ {
		for {
			wait := quota.Take(p.now(), perWrite(cfg), burst, true)
			if wait == 0 {
				break
			}
			if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
				return first, &QuotaError{wait, quota.Why(p.now())}
			}
			sleep(ctx, wait)
		}
		done, err := hook.Post(ctx, partPost(m))
		if gchat.TooMany(err) {
			p.holdBack(quota, perWrite(cfg), err)
		}
		if err != nil {
			return first, err
		}
		if m.PartsSent == 0 {
			first = done
		}
	}
	return first, nil
}
