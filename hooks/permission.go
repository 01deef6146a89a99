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

const planTool = "ExitPlanMode"

// sameCallWindow is how far apart the events of one call are that two registrations of
// ours get.
const sameCallWindow = time.Minute

// askPermission is the hook beside the dialog of a permission or a plan: it waits for the
// decision in the thread, and prints it. The dialog stays usable meanwhile, and the first
// decision wins. They are decided in the person's own space: a project's webhook gets
// none.
//
// The record serves this call alone: equal input is another call. Only where another
// registration of ours (settings and plugin) wrote the event down, it is the same call:
// that one's hook waits, unless it was killed.
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
	newQuestion.Approvers, newQuestion.NeverRemote = new(
		append([]string{}, personal.Approvers...),
	), personal.NeverRemote
	handlersFor(kind).completeRecord(h, newQuestion, e, personal)
	if h.isUnattended() {
		newQuestion.GracePeriod = 0
		if newQuestion.HandedOverAt != nil { // it has no terminal
			return nil
		}
	}
	registration := h.Env("CLAUDE_PLUGIN_ROOT") + "\x00" + strings.Join(h.Args, "\x00")
	newQuestion.SeenByHooks = []string{registration}
	q, err := h.writeOrJoinQuestion(ctx, e, newQuestion, registration)
	if err == nil && q.HandedOverAt != nil { // only the terminal answers it
		h.StartPoller()
		return nil
	}
	if err != nil || q.Status != state.Pending || h.isUnattended() && !h.ensurePosted(ctx, q.Path) {
		return err
	}
	return h.awaitAnswer(ctx, e, q)
}

// writeOrJoinQuestion writes a permission or a plan down, or finds the record that
// another registration wrote of the same call, and marks that as seen by this one.
func (h *Hook) writeOrJoinQuestion(ctx context.Context, e *Event, newQuestion *state.Question,
	registration string) (*state.Question, error) {
	// the paths of records that another event of this registration has marked
	var triedPaths []string
	for {
		q, err := h.writeQuestion(
			ctx,
			e,
			h.personalFolders(),
			func(existing []*state.Question) *state.Question {
				for _, q := range slices.Backward(existing) { // the oldest first
					isSameCall := q.InputHash == newQuestion.InputHash &&
						q.AgentID == newQuestion.AgentID &&
						q.PromptID == newQuestion.PromptID &&
						q.ClaudePID == newQuestion.ClaudePID &&
						newQuestion.AskedAt.Sub(q.AskedAt).Abs() < sameCallWindow
					isSeen := len(q.SeenByHooks) == 0 ||
						slices.Contains(q.SeenByHooks, registration)
					if isSameCall && !isSeen && !slices.Contains(triedPaths, q.Path) {
						return q
					}
				}
				return newQuestion
			},
			newQuestion.InputHash,
		)
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

var errAlreadySeen = errors.New("an event of this registration has the record")

// isUnattended says that no dialog stands in a terminal: the session is that of "claude
// -p", or of a program that runs Claude Code. 2.1.330 says so itself.
func (h *Hook) isUnattended() bool {
	if attended := h.Env("CLAUDE_CODE_SESSION_ATTENDED"); attended != "" {
		return attended == "0"
	}
	return h.Env("CLAUDE_CODE_ENTRYPOINT") == "sdk-cli"
}

// postTimeout is how long an unattended session waits until its permission is in the
// thread.
const postTimeout = 5 * time.Second

// ensurePosted says whether a permission of an unattended session is in its thread, or
// over, soon. Else it is closed, and Claude Code goes on as without this hook: it must
// not wait for a person who is not asked.
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

// completePermission completes the record of a permission or a plan: what is shown of it,
// and by the person's own configuration who may decide it. What cannot be shown whole is
// allowed in the terminal alone.
func (h *Hook) completePermission(q *state.Question, e *Event, personal *config.Config) {
	q.ToolName, q.AgentType = e.ToolName, string(e.AgentType)
	if e.AgentID != "" {
		meta := readAgentMeta(e)
		q.AgentTask, q.IsDialogHidden = meta.Description, !h.isUnattended() &&
			!isInForeground(e, meta)
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
		q.About, q.ShownText, q.CallTexts, isComplete = preview.about, preview.text, preview.ruleTexts, preview.isComplete
	}
	access := personal.AccessTo(q.Kind, e.ToolName, q.CallTexts...)
	if q.Kind == state.KindPlan {
		q.ShownText, isComplete = readPlan(e.ToolInput, string(e.TranscriptPath), false)
		q.InputHash = planHash(q.ShownText)
		subQuestion = state.SubQuestion{Header: "Plan", Question: "Claude has a plan."}
		if labels = []string{state.LabelApprove, state.LabelSendBack}; !hasNeverRemote {
			labels = append(labels, state.LabelApproveAuto)
		}
	} else {
		about := q.About
		if about == "" {
			about = shortenToLine(q.ShownText, maxTextBytes)
		}
		if access.CanShow {
			subQuestion.Question = "Claude wants to use " + e.ToolName + ": " + about
		}
		if len(e.PermissionSuggestions) > 0 && !config.AllowsOnlyManagedRules(h.Env) {
			localPlace := localRulesPlace(q.ProjectDir, inject.ClaudeVersion(string(e.TranscriptPath), q.ClaudePID))
			q.AlwaysAllows = alwaysRulesText(e.PermissionSuggestions, hasNeverRemote, personal.HasNeverRemote, localPlace)
		}
		if q.AlwaysAllows != "" {
			labels = append(labels, state.LabelAlways)
		}
	}
	// What cannot be read now is held against it when it is decided.
	q.IsTerminalOnly = !isComplete || !personal.HasUnreadFile && !access.CanAllow
	if !access.CanShow {
		q.ReduceToTitle()
	}
	if q.IsTerminalOnly {
		labels = slices.DeleteFunc(
			labels,
			func(label string) bool { return !state.IsRefusal(label) },
		)
	}
	for _, label := range labels {
		subQuestion.Options = append(subQuestion.Options, state.Option{Label: label})
	}
	subQuestion.OptionCount = len(subQuestion.Options)
	q.SubQuestions = []state.SubQuestion{subQuestion}
}

// refusalText is what Claude is told of a refusal: the person's words, as they were
// typed, else that there were none.
func refusalText(q *state.Question) string {
	label, reason := q.Decision()
	switch label {
	case state.LabelDeny:
		return cmp.Or(reason, "The user denied this "+q.AnsweredWhere()+".")
	case state.LabelSendBack:
		return cmp.Or(
			reason,
			"The user sent the plan back "+q.AnsweredWhere()+" without saying why. Ask what to change.",
		)
	}
	return ""
}

// decisionOutput is what Claude Code takes for a decision; nil where nothing is known.
func decisionOutput(
	e *Event,
	q *state.Question,
) (members map[string]any, auditDetail any, err error) {
	decision := hookDecision(e, q)
	if decision == nil {
		return nil, nil, nil
	}
	return map[string]any{"decision": decision}, decision, nil
}

// hookDecision is what the hook prints for what was decided; nil for nothing that is
// known. 2.1.329 ignores an allow of a plan that does not give the input back.
func hookDecision(e *Event, q *state.Question) map[string]any {
	allow := map[string]any{"behavior": "allow"}
	switch label, _ := q.Decision(); label {
	case state.LabelAllow, state.LabelAlways:
		if previewCall(e.ToolName, e.ToolInput, e.CWD, q.ProjectDir).about != q.About {
			return nil // its file leads elsewhere since it was shown, which 2.1.197 does not see
		}
		if label == state.LabelAlways {
			allow["updatedPermissions"] = e.PermissionSuggestions
		}
	case state.LabelApprove, state.LabelApproveAuto:
		if plan, _ := readPlan(e.ToolInput, string(e.TranscriptPath), true); planHash(
			plan,
		) != q.InputHash {
			return nil // its file was written since it was shown
		}
		allow["updatedInput"] = e.ToolInput
		if label == state.LabelApproveAuto {
			acceptEdits := map[string]string{
				"type":        "setMode",
				"mode":        "acceptEdits",
				"destination": "session",
			}
			allow["updatedPermissions"] = []map[string]string{acceptEdits}
		}
	case state.LabelDeny, state.LabelSendBack:
		return map[string]any{"behavior": "deny", "message": refusalText(q)}
	default:
		return nil
	}
	return allow
}

// auditDecision writes a decision down before Claude is told of it.
func (h *Hook) auditDecision(q *state.Question, detail string) error {
	h.log.AddSecrets(h.config().Secrets(h.Env)...)
	return state.AppendDecision(h.Env, h.log, q.DecisionLine(detail))
}

type batchToolCall struct {
	Name  string          `json:"tool_name"`
	ID    string          `json:"tool_use_id"`
	Input json.RawMessage `json:"tool_input"`
}

// confirmBatch closes the permissions and plans whose calls Claude has the results of:
// each call closes one, and of equal ones first that which was decided, then the oldest.
// An agent's may be of another session: it goes on after /clear.
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
	notice, printedRank := "", map[bool]int{true: 0, false: 1}
	confirm := func(q *state.Question, result callResult) {
		h.retryWriteOrLog(writeTimeout, func() error { return h.confirmDecision(q, result) })
		if q.Grant != nil && q.IsPrinted {
			notice = "Allowed by " + state.OneLine(
				q.DescribeGrant(),
			) + " (" + state.ChatName(
				q.Chat,
			) + ")"
		}
	}
	slices.SortStableFunc(
		openQuestions,
		func(a, b *state.Question) int { return printedRank[a.IsPrinted] - printedRank[b.IsPrinted] },
	)
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
	if notice != "" { // here, since 2.1.197 and 2.1.330 show no message of a PermissionRequest hook
		h.logFailed(h.Print(map[string]any{"systemMessage": notice}), "notice not shown")
	}
}

// mayFollowClear reports whether an event's session may be the one that follows another,
// after /clear. Its first prompt writes that down.
func (h *Hook) mayFollowClear(e *Event) bool {
	session, err := state.SessionsIn(state.UserStateDir(h.Env)).Get(e.SessionID)
	return err != nil || session.PreviousSession != ""
}

// confirmDecision closes a permission or a plan with what Claude was told: where that is
// not what was printed, the terminal was faster. What a tool says itself is no proof of
// that. A call that was allowed once and ran was allowed by that, also where a full disk
// took the word that it was printed.
func (h *Hook) confirmDecision(q *state.Question, result callResult) error {
	isClosedNow, err := state.CloseQuestion(
		q.Path,
		state.Resolved,
		"chat",
		func(q *state.Question) {
			label, _ := q.Decision()
			isConsistent := result == resultUnknown || result == resultFailed ||
				result == resultUnseen ||
				(result == resultRefused) == state.IsRefusal(label)
			if q.IsPrinted && isConsistent ||
				result == resultRan && label == q.Kind.Traits().AllowedLabel {
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
		},
	)
	if isClosedNow {
		h.StartPoller()
	}
	return err
}

// planHash tells plans apart: 2.1.329 leaves the input of their calls empty in some
// events.
func planHash(planText string) string { return callHash(planTool+"\x00"+planText, nil) }
