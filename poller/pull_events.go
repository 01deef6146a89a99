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
	maxPulls        = 2                      // while one pull is handled, another waits at Google
	oncePullTimeout = 2 * time.Second        // how long a single round waits for events
	emptyPullPause  = 100 * time.Millisecond // the least time between two pulls without events
)

// eventPuller pulls the Chat app's events from its subscription. Pulls run beside the
// loop. Each adds its events to the inbox, and then acknowledges them. Google sends an
// event once more that is not acknowledged.
type eventPuller struct {
	mu           sync.Mutex
	runningPulls int
	nextPullAt   time.Time // no pull starts before
	failedPulls  int       // failed pulls in a row
	isPauseAsked bool      // Chat itself asked for the pause
	// lastGoodPull is when the last pull began whose events are all in the inbox.
	lastGoodPull time.Time
	lock         *state.Lock // held while this process pulls from the subscription
	subscription string      // its id; "" while this process pulls from none
}

// switchTo makes a subscription the one that is pulled from; "" is for none.
func (e *eventPuller) switchTo(subscription string, lock *state.Lock) {
	e.mu.Lock()
	defer e.mu.Unlock()
	release(&e.lock)
	e.subscription, e.lock = subscription, lock
}

// retryAfterSleep lets the next pull start at once, unless Chat asked for the pause.
func (e *eventPuller) retryAfterSleep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.isPauseAsked {
		e.failedPulls, e.nextPullAt = 0, time.Time{}
	}
}

// keepPulling starts pulls of the app's events until enough are running. It returns when
// the next pull may start, or zero.
func (p *Poller) keepPulling(ctx context.Context, receivesEvents bool) (next time.Time) {
	if !receivesEvents {
		if p.puller.subscription != "" {
			p.puller.switchTo("", nil)
		}
		return time.Time{}
	}
	events := p.gatewayFor(ctx, configSource{projectDir: p.userStateDir}).eventSource()
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

// takeSubscription reports whether this process is the one that pulls from a
// subscription. It is false while another environment's poller does that, for the records
// of all environments.
func (p *Poller) takeSubscription(events eventSource) bool {
	if p.puller.subscription == events.ID() {
		return true
	}
	lock, err := state.SpacesIn(p.userStateDir).LockReader(events.ID())
	if errors.Is(err, state.ErrLocked) {
		p.puller.switchTo("", nil)
		return false
	}
	// Without a lock this process pulls as well: two that pull are better than none.
	p.Log.ErrorOnce(err, "subscription not locked")
	p.puller.switchTo(events.ID(), lock)
	return true
}

// pullEvents pulls once, adds the events to the inbox, and notes how that went.
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
		// All running pulls lose it at once, so it does not count as a failure.
		p.Log.ErrorOnce(err, "connection for events lost; a new one is opened")
	case err != nil:
		puller.failedPulls++
		puller.isPauseAsked = gchat.IsRateLimited(err)
		pause := max(gchat.RetryAfter(err), backoff(time.Second, puller.failedPulls))
		puller.nextPullAt = p.Now().Add(pause)
		p.Log.Error().
			Str("error", p.Log.Redact(err.Error())).
			Str("hint", gchat.Hint(err)).
			Str("until", logReadAgain).
			Str("chat", events.Chat()).
			Msg("taps and messages to the Chat app cannot be read")
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
			// Google holds an empty pull open. Another server may answer it at once.
			puller.nextPullAt = startedAt.Add(emptyPullPause)
		}
	}
}

// addEvents adds pulled events to the inbox, and then acknowledges them. It reports
// whether all were added.
func (p *Poller) addEvents(
	ctx context.Context,
	events eventSource,
	pulled []gchat.PulledEvent,
) bool {
	var ackIDs []string
	for _, event := range pulled {
		err := p.addEvent(events, event)
		if err != nil {
			p.Log.ErrorOnce(err, "event not written; Google sends it once more")
			continue
		}
		ackIDs = append(ackIDs, event.AckID)
	}
	if len(ackIDs) > 0 {
		err := events.Ack(context.WithoutCancel(ctx), ackIDs)
		p.Log.ErrorOnce(err, "events not acknowledged; Google sends them once more")
	}
	return len(ackIDs) == len(pulled)
}

// addEvent adds an event to the inbox, if it is a person's tap or message. It drops an
// event that is too old, and a tap on another machine's card.
func (p *Poller) addEvent(events eventSource, event gchat.PulledEvent) error {
	host, _, _ := strings.Cut(events.Chat(), "/")
	chat := host + "/" + event.Message.Space()
	switch {
	case event.Err != nil:
		p.Log.ErrorOnce(event.Err, "event not understood")
	case !event.IsHuman, p.Now().Sub(event.At) > state.MaxQuestionAge:
	case event.Tap != nil:
		if events.IsForOtherMachine(event.Tap) && p.recordOfCard(event.Tap.QuestionID) == nil {
			return nil // the other machine gets the same event
		}
		return p.addIncoming(newIncomingTap(chat, event))
	case event.Type == "MESSAGE":
		in := newIncoming(chat, event.Message, 0)
		in.EventID = event.ID
		return p.addIncoming(in)
	}
	return nil
}
