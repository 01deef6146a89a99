package poller

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

const (
	// busy is when to come again where another process sends: it may have begun before our message was there.
	busy = 20 * time.Millisecond
	// diskPause is when to come again after something could not be written down: without that no pace is kept.
	diskPause = 2 * time.Second
	// burst is how many messages may leave at once before the pace is held. Questions may go a little beyond it, so that
	// none waits behind a flood of reports.
	burst         = 10
	questionBurst = burst + 3
)

// Left is what a pass over the outbox leaves.
type Left struct {
	Sent      int       // messages that the pass sent
	Again     time.Time // when to come again for what failed, is over the allowance or is another's turn; zero for nothing
	HeldUntil time.Time // when the first that is held back is due; zero for none
	Busy      bool      // another process sends
	Questions int       // that are not in their space
	GaveUp    bool      // it went on failing
}

// sender is one pass over the outbox.
type sender struct {
	*Poller
	box    state.Outbox
	enough func() bool         // nil: go on while something can be sent
	loaded map[string]*letter  // by path
	ways   map[string]*gateway // by project: what a person mends counts from the next pass on
	left   Left
}

// Send sends what may be sent now: in order within each thread, the urgent first, and within what the space allows.
func (p *Poller) Send(ctx context.Context) Left { return p.SendUntil(ctx, "", nil) }

// SendUntil is Send to one chat only, "" for all, that ends as soon as enough, asked between two messages, says so.
func (p *Poller) SendUntil(ctx context.Context, only string, enough func() bool) Left {
	s := p.sender(enough)
	var done []string // chats
	for ctx.Err() == nil {
		chat := s.nextChat(ctx, only, done)
		if chat == "" {
			return s.left
		}
		done = append(done, chat)
		s.sendTo(ctx, chat)
	}
	s.again(s.now())
	return s.left
}

// sendTo sends to one chat, unless another process does.
func (s *sender) sendTo(ctx context.Context, chat string) {
	if s.Stoppable {
		defer holdStop()()
	}
	lock, err := s.box.LockSender(chat)
	switch {
	case errors.Is(err, state.ErrLocked):
		s.left.Busy = true
		s.again(s.now().Add(busy))
	case err != nil:
		s.Log.Error().Err(err).Msg("lock outbox")
		s.again(s.now().Add(diskPause))
	default:
		defer lock.Unlock()
		clear(s.loaded) // others may have rewritten what they sent until now
		s.toChat(ctx, chat)
	}
}

func (p *Poller) sender(enough func() bool) *sender {
	return &sender{Poller: p, box: p.outbox(), enough: enough, loaded: map[string]*letter{}, ways: map[string]*gateway{}}
}

func (p *Poller) outbox() state.Outbox { return state.OutboxIn(p.user()) }

func (s *sender) again(at time.Time) { s.left.Again = sooner(s.left.Again, at) }

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// nextChat is a chat that something waits for and this process has a webhook for; "" when all are done.
func (s *sender) nextChat(ctx context.Context, only string, done []string) string {
	for _, lane := range s.lanes() {
		if only != "" && lane[0].NeverTo(only) || slices.ContainsFunc(done, lane[0].OnlyTo) {
			continue
		}
		for _, q := range lane {
			l := s.letter(ctx, q.Path)
			if l == nil || l.hook == nil {
				continue // another environment's: a process with its webhook sends it
			}
			if chat := l.hook.Chat(); (only == "" || chat == only) && !slices.Contains(done, chat) {
				return chat
			}
			break
		}
	}
	return ""
}

// lanes are the lanes of the outbox, those with the oldest message first.
func (s *sender) lanes() [][]state.Queued {
	lanes, err := s.box.Queue()
	if err != nil {
		s.Log.Error().Err(err).Msg("read outbox")
		s.again(s.now().Add(diskPause))
	}
	return lanes
}

// toChat sends what goes to one chat. The caller holds its sender lock.
func (s *sender) toChat(ctx context.Context, chat string) {
	quota := s.box.Quota(chat)
	for ctx.Err() == nil {
		if s.enough != nil && s.enough() || s.Stoppable && ctrlZ.asked.Load() {
			s.again(s.now())
			return
		}
		lane, next, held := s.first(ctx, chat, quota.PausedUntil(s.now()))
		if lane == nil {
			s.again(next)
			s.left.HeldUntil = sooner(s.left.HeldUntil, held)
			return
		}
		m := s.letter(ctx, lane[0].Path)
		done, err := s.box.Settle(m.Outgoing)
		if err == nil && !done {
			if wait := quota.Take(s.now(), perWrite(m.cfg), burst, s.probes(m)); wait > 0 {
				s.again(s.now().Add(wait))
				return
			}
			if err = s.merge(ctx, m, lane[1:]); err == nil {
				var at time.Time
				if at, err = s.send(ctx, quota, m); !at.IsZero() {
					s.again(at)
					return
				}
			}
		}
		if delete(s.loaded, m.Path); err != nil {
			s.Log.Error().Err(err).Msg("outbox not written; sending waits")
			s.again(s.now().Add(diskPause))
			return
		}
	}
}

// perWrite is the time that one write to a space takes of the quota.
func perWrite(cfg *state.Config) time.Duration {
	return time.Minute / time.Duration(cfg.WritesPerMinute)
}

// first is the lane that goes next, from the message on that is to be sent: of those that are due an urgent one, then the
// oldest. With none it is nil; next is when one that failed is due again, held when one that is held back is. Within a
// lane what is held back, and what another process has to send, lets the others pass; what failed does not.
func (s *sender) first(ctx context.Context, chat string,
	paused map[string]time.Time) (lane []state.Queued, next, held time.Time) {
	urgent := false
	for _, l := range s.lanes() {
		if l[0].NeverTo(chat) {
			continue
		}
	within:
		for i, q := range l {
			m := s.letter(ctx, q.Path)
			if m == nil || m.hook == nil || m.hook.Chat() != chat {
				continue
			}
			until, isPaused := paused[m.hook.ID()]
			probing := s.probes(m)
			switch wait := m.NotBefore.Sub(s.now()); {
			case isPaused && !probing:
				next = sooner(next, until)
				break within
			case wait > 0 && m.Tries == 0:
				held = sooner(held, m.NotBefore)
			case wait > 0 && wait <= maxRetry && !probing:
				next = sooner(next, m.NotBefore)
				break within
			case !m.quiet.IsZero():
				held = sooner(held, m.quiet)
			default:
				if lane == nil || m.Urgent && !urgent {
					lane, urgent = l[i:], m.Urgent
				}
				break within
			}
		}
	}
	return lane, next, held
}

// probes says whether a message is to be tried whatever earlier failures say.
func (s *sender) probes(m *letter) bool {
	_, done := s.probed.Load(m.Path)
	return s.Probe && !done
}

// maxRetry is the longest that a message that failed waits; what says more comes from a clock that was set back.
const maxRetry = time.Hour

// send tries one message, a part of it. It returns when its chat may be tried again, zero for at once, and what could not
// be written down.
func (s *sender) send(ctx context.Context, quota state.Quota, m *letter) (again time.Time, err error) {
	s.probed.Store(m.Path, true)
	if tried := s.box.Tried(m.Outgoing); !tried.IsZero() {
		if name, ok := s.lookFor(ctx, m, tried); ok {
			return time.Time{}, s.sentPart(m, name)
		}
	}
	first, err := s.box.Try(m.Outgoing)
	if err != nil {
		return time.Time{}, err // without this a message could be sent twice where Chat does not know its id
	}
	done, err := m.hook.Post(ctx, partPost(m.Outgoing))
	if gchat.AlreadyExists(err) {
		err = nil
		if s.reads(m.cfg, m.hook) {
			done = s.lookUp(ctx, m.cfg, m.hook, partID(m.Outgoing))
		}
	}
	if err == nil {
		quota.Worked(m.hook.ID(), m.ProjectDir, s.now())
		s.left.Sent++
		return time.Time{}, s.sentPart(m, done)
	}
	if ctx.Err() != nil {
		return s.now(), nil // cut by ourselves: it may have arrived, and no fault of Chat's
	}
	if first && !gchat.MayHaveArrived(err) && !gchat.TooMany(err) {
		s.box.NotTried(m.Outgoing)
	}
	return s.notSent(quota, m, err)
}

// sentPart writes down that a part is in its space.
func (s *sender) sentPart(m *letter, p gchat.Posted) error {
	if m.PartsSent+1 == len(m.Parts) {
		return s.box.Sent(m.Outgoing, state.Receipt{Name: p.Name, ThreadName: p.ThreadName})
	}
	m.PartsSent++
	m.Tries = 0
	if err := s.box.Rewrite(m.Outgoing); err != nil {
		return err
	}
	s.box.NotTried(m.Outgoing) // the next part was not
	return nil
}

// partPost is the part of a message that goes next.
func partPost(m *state.Outgoing) gchat.Post {
	return gchat.Post{
		Text: m.Parts[m.PartsSent], ThreadName: m.ThreadName, ThreadKey: m.ThreadKey, MessageID: partID(m),
	}
}

// partID is the id that Chat keeps one message of.
func partID(m *state.Outgoing) string {
	if m.PartsSent == 0 {
		return m.MessageID
	}
	return messageID(m.MessageID, "part", m.Parts[m.PartsSent], strconv.Itoa(m.PartsSent))
}
