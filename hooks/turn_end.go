package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// sameStopWindow is how close together two installs of ours get the events of one turn's
// end.
const sameStopWindow = 3 * time.Second

// handleTurnEnd asks in the session's thread for the next instruction after a turn's end.
// In tmux the poller types the answer. Elsewhere this hook waits for it and wakes the
// session with it.
func (h *Hook) handleTurnEnd(ctx context.Context, e *Event) error {
	questions := h.questionsOfSession(e, h.personalFolders(), state.OpenStatusTexts...)
	prompts := h.waitingPrompts(e.SessionID)
	lost := h.reopenLost(ctx, e, questions, prompts)
	h.closeNextQuestions(ctx, e, questions, prompts)
	if h.isUnattended() { // the session ends when this hook does
		return nil
	}
	h.clearUsageLimit(e)
	if paths := h.becomeWaiter(e, lost); len(paths) > 0 {
		h.awaitAndWake(ctx, e, paths)
		h.StartPoller()
		return nil
	}
	for _, in := range prompts {
		if h.wakeWithPrompt(e, in) {
			return nil
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

// isOfSameStop reports whether another install's hook wrote that time at the end of the
// turn that this hook handles. turnEnd is what that hook's turnEndID returned, or "" if
// it is not known. If the time was written for a text that the hook prints, only the next
// events show whether the text arrived.
func isOfSameStop(e *Event, at time.Time, turnEnd string) bool {
	isSameEvent := turnEnd == "" || turnEnd == turnEndID(e)
	return isSameEvent && time.Since(at).Abs() < sameStopWindow
}

// turnEndID tells the ends of a session's turns apart: the hooks of all installs get the
// same event at one end. A turn that goes on after a Stop hook blocked its end keeps its
// prompt_id, and Claude Code before 2.1.196 sends none. So the rest of the event counts,
// too. Two ends with equal events are told apart only by the time between them.
func turnEndID(e *Event) string {
	event := []LooseText{e.PromptID, e.StopHookActive, e.LastAssistantMessage}
	return state.Hash(8, fmt.Sprintf("%q", event))
}

// reopenLost undoes the record that a hook printed a prompt or a next instruction if the
// transcript shows that Claude never got it: the hook was killed in between. A prompt
// then waits as before. reopenLost returns the questions whose answer is the next
// instruction.
func (h *Hook) reopenLost(
	ctx context.Context, e *Event, questions []*state.Question, prompts []*state.Incoming,
) (lost []*state.Question) {
	isLost := func(q *state.Question, printedAt time.Time) bool {
		hasArrived, isKnown := h.checkArrival(ctx, e, q, printedAt)
		return isKnown && !hasArrived
	}
	for _, in := range prompts {
		if in.PrintedAt.IsZero() || isOfSameStop(e, in.PrintedAt, in.TurnEnd) ||
			!isLost(in.AsQuestion(h.ensureSession(e)), in.PrintedAt) {
			continue
		}
		in.Status, in.PrintedAt = state.IncomingKept, time.Time{}
		_, err := h.inbox().Change(in.ID, func(current *state.Incoming) {
			current.Status, current.PrintedAt = in.Status, in.PrintedAt
		})
		h.logFailed(err, "prompt not delivered again")
	}
	for _, q := range questions {
		isPrinted := q.Kind.Traits().IsPrompt && q.Status == state.Answered && q.PrintedAt != nil
		if !isPrinted || isOfSameStop(e, *q.PrintedAt, q.TurnEnd) || !isLost(q, *q.PrintedAt) {
			continue
		}
		q.IsPrinted, q.PrintedAt = false, nil
		_, err := state.ChangeQuestion(q.Path, func(current *state.Question) {
			current.IsPrinted, current.PrintedAt = false, nil
		})
		h.logFailed(err, "next instruction not delivered again")
		lost = append(lost, q)
	}
	return lost
}

// waitingPrompts are the prompts that wait for these sessions, oldest first.
func (h *Hook) waitingPrompts(sessions ...string) []*state.Incoming {
	return h.inbox().WaitingPrompts(sessions...)
}

// endPrompt ends a prompt of the inbox.
func (h *Hook) endPrompt(in *state.Incoming, resolvedBy string) {
	h.retryWriteOrLog(closeTimeout, func() error {
		isEndedNow, err := h.inbox().EndPrompt(in.ID, resolvedBy, "")
		if isEndedNow {
			h.StartPoller()
		}
		return err
	})
}

// wakeWithPrompt wakes a session outside of tmux with a prompt that came while Claude
// worked. It records the delivery before it prints the prompt, for the reason given at
// recordDelivery. isWoken is also true if another install's hook woke the session with it
// at this very Stop.
func (h *Hook) wakeWithPrompt(e *Event, in *state.Incoming) (isWoken bool) {
	if h.ensureSession(e).TmuxPane != "" {
		return false // the poller types it
	}
	isPrintedElsewhere := false
	err := retryWrite(h.retryTimeout(e), func() error {
		_, err := h.inbox().Change(in.ID, func(in *state.Incoming) {
			isPrintedElsewhere = isOfSameStop(e, in.PrintedAt, in.TurnEnd)
			isWoken = in.Status == state.IncomingKept && in.IsWaitingPrompt()
			if isWoken {
				in.Status, in.PrintedAt, in.TurnEnd = state.IncomingDoing, time.Now().UTC(), turnEndID(e)
			}
		})
		return err
	})
	if err != nil || !isWoken {
		h.logFailed(err, "prompt not delivered: it cannot be recorded; a later event tries again")
		return isPrintedElsewhere
	}
	q := in.AsQuestion(h.ensureSession(e))
	// It is printed at once: if the hook is killed before that, nobody delivers the
	// prompt.
	h.wakeSession([]string{promptText(q, in.Text)})
	h.logFailed(h.auditDecision(q, in.Text), "decision not in the audit log")
	h.StartPoller()
	return true
}

// closeNextQuestions closes the questions for a session's next instruction that are older
// than this event: Claude has gone on. It ends the prompts that the event shows to have
// arrived. The other prompts go on waiting.
func (h *Hook) closeNextQuestions(
	ctx context.Context, e *Event, questions []*state.Question, prompts []*state.Incoming,
) {
	c := continuation{
		isPrompt: e.HookEventName == "UserPromptSubmit",
		prompt:   oneLine(inject.StripPasteTags(string(e.Prompt))),
	}
	for _, in := range prompts {
		isOfThisStop := !c.isPrompt && isOfSameStop(e, in.PrintedAt, in.TurnEnd)
		isWoken := !in.PrintedAt.IsZero() && !isOfThisStop && c.containsPrinted(in.Text)
		if isWoken || c.matchesTyped(in.Typing, in.Text) {
			h.endPrompt(in, "chat")
		}
	}
	for _, q := range slices.Backward(questions) { // the oldest first
		isNext := q.Kind.Traits().IsPrompt && q.Status.IsOpen() && !h.isInOtherTerminal(q)
		// The hook of another install may have recorded one for this very Stop.
		isOfThisStop := !c.isPrompt && isOfSameStop(e, q.AskedAt, q.TurnEnd)
		if !isNext || isOfThisStop {
			continue
		}
		status, resolvedBy := c.endingOf(q)
		if c.isPrompt && q.Status == state.Answered && q.IsPrinted {
			status, resolvedBy = h.endingOfPrinted(ctx, e, &c, q)
		}
		if resolvedBy != "" {
			h.closeQuestion(q.Path, status, resolvedBy)
		}
	}
}

// endingOfPrinted returns how a prompt that a person typed ends a question whose answer a
// hook printed. If it is not known whether the answer arrived, the question stays open:
// it mostly did, and the end of a turn resolves it.
func (h *Hook) endingOfPrinted(
	ctx context.Context, e *Event, c *continuation, q *state.Question,
) (status state.Status, resolvedBy string) {
	var printedAt time.Time
	if q.PrintedAt != nil {
		printedAt = *q.PrintedAt
	}
	prompt, _ := q.Decision()
	hasArrived, isKnown := h.checkArrival(ctx, e, q, printedAt)
	switch {
	case hasArrived, c.containsPrinted(prompt):
		return state.Resolved, "chat"
	case isKnown: // the hook was killed before it printed the answer
		return state.Cancelled, "prompt"
	}
	return "", ""
}

// closeArrived closes the questions for the next instruction, and ends the prompts, whose
// text is in the prompt with which Claude Code woke the session.
func (h *Hook) closeArrived(e *Event, questions []*state.Question, prompts []*state.Incoming) {
	isInPrompt := func(q *state.Question) bool {
		return q.Kind.Traits().IsPrompt && q.Status == state.Answered && q.IsPrinted &&
			strings.Contains(string(e.Prompt), deliveryMark(q))
	}
	for _, in := range prompts {
		if isInPrompt(in.AsQuestion(h.ensureSession(e))) {
			h.endPrompt(in, "chat")
		}
	}
	for _, q := range questions {
		if isInPrompt(q) {
			h.closeQuestion(q.Path, state.Resolved, "chat")
		}
	}
}

// continuation is an event that shows that Claude has gone on: a prompt, or the end of a
// turn.
type continuation struct {
	isPrompt      bool
	prompt        string // in one line
	hasTypedMatch bool   // a prompt that the poller typed was found to be this one
}

// matchesTyped reports whether the event's prompt is this one, which the poller typed. If
// a person sent the same text twice, only the first one matches.
func (c *continuation) matchesTyped(typing *state.Typing, prompt string) bool {
	isMatch := c.isPrompt && !c.hasTypedMatch && typing != nil && inject.SameText(c.prompt, prompt)
	c.hasTypedMatch = c.hasTypedMatch || isMatch
	return isMatch
}

// containsPrinted reports whether the event's prompt contains a prompt that a hook
// printed. A text that wakes a session becomes a prompt with other text around it.
func (c *continuation) containsPrinted(prompt string) bool {
	return !c.isPrompt || strings.Contains(c.prompt, oneLine(prompt))
}

// endingOf returns how the event ends a question for the next instruction. resolvedBy is
// "" if the question stays open. A prompt after a hook printed the answer is for
// endingOfPrinted.
func (c *continuation) endingOf(q *state.Question) (status state.Status, resolvedBy string) {
	prompt, _ := q.Decision()
	isAnswered := q.Status == state.Answered
	hasArrived := isAnswered && (c.matchesTyped(q.Typing, prompt) ||
		!c.isPrompt && (q.IsPrinted || q.Typing != nil))
	switch {
	case hasArrived:
		return state.Resolved, "chat"
	case !isAnswered && (c.hasTypedMatch || !c.isPrompt):
		// A typed prompt takes its place, or a new question follows.
		return state.Cancelled, state.EndedReplaced
	case c.isPrompt:
		return state.Cancelled, "prompt"
	}
	return "", ""
}

// lastTextOfTurn is Claude's last text of the turn that ends.
func lastTextOfTurn(e *Event) string {
	text := strings.TrimSpace(string(e.LastAssistantMessage))
	if text == "" {
		text, _ = LastClaudeText(string(e.TranscriptPath))
	}
	return text
}

// turnFigures says how long the turn took that ends, how many tools Claude called, and
// how many tokens its context has. What the transcript does not say is left out.
func turnFigures(e *Event) string {
	turn := inject.ReadWholeTurn(string(e.TranscriptPath))
	calls, context := "", ""
	switch {
	case turn.CallCount == 1:
		calls = "1 tool call"
	case turn.CallCount > 1:
		calls = fmt.Sprintf("%d tool calls", turn.CallCount)
	}
	if turn.ContextTokens > 0 {
		context = "context " + tokensText(turn.ContextTokens)
	}
	figures := nonEmpty(durationText(turn.StartedAt, time.Now()), calls, context)
	return strings.Join(figures, ", ")
}

// tokensText is a number of tokens as people say it: "840 tokens", "84k tokens".
func tokensText(n int) string {
	if n < 1000 {
		return fmt.Sprintf("%d tokens", n)
	}
	return fmt.Sprintf("%dk tokens", (n+500)/1000)
}

// clearUsageLimit records that the usage limit that stopped a session is over: a turn
// ended as it should.
func (h *Hook) clearUsageLimit(e *Event) {
	if e.SessionID == "" || h.ensureSession(e).UsageLimitUntil.IsZero() {
		return
	}
	_, err := h.sessions().Change(e.SessionID, func(s *state.Session) {
		s.UsageLimitUntil = time.Time{}
	})
	h.logFailed(err, "end of a usage limit not recorded")
}

// askNextInstruction records a question for the session's next instruction, if the person
// wants to be asked; otherwise it returns nil.
func (h *Hook) askNextInstruction(ctx context.Context, e *Event) (*state.Question, error) {
	idleMode := h.rules(e).Idle
	if idleMode == config.IdleOff || e.SessionID == "" || e.AgentID != "" {
		return nil, nil
	}
	lastText := lastTextOfTurn(e)
	if idleMode == config.IdleAsks && !endsInQuestion(lastText) ||
		h.isKeptInTerminal(ctx, h.config(), state.KindNext) {
		return nil, nil
	}
	h.cached.acceptsCommands = true
	q, err := h.newQuestion(e, state.ModeNative)
	if err != nil {
		return nil, err
	}
	q.Kind, q.TurnEnd = state.KindNext, turnEndID(e)
	q.ShownText, q.TurnFigures = state.MaskKeys(lastText), turnFigures(e)
	q.ThreadKey = state.SessionThreadKey(e.SessionID)
	q.SubQuestions = []state.SubQuestion{{Header: "Next", Question: "What is to be done next?"}}
	q.InputHash = callHash("Stop", json.RawMessage(`"`+q.QuestionID+`"`))
	chooseRecord := func(existing []*state.Question) *state.Question {
		for _, old := range existing {
			isOpen := old.Kind.Traits().IsPrompt && old.Status.IsOpen()
			isOfThisStop := isOfSameStop(e, old.AskedAt, old.TurnEnd)
			if isOpen && isOfThisStop && old.ShownText == q.ShownText {
				return old // the hook of a second install recorded it
			}
		}
		return q
	}
	return h.writeQuestion(context.Background(), e, h.personalFolders(), chooseRecord,
		state.OpenStatusTexts...)
}

// endsInQuestion reports whether a text ends in a question mark, apart from emphasis,
// quotes or brackets around it.
func endsInQuestion(text string) bool {
	text = strings.TrimRight(text, " \t\r\n*_`~\"'”’»)]")
	return strings.HasSuffix(text, "?") || strings.HasSuffix(text, "？") ||
		strings.HasSuffix(text, "؟")
}
