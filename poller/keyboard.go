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
	keyCheckInterval = time.Second      // at the keyboard of a session whose dialog is hidden
	keyCheckTimeout  = time.Second      // for tmux to answer
	failedCheckPause = 10 * time.Second // after a look that saw nothing
	// In its terminals the session says so often, and for so long, that something waits:
	// tmux 3.3a draws nothing else there meanwhile.
	noticeInterval, noticeDuration = 10 * time.Second, 2 * time.Second
)

// keyCheck is what one look at a session's terminals saw.
type keyCheck struct {
	startedAt    time.Time // when it began
	nextAt       time.Time // when the next one is to begin
	isKnown      bool      // tmux answered, and no client is in control mode
	lastKeyAt    time.Time // the last key, in whole seconds; zero for none
	lastNoticeAt time.Time // when the terminals were last told that something waits
}

// handOverDialog hands a hidden dialog over to the terminal where it may not be hidden:
// see state.CanHoldDialog. No key may be under way then, so a look at the keyboard is to
// say that.
func (p *Poller) handOverDialog(ctx context.Context, record *trackedRecord) (next time.Time) {
	now, cfg := p.Now(), p.loadConfig(configSourceOf(record.question, record.IndexEntry))
	if record.question.Kind.Traits().IsPersonal {
		cfg = p.loadPersonalConfig()
	}
	conditions := state.HoldConditions{
		HasAnswerer:     cfg.HasPersonFor(record.question.Kind),
		WaitWithoutKeys: cfg.BackgroundWait,
	}
	lastCheck := cmp.Or(record.lastKeyCheck.Load(), &keyCheck{})
	conditions.CanSeeKeys, conditions.LastKeyAt = lastCheck.isKnown, lastCheck.lastKeyAt
	canHold, until := state.CanHoldDialog(record.question, conditions, now)
	earliest := state.EarliestDialogTime(record.question, conditions)
	hasPane := record.TmuxPane != "" && !inject.IsElsewhere(record.question.ClaudeStart)
	hasChecked := !hasPane || !lastCheck.startedAt.IsZero()
	isQuiet := hasChecked && (!lastCheck.isKnown || !lastCheck.startedAt.Before(earliest))
	switch {
	case !canHold && now.Before(earliest):
		until = earliest
	case !canHold && isQuiet:
		if record.question.Kind.Traits().AsksForValues {
			p.closeEndedForm(record) // the key may have been Esc
		}
		p.changeRecord(
			record,
			"dialog not handed over",
			func(q *state.Question) { q.HandOver(now) },
		)
		return time.Time{}
	}
	if !hasPane {
		return until
	}
	if !canHold && !now.Before(earliest) || !now.Before(lastCheck.nextAt) {
		p.checkKeyboard(ctx, record, lastCheck.lastNoticeAt)
		return time.Time{} // it wakes the loop
	}
	return earlier(until, lastCheck.nextAt)
}

// checkKeyboard looks at the terminals that show a session, beside the loop: a tmux that
// does not answer holds nobody up. Whoever sits there is told that something waits.
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
		if check.startedAt.Sub(check.lastNoticeAt) < noticeInterval ||
			check.startedAt.Sub(check.lastKeyAt) < state.MaxKeyAge {
			return
		}
		check.lastNoticeAt = check.startedAt
		for _, client := range clients {
			p.Log.ErrorOnce(
				server.ShowNotice(ctx, client, noticeDuration, notice),
				"terminal not told that something waits",
			)
		}
	})
}
