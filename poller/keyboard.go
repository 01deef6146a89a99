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
	keyCheckInterval = time.Second      // from one check to the next while a dialog is hidden
	keyCheckTimeout  = time.Second      // for tmux to answer
	failedCheckPause = 10 * time.Second // after a check that found no answer from tmux
	// noticeInterval is how often the session's terminals show that something waits,
	// and noticeDuration for how long. Meanwhile tmux 3.3a draws nothing else there.
	noticeInterval, noticeDuration = 10 * time.Second, 2 * time.Second
)

// keyCheck is what one check of the terminals that show a session found.
type keyCheck struct {
	startedAt    time.Time // when the check began
	nextAt       time.Time // when the next check is due
	isKnown      bool      // tmux answered, and no client is in control mode
	lastKeyAt    time.Time // when the last key was pressed, in whole seconds; zero for never
	lastNoticeAt time.Time // when the terminals last showed that something waits
}

// handOverDialog hands a hidden dialog over to the terminal once it must not stay
// hidden (see state.CanHoldDialog). The person must not be pressing a key at that
// moment, so a keyboard check since the earliest time has to come first.
func (p *Poller) handOverDialog(ctx context.Context, record *trackedRecord) (next time.Time) {
	q, now := record.question, p.Now()
	cfg := p.loadConfig(configSourceOf(q, record.IndexEntry))
	if q.Kind.Traits().IsPersonal {
		cfg = p.loadPersonalConfig()
	}
	conditions := state.HoldConditions{
		HasAnswerer:     cfg.HasPersonFor(q.Kind),
		WaitWithoutKeys: cfg.BackgroundWait,
	}
	lastCheck := cmp.Or(record.lastKeyCheck.Load(), &keyCheck{})
	conditions.CanSeeKeys, conditions.LastKeyAt = lastCheck.isKnown, lastCheck.lastKeyAt
	canHold, until := state.CanHoldDialog(q, conditions, now)
	earliest := state.EarliestDialogTime(q, conditions)
	hasPane := record.TmuxPane != "" && !inject.IsElsewhere(q.ClaudeStart)
	hasChecked := !hasPane || !lastCheck.startedAt.IsZero()
	isQuiet := hasChecked && (!lastCheck.isKnown || !lastCheck.startedAt.Before(earliest))
	switch {
	case !canHold && now.Before(earliest):
		until = earliest
	case !canHold && isQuiet:
		if q.Kind.Traits().AsksForValues {
			p.closeEndedForm(record) // the key that closed the form may have been Esc
		}
		p.changeRecord(record, "dialog not handed over", func(q *state.Question) {
			q.HandOver(now)
		})
		return time.Time{}
	}
	if !hasPane {
		return until
	}
	mustHandOver := !canHold && !now.Before(earliest)
	if mustHandOver || !now.Before(lastCheck.nextAt) {
		p.checkKeyboard(ctx, record, lastCheck.lastNoticeAt)
		return time.Time{} // the check wakes the loop when it ends
	}
	return earlier(until, lastCheck.nextAt)
}

// checkKeyboard checks the terminals that show a session, in a goroutine: a tmux that
// does not answer must not hold up the loop. The terminals then show that something
// waits, unless their person just pressed a key.
func (p *Poller) checkKeyboard(ctx context.Context, record *trackedRecord, lastNoticeAt time.Time) {
	if !record.isCheckingKeys.CompareAndSwap(false, true) {
		return
	}
	notice := strings.ToLower("a " + record.question.Kind.Traits().Title + " waits: press a key")
	server, pane := inject.Server{Socket: record.TmuxSocket}, record.TmuxPane
	p.runInBackground("look at the keyboard", func() {
		defer record.isCheckingKeys.Store(false)
		ctx, cancel := context.WithTimeout(ctx, keyCheckTimeout)
		defer cancel()
		check := &keyCheck{startedAt: p.Now(), lastNoticeAt: lastNoticeAt}
		clients, err := server.Clients(ctx, pane)
		check.isKnown = err == nil
		for _, client := range clients {
			if client.LastTyped.After(check.lastKeyAt) {
				check.lastKeyAt = client.LastTyped
			}
			check.isKnown = check.isKnown && !client.IsControlMode
		}
		check.nextAt = check.startedAt.Add(keyCheckInterval)
		if !check.isKnown {
			check.nextAt = check.startedAt.Add(failedCheckPause)
		}
		defer record.lastKeyCheck.Store(check)
		hasNotice := check.startedAt.Sub(check.lastNoticeAt) < noticeInterval
		isTyping := check.startedAt.Sub(check.lastKeyAt) < state.MaxKeyAge
		if hasNotice || isTyping {
			return
		}
		check.lastNoticeAt = check.startedAt
		for _, client := range clients {
			err := server.ShowNotice(ctx, client, noticeDuration, notice)
			p.Log.ErrorOnce(err, "notice not shown in the terminal")
		}
	})
}
