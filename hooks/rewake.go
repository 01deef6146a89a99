package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
