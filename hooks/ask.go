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

// busyTimeout is how long a hook that waits for a person waits for a folder of records
// that another process holds.
const busyTimeout = time.Minute

// mayWait says whether this event's hook may take as long as the person takes.
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

// config is the configuration that counts for this project, read once.
func (h *Hook) config() *config.Config {
	if h.cached.config == nil {
		h.cached.config = config.Load(h.Env, state.ProjectDir(h.Env))
		h.cached.config.ReadPolicy = h.ReadPolicy
		for _, err := range h.cached.config.Problems {
			h.log.Error().
				Err(err).
				Str("hint", "gchat-hooks doctor says what to do").
				Msg("configuration")
		}
	}
	return h.cached.config
}

// isKeptInTerminal says whether a policy keeps a kind in the terminal. It reads the
// policies, so only a hook asks that is about to ask or report; a hub's may take three
// seconds.
func (h *Hook) isKeptInTerminal(ctx context.Context, cfg *config.Config, kind state.Kind) bool {
	h.logFailed(cfg.ApplyPolicies(ctx, h.Env), "policy")
	return !cfg.AccessTo(kind, "").CanAsk
}

// rules are what the configuration says of this session. Rules name it by
// $CLAUDE_SESSION_ID, else by its tmux session; where there is none, that is not found
// out.
func (h *Hook) rules(e *Event) *config.SessionRules {
	if h.cached.rules == nil {
		name := h.Env("CLAUDE_SESSION_ID")
		facts := config.SessionFacts{
			Name: name, IsNamedByPerson: name != "", ProjectDir: state.ProjectDir(h.Env), OutputStyle: h.Env("CLAUDE_OUTPUT_STYLE"),
		}
		if !facts.IsNamedByPerson && len(h.config().Rules) > 0 {
			facts.Name = cmp.Or(h.ensureSession(e).TmuxSession, h.ensureSession(e).Name)
		}
		rules := h.config().RulesFor(facts)
		h.cached.rules = &rules
	}
	return h.cached.rules
}

// isInOtherTerminal says whether another Claude Code asked, which still lives: a session
// can be resumed in two terminals, and the events of one do not end the dialog of the
// other.
func (h *Hook) isInOtherTerminal(q *state.Question) bool {
	if q.ClaudePID == 0 {
		return false
	}
	pid := h.claudePID()
	return pid != 0 && pid != q.ClaudePID && !inject.HasEnded(q.ClaudePID, q.ClaudeStart)
}

// runForward is gchat-ask-user-forward. PreToolUse writes the question down and prints
// nothing, in deny mode it denies the call; PermissionRequest waits for the reply beside
// the open dialog, and answers with it: of a question, a permission or a plan.
//
// Notification tells of a dialog in the terminal that no PermissionRequest came for.
func (h *Hook) runForward(ctx context.Context, e *Event) error {
	if e.HookEventName == "Notification" {
		return h.forwardNotification(e)
	}
	isQuestion, isPermissionRequest := e.ToolName == questionTool, e.HookEventName == "PermissionRequest"
	if !asksPerson[e.HookEventName] && (e.HookEventName != "PreToolUse" || !isQuestion) ||
		isPermissionRequest && e.ToolName == "" {
		return nil
	}
	mode := h.rules(e).AskMode
	traits := mode.Traits()
	switch {
	case !traits.Asks:
		return nil
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
		// the poller types the answer; outside tmux it cannot, and this hook waits after
		// all
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

// askAndWait writes the question of a call down, once, and waits for its reply where this
// event's hook is the one to do so.
func (h *Hook) askAndWait(ctx context.Context, e *Event, mode state.Mode) error {
	h.ensureSession(e) // it may ask tmux, which may not be done under the lock
	buildErr, folders := error(nil), h.folders(state.QuestionsIn)
	// PreToolUse may have found the disk full a moment ago, and the project's folder with
	// it.
	spareQuestions := h.questionsOfSession(e, folders[1:], callSearchTexts(e)...)
	q, err := h.writeQuestion(ctx, e, folders, func(existing []*state.Question) *state.Question {
		q := h.findQuestionOfCall(e, append(existing, spareQuestions...))
		if q == nil { // PermissionRequest writes it down, too, where PreToolUse is not registered
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
	case !q.Status.IsOpen() || q.HandedOverAt != nil:
		return nil
	}
	return h.awaitAnswer(ctx, e, q)
}

// findQuestionOfCall finds the question of an event's call, by tool_use_id.
// PermissionRequest has none, nor has what it wrote down itself: then equal input tells,
// and the question is open. A closed one is returned where the event came once more; nil
// for none.
func (h *Hook) findQuestionOfCall(e *Event, questions []*state.Question) (closed *state.Question) {
	for _, q := range questions {
		if e.ToolUseID != "" && q.ToolUseID == e.ToolUseID {
			return q
		}
	}
	hash := callHash(e.ToolName, e.ToolInput)
	for _, q := range questions {
		switch {
		case q.InputHash != hash, q.ToolUseID != "" && e.ToolUseID != "", h.isInOtherTerminal(q):
		case q.Status.IsOpen() && inject.HasEnded(q.ClaudePID, q.ClaudeStart):
			// the session was resumed after a crash: that dialog is not this one
		case q.Status.IsOpen():
			return q
		case q.ToolUseID != "" && q.PromptID == string(e.PromptID):
			closed = q // PreToolUse would have written a new question down
		}
	}
	return closed
}

// callSearchTexts stand in the files of the questions that findQuestionOfCall may find.
func callSearchTexts(e *Event) []string {
	return nonEmpty(e.ToolUseID, callHash(e.ToolName, e.ToolInput))
}

// callHash is equal for the events of one call, but for a plan's: they carry the same
// input, though not the same bytes, and PostToolUse adds the answers to the questions.
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

// closeQuestion ends a question; what its thread is told of that is the poller's.
func (h *Hook) closeQuestion(path string, status state.Status, resolvedBy string) {
	h.retryWriteOrLog(closeTimeout, func() error {
		isClosedNow, err := state.CloseQuestion(path, status, resolvedBy, nil)
		if isClosedNow {
			h.StartPoller()
		}
		return err
	})
}

func (h *Hook) newQuestion(e *Event, mode state.Mode) (*state.Question, error) {
	if e.SessionID == "" {
		return nil, errors.New("hook event: session_id is missing")
	}
	id, session := uuid.New().String(), h.ensureSession(e)
	q := &state.Question{
		QuestionID: id, SessionID: state.SessionID(h.Env, e.SessionID), ClaudeSessionID: e.SessionID, SessionName: session.Name,
		TmuxSession: session.TmuxSession, TmuxPane: session.TmuxPane, TmuxSocket: session.TmuxSocket,
		ClaudePID: session.ClaudePID, ClaudeStart: session.ClaudeStart,
		AskedAt: time.Now().
			UTC().
			Truncate(time.Millisecond),
		ThreadKey: state.QuestionThreadKey(id),
		Status:    state.Pending, RemindAfter: h.config().RemindAfter, Mode: mode, ProjectDir: session.ProjectDir, CWD: e.CWD,
		PromptID: string(e.PromptID), ToolUseID: e.ToolUseID, AgentID: string(e.AgentID),
		InputHash: callHash(e.ToolName, e.ToolInput), Machine: state.MachineName(),
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

// writeQuestion writes a question into the first of these folders that can be written,
// and announces it to the poller. A question that a killed hook did not announce is
// announced now.
//
// A hook that waits for a person also waits for a folder that another process holds, for
// at most busyTimeout.
func (h *Hook) writeQuestion(ctx context.Context, e *Event, folders []state.Questions,
	choose func([]*state.Question) *state.Question, texts ...string) (*state.Question, error) {
	var errs []error
	start := time.Now()
	for _, folder := range folders {
		q, err := folder.Record(e.SessionID, choose, texts...)
		for errors.Is(err, state.ErrLocked) && h.mayWait(e) && ctx.Err() == nil && time.Since(start) < busyTimeout {
			q, err = folder.Record(e.SessionID, choose, texts...)
		}
		if err == nil && q != nil && q.Status.IsOpen() {
			err := state.RegisterProject(h.Env, filepath.Dir(folder.Dir), q.ProjectDir)
			h.logFailed(err, "project not registered; status does not show it")
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
			break // the project can be written, only not now
		}
	}
	return nil, fmt.Errorf("write question down: %w", errors.Join(errs...))
}

// folders are those that a question of this project may be in: the project's state, and
// for a checkout that cannot be written the person's own.
func (h *Hook) folders(
	folderIn func(projectState string) state.Questions,
) (folders []state.Questions) {
	for _, dir := range state.ProjectStateDirs(h.Env) {
		folders = append(folders, folderIn(dir))
	}
	return folders
}

// personalFolders is the folder of what lets Claude act, or tells it what to do: the
// person's own, since Claude may write into the project.
func (h *Hook) personalFolders() []state.Questions {
	return []state.Questions{state.QuestionsIn(state.SpareStateDir(h.Env))}
}

// awaitAnswer waits for the answer and prints it. Told to end (Esc, quit), it closes the
// question. It gives up by itself just before Claude Code would kill it: the question
// then stays open in the terminal. So does one whose dialog it hides, and may not hide
// any longer.
func (h *Hook) awaitAnswer(ctx context.Context, e *Event, q *state.Question) error {
	path := q.Path
	lockTimeout := time.Duration(0)
	if state.IsMarkerFile(path) { // a hook that waited to wake the session lets go of it
		lockTimeout = denyTimeout
	}
	var lock *state.Lock
	err := retryWrite(lockTimeout, func() (err error) {
		lock, err = state.LockWaiter(h.Env, path)
		return err
	})
	switch {
	case errors.Is(err, state.ErrLocked):
		// the same event from a second install, or an equal question at the same time:
		// one of them waits
		return nil
	case err != nil:
		return err
	}
	defer lock.Unlock()
	question := q
	dismiss := func() { h.dismissQuestion(e, question) }
	// at once, not when everything has ended: Claude Code may follow up with SIGKILL
	cancelDismiss := context.AfterFunc(ctx, dismiss)
	waitCtx, cancel := context.WithTimeout(ctx, config.HookTimeout-30*time.Second)
	defer cancel()
	if !q.IsDialogDrawn() {
		go h.guardDialog(waitCtx, path, cancel)
	}
	q, err = state.Await(waitCtx, h.Env, h.Self, path, func(q *state.Question) bool {
		return q.Status != state.Pending || q.HandedOverAt != nil
	})
	if !cancelDismiss() { // from here on the answer is on its way, and a signal changes nothing
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
		return err // closed otherwise: the dialog had its answer, or is to get it in the terminal
	}
	return h.printAnswer(e, q)
}

// hasNoPoller reports whether a wait ended because nobody is asked. It logs why, for
// status.
func (h *Hook) hasNoPoller(err error) bool {
	isWithoutPoller := errors.Is(err, state.ErrNoPoller)
	if isWithoutPoller {
		h.logFailed(err, "nobody is asked in Chat")
	}
	return isWithoutPoller
}

// dismissQuestion closes a question whose hook was told to end: after Esc, or when Claude
// Code ends. A permission that was allowed in the terminal is none that Esc refused:
// Claude Code ends its hook, too.
func (h *Hook) dismissQuestion(e *Event, q *state.Question) {
	defer h.recoverPanic()
	resolvedBy := state.EndedDismissed
	if q.Kind.Traits().Decides {
		if readUnlistedResult(e, q) == resultRan {
			h.retryWriteOrLog(closeTimeout, func() error { return h.confirmDecision(q, resultRan) })
			return
		}
		if isScriptRunning(e, q) {
			resolvedBy = state.EndedUnseen
		}
	}
	h.closeQuestion(q.Path, state.Cancelled, resolvedBy)
}

// guardDialog calls end where a hidden dialog may not be hidden any longer and no poller
// sees to that. A poller looks at the keyboard, too, and hands the dialog over itself.
func (h *Hook) guardDialog(ctx context.Context, path string, endWait func()) {
	defer h.recoverPanic()
	cfg := config.LoadPersonal(h.Env)
	for pause := postTimeout; state.Sleep(ctx, pause); {
		pause = postTimeout
		q, err := state.LoadQuestion(path)
		if err != nil {
			continue // with the next look
		}
		hasAnswerer := q.Approvers == nil || len(*q.Approvers) > 0
		conditions := state.HoldConditions{
			HasAnswerer:     hasAnswerer,
			WaitWithoutKeys: cfg.BackgroundWait,
		}
		canHold, until := state.CanHoldDialog(q, conditions, time.Now())
		heartbeat := state.ReadHeartbeat(h.Env, state.Environment(h.Env))
		switch {
		case canHold:
			pause = max(time.Until(until), postTimeout)
		case heartbeat.IsAlive && !heartbeat.IsSilent(time.Now()): // a poller sees to it
			pause = max(cfg.BackgroundWait, postTimeout)
		case !time.Now().Before(state.EarliestDialogTime(q, conditions)):
			endWait()
			return
		}
	}
}

// leaveToTerminal ends the wait for a reply: a hidden dialog is handed over, unless a
// reply was faster. It returns the record as it then stands.
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

// printAnswer prints what Claude Code takes for an answer to the question, permission or
// plan of this event, where one is known, and writes that down.
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
			return fmt.Errorf("a yes that cannot be written down is none: %w", err)
		}
		h.logFailed(err, "decision not in the audit log")
	}
	if err := h.printDecision(e, members); err != nil {
		return err
	}
	// the poller would take the answer for a lost one
	h.retryWriteOrLog(writeTimeout, func() error { return markAnswerPrinted(q.Path) })
	return nil
}

// printDecision prints what Claude Code takes for the decision of an event; nothing where
// there is none.
func (h *Hook) printDecision(e *Event, members map[string]any) error {
	if members == nil {
		return nil
	}
	members["hookEventName"] = e.HookEventName
	return h.Print(map[string]any{"hookSpecificOutput": members})
}

// questionOutput is what Claude Code takes for the answer to a question, also in hold
// mode, before a dialog is drawn (from 2.1.85 on).
func questionOutput(
	e *Event,
	q *state.Question,
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

func markAnswerPrinted(path string) error {
	_, err := state.ChangeQuestionRelaxed(path, func(q *state.Question) {
		q.IsPrinted, q.PrintedAt = true, new(time.Now().UTC())
	})
	return err
}

// annotation is what Claude Code's dialog notes beside an answer; it passes both on to
// Claude.
type annotation struct {
	Preview string `json:"preview,omitempty"`
	Notes   string `json:"notes,omitempty"`
}

// inputWithAnswers is the call's whole input with the answers put in: Claude Code takes
// nothing less (a bare allow answers the question with nothing). Members that we do not
// know go back as they came.
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
	members["answers"], _ = json.Marshal(q.Answers) // texts by texts
	if len(notes) > 0 {
		members["annotations"], _ = json.Marshal(notes)
	}
	return json.Marshal(members)
}

// Print writes one JSON object to stdout, whole or not at all. An error is that of a pipe
// whose other end is gone.
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
