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
	// tooOld is how long a message waits for its space before it is put aside.
	tooOld = 7 * 24 * time.Hour
	// busy is when to come again where another process sends: it may have begun before our message was there.
	busy = 20 * time.Millisecond
)

// sender is one pass over the outbox.
type sender struct {
	*Poller
	box    state.Outbox
	enough func() bool              // nil: go on while something can be sent
	loaded map[string]*letter       // by path
	cfgs   map[string]*state.Config // by project: what a person mends counts from the next pass on
	left   Left
}

// letter is a waiting message with the webhook that it goes through; nil when this process has none for it.
type letter struct {
	*state.Outgoing
	cfg  *state.Config
	hook *gchat.Webhook
}

// Left is what a pass over the outbox leaves.
type Left struct {
	Sent      int       // messages that the pass sent
	Again     time.Time // when to come again for what failed, is over the allowance or is another's turn; zero for nothing
	HeldUntil time.Time // when the first that is held back is due; zero for none
	Questions int       // that are not in their space
	GaveUp    bool      // it went on failing
}

// Send sends what may be sent now: in order within each thread, the urgent first, and within what the space allows.
func (p *Poller) Send(ctx context.Context) Left { return p.SendUntil(ctx, nil) }

// SendUntil is Send that also ends as soon as enough, asked between two messages, says so.
func (p *Poller) SendUntil(ctx context.Context, enough func() bool) Left {
	s := p.sender(enough)
	var done []string // chats
	for ctx.Err() == nil {
		chat := ""
		for _, lane := range s.lanes() {
			if slices.ContainsFunc(done, lane[0].OnlyTo) {
				continue
			}
			if head := s.letter(ctx, lane[0].Path); head != nil && head.hook != nil && !slices.Contains(done, head.hook.Chat()) {
				chat = head.hook.Chat()
				break
			}
		}
		if chat == "" {
			return s.left
		}
		done = append(done, chat)
		lock, err := s.box.LockSender(chat)
		if err != nil {
			s.again(s.now().Add(busy))
			if !errors.Is(err, state.ErrLocked) {
				s.Log.Error().Err(err).Msg("lock outbox")
			}
			continue
		}
		clear(s.loaded) // others may have rewritten what they sent until now
		s.toChat(ctx, chat)
		lock.Unlock()
	}
	s.again(s.now())
	return s.left
}

func (p *Poller) sender(enough func() bool) *sender {
	return &sender{Poller: p, box: p.outbox(), enough: enough, loaded: map[string]*letter{}, cfgs: map[string]*state.Config{}}
}

func (s *sender) again(at time.Time) { s.left.Again = sooner(s.left.Again, at) }

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (p *Poller) outbox() state.Outbox { return state.OutboxIn(p.user()) }

// toChat sends what goes to one chat. The caller holds its sender lock.
func (s *sender) toChat(ctx context.Context, chat string) {
	for ctx.Err() == nil {
		if s.enough != nil && s.enough() {
			s.again(s.now())
			return
		}
		lane, next, held := s.first(ctx, chat)
		if lane == nil {
			s.again(next)
			s.left.HeldUntil = sooner(s.left.HeldUntil, held)
			return
		}
		m := s.letter(ctx, lane[0].Path)
		if s.now().Sub(m.CreatedAt) > tooOld && s.now().Sub(m.NotBefore) > tooOld {
			s.park(m, "it waited for seven days: "+m.LastError)
			continue
		}
		quota := s.box.Quota(chat)
		quota.Mended(m.hook.ID())
		if wait := quota.Take(s.now(), perWrite(m.cfg), burst); wait > 0 {
			s.again(s.now().Add(wait))
			return
		}
		s.merge(ctx, m, lane[1:])
		if at := s.send(ctx, quota, m); !at.IsZero() {
			s.again(at)
			return
		}
	}
}

const (
	// burst is how many messages may leave at once before the pace is held. Questions may go a little beyond it, so that
	// none waits behind a flood of reports.
	burst         = 10
	questionBurst = burst + 3
)

// perWrite is the time that one write to a space takes of the quota.
func perWrite(cfg *state.Config) time.Duration {
	return time.Minute / time.Duration(cfg.WritesPerMinute)
}

// first is the lane whose head goes next: of those that are due an urgent one, then the oldest. With none it is nil; next
// is when one that failed is due again, held when one that is held back is.
func (s *sender) first(ctx context.Context, chat string) (lane []state.Queued, next, held time.Time) {
	urgent := false
	for _, l := range s.lanes() {
		if l[0].NeverTo(chat) {
			continue
		}
		m := s.letter(ctx, l[0].Path)
		if m == nil || m.hook == nil || m.hook.Chat() != chat {
			continue
		}
		switch {
		case s.now().Before(m.NotBefore) && m.Tries == 0:
			held = sooner(held, m.NotBefore)
		case s.now().Before(m.NotBefore):
			next = sooner(next, m.NotBefore)
		case lane == nil || m.Urgent && !urgent:
			lane, urgent = l, m.Urgent
		}
	}
	return lane, next, held
}

// lanes are the lanes of the outbox, those with the oldest message first.
func (s *sender) lanes() [][]state.Queued {
	lanes, err := s.box.Queue()
	if err != nil {
		s.Log.Error().Err(err).Msg("read outbox")
	}
	return lanes
}

// letter loads a message, once a pass; nil when it is gone.
func (s *sender) letter(ctx context.Context, path string) *letter {
	if l, ok := s.loaded[path]; ok {
		return l
	}
	m, err := s.box.Load(path)
	if err != nil {
		s.Log.Error().Err(err).Msg("outgoing message set aside")
	}
	if m == nil {
		return nil
	}
	l := &letter{Outgoing: m}
	l.cfg, l.hook = s.webhookFor(ctx, m)
	s.loaded[path] = l
	return l
}

// webhookFor is the webhook that a message goes through; nil when this process's configuration is not for where it goes:
// whoever has it sends it.
func (s *sender) webhookFor(ctx context.Context, m *state.Outgoing) (*state.Config, *gchat.Webhook) {
	cfg := s.cfgs[m.ProjectDir]
	if cfg == nil {
		cfg = s.config(m.ProjectDir)
		s.cfgs[m.ProjectDir] = cfg
	}
	hook, err := s.webhook(ctx, cfg)
	if err != nil || hook.Chat() != m.Chat && (m.Chat != "" || !s.ours(m.ProjectDir)) {
		return cfg, nil
	}
	return cfg, hook
}

// send tries one message, part by part. It returns when its chat may be tried again; zero for at once.
func (s *sender) send(ctx context.Context, quota state.Quota, m *letter) (again time.Time) {
	if tried := s.box.Tried(m.Outgoing); !tried.IsZero() {
		if name, ok := s.lookFor(ctx, m, tried); ok {
			s.sentPart(m, name)
			return time.Time{}
		}
	}
	first, err := s.box.Try(m.Outgoing)
	if err != nil {
		// Without this a message could be sent twice where Chat does not know its id.
		s.Log.Error().Err(err).Msg("try not written down; the message waits")
		return s.now().Add(time.Second)
	}
	done, err := m.hook.Post(ctx, gchat.Post{
		Text: m.Parts[m.PartsSent], ThreadName: m.ThreadName, ThreadKey: m.ThreadKey, MessageID: partID(m.Outgoing),
	})
	if gchat.AlreadyExists(err) {
		err = nil
		if s.reads(m.cfg, m.hook) {
			done = s.lookUp(ctx, m.cfg, m.hook, partID(m.Outgoing))
		}
	}
	if err == nil {
		quota.Worked()
		s.left.Sent++
		s.sentPart(m, done)
		return time.Time{}
	}
	if ctx.Err() != nil {
		return s.now() // cut by ourselves: it may have arrived, and no fault of Chat's
	}
	if first && !gchat.MayHaveArrived(err) && !gchat.TooMany(err) {
		s.box.NotTried(m.Outgoing)
	}
	return s.notSent(quota, m, err)
}

// sentPart writes down that a part is in its space.
func (s *sender) sentPart(m *letter, p gchat.Posted) {
	delete(s.loaded, m.Path)
	var err error
	if m.PartsSent++; m.PartsSent < len(m.Parts) {
		m.Tries = 0
		err = s.box.Rewrite(m.Outgoing)
		s.box.NotTried(m.Outgoing) // the next part was not tried
	} else {
		err = s.box.Sent(m.Outgoing, state.Receipt{Name: p.Name, ThreadName: p.ThreadName})
	}
	if err != nil {
		s.Log.Error().Err(err).Msg("sent message not taken out of the outbox; its id keeps it from being doubled")
	}
}

// partID is the id that Chat keeps one message of.
func partID(m *state.Outgoing) string {
	if m.PartsSent == 0 {
		return m.MessageID
	}
	return messageID(m.MessageID, "part", m.Parts[m.PartsSent], strconv.Itoa(m.PartsSent))
}

// merge makes one message of m and those behind it in its lane, where that is wanted and m was never tried.
func (s *sender) merge(ctx context.Context, m *letter, behind []state.Queued) {
	if len(m.Merged) > 0 {
		if err := s.box.Absorb(m.Outgoing); err != nil {
			s.Log.Error().Err(err).Msg("merged messages not removed")
		}
		return
	}
	if !m.Low && !m.Digest || m.PartsSent > 0 || !s.box.Tried(m.Outgoing).IsZero() {
		return
	}
	parts, size, others := slices.Clone(m.Parts), textSize(m.Parts), []*state.Outgoing(nil)
	for _, q := range behind {
		next := s.letter(ctx, q.Path)
		if next == nil || next.hook == nil || !together(m.Outgoing, next.Outgoing) || s.now().Before(next.NotBefore) ||
			!s.box.Tried(next.Outgoing).IsZero() || len(next.Merged) > 0 {
			break
		}
		if size += textSize(next.Parts); size > mergedSize(m.Outgoing) {
			break
		}
		parts, others = append(parts, next.Parts...), append(others, next.Outgoing)
	}
	if len(others) == 0 {
		return
	}
	if err := s.box.Merge(m.Outgoing, others, gchat.Together(parts, m.Digest)); err != nil {
		s.Log.Error().Err(err).Msg("messages not merged")
	}
	for _, o := range others {
		delete(s.loaded, o.Path)
	}
}

// together says whether b may go in one message with a, which stands before it.
func together(a, b *state.Outgoing) bool {
	if a.Digest || b.Digest {
		return a.Digest && b.Digest
	}
	return a.Low && b.Low && a.SessionID == b.SessionID && len(a.Parts) == 1 && len(b.Parts) == 1
}

// mergedSize bounds a merged message: one message of low value, or a digest of several.
func mergedSize(m *state.Outgoing) int {
	if m.Digest {
		return 8 * gchat.MaxText
	}
	return gchat.MaxText
}

func textSize(texts []string) (n int) {
	for _, t := range texts {
		n += len(t) + len("\n\n")
	}
	return n
}
