package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// busyTimeout is how long a hook that waits for a person tries to lock a folder of
// records that another process holds.
const busyTimeout = time.Minute

// mayWait reports whether this event's hook may take as long as the person takes.
func (h *Hook) mayWait(e *Event) bool {
	if h.Job != nil {
		return h.JobMayWait != nil && h.JobMayWait(h, e)
	}
	switch {
	case h.Name == "gchat-ask-user-rewake":
		return true
	case h.Name != "gchat-ask-user-forward":
		return false
	case e.HookEventName == "PreToolUse" && e.ToolName == questionTool:
		traits := h.rules(e).AskMode.Traits()
		return traits.NeedsHook && !traits.HasDialog
	}
	return asksPerson[e.HookEventName]
}

// config returns the configuration of this project. It is read once per hook.
func (h *Hook) config() *config.Config {
	if h.cached.config == nil {
		h.cached.config = config.Load(h.Env, state.ProjectDir(h.Env))
		h.cached.config.ReadPolicy = h.ReadPolicy
		for _, err := range h.cached.config.Problems {
			h.log.Error().Err(err).Str("hint", "gchat-hooks doctor says what to do").Msg("configuration")
		}
	}
	return h.cached.config
}

// isKeptInTerminal reports whether a policy keeps a kind in the terminal. It reads the
// policies, and a hub's may take three seconds. So only a hook that is about to ask or
// report calls it.
func (h *Hook) isKeptInTerminal(ctx context.Context, cfg *config.Config, kind state.Kind) bool {
	h.logFailed(cfg.ApplyPolicies(ctx, h.Env), "policy")
	return !cfg.AccessTo(kind, "").CanAsk
}

// rules are the configuration's settings for this session. Rules name the session by
// $CLAUDE_SESSION_ID, else by its tmux session. Without rules the name is not looked up.
func (h *Hook) rules(e *Event) *config.SessionRules {
	if h.cached.rules == nil {
		name := h.Env("CLAUDE_SESSION_ID")
		facts := config.SessionFacts{
			Name:            name,
			IsNamedByPerson: name != "",
			ProjectDir:      state.ProjectDir(h.Env),
			OutputStyle:     h.Env("CLAUDE_OUTPUT_STYLE"),
		}
		if !facts.IsNamedByPerson && len(h.config().Rules) > 0 {
			facts.Name = cmp.Or(h.ensureSession(e).TmuxSession, h.ensureSession(e).Name)
		}
		rules := h.config().RulesFor(facts)
		h.cached.rules = &rules
	}
	return h.cached.rules
}

// isInOtherTerminal reports whether another Claude Code asked this question and still
// runs. A session can be resumed in two terminals, and the events of one do not end the
// dialog of the other.
func (h *Hook) isInOtherTerminal(q *state.Question) bool {
	if q.ClaudePID == 0 {
		return false
	}
	pid := h.claudePID()
	return pid != 0 && pid != q.ClaudePID && !inject.HasEnded(q.ClaudePID, q.ClaudeStart)
}

// runForward is gchat-ask-user-forward. On PreToolUse it records the question and prints
// nothing; in deny mode it denies the call. On PermissionRequest it waits for the reply
// beside the open dialog and prints the answer: to a question, a permission or a plan.
//
// On Notification it reports a dialog in the terminal that no PermissionRequest came for.
func (h *Hook) runForward(ctx context.Context, e *Event) error {
	if e.HookEventName == "Notification" {
		return h.forwardNotification(e)
	}
	isQuestion := e.ToolName == questionTool
	isPermissionRequest := e.HookEventName == "PermissionRequest"
	asks := asksPerson[e.HookEventName] || e.HookEventName == "PreToolUse" && isQuestion
	if !asks || isPermissionRequest && e.ToolName == "" {
		return nil
	}
	rules := h.rules(e)
	if !rules.AskMode.Traits().Asks {
		return nil
	}
	rules.AskMode = h.workingMode(e, rules.AskMode)
	mode, traits := rules.AskMode, rules.AskMode.Traits()
	switch {
	case !isQuestion:
		return h.askPermission(ctx, e)
	case h.isKeptInTerminal(ctx, h.config(), state.KindQuestion):
		return nil
	case traits.HasMarker && !isPermissionRequest:
		if asksInTerminal, err := h.denyCall(ctx, e); !asksInTerminal {
			return err
		}
		mode = state.ModeNative
	case traits.HasMarker:
		q, err := h.reclaimDialogQuestion(e)
		if err != nil {
			return err
		}
		if q != nil {
			return h.awaitAnswer(ctx, e, q)
		}
		mode = state.ModeNative
	case traits.NeedsPane && isPermissionRequest && h.ensureSession(e).TmuxPane != "":
		// The poller types the answer into the pane. Outside tmux it cannot, and this
		// hook waits instead.
		return nil
	}
	return h.askAndWait(ctx, e, mode)
}

func (h *Hook) forwardNotification(e *Event) error {
	isPermission, isDialog := dialogTypes[string(e.NotificationType)]
	if !isDialog || !h.rules(e).AskMode.Traits().Asks {
		return nil
	}
	h.cached.acceptsCommands = !h.isUnattended()
	return h.notifyDialog(e, state.NewDialog(isPermission, string(e.Message)))
}

// askAndWait records the question of a call, once. It waits for the reply if that is this
// event's job.
func (h *Hook) askAndWait(ctx context.Context, e *Event, mode state.Mode) error {
	h.ensureSession(e) // it may ask tmux, which is not allowed under the folder's lock
	var buildErr error
	folders := h.folders(state.QuestionsIn)
	// If the disk was full a moment ago, PreToolUse wrote the question into another
	// folder.
	spareQuestions := h.questionsOfSession(e, folders[1:], callSearchTexts(e)...)
	q, err := h.writeQuestion(ctx, e, folders, func(existing []*state.Question) *state.Question {
		q := h.findQuestionOfCall(e, append(existing, spareQuestions...))
		if q == nil { // PermissionRequest records it, too: PreToolUse may not be registered
			q, buildErr = h.newQuestion(e, mode)
		}
		return q
	}, callSearchTexts(e)...)
	switch {
	case err != nil || buildErr != nil:
		return cmp.Or(err, buildErr)
	case !h.mayWait(e):
		h.StartPoller()
		return nil
	case q.HandedOverAt != nil:
		h.StartPoller()
		return nil
	case !q.Status.IsOpen():
		return nil
	}
	return h.awaitAnswer(ctx, e, q)
}

// findQuestionOfCall returns the question of an event's call; nil for none. The
// tool_use_id identifies the call. PermissionRequest has none, nor does a record that it
// wrote. Then an open question with equal input is returned. A closed one is returned if
// the event came once more.
func (h *Hook) findQuestionOfCall(e *Event, questions []*state.Question) (closed *state.Question) {
	for _, q := range questions {
		if e.ToolUseID != "" && q.ToolUseID == e.ToolUseID {
			return q
		}
	}
	hash := callHash(e.ToolName, e.ToolInput)
	for _, q := range questions {
		isOtherCall := q.InputHash != hash || q.ToolUseID != "" && e.ToolUseID != ""
		switch {
		case isOtherCall, h.isInOtherTerminal(q):
		case q.Status.IsOpen() && inject.HasEnded(q.ClaudePID, q.ClaudeStart):
			// The session was resumed after a crash: that dialog is not this one.
		case q.Status.IsOpen():
			return q
		case q.ToolUseID != "" && q.PromptID == string(e.PromptID):
			closed = q // for a new call, PreToolUse would have recorded a new question
		}
	}
	return closed
}

// callSearchTexts are texts that findQuestionOfCall's questions have in their files.
func callSearchTexts(e *Event) []string {
	return nonEmpty(e.ToolUseID, callHash(e.ToolName, e.ToolInput))
}

// callHash identifies a call by its tool and its input. All events of one call have the
// same hash, except those of a plan. The hash does not depend on the input's bytes, which
// differ between events, nor on the answers, which PostToolUse adds to the questions.
func callHash(tool string, input json.RawMessage) string {
	var content any
	if len(input) > 0 && json.Unmarshal(input, &content) != nil {
		return ""
	}
	if members, ok := content.(map[string]any); ok && tool == questionTool {
		content = members["questions"]
	}
	b, _ := json.Marshal([]any{tool, content}) // sorts the keys
	return state.Hash(16, string(b))
}

// closeQuestion ends a question. The poller writes the note about that in its thread.
func (h *Hook) closeQuestion(path string, status state.Status, resolvedBy string) {
	h.retryWriteOrLog(closeTimeout, func() error {
		isClosedNow, err := state.CloseQuestion(path, status, resolvedBy, nil)
		if isClosedNow {
			h.StartPoller()
		}
		return err
	})
}

// newQuestion returns the record of a question that this event's call asks. It is not
// written yet.
func (h *Hook) newQuestion(e *Event, mode state.Mode) (*state.Question, error) {
	if e.SessionID == "" {
		return nil, errors.New("hook event: session_id is missing")
	}
	id, session := uuid.New().String(), h.ensureSession(e)
	q := &state.Question{
		QuestionID:      id,
		SessionID:       state.SessionID(h.Env, e.SessionID),
		ClaudeSessionID: e.SessionID,
		SessionName:     session.Name,
		TmuxSession:     session.TmuxSession,
		TmuxPane:        session.TmuxPane,
		TmuxSocket:      session.TmuxSocket,
		ClaudePID:       session.ClaudePID,
		ClaudeStart:     session.ClaudeStart,
		AskedAt:         time.Now().UTC().Truncate(time.Millisecond),
		ThreadKey:       state.QuestionThreadKey(id),
		Status:          state.Pending,
		RemindAfter:     h.config().RemindAfter,
		Mode:            mode,
		ProjectDir:      session.ProjectDir,
		CWD:             e.CWD,
		PromptID:        string(e.PromptID),
		ToolUseID:       e.ToolUseID,
		AgentID:         string(e.AgentID),
		InputHash:       callHash(e.ToolName, e.ToolInput),
		Machine:         state.MachineName(),
	}
	if e.ToolName == questionTool {
		subQuestions, err := e.subQuestions()
		if err != nil {
			return nil, err
		}
		q.SubQuestions = subQuestions
		hasModel := h.Env("ANTHROPIC_API_KEY")+h.Env("ANTHROPIC_BASE_URL") != ""
		q.IsWordedByAsker = hasModel && h.config().Format == "haiku" && h.Self != ""
		q.IsDialogHidden = e.HookEventName == "PreToolUse" && h.mayWait(e) && !h.isUnattended()
		if h.cached.isLeftToTerminal {
			q.LeaveToTerminal(h.cached.unsupportedClaude)
		}
	}
	if q.Mode.Traits().HasMarker {
		q.QuestionID = state.MarkerQuestionID(q.SessionID, id)
		q.ThreadKey, q.TimeoutPolicy = q.QuestionID, h.rules(e).TimeoutPolicy
		q.TimesOutAt = new(q.AskedAt.Add(h.config().ReplyTimeout))
	}
	if q.IsWordedByAsker {
		h.cached.wordedQuestion = q.QuestionID
	}
	return q, nil
}

// writeQuestion records the question that choose returns in the first of these folders
// that can be written, and adds it to the index. That also adds a question that a killed
// hook left out of the index.
//
// If another process holds a folder, a hook that waits for a person waits for it, for at
// most busyTimeout.
func (h *Hook) writeQuestion(
	ctx context.Context, e *Event, folders []state.Questions,
	choose func([]*state.Question) *state.Question, texts ...string,
) (*state.Question, error) {
	var errs []error
	start := time.Now()
	for _, folder := range folders {
		q, err := folder.Record(e.SessionID, choose, texts...)
		for errors.Is(err, state.ErrLocked) && h.mayWait(e) && ctx.Err() == nil &&
			time.Since(start) < busyTimeout {
			q, err = folder.Record(e.SessionID, choose, texts...)
		}
		if err == nil && q != nil && q.Status.IsOpen() {
			err := state.RegisterProject(h.Env, filepath.Dir(folder.Dir), q.ProjectDir)
			h.logFailed(err, "project not registered: status does not show it")
			err = state.AddQuestionToIndex(h.Env, q)
			if h.cached.wordedQuestion == q.QuestionID {
				h.logFailed(state.StartWordingQuestion(h.Self, q.Path), "question not worded")
			}
			return q, err
		}
		if err == nil {
			return q, nil
		}
		errs = append(errs, err)
		if errors.Is(err, state.ErrLocked) {
			break // the folder can be written, but another process holds it
		}
	}
	return nil, fmt.Errorf("write question: %w", errors.Join(errs...))
}

// folders are where a question of this project may be: in the project's state, and in the
// person's own state if the project cannot be written.
func (h *Hook) folders(folderIn func(dir string) state.Questions) (folders []state.Questions) {
	for _, dir := range state.ProjectStateDirs(h.Env) {
		folders = append(folders, folderIn(dir))
	}
	return folders
}

// personalFolders is the folder of questions whose answers let Claude act or tell it what
// to do. It is in the person's own state, since Claude may write into the project.
func (h *Hook) personalFolders() []state.Questions {
	return []state.Questions{state.QuestionsIn(state.SpareStateDir(h.Env))}
}

// awaitAnswer waits for the answer and prints it. If Claude Code ends the hook (Esc,
// quit), it closes the question. Just before Claude Code would kill the hook, it gives up
// by itself, and the question stays open in the terminal. It also gives up when it may
// not hide the dialog longer.
func (h *Hook) awaitAnswer(ctx context.Context, e *Event, q *state.Question) error {
	path := q.Path
	lockTimeout := time.Duration(0)
	if state.IsMarkerFile(path) { // a rewake hook that waits for it releases its lock
		lockTimeout = denyTimeout
	}
	var lock *state.Lock
	err := retryWrite(lockTimeout, func() (err error) {
		lock, err = state.LockWaiter(h.Env, path)
		return err
	})
	switch {
	case errors.Is(err, state.ErrLocked):
		// The event came to a second install as well, or an equal question is asked at
		// the same time. One of the hooks waits.
		return nil
	case err != nil:
		return err
	}
	defer lock.Unlock()
	question := q
	dismiss := func() { h.dismissQuestion(e, question) }
	// The question is closed as soon as Claude Code ends the hook by a signal. SIGKILL
	// may follow.
	cancelDismiss := context.AfterFunc(ctx, dismiss)
	waitCtx, cancel := context.WithTimeout(ctx, config.HookTimeout-30*time.Second)
	defer cancel()
	if !q.IsDialogDrawn() {
		go h.guardDialog(waitCtx, path, cancel)
	}
	q, err = state.Await(waitCtx, h.Env, h.Self, path, func(q *state.Question) bool {
		return q.Status != state.Pending || q.HandedOverAt != nil
	})
	if !cancelDismiss() { // a signal came before the answer; a later one changes nothing
		dismiss()
		return nil
	}
	if h.hasNoPoller(err) || err != nil && errors.Is(err, waitCtx.Err()) {
		q, err = h.leaveToTerminal(path)
	}
	switch {
	case errors.Is(err, state.ErrUnserved), errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && q.Status == state.Cancelled && q.ResolvedBy == state.EndedDismissed:
		return h.printDecision(e, handlersFor(q.Kind).interruptedOutput)
	case err != nil || q.Status != state.Answered:
		return err // the dialog was answered in the terminal, or is left to it
	}
	return h.printAnswer(e, q)
}

// hasNoPoller reports whether a wait ended because no poller asks the question in Chat.
// It logs the cause, which status shows.
func (h *Hook) hasNoPoller(err error) bool {
	isWithoutPoller := errors.Is(err, state.ErrNoPoller)
	if isWithoutPoller {
		h.logFailed(err, "nobody is asked in Chat")
	}
	return isWithoutPoller
}

// dismissQuestion closes a question whose hook Claude Code ends: after Esc, or when
// Claude Code quits. Esc may also end a call that was allowed in the terminal and runs.
// So a permission or a plan is closed by the transcript. If its result is not there yet,
// the poller closes it: Claude Code writes the result 0.1 s after it ends the hook, and
// ends the hook by force 0.7 s later (2.1.197 and 2.1.332).
func (h *Hook) dismissQuestion(e *Event, q *state.Question) {
	defer h.recoverPanic()
	resolvedBy := state.EndedDismissed
	if q.Kind.Traits().Decides {
		result := readUnlistedResult(e, q)
		hasTranscript := len(transcriptEnd(e, "")) > 0
		switch {
		case result != resultUnknown:
			h.retryWriteOrLog(closeTimeout, func() error { return h.confirmDecision(q, result) })
			return
		case isScriptRunning(e, q):
			resolvedBy = state.EndedUnseen
		case hasTranscript && q.AgentID == "" && h.Self != "":
			h.StartPoller()
			return
		}
	}
	h.closeQuestion(q.Path, state.Cancelled, resolvedBy)
}

// guardDialog calls endWait when a hidden dialog may not be hidden any longer and no
// poller hands it over. A running poller looks at the keyboard, too, and hands the dialog
// over itself.
func (h *Hook) guardDialog(ctx context.Context, path string, endWait func()) {
	defer h.recoverPanic()
	cfg := config.LoadPersonal(h.Env)
	for pause := postTimeout; state.Sleep(ctx, pause); {
		pause = postTimeout
		q, err := state.LoadQuestion(path)
		if err != nil {
			continue // it looks again after postTimeout
		}
		conditions := state.HoldConditions{
			HasAnswerer:     q.Approvers == nil || len(*q.Approvers) > 0,
			WaitWithoutKeys: cfg.BackgroundWait,
		}
		canHold, until := state.CanHoldDialog(q, conditions, time.Now())
		heartbeat := state.ReadHeartbeat(h.Env, state.Environment(h.Env))
		switch {
		case canHold:
			pause = max(time.Until(until), postTimeout)
		case heartbeat.IsAlive && !heartbeat.IsSilent(time.Now()): // the poller hands it over
			pause = max(cfg.BackgroundWait, postTimeout)
		case !time.Now().Before(state.EarliestDialogTime(q, conditions)):
			endWait()
			return
		}
	}
}

// leaveToTerminal ends the wait for a reply and hands a hidden dialog over to the
// terminal, unless a reply came first. It returns the record as it is then.
func (h *Hook) leaveToTerminal(path string) (q *state.Question, err error) {
	err = retryWrite(closeTimeout, func() error {
		q, err = state.ChangeQuestion(path, func(q *state.Question) { q.HandOver(time.Now()) })
		return err
	})
	if err == nil && q.HandedOverAt != nil {
		h.StartPoller()
	}
	return q, err
}

// printAnswer prints the answer to the question, permission or plan of this event, if
// there is one, and records that it was printed.
func (h *Hook) printAnswer(e *Event, q *state.Question) error {
	members, auditDetail, err := handlersFor(q.Kind).output(e, q)
	if err != nil || members == nil {
		return err
	}
	if q.Kind.Traits().UsesOwnSpace {
		b, _ := json.Marshal(auditDetail)
		err := h.auditDecision(q, string(b))
		label, _ := q.Decision()
		if err != nil && !state.IsRefusal(label) {
			return fmt.Errorf("allow call: the decision cannot be recorded in the audit log: %w", err)
		}
		h.logFailed(err, "decision not in the audit log")
	}
	if err := h.printDecision(e, members); err != nil {
		return err
	}
	// Without this record, the poller would take the answer for a lost one.
	h.retryWriteOrLog(writeTimeout, func() error { return markAnswerPrinted(q.Path) })
	return nil
}

// printDecision prints a decision for the event's hook; nothing if members is nil.
func (h *Hook) printDecision(e *Event, members map[string]any) error {
	if members == nil {
		return nil
	}
	members["hookEventName"] = e.HookEventName
	return h.Print(map[string]any{"hookSpecificOutput": members})
}

// questionOutput returns what Claude Code accepts as the answer to a question. In hold
// mode that is before a dialog is drawn (from 2.1.85 on).
func questionOutput(
	e *Event, q *state.Question,
) (members map[string]any, auditDetail any, err error) {
	isHeld := e.HookEventName == "PreToolUse"
	switch {
	case q.Declined != "" && isHeld:
		return map[string]any{
			"permissionDecision":       "deny",
			"permissionDecisionReason": declineText(q),
		}, nil, nil
	case q.Declined != "":
		return map[string]any{
			"decision": map[string]any{"behavior": "deny", "message": declineText(q)},
		}, nil, nil
	}
	input, err := inputWithAnswers(e.ToolInput, q)
	if isHeld {
		return map[string]any{"permissionDecision": "allow", "updatedInput": input}, nil, err
	}
	return map[string]any{
		"decision": map[string]any{"behavior": "allow", "updatedInput": input},
	}, nil, err
}

// markAnswerPrinted records that the answer was printed.
func markAnswerPrinted(path string) error {
	_, err := state.ChangeQuestionRelaxed(path, func(q *state.Question) {
		q.IsPrinted, q.PrintedAt = true, new(time.Now().UTC())
	})
	return err
}

// annotation is what Claude Code's dialog keeps beside an answer. Claude Code passes both
// on to Claude.
type annotation struct {
	Preview string `json:"preview,omitempty"`
	Notes   string `json:"notes,omitempty"`
}

// inputWithAnswers returns the call's whole input with the answers in it. Claude Code
// accepts nothing less: a bare allow answers the question with nothing. Members that we
// do not know are returned unchanged.
func inputWithAnswers(toolInput json.RawMessage, q *state.Question) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(toolInput, &members); err != nil {
		return nil, fmt.Errorf("answer input: %w", err)
	}
	notes := map[string]annotation{}
	for _, subQuestion := range q.SubQuestions {
		a := annotation{Notes: q.Notes[subQuestion.Question]}
		for _, o := range subQuestion.Options {
			if !subQuestion.MultiSelect && o.Label == q.Answers[subQuestion.Question] {
				a.Preview = o.Preview
				break
			}
		}
		if a != (annotation{}) {
			notes[subQuestion.Question] = a
		}
	}
	members["answers"], _ = json.Marshal(q.Answers) // strings by strings: it cannot fail
	if len(notes) > 0 {
		members["annotations"], _ = json.Marshal(notes)
	}
	return json.Marshal(members)
}

// Print writes one JSON object to stdout, whole or not at all. It fails if the pipe's
// other end is closed.
func (h *Hook) Print(value any) error {
	b, err := json.Marshal(value)
	if err == nil {
		_, err = h.Stdout.Write(append(restoreSurrogates(b), '\n'))
	}
	if err != nil {
		return fmt.Errorf("print decision: %w", err)
	}
	return nil
}
