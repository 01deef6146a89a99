package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"os/signal"
	"syscall"

	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// untilTold is a context that ends when the hook is told to end: Claude Code sends SIGTERM on Esc and when it quits.
func untilTold() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(),
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT)
}

// wait waits for the answer and prints it. Told to end (Esc, quit), it closes the question.
func (h *Hook) wait(ctx context.Context, e *Event, q *state.Question, allow func(json.RawMessage) any) error {
	defer h.leave()
	path := q.Path
	state.SignWaiter(q, h.Name)
	// At once, not when everything has ended: Claude Code may follow up with SIGKILL.
	told := context.AfterFunc(ctx, func() { h.dismiss(path) })
	q, err := h.poller.Wait(ctx, q)
	if !told() { // from here on the answer is on its way, and a signal changes nothing
		h.dismiss(path)
		return nil
	}
	if errors.Is(err, poller.ErrGaveUp) {
		return nil
	}
	if err != nil || q.Status != state.Answered {
		return err // closed otherwise: the dialog had its answer
	}
	input, err := answeredInput(e.ToolInput, q)
	if err != nil {
		return err
	}
	if err := h.Print(allow(input)); err != nil {
		return err
	}
	_, err = state.UpdateQuestion(q.Path, func(q *state.Question) error { q.Printed = true; return nil })
	return err
}

// dismiss closes a question that its person dismissed.
func (h *Hook) dismiss(path string) {
	defer h.catch()
	if _, err := h.poller.Close(path, state.Cancelled, "signal", nil); err != nil {
		h.log.Error().Err(err).Msg("question not closed")
	}
}

// leave hands what this hook put into the outbox to a process that stays.
func (h *Hook) leave() {
	if h.poller.Left() {
		h.wake()
	}
}
