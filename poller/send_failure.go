package poller

import (
	"context"
	"errors"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller/openclaw"
	"gchat-hooks/state"
)

// notSent is the one rule for what a failure means. first says that no earlier try may have arrived.
func (s *sender) notSent(ctx context.Context, m *state.Message, way *gateway, cause error, first bool) outcome {
	switch {
	case ctx.Err() != nil:
		return outcome{} // cut by ourselves: it may have arrived
	case way == nil:
		return s.notTaken(m, cause)
	}
	why, hint, now := s.Log.Redact(cause.Error()), gchat.Hint(cause), s.Now()
	pause := time.Minute / time.Duration(way.cfg.WritesPerMinute)
	untried := first && (!gchat.MayHaveArrived(cause) || gchat.TooMany(cause))
	log := s.Log.Error().Str("error", why).Str("hint", hint).Str("until", sentAgain)
	log = log.Str("chat", way.transport.Chat()).Int("tries", m.FailedTries+1)
	log = log.Str("id", partID(m)).Str("project", m.ProjectDir).Str("session", m.SessionID)
	switch {
	case gchat.AuthFailure(cause):
		log.Msg("the webhook does not work; one message a minute tries it")
		return s.paused(m, way, cause, first)
	case gchat.Refused(cause):
		log.Msg(state.LogMessageRefused)
		s.tell(m.SessionID, "gchat-hooks: a message was refused: "+why+". Hint: "+hint+
			". `gchat-hooks status` shows it.")
		return s.setAside(m, why+"; "+hint)
	case gchat.Answered(cause) && !gchat.TooMany(cause), errors.Is(cause, errUnseen): // it stumbled over this one alone
		log.Msg("message may not have arrived; it is tried again")
		wait := backoff(pause, m.FailedTries+1)
		if m.IsUrgent { // a person is waited for
			wait = min(wait, urgentBackoff)
		}
		until := now.Add(max(gchat.RetryAfter(cause), wait))
		return s.failed(m, why, untried, outcome{until: until})
	}
	// Too many, or out of reach: for all messages, since a hanging Chat would take ten seconds for each.
	log.Msg("the space takes no messages at present; they wait")
	until := now.Add(diskPause)
	s.changeSpace(way, func(space *state.Space) {
		if space.WriteDelay(now) == 0 { // of several lanes that fail together, one counts
			space.Failures++
			space.NotBefore = now.Add(max(gchat.RetryAfter(cause), backoff(pause, space.Failures))).UTC()
			space.Why, space.IsAskedByChat = why, gchat.TooMany(cause)
		}
		until = space.NotBefore
	})
	return s.failed(m, why, untried, outcome{until: until, space: true})
}

func (s *sender) notTaken(m *state.Message, cause error) outcome {
	why := s.Log.Redact(cause.Error())
	line := s.Log.Error()
	if m.FailedTries > 0 {
		line = s.Log.Warn()
	}
	line.Str("error", why).Str("session", m.SessionID).Str("agent", m.Wake.AgentSession).Str("trigger", m.Wake.Trigger).
		Int("tries", m.FailedTries+1).Str("hint", openclaw.Hint(cause)).Msg("wake message not delivered; it waits in the outbox")
	age := s.Now().Sub(m.CreatedAt)
	old := age > oldWake || age > failingTurnsFor && errors.Is(cause, openclaw.ErrTurnFailed)
	if m.FailedTries+1 >= failingTurns && old {
		return s.setAside(m, "the agent does not take it: "+why)
	}
	return s.failed(m, why, false, outcome{until: s.Now().Add(backoff(wakePause, m.FailedTries+1))})
}

// backoff is the pause after the n-th failure in a row: it doubles, up to five minutes.
func backoff(first time.Duration, n int) time.Duration {
	return min(first<<min(max(n-1, 0), 9), mostBackoff)
}

// paused says that nothing goes through a project's webhook until a person mends it. The session's person is told once.
func (s *sender) paused(m *state.Message, way *gateway, cause error, first bool) outcome {
	why, hint := s.Log.Redact(cause.Error()), gchat.Hint(cause)
	tell := m.LastError != why
	now := s.Now().UTC()
	until := now.Add(authPause)
	if way.err == nil {
		s.ways.renew() // a secret may be changed meanwhile
		s.changeSpace(way, func(space *state.Space) {
			pause, known := space.PausedWebhooks[way.transport.ID()]
			if !known {
				pause.Since = now
			}
			tell = !pause.IsNotified
			pause.NotBefore, pause.Why, pause.IsNotified = until, why+"; "+hint, pause.IsNotified || m.SessionID != ""
			if space.PausedWebhooks == nil {
				space.PausedWebhooks = map[string]state.WebhookPause{}
			}
			space.PausedWebhooks[way.transport.ID()] = pause
		})
	}
	if tell {
		s.Log.Error().Str("error", why).Str("hint", hint).Str("until", sentAgain).
			Msg("nothing can be sent until a person mends it")
		s.tell(m.SessionID, "gchat-hooks: nothing can be sent: "+why+". Hint: "+hint+".")
	}
	return s.failed(m, why, first, outcome{until: until, space: true})
}

// failed writes down that a message could not be sent; untried says that it surely did not arrive.
func (s *sender) failed(m *state.Message, why string, untried bool, again outcome) outcome {
	_, err := s.box.Change(m.Path, func(m *state.Message) {
		if m.IsFinal() {
			return
		}
		m.FailedTries, m.LastError, m.NotBefore = m.FailedTries+1, why, time.Time{}
		if !again.space {
			m.NotBefore = again.until.UTC()
		}
		if untried {
			m.FirstTriedAt = time.Time{}
		}
	})
	s.tellQuestion(m, why)
	if err != nil {
		return s.written(err)
	}
	return again
}

func (s *sender) setAside(m *state.Message, why string) outcome {
	s.tellQuestion(m, why)
	return s.finish(m, func(m *state.Message) { m.SetAsideReason, m.LastError = why, why })
}

// tellQuestion writes into a question why it is not in its space, for `status`.
func (s *sender) tellQuestion(m *state.Message, why string) {
	if m.Type != state.MessageQuestion {
		return
	}
	_, err := state.ChangeQuestionRelaxed(m.Question, func(q *state.Question) {
		if !q.IsMessageSent {
			q.PostError = why
		}
	})
	s.Log.ErrorOnce(err, "not written why a question is not posted")
}

func (s *sender) tell(session, sentence string) {
	s.Log.ErrorOnce(state.SessionsIn(s.user).AddNotice(session, sentence), "notice not written")
}
