package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// ownBound is how long a rewake hook looks for the marker of its own call, which the other hook of that call writes.
const ownBound = 8 * time.Second

// rewake is gchat-ask-user-rewake. Claude Code runs it in the background ("asyncRewake"): it waits for the replies to the
// session's questions in deny mode, and ends with exit code 2 and a reply on stderr, which wakes the session. On PreToolUse
// it waits for its own call's question, on Stop for those without a waiter, since their waiter was killed, the session
// was resumed, or another reply had to be delivered first.
func (h *Hook) rewake(ctx context.Context, e *Event) error {
	var markers []*state.Question
	switch {
	case e.HookEventName == "PreToolUse" && e.ToolName == askTool && h.mode(e) == state.Deny:
		if q := h.ownMarker(ctx, e); q != nil {
			markers = append(markers, q)
		}
	case e.HookEventName == "Stop":
		markers = h.denied(e)
		if lost := h.neverArrived(ctx, e, markers); len(lost) > 0 {
			h.wakeWith(lost)
			return nil
		}
	}
	paths, release := h.take(e, markers)
	defer release()
	if len(paths) > 0 {
		h.waitFor(ctx, e, paths)
		h.StartPoller() // the thread is told, and that no process waits for the other questions
		return nil
	}
	if e.HookEventName == "Stop" {
		return h.next(ctx, e)
	}
	return nil
}

// denied are the session's questions whose denial was sent. Without one there is a dialog, or a hook is about to deny.
func (h *Hook) denied(e *Event) []*state.Question {
	return slices.DeleteFunc(h.markers(e), func(q *state.Question) bool { return !q.Denied })
}

// ownMarker waits for the call's marker, which another hook writes; nil when its question went another way.
func (h *Hook) ownMarker(ctx context.Context, e *Event) *state.Question {
	for end := time.Now().Add(ownBound); time.Now().Before(end) && ctx.Err() == nil; sleep(ctx, 100*time.Millisecond) {
		if q := ofCall(h.markers(e), e); q != nil {
			return q
		}
	}
	return nil
}

// take makes this process the waiter of those markers whose reply, or timeout, the session is still to be told of. They are
// this Claude Code's from now on, whichever asked: the session may have been resumed. release ends that.
func (h *Hook) take(e *Event, markers []*state.Question) (paths []string, release func()) {
	var locks []*state.Lock
	for _, q := range markers {
		if q.Closed() && !untold(q) && !q.Late(time.Now()) || q.SessionEnded == nil && h.inOtherTerminal(q) {
			continue
		}
		lock, err := state.LockWaiter(h.Env, q.Path)
		if errors.Is(err, state.ErrLocked) {
			continue // another process waits
		}
		if err == nil {
			locks = append(locks, lock)
			s := h.session(e)
			_, err = state.UpdateQuestion(q.Path, func(q *state.Question) error {
				if q.SessionEnded == nil && q.ClaudePID == s.ClaudePID && q.ClaudeStart == s.ClaudeStart {
					return state.ErrUnchanged
				}
				q.SessionEnded, q.ClaudePID, q.ClaudeStart = nil, s.ClaudePID, s.ClaudeStart
				return nil
			})
		}
		if err == nil {
			err = state.AnnounceQuestion(h.Env, q)
		}
		if err != nil {
			h.log.Error().Err(err).Msg("marker not taken over")
			continue
		}
		paths = append(paths, q.Path)
	}
	return paths, func() {
		for _, lock := range locks {
			lock.Unlock()
		}
	}
}

// waitFor waits until the session is to be told something of one of these questions, and wakes it with what there is by then.
// It ends quietly when they were answered otherwise or when the session is over.
func (h *Hook) waitFor(ctx context.Context, e *Event, paths []string) {
	s := h.session(e)
	over := func(q *state.Question) bool { return q.SessionEnded != nil || inject.Ended(s.ClaudePID, s.ClaudeStart) }
	final := make(chan string, len(paths))
	for _, path := range paths {
		go func() {
			defer h.catch()
			_, err := state.Await(ctx, h.Env, h.Self, path, func(q *state.Question) bool {
				return over(q) || q.Denied && q.Status == state.Answered || untold(q) || q.Closed() && !q.Late(time.Now())
			})
			if err != nil && ctx.Err() == nil && !errors.Is(err, state.ErrUnserved) {
				h.log.Error().Err(err).Msg("not waited for any longer")
			}
			final <- path
		}()
	}
	for range len(paths) {
		select {
		case <-ctx.Done():
			return
		case <-final:
		}
		var texts []string
		for _, path := range paths {
			if q, err := state.LoadQuestion(path); err == nil && !over(q) {
				texts = append(texts, nonEmpty(h.tellOf(q))...)
			}
		}
		if len(texts) > 0 {
			h.wakeWith(texts)
			return
		}
	}
}

// untold says that a question timed out, and its session was not told of that.
func untold(q *state.Question) bool {
	return q.Denied && q.Status == state.TimedOut && q.DeliveredAt == nil
}

// tellOf is what Claude is to be told of a question in deny mode now; "" for nothing.
//
// That is written down before it is said, or a disk that is full would have the session woken again and again. Killed in
// between, the transcript does not hold it, and the next event says it again.
func (h *Hook) tellOf(q *state.Question) (text string) {
	var err error
	now := time.Now().UTC()
	switch {
	case q.Denied && q.Status == state.Answered:
		text = replyText(q)
		var ended bool
		ended, err = state.CloseQuestion(q.Path, state.Resolved, "chat", func(q *state.Question) {
			q.DeliveredAt, q.DeliverySeen = &now, false
		})
		if err == nil && !ended {
			err = errors.New("it was closed just now")
		}
	case untold(q):
		text = timeoutText(q, h.unread(q))
		_, err = state.UpdateQuestion(q.Path, func(q *state.Question) error {
			if !untold(q) {
				return errors.New("a reply came just now")
			}
			q.DeliveredAt = &now
			return nil
		})
	}
	if err != nil {
		h.log.Error().Err(err).Msg("session not told: that cannot be written down")
		return ""
	}
	return text
}

// unread says that a question without a reply may have one: its space cannot be read, or the list of those who may answer.
func (h *Hook) unread(q *state.Question) bool {
	return q.Unread() || q.ResolvedBy != "policy" && state.SpacesIn(state.UserState(h.Env)).Of(q.Chat).Trouble != nil
}

// wakeWith has this process wake its session with these texts, as soon as it ends.
func (h *Hook) wakeWith(texts []string) {
	if _, err := fmt.Fprintln(h.Stderr, strings.Join(texts, "\n\n")); err != nil {
		h.log.Error().Err(err).Msg("session not woken")
		return
	}
	h.code = exitWake
}

// undelivered is what the session was not told, and no waiter delivers: it was killed, or the session had ended.
func (h *Hook) undelivered(e *Event) (texts []string) {
	markers := h.denied(e)
	texts = h.neverArrived(context.Background(), e, markers)
	paths, release := h.take(e, markers)
	for _, path := range paths {
		if q, err := state.LoadQuestion(path); err == nil {
			texts = append(texts, nonEmpty(h.tellOf(q))...)
		}
	}
	release()
	if len(paths) > 0 {
		h.StartPoller() // after the machine was off, nothing else would read what the person replied
	}
	return texts
}

// sessionEnded writes down that a session has ended: its waiters end, and a person who replies is told when Claude reads it.
func (h *Hook) sessionEnded(e *Event) {
	for _, q := range h.markers(e) {
		if h.inOtherTerminal(q) {
			continue
		}
		_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			if q.Closed() && !q.Answerable() || q.SessionEnded != nil {
				return state.ErrUnchanged
			}
			now := time.Now().UTC()
			q.SessionEnded = &now
			return nil
		})
		h.logFailed(err, "end of session not written down")
	}
}

// markers are the session's questions in deny mode, the newest first.
func (h *Hook) markers(e *Event) []*state.Question { return h.ofSession(e, state.MarkersIn) }

// transcriptLag is how long after it happened a transcript may not say yet that a session was woken.
const transcriptLag = 3 * time.Second

// neverArrived is what the session was told of its questions in deny mode and what its transcript does not hold: the hook was
// killed before its end, or another hook blocked the prompt that carried it. It is told once more. Claude Code keeps what a hook
// gives it as context in the transcript, at a session's start too (2.1.197, 2.1.329).
func (h *Hook) neverArrived(ctx context.Context, e *Event, markers []*state.Question) (lost []string) {
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
		end, all, err := transcriptEnd(string(e.Transcript), endBytes)
		there := bytes.Contains(end, []byte(endOf(q)))
		if err != nil || !there && !all {
			continue // that cannot be told
		}
		if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			q.DeliverySeen = true
			return nil
		}); err != nil || there {
			continue
		}
		if q.Status == state.TimedOut {
			lost = append(lost, timeoutText(q, false))
		} else {
			lost = append(lost, replyText(q))
		}
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
