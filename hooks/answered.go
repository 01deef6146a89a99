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

// runAnswered is gchat-ask-user-answered: it closes what Claude Code is done with.
// PostToolUse carries the answers, wherever the person gave them. The other events end
// what was dismissed, since no hook is called for Esc or "chat about this".
func (h *Hook) runAnswered(ctx context.Context, e *Event) error {
	if handleEnd := endHandlerFor(e); handleEnd != nil {
		return handleEnd(h, e)
	}
	switch e.HookEventName {
	case "PostToolBatch":
		// This event follows every step of Claude's. Without an open permission it does
		// nothing.
		h.confirmBatch(e, readCallResult)
		return nil
	case "PermissionDenied":
		e.ToolCalls = []batchToolCall{{e.ToolName, e.ToolUseID, e.ToolInput}}
		h.confirmBatch(e, func(*Event, string) callResult { return resultRefused })
		return nil
	case "SubagentStop":
		h.closeAgentQuestions(func(q *state.Question) bool {
			return q.AgentID == string(e.AgentID)
		}, string(e.AgentID))
		return nil
	case "SessionStart":
		// After /branch the same Claude Code goes on as another session, and its thread
		// goes on with that session.
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
		questions := h.questionsOfSession(e, h.folders(state.QuestionsIn), callSearchTexts(e)...)
		q := h.findQuestionOfCall(e, questions)
		if q == nil { // its marker may be left where the call was to be denied but was not
			markers := h.questionsOfSession(e, h.folders(state.MarkersIn), callSearchTexts(e)...)
			q = h.findQuestionOfCall(e, markers)
		}
		if q != nil {
			h.retryWriteOrLog(writeTimeout, func() error { return h.confirmAnswers(e, q) })
		}
		return nil
	}
	questions, sessions := h.openQuestions(e), []string{e.SessionID}
	isPrompt := e.HookEventName == "UserPromptSubmit"
	if isPrompt {
		session, err := h.sessions().Get(e.SessionID)
		if err != nil || session.EndReason != "" {
			session = h.ensureSession(e) // the session starts, perhaps after /clear, or was resumed
		}
		if session.PreviousSession != "" {
			// A message just after /clear may have been recorded for the previous
			// session.
			previous := &Event{SessionID: session.PreviousSession}
			inherited := h.questionsOfSession(previous, h.personalFolders(), state.OpenStatusTexts...)
			questions = append(questions, inherited...)
			sessions = append(sessions, session.PreviousSession)
		}
		if h.isClaudeCodePrompt(string(e.Prompt)) {
			// No person wrote this prompt, so what is open stays open.
			h.closeArrived(e, questions, h.waitingPrompts(sessions...))
			return nil
		}
	}
	prompts := h.waitingPrompts(sessions...)
	switch {
	case isPrompt:
		h.closeNextQuestions(ctx, e, questions, prompts)
		h.markWantedInTerminal(e, questions)
	case e.HookEventName == "SessionEnd":
		h.logFailed(h.recordEndReason(e), "reason of the session's end not recorded")
	}
	h.closeOpenQuestions(e, questions, prompts)
	h.logFailed(h.markDialogOver(e), "end of a dialog not recorded")
	return nil
}

// replaceKilledPoller starts a poller if the last one was killed. It may have left notes
// unsent.
func (h *Hook) replaceKilledPoller() {
	heartbeat := state.ReadHeartbeat(h.Env, state.Environment(h.Env))
	if heartbeat.PID > 0 && !heartbeat.IsAlive {
		h.StartPoller()
	}
}

// isClaudeCodePrompt reports whether Claude Code wrote a prompt itself: a background task
// is done, a hook woke the session, or a person stopped agents in the background. No
// other event reports such a stop (2.1.197 and 2.1.332), so this closes what the stopped
// agent asked in the terminal.
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

// markWantedInTerminal records in questions with a hidden dialog that a person is at the
// keyboard: they gave this prompt there.
func (h *Hook) markWantedInTerminal(e *Event, questions []*state.Question) {
	hidden := slices.DeleteFunc(slices.Clone(questions), func(q *state.Question) bool {
		return q.IsDialogDrawn() || q.Status != state.Pending
	})
	if len(hidden) == 0 || h.isTypedByPoller(e) {
		return
	}
	for _, q := range hidden {
		h.retryWriteOrLog(closeTimeout, func() error {
			_, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
				q.MarkWantedInTerminal(time.Now())
			})
			return err
		})
	}
	h.StartPoller()
}

// isTypedByPoller reports whether the poller typed this prompt just now, even if the
// session's id has changed since. The prompt's own record may be closed: the poller may
// have seen it in the transcript first.
func (h *Hook) isTypedByPoller(e *Event) bool {
	session := h.ensureSession(e)
	for _, id := range nonEmpty(session.ID, session.PreviousSession) {
		// Just after /clear, the poller typed it for the previous session.
		typedSession, err := h.sessions().Get(id)
		isRecent := err == nil && typedSession.LastTyped != nil &&
			time.Since(typedSession.LastTyped.TypedAt).Abs() < queuedWindow
		if isRecent &&
			inject.SameText(inject.StripPasteTags(string(e.Prompt)), typedSession.LastTyped.Text) {
			return true
		}
	}
	return false
}

// closeAgentQuestions closes the questions of agents that have ended. It looks at all
// agents of this Claude Code, since their session may have another id since /clear.
func (h *Hook) closeAgentQuestions(hasEnded func(*state.Question) bool, texts ...string) {
	questions, _ := state.ReadIndexedQuestions(h.Env, texts...)
	for _, q := range questions {
		if q.AgentID != "" && q.ClaudePID == h.claudePID() && q.Status.IsOpen() && hasEnded(q) {
			h.closeQuestion(q.Path, state.Cancelled, "agent_end")
		}
	}
}

// markDialogOver records that a dialog in the terminal is over. It does so for a dialog
// whose end no other event shows.
func (h *Hook) markDialogOver(e *Event) error {
	session, err := h.sessions().Get(e.SessionID)
	if err != nil || session.Dialog == nil || !session.Dialog.WaitsSince.IsZero() {
		return nil // the poller sees the dialog's end in Claude Code's own file
	}
	_, err = h.sessions().Change(e.SessionID, func(s *state.Session) {
		s.Dialog = &state.Dialog{
			Text:           session.Dialog.Text,
			IsNoteEnqueued: session.Dialog.IsNoteEnqueued,
			IsOver:         true,
		}
	})
	h.StartPoller()
	return err
}

// recordEndReason records why a known session ended. After /resume its Claude Code may go
// on with a session that no hook knows.
func (h *Hook) recordEndReason(e *Event) error {
	if _, err := h.sessions().Get(e.SessionID); err != nil {
		return nil
	}
	_, err := h.sessions().Change(e.SessionID, func(s *state.Session) {
		s.EndReason = string(e.Reason)
	})
	return err
}

// confirmAnswers closes a question that Claude has the answer to. What PostToolUse
// carries is what Claude was given. If the question was closed with another answer
// before, its thread gets a note that corrects it.
func (h *Hook) confirmAnswers(e *Event, q *state.Question) error {
	answers, notes, err := readAnswers(e, q.SubQuestions)
	if err != nil { // the question is closed all the same, since Claude went on
		h.log.Error().Err(err).Msg("answer not understood: the question is closed without it")
	}
	var response struct { // 2.1.332 adds it when it went on because nobody answered for so long
		Away *time.Duration `json:"afkTimeoutMs"`
	}
	_ = json.Unmarshal(e.ToolResponse, &response)
	status, resolvedBy, awayAfter := state.Resolved, "terminal", response.Away
	isAnswered := func(p state.SubQuestion) bool { return answers[p.Question] != "" }
	if awayAfter == nil && answers != nil && !slices.ContainsFunc(q.SubQuestions, isAnswered) {
		awayAfter = new(time.Duration) // Claude was given the text that the user did not answer
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
			session, err := h.sessions().Get(q.ClaudeSession())
			q.AwayAfter = *awayAfter * time.Millisecond
			q.AcceptsPrompts = err == nil && session.AcceptsCommands
		}
	}
	isClosedNow, err := state.CloseQuestion(q.Path, status, "chat", func(q *state.Question) {
		if q.AnsweredMessage == "" || differs(q) {
			setAnswers(q) // the terminal answered first
		}
	})
	if err == nil && !isClosedNow {
		// It was closed before, and the poller may have enqueued the note about that.
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

// correctionMark takes the place of the answered message in an owed note. Such a note
// corrects what its thread says about a question's end.
const correctionMark = "corrected"

// areTypedAnswers reports whether these answers are what the poller typed for the
// question. They may look different: a dialog has one field for a choice, free text and a
// remark. White space may change on the way. 2.1.332 leaves U+FE0F out of an option's
// label.
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

// dialogEnd says what an event after which no dialog is open means for the session's
// questions.
type dialogEnd struct {
	resolvedBy      string // goes into ResolvedBy of the questions that it ends
	isClaudeRunning bool   // Claude Code goes on, and so do its agents in the background
	// clearCommand is the /clear that ended the session, if a person wrote it in Chat.
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

// closeOpenQuestions closes the session's open questions after an event that ends every
// dialog.
func (h *Hook) closeOpenQuestions(
	e *Event, questions []*state.Question, prompts []*state.Incoming,
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
		return // the prompt was typed just before the dialog opened, and the dialog is still open
	}
	for _, q := range ended {
		h.closeEndedQuestion(e, end, q)
	}
}

// endsQuestion reports whether the event ends an open question of the session.
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
	// When the session's own turn ends, a subagent in the background still waits for its
	// answer.
	isOtherAgents := q.AgentID != "" && q.AgentID != string(e.AgentID)
	return end.resolvedBy != "stop" || !isOtherAgents || q.IsPrinted
}

// endWaitingPrompts ends the prompts that wait for a session that ends and were not
// typed. A prompt that is being typed may be what ended the session: the poller finds out
// what became of it.
func (h *Hook) endWaitingPrompts(e *Event, end dialogEnd, prompts []*state.Incoming) {
	session, err := h.sessions().Get(e.SessionID)
	if err != nil {
		return
	}
	for _, in := range prompts {
		// A prompt that came after the /clear is for the session that follows.
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

// closeEndedQuestion closes a question that an event ended.
func (h *Hook) closeEndedQuestion(e *Event, end dialogEnd, q *state.Question) {
	// No hook is called when the person chooses "Chat about this" in the dialog.
	isChatChosen := q.Declined != "" && q.Typing != nil && q.Typing.IsSubmit
	isAnswerTaken := q.Status == state.Answered && (q.IsPrinted || isChatChosen)
	status, resolvedBy := state.Cancelled, end.resolvedBy
	if isAnswerTaken {
		// Claude Code used the answer and went on. PostToolUse would have closed the
		// question, but it is not registered.
		status = state.Resolved
	}
	switch {
	case q.Kind.Traits().Decides: // Esc may have come at the same moment and ended the call
		result := readUnlistedResult(e, q)
		if isAnswerTaken || result == resultRan {
			h.retryWriteOrLog(closeTimeout, func() error {
				return h.confirmDecision(q, cmp.Or(result, resultUnseen))
			})
			return
		}
		switch {
		case result == resultDismissed:
			resolvedBy = state.EndedDismissed
		case resolvedBy == "stop":
			resolvedBy = state.EndedUnseen
		}
	case q.Kind == state.KindQuestion && h.confirmByTranscript(e, q):
		return
	case q.Kind == state.KindNext && end.clearCommand != nil:
		resolvedBy = state.EndedReplaced // the thread gets the note about the typed /clear
	}
	h.closeQuestion(q.Path, status, resolvedBy)
}

// confirmByTranscript closes a question if the transcript has its answers. PostToolUse
// reported them, but its hook could not write them down, or is not registered.
func (h *Hook) confirmByTranscript(e *Event, q *state.Question) (isAnswered bool) {
	response := readToolResponse(e, q)
	if response == nil {
		return false
	}
	answered := *e
	answered.ToolResponse = response
	h.retryWriteOrLog(closeTimeout, func() error { return h.confirmAnswers(&answered, q) })
	return true
}

// isPromptQueued reports whether a prompt went into Claude Code's queue. The transcript
// may say so a moment later (2.1.330). So two other signs count: the poller saw Claude
// work when it typed, or Claude Code's own file says that a dialog waits.
func (h *Hook) isPromptQueued(e *Event, prompts []*state.Incoming) bool {
	prompt := inject.StripPasteTags(string(e.Prompt))
	isTyped := slices.ContainsFunc(prompts, func(in *state.Incoming) bool {
		return in.Typing != nil && in.Typing.LastKey == state.KeyQueued &&
			inject.SameText(prompt, in.Text)
	})
	hasDialog, _ := inject.IsWaiting(string(e.TranscriptPath), e.SessionID, h.claudePID())
	return isTyped || hasDialog || inject.TranscriptHasPrompt(
		string(e.TranscriptPath), string(e.Prompt), time.Now().Add(-queuedWindow), false)
}

// queuedWindow is how long after a prompt was typed the hook's event for it may come, if
// it went into Claude Code's queue (2.1.329).
const queuedWindow = 15 * time.Second

// readAnswers reads the answers from Claude Code's tool_response. Its "answers" is a map
// from question text to answer. Scripts that were written for an older form send a list
// in the order of the questions.
func readAnswers(
	e *Event, subQuestions []state.SubQuestion,
) (answers, notes map[string]string, err error) {
	var response struct {
		Answers     json.RawMessage       `json:"answers"`
		Annotations map[string]annotation `json:"annotations"`
		Response    string                `json:"response"` // one text for all questions
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
		return nil, nil, fmt.Errorf("read tool response: %w", err)
	}
	answers, notes = map[string]string{}, map[string]string{}
	for text, value := range byText {
		answers[text] = string(value)
	}
	for i, a := range inOrder[:min(len(inOrder), len(subQuestions))] {
		answers[subQuestions[i].Question] = strings.Join(
			append(a.Options, nonEmpty(a.Option, a.Text)...), ", ")
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
