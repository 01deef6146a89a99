package hooks

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// sameStop is how close together the events of one turn's end come that two installs of ours get.
const sameStop = 3 * time.Second

// next is for a turn's end: the session's thread is asked for the next instruction. In tmux the poller types it; elsewhere this
// hook waits for it, and wakes the session with it.
func (h *Hook) next(ctx context.Context, e *Event) error {
	qs := h.ofSession(e, h.own(), state.TextsOpen...)
	h.closeNext(e, qs)
	if h.unattended() { // it ends when this hook does
		return nil
	}
	for _, q := range slices.Backward(qs) { // the oldest first
		if q.Kind.Row().Said && q.Status == state.Answered && q.TmuxPane == "" && !q.Printed {
			h.waitFor(ctx, e, h.take(e, []*state.Question{q}))
			return nil
		}
	}
	q, err := h.askNext(ctx, e)
	if err != nil {
		return err
	}
	if q == nil {
		return h.tellTurn(e)
	}
	h.StartPoller()
	if q.TmuxPane == "" {
		h.waitFor(ctx, e, h.take(e, []*state.Question{q}))
	}
	return nil
}

// closeNext closes what waited for a session's next instruction before this event: Claude has gone on. What was said to it
// unasked, and has not reached it, goes on waiting.
func (h *Hook) closeNext(e *Event, qs []*state.Question) {
	qs = slices.DeleteFunc(slices.Clone(qs), func(q *state.Question) bool {
		// Another install's hook may have written one down for this very Stop.
		same := e.HookEventName == "Stop" && !q.Kind.Row().Said && time.Since(q.AskedAt).Abs() < sameStop
		return !q.Kind.Row().Prompt || !q.Status.Open() || h.inOtherTerminal(q) || same
	})
	slices.Reverse(qs) // the oldest first
	prompt := oneLine(inject.Unpasted(string(e.Prompt)))
	woken := func(q *state.Question) bool { // what wakes the session is a prompt, too, with other words around
		words, _ := q.Decision()
		return q.Printed && (e.HookEventName == "Stop" || strings.Contains(prompt, oneLine(words)))
	}
	this := slices.IndexFunc(qs, func(q *state.Question) bool { // the same words may have been said twice
		words, _ := q.Decision()
		typed := q.Status == state.Answered && q.Typing != nil
		return typed && e.HookEventName == "UserPromptSubmit" && inject.Same(prompt, words)
	})
	for i, q := range qs {
		switch {
		case i == this, q.Status == state.Answered && woken(q),
			q.Status == state.Answered && e.HookEventName == "Stop" && q.Typing != nil && !q.Kind.Row().Said:
			h.close(q.Path, state.Resolved, "chat")
		case q.Kind.Row().Said: // it has not reached Claude
		case q.Status == state.Pending && (this >= 0 || e.HookEventName == "Stop"):
			// What was said goes in its place, or a new one follows.
			h.close(q.Path, state.Cancelled, state.Instead)
		case e.HookEventName == "UserPromptSubmit":
			h.close(q.Path, state.Cancelled, "prompt")
		}
	}
}

// lastSaid are Claude's last words of a turn that ends.
func lastSaid(e *Event) string {
	said := strings.TrimSpace(string(e.LastWords))
	if said == "" {
		said, _ = LastWords(string(e.Transcript))
	}
	return said
}

// askNext writes down that the session waits for its next instruction, where the person wants to be told; nil where not.
func (h *Hook) askNext(ctx context.Context, e *Event) (*state.Question, error) {
	idle := h.rules(e).Idle
	if idle == config.IdleOff || e.SessionID == "" || e.AgentID != "" {
		return nil, nil
	}
	said := lastSaid(e)
	if idle == config.IdleAsks && !endsInQuestion(said) {
		return nil, nil
	}
	if h.keeps(ctx, h.config(), state.AskedNext) {
		return nil, nil
	}
	h.asked.listens = true
	q, err := h.question(e, state.Native)
	if err != nil {
		return nil, err
	}
	q.Kind, q.Shown, q.ThreadKey = state.AskedNext, state.MaskKeys(said), state.SessionThread(e.SessionID)
	q.Questions = []state.Prompt{{Header: "Next", Question: "What is to be done next?"}}
	q.InputHash = callHash("Stop", json.RawMessage(`"`+q.QuestionID+`"`))
	return h.record(context.Background(), e, h.own(), func(have []*state.Question) *state.Question {
		for _, old := range have {
			if old.Kind.Row().Prompt && old.Status.Open() && old.Shown == q.Shown && q.AskedAt.Sub(old.AskedAt) < sameStop {
				return old // a second install's hook wrote it down
			}
		}
		return q
	}, state.TextsOpen...)
}

// endsInQuestion says whether a text ends in a question, also with emphasis, quotes or brackets around it.
func endsInQuestion(text string) bool {
	text = strings.TrimRight(text, " \t\r\n*_`~\"'”’»)]")
	return strings.HasSuffix(text, "?") || strings.HasSuffix(text, "？") || strings.HasSuffix(text, "؟")
}
