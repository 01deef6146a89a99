package state

// Deliverer is who can bring the reply to a question to Claude.
type Deliverer string

const (
	DelivererHook   Deliverer = "hook"     // a process waits for it: a hook, or gchat-wait
	DelivererPoller Deliverer = "poller"   // the poller types it
	DelivererLater  Deliverer = "later"    // the record keeps it for the process that comes for it
	DelivererNone   Deliverer = "terminal" // only the terminal answers the question
)

// FindDeliverer decides who can bring the reply to a question to Claude, as things are
// now. hasPane says that the caller knows a pane which the answer may be typed into.
func (q *Question) FindDeliverer(env Getenv, hasPane bool) Deliverer {
	traits, canType := q.Kind.Traits(), hasPane && q.CanBeTyped()
	switch {
	case q.HandedOverAt != nil:
		return DelivererNone
	case traits.IsPrompt && canType: // a hook may be there, which waits for it to be over
		return DelivererPoller
	case HasWaiter(env, q.Path):
		return DelivererHook
	case canType:
		return DelivererPoller
	case q.Mode.Traits().KeepsAnswer || q.Kind == KindPrompt:
		return DelivererLater
	}
	return DelivererNone
}

// NeedsHook reports whether a hook of its own is to deliver the reply to a question, and
// does not wait for it. The poller can perhaps type it instead.
func (q *Question) NeedsHook(deliverer Deliverer) bool {
	isTyped := deliverer == DelivererPoller && !q.Kind.Traits().IsPrompt
	return q.Mode.Traits().NeedsHook && (isTyped || deliverer == DelivererNone)
}
