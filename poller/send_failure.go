package poller

import (
	"context"
	"errors"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller/openclaw"
	"gchat-hooks/state"
)

// handleSendFailure decides what a failed try means: whether the message, its webhook or
// its whole space has to wait, or the message is set aside. isFirstTry says that no
// earlier try can have arrived.
func (s *sender) handleSendFailure(
	ctx context.Context,
	message *state.Message,
	gateway *projectGateway,
	cause error,
	isFirstTry bool,
) sendResult {
	switch {
	case ctx.Err() != nil:
		return sendResult{} // the poller ends and cut the send, which may have arrived
	case gateway == nil:
		return s.handleAgentFailure(message, cause)
	}
	why, hint, now := s.Log.Redact(cause.Error()), gchat.Hint(cause), s.Now()
	pause := time.Minute / time.Duration(gateway.cfg.WritesPerMinute)
	hasNotArrived := isFirstTry && (!gchat.MayHaveArrived(cause) || gchat.IsRateLimited(cause))
	isThisMessage := gchat.HasReachedChat(cause) && !gchat.IsRateLimited(cause) ||
		errors.Is(cause, errArrivalUnknown)
	logLine := s.Log.Error().
		Str("error", why).
		Str("hint", hint).
		Str("until", logSentAgain).
		Str("chat", gateway.transport.Chat()).
		Int("tries", message.FailedTries+1).
		Str("id", partID(message)).
		Str("project", message.ProjectDir).
		Str("session", message.SessionID)
	switch {
	case gchat.IsAuthFailure(cause):
		logLine.Msg("the webhook does not work; one message a minute tries it")
		return s.pauseGateway(message, gateway, cause, isFirstTry)
	case gchat.IsRefused(cause):
		logLine.Msg(state.LogMessageRefused)
		notice := "gchat-hooks: a message was refused and is set aside: " + why +
			". Hint: " + hint + ". `gchat-hooks status` shows it."
		s.notifySession(message.SessionID, notice)
		return s.setAside(message, why+"; "+hint)
	case isThisMessage: // Chat answered, so the space's other messages may go
		logLine.Msg("message may not have arrived; gchat-hooks tries again")
		wait := backoff(pause, message.FailedTries+1)
		if message.IsUrgent {
			wait = min(wait, maxUrgentBackoff)
		}
		until := now.Add(max(gchat.RetryAfter(cause), wait))
		return s.writeFailure(message, why, hasNotArrived, sendResult{retryAt: until})
	}
	// Chat takes no more messages, or cannot be reached. All messages of the space wait:
	// while Chat hangs, each try would take ten seconds.
	logLine.Msg("the space takes no messages at present; they wait")
	until := now.Add(diskRetryPause)
	s.changeSpace(gateway, func(space *state.Space) {
		if space.WriteDelay(now) == 0 { // of several lanes that fail together, one counts
			space.Failures++
			wait := max(gchat.RetryAfter(cause), backoff(pause, space.Failures))
			space.NotBefore = now.Add(wait).UTC()
			space.Why, space.IsAskedByChat = why, gchat.IsRateLimited(cause)
		}
		until = space.NotBefore
	})
	result := sendResult{retryAt: until, pausesGateway: true}
	return s.writeFailure(message, why, hasNotArrived, result)
}

// handleAgentFailure has a message for an agent tried once more later, or sets it aside.
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
		return s.setAside(message, "the agent did not accept it: "+why)
	}
	retryAt := s.Now().Add(backoff(agentRetryPause, message.FailedTries+1))
	return s.writeFailure(message, why, false, sendResult{retryAt: retryAt})
}

// backoff returns the pause after a number of failures in a row. It starts at first and
// doubles, up to maxBackoff.
func backoff(first time.Duration, failures int) time.Duration {
	return min(first<<min(max(failures-1, 0), 9), maxBackoff)
}

// pauseGateway pauses a project's webhook, which a person has to fix. The person of the
// message's session gets one notice.
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
		s.gateways.reset() // a person may have changed a secret
		s.changeSpace(gateway, func(space *state.Space) {
			pause, isKnown := space.PausedWebhooks[gateway.transport.ID()]
			if !isKnown {
				pause.Since = now
			}
			mustNotify = !pause.IsNotified
			pause.NotBefore, pause.Why = until, why+"; "+hint
			pause.IsNotified = pause.IsNotified || message.SessionID != ""
			if space.PausedWebhooks == nil {
				space.PausedWebhooks = map[string]state.WebhookPause{}
			}
			space.PausedWebhooks[gateway.transport.ID()] = pause
		})
	}
	if mustNotify {
		s.Log.Error().
			Str("error", why).
			Str("hint", hint).
			Str("until", logSentAgain).
			Msg("nothing can be sent until a person fixes it")
		notice := "gchat-hooks: nothing can be sent: " + why + ". Hint: " + hint + "."
		s.notifySession(message.SessionID, notice)
	}
	return s.writeFailure(message, why, isFirstTry, sendResult{retryAt: until, pausesGateway: true})
}

// writeFailure writes to disk that a message could not be sent. hasNotArrived says that
// no try of it can have arrived, so that the next try need not search the space for it.
func (s *sender) writeFailure(
	message *state.Message,
	why string,
	hasNotArrived bool,
	result sendResult,
) sendResult {
	_, err := s.outbox.Change(message.Path, func(message *state.Message) {
		if message.IsFinal() {
			return
		}
		message.FailedTries++
		message.LastError, message.NotBefore = why, time.Time{}
		if !result.pausesGateway {
			message.NotBefore = result.retryAt.UTC()
		}
		if hasNotArrived {
			message.FirstTriedAt = time.Time{}
		}
	})
	s.writePostError(message, why)
	if err != nil {
		return s.resultOfWrite(err)
	}
	return result
}

// setAside ends a message that cannot be sent, and records why.
func (s *sender) setAside(message *state.Message, why string) sendResult {
	s.writePostError(message, why)
	return s.finishMessage(message, func(message *state.Message) {
		message.SetAsideReason, message.LastError = why, why
	})
}

// writePostError writes into a question why it is not posted, for `status`.
func (s *sender) writePostError(message *state.Message, why string) {
	if message.Type != state.MessageQuestion {
		return
	}
	_, err := state.ChangeQuestionRelaxed(message.Question, func(q *state.Question) {
		if !q.IsMessageSent {
			q.PostError = why
		}
	})
	s.Log.ErrorOnce(err, "reason for an unposted question not written")
}

// notifySession has the next hook of a session show a sentence to its person.
func (s *sender) notifySession(sessionID, sentence string) {
	err := state.SessionsIn(s.userStateDir).AddNotice(sessionID, sentence)
	s.Log.ErrorOnce(err, "notice not written")
}
