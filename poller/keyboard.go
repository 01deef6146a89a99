package poller

import (
	"cmp"
	"context"
	"strings"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

const (
	lookEvery = time.Second      // at the keyboard of a session whose dialog is hidden
	lookBound = time.Second      // for tmux to answer
	lookPause = 10 * time.Second // after a look that saw nothing
	// In its terminals the session says so often, and for so long, that something waits:
	// tmux 3.3a draws nothing else there meanwhile.
	noticeEvery, noticeFor = 10 * time.Second, 2 * time.Second
)

// keys is what one look at a session's terminals saw.
type keys struct {
	at      time.Time // when it began
	due     time.Time // when the next one is to begin
	known   bool      // tmux answered, and no client is in control mode
	typed   time.Time // the last key, in whole seconds; zero for none
	noticed time.Time // when the terminals were last told that something waits
}

// hideDialog hands a hidden dialog over to the terminal where it may not be hidden: see
// state.CanHoldDialog. No key may be under way then, so a look at the keyboard is to say that.
func (p *Poller) hideDialog(ctx context.Context, s *served) (next time.Time) {
	now, cfg := p.Now(), p.config(configuredFor(s.q, s.IndexEntry))
	if s.q.Kind.Traits().IsPersonal {
		cfg = p.personal()
	}
	holding := state.HoldConditions{HasAnswerer: cfg.HasPersonFor(s.q.Kind), WaitWithoutKeys: cfg.BackgroundWait}
	saw := cmp.Or(s.seen.Load(), &keys{})
	holding.CanSeeKeys, holding.LastKeyAt = saw.known, saw.typed
	hold, until := state.CanHoldDialog(s.q, holding, now)
	quiet := state.EarliestDialogTime(s.q, holding)
	hasPane := s.TmuxPane != "" && !inject.Elsewhere(s.q.ClaudeStart)
	looked := !hasPane || !saw.at.IsZero()
	sawQuiet := looked && (!saw.known || !saw.at.Before(quiet))
	switch {
	case !hold && now.Before(quiet):
		until = quiet
	case !hold && sawQuiet:
		if s.q.Kind.Traits().AsksForValues {
			p.noteFormEnd(s) // the key may have been Esc
		}
		p.change(s, "dialog not handed over", func(q *state.Question) { q.HandOver(now) })
		return time.Time{}
	}
	if !hasPane {
		return until
	}
	if !hold && !now.Before(quiet) || !now.Before(saw.due) {
		p.lookAtKeyboard(ctx, s, saw.noticed)
		return time.Time{} // it wakes the loop
	}
	return sooner(until, saw.due)
}

// lookAtKeyboard looks at the terminals that show a session, beside the loop: a tmux that does
// not answer holds nobody up. Whoever sits there is told that something waits.
func (p *Poller) lookAtKeyboard(ctx context.Context, s *served, noticed time.Time) {
	if !s.looking.CompareAndSwap(false, true) {
		return
	}
	words := strings.ToLower("a " + s.q.Kind.Traits().Title + " waits: press a key")
	server, pane := inject.Server{Socket: s.TmuxSocket}, s.TmuxPane
	p.beside("look at the keyboard", func() {
		defer s.looking.Store(false)
		ctx, cancel := context.WithTimeout(ctx, lookBound)
		defer cancel()
		saw := &keys{at: p.Now(), noticed: noticed}
		clients, err := server.Clients(ctx, pane)
		saw.known = err == nil
		for _, c := range clients {
			if c.Typed.After(saw.typed) {
				saw.typed = c.Typed
			}
			saw.known = saw.known && !c.Control
		}
		saw.due = saw.at.Add(lookEvery)
		if !saw.known {
			saw.due = saw.at.Add(lookPause)
		}
		defer s.seen.Store(saw)
		if saw.at.Sub(saw.noticed) < noticeEvery || saw.at.Sub(saw.typed) < state.MaxKeyAge {
			return
		}
		saw.noticed = saw.at
		for _, c := range clients {
			p.Log.ErrorOnce(server.Notice(ctx, c, noticeFor, words), "terminal not told that something waits")
		}
	})
}
