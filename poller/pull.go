package poller

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller/commands"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
)

const (
	pullsAtOnce = 2                      // while one is answered, another waits at Google
	pullOnce    = 2 * time.Second        // for an event, in a single round
	emptyPause  = 100 * time.Millisecond // at least, between two pulls that end with nothing
	// foreignAge is how long a tap or words that no record here knows are left to the other machines of the app, and to a record
	// that is just being written: a post's receipt may come after the reply to it.
	foreignAge = time.Minute
	silentAge  = 24 * time.Hour         // then they are too old to be answered
	keptPause  = 250 * time.Millisecond // from one try of what is left so to the next
	mostKept   = 1000                   // of that
)

// events are what the Chat app hears from its subscription. Pulls run beside the loop, which uses the events: it acknowledges
// one only when it stands in its record, so that the next poller gets it again after kill -9.
type events struct {
	mu      sync.Mutex
	heard   []gchat.Pulled // and what no record knew yet
	keeps   bool           // there is such; the loop's own
	pulling int
	again   time.Time // no pull before
	failed  int       // pulls one after another
	asked   bool      // Chat itself asked for the pause
	good    time.Time // when the last pull began that was answered
	lock    *state.Lock
	of      string // the subscription
}

// turnTo takes up a subscription, "" for none. What was heard from the one before and not used goes back to Google.
func (e *events) turnTo(subscription string, lock *state.Lock) {
	e.mu.Lock()
	defer e.mu.Unlock()
	release(&e.lock)
	e.of, e.lock, e.heard, e.keeps = subscription, lock, nil, false
}

// wakeUp has the next pull begin at once.
func (e *events) wakeUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.asked {
		e.failed, e.again = 0, time.Time{}
	}
}

// takeEvents uses what the app's people tapped and said, and keeps the pulls going. It returns when to come again.
func (p *Poller) takeEvents(ctx context.Context, subscription string) (next time.Time) {
	if subscription == "" {
		if p.events.of != "" {
			p.events.turnTo("", nil)
		}
		return time.Time{}
	}
	way := p.gateway(ctx, configured{projectDir: p.user})
	from := way.events()
	if from == nil || !p.leadEvents(from) {
		return time.Time{}
	}
	e := &p.events
	e.mu.Lock()
	heard := e.heard
	e.heard = nil
	e.mu.Unlock()
	kept := p.useEvents(ctx, from, heard)
	e.mu.Lock()
	e.heard, e.keeps = append(kept, e.heard...), len(kept) > 0
	if len(e.heard) > 0 {
		next = p.Now().Add(keptPause)
	}
	for now := p.Now(); e.pulling < pullsAtOnce; e.pulling++ {
		if now.Before(e.again) {
			next = sooner(next, e.again)
			break
		}
		p.beside("pull", func() { p.pull(ctx, from) })
	}
	e.mu.Unlock()
	return next
}

// leadEvents has this process take the events of a subscription; false while another environment's poller does for our records.
func (p *Poller) leadEvents(from eventSource) bool {
	if p.events.of == from.ID() {
		return true
	}
	lock, err := state.SpacesIn(p.user).LockReader(from.ID())
	if errors.Is(err, state.ErrLocked) {
		p.events.turnTo("", nil)
		return false
	}
	p.Log.Once(err, "subscription's lock") // better two processes that pull than none
	p.events.turnTo(from.ID(), lock)
	return true
}

func (p *Poller) pull(ctx context.Context, from eventSource) {
	began := p.Now()
	got, err := from.Pull(ctx)
	e := &p.events
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pulling--
	for i := range got {
		got[i].Heard = p.Now()
	}
	if e.of == from.ID() {
		e.heard = append(e.heard, got...)
	}
	switch {
	case ctx.Err() != nil || e.of != from.ID():
	case errors.Is(err, gchat.ErrConnectionLost):
		p.Log.Once(err, "pulled again over a new connection") // each of the pulls under way loses it
	case err != nil:
		e.failed++
		e.asked = gchat.TooMany(err)
		e.again = p.Now().Add(max(gchat.RetryAfter(err), backoff(time.Second, e.failed)))
		p.Log.Error().Str("error", p.Log.Clean(err.Error())).Str("hint", gchat.Hint(err)).Str("until", readAgain).
			Str("chat", from.Chat()).Msg("taps and messages to the app cannot be read")
		if gchat.AuthFailure(err) {
			p.ways.renew()
		}
	default:
		if e.failed > 0 {
			p.Log.Info().Str("chat", from.Chat()).Msg(readAgain)
		}
		e.failed, e.again, e.asked, e.good = 0, time.Time{}, false, began
		if len(got) == 0 {
			e.again = began.Add(emptyPause) // Google waits, and what stands in for it may not
		}
	}
}

// useEvents writes what was heard into the records that it belongs to, and then acknowledges it. It returns what no record knows
// yet: that is not acknowledged, and comes again to the next poller after kill -9.
func (p *Poller) useEvents(ctx context.Context, from eventSource, heard []gchat.Pulled) (kept []gchat.Pulled) {
	if len(heard) == 0 {
		return nil
	}
	cards := map[string]*served{}
	for _, s := range p.inOrder() {
		if s.q != nil {
			cards[state.CardID(p.Env, s.q.QuestionID)] = s
		}
	}
	slices.SortStableFunc(heard, func(a, b gchat.Pulled) int { return a.At.Compare(b.At) }) // what was done first counts first
	var done []string
	views := p.views()
	byID := map[string]int{} // of those that are kept: a delivery that came again meanwhile is the one to acknowledge
	for _, one := range heard {
		used := true
		p.safely("event", func() { used = p.useEvent(ctx, from, one, cards, views) })
		switch i, known := byID[one.ID]; {
		case used:
			done = append(done, one.AckID)
		case known:
			one.Heard = kept[i].Heard
			kept[i] = one
		case len(kept) < mostKept: // what is beyond comes again
			byID[one.ID] = len(kept)
			kept = append(kept, one)
		}
	}
	if len(done) > 0 {
		p.beside("acknowledge", func() {
			err := from.Ack(context.WithoutCancel(ctx), done)
			p.Log.Once(err, "events not acknowledged: they come again, and are known then")
		})
	}
	return kept
}

// unknownFor says what becomes of an event that no record here knows: it waits, or is passed over in silence, or is answered.
func (p *Poller) unknownFor(from eventSource, one gchat.Pulled) (waits, silent bool) {
	elsewhere := !strings.HasPrefix(one.Message.Name, spaceOf(from)+"/")
	return p.Now().Sub(one.Heard).Abs() < foreignAge, elsewhere || p.Now().Sub(one.At) > silentAge
}

// useEvent does what one event asks for. It reports false for an event that is to come again.
func (p *Poller) useEvent(ctx context.Context, from eventSource, one gchat.Pulled, cards map[string]*served,
	views map[string]*view) (used bool) {
	switch {
	case one.Err != nil:
		p.Log.Once(one.Err, "event not understood")
	case !one.Human:
	case one.Tap != nil:
		return p.useTap(ctx, from, one, cards)
	case one.Type == "MESSAGE":
		return p.writeSaid(ctx, from, one, cmp.Or(views[from.Chat()], &view{sessions: p.byThread, known: p.sessions}))
	}
	return true
}

// useTap has a tap written down that is on the very card of its question. What a card's buttons carry can be read by all in the
// space, and put on another card. A question that is just being posted does not know its card yet.
func (p *Poller) useTap(ctx context.Context, from eventSource, one gchat.Pulled, cards map[string]*served) (used bool) {
	s := cards[one.Tap.Question]
	switch {
	case s != nil && one.Message.Name != "" && one.Message.Name == s.q.MessageName:
		used = p.writeTap(s, one)
		if !used {
			delete(cards, one.Tap.Question) // its record is held by another process: one try a step is enough
		}
		return used
	case from.Foreign(one.Tap):
		return true
	}
	return p.answerStale(ctx, from, one)
}

// writeTap writes a tap into its question, once, however often it comes; who tapped is judged there.
func (p *Poller) writeTap(s *served, one gchat.Pulled) bool {
	name := "tap/" + one.ID
	law := p.lawOf(s, s.q)
	stranger := s.mine && law.forbids(s.q, one.By.Name, one.By.Email)
	q, changed, err := p.writeHeard(s, law, func(q *state.Question) bool {
		if q.Reply(name) != nil || !judge.MakeRoom(q, one.By.Name, stranger) {
			return false
		}
		_, said, _ := wording.ReadTap(q, one.Tap)
		q.Replies = append(q.Replies, state.Reply{
			MessageName: name, Sender: one.By.Name, SenderEmail: one.By.Email, DisplayName: one.By.DisplayName,
			Text: cmp.Or(said, one.Tap.Choice), Choice: one.Tap.Choice, Inputs: one.Tap.Inputs, CreateTime: one.At,
		})
		return true
	})
	if err != nil {
		p.Log.Once(err, "tap not written down")
		return errors.Is(err, fs.ErrNotExist) // its project was removed
	}
	if changed {
		s.q, s.over = q, false
	}
	return true
}

// answerStale tells a person that the card they tapped is over: no record here knows it. Where the card still has that button,
// another machine's question may be on it, which gets time to use the tap.
func (p *Poller) answerStale(ctx context.Context, from eventSource, one gchat.Pulled) (used bool) {
	waits, silent := p.unknownFor(from, one)
	if one.Tap.Stands && waits {
		return false
	}
	if silent || !p.personal().Allows(one.By.Name, one.By.Email) {
		return true
	}
	p.beside("old card", func() {
		if stands, err := from.Shows(ctx, one.Message, one.Tap.Question); !one.Tap.Stands || err != nil || stands {
			p.answerEvent(from, one, wording.OldCardText)
		} // else it was used meanwhile
	})
	return true
}

// answerEvent tells a person, and only that person where Chat can do that, what became of what they did; once, though other
// machines of theirs may hear it, too.
func (p *Poller) answerEvent(from eventSource, one gchat.Pulled, text string) {
	err := p.put(&state.Message{
		ID: gchat.OnceID(state.MessageID("event", one.ID)), Type: state.MessageNote, Parts: []string{text}, ProjectDir: p.user,
		Chat: from.Chat(), ThreadName: one.Message.ThreadName, Viewer: one.By.Name, Urgent: true, CreatedAt: p.Now().UTC(),
	})
	p.Log.Once(err, "note not put into the outbox")
}

// writeSaid gives what a person wrote to the app to the record whose thread it is in, or whose message it quotes, as a list does.
func (p *Poller) writeSaid(ctx context.Context, from eventSource, one gchat.Pulled, v *view) (used bool) {
	m := one.Message
	waits, silent := p.unknownFor(from, one)
	isNew := wording.IsNew(m.Text) && p.starts && strings.HasPrefix(m.Name, spaceOf(from)+"/")
	begins := isNew && (!from.IsShared() || strings.EqualFold(commands.Named(m.Text), state.MachineName()))
	if v.quoted(m) == nil && len(v.records[m.ThreadName]) == 0 && v.sessions[m.ThreadName] == nil && !begins {
		if waits {
			return false
		}
		follows := m.Follows()
		switch {
		case silent, !p.personal().Allows(m.Sender, m.SenderEmail):
		case isNew:
			p.beside("session of another machine", func() { p.askMachine(ctx, from, one) })
		case follows == "":
			p.answerEvent(from, one, wording.UnboundText)
		default:
			p.beside("unbound words", func() {
				concerns, err := from.Concerns(ctx, follows)
				if !concerns {
					p.Log.Once(err, "not known whose words these are")
					return
				}
				p.answerEvent(from, one, wording.UnboundText)
			})
		}
		return true
	}
	r := &reader{Poller: p, chat: from.Chat(), api: &gchat.API{}, mark: &state.Space{}, pulled: true}
	n := &pass{view: v, given: map[*state.Question][]gchat.Message{}}
	r.take(n, []gchat.Message{m})
	for q, ms := range n.given {
		if err := r.writeReplies(n.view, q, ms); err != nil {
			p.Log.Once(err, "reply not written down")
			return false
		}
	}
	p.Log.Once(n.failed, "not written down")
	return n.failed == nil
}

// askMachine asks which machine is to begin a session, unless the one that was named has told of it. Behind a hub no machine sees
// what another one tells: there the answer is given where the first word is a project of this machine, or there is none.
func (p *Poller) askMachine(ctx context.Context, from eventSource, one gchat.Pulled) {
	named := commands.Named(one.Message.Text)
	_, err := from.Find(ctx, commands.NewNoteID(one.Message.Name, named), time.Time{})
	if !gchat.Permanent(err) { // it was begun, or that is not known
		p.Log.Once(err, "not known whether a session was begun")
		return
	}
	if from.SeesOthers() || named == "" || p.room().Knows(one.Message.Text) {
		p.answerEvent(from, one, wording.NameMachineText())
	}
}
