package poller

import (
	"context"
	"slices"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// merge makes one message of m and those behind it in its lane, where that is wanted and m was never tried.
func (s *sender) merge(ctx context.Context, m *letter, behind []state.Queued) error {
	if len(m.Merged) > 0 {
		return s.box.Absorb(m.Outgoing)
	}
	if !m.Low && !m.Digest || m.PartsSent > 0 || !s.box.Tried(m.Outgoing).IsZero() {
		return nil
	}
	parts, size, others := slices.Clone(m.Parts), textSize(m.Parts), []*state.Outgoing(nil)
	for _, q := range behind {
		next := s.letter(ctx, q.Path)
		if next == nil || next.hook == nil {
			continue // gone, or another process's: as if it stood elsewhere
		}
		if !together(m.Outgoing, next.Outgoing) || s.now().Before(next.NotBefore) || next.hook.ID() != m.hook.ID() ||
			!s.box.Tried(next.Outgoing).IsZero() || len(next.Merged) > 0 {
			break
		}
		if size += textSize(next.Parts); size > mergedSize(m.Outgoing) {
			break
		}
		parts, others = append(parts, next.Parts...), append(others, next.Outgoing)
	}
	for _, o := range others {
		delete(s.loaded, o.Path)
	}
	switch {
	case m.Digest:
		parts = gchat.Digest(parts, 1+len(others))
	case len(others) > 0:
		parts = []string{gchat.Together(parts)}
	default:
		return nil
	}
	return s.box.Merge(m.Outgoing, others, parts)
}

// together says whether b may go in one message with a, which stands before it.
func together(a, b *state.Outgoing) bool {
	if a.Digest || b.Digest {
		return a.Digest && b.Digest
	}
	return a.Low && b.Low && a.SessionID != "" && a.SessionID == b.SessionID && len(a.Parts) == 1 && len(b.Parts) == 1
}

// mergedSize bounds a merged message: one message of low value, or a digest of several.
func mergedSize(m *state.Outgoing) int {
	if m.Digest {
		return 8 * gchat.MaxText
	}
	return gchat.MaxText
}

func textSize(texts []string) (n int) {
	for _, t := range texts {
		n += len(t) + len("\n\n")
	}
	return n
}
