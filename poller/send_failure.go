package poller

import (
	"context"
	"errors"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller/openclaw"
	"gchat-hooks/state"
)

// handleSendFailure is the one rule for what a failure means. first says that no earlier
// try may have arrived.
func (s *sender) handleSendFailure(
	ctx context.Context,
	message *state.Message,
	gateway *projectGateway,
	cause error,
	isFirstTry bool,
) sendResult {
	switch {
	case ctx.Err() != nil:
		return sendResult{} // cut by ourselves: it may have arrived
	case gateway == nil:
		return s.handleAgentFailure(message, cause)
	}
	why, hint, now := s.Log.Redact(cause.Error()), gchat.Hint(cause), s.Now()
	pause := time.Minute / time.Duration(gateway.cfg.WritesPerMinute)
	isUntried := isFirstTry && (!gchat.MayHaveArrived(cause) || gchat.IsRateLimited(cause))
	logLine := s.Log.Error().Str("error", why).Str("hint", hint).Str("until", logSentAgain)
	logLine = logLine.Str("chat", gateway.transport.Chat()).Int("tries", message.FailedTries+1)
	logLine = logLine.Str("id", partID(message)).
		Str("project", message.ProjectDir).
		Str("session", message.SessionID)
	switch {
	case gchat.IsAuthFailure(cause):
		logLine.Msg("the webhook does not work; one message a minute tries it")
		return s.pauseGateway(message, gateway, cause, isFirstTry)
	case gchat.IsRefused(cause):
		logLine.Msg(state.LogMessageRefused)
		s.notifySession(
			message.SessionID,
			"gchat-hooks: a message was refused: "+why+". Hint: "+hint+
				". `gchat-hooks status` shows it.",
		)
		return s.setAside(message, why+"; "+hint)
	case gchat.HasReachedChat(cause) && !gchat.IsRateLimited(cause), errors.Is(cause, errArrivalUnknown):
		// it stumbled over this one alone
		logLine.Msg("message may not have arrived; it is tried again")
		wait := backoff(pause, message.FailedTries+1)
		if message.IsUrgent { // a person is waited for
			wait = min(wait, maxUrgentBackoff)
		}
		until := now.Add(max(gchat.RetryAfter(cause), wait))
		return s.writeFailure(message, why, isUntried, sendResult{retryAt: until})
	}
	// Too many, or out of reach: for all messages, since a hanging Chat would take ten
	// seconds for each.
	logLine.Msg("the space takes no messages at present; they wait")
	until := now.Add(diskRetryPause)
	s.changeSpace(gateway, func(space *state.Space) {
		if space.WriteDelay(now) == 0 { // of several lanes that fail together, one counts
			space.Failures++
			space.NotBefore = now.Add(max(gchat.RetryAfter(cause), backoff(pause, space.Failures))).
				UTC()
			space.Why, space.IsAskedByChat = why, gchat.IsRateLimited(cause)
		}
		until = space.NotBefore
	})
	return s.writeFailure(message, why, isUntried, sendResult{retryAt: until, pausesGateway: true})
}

func (s *sender) handleAgentFailure(message *state.Message, cause error) sendResult {
	why := s.Log.Redact(cause.Error())
	logLine := s.Log.Error()
	if message.FailedTries > 0 {
		logLine = s.Log.Warn()
	}
	logLine.Str("error", why).
		Str("session", message.SessionID).
		Str("agent", message.Wake.AgentSession).
		Str("trigger", message.Wake.Trigger).
		Int("tries", message.FailedTries+1).
		Str("hint", openclaw.Hint(cause)).
		Msg("wake message not delivered; it waits in the outbox")
	age := s.Now().Sub(message.CreatedAt)
	isOld := age > maxAgentMessageAge ||
		age > minFailedTurnsAge && errors.Is(cause, openclaw.ErrTurnFailed)
	if message.FailedTries+1 >= minFailedTurns && isOld {
		return s.setAside(message, "the agent does not take it: "+why)
	}
	return s.writeFailure(
		message,
		why,
		false,
		sendResult{retryAt: s.Now().Add(backoff(agentRetryPause, message.FailedTries+1))},
	)
}

// backoff is the pause after the n-th failure in a row: it doubles, up to five minutes.
func backoff(first time.Duration, failures int) time.Duration {
	return min(first<<min(max(failures-1, 0), 9), maxBackoff)
}

// pauseGateway says that nothing goes through a project's webhook until a person mends
// it. The session's person is told once.
func (s *sender) pauseGateway(
	message *state.Message,
	gateway *projectGateway,
	cause error,
	isFirstTry bool,
) sendResult {
	why, hint := s.Log.Redact(cause.Error()), gchat.Hint(cause)
	mustNotify := message.LastError != why
	now := s.Now().UTC()
	until := now.Add(authRetryPause)
	if gateway.err == nil {
		s.gateways.reset() // a secret may be changed meanwhile
		s.changeSpace(gateway, func(space *state.Space) {
			pause, isKnown := space.PausedWebhooks[gateway.transport.ID()]
			if !isKnown {
				pause.Since = now
			}
			mustNotify = !pause.IsNotified
			pause.NotBefore, pause.Why, pause.IsNotified = until, why+"; "+hint, pause.IsNotified ||
				message.SessionID != ""
			if space.PausedWebhooks == nil {
				space.PausedWebhooks = map[string]state.WebhookPause{}
			}
			space.PausedWebhooks[gateway.transport.ID()] = pause
		})
	}
	if mustNotify {
		s.Log.Error().Str("error", why).Str("hint", hint).Str("until", logSentAgain).
			Msg("nothing can be sent until a person mends it")
		s.notifySession(
			message.SessionID,
			"gchat-hooks: nothing can be sent: "+why+". Hint: "+hint+".",
		)
	}
	return s.writeFailure(message, why, isFirstTry, sendResult{retryAt: until, pausesGateway: true})
}

// writeFailure writes down that a message could not be sent; untried says that it surely
// did not arrive.
func (s *sender) writeFailure(
	message *state.Message,
	why string,
	isUntried bool,
	result sendResult,
) sendResult {
	_, err := s.outbox.Change(message.Path, func(message *state.Message) {
		if message.IsFinal() {
			return
		}
		message.FailedTries, message.LastError, message.NotBefore = message.FailedTries+1, why, time.Time{}
		if !result.pausesGateway {
			message.NotBefore = result.retryAt.UTC()
		}
		if isUntried {
			message.FirstTriedAt = time.Time{}
		}
	})
	s.writePostError(message, why)
	if err != nil {
		return s.resultOfWrite(err)
	}
	return result
}

func (s *sender) setAside(message *state.Message, why string) sendResult {
	s.writePostError(message, why)
	return s.finishMessage(
		message,
		func(message *state.Message) { message.SetAsideReason, message.LastError = why, why },
	)
}

// writePostError writes into a question why it is not in its space, for `status`.
func (s *sender) writePostError(message *state.Message, why string) {
	if message.Type != state.MessageQuestion {
		return
	}
	_, err := state.ChangeQuestionRelaxed(message.Question, func(q *state.Question) {
		if !q.IsMessageSent {
			q.PostError = why
		}
	})
	s.Log.ErrorOnce(err, "not written why a question is not posted")
}

func (s *sender) notifySession(sessionID, sentence string) {
	s.Log.ErrorOnce(
		state.SessionsIn(s.userStateDir).AddNotice(sessionID, sentence),
		"notice not written",
	)
}
