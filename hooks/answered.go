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

// answered is gchat-ask-user-answered: it closes what Claude Code has done with. PostToolUse brings the answers, from
// wherever they came; the other events end what was dismissed: no hook is told of Esc or "chat about this" itself.
func (h *Hook) answered(_ context.Context, e *Event) error {
	if end := endsBy(e); end != nil {
		return end(h, e)
	}
	switch e.HookEventName {
	case "PostToolBatch": // after every step of Claude's: with no permission open there is nothing to do
		h.confirmBatch(e, resultOf)
		return nil
	case "PermissionDenied":
		e.Calls = []batchCall{{e.ToolName, e.ToolUseID, e.ToolInput}}
		h.confirmBatch(e, func(*Event, string) callResult { return refused })
		return nil
	case "SubagentStop":
		h.closeAgents(func(q *state.Question) bool { return q.AgentID == string(e.AgentID) }, string(e.AgentID))
		return nil
	case "SessionStart":
		h.session(e) // after /branch the same Claude Code goes on with another session, and the thread with that
		h.replaceKilledPoller()
		return nil
	case "PostToolUse", "PostToolUseFailure":
		if e.ToolName != askTool {
			return nil
		}
	case "Stop", "StopFailure", "UserPromptSubmit", "SessionEnd":
	default:
		return nil
	}
	defer h.notify(e)
	defer h.replaceKilledPoller()
	if e.HookEventName == "PostToolUse" {
		q := h.ofCall(e, h.ofSession(e, h.folders(state.QuestionsIn), callTexts(e)...))
		if q == nil { // a call that went on was not denied
			q = h.ofCall(e, h.ofSession(e, h.folders(state.MarkersIn), callTexts(e)...))
		}
		if q != nil {
			h.tryAgain(writeBound, func() error { return h.confirm(e, q) })
		}
		return nil
	}
	qs, sessions := h.openQuestions(e), []string{e.SessionID}
	isPrompt := e.HookEventName == "UserPromptSubmit"
	if isPrompt {
		one, err := state.SessionsIn(state.UserState(h.Env)).Of(e.SessionID)
		if err != nil || one.Reason != "" {
			one = h.session(e) // it begins, perhaps after /clear, or goes on
		}
		if one.Before != "" { // what was said to it just after /clear is that session's
			qs = append(qs, h.ofSession(&Event{SessionID: one.Before}, h.own(), state.TextsOpen...)...)
			sessions = append(sessions, one.Before)
		}
		if h.isClaudes(string(e.Prompt)) {
			return nil // no person went on, and what is open stays
		}
	}
	words := h.words(sessions...)
	switch {
	case isPrompt:
		h.closeNext(e, qs, words)
		h.wantInTerminal(e, qs)
	case e.HookEventName == "SessionEnd":
		h.logFailed(h.noteReason(e), "the end's reason not written down")
	}
	h.closeAll(e, qs, words)
	h.logFailed(h.dialogOver(e), "the end of a dialog not written down")
	return nil
}

// replaceKilledPoller starts a poller where the last one was killed, which may have left notes unsent.
func (h *Hook) replaceKilledPoller() {
	if beat := state.ReadBeat(h.Env, state.Environment(h.Env)); beat.PID > 0 && !beat.Lives {
		h.StartPoller()
	}
}

// isClaudes reports whether a prompt is Claude Code's own: something in the background is done,
// a hook woke the session, or a person stopped agents in the background, which no other event
// tells (2.1.197 and 2.1.332). What such an agent asked in the terminal is over.
func (h *Hook) isClaudes(prompt string) bool {
	const begins, ends = `Background agent "`, `was stopped by the user.`
	if strings.HasPrefix(prompt, begins) && strings.HasSuffix(prompt, ends) {
		h.closeAgents(func(q *state.Question) bool {
			return q.HandedOver != nil && strings.Contains(prompt, `"`+q.AgentTask+`"`)
		})
		return true
	}
	return strings.HasPrefix(prompt, "<task-notification>")
}

// wantInTerminal notes that somebody gave this prompt at the keyboard, for what is hidden there.
func (h *Hook) wantInTerminal(e *Event, qs []*state.Question) {
	hidden := slices.DeleteFunc(slices.Clone(qs), func(q *state.Question) bool {
		return q.Drawn() || q.Status != state.Pending
	})
	if len(hidden) == 0 || h.isTyped(e) {
		return
	}
	for _, q := range hidden {
		h.tryAgain(closeBound, func() error {
			_, err := state.ChangeQuestion(q.Path, func(q *state.Question) { q.WantInTerminal(time.Now()) })
			return err
		})
	}
	h.StartPoller()
}

// isTyped reports whether the poller typed this prompt just now, whatever its session is called
// by now. Its record may be closed: the transcript may have told the poller earlier.
func (h *Hook) isTyped(e *Event) bool {
	sessions := state.SessionsIn(state.UserState(h.Env))
	one := h.session(e)
	for _, id := range nonEmpty(one.ID, one.Before) { // just after /clear it was typed for the one before
		s, err := sessions.Of(id)
		isRecent := err == nil && s.Typed != nil && time.Since(s.Typed.At).Abs() < queuedBound
		if isRecent && inject.Same(inject.Unpasted(string(e.Prompt)), s.Typed.Words) {
			return true
		}
	}
	return false
}

// closeAgents ends what agents asked that have ended, of those of this Claude Code: their
// session may have another id since /clear.
func (h *Hook) closeAgents(hasEnded func(*state.Question) bool, texts ...string) {
	qs, _ := state.OpenQuestions(h.Env, texts...)
	for _, q := range qs {
		if q.AgentID != "" && q.ClaudePID == h.claudePID() && q.Status.Open() && hasEnded(q) {
			h.close(q.Path, state.Cancelled, "agent_end")
		}
	}
}

// dialogOver notes that what waited in the terminal does so no more, where only this event tells.
func (h *Hook) dialogOver(e *Event) error {
	sessions := state.SessionsIn(state.UserState(h.Env))
	one, err := sessions.Of(e.SessionID)
	if err != nil || one.Dialog == nil || !one.Dialog.At.IsZero() {
		return nil // else the poller sees it in Claude Code's file
	}
	_, err = sessions.Change(e.SessionID, func(s *state.Session) {
		s.Dialog = &state.Dialog{Says: one.Dialog.Says, Told: one.Dialog.Told, Over: true}
	})
	h.StartPoller()
	return err
}

// noteReason writes down why a session ended that is known: after /resume its Claude Code may go on with one that no hook knows.
func (h *Hook) noteReason(e *Event) error {
	sessions := state.SessionsIn(state.UserState(h.Env))
	if _, err := sessions.Of(e.SessionID); err != nil {
		return nil
	}
	_, err := sessions.Change(e.SessionID, func(s *state.Session) { s.Reason = string(e.Reason) })
	return err
}

// confirm closes a question that Claude has the answer to. What PostToolUse saw is what Claude was told: where the question
// was closed before with something else, its thread is told once more.
func (h *Hook) confirm(e *Event, q *state.Question) error {
	answers, notes, err := answersOf(e, q.Questions)
	if err != nil { // closed all the same: Claude went on
		h.log.Error().Err(err).Msg("the answer was not understood")
	}
	var response struct { // of 2.1.332, where nobody answered for so long, and Claude Code went on
		Away *time.Duration `json:"afkTimeoutMs"`
	}
	_ = json.Unmarshal(e.ToolResponse, &response)
	to, by, away := state.Resolved, "terminal", response.Away
	isThere := func(p state.Prompt) bool { return answers[p.Question] != "" }
	if away == nil && answers != nil && !slices.ContainsFunc(q.Questions, isThere) {
		away = new(time.Duration) // Claude was told that the user did not answer
	}
	if away != nil {
		to, by = state.Cancelled, state.Away
	}
	differs := func(q *state.Question) bool {
		return by != q.ResolvedBy && away != nil || answers != nil && !maps.Equal(q.Answers, answers) && !typed(q, answers)
	}
	tell := func(q *state.Question) {
		q.ResolvedBy, q.Answers, q.Notes = by, answers, notes
		if away != nil {
			one, err := state.SessionsIn(state.UserState(h.Env)).Of(q.ClaudeSession())
			q.AwayAfter, q.TakesWords = *away*time.Millisecond, err == nil && one.Listens
		}
	}
	ended, err := state.CloseQuestion(q.Path, to, "chat", func(q *state.Question) {
		if q.AnsweredMessage == "" || differs(q) {
			tell(q) // the terminal was faster
		}
	})
	if err == nil && !ended { // it was closed before; the poller may have put the note of its end
		_, err = state.ChangeQuestion(q.Path, func(q *state.Question) {
			ended = !q.Status.Open() && differs(q)
			if !ended {
				return
			}
			q.Status, q.ResolvedAt = to, new(time.Now().UTC())
			tell(q)
			if !slices.Contains(q.Owes, state.Owed{About: state.NoteClosed}) {
				q.Owe(state.NoteClosed, corrected)
			}
		})
	}
	if ended && err == nil {
		h.StartPoller()
	}
	return err
}

// corrected stands for the message that a note answers, in the note that corrects what a thread was told of a question's end.
const corrected = "corrected"

// typed says whether these answers are the question's as the poller types them: a dialog has one field for a choice, own
// words and a remark, white space may change on the way, and 2.1.332 leaves U+FE0F out of an option's label.
func typed(q *state.Question, answers map[string]string) bool {
	if q.Typing == nil {
		return false
	}
	for _, p := range q.Questions {
		told, meant := answers[p.Question], q.Answers[p.Question]
		if !inject.Same(told, meant) && !inject.Same(told, meant+" – "+q.Notes[p.Question]) {
			return false
		}
	}
	return true
}

// dialogEnd is what an event that leaves no dialog standing means for the session's questions.
type dialogEnd struct {
	by     string          // the ResolvedBy of what it ends
	goesOn bool            // Claude Code goes on, and so do its agents in the background
	clear  *state.Incoming // the /clear that ends the session, where a person wrote it in Chat
}

func dialogEndOf(e *Event, words []*state.Incoming) dialogEnd {
	switch {
	case e.HookEventName == "UserPromptSubmit":
		return dialogEnd{by: "prompt", goesOn: true}
	case e.HookEventName != "SessionEnd":
		return dialogEnd{by: "stop", goesOn: true}
	case string(e.Reason) != "clear":
		return dialogEnd{by: "session_end", goesOn: string(e.Reason) == "resume"}
	}
	end := dialogEnd{by: "cleared", goesOn: true}
	for _, in := range words {
		if in.Typing != nil {
			end.clear = in
		}
	}
	return end
}

// closeAll ends the session's open questions after an event that leaves no dialog standing.
func (h *Hook) closeAll(e *Event, qs []*state.Question, words []*state.Incoming) {
	end := dialogEndOf(e, words)
	if e.HookEventName == "SessionEnd" {
		h.endKeptWords(e, end, words)
	}
	var over []*state.Question
	for _, q := range qs {
		if q.Status.Open() && !h.inOtherTerminal(q) && end.ends(e, q) {
			over = append(over, q)
		}
	}
	if len(over) > 0 && end.by == "prompt" && h.queued(e, words) {
		return // it was typed a moment before the dialog opened, which stands
	}
	for _, q := range over {
		h.closeAfter(e, end, q)
	}
}

// ends reports whether an open question of the session is over with the event.
func (end dialogEnd) ends(e *Event, q *state.Question) bool {
	kind := q.Kind.Row()
	switch {
	case q.Mode.Row().Later, q.EndsApart() && end.goesOn:
		return false
	case kind.Prompt && e.HookEventName != "SessionEnd":
		return false
	case e.ToolName == askTool:
		return q.ToolUseID == e.ToolUseID || q.InputHash == callHash(e.ToolName, e.ToolInput)
	}
	// A subagent in the background asks on when the session's own turn ends.
	isOthers := q.AgentID != "" && q.AgentID != string(e.AgentID)
	return end.by != "stop" || !isOthers || q.Printed
}

// endKeptWords ends, with their session, the words for it that were not typed. What is typed may
// be what ends the session: the poller sees what becomes of it.
func (h *Hook) endKeptWords(e *Event, end dialogEnd, words []*state.Incoming) {
	one, err := state.SessionsIn(state.UserState(h.Env)).Of(e.SessionID)
	if err != nil {
		return
	}
	for _, in := range words {
		isForNext := end.clear != nil && in.Compare(end.clear) > 0 // of what comes then
		switch {
		case in.Typing != nil, isForNext, h.inOtherTerminal(in.AsQuestion(one)):
		case in.PrintedAt.IsZero():
			h.endWords(in, end.by)
		default:
			h.endWords(in, "chat")
		}
	}
}

// closeAfter closes a question that is over with an event.
func (h *Hook) closeAfter(e *Event, end dialogEnd, q *state.Question) {
	// No hook tells that "Chat about this" was chosen.
	chosen := q.Declined != "" && q.Typing != nil && q.Typing.Commit
	printed := q.Status == state.Answered && (q.Printed || chosen)
	to, by := state.Cancelled, end.by
	if printed {
		to = state.Resolved // Claude Code took the answer and went on; PostToolUse is not registered
	}
	switch {
	case q.Kind.Row().Decides: // Esc may have come at the same moment, and counted
		result := endedAs(e, q)
		if printed || result == ran {
			h.tryAgain(closeBound, func() error { return h.confirmDecision(q, cmp.Or(result, unseen)) })
			return
		}
		if by == "stop" {
			by = state.Unseen
		}
	case q.Kind == state.AskedNext && end.clear != nil:
		by = state.Instead // the thread hears of the /clear that was typed
	}
	h.close(q.Path, to, by)
}

// queued says whether a prompt went into Claude Code's queue. The transcript may say so a moment later (2.1.330): the poller saw
// Claude work when it typed, and Claude Code's own file says that a dialog waits.
func (h *Hook) queued(e *Event, words []*state.Incoming) bool {
	prompt := inject.Unpasted(string(e.Prompt))
	isTyped := slices.ContainsFunc(words, func(in *state.Incoming) bool {
		return in.Typing != nil && in.Typing.Last == state.TypedQueued && inject.Same(prompt, in.Text)
	})
	waits, _ := inject.Waits(string(e.Transcript), e.SessionID, h.claudePID())
	return isTyped || waits || inject.Queued(string(e.Transcript), string(e.Prompt), time.Now().Add(-queuedBound), false)
}

// queuedBound is how long after its taking Claude Code's hook may be told of words that went into its queue (2.1.329).
const queuedBound = 15 * time.Second

// answersOf reads the answers from Claude Code's tool_response, whose "answers" is a map from question text, and from the list
// beside the questions that scripts send which were written for another form of it.
func answersOf(e *Event, prompts []state.Prompt) (answers, notes map[string]string, err error) {
	var response struct {
		Answers     json.RawMessage       `json:"answers"`
		Annotations map[string]annotation `json:"annotations"`
		Response    string                `json:"response"` // one text for all of them
	}
	byText, inOrder := map[string]Words{}, []struct {
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
	for text, v := range byText {
		answers[text] = string(v)
	}
	for i, a := range inOrder[:min(len(inOrder), len(prompts))] {
		answers[prompts[i].Question] = strings.Join(append(a.Options, nonEmpty(a.Option, a.Text)...), ", ")
	}
	for _, p := range prompts {
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
