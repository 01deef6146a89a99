package poller

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

const (
	pullsAtOnce = 2                      // while one is answered, another waits at Google
	pullOnce    = 2 * time.Second        // for an event, in a single round
	emptyPause  = 100 * time.Millisecond // at least, between two pulls that end with nothing
)

// events are what the Chat app hears from its subscription. Pulls run beside the loop. Each
// writes down what it got, and then acknowledges it: what is not written down comes again.
type events struct {
	mu      sync.Mutex
	pulling int
	again   time.Time // no pull before
	failed  int       // pulls one after another
	asked   bool      // Chat itself asked for the pause
	good    time.Time // when the last pull began that was answered, and all of it written down
	lock    *state.Lock
	of      string // the subscription
}

// turnTo takes up a subscription, "" for none.
func (e *events) turnTo(subscription string, lock *state.Lock) {
	e.mu.Lock()
	defer e.mu.Unlock()
	release(&e.lock)
	e.of, e.lock = subscription, lock
}

// wakeUp has the next pull begin at once.
func (e *events) wakeUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.asked {
		e.failed, e.again = 0, time.Time{}
	}
}

// keepPulling keeps the pulls of an app's events going. It returns when to come again.
func (p *Poller) keepPulling(ctx context.Context, hearsEvents bool) (next time.Time) {
	if !hearsEvents {
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
	defer e.mu.Unlock()
	for now := p.Now(); e.pulling < pullsAtOnce; e.pulling++ {
		if now.Before(e.again) {
			return e.again
		}
		p.beside("pull", func() { p.pull(ctx, from) })
	}
	return time.Time{}
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
	p.Log.ErrorOnce(err, "subscription's lock") // better two processes that pull than none
	p.events.turnTo(from.ID(), lock)
	return true
}

func (p *Poller) pull(ctx context.Context, from eventSource) {
	began := p.Now()
	got, err := from.Pull(ctx)
	isAllTaken := p.takeEvents(ctx, from, got)
	e := &p.events
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pulling--
	switch {
	case ctx.Err() != nil || e.of != from.ID():
	case errors.Is(err, gchat.ErrConnectionLost):
		p.Log.ErrorOnce(err, "pulled again over a new connection") // each of the pulls under way loses it
	case err != nil:
		e.failed++
		e.asked = gchat.TooMany(err)
		e.again = p.Now().Add(max(gchat.RetryAfter(err), backoff(time.Second, e.failed)))
		p.Log.Error().Str("error", p.Log.Redact(err.Error())).Str("hint", gchat.Hint(err)).Str("until", readAgain).
			Str("chat", from.Chat()).Msg("taps and messages to the app cannot be read")
		if gchat.AuthFailure(err) {
			p.ways.renew()
		}
	default:
		if e.failed > 0 {
			p.Log.Info().Str("chat", from.Chat()).Msg(readAgain)
		}
		e.failed, e.again, e.asked = 0, time.Time{}, false
		if isAllTaken {
			e.good = began
		}
		if len(got) == 0 || !isAllTaken {
			e.again = began.Add(emptyPause) // Google waits, and what stands in for it may not
		}
	}
}

// takeEvents writes down what people did, and then acknowledges it.
func (p *Poller) takeEvents(ctx context.Context, from eventSource, got []gchat.Pulled) (all bool) {
	var taken []string
	for _, one := range got {
		err := p.takeEvent(from, one)
		if err != nil {
			p.Log.ErrorOnce(err, "an event is not written down: it comes again")
			continue
		}
		taken = append(taken, one.AckID)
	}
	if len(taken) > 0 {
		err := from.Ack(context.WithoutCancel(ctx), taken)
		p.Log.ErrorOnce(err, "events not acknowledged: they come again, and are known then")
	}
	return len(taken) == len(got)
}

func (p *Poller) takeEvent(from eventSource, one gchat.Pulled) error {
	host, _, _ := strings.Cut(from.Chat(), "/")
	chat := host + "/" + one.Message.Space()
	switch {
	case one.Err != nil:
		p.Log.ErrorOnce(one.Err, "event not understood")
	case !one.Human, p.Now().Sub(one.At) > state.MaxQuestionAge:
	case one.Tap != nil:
		if from.Foreign(one.Tap) && p.ofCard(one.Tap.Question) == nil {
			return nil // of another machine, which hears it, too
		}
		return p.take(incomingOfTap(chat, one))
	case one.Type == "MESSAGE":
		in := incomingOf(chat, one.Message, 0)
		in.EventID = one.ID
		return p.take(in)
	}
	return nil
}
