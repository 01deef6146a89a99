package hooks

import (
	"bytes"
	"context"
	"errors"
	"io"
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

const (
	// transcriptLag is how long after it happened a transcript may not say yet that a session was woken.
	transcriptLag = 3 * time.Second
	// wokenWithin is how much of a transcript's end is searched for it, in bytes.
	wokenWithin = 16 << 20
)

// neverArrived is what the session was to be told of its questions in deny mode, and was not: the process was killed between
// writing that down and its end, or another hook blocked the prompt that carried it. The transcript tells. The caller must
// call done, with true once the texts are on their way again; they are not looked for once more.
func (h *Hook) neverArrived(ctx context.Context, e *Event, markers []*state.Question) (texts []string, done func(bool)) {
	var lost []*state.Question
	var news struct {
		Transcript words `json:"transcript_path"`
	}
	_ = e.Read(&news)
	for _, q := range markers {
		if q.DeliveredAt == nil || q.DeliverySeen || q.Status.Open() || time.Since(*q.DeliveredAt) < 0 {
			continue
		}
		if q.ResolvedAt == nil || q.ResolvedAt.Sub(*q.DeliveredAt).Abs() > time.Second {
			continue // it was woken with the timeout, and the late reply went another way
		}
		if since := time.Since(*q.DeliveredAt); since < transcriptLag {
			if e.HookEventName != "Stop" {
				continue // the next event tells
			}
			if sleep(ctx, transcriptLag-since); ctx.Err() != nil { // in the background
				break
			}
		}
		switch there, known := h.toldIn(string(news.Transcript), q); {
		case there:
			if err := seen(q); err != nil {
				h.log.Error().Err(err).Msg("told, and not written down")
			}
		case known:
			h.log.Warn().Str("question", q.QuestionID).Msg("the session was not told of this; it is told again")
			lost, texts = append(lost, q), append(texts, textOf(q))
		}
	}
	return texts, func(delivered bool) {
		for _, q := range lost {
			if !delivered {
				return
			}
			if err := seen(q); err != nil {
				h.log.Error().Err(err).Msg("told again, and not written down")
			}
		}
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// seen writes down that a session was told of a question.
func seen(q *state.Question) error {
	_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { q.DeliverySeen = true; return nil })
	return err
}

// toldIn says whether a transcript holds what its session was woken with; known is false where that cannot be told.
func (h *Hook) toldIn(path string, q *state.Question) (there, known bool) {
	f, size, err := openTranscript(path)
	if err != nil {
		return false, false
	}
	defer f.Close()
	from := max(size-wokenWithin, 0)
	b, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return false, false
	}
	there = bytes.Contains(b, []byte(endOf(q)))
	return there, there || from == 0
}

// textOf is what a session is woken with, of a question that is over.
func textOf(q *state.Question) string {
	if q.Status == state.TimedOut {
		return timeoutText(q, false)
	}
	return replyText(q)
}
