package poller

import (
	"context"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// Send sends what is due in the outbox, in order within each thread, unless another process is at it: that one then
// takes these along. It reports whether messages are left.
func (p *Poller) Send(ctx context.Context) (left bool) {
	box := state.OutboxIn(p.user())
	for ctx.Err() == nil {
		lock, err := box.LockSender()
		if err != nil {
			return true
		}
		left, sent := p.sendDue(ctx, box)
		lock.Unlock()
		if sent == 0 {
			return left
		}
		// Look again after letting go: what was put while we held the lock has nobody else.
	}
	return true
}

func (p *Poller) sendDue(ctx context.Context, box state.Outbox) (left bool, sent int) {
	ms, bad := box.Waiting()
	for _, err := range bad {
		p.Log.Error().Err(err).Msg("outgoing message set aside")
	}
	stuck := map[string]bool{} // threads whose earlier message waits: the later ones wait behind it
	for _, m := range ms {
		thread := m.Chat + m.ThreadName + m.ThreadKey
		if p.now().Sub(m.CreatedAt) > state.MaxAge {
			_ = box.Drop(m)
			continue
		}
		hook := p.webhookFor(ctx, m)
		if hook == nil {
			continue // another environment's: whoever has it sends it
		}
		if ctx.Err() != nil || stuck[thread] || p.now().Before(m.NotBefore) {
			left, stuck[thread] = true, true
			continue
		}
		_, err := hook.Post(ctx, gchat.Post{Text: m.Text, ThreadName: m.ThreadName, ThreadKey: m.ThreadKey, MessageID: m.MessageID})
		if err == nil || gchat.AlreadyExists(err) {
			if err := box.Sent(m); err != nil {
				p.Log.Error().Err(err).Msg("sent message not taken out of the outbox")
				return true, sent
			}
			sent++
			continue
		}
		left, stuck[thread] = true, true
		if ctx.Err() != nil {
			continue
		}
		p.Log.Error().Str("error", p.Log.Clean(err.Error())).Str("hint", gchat.Hint(err)).Int("tries", m.Tries+1).Msg("message not sent; it stays in the outbox")
		pause := max(min(time.Second<<min(m.Tries, 8), mostBackup), gchat.RetryAfter(err))
		if err := box.Failed(m, p.Log.Clean(err.Error()), p.now().Add(pause)); err != nil {
			p.Log.Error().Err(err).Msg("outbox not written")
		}
	}
	return left, sent
}

// webhookFor is the webhook that a message goes through; nil when this process's configuration is not for where it goes.
func (p *Poller) webhookFor(ctx context.Context, m *state.Outgoing) *gchat.Webhook {
	hook, err := p.webhook(ctx, p.config(m.ProjectDir))
	if err != nil || hook.Chat() != m.Chat {
		return nil
	}
	return hook
}
