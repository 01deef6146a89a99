package hooks

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// sameStop is how close together the events of one turn's end come that two installs of ours get.
const sameStop = 3 * time.Second

// next is for a turn's end: the session's thread is asked for the next instruction. In tmux the poller types it; elsewhere this
// hook waits for it, and wakes the session with it.
func (h *Hook) next(ctx context.Context, e *Event) error {
	h.closeNext(e, h.ofSession(e, h.own()))
	q, err := h.askNext(e)
	if err != nil || q == nil {
		return err
	}
	h.StartPoller()
	if q.TmuxPane == "" {
		h.waitFor(ctx, e, h.take(e, []*state.Question{q}))
	}
	return nil
}

// closeNext closes what waited for a session's next instruction before this event: Claude has gone on.
func (h *Hook) closeNext(e *Event, qs []*state.Question) {
	for _, q := range qs {
		if !q.Kind.Row().Prompt || !q.Status.Open() || h.inOtherTerminal(q) {
			continue
		}
		if e.HookEventName == "Stop" && time.Since(q.AskedAt).Abs() < sameStop {
			continue // another install's hook wrote it down for this very event
		}
		delivered := q.Status == state.Answered && (q.Printed || q.Typing != nil)
		if label, _ := q.Decision(); e.HookEventName == "UserPromptSubmit" {
			delivered = q.Status == state.Answered && oneLine(label) == oneLine(string(e.Prompt))
		}
		switch {
		case delivered:
			h.close(q.Path, state.Resolved, "chat")
		case e.HookEventName == "UserPromptSubmit":
			h.close(q.Path, state.Cancelled, "prompt")
		case q.Status == state.Pending: // a new one follows
			h.close(q.Path, state.Cancelled, state.Instead)
		}
	}
}

// askNext writes down that the session waits for its next instruction, where the person wants to be told; nil where not.
func (h *Hook) askNext(e *Event) (*state.Question, error) {
	idle := h.rules(e).Idle
	if idle == config.IdleOff || e.SessionID == "" || e.AgentID != "" {
		return nil, nil
	}
	h.asked.listens = true
	said := strings.TrimSpace(string(e.LastWords))
	if said == "" {
		said, _ = LastWords(string(e.Transcript))
	}
	if idle == config.IdleAsks && !endsInQuestion(said) {
		return nil, nil
	}
	q, err := h.question(e, state.Native)
	if err != nil {
		return nil, err
	}
	q.Kind, q.Shown, q.ThreadKey = state.AskedNext, state.MaskKeys(said), "session-"+e.SessionID
	q.Questions = []state.Prompt{{Header: "Next", Question: "What is to be done next?"}}
	q.InputHash = callHash("Stop", json.RawMessage(`"`+q.QuestionID+`"`))
	return h.record(context.Background(), e, h.own(), func(have []*state.Question) *state.Question {
		for _, old := range have {
			if old.Kind.Row().Prompt && old.Status.Open() && old.Shown == q.Shown && q.AskedAt.Sub(old.AskedAt) < sameStop {
				return old // a second install's hook wrote it down
			}
		}
		return q
	})
}

// endsInQuestion says whether a text ends in a question, also with emphasis, quotes or brackets around it.
func endsInQuestion(text string) bool {
	text = strings.TrimRight(text, " \t\r\n*_`~\"'”’»)]")
	return strings.HasSuffix(text, "?") || strings.HasSuffix(text, "？") || strings.HasSuffix(text, "؟")
}
