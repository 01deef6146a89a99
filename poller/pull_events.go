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
	maxPulls        = 2                      // while one is answered, another waits at Google
	oncePullTimeout = 2 * time.Second        // for an event, in a single round
	emptyPullPause  = 100 * time.Millisecond // at least, between two pulls that end with nothing
)

// eventPuller are what the Chat app hears from its subscription. Pulls run beside the
// loop. Each writes down what it got, and then acknowledges it: what is not written down
// comes again.
type eventPuller struct {
	mu           sync.Mutex
	runningPulls int
	nextPullAt   time.Time // no pull before
	failedPulls  int       // pulls one after another
	isPauseAsked bool      // Chat itself asked for the pause
	lastGoodPull time.Time // when the last pull began that was answered, and all of it written down
	lock         *state.Lock
	subscription string // the subscription
}

// switchTo takes up a subscription, "" for none.
func (e *eventPuller) switchTo(subscription string, lock *state.Lock) {
	e.mu.Lock()
	defer e.mu.Unlock()
	release(&e.lock)
	e.subscription, e.lock = subscription, lock
}

// retryAfterSleep has the next pull begin at once.
func (e *eventPuller) retryAfterSleep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.isPauseAsked {
		e.failedPulls, e.nextPullAt = 0, time.Time{}
	}
}

// keepPulling keeps the pulls of an app's events going. It returns when to come again.
func (p *Poller) keepPulling(ctx context.Context, receivesEvents bool) (next time.Time) {
	if !receivesEvents {
		if p.puller.subscription != "" {
			p.puller.switchTo("", nil)
		}
		return time.Time{}
	}
	gateway := p.gatewayFor(ctx, configSource{projectDir: p.userStateDir})
	events := gateway.eventSource()
	if events == nil || !p.takeSubscription(events) {
		return time.Time{}
	}
	puller := &p.puller
	puller.mu.Lock()
	defer puller.mu.Unlock()
	for now := p.Now(); puller.runningPulls < maxPulls; puller.runningPulls++ {
		if now.Before(puller.nextPullAt) {
			return puller.nextPullAt
		}
		p.runInBackground("pull", func() { p.pullEvents(ctx, events) })
	}
	return time.Time{}
}

// takeSubscription has this process take the events of a subscription; false while
// another environment's poller does for our records.
func (p *Poller) takeSubscription(events eventSource) bool {
	if p.puller.subscription == events.ID() {
		return true
	}
	lock, err := state.SpacesIn(p.userStateDir).LockReader(events.ID())
	if errors.Is(err, state.ErrLocked) {
		p.puller.switchTo("", nil)
		return false
	}
	p.Log.ErrorOnce(err, "subscription's lock") // better two processes that pull than none
	p.puller.switchTo(events.ID(), lock)
	return true
}

func (p *Poller) pullEvents(ctx context.Context, events eventSource) {
	startedAt := p.Now()
	pulled, err := events.Pull(ctx)
	areAllAdded := p.addEvents(ctx, events, pulled)
	puller := &p.puller
	puller.mu.Lock()
	defer puller.mu.Unlock()
	puller.runningPulls--
	switch {
	case ctx.Err() != nil || puller.subscription != events.ID():
	case errors.Is(err, gchat.ErrConnectionLost):
		// each of the pulls under way loses it
		p.Log.ErrorOnce(err, "pulled again over a new connection")
	case err != nil:
		puller.failedPulls++
		puller.isPauseAsked = gchat.IsRateLimited(err)
		puller.nextPullAt = p.Now().
			Add(max(gchat.RetryAfter(err), backoff(time.Second, puller.failedPulls)))
		p.Log.Error().
			Str("error", p.Log.Redact(err.Error())).
			Str("hint", gchat.Hint(err)).
			Str("until", logReadAgain).
			Str("chat", events.Chat()).
			Msg("taps and messages to the app cannot be read")
		if gchat.IsAuthFailure(err) {
			p.gateways.reset()
		}
	default:
		if puller.failedPulls > 0 {
			p.Log.Info().Str("chat", events.Chat()).Msg(logReadAgain)
		}
		puller.failedPulls, puller.nextPullAt, puller.isPauseAsked = 0, time.Time{}, false
		if areAllAdded {
			puller.lastGoodPull = startedAt
		}
		if len(pulled) == 0 || !areAllAdded {
			// Google waits, and what stands in for it may not
			puller.nextPullAt = startedAt.Add(emptyPullPause)
		}
	}
}

// addEvents writes down what people did, and then acknowledges it.
func (p *Poller) addEvents(
	ctx context.Context,
	events eventSource,
	pulled []gchat.PulledEvent,
) (areAllAdded bool) {
	var ackIDs []string
	for _, event := range pulled {
		err := p.addEvent(events, event)
		if err != nil {
			p.Log.ErrorOnce(err, "an event is not written down: it comes again")
			continue
		}
		ackIDs = append(ackIDs, event.AckID)
	}
	if len(ackIDs) > 0 {
		err := events.Ack(context.WithoutCancel(ctx), ackIDs)
		p.Log.ErrorOnce(err, "events not acknowledged: they come again, and are known then")
	}
	return len(ackIDs) == len(pulled)
}

func (p *Poller) addEvent(events eventSource, event gchat.PulledEvent) error {
	host, _, _ := strings.Cut(events.Chat(), "/")
	chat := host + "/" + event.Message.Space()
	switch {
	case event.Err != nil:
		p.Log.ErrorOnce(event.Err, "event not understood")
	case !event.IsHuman, p.Now().Sub(event.At) > state.MaxQuestionAge:
	case event.Tap != nil:
		if events.IsForOtherMachine(event.Tap) && p.recordOfCard(event.Tap.QuestionID) == nil {
			return nil // of another machine, which hears it, too
		}
		return p.addIncoming(newIncomingTap(chat, event))
	case event.Type == "MESSAGE":
		in := newIncoming(chat, event.Message, 0)
		in.EventID = event.ID
		return p.addIncoming(in)
	}
	return nil
}
