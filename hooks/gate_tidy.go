package hooks

import (
	"time"

	"gchat-hooks/state"
)

// What a gate tidies each time, so that it stays quick: files that it looks at, that it removes, and open questions that it
// ends first, which waits for the disk.
const (
	mostLookedAt = 48
	mostRemoved  = 32
	mostExpired  = 2
)

// tidyMarkers removes markers of ours that are a day old, the closed ones first. The decision is out by now.
func (h *Hook) tidyMarkers(folder *state.MarkerFolder) {
	old, bad := folder.Old(time.Now(), mostLookedAt)
	h.passedOver(bad)
	expired := 0
	for _, m := range old[:min(len(old), mostRemoved)] {
		if m.Status.Open() {
			if expired++; expired > mostExpired {
				break // the closed ones came first
			}
			if ended, err := h.poller.Close(m.Path, state.Expired, "age", nil); err != nil || !ended {
				h.log.Warn().Err(err).Str("question", m.QuestionID).Msg("old marker not ended")
				continue
			}
			m.Status = state.Expired
		}
		if err := folder.Remove(m); err != nil {
			h.log.Warn().Err(err).Str("question", m.QuestionID).Msg("old marker not removed")
		}
	}
	if expired > 0 {
		h.wake() // their threads are told
	}
}
