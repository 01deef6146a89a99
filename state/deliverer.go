package state

// Deliverer is who can bring the reply to a question to Claude.
type Deliverer string

const (
	DelivererHook   Deliverer = "hook"   // a hook or gchat-wait waits for it
	DelivererPoller Deliverer = "poller" // the poller types it
	// the record keeps it until a later hook or gchat-wait fetches it
	DelivererLater Deliverer = "later"
	DelivererNone  Deliverer = "terminal" // only the terminal answers the question
)

// FindDeliverer decides who can bring a reply to the question to Claude at this moment.
// hasPane says that the caller knows a pane into which the answer may be typed.
func (q *Question) FindDeliverer(env Getenv, hasPane bool) Deliverer {
	traits, canType := q.Kind.Traits(), hasPane && q.CanBeTyped()
	switch {
	case q.HandedOverAt != nil:
		return DelivererNone
	// a waiting hook, if there is one, only waits for the question to end
	case traits.IsPrompt && canType:
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

// NeedsHook reports whether only the question's own hook should deliver the reply, and
// that hook is not waiting. The poller may be able to type the answer instead.
func (q *Question) NeedsHook(deliverer Deliverer) bool {
	isTyped := deliverer == DelivererPoller && !q.Kind.Traits().IsPrompt
	return q.Mode.Traits().NeedsHook && (isTyped || deliverer == DelivererNone)
}
