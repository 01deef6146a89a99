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

// doubled is how far apart the events of one call are that two registrations of ours get.
const doubled = time.Minute

// permission is the hook beside the dialog of a permission or a plan: it waits for the decision in the thread, and prints it. The
// dialog stays usable meanwhile, and the first decision wins. They are decided in the person's own space: a project's webhook
// gets none.
//
// The record serves this call alone: equal input is another call. Only where another registration of ours (settings and plugin)
// wrote the event down, it is the same call: that one's hook waits, unless it was killed.
func (h *Hook) permission(ctx context.Context, e *Event) error {
	own, kind := config.Personal(h.Env), kindOf(e)
	own.ReadPolicy = h.ReadPolicy
	if !own.Sends() || h.keeps(ctx, own, kind) {
		return nil
	}
	h.asked.listens = !h.unattended()
	fresh, err := h.question(e, state.Native)
	if err != nil {
		return err
	}
	fresh.Kind, fresh.Grace = kind, h.config().Grace
	fresh.Approvers, fresh.NeverRemote = new(append([]string{}, own.Approvers...)), own.NeverRemote
	rowOf(kind).describe(h, fresh, e, own)
	if h.unattended() {
		fresh.Grace = 0
		if fresh.HandedOver != nil { // it has no terminal
			return nil
		}
	}
	registration := h.Env("CLAUDE_PLUGIN_ROOT") + "\x00" + strings.Join(h.Args, "\x00")
	fresh.SeenBy = []string{registration}
	q, err := h.recordCall(ctx, e, fresh, registration)
	if err == nil && q.HandedOver != nil { // only the terminal answers it
		h.StartPoller()
		return nil
	}
	if err != nil || q.Status != state.Pending || h.unattended() && !h.posted(ctx, q.Path) {
		return err
	}
	return h.wait(ctx, e, q)
}

// recordCall writes a permission or a plan down, or finds the record that another registration
// wrote of the same call, and marks that as seen by this one.
func (h *Hook) recordCall(ctx context.Context, e *Event, fresh *state.Question,
	registration string) (*state.Question, error) {
	var lost []string // the paths of records that another event of this registration has marked
	for {
		q, err := h.record(ctx, e, h.own(), func(have []*state.Question) *state.Question {
			for _, q := range slices.Backward(have) { // the oldest first
				same := q.InputHash == fresh.InputHash && q.AgentID == fresh.AgentID &&
					q.PromptID == fresh.PromptID && q.ClaudePID == fresh.ClaudePID &&
					fresh.AskedAt.Sub(q.AskedAt).Abs() < doubled
				seen := len(q.SeenBy) == 0 || slices.Contains(q.SeenBy, registration)
				if same && !seen && !slices.Contains(lost, q.Path) {
					return q
				}
			}
			return fresh
		}, fresh.InputHash)
		if err != nil || q == fresh {
			return q, err
		}
		seen, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			if slices.Contains(q.SeenBy, registration) {
				return errSeen
			}
			q.SeenBy = append(q.SeenBy, registration)
			return nil
		})
		if err == nil {
			return seen, nil
		}
		lost = append(lost, q.Path)
	}
}

var errSeen = errors.New("an event of this registration has the record")

// unattended says that no dialog stands in a terminal: the session is that of "claude -p", or of a program that runs Claude Code.
// 2.1.330 says so itself.
func (h *Hook) unattended() bool {
	if attended := h.Env("CLAUDE_CODE_SESSION_ATTENDED"); attended != "" {
		return attended == "0"
	}
	return h.Env("CLAUDE_CODE_ENTRYPOINT") == "sdk-cli"
}

// postBound is how long an unattended session waits until its permission is in the thread.
const postBound = 5 * time.Second

// posted says whether a permission of an unattended session is in its thread, or over, soon. Else it is closed, and Claude Code
// goes on as without this hook: it must not wait for a person who is not asked.
func (h *Hook) posted(ctx context.Context, path string) bool {
	soon, cancel := context.WithTimeout(ctx, postBound)
	defer cancel()
	_, err := state.Await(soon, h.Env, h.Self, path, func(q *state.Question) bool {
		return q.MessageSent || q.Status != state.Pending
	})
	if err != nil {
		h.isUnasked(err)
		h.close(path, state.Cancelled, "unposted")
	}
	return err == nil
}

// describe completes the record of a permission or a plan: what is shown of it, and by the person's own configuration who may
// decide it. What cannot be shown whole is allowed in the terminal alone.
func (h *Hook) describe(q *state.Question, e *Event, own *config.Config) {
	q.Tool, q.AgentType = e.ToolName, string(e.AgentType)
	if e.AgentID != "" {
		meta := metaOf(e)
		q.AgentTask, q.Hidden = meta.Task, !h.unattended() && !inForeground(e, meta)
	}
	guarded := len(own.NeverRemote) > 0
	whole := false
	prompt := state.Prompt{Header: "Permission", Question: "Claude wants to use " + e.ToolName + "."}
	labels := []string{state.LabelAllow, state.LabelDeny}
	if q.Kind == state.AskedPermission {
		c := permissionShown(e.ToolName, e.ToolInput, e.CWD, q.ProjectDir)
		q.About, q.Shown, q.Call, whole = c.about, c.shown, c.call, c.whole
	}
	terms := own.Terms(q.Kind, e.ToolName, q.Call...)
	if q.Kind == state.AskedPlan {
		q.Shown, whole = planShown(e.ToolInput, string(e.Transcript), false)
		q.InputHash = planHash(q.Shown)
		prompt = state.Prompt{Header: "Plan", Question: "Claude has a plan."}
		if labels = []string{state.LabelApprove, state.LabelSendBack}; !guarded {
			labels = append(labels, state.LabelApproveAuto)
		}
	} else {
		about := q.About
		if about == "" {
			about = flat(q.Shown, shownBytes)
		}
		if terms.Shown {
			prompt.Question = "Claude wants to use " + e.ToolName + ": " + about
		}
		if len(e.Suggestions) > 0 && !config.OnlyManagedRules(h.Env) {
			local := localRules(q.ProjectDir, inject.Version(string(e.Transcript), q.ClaudePID))
			q.AlwaysAllows = alwaysAllows(e.Suggestions, guarded, own.NeverNames, local)
		}
		if q.AlwaysAllows != "" {
			labels = append(labels, state.LabelAlways)
		}
	}
	// What cannot be read now is held against it when it is decided.
	q.TerminalOnly = !whole || !own.Unread && !terms.Allowed
	if !terms.Shown {
		q.TitleOnly()
	}
	if q.TerminalOnly {
		labels = slices.DeleteFunc(labels, func(label string) bool { return !state.Refuses(label) })
	}
	for _, label := range labels {
		prompt.Options = append(prompt.Options, state.Option{Label: label})
	}
	prompt.OptionCount = len(prompt.Options)
	q.Questions = []state.Prompt{prompt}
}

// refusalOf is what Claude is told of a refusal: the person's words, as they were typed, else that there were none.
func refusalOf(q *state.Question) string {
	label, words := q.Decision()
	switch label {
	case state.LabelDeny:
		return cmp.Or(words, "The user denied this "+q.AnsweredFrom()+".")
	case state.LabelSendBack:
		return cmp.Or(words, "The user sent the plan back "+q.AnsweredFrom()+" without saying why. Ask what to change.")
	}
	return ""
}

// answerDecision is what Claude Code takes for a decision; nil where nothing is known.
func answerDecision(e *Event, q *state.Question) (members map[string]any, told any, err error) {
	d := decision(e, q)
	if d == nil {
		return nil, nil, nil
	}
	return map[string]any{"decision": d}, d, nil
}

// decision is what the hook prints for what was decided; nil for nothing that is known. 2.1.329 ignores an allow of a plan that
// does not give the input back.
func decision(e *Event, q *state.Question) map[string]any {
	allow := map[string]any{"behavior": "allow"}
	switch label, _ := q.Decision(); label {
	case state.LabelAllow, state.LabelAlways:
		if permissionShown(e.ToolName, e.ToolInput, e.CWD, q.ProjectDir).about != q.About {
			return nil // its file leads elsewhere since it was shown, which 2.1.197 does not see
		}
		if label == state.LabelAlways {
			allow["updatedPermissions"] = e.Suggestions
		}
	case state.LabelApprove, state.LabelApproveAuto:
		if plan, _ := planShown(e.ToolInput, string(e.Transcript), true); planHash(plan) != q.InputHash {
			return nil // its file was written since it was shown
		}
		allow["updatedInput"] = e.ToolInput
		if label == state.LabelApproveAuto {
			edits := map[string]string{"type": "setMode", "mode": "acceptEdits", "destination": "session"}
			allow["updatedPermissions"] = []map[string]string{edits}
		}
	case state.LabelDeny, state.LabelSendBack:
		return map[string]any{"behavior": "deny", "message": refusalOf(q)}
	default:
		return nil
	}
	return allow
}

// audit writes a decision down before Claude is told of it.
func (h *Hook) audit(q *state.Question, told string) error {
	h.log.Hide(h.config().Secrets(h.Env)...)
	return state.Audit(h.Env, h.log, q.Decided(told))
}

type batchCall struct {
	Name  string          `json:"tool_name"`
	ID    string          `json:"tool_use_id"`
	Input json.RawMessage `json:"tool_input"`
}

// confirmBatch closes the permissions and plans whose calls Claude has the results of: each call closes one, and of equal ones
// first that which was decided, then the oldest. An agent's may be of another session: it goes on after /clear.
func (h *Hook) confirmBatch(e *Event, resultOf func(*Event, string) callResult) {
	open := h.ofSession(e, h.own(), state.TextsOpen...)
	h.endForms(e, open)
	if e.AgentID != "" && h.wasCleared(e) {
		open, _ = state.OpenQuestions(h.Env, string(e.AgentID))
	}
	open = slices.DeleteFunc(open, func(q *state.Question) bool {
		return !q.Kind.Row().Decides || !q.Status.Open() || q.AgentID != string(e.AgentID)
	})
	if len(open) == 0 {
		return
	}
	slices.Reverse(open)
	said, rank := "", map[bool]int{true: 0, false: 1}
	confirm := func(q *state.Question, r callResult) {
		h.tryAgain(writeBound, func() error { return h.confirmDecision(q, r) })
		if q.Grant != nil && q.Printed {
			said = "Allowed by " + state.OneLine(q.GrantedBy()) + " (" + state.ChatName(q.Chat) + ")"
		}
	}
	slices.SortStableFunc(open, func(a, b *state.Question) int { return rank[a.Printed] - rank[b.Printed] })
	for _, call := range e.Calls {
		hash := callHash(call.Name, call.Input)
		i := slices.IndexFunc(open, func(q *state.Question) bool {
			return q.Tool == call.Name && (q.InputHash == hash || q.Tool == planTool)
		})
		if i >= 0 {
			confirm(open[i], resultOf(e, call.ID))
			open = slices.Delete(open, i, i+1)
		}
	}
	for _, q := range open {
		if r := endedAs(e, q); r != unknown {
			confirm(q, r)
		}
	}
	if said != "" { // here, since 2.1.197 and 2.1.330 show no message of a PermissionRequest hook
		h.logFailed(h.Print(map[string]any{"systemMessage": said}), "notice not shown")
	}
}

// wasCleared reports whether an event's session may be the one that follows another, after
// /clear. Its first prompt writes that down.
func (h *Hook) wasCleared(e *Event) bool {
	one, err := state.SessionsIn(state.UserState(h.Env)).Of(e.SessionID)
	return err != nil || one.Before != ""
}

// confirmDecision closes a permission or a plan with what Claude was told: where that is not what was printed, the terminal was
// faster. What a tool says itself is no proof of that. A call that was allowed once and ran was allowed by that, also where a
// full disk took the word that it was printed.
func (h *Hook) confirmDecision(q *state.Question, r callResult) error {
	ended, err := state.CloseQuestion(q.Path, state.Resolved, "chat", func(q *state.Question) {
		label, _ := q.Decision()
		fits := r == unknown || r == failed || r == unseen || (r == refused) == state.Refuses(label)
		if q.Printed && fits || r == ran && label == q.Kind.Row().Ran {
			if r == unseen && state.Refuses(label) {
				q.ResolvedBy = state.Unconfirmed
			}
			return
		}
		q.ResolvedBy, q.Answers, q.Notes = "terminal", map[string]string{}, nil
		labels := map[callResult]string{ran: q.Kind.Row().Ran, refused: q.Kind.Row().Refused}
		if label := labels[r]; label != "" {
			q.Answers[q.Questions[0].Question] = label
		}
	})
	if ended {
		h.StartPoller()
	}
	return err
}

// planHash tells plans apart: 2.1.329 leaves the input of their calls empty in some events.
func planHash(shown string) string { return callHash(planTool+"\x00"+shown, nil) }
