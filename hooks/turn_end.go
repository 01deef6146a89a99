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

// sameStopWindow is how close together the events of one turn's end come that two
// installs of ours get.
const sameStopWindow = 3 * time.Second

// handleTurnEnd is for a turn's end: the session's thread is asked for the next
// instruction. In tmux the poller types it; elsewhere this hook waits for it, and wakes
// the session with it.
func (h *Hook) handleTurnEnd(ctx context.Context, e *Event) error {
	questions := h.questionsOfSession(e, h.personalFolders(), state.OpenStatusTexts...)
	prompts := h.waitingPrompts(e.SessionID)
	h.closeNextQuestions(e, questions, prompts)
	if h.isUnattended() { // it ends when this hook does
		return nil
	}
	for _, in := range prompts {
		if isJustPrinted(in) || h.wakeWithPrompt(e, in) {
			return nil // another install's hook woke it for this very Stop, or this one does
		}
	}
	q, err := h.askNextInstruction(ctx, e)
	if err != nil {
		return err
	}
	if q == nil {
		return h.reportTurnEnd(e)
	}
	h.StartPoller()
	if q.TmuxPane == "" {
		h.awaitAndWake(ctx, e, h.becomeWaiter(e, []*state.Question{q}))
	}
	return nil
}

// isJustPrinted says whether a hook wrote just now that it prints words. Whether it did,
// the prompt that they become tells.
func isJustPrinted(
	in *state.Incoming,
) bool {
	return time.Since(in.PrintedAt).Abs() < sameStopWindow
}

// waitingPrompts are what a person said to sessions unasked that waits, the oldest first.
func (h *Hook) waitingPrompts(sessions ...string) []*state.Incoming {
	return state.InboxIn(state.UserStateDir(h.Env)).WaitingPrompts(sessions...)
}

func (h *Hook) endPrompt(in *state.Incoming, resolvedBy string) {
	h.retryWriteOrLog(closeTimeout, func() error {
		isEndedNow, err := state.InboxIn(state.UserStateDir(h.Env)).EndPrompt(in.ID, resolvedBy, "")
		if isEndedNow {
			h.StartPoller()
		}
		return err
	})
}

// wakeWithPrompt wakes a session outside of tmux with what was said to it while Claude
// worked. That is written down before it is said: see recordDelivery.
func (h *Hook) wakeWithPrompt(e *Event, in *state.Incoming) (isWoken bool) {
	if h.ensureSession(e).TmuxPane != "" {
		return false // the poller types it
	}
	err := retryWrite(h.retryTimeout(e), func() error {
		_, err := state.InboxIn(state.UserStateDir(h.Env)).Change(in.ID, func(in *state.Incoming) {
			isWoken = in.Status == state.IncomingKept && in.IsWaitingPrompt()
			if isWoken {
				in.Status, in.PrintedAt = state.IncomingDoing, time.Now().UTC()
			}
		})
		return err
	})
	if err != nil || !isWoken {
		h.logFailed(err, "session not told: that cannot be written down")
		return false
	}
	q := in.AsQuestion(h.ensureSession(e))
	// at once: killed before, nobody would say it again
	h.wakeSession([]string{promptText(q, in.Text)})
	h.logFailed(h.auditDecision(q, in.Text), "decision not in the audit log")
	h.StartPoller()
	return true
}

// closeNextQuestions closes what waited for a session's next instruction before this
// event: Claude has gone on. What was said to it unasked, and has not reached it, goes on
// waiting.
func (h *Hook) closeNextQuestions(
	e *Event,
	questions []*state.Question,
	prompts []*state.Incoming,
) {
	g := continuation{
		e.HookEventName == "UserPromptSubmit",
		oneLine(inject.StripPasteTags(string(e.Prompt))),
		false,
	}
	for _, in := range prompts {
		isOfThisStop := !g.isPrompt && isJustPrinted(in)
		isWoken := !in.PrintedAt.IsZero() && !isOfThisStop && g.containsPrinted(in.Text)
		if isWoken || g.matchesTyped(in.Typing, in.Text) {
			h.endPrompt(in, "chat")
		}
	}
	for _, q := range slices.Backward(questions) { // the oldest first
		// Another install's hook may have written one down for this very Stop.
		isOfThisStop := !g.isPrompt && time.Since(q.AskedAt).Abs() < sameStopWindow
		if !q.Kind.Traits().IsPrompt || !q.Status.IsOpen() || h.isInOtherTerminal(q) ||
			isOfThisStop {
			continue
		}
		status, resolvedBy := g.endingOf(q)
		if resolvedBy != "" {
			h.closeQuestion(q.Path, status, resolvedBy)
		}
	}
}

// continuation is an event that says that Claude has gone on: a prompt, or the end of a
// turn.
type continuation struct {
	isPrompt      bool
	prompt        string // in one line
	hasTypedMatch bool   // the prompt is one that the poller typed
}

// matchesTyped says whether the prompt is these words, which the poller typed. The same
// words may have been said twice: it is the first of them.
func (g *continuation) matchesTyped(typing *state.Typing, prompt string) bool {
	isMatch := g.isPrompt && !g.hasTypedMatch && typing != nil && inject.SameText(g.prompt, prompt)
	g.hasTypedMatch = g.hasTypedMatch || isMatch
	return isMatch
}

// containsPrinted says whether words that a hook printed are in it. What wakes a session
// is a prompt, too, with other words around.
func (g *continuation) containsPrinted(prompt string) bool {
	return !g.isPrompt || strings.Contains(g.prompt, oneLine(prompt))
}

// endingOf is how a question for the next instruction ends with the event; "" where it
// goes on.
func (g *continuation) endingOf(q *state.Question) (status state.Status, resolvedBy string) {
	prompt, _ := q.Decision()
	isAnswered := q.Status == state.Answered
	hasArrived := isAnswered &&
		(q.IsPrinted && g.containsPrinted(prompt) || g.matchesTyped(q.Typing, prompt) || !g.isPrompt && q.Typing != nil)
	switch {
	case hasArrived:
		return state.Resolved, "chat"
	case !isAnswered && (g.hasTypedMatch || !g.isPrompt):
		// what was said goes in its place, or a new one follows
		return state.Cancelled, state.EndedReplaced
	case g.isPrompt:
		return state.Cancelled, "prompt"
	}
	return "", ""
}

// lastTextOfTurn are Claude's last words of a turn that ends.
func lastTextOfTurn(e *Event) string {
	text := strings.TrimSpace(string(e.LastAssistantMessage))
	if text == "" {
		text, _ = LastClaudeText(string(e.TranscriptPath))
	}
	return text
}

// askNextInstruction writes down that the session waits for its next instruction, where
// the person wants to be told; nil where not.
func (h *Hook) askNextInstruction(ctx context.Context, e *Event) (*state.Question, error) {
	idleMode := h.rules(e).Idle
	if idleMode == config.IdleOff || e.SessionID == "" || e.AgentID != "" {
		return nil, nil
	}
	lastText := lastTextOfTurn(e)
	if idleMode == config.IdleAsks && !endsInQuestion(lastText) {
		return nil, nil
	}
	if h.isKeptInTerminal(ctx, h.config(), state.KindNext) {
		return nil, nil
	}
	h.cached.acceptsCommands = true
	q, err := h.newQuestion(e, state.ModeNative)
	if err != nil {
		return nil, err
	}
	q.Kind, q.ShownText, q.ThreadKey = state.KindNext, state.MaskKeys(
		lastText,
	), state.SessionThreadKey(
		e.SessionID,
	)
	q.SubQuestions = []state.SubQuestion{{Header: "Next", Question: "What is to be done next?"}}
	q.InputHash = callHash("Stop", json.RawMessage(`"`+q.QuestionID+`"`))
	return h.writeQuestion(
		context.Background(),
		e,
		h.personalFolders(),
		func(existing []*state.Question) *state.Question {
			for _, old := range existing {
				if old.Kind.Traits().IsPrompt && old.Status.IsOpen() &&
					old.ShownText == q.ShownText &&
					q.AskedAt.Sub(old.AskedAt) < sameStopWindow {
					return old // a second install's hook wrote it down
				}
			}
			return q
		},
		state.OpenStatusTexts...)
}

// endsInQuestion says whether a text ends in a question, also with emphasis, quotes or
// brackets around it.
func endsInQuestion(text string) bool {
	text = strings.TrimRight(text, " \t\r\n*_`~\"'”’»)]")
	return strings.HasSuffix(text, "?") || strings.HasSuffix(text, "？") ||
		strings.HasSuffix(text, "؟")
}
