package poller

import (
	"errors"
	"fmt"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// notSent decides what becomes of a message that could not be sent, and when its chat may be tried again: zero when only
// this message has to wait.
func (s *sender) notSent(quota state.Quota, m *letter, err error) (again time.Time) {
	why, hint := s.Log.Clean(err.Error()), gchat.Hint(err)
	log := s.Log.Error().Str("error", why).Str("hint", hint).Str("chat", m.hook.Chat()).Int("tries", m.Tries+1)
	defer delete(s.loaded, m.Path)
	now, every := s.now(), perWrite(m.cfg)
	switch {
	case gchat.AuthFailure(err):
		p := state.Pause{Chat: m.hook.Chat(), Since: now.UTC(), Why: why + "; " + hint, Webhook: m.hook.ID()}
		if quota.Pause(p) {
			log.Msg("nothing is sent to this space until somebody mends it; one message tries now and then")
			s.tell(m, "gchat-hooks: nothing can be sent to Google Chat: "+why+". Hint: "+hint+".")
		}
		again = now.Add(authPause)
		quota.Block(again)
		s.failed(m, why, time.Time{})
	case gchat.Refused(err):
		log.Msg("message put aside: Chat will not take it")
		s.park(m, why+"; "+hint)
		s.tell(m, "gchat-hooks: a message to Google Chat was refused: "+why+". Hint: "+hint+". `gchat-hooks status` shows it.")
	case gchat.TooMany(err):
		again = now.Add(max(gchat.RetryAfter(err), backoff(every, quota.Failed())))
		quota.Block(again)
		log.Msg("the space has had enough for now; the message waits")
		s.failed(m, why, time.Time{})
	case !gchat.MayHaveArrived(err): // Chat is out of reach, for all messages
		again = now.Add(backoff(max(every, time.Second), quota.Failed()))
		quota.Block(again)
		log.Msg("message not sent; it stays in the outbox")
		s.failed(m, why, time.Time{})
	default:
		log.Msg("message may not have arrived; it stays in the outbox")
		s.failed(m, why, now.Add(max(gchat.RetryAfter(err), backoff(every, m.Tries+1))))
	}
	return again
}

// backoff is the pause after the n-th failure in a row.
func backoff(first time.Duration, n int) time.Duration {
	return min(first<<min(max(n-1, 0), 9), mostBackup)
}

func (s *sender) failed(m *letter, why string, next time.Time) {
	m.Tries, m.LastError, m.NotBefore = m.Tries+1, why, next
	if err := s.box.Rewrite(m.Outgoing); err != nil {
		s.Log.Error().Err(err).Msg("outbox not written")
	}
}

func (s *sender) park(m *letter, why string) {
	delete(s.loaded, m.Path)
	if err := s.box.Park(m.Outgoing, why); err != nil {
		s.Log.Error().Err(err).Msg("message not put aside")
	}
}

// tell leaves a sentence for the person at the session's terminal.
func (s *sender) tell(m *letter, sentence string) {
	if m.SessionID != "" {
		_ = state.AddNotice(s.user(), m.SessionID, sentence)
	}
}

// QuotaError says that the space's allowance is used up for the moment.
type QuotaError struct{ Wait time.Duration }

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the space's allowance is used up for %s", e.Wait.Round(time.Millisecond))
}

// waitOf is how long a QuotaError asks to wait; 0 for other errors.
func waitOf(err error) time.Duration {
	var e *QuotaError
	if errors.As(err, &e) {
		return e.Wait
	}
	return 0
}
