package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// planTool is the tool whose calls are plans.
const planTool = "ExitPlanMode"

// sameCallWindow is how far apart two registrations of ours may get the event of one
// call.
const sameCallWindow = time.Minute

// askPermission is the hook of a permission, a plan or a form. It waits for the decision
// in the thread and prints it. The dialog of a permission or a plan stays usable
// meanwhile, and the first decision counts. These questions go to the person's own space:
// a project's webhook gets none.
//
// A record serves one call: another call with equal input gets its own. Only if another
// registration of ours (settings and plugin) recorded the event, it is the same call.
// Then the hook of that registration waits, unless it was killed.
func (h *Hook) askPermission(ctx context.Context, e *Event) error {
	personal, kind := config.LoadPersonal(h.Env), askedKind(e)
	personal.ReadPolicy = h.ReadPolicy
	if !personal.CanSend() || h.isKeptInTerminal(ctx, personal, kind) {
		return nil
	}
	h.cached.acceptsCommands = !h.isUnattended()
	newQuestion, err := h.newQuestion(e, state.ModeNative)
	if err != nil {
		return err
	}
	newQuestion.Kind, newQuestion.GracePeriod = kind, h.config().GracePeriod
	newQuestion.Approvers = new(append([]string{}, personal.Approvers...))
	newQuestion.NeverRemote = personal.NeverRemote
	handlersFor(kind).completeRecord(h, newQuestion, e, personal)
	h.handOverIfBroken(newQuestion, e)
	if h.isUnattended() {
		newQuestion.GracePeriod = 0
		if newQuestion.HandedOverAt != nil { // there is no terminal to hand it over to
			return nil
		}
	}
	registration := h.Env("CLAUDE_PLUGIN_ROOT") + "\x00" + strings.Join(h.Args, "\x00")
	newQuestion.SeenByHooks = []string{registration}
	q, err := h.writeOrJoinQuestion(ctx, e, newQuestion, registration)
	if err == nil && q.HandedOverAt != nil { // it is answered only in the terminal
		h.StartPoller()
		return nil
	}
	if err != nil || q.Status != state.Pending {
		return err
	}
	if h.isUnattended() && !h.ensurePosted(ctx, q.Path) {
		return nil
	}
	return h.awaitAnswer(ctx, e, q)
}

// writeOrJoinQuestion records a permission or a plan. If another registration already
// recorded the same call, it marks that record as seen by this registration and returns
// it.
func (h *Hook) writeOrJoinQuestion(
	ctx context.Context, e *Event, newQuestion *state.Question, registration string,
) (*state.Question, error) {
	// triedPaths are records that another event of this registration has marked.
	var triedPaths []string
	isSameCall := func(q *state.Question) bool {
		return q.InputHash == newQuestion.InputHash &&
			q.AgentID == newQuestion.AgentID &&
			q.PromptID == newQuestion.PromptID &&
			q.ClaudePID == newQuestion.ClaudePID &&
			newQuestion.AskedAt.Sub(q.AskedAt).Abs() < sameCallWindow
	}
	chooseRecord := func(existing []*state.Question) *state.Question {
		for _, q := range slices.Backward(existing) { // the oldest first
			isSeen := len(q.SeenByHooks) == 0 || slices.Contains(q.SeenByHooks, registration)
			if isSameCall(q) && !isSeen && !slices.Contains(triedPaths, q.Path) {
				return q
			}
		}
		return newQuestion
	}
	for {
		q, err := h.writeQuestion(ctx, e, h.personalFolders(), chooseRecord, newQuestion.InputHash)
		if err != nil || q == newQuestion {
			return q, err
		}
		joined, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			if slices.Contains(q.SeenByHooks, registration) {
				return errAlreadySeen
			}
			q.SeenByHooks = append(q.SeenByHooks, registration)
			return nil
		})
		if err == nil {
			return joined, nil
		}
		triedPaths = append(triedPaths, q.Path)
	}
}

var errAlreadySeen = errors.New("another event of this registration has marked the record")

// isUnattended reports whether the session has no terminal that shows dialogs: it runs as
// "claude -p", or a program runs Claude Code. 2.1.330 sets a variable that says so.
func (h *Hook) isUnattended() bool {
	if attended := h.Env("CLAUDE_CODE_SESSION_ATTENDED"); attended != "" {
		return attended == "0"
	}
	return h.Env("CLAUDE_CODE_ENTRYPOINT") == "sdk-cli"
}

// postTimeout is how long an unattended session waits until its permission is posted.
const postTimeout = 5 * time.Second

// ensurePosted reports whether a permission of an unattended session is posted or closed
// within postTimeout. If not, it closes the permission, and Claude Code goes on as
// without this hook: it must not wait for a person who is not asked.
func (h *Hook) ensurePosted(ctx context.Context, path string) bool {
	postCtx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	_, err := state.Await(postCtx, h.Env, h.Self, path, func(q *state.Question) bool {
		return q.IsMessageSent || q.Status != state.Pending
	})
	if err != nil {
		h.hasNoPoller(err)
		h.closeQuestion(path, state.Cancelled, "unposted")
	}
	return err == nil
}

// completePermission fills in the record of a permission or a plan: what is shown of it,
// and what the person's own configuration says about who may decide it. What cannot be
// shown in full can be allowed only in the terminal.
func (h *Hook) completePermission(q *state.Question, e *Event, personal *config.Config) {
	q.ToolName, q.AgentType = e.ToolName, string(e.AgentType)
	if e.AgentID != "" {
		meta := readAgentMeta(e)
		q.AgentTask = meta.Description
		q.IsDialogHidden = !h.isUnattended() && !isInForeground(e, meta)
	}
	hasNeverRemote := len(personal.NeverRemote) > 0
	isComplete := false
	subQuestion := state.SubQuestion{
		Header:   "Permission",
		Question: "Claude wants to use " + e.ToolName + ".",
	}
	labels := []string{state.LabelAllow, state.LabelDeny}
	if q.Kind == state.KindPermission {
		preview := previewCall(e.ToolName, e.ToolInput, e.CWD, q.ProjectDir)
		q.About, q.ShownText = preview.about, preview.text
		q.CallTexts, isComplete = preview.ruleTexts, preview.isComplete
	}
	access := personal.AccessTo(q.Kind, e.ToolName, q.CallTexts...)
	if q.Kind == state.KindPlan {
		q.ShownText, isComplete = readPlan(e.ToolInput, string(e.TranscriptPath), false)
		q.InputHash = planHash(q.ShownText)
		subQuestion = state.SubQuestion{Header: "Plan", Question: "Claude has a plan."}
		labels = []string{state.LabelApprove, state.LabelSendBack}
		if !hasNeverRemote {
			labels = append(labels, state.LabelApproveAuto)
		}
	} else {
		if access.CanShow {
			about := q.About
			if about == "" {
				about = shortenToLine(q.ShownText, maxTextBytes)
			}
			subQuestion.Question = "Claude wants to use " + e.ToolName + ": " + about
		}
		if len(e.PermissionSuggestions) > 0 && !config.AllowsOnlyManagedRules(h.Env) {
			version := inject.ClaudeVersion(string(e.TranscriptPath), q.ClaudePID)
			q.AlwaysAllows = alwaysRulesText(e.PermissionSuggestions, hasNeverRemote,
				personal.HasNeverRemote, localRulesPlace(q.ProjectDir, version))
		}
		if q.AlwaysAllows != "" {
			labels = append(labels, state.LabelAlways)
		}
	}
	// A configuration that cannot be read yet counts when the permission is decided.
	q.IsTerminalOnly = !isComplete || !personal.HasUnreadFile && !access.CanAllow
	if !access.CanShow {
		q.ReduceToTitle()
	}
	if q.IsTerminalOnly {
		labels = slices.DeleteFunc(labels, func(label string) bool {
			return !state.IsRefusal(label)
		})
	}
	for _, label := range labels {
		subQuestion.Options = append(subQuestion.Options, state.Option{Label: label})
	}
	subQuestion.OptionCount = len(subQuestion.Options)
	q.SubQuestions = []state.SubQuestion{subQuestion}
}

// refusalText is what Claude is given for a refusal: the person's text as it was typed,
// else that the person gave no reason.
func refusalText(q *state.Question) string {
	label, reason := q.Decision()
	switch label {
	case state.LabelDeny:
		return cmp.Or(reason, "The user denied this "+q.AnsweredWhere()+".")
	case state.LabelSendBack:
		return cmp.Or(reason, "The user sent the plan back "+q.AnsweredWhere()+
			" without saying why. Ask what to change.")
	}
	return ""
}

// decisionOutput returns what Claude Code accepts as a decision; nil if there is none
// that we know.
func decisionOutput(
	e *Event, q *state.Question,
) (members map[string]any, auditDetail any, err error) {
	decision := hookDecision(e, q)
	if decision == nil {
		return nil, nil, nil
	}
	return map[string]any{"decision": decision}, decision, nil
}

// hookDecision returns the decision that the hook prints; nil to print none. 2.1.329
// ignores an allow of a plan that does not return the input.
func hookDecision(e *Event, q *state.Question) map[string]any {
	allow := map[string]any{"behavior": "allow"}
	switch label, _ := q.Decision(); label {
	case state.LabelAllow, state.LabelAlways:
		if previewCall(e.ToolName, e.ToolInput, e.CWD, q.ProjectDir).about != q.About {
			// the path leads to another file than was shown, which 2.1.197 does not
			// notice
			return nil
		}
		if label == state.LabelAlways {
			allow["updatedPermissions"] = e.PermissionSuggestions
		}
	case state.LabelApprove, state.LabelApproveAuto:
		plan, _ := readPlan(e.ToolInput, string(e.TranscriptPath), true)
		if planHash(plan) != q.InputHash {
			return nil // the plan's file has changed since it was shown
		}
		allow["updatedInput"] = e.ToolInput
		if label == state.LabelApproveAuto {
			allow["updatedPermissions"] = []map[string]string{{
				"type":        "setMode",
				"mode":        "acceptEdits",
				"destination": "session",
			}}
		}
	case state.LabelDeny, state.LabelSendBack:
		return map[string]any{"behavior": "deny", "message": refusalText(q)}
	default:
		return nil
	}
	return allow
}

// auditDecision adds a decision to the audit log before Claude is given it.
func (h *Hook) auditDecision(q *state.Question, detail string) error {
	h.log.AddSecrets(h.config().Secrets(h.Env)...)
	return state.AppendDecision(h.Env, h.log, q.DecisionLine(detail))
}

// batchToolCall is a call that a PostToolBatch event reports.
type batchToolCall struct {
	Name  string          `json:"tool_name"`
	ID    string          `json:"tool_use_id"`
	Input json.RawMessage `json:"tool_input"`
}

// confirmBatch closes the permissions and plans whose calls have a result. Each call
// closes one. Of equal ones it closes first one that was printed, then the oldest. An
// agent's permission may belong to another session, since the agent goes on after /clear.
func (h *Hook) confirmBatch(e *Event, readResult func(*Event, string) callResult) {
	openQuestions := h.questionsOfSession(e, h.personalFolders(), state.OpenStatusTexts...)
	h.closeEndedForms(e, openQuestions)
	if e.AgentID != "" && h.mayFollowClear(e) {
		openQuestions, _ = state.ReadIndexedQuestions(h.Env, string(e.AgentID))
	}
	openQuestions = slices.DeleteFunc(openQuestions, func(q *state.Question) bool {
		return !q.Kind.Traits().Decides || !q.Status.IsOpen() || q.AgentID != string(e.AgentID)
	})
	if len(openQuestions) == 0 {
		return
	}
	slices.Reverse(openQuestions)
	notice := ""
	confirm := func(q *state.Question, result callResult) {
		h.retryWriteOrLog(writeTimeout, func() error { return h.confirmDecision(q, result) })
		if q.Grant != nil && q.IsPrinted {
			notice = "Allowed by " + state.OneLine(q.DescribeGrant()) +
				" (" + state.ChatName(q.Chat) + ")"
		}
	}
	printedRank := map[bool]int{true: 0, false: 1}
	slices.SortStableFunc(openQuestions, func(a, b *state.Question) int {
		return printedRank[a.IsPrinted] - printedRank[b.IsPrinted]
	})
	for _, call := range e.ToolCalls {
		hash := callHash(call.Name, call.Input)
		i := slices.IndexFunc(openQuestions, func(q *state.Question) bool {
			return q.ToolName == call.Name && (q.InputHash == hash || q.ToolName == planTool)
		})
		if i >= 0 {
			confirm(openQuestions[i], readResult(e, call.ID))
			openQuestions = slices.Delete(openQuestions, i, i+1)
		}
	}
	for _, q := range openQuestions {
		if result := readUnlistedResult(e, q); result != resultUnknown {
			confirm(q, result)
		}
	}
	// The notice comes here, since 2.1.197 and 2.1.330 show no message of a
	// PermissionRequest hook.
	if notice != "" {
		h.logFailed(h.Print(map[string]any{"systemMessage": notice}), "notice not shown")
	}
}

// mayFollowClear reports whether an event's session may be one that follows another after
// /clear. The session's first prompt records that.
func (h *Hook) mayFollowClear(e *Event) bool {
	session, err := h.sessions().Get(e.SessionID)
	return err != nil || session.PreviousSession != ""
}

// confirmDecision closes a permission or a plan with what Claude was given. If that
// differs from what was printed, the terminal answered first. A tool's own failure proves
// nothing about that. A call that was allowed once and ran was allowed by that decision,
// even if a full disk lost the record that it was printed. But if the thread was told that
// no hook takes the reply, the terminal allowed it.
func (h *Hook) confirmDecision(q *state.Question, result callResult) error {
	correct := func(q *state.Question) {
		label, _ := q.Decision()
		saysNothing := result == resultUnknown || result == resultFailed || result == resultUnseen
		isConsistent := saysNothing || (result == resultRefused) == state.IsRefusal(label)
		reply := q.FindReply(q.AnsweredMessage)
		isUntaken := reply != nil && reply.Verdict == state.VerdictNoWaiter
		isAllowedOnce := result == resultRan && label == q.Kind.Traits().AllowedLabel && !isUntaken
		if q.IsPrinted && isConsistent || isAllowedOnce {
			if result == resultUnseen && state.IsRefusal(label) {
				q.ResolvedBy = state.EndedUnconfirmed
			}
			return
		}
		q.ResolvedBy, q.Answers, q.Notes = "terminal", map[string]string{}, nil
		labels := map[callResult]string{
			resultRan:     q.Kind.Traits().AllowedLabel,
			resultRefused: q.Kind.Traits().RefusedLabel,
		}
		if label := labels[result]; label != "" {
			q.Answers[q.SubQuestions[0].Question] = label
		}
	}
	status, resolvedBy := state.Resolved, "chat"
	if result == resultDismissed {
		status, resolvedBy, correct = state.Cancelled, state.EndedDismissed, nil
	}
	isClosedNow, err := state.CloseQuestion(q.Path, status, resolvedBy, correct)
	if isClosedNow {
		h.StartPoller()
	}
	return err
}

// CloseByTranscript closes a permission or a plan whose dialog is gone, if the session's
// transcript says how its call ended. The poller calls it: no event reports a call that
// was dismissed. Claude Code writes the call's result a moment after the dialog is gone.
func CloseByTranscript(env state.Getenv, session *state.Session, q *state.Question) bool {
	h := &Hook{Env: env}
	e := &Event{SessionID: session.ID, TranscriptPath: LooseText(session.TranscriptPath)}
	result := readUnlistedResult(e, q)
	return result != resultUnknown && h.confirmDecision(q, result) == nil
}

// planHash identifies a plan by its text: 2.1.329 leaves the input of a plan's call empty
// in some events.
func planHash(planText string) string { return callHash(planTool+"\x00"+planText, nil) }
