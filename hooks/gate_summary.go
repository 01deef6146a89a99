package hooks

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// besides is how long after one hook of an event another one of the same event can run.
const besides = 2 * time.Second

// tellStop has the summary of a session that stops sent, once: such a session mostly stays open for days. Its end brings
// another one only if there were turns since.
func (h *Hook) tellStop(ctx context.Context, e *Event, news gateNews) error {
	cfg := h.asked.cfg
	if cfg.WebhookURL == "" && cfg.WebhookCommand == "" || cfg.ReportRule(string(gchat.SessionEnded)) == state.ReportOff {
		return nil
	}
	if len(news.Tasks) > 0 { // a pause: they wake it
		return nil
	}
	l, err := h.ledgers().Load(e.SessionID)
	if err == nil {
		if told, waiting := h.ledgers().AtGate(l); told {
			if waiting { // the hook that wrote it may have been killed before it had it sent
				h.wake()
			}
			return nil
		}
	}
	chat, err := poller.ChatOf(cfg)
	if err != nil {
		return fmt.Errorf("tell of the stop: %w", err)
	}
	// gchat-session-event, which runs beside this, counts the turn that ends now. Where prompts have ids a turn counts once;
	// else that hook may be about to count it.
	uncounted := 0
	if l == nil || e.PromptID != "" {
		if err := h.turnEnd(ctx, e, news.sessionNews, cfg); err != nil {
			return fmt.Errorf("tell of the stop: %w", err)
		}
	} else if l.Turns == 0 || time.Since(l.LastSeen).Abs() > besides {
		uncounted = 1
	}
	stopped, err := h.ledgers().StopAtGate(e.SessionID, time.Now(), func(l *state.Ledger) {
		l.Turns += uncounted
		l.Chat, l.Reason = chat, "stopped; the session is still open"
		l.TranscriptPath = cmp.Or(string(news.Transcript), l.TranscriptPath)
	})
	if stopped {
		h.wake()
	}
	return err
}
