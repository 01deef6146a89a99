package hooks

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
)

// telling is what Claude is told of a question in deny mode, and what is written down of that.
type telling struct {
	text   string
	record func() error
}

// textOf is what these say, in one text.
func textOf(all []telling) string {
	texts := make([]string, len(all))
	for i, t := range all {
		texts[i] = t.text
	}
	return strings.Join(texts, "\n\n")
}

// told writes down what Claude was told.
func (h *Hook) told(all []telling) {
	for _, t := range all {
		if err := t.record(); err != nil {
			h.log.Error().Err(err).Msg("told, and not written down")
		}
	}
}

// undelivered are the replies to the session's questions in deny mode that no waiter delivers, since it was killed or the
// session had ended. The locks show other processes that this one does.
func (h *Hook) undelivered(e *Event) (all []telling, locks []*state.Lock) {
	markers := h.markers(e)
	all = h.neverArrived(context.Background(), e, markers)
	also := delivered // another hook may block the prompt, and its context with it: the next event looks
	if e.HookEventName == "SessionStart" {
		also = func(q *state.Question) { q.DeliveredAt = nil } // nothing blocks that
	}
	for _, q := range markers {
		if !q.Denied || q.Status != state.Answered {
			continue
		}
		lock, err := state.LockWaiter(h.Env, q.Path)
		if err != nil {
			continue // another process is about to deliver it
		}
		locks = append(locks, lock)
		if q, err = state.LoadQuestion(q.Path); err == nil && q.Status == state.Answered {
			all = append(all, telling{replyText(q), func() error { return resolve(q, also) }})
		}
	}
	if slices.ContainsFunc(markers, func(q *state.Question) bool { return q.Status.Open() }) {
		h.startPoller() // after the machine was off, nothing else would read what the person replied
	}
	return all, locks
}

// sessionEnded writes down that the session of open markers has ended: its waiters end, and a person who replies is told when
// the reply will be read.
func (h *Hook) sessionEnded(e *Event) {
	for _, q := range h.markers(e) {
		if h.inOtherTerminal(q) {
			continue
		}
		if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			if q.Closed() && !q.Answerable() || q.SessionEnded != nil {
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
	if text := state.SessionsIn(state.UserState(h.Env)).TakeNotices(e.SessionID); text != "" {
		out["systemMessage"] = text
	}
	var tellings []telling
	if e.HookEventName == "SessionStart" || e.HookEventName == "UserPromptSubmit" {
		var locks []*state.Lock
		tellings, locks = h.undelivered(e)
		defer func() {
			for _, lock := range locks {
				lock.Unlock()
			}
		}()
	}
	if len(tellings) > 0 {
		out["hookSpecificOutput"] = map[string]any{"hookEventName": e.HookEventName, "additionalContext": textOf(tellings)}
	}
	if len(out) == 0 {
		return
	}
	if err := h.Print(out); err != nil {
		h.log.Error().Err(err).Msg("notice not shown")
		return
	}
	h.told(tellings)
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

// passedOver logs, once, that there are markers that are none. They stay where they are, and each event meets them again.
func (h *Hook) passedOver(bad []error) {
	if len(bad) > 0 && !h.passed {
		h.passed = true
		h.log.Warn().Err(bad[0]).Int("files", len(bad)).Msg("marker passed over")
	}
}

const (
	// transcriptLag is how long after it happened a transcript may not say yet that a session was woken.
	transcriptLag = 3 * time.Second
	// wokenWithin is how much of a transcript's end is searched for it, in bytes.
	wokenWithin = 16 << 20
)

// neverArrived is what the session was to be told of its questions in deny mode, and was not: the process was killed between
// writing that down and its end, or another hook blocked the prompt that carried it. The transcript tells. It is told once more.
func (h *Hook) neverArrived(ctx context.Context, e *Event, markers []*state.Question) (lost []telling) {
	for _, q := range markers {
		if q.DeliveredAt == nil || q.DeliverySeen || q.Status.Open() {
			continue
		}
		if q.Status != state.TimedOut && (q.ResolvedAt == nil || q.ResolvedAt.Sub(*q.DeliveredAt).Abs() > time.Second) {
			continue // it was woken with the timeout, and the late reply went another way
		}
		if since := time.Since(*q.DeliveredAt).Abs(); since < transcriptLag {
			if e.HookEventName != "Stop" {
				continue // the next event tells
			}
			sleep(ctx, transcriptLag-since) // in the background
		}
		there, known := toldIn(string(e.Transcript), q)
		if !there && !known {
			continue
		}
		seen := telling{replyText(q), func() error {
			_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { q.DeliverySeen = true; return nil })
			return err
		}}
		if there {
			h.told([]telling{seen})
			continue
		}
		if q.Status == state.TimedOut {
			seen.text = timeoutText(q, false)
		}
		h.log.Warn().Str("question", q.QuestionID).Msg("the session was not told of this; it is told again")
		lost = append(lost, seen)
	}
	return lost
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// toldIn says whether a transcript holds what its session was woken with; known is false where that cannot be told.
func toldIn(path string, q *state.Question) (there, known bool) {
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
