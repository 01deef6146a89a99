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
	words := h.words(e.SessionID)
	h.closeNext(e, qs, words)
	if h.unattended() { // it ends when this hook does
		return nil
	}
	for _, in := range words {
		if isJustPrinted(in) || h.wakeWithWords(e, in) {
			return nil // another install's hook woke it for this very Stop, or this one does
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

// isJustPrinted says whether a hook wrote just now that it prints words. Whether it did, the
// prompt that they become tells.
func isJustPrinted(in *state.Incoming) bool { return time.Since(in.PrintedAt).Abs() < sameStop }

// words are what a person said to sessions unasked that waits, the oldest first.
func (h *Hook) words(sessions ...string) []*state.Incoming {
	return state.InboxIn(state.UserState(h.Env)).WordsFor(sessions...)
}

func (h *Hook) endWords(in *state.Incoming, by string) {
	h.tryAgain(closeBound, func() error {
		ended, err := state.InboxIn(state.UserState(h.Env)).EndWords(in.ID, by, "")
		if ended {
			h.StartPoller()
		}
		return err
	})
}

// wakeWithWords wakes a session outside of tmux with what was said to it while Claude worked.
// That is written down before it is said: see tellOf.
func (h *Hook) wakeWithWords(e *Event, in *state.Incoming) (woken bool) {
	if h.session(e).TmuxPane != "" {
		return false // the poller types it
	}
	err := again(h.patience(e), func() error {
		_, err := state.InboxIn(state.UserState(h.Env)).Change(in.ID, func(in *state.Incoming) {
			woken = in.Status == state.IncomingKept && in.Waits()
			if woken {
				in.Status, in.PrintedAt = state.IncomingDoing, time.Now().UTC()
			}
		})
		return err
	})
	if err != nil || !woken {
		h.logFailed(err, "session not told: that cannot be written down")
		return false
	}
	q := in.AsQuestion(h.session(e))
	h.wakeWith([]string{instructionText(q, in.Text)}) // at once: killed before, nobody would say it again
	h.logFailed(h.audit(q, in.Text), "decision not in the audit log")
	h.StartPoller()
	return true
}

// closeNext closes what waited for a session's next instruction before this event: Claude has
// gone on. What was said to it unasked, and has not reached it, goes on waiting.
func (h *Hook) closeNext(e *Event, qs []*state.Question, words []*state.Incoming) {
	g := goneOn{e.HookEventName == "UserPromptSubmit", oneLine(inject.Unpasted(string(e.Prompt))), false}
	for _, in := range words {
		isOfThisStop := !g.isPrompt && isJustPrinted(in)
		isWoken := !in.PrintedAt.IsZero() && !isOfThisStop && g.has(in.Text)
		if isWoken || g.isFor(in.Typing, in.Text) {
			h.endWords(in, "chat")
		}
	}
	for _, q := range slices.Backward(qs) { // the oldest first
		// Another install's hook may have written one down for this very Stop.
		isOfThisStop := !g.isPrompt && time.Since(q.AskedAt).Abs() < sameStop
		if !q.Kind.Row().Prompt || !q.Status.Open() || h.inOtherTerminal(q) || isOfThisStop {
			continue
		}
		to, by := g.endOf(q)
		if by != "" {
			h.close(q.Path, to, by)
		}
	}
}

// goneOn is an event that says that Claude has gone on: a prompt, or the end of a turn.
type goneOn struct {
	isPrompt bool
	prompt   string // in one line
	isFound  bool   // the prompt is one that the poller typed
}

// isFor says whether the prompt is these words, which the poller typed. The same words may have
// been said twice: it is the first of them.
func (g *goneOn) isFor(typing *state.Typing, words string) bool {
	isThis := g.isPrompt && !g.isFound && typing != nil && inject.Same(g.prompt, words)
	g.isFound = g.isFound || isThis
	return isThis
}

// has says whether words that a hook printed are in it. What wakes a session is a prompt, too,
// with other words around.
func (g *goneOn) has(words string) bool {
	return !g.isPrompt || strings.Contains(g.prompt, oneLine(words))
}

// endOf is how a question for the next instruction ends with the event; "" where it goes on.
func (g *goneOn) endOf(q *state.Question) (to state.Status, by string) {
	words, _ := q.Decision()
	isAnswered := q.Status == state.Answered
	arrived := isAnswered && (q.Printed && g.has(words) || g.isFor(q.Typing, words) || !g.isPrompt && q.Typing != nil)
	switch {
	case arrived:
		return state.Resolved, "chat"
	case !isAnswered && (g.isFound || !g.isPrompt): // what was said goes in its place, or a new one follows
		return state.Cancelled, state.Instead
	case g.isPrompt:
		return state.Cancelled, "prompt"
	}
	return "", ""
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
