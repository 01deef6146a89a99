package hooks

import (
	"context"
	"errors"
	"strings"
	"time"

	"gchat-hooks/state"
)

// undelivered are the replies to the session's questions in deny mode that no waiter delivers, since it was killed or the
// session had ended: judged here, by the session's own environment. Done must be called: with true once Claude has them.
func (h *Hook) undelivered(e *Event) (text string, done func(handedOver bool)) {
	var qs []*state.Question
	var locks []*state.Lock
	all := h.markers(e)
	texts, again := h.neverArrived(context.Background(), e, all)
	for _, q := range all {
		if !q.Denied || q.Status != state.Answered && !(q.Answerable() && q.Unread()) {
			continue
		}
		lock, err := state.LockWaiter(q)
		if err != nil {
			continue // another process is about to deliver it
		}
		locks = append(locks, lock)
		if q, err = h.poller.Judge(q.Path); err != nil {
			h.log.Error().Err(err).Msg("replies not judged")
		} else if q.Status == state.Answered {
			qs, texts = append(qs, q), append(texts, replyText(q))
		}
	}
	return strings.Join(texts, "\n\n"), func(handedOver bool) {
		again(handedOver)
		for _, q := range qs {
			if !handedOver {
				break
			}
			also := delivered // another hook may block the prompt, and its context with it: the next event looks
			if e.HookEventName == "SessionStart" {
				also = nil // nothing blocks that
			}
			if err := h.resolve(q, also); err != nil {
				h.log.Error().Err(err).Msg("delivered, and not written down")
			}
		}
		for _, l := range locks {
			l.Unlock()
		}
		if len(locks) > 0 {
			h.leave()
		}
	}
}

// sessionEnded writes down that the session of open markers has ended: its waiters end, and who replies is told when the
// reply will be read.
func (h *Hook) sessionEnded(e *Event) {
	for _, q := range h.markers(e) {
		if !q.Status.Open() && !q.Answerable() || q.SessionEnded != nil || h.inOtherTerminal(q) {
			continue
		}
		if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			if !q.Status.Open() && !q.Answerable() {
				return state.ErrUnchanged
			}
			now := time.Now().UTC()
			q.SessionEnded = &now
			return nil
		}); err != nil {
			h.log.Error().Err(err).Msg("end of session not written down")
		}
	}
}

// notify shows the person, once, what could not be done since the last hook, and hands Claude the replies that reached it by
// no other way, where the event takes a context. At the session's end, which shows nothing to anyone, the markers hear of it.
func (h *Hook) notify(e *Event) {
	if e.HookEventName == "SessionEnd" {
		h.sessionEnded(e)
		return
	}
	out := map[string]any{}
	if text := state.TakeNotices(state.UserState(h.Env), e.SessionID); text != "" {
		out["systemMessage"] = text
	}
	done := func(bool) {}
	if e.HookEventName == "SessionStart" || e.HookEventName == "UserPromptSubmit" {
		var text string
		if text, done = h.undelivered(e); text != "" {
			out["hookSpecificOutput"] = map[string]any{"hookEventName": e.HookEventName, "additionalContext": text}
		}
	}
	var err error
	if len(out) > 0 {
		err = h.Print(out)
	}
	done(err == nil)
	if err != nil {
		h.log.Error().Err(errors.Join(errors.New("notice not shown"), err)).Msg("notify")
	}
}

// markers are the session's questions in deny mode, the newest first.
func (h *Hook) markers(e *Event) (all []*state.Question) {
	for _, dir := range h.stateDirs() {
		qs, bad, err := state.MarkersIn(dir).OfSession(e.SessionID)
		if err != nil {
			h.log.Error().Err(err).Msg("markers not looked at")
		}
		h.passedOver(bad)
		all = append(all, qs...)
	}
	return all
}
