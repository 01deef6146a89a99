package poller

import (
	"context"
	"time"

	"gchat-hooks/poller/service"
	"gchat-hooks/state"
)

// clockJump is how much later than asked for the loop wakes when the machine slept.
const clockJump = time.Minute

// wakeUp begins anew after the machine slept: what failed before, or while a Mac woke for a moment without its network, says
// nothing. Only what Chat asked for itself is kept.
func (p *Poller) wakeUp() {
	p.awake = p.Now()
	p.closeReaders(nil)
	p.events.wakeUp()
	p.sender.wakeUp()
	p.Log.Info().Msg("the machine slept: what was put off is tried at once")
}

// wakeUp has the next pull begin at once.
func (e *events) wakeUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.asked {
		e.failed, e.again = 0, time.Time{}
	}
}

// wakeUp has messages tried at once that wait for their space, unless Chat itself asked for the pause.
func (s *sender) wakeUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.later)
	clear(s.waits)
	all, _ := s.spaces.All()
	for _, of := range all {
		if of.NotBefore.IsZero() || of.Asked {
			continue
		}
		_, err := s.spaces.Change(of.Chat, func(space *state.Space) { space.Failures, space.NotBefore = 0, time.Time{} })
		s.Log.Once(err, "a space's pause not ended")
	}
}

// keepAwake has the machine stay awake while a question is open, where its person wants that.
func (p *Poller) keepAwake(wanted bool) {
	if !wanted {
		p.letSleep()
		p.letSleep = nil
		return
	}
	ctx, end := context.WithCancel(context.Background())
	p.letSleep = end
	p.beside("keep awake", func() { p.Log.Once(service.KeepAwake(ctx), "the machine is not kept awake") })
}
