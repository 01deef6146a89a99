package hooks

import (
	"context"
	"time"

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
	w.pid, w.start = poller.Claude(h.Env)
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
