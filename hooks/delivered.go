package hooks

import (
	"bytes"
	"context"
	"io"
	"time"

	"gchat-hooks/state"
)

const (
	// transcriptLag is how long after it happened a transcript may not say yet that a session was woken.
	transcriptLag = 3 * time.Second
	// wokenWithin is how much of a transcript's end is searched for it, in bytes.
	wokenWithin = 16 << 20
)

// neverArrived are the session's questions in deny mode that it was to be woken with, and was not: the process was killed
// between writing that down and its end. The transcript tells. Each is found once.
func (h *Hook) neverArrived(ctx context.Context, e *Event) (lost []*state.Question) {
	var news struct {
		Transcript words `json:"transcript_path"`
	}
	_ = e.read(&news)
	err := h.markers(e, func(q *state.Question) error {
		if q.DeliveredAt == nil || q.DeliverySeen || q.Status.Open() || time.Since(*q.DeliveredAt) < 0 {
			return nil
		}
		if since := time.Since(*q.DeliveredAt); since < transcriptLag {
			if e.HookEventName != "Stop" {
				return nil // the next event tells
			}
			select { // in the background
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(transcriptLag - since):
			}
		}
		there, known := h.toldIn(string(news.Transcript), q)
		mine := false
		_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			if mine = !q.DeliverySeen; !mine {
				return state.ErrUnchanged
			}
			q.DeliverySeen = true
			return nil
		})
		if mine && known && !there {
			h.log.Warn().Str("question", q.QuestionID).Msg("the session was not woken with this; it is told again")
			lost = append(lost, q)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		h.log.Error().Err(err).Msg("markers")
	}
	return lost
}

// toldIn says whether a transcript holds what its session was woken with; known is false where that cannot be told.
func (h *Hook) toldIn(path string, q *state.Question) (there, known bool) {
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

// textOf is what a session is woken with, of a question that is over.
func textOf(q *state.Question) string {
	if q.Status == state.TimedOut {
		return timeoutText(q)
	}
	return replyText(q)
}
