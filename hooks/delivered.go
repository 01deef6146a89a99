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
// writing that down and its end, or another hook blocked the prompt that carried it. The transcript tells. The caller must
// call done, with true once the texts are on their way again; they are not looked for once more.
func (h *Hook) neverArrived(ctx context.Context, e *Event, markers []*state.Question) (texts []string, done func(bool)) {
	var lost []*state.Question
	var news struct {
		Transcript words `json:"transcript_path"`
	}
	_ = e.Read(&news)
	for _, q := range markers {
		if q.DeliveredAt == nil || q.DeliverySeen || q.Status.Open() || time.Since(*q.DeliveredAt) < 0 {
			continue
		}
		if q.ResolvedAt == nil || q.ResolvedAt.Sub(*q.DeliveredAt).Abs() > time.Second {
			continue // it was woken with the timeout, and the late reply went another way
		}
		if since := time.Since(*q.DeliveredAt); since < transcriptLag {
			if e.HookEventName != "Stop" {
				continue // the next event tells
			}
			if sleep(ctx, transcriptLag-since); ctx.Err() != nil { // in the background
				break
			}
		}
		switch there, known := h.toldIn(string(news.Transcript), q); {
		case there:
			if err := seen(q); err != nil {
				h.log.Error().Err(err).Msg("told, and not written down")
			}
		case known:
			h.log.Warn().Str("question", q.QuestionID).Msg("the session was not told of this; it is told again")
			lost, texts = append(lost, q), append(texts, textOf(q))
		}
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

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// seen writes down that a session was told of a question.
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
