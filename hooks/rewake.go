package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

const (
	// ownBound is how long a rewake hook looks for the marker of its own call: the other hook puts it into the space first.
	ownBound = 8 * time.Second
	// adoptEvery is how often it looks for markers of its session that have lost their waiter.
	adoptEvery = 5 * time.Second
)

// rewake is gchat-ask-user-rewake. Claude Code runs it in the background ("asyncRewake"): it waits for the replies to the
// session's questions in deny mode, and ends with exit code 2 and a reply on stderr, which wakes the session. On PreToolUse
// it waits for its own call's question, on Stop for those without a waiter, since their waiter was killed, the session
// was resumed, or another reply had to be delivered first.
func (h *Hook) rewake(ctx context.Context, e *Event) error {
	own := ""
	switch {
	case e.HookEventName == "PreToolUse" && e.ToolName == askTool && h.mode(e) == state.Deny:
		if own = h.ownMarker(ctx, e); own == "" {
			return nil
		}
	case e.HookEventName == "Stop":
		if texts, done := h.neverArrived(ctx, e, h.markers(e)); len(texts) > 0 {
			done(h.wakeWith(texts))
			return nil
		}
	default:
		return nil
	}
	w := &waiters{Hook: h, event: e, replies: make(chan *waiter, 1)}
	w.pid, w.start = inject.Claude(h.Env)
	defer w.end()
	w.adopt(ctx, own, true)
	tick := time.NewTicker(adoptEvery)
	defer tick.Stop()
	for len(w.waiting) > 0 { // else it ends quietly: answered otherwise, or another process waits
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if w.pid > 0 && poller.Gone(&state.Question{ClaudePID: w.pid, ClaudeStart: w.start}) {
				return nil // there is no session to wake
			}
			w.adopt(ctx, own, false)
		case one := <-w.replies:
			if w.deliver(one) {
				return nil
			}
		}
	}
	return nil
}

// ownMarker waits until the call's marker is in the space, whichever of the two hooks starts first, and returns its path;
// "" when its question went another way.
func (h *Hook) ownMarker(ctx context.Context, e *Event) (path string) {
	hash := e.inputHash()
	for end := time.Now().Add(ownBound); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		gone := false
		for _, q := range h.markers(e) {
			byID := e.ToolUseID != "" && q.ToolUseID == e.ToolUseID
			byInput := q.InputHash == hash && (e.ToolUseID == "" || q.ToolUseID == "")
			if path == "" && (byID || byInput) {
				if gone = !q.Status.Open() && q.Status != state.TimedOut; q.Denied {
					path = q.Path
				}
			}
		}
		if path != "" || gone {
			return path
		}
		for _, dir := range h.stateDirs() { // asked in the terminal after all
			if qs, _, err := state.QuestionsIn(dir).OfSession(e.SessionID); err == nil && ofCall(qs, e) != nil {
				return ""
			}
		}
	}
	return path
}

// waiters are what one process waits for.
type waiters struct {
	*Hook
	event   *Event
	pid     int // of Claude Code
	start   string
	waiting []*waiter
	replies chan *waiter
}

// waiter waits for one question.
type waiter struct {
	path string
	err  error // once done is closed
	lock *state.Lock
	stop context.CancelFunc
	done chan struct{}
}

// adopt begins to wait for every question of the session that has no waiter. At first that a session had ended says
// nothing, since this hook runs in it; later it has ended again.
func (w *waiters) adopt(ctx context.Context, own string, first bool) {
	for _, q := range w.markers(w.event) {
		waited := slices.ContainsFunc(w.waiting, func(one *waiter) bool { return one.path == q.Path })
		if waited || !q.Denied || !q.Status.Open() && !q.Late(time.Now()) || !first && q.SessionEnded != nil {
			continue
		}
		if own != "" && q.Path != own && time.Since(q.AskedAt).Abs() < ownBound {
			continue // its own hook is just starting
		}
		if q.SessionEnded == nil && w.inOtherTerminal(q) {
			continue
		}
		lock, err := state.LockWaiter(q)
		if err != nil {
			if !errors.Is(err, state.ErrLocked) {
				w.log.Error().Err(err).Msg("lock marker")
			}
			continue
		}
		if q, err = w.claim(q); err != nil || !q.Status.Open() && !q.Answerable() {
			lock.Unlock()
			continue
		}
		if q.Path != own {
			w.log.Info().Str("question", q.QuestionID).Msg("waiting for a reply that nobody waited for")
		}
		w.begin(ctx, q, lock)
	}
}

// claim says that the question is this Claude Code's, which lives, whichever asked it.
func (w *waiters) claim(q *state.Question) (*state.Question, error) {
	return state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if q.SessionEnded == nil && q.ClaudePID == w.pid && q.ClaudeStart == w.start {
			return state.ErrUnchanged
		}
		q.SessionEnded, q.ClaudePID, q.ClaudeStart = nil, w.pid, w.start // 0 where it cannot be told
		return nil
	})
}

func (w *waiters) begin(ctx context.Context, q *state.Question, lock *state.Lock) {
	ctx, stop := context.WithCancel(ctx)
	state.SignWaiter(q, w.Name)
	one := &waiter{path: q.Path, lock: lock, stop: stop, done: make(chan struct{})}
	w.waiting = append(w.waiting, one)
	until := q.AskedAt.Add(state.DefaultReplyTimeout)
	switch {
	case q.Status == state.TimedOut:
		until = q.AskedAt.Add(state.MaxAge)
	case q.TimesOutAt != nil:
		until = *q.TimesOutAt
	}
	go func() {
		defer close(one.done)
		defer w.catch()
		_, one.err = w.poller.Await(ctx, q, poller.Waiting{Until: until, Held: true, Over: func(q *state.Question) bool {
			return q.SessionEnded != nil || poller.Gone(q)
		}})
		select {
		case w.replies <- one:
		case <-ctx.Done():
		}
	}()
}

// end stops waiting: what is left is another process's.
func (w *waiters) end() {
	for _, one := range w.waiting {
		one.stop()
	}
	for _, one := range w.waiting {
		<-one.done
		one.lock.Unlock()
	}
	w.waiting = nil
	w.leave()
}

// deliver wakes the session with what became of a question. It reports whether there is something to wake it with.
func (w *waiters) deliver(first *waiter) bool {
	text, record := w.toldOf(first)
	w.waiting = slices.DeleteFunc(w.waiting, func(one *waiter) bool { return one == first })
	defer func() {
		first.stop()
		first.lock.Unlock()
	}()
	if text == "" {
		return false // closed otherwise, or its session has ended
	}
	told := []tale{{text, record}}
	for _, one := range w.waiting { // what came at the same moment goes along: this process ends now
		one.stop()
		<-one.done
		if text, record := w.toldOf(one); text != "" {
			told = append(told, tale{text, record})
		}
	}
	// Written down before it is said, or a disk that is full would have the session woken again and again. Killed in between,
	// the transcript does not hold it, and the next event says it again.
	var texts []string
	for _, t := range told {
		if err := t.record(); err != nil {
			w.log.Error().Err(err).Msg("session not woken: that cannot be written down")
			continue
		}
		texts = append(texts, t.text)
	}
	if len(texts) > 0 {
		w.wakeWith(texts)
	}
	return true
}

// tale is what a session is told, and what is written down of that.
type tale struct {
	text   string
	record func() error
}

// wakeWith has this process wake its session with these texts, as soon as it ends.
func (h *Hook) wakeWith(texts []string) bool {
	if _, err := fmt.Fprintln(h.Stderr, strings.Join(texts, "\n\n")); err != nil {
		h.log.Error().Err(err).Msg("session not woken")
		return false
	}
	h.code = exitWake
	return true
}

// toldOf is what a session is told of a question, and what is written down after that; "" for nothing.
func (w *waiters) toldOf(one *waiter) (text string, record func() error) {
	q, err := state.LoadQuestion(one.path)
	if err != nil {
		return "", nil
	}
	unread := errors.Is(one.err, poller.ErrUnread)
	switch {
	case q.SessionEnded != nil || poller.Gone(q):
	case q.Status == state.Answered:
		return replyText(q), func() error { return w.resolve(q, delivered) }
	case q.Status == state.Pending && (unread || errors.Is(one.err, poller.ErrNoReply)):
		return timeoutText(w.poller.TimedOut(q, unread), unread), func() error {
			ended, err := w.poller.TimeOut(q.Path, unread, delivered)
			if err == nil && !ended {
				err = errors.New("a reply came just now")
			}
			return err
		}
	}
	return "", nil
}

// delivered notes when a session was to be woken: whether it was, the transcript tells later.
func delivered(q *state.Question) {
	now := time.Now().UTC()
	q.DeliveredAt, q.DeliverySeen = &now, false
}

// resolve closes a question whose answer Claude has.
func (h *Hook) resolve(q *state.Question, also func(*state.Question)) error {
	ended, err := h.poller.Close(q.Path, state.Resolved, "chat", also)
	if err == nil && !ended {
		err = errors.New("it was closed just now")
	}
	return err
}
