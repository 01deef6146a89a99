package poller

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
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

// letter is a waiting message with the way that it goes.
type letter struct {
	*state.Outgoing
	cfg   *state.Config
	hook  *gchat.Webhook // nil when this process has none for it
	quiet time.Time      // when the quiet hours end that hold it now; zero for none
}

// gateway is what a project's configuration says in this process's environment.
type gateway struct {
	cfg  *state.Config
	hook *gchat.Webhook
	err  error // of the command that prints the webhook
}

// letter loads a message, once a pass; nil when it is gone or cannot be read.
func (s *sender) letter(ctx context.Context, path string) *letter {
	if l, ok := s.loaded[path]; ok {
		return l
	}
	m, err := s.box.Load(path)
	if err != nil {
		s.Log.Error().Err(err).Msg("outgoing message not read")
	}
	if m == nil {
		s.loaded[path] = nil
		return nil
	}
	l := &letter{Outgoing: m}
	way := s.way(ctx, m)
	l.cfg, l.hook = way.cfg, way.hook
	if hook := way.hook; hook != nil && hook.Chat() != m.Chat && (m.Chat != "" || m.Command != commandID(way.cfg)) {
		l.hook = nil
	}
	if !m.Urgent && m.Kind != noteKind && !s.Loud {
		// What was put before the quiet hours and could not be sent is held in them all the same.
		if end, quiet := way.cfg.Quiet.Until(s.now()); quiet {
			l.quiet = end
		}
	}
	s.loaded[path] = l
	return l
}

// way is how the messages of m's project go. A command for the webhook is run for this process's own project only, since
// what it prints depends on who runs it; the daemon, which belongs to no project, runs those of all.
func (s *sender) way(ctx context.Context, m *state.Outgoing) *gateway {
	if w := s.ways[m.ProjectDir]; w != nil {
		return w
	}
	w := &gateway{cfg: s.config(m.ProjectDir)}
	if w.cfg.WebhookURL != "" || w.cfg.WebhookCommand != "" && (s.Steady || s.ours(m.ProjectDir)) {
		w.hook, w.err = s.webhook(ctx, w.cfg)
	}
	if w.err != nil && w.cfg.WebhookCommand != "" {
		s.Log.Error().Str("error", s.Log.Clean(w.err.Error())).Msg("the webhook could not be found out; messages wait")
		s.again(s.now().Add(commandPause))
	}
	s.ways[m.ProjectDir] = w
	return w
}

// commandPause is when a command that printed no webhook is asked again.
const commandPause = 10 * time.Second

// commandID names the command that prints the webhook, without its words; "" when there is none.
func commandID(cfg *state.Config) string {
	if cfg.WebhookCommand == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(cfg.WebhookCommand))
	return hex.EncodeToString(sum[:8])
}

// merge makes one message of m and those behind it in its lane, where that is wanted and m was never tried.
func (s *sender) merge(ctx context.Context, m *letter, behind []state.Queued) error {
	if len(m.Merged) > 0 {
		return s.box.Absorb(m.Outgoing)
	}
	if !m.Low && !m.Digest || m.PartsSent > 0 || !s.box.Tried(m.Outgoing).IsZero() {
		return nil
	}
	parts, size, others := slices.Clone(m.Parts), textSize(m.Parts), []*state.Outgoing(nil)
	for _, q := range behind {
		next := s.letter(ctx, q.Path)
		if next == nil || next.hook == nil {
			continue // gone, or another process's: as if it stood elsewhere
		}
		if !together(m.Outgoing, next.Outgoing) || s.now().Before(next.NotBefore) || next.hook.ID() != m.hook.ID() ||
			!s.box.Tried(next.Outgoing).IsZero() || len(next.Merged) > 0 {
			break
		}
		if size += textSize(next.Parts); size > mergedSize(m.Outgoing) {
			break
		}
		parts, others = append(parts, next.Parts...), append(others, next.Outgoing)
	}
	for _, o := range others {
		delete(s.loaded, o.Path)
	}
	switch {
	case m.Digest:
		parts = gchat.Digest(parts, 1+len(others))
	case len(others) > 0:
		parts = []string{gchat.Together(parts)}
	default:
		return nil
	}
	return s.box.Merge(m.Outgoing, others, parts)
}

// together says whether b may go in one message with a, which stands before it.
func together(a, b *state.Outgoing) bool {
	if a.Digest || b.Digest {
		return a.Digest && b.Digest
	}
	return a.Low && b.Low && a.SessionID != "" && a.SessionID == b.SessionID && len(a.Parts) == 1 && len(b.Parts) == 1
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

// lookFor looks whether a message that was tried is in its space, where messages can be read. Chat's own rule, one message
// for an id, is documented; whether it holds for webhooks was not measured, so the space is asked before the second try.
func (s *sender) lookFor(ctx context.Context, m *letter, tried time.Time) (gchat.Posted, bool) {
	if !s.reads(m.cfg, m.hook) {
		return gchat.Posted{}, false
	}
	r, err := gchat.NewReader(ctx, s.endpoint(m.cfg, m.hook), m.cfg.CredentialsFile)
	if err != nil {
		return gchat.Posted{}, false
	}
	id, text, found := partID(m.Outgoing), m.Parts[m.PartsSent], gchat.Posted{}
	known, threads := s.box.Known()
	_, err = r.Since(ctx, m.hook.Space, tried.Add(-clockSlack), func(page []gchat.Message) {
		since := tried.Add(-clocksApart)
		if ahead, ok := r.Ahead(); ok {
			since = tried.Add(ahead - dateTells)
		}
		for _, got := range page {
			// Where Chat tells no ids, what says the same in the same thread, and is none that we know of.
			same := got.ClientID == id || got.ClientID == "" && !got.Human && !known[got.Name] && sameText(got.Text, text) &&
				sameThread(got, m.Outgoing, threads, since)
			if same && found.Name == "" && !got.Deleted {
				found = gchat.Posted{Name: got.Name, ThreadName: got.ThreadName, ServerTime: got.CreateTime}
			}
		}
	})
	if err != nil {
		s.Log.Warn().Str("error", s.Log.Clean(err.Error())).Msg("cannot look whether a message arrived; its id has to do")
	}
	return found, found.Name != ""
}

// reads says whether reading is configured. Looking for Application Default Credentials would ask the network.
func (s *sender) reads(cfg *state.Config, hook *gchat.Webhook) bool {
	return cfg.CredentialsFile != "" && cfg.CredentialsFile != state.NoCredentials || s.endpoint(cfg, hook) != ""
}

// sameText compares as far as Chat keeps a text: it trims it.
func sameText(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

const (
	// clocksApart is how far Chat's clock and ours may differ, where it does not tell its own.
	clocksApart = 2 * time.Minute
	// dateTells is how exactly it tells: to the second, and an answer takes its time.
	dateTells = 2 * time.Second
)

// sameThread says whether a message stands in m's thread, as far as that can be told: by its name, which a key has once a
// message of ours arrived there, by the key, and else by its being no older than the try.
func sameThread(got gchat.Message, m *state.Outgoing, threads map[string]string, since time.Time) bool {
	name := cmp.Or(m.ThreadName, threads[m.ThreadKey])
	switch {
	case name != "":
		return got.ThreadName == name
	case m.ThreadKey != "" && got.ThreadKey != "":
		return got.ThreadKey == m.ThreadKey
	}
	return got.CreateTime.After(since)
}
