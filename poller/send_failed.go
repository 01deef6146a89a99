package poller

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// notSent decides what becomes of a message that could not be sent, and when its chat may be tried again: now, after the
// other chats had their turn; zero when it may go on at once. err is what could not be written down.
func (s *sender) notSent(quota state.Quota, m *letter, cause error) (again time.Time, err error) {
	why, hint := s.Log.Clean(cause.Error()), gchat.Hint(cause)
	log := s.Log.Error().Str("error", why).Str("hint", hint).Str("chat", m.hook.Chat()).Int("tries", m.Tries+1)
	now, every := s.now(), perWrite(m.cfg)
	switch {
	case gchat.AuthFailure(cause):
		s.forgetCommand(m.cfg)
		session := s.sessionOf(m)
		news, tell := quota.Pause(m.hook.ID(), state.Pause{
			Chat: m.hook.Chat(), Project: m.ProjectDir, Since: now.UTC(), NotBefore: now.Add(authPause).UTC(),
			Why: why + "; " + hint, Told: session != "",
		})
		if news {
			log.Msg("nothing goes through this webhook until somebody mends it; one message tries now and then")
		}
		if tell {
			s.tell(session, "gchat-hooks: nothing can be sent to Google Chat: "+why+". Hint: "+hint+".")
		}
		return now, s.failed(m, why, time.Time{})
	case gchat.Refused(cause):
		log.Msg("message put aside: Chat will not take it")
		s.tell(m.SessionID, "gchat-hooks: a message to Google Chat was refused: "+why+". Hint: "+hint+
			". `gchat-hooks status` shows it.")
		return time.Time{}, s.box.Park(m.Outgoing, why+"; "+hint)
	case gchat.TooMany(cause):
		log.Msg("the space has had enough for now; the message waits")
		again = now.Add(max(gchat.RetryAfter(cause), backoff(every, quota.Failed())))
		quota.TooMany(again, why)
		return again, s.failed(m, why, time.Time{})
	case gchat.Answered(cause): // it stumbled over this one; the next one may go
		log.Msg("message may not have arrived; it stays in the outbox")
		return now, s.failed(m, why, now.Add(max(gchat.RetryAfter(cause), backoff(every, m.Tries+1))))
	}
	// Out of reach, for all messages: a hanging Chat would take ten seconds for each.
	log.Msg("message not sent; it stays in the outbox")
	again = now.Add(backoff(every, quota.Failed()))
	quota.OutOfReach(again, why)
	return again, s.failed(m, why, time.Time{})
}

// holdBack has all processes leave a space alone that has had enough for now.
func (p *Poller) holdBack(quota state.Quota, every time.Duration, cause error) {
	pause := max(gchat.RetryAfter(cause), backoff(every, quota.Failed()))
	quota.TooMany(p.now().Add(pause), p.Log.Clean(cause.Error()))
}

// backoff is the pause after the n-th failure in a row.
func backoff(first time.Duration, n int) time.Duration {
	return min(first<<min(max(n-1, 0), 9), mostBackup)
}

func (s *sender) failed(m *letter, why string, next time.Time) error {
	m.Tries, m.LastError, m.NotBefore = m.Tries+1, why, next
	return s.box.Rewrite(m.Outgoing)
}

// tooOld is how long a message waits for its space before it is put aside.
const tooOld = 7 * 24 * time.Hour

// parkOld puts aside what no process could send, whichever environment it was for.
func (p *Poller) parkOld() {
	box := p.outbox()
	waiting, _ := box.Waiting()
	for _, m := range waiting {
		if p.now().Sub(m.CreatedAt) <= tooOld || p.now().Sub(m.NotBefore) <= tooOld {
			continue
		}
		why := m.LastError
		if why == "" {
			why = "no process had a webhook for " + cmp.Or(m.Chat, "it")
		}
		if lock, err := box.LockSender(m.Chat); err == nil {
			if err := box.Park(m, "it waited for seven days: "+why); err != nil {
				p.Log.Error().Err(err).Msg("message not put aside")
			}
			lock.Unlock()
		}
	}
}

// sessionOf is a session that waits for the same webhook as m: its own, or another one's.
func (s *sender) sessionOf(m *letter) string {
	if m.SessionID != "" {
		return m.SessionID
	}
	for _, l := range s.loaded {
		if l != nil && l.hook != nil && l.hook.ID() == m.hook.ID() && l.SessionID != "" {
			return l.SessionID
		}
	}
	return ""
}

// tell leaves a sentence for the person at the session's terminal.
func (s *sender) tell(session, sentence string) {
	if session != "" {
		_ = state.AddNotice(s.user(), session, sentence)
	}
}

// QuotaError says that the space's allowance is used up for the moment.
type QuotaError struct {
	Wait time.Duration
	Why  string // Chat wants, or has, to be left alone; "" when the allowance is used up
}

func (e *QuotaError) Error() string {
	why := cmp.Or(e.Why, "the space's allowance is used up")
	return fmt.Sprintf("%s; the next try is in %s", why, e.Wait.Round(time.Second))
}

// waitOf is how long a QuotaError asks to wait; 0 for other errors.
func waitOf(err error) time.Duration {
	var e *QuotaError
	if errors.As(err, &e) {
		return e.Wait
	}
	return 0
}
