package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		// Without a denial there is a dialog, or another hook is about to deny.
		markers = slices.DeleteFunc(h.markers(e), func(q *state.Question) bool { return !q.Denied })
		if lost := h.neverArrived(ctx, e, markers); len(lost) > 0 {
			if h.wakeWith(lost) {
				h.told(lost)
			}
			return nil
		}
	}
	paths, locks := h.take(e, markers)
	if len(paths) > 0 {
		h.waitFor(ctx, e, paths)
		h.startPoller() // the thread is told, and that no process waits for the other questions
	}
	for _, lock := range locks {
		lock.Unlock()
	}
	return nil
}

// ownMarker waits until the call's marker is there, whichever of the two hooks starts first; nil when its question went
// another way.
func (h *Hook) ownMarker(ctx context.Context, e *Event) *state.Question {
	hash := e.inputHash()
	for end := time.Now().Add(ownBound); time.Now().Before(end) && ctx.Err() == nil; sleep(ctx, 100*time.Millisecond) {
		for _, q := range h.markers(e) {
			byID := e.ToolUseID != "" && q.ToolUseID == e.ToolUseID
			byInput := q.InputHash == hash && (e.ToolUseID == "" || q.ToolUseID == "")
			if byID || byInput {
				return q
			}
		}
		for _, dir := range h.stateDirs() { // asked in the terminal after all
			if qs, _, err := state.QuestionsIn(dir).OfSession(e.SessionID); err == nil && ofCall(qs, e) != nil {
				return nil
			}
		}
	}
	return nil
}

// take makes this process the waiter of those markers whose reply, or timeout, the session is still to be told of. They are
// this Claude Code's from now on, whichever asked: the session may have been resumed.
func (h *Hook) take(e *Event, markers []*state.Question) (paths []string, locks []*state.Lock) {
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
	return paths, locks
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
		if h.deliver(paths, over) {
			return
		}
	}
}

// untold says that a question timed out, and its session was not told of that.
func untold(q *state.Question) bool {
	return q.Denied && q.Status == state.TimedOut && q.DeliveredAt == nil
}

// deliver wakes the session with what became of these questions. It reports whether there is something to wake it with.
//
// That is written down before it is said, or a disk that is full would have the session woken again and again. Killed in
// between, the transcript does not hold it, and the next event says it again.
func (h *Hook) deliver(paths []string, over func(*state.Question) bool) (found bool) {
	var all []telling
	for _, path := range paths {
		q, err := state.LoadQuestion(path)
		switch {
		case err != nil || over(q) || !q.Denied:
			continue
		case q.Status == state.Answered:
			err = resolve(q, delivered)
			all = append(all, telling{text: replyText(q)})
		case untold(q):
			err = timeoutTold(path)
			all = append(all, telling{text: timeoutText(q, h.unread(q))})
		default:
			continue
		}
		if found = true; err != nil {
			h.log.Error().Err(err).Msg("session not woken: that cannot be written down")
			all = all[:len(all)-1]
		}
	}
	if len(all) > 0 {
		h.wakeWith(all)
	}
	return found
}

// unread says that a question without a reply may have one: its space cannot be read, or the list of those who may answer.
func (h *Hook) unread(q *state.Question) bool {
	return q.Unread() || q.ResolvedBy != "policy" && state.SpacesIn(state.UserState(h.Env)).Of(q.Chat).Trouble != nil
}

// wakeWith has this process wake its session with these texts, as soon as it ends.
func (h *Hook) wakeWith(all []telling) bool {
	if _, err := fmt.Fprintln(h.Stderr, textOf(all)); err != nil {
		h.log.Error().Err(err).Msg("session not woken")
		return false
	}
	h.code = exitWake
	return true
}

// delivered notes when a session was to be woken: whether it was, the transcript tells later.
func delivered(q *state.Question) {
	now := time.Now().UTC()
	q.DeliveredAt, q.DeliverySeen = &now, false
}

// timeoutTold notes that the session is woken with a question's timeout.
func timeoutTold(path string) error {
	_, err := state.UpdateQuestion(path, func(q *state.Question) error {
		if !untold(q) {
			return errors.New("a reply came just now")
		}
		delivered(q)
		return nil
	})
	return err
}

// resolve closes a question whose answer Claude has.
func resolve(q *state.Question, also func(*state.Question)) error {
	ended, err := state.CloseQuestion(q.Path, state.Resolved, "chat", also)
	if err == nil && !ended {
		err = errors.New("it was closed just now")
	}
	return err
}
