package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// runAnswered is gchat-ask-user-answered: it closes what Claude Code has done with.
// PostToolUse brings the answers, from wherever they came; the other events end what was
// dismissed: no hook is told of Esc or "chat about this" itself.
func (h *Hook) runAnswered(_ context.Context, e *Event) error {
	if handleEnd := endHandlerFor(e); handleEnd != nil {
		return handleEnd(h, e)
	}
	switch e.HookEventName {
	case "PostToolBatch":
		// after every step of Claude's: with no permission open there is nothing to do
		h.confirmBatch(e, readCallResult)
		return nil
	case "PermissionDenied":
		e.ToolCalls = []batchToolCall{{e.ToolName, e.ToolUseID, e.ToolInput}}
		h.confirmBatch(e, func(*Event, string) callResult { return resultRefused })
		return nil
	case "SubagentStop":
		h.closeAgentQuestions(
			func(q *state.Question) bool { return q.AgentID == string(e.AgentID) },
			string(e.AgentID),
		)
		return nil
	case "SessionStart":
		// after /branch the same Claude Code goes on with another session, and the thread
		// with that
		h.ensureSession(e)
		h.replaceKilledPoller()
		return nil
	case "PostToolUse", "PostToolUseFailure":
		if e.ToolName != questionTool {
			return nil
		}
	case "Stop", "StopFailure", "UserPromptSubmit", "SessionEnd":
	default:
		return nil
	}
	defer h.deliverPending(e)
	defer h.replaceKilledPoller()
	if e.HookEventName == "PostToolUse" {
		q := h.findQuestionOfCall(
			e,
			h.questionsOfSession(e, h.folders(state.QuestionsIn), callSearchTexts(e)...),
		)
		if q == nil { // a call that went on was not denied
			q = h.findQuestionOfCall(
				e,
				h.questionsOfSession(e, h.folders(state.MarkersIn), callSearchTexts(e)...),
			)
		}
		if q != nil {
			h.retryWriteOrLog(writeTimeout, func() error { return h.confirmAnswers(e, q) })
		}
		return nil
	}
	questions, sessions := h.openQuestions(e), []string{e.SessionID}
	isPrompt := e.HookEventName == "UserPromptSubmit"
	if isPrompt {
		session, err := state.SessionsIn(state.UserStateDir(h.Env)).Get(e.SessionID)
		if err != nil || session.EndReason != "" {
			session = h.ensureSession(e) // it begins, perhaps after /clear, or goes on
		}
		if session.PreviousSession != "" {
			// what was said to it just after /clear is that session's
			questions = append(
				questions,
				h.questionsOfSession(
					&Event{SessionID: session.PreviousSession},
					h.personalFolders(),
					state.OpenStatusTexts...)...)
			sessions = append(sessions, session.PreviousSession)
		}
		if h.isClaudeCodePrompt(string(e.Prompt)) {
			return nil // no person went on, and what is open stays
		}
	}
	prompts := h.waitingPrompts(sessions...)
	switch {
	case isPrompt:
		h.closeNextQuestions(e, questions, prompts)
		h.markWantedInTerminal(e, questions)
	case e.HookEventName == "SessionEnd":
		h.logFailed(h.recordEndReason(e), "the end's reason not written down")
	}
	h.closeOpenQuestions(e, questions, prompts)
	h.logFailed(h.markDialogOver(e), "the end of a dialog not written down")
	return nil
}

// replaceKilledPoller starts a poller where the last one was killed, which may have left
// notes unsent.
func (h *Hook) replaceKilledPoller() {
	if heartbeat := state.ReadHeartbeat(h.Env, state.Environment(h.Env)); heartbeat.PID > 0 &&
		!heartbeat.IsAlive {
		h.StartPoller()
	}
}

// isClaudeCodePrompt reports whether a prompt is Claude Code's own: something in the
// background is done, a hook woke the session, or a person stopped agents in the
// background, which no other event tells (2.1.197 and 2.1.332). What such an agent asked
// in the terminal is over.
func (h *Hook) isClaudeCodePrompt(prompt string) bool {
	const prefix, suffix = `Background agent "`, `was stopped by the user.`
	if strings.HasPrefix(prompt, prefix) && strings.HasSuffix(prompt, suffix) {
		h.closeAgentQuestions(func(q *state.Question) bool {
			return q.HandedOverAt != nil && strings.Contains(prompt, `"`+q.AgentTask+`"`)
		})
		return true
	}
	return strings.HasPrefix(prompt, "<task-notification>")
}

// markWantedInTerminal notes that somebody gave this prompt at the keyboard, for what is
// hidden there.
func (h *Hook) markWantedInTerminal(e *Event, questions []*state.Question) {
	hidden := slices.DeleteFunc(slices.Clone(questions), func(q *state.Question) bool {
		return q.IsDialogDrawn() || q.Status != state.Pending
	})
	if len(hidden) == 0 || h.isTypedByPoller(e) {
		return
	}
	for _, q := range hidden {
		h.retryWriteOrLog(closeTimeout, func() error {
			_, err := state.ChangeQuestion(
				q.Path,
				func(q *state.Question) { q.MarkWantedInTerminal(time.Now()) },
			)
			return err
		})
	}
	h.StartPoller()
}

// isTypedByPoller reports whether the poller typed this prompt just now, whatever its
// session is called by now. Its record may be closed: the transcript may have told the
// poller earlier.
func (h *Hook) isTypedByPoller(e *Event) bool {
	sessions := state.SessionsIn(state.UserStateDir(h.Env))
	session := h.ensureSession(e)
	for _, id := range nonEmpty(session.ID, session.PreviousSession) {
		// just after /clear it was typed for the one before
		typedSession, err := sessions.Get(id)
		isRecent := err == nil && typedSession.LastTyped != nil &&
			time.Since(typedSession.LastTyped.TypedAt).Abs() < queuedWindow
		if isRecent &&
			inject.SameText(inject.StripPasteTags(string(e.Prompt)), typedSession.LastTyped.Text) {
			return true
		}
	}
	return false
}

// closeAgentQuestions ends what agents asked that have ended, of those of this Claude
// Code: their session may have another id since /clear.
func (h *Hook) closeAgentQuestions(hasEnded func(*state.Question) bool, texts ...string) {
	questions, _ := state.ReadIndexedQuestions(h.Env, texts...)
	for _, q := range questions {
		if q.AgentID != "" && q.ClaudePID == h.claudePID() && q.Status.IsOpen() && hasEnded(q) {
			h.closeQuestion(q.Path, state.Cancelled, "agent_end")
		}
	}
}

// markDialogOver notes that what waited in the terminal does so no more, where only this
// event tells.
func (h *Hook) markDialogOver(e *Event) error {
	sessions := state.SessionsIn(state.UserStateDir(h.Env))
	session, err := sessions.Get(e.SessionID)
	if err != nil || session.Dialog == nil || !session.Dialog.WaitsSince.IsZero() {
		return nil // else the poller sees it in Claude Code's file
	}
	_, err = sessions.Change(e.SessionID, func(s *state.Session) {
		s.Dialog = &state.Dialog{
			Text:           session.Dialog.Text,
			IsNoteEnqueued: session.Dialog.IsNoteEnqueued,
			IsOver:         true,
		}
	})
	h.StartPoller()
	return err
}

// recordEndReason writes down why a session ended that is known: after /resume its Claude
// Code may go on with one that no hook knows.
func (h *Hook) recordEndReason(e *Event) error {
	sessions := state.SessionsIn(state.UserStateDir(h.Env))
	if _, err := sessions.Get(e.SessionID); err != nil {
		return nil
	}
	_, err := sessions.Change(
		e.SessionID,
		func(s *state.Session) { s.EndReason = string(e.Reason) },
	)
	return err
}

// confirmAnswers closes a question that Claude has the answer to. What PostToolUse saw is
// what Claude was told: where the question was closed before with something else, its
// thread is told once more.
func (h *Hook) confirmAnswers(e *Event, q *state.Question) error {
	answers, notes, err := readAnswers(e, q.SubQuestions)
	if err != nil { // closed all the same: Claude went on
		h.log.Error().Err(err).Msg("the answer was not understood")
	}
	var response struct { // of 2.1.332, where nobody answered for so long, and Claude Code went on
		Away *time.Duration `json:"afkTimeoutMs"`
	}
	_ = json.Unmarshal(e.ToolResponse, &response)
	status, resolvedBy, awayAfter := state.Resolved, "terminal", response.Away
	isAnswered := func(p state.SubQuestion) bool { return answers[p.Question] != "" }
	if awayAfter == nil && answers != nil && !slices.ContainsFunc(q.SubQuestions, isAnswered) {
		awayAfter = new(time.Duration) // Claude was told that the user did not answer
	}
	if awayAfter != nil {
		status, resolvedBy = state.Cancelled, state.EndedAway
	}
	differs := func(q *state.Question) bool {
		return resolvedBy != q.ResolvedBy && awayAfter != nil ||
			answers != nil && !maps.Equal(q.Answers, answers) && !areTypedAnswers(q, answers)
	}
	setAnswers := func(q *state.Question) {
		q.ResolvedBy, q.Answers, q.Notes = resolvedBy, answers, notes
		if awayAfter != nil {
			session, err := state.SessionsIn(state.UserStateDir(h.Env)).Get(q.ClaudeSession())
			q.AwayAfter, q.AcceptsPrompts = *awayAfter*time.Millisecond, err == nil &&
				session.AcceptsCommands
		}
	}
	isClosedNow, err := state.CloseQuestion(q.Path, status, "chat", func(q *state.Question) {
		if q.AnsweredMessage == "" || differs(q) {
			setAnswers(q) // the terminal was faster
		}
	})
	if err == nil && !isClosedNow {
		// it was closed before; the poller may have put the note of its end
		_, err = state.ChangeQuestion(q.Path, func(q *state.Question) {
			isClosedNow = !q.Status.IsOpen() && differs(q)
			if !isClosedNow {
				return
			}
			q.Status, q.ResolvedAt = status, new(time.Now().UTC())
			setAnswers(q)
			if !slices.Contains(q.OwedNotes, state.OwedNote{About: state.NoteClosed}) {
				q.OweNote(state.NoteClosed, correctionMark)
			}
		})
	}
	if isClosedNow && err == nil {
		h.StartPoller()
	}
	return err
}

// correctionMark stands for the message that a note answers, in the note that corrects
// what a thread was told of a question's end.
const correctionMark = "corrected"

// areTypedAnswers says whether these answers are the question's as the poller types them:
// a dialog has one field for a choice, own words and a remark, white space may change on
// the way, and 2.1.332 leaves U+FE0F out of an option's label.
func areTypedAnswers(q *state.Question, answers map[string]string) bool {
	if q.Typing == nil {
		return false
	}
	for _, p := range q.SubQuestions {
		reported, intended := answers[p.Question], q.Answers[p.Question]
		if !inject.SameText(reported, intended) &&
			!inject.SameText(reported, intended+" – "+q.Notes[p.Question]) {
			return false
		}
	}
	return true
}

// dialogEnd is what an event that leaves no dialog standing means for the session's
// questions.
type dialogEnd struct {
	resolvedBy      string // the ResolvedBy of what it ends
	isClaudeRunning bool   // Claude Code goes on, and so do its agents in the background
	// the /clear that ends the session, where a person wrote it in Chat
	clearCommand *state.Incoming
}

func dialogEndFor(e *Event, prompts []*state.Incoming) dialogEnd {
	switch {
	case e.HookEventName == "UserPromptSubmit":
		return dialogEnd{resolvedBy: "prompt", isClaudeRunning: true}
	case e.HookEventName != "SessionEnd":
		return dialogEnd{resolvedBy: "stop", isClaudeRunning: true}
	case string(e.Reason) != "clear":
		return dialogEnd{resolvedBy: "session_end", isClaudeRunning: string(e.Reason) == "resume"}
	}
	end := dialogEnd{resolvedBy: "cleared", isClaudeRunning: true}
	for _, in := range prompts {
		if in.Typing != nil {
			end.clearCommand = in
		}
	}
	return end
}

// closeOpenQuestions ends the session's open questions after an event that leaves no
// dialog standing.
func (h *Hook) closeOpenQuestions(
	e *Event,
	questions []*state.Question,
	prompts []*state.Incoming,
) {
	end := dialogEndFor(e, prompts)
	if e.HookEventName == "SessionEnd" {
		h.endWaitingPrompts(e, end, prompts)
	}
	var ended []*state.Question
	for _, q := range questions {
		if q.Status.IsOpen() && !h.isInOtherTerminal(q) && end.endsQuestion(e, q) {
			ended = append(ended, q)
		}
	}
	if len(ended) > 0 && end.resolvedBy == "prompt" && h.isPromptQueued(e, prompts) {
		return // it was typed a moment before the dialog opened, which stands
	}
	for _, q := range ended {
		h.closeEndedQuestion(e, end, q)
	}
}

// endsQuestion reports whether an open question of the session is over with the event.
func (end dialogEnd) endsQuestion(e *Event, q *state.Question) bool {
	traits := q.Kind.Traits()
	switch {
	case q.Mode.Traits().KeepsAnswer, q.EndsIndependently() && end.isClaudeRunning:
		return false
	case traits.IsPrompt && e.HookEventName != "SessionEnd":
		return false
	case e.ToolName == questionTool:
		return q.ToolUseID == e.ToolUseID || q.InputHash == callHash(e.ToolName, e.ToolInput)
	}
	// A subagent in the background asks on when the session's own turn ends.
	isOtherAgents := q.AgentID != "" && q.AgentID != string(e.AgentID)
	return end.resolvedBy != "stop" || !isOtherAgents || q.IsPrinted
}

// endWaitingPrompts ends, with their session, the words for it that were not typed. What
// is typed may be what ends the session: the poller sees what becomes of it.
func (h *Hook) endWaitingPrompts(e *Event, end dialogEnd, prompts []*state.Incoming) {
	session, err := state.SessionsIn(state.UserStateDir(h.Env)).Get(e.SessionID)
	if err != nil {
		return
	}
	for _, in := range prompts {
		// of what comes then
		isForNext := end.clearCommand != nil && in.Compare(end.clearCommand) > 0
		switch {
		case in.Typing != nil, isForNext, h.isInOtherTerminal(in.AsQuestion(session)):
		case in.PrintedAt.IsZero():
			h.endPrompt(in, end.resolvedBy)
		default:
			h.endPrompt(in, "chat")
		}
	}
}

// closeEndedQuestion closes a question that is over with an event.
func (h *Hook) closeEndedQuestion(e *Event, end dialogEnd, q *state.Question) {
	// No hook tells that "Chat about this" was chosen.
	isChatChosen := q.Declined != "" && q.Typing != nil && q.Typing.IsSubmit
	isAnswerTaken := q.Status == state.Answered && (q.IsPrinted || isChatChosen)
	status, resolvedBy := state.Cancelled, end.resolvedBy
	if isAnswerTaken {
		// Claude Code took the answer and went on; PostToolUse is not registered
		status = state.Resolved
	}
	switch {
	case q.Kind.Traits().Decides: // Esc may have come at the same moment, and counted
		result := readUnlistedResult(e, q)
		if isAnswerTaken || result == resultRan {
			h.retryWriteOrLog(
				closeTimeout,
				func() error { return h.confirmDecision(q, cmp.Or(result, resultUnseen)) },
			)
			return
		}
		if resolvedBy == "stop" {
			resolvedBy = state.EndedUnseen
		}
	case q.Kind == state.KindNext && end.clearCommand != nil:
		resolvedBy = state.EndedReplaced // the thread hears of the /clear that was typed
	}
	h.closeQuestion(q.Path, status, resolvedBy)
}

// isPromptQueued says whether a prompt went into Claude Code's queue. The transcript may
// say so a moment later (2.1.330): the poller saw Claude work when it typed, and Claude
// Code's own file says that a dialog waits.
func (h *Hook) isPromptQueued(e *Event, prompts []*state.Incoming) bool {
	prompt := inject.StripPasteTags(string(e.Prompt))
	isTyped := slices.ContainsFunc(prompts, func(in *state.Incoming) bool {
		return in.Typing != nil && in.Typing.LastKey == state.KeyQueued &&
			inject.SameText(prompt, in.Text)
	})
	hasDialog, _ := inject.IsWaiting(string(e.TranscriptPath), e.SessionID, h.claudePID())
	return isTyped || hasDialog ||
		inject.TranscriptHasPrompt(
			string(e.TranscriptPath),
			string(e.Prompt),
			time.Now().Add(-queuedWindow),
			false,
		)
}

// queuedWindow is how long after its taking Claude Code's hook may be told of words that
// went into its queue (2.1.329).
const queuedWindow = 15 * time.Second

// readAnswers reads the answers from Claude Code's tool_response, whose "answers" is a
// map from question text, and from the list beside the questions that scripts send which
// were written for another form of it.
func readAnswers(
	e *Event,
	subQuestions []state.SubQuestion,
) (answers, notes map[string]string, err error) {
	var response struct {
		Answers     json.RawMessage       `json:"answers"`
		Annotations map[string]annotation `json:"annotations"`
		Response    string                `json:"response"` // one text for all of them
	}
	byText, inOrder := map[string]LooseText{}, []struct {
		Option  string   `json:"selectedOption"`
		Options []string `json:"selectedOptions"`
		Text    string   `json:"customText"`
	}{}
	err = json.Unmarshal(keepSurrogates(e.ToolResponse), &response)
	if err == nil && len(response.Answers) > 0 && json.Unmarshal(response.Answers, &byText) != nil {
		err = json.Unmarshal(response.Answers, &inOrder)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("tool response: %w", err)
	}
	answers, notes = map[string]string{}, map[string]string{}
	for text, value := range byText {
		answers[text] = string(value)
	}
	for i, a := range inOrder[:min(len(inOrder), len(subQuestions))] {
		answers[subQuestions[i].Question] = strings.Join(
			append(a.Options, nonEmpty(a.Option, a.Text)...),
			", ",
		)
	}
	for _, p := range subQuestions {
		if answers[p.Question] == "" && response.Response != "" {
			answers[p.Question] = response.Response
		}
	}
	for text, a := range response.Annotations {
		if a.Notes != "" {
			notes[text] = a.Notes
		}
	}
	return answers, notes, nil
}
