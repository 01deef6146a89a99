package state

// Deliverer is who can bring the reply to a question to Claude.
type Deliverer string

const (
	ByHook   Deliverer = "hook"     // a process waits for it: a hook, or gchat-wait
	ByPoller Deliverer = "poller"   // the poller types it
	ByLater  Deliverer = "later"    // the record keeps it for the process that comes for it
	ByNobody Deliverer = "terminal" // only the terminal answers the question
)

// Deliverer decides who can bring the reply to a question to Claude, as things are now.
// hasPane says that the caller knows a pane which the answer may be typed into.
func (q *Question) Deliverer(env Getenv, hasPane bool) Deliverer {
	kind, isTyped := q.Kind.Row(), hasPane && q.Typed()
	switch {
	case q.HandedOver != nil:
		return ByNobody
	case kind.Prompt && isTyped: // a hook may be there, which waits for it to be over
		return ByPoller
	case HasWaiter(env, q.Path):
		return ByHook
	case isTyped:
		return ByPoller
	case q.Mode.Row().Later || q.Kind == Said:
		return ByLater
	}
	return ByNobody
}

// NeedsHook reports whether a hook of its own is to deliver the reply to a question, and does
// not wait for it. The poller can perhaps type it instead.
func (q *Question) NeedsHook(who Deliverer) bool {
	isTyped := who == ByPoller && !q.Kind.Row().Prompt
	return q.Mode.Row().Hook && (isTyped || who == ByNobody)
}
