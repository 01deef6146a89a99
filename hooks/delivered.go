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

// neverArrived is what the session was to be told of its questions in deny mode, and was not: the process was killed between
// writing that down and its end. The transcript tells. Done must be called: with true once it is on its way again, which is
// made sure of no more.
func (h *Hook) neverArrived(ctx context.Context, e *Event) (texts []string, done func(bool)) {
	var lost []*state.Question
	var news struct {
		Transcript words `json:"transcript_path"`
	}
	_ = e.read(&news)
	err := h.markers(e, func(q *state.Question) error {
		if q.DeliveredAt == nil || q.DeliverySeen || q.Status.Open() || time.Since(*q.DeliveredAt) < 0 {
			return nil
		}
		if q.ResolvedAt == nil || q.ResolvedAt.Sub(*q.DeliveredAt).Abs() > time.Second {
			return nil // it was woken with the timeout, and the late reply went another way
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
		switch there, known := h.toldIn(string(news.Transcript), q); {
		case there:
			return seen(q)
		case known:
			h.log.Warn().Str("question", q.QuestionID).Msg("the session was not told of this; it is told again")
			lost, texts = append(lost, q), append(texts, textOf(q))
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		h.log.Error().Err(err).Msg("markers")
	}
	return texts, func(delivered bool) {
		for _, q := range lost {
			if !delivered {
				return
			}
			if err := seen(q); err != nil {
				h.log.Error().Err(err).Msg("told again, and not written down")
			}
		}
	}
}

func seen(q *state.Question) error {
	_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { q.DeliverySeen = true; return nil })
	return err
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
		return timeoutText(q, false)
	}
	return replyText(q)
}
