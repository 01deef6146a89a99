package poller

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/poller/ntfy"
	"gchat-hooks/state"
)

const (
	// callRetryPause is the time until a call is tried again after its first failure.
	callRetryPause = 5 * time.Second
	// typingCheckInterval is how often a call that waits because its person types in the
	// session's pane is looked at.
	typingCheckInterval = 2 * time.Second
	// maxCallLine is how long a call's title or text may be, in bytes. An ntfy server
	// refuses a message of 4096 bytes, or makes a file of it.
	maxCallLine = 200

	urgentPriority, usualPriority, lowestPriority = 5, 4, 1 // ntfy's
)

// waitsForPerson reports whether a question waits for a person who may be away.
func waitsForPerson(q *state.Question) bool {
	return q.Status == state.Pending && q.Mode.Traits().Asks && q.HandedOverAt == nil
}

// owesCallEnd reports whether the person was called for a question that is over now.
func owesCallEnd(q *state.Question) bool {
	return q.CalledAt != nil && !q.IsCallOver && !waitsForPerson(q)
}

// callWhenDue calls the person if a question waits and nobody answered it within
// notify_after. When the question is over, it says so, if the person was called. It
// returns when to look again.
func (p *Poller) callWhenDue(ctx context.Context, record *trackedRecord) (retryAt time.Time) {
	q := record.question
	if owesCallEnd(q) {
		return p.endCall(record)
	}
	if q.CalledAt != nil || !waitsForPerson(q) || record.isCallEnqueued {
		return time.Time{}
	}
	cfg := p.loadPersonalConfig()
	if cfg.Notify == nil {
		return time.Time{}
	}
	if dueAt := q.AskedAt.Add(cfg.NotifyAfter); p.Now().Before(dueAt) {
		return dueAt
	}
	isHeldInQuietHours := q.Kind != state.KindQuestion && q.Kind != state.KindPermission
	if end, isQuiet := cfg.QuietHours.EndAfter(p.Now()); isQuiet && isHeldInQuietHours {
		return end
	}
	if record.TmuxPane != "" {
		lastKeyAt, err := inject.Server{Socket: record.TmuxSocket}.LastTyped(ctx, record.TmuxPane)
		if err == nil && p.Now().Sub(lastKeyAt) < cfg.NotifyAfter {
			return p.Now().Add(typingCheckInterval)
		}
	}
	err := p.enqueueCall(q, false)
	p.Log.ErrorOnce(err, "notification not enqueued")
	record.isCallEnqueued = err == nil
	return time.Time{}
}

// endCall says that a question is over for which the person was called.
func (p *Poller) endCall(record *trackedRecord) (retryAt time.Time) {
	if err := p.enqueueCall(record.question, true); err != nil {
		p.Log.ErrorOnce(err, "end of a notification not enqueued")
		return p.Now().Add(time.Second)
	}
	p.changeRecord(record, "end of a notification not recorded", func(q *state.Question) { q.IsCallOver = true })
	return time.Time{}
}

// enqueueCall writes a call, or its end, into the outbox, once.
func (p *Poller) enqueueCall(q *state.Question, isEnd bool) error {
	call := &state.Call{
		ID:       state.MessageID("call", q.QuestionID),
		Title:    wording.Cut(wording.SafeLine(q.SessionName), maxCallLine),
		Text:     callText(q),
		Link:     gchat.ThreadLink(q.Chat, q.ThreadName),
		Priority: usualPriority,
		IsEnd:    isEnd,
	}
	if q.Kind == state.KindPermission {
		call.Priority = urgentPriority
	}
	key := "call-" + q.QuestionID
	if isEnd {
		call.Priority, call.Text, key = lowestPriority, "Over: "+call.Text, key+"-end"
	}
	return p.enqueue(&state.Message{
		ID: key, Key: key, Type: state.MessageCall, Call: call, Question: q.Path,
		SessionID: q.ClaudeSession(), IsUrgent: true, CreatedAt: p.Now().UTC(),
	})
}

// callText says what waits: its kind and, for a question, its header. It never has a
// command.
func callText(q *state.Question) string {
	text := cmp.Or(q.Kind.Traits().Title, "Question")
	if q.Kind == state.KindQuestion && len(q.SubQuestions) > 0 {
		text += ": " + q.SubQuestions[0].Header
	}
	return wording.Cut(wording.SafeLine(text), maxCallLine)
}

// callForAlert notifies the person of an urgent message that is in the space.
func (s *sender) callForAlert(alert *state.Message, chat, threadName string) {
	if s.loadPersonalConfig().Notify == nil {
		return
	}
	key := state.MessageID("call", alert.ID)
	err := s.enqueue(&state.Message{
		ID: key, Key: key, Type: state.MessageCall, SessionID: alert.SessionID,
		IsUrgent: true, CreatedAt: s.Now().UTC(),
		Call: &state.Call{
			ID:       key,
			Title:    wording.Cut(wording.SafeLine(alert.Report.SessionName), maxCallLine),
			Text:     "Blocked",
			Link:     gchat.ThreadLink(chat, threadName),
			Priority: urgentPriority,
		},
	})
	s.Log.ErrorOnce(err, "notification of a [BLOCKED] message not enqueued")
}

// callLink returns where a tap on the call leads: to the thread in Google Chat, or to the
// thread on the page at its address for a phone. The embedded space's own link to the
// thread is for this machine.
func callLink(page, threadLink string) string {
	u, err := url.Parse(threadLink)
	isForThisMachine := err == nil && u.Scheme == "http"
	switch {
	case page == "":
		return threadLink
	case threadLink == "":
		return page
	case isForThisMachine && !strings.Contains(page, "#"):
		return page + "#" + u.Fragment
	case isForThisMachine:
		return page
	}
	return threadLink
}

// isCallNeeded reports whether the person still has to be called: the question is open,
// and no earlier try is known to have arrived.
func isCallNeeded(message *state.Message) bool {
	if message.Question == "" || message.Call.IsEnd {
		return true
	}
	q, err := state.LoadQuestion(message.Question)
	return err == nil && waitsForPerson(q) && q.CalledAt == nil
}

// dropCall ends a call that is not needed. If a try of it may have arrived, the person is
// told that it is over.
func (s *sender) dropCall(message *state.Message) sendResult {
	isOfQuestion := message.Question != "" && !message.Call.IsEnd
	if isOfQuestion && !message.FirstTriedAt.IsZero() {
		q, err := state.LoadQuestion(message.Question)
		if err == nil && !waitsForPerson(q) && !q.IsCallOver {
			err = s.enqueueCall(q, true)
		}
		s.Log.ErrorOnce(err, "end of a notification not enqueued")
	}
	return s.finishMessage(message, func(m *state.Message) { m.SentAt = m.EndedAt })
}

// recordCall records how a call went, for the doctor.
func (s *sender) recordCall(callErr error) {
	failure := ""
	if callErr != nil {
		failure = s.Log.Redact(callErr.Error())
	}
	err := state.RecordCall(s.Env, s.Now(), failure)
	s.Log.ErrorOnce(err, "last notification not recorded")
}

// sendCall calls the person, unless the question was over before the first try. After a
// kill it may call again, with the same id.
func (s *sender) sendCall(ctx context.Context, message *state.Message) sendResult {
	cfg := s.loadPersonalConfig()
	if cfg.Notify == nil || !isCallNeeded(message) {
		return s.dropCall(message)
	}
	// FirstTriedAt is on disk before the call: who is killed now may have called.
	stored, err := s.outbox.Change(message.Path, func(m *state.Message) {
		if !m.IsFinal() && m.FirstTriedAt.IsZero() {
			m.FirstTriedAt = s.Now().UTC()
		}
	})
	if err != nil || stored == nil || stored.IsFinal() {
		return s.resultOfWrite(err)
	}
	s.Log.AddSecrets(cfg.Notify.URL, cfg.Notify.Token)
	call := *message.Call
	call.Link = callLink(cfg.Notify.Page, call.Link)
	err = ntfy.Send(context.WithoutCancel(ctx), s.Env, cfg.Notify, &call)
	s.recordCall(err)
	switch {
	case errors.Is(err, ntfy.ErrRefused):
		s.Log.ErrorOnce(err, "the person was not notified")
		return s.setAside(message, s.Log.Redact(err.Error()))
	case err != nil:
		s.Log.ErrorOnce(err, "the person was not notified yet; gchat-hooks tries again")
		retryAt := s.Now().Add(backoff(callRetryPause, message.FailedTries+1))
		hasNotArrived := !errors.Is(err, ntfy.ErrUncertain) && message.FirstTriedAt.IsZero()
		why := s.Log.Redact(err.Error())
		return s.writeFailure(message, why, hasNotArrived, sendResult{retryAt: retryAt})
	}
	if message.Question != "" && !call.IsEnd {
		_, err = state.ChangeQuestion(message.Question, func(q *state.Question) {
			q.CalledAt = new(s.Now().UTC())
		})
		s.Log.ErrorOnce(err, "notification not recorded in its question")
	}
	return s.finishMessage(message, func(m *state.Message) { m.SentAt, m.LastError = m.EndedAt, "" })
}
