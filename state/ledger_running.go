package state

import "slices"

// Running are the sessions that have begun and whose end no hook told, the one that was seen last first. One that was
// killed is among them until it is swept. What does not parse is moved aside and returned in bad.
func (s Ledgers) Running() (running []*Ledger, bad []error) {
	running, bad = s.load(func(kind string) bool { return kind == "json" })
	slices.SortStableFunc(running, func(a, b *Ledger) int { return b.LastSeen.Compare(a.LastSeen) })
	return running, bad
}
