package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"html"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// noticeFormat is how a notification is reported.
type noticeFormat struct {
	ruleKind   string // its name in rules; "" stands for the notification's type
	reportType state.ReportType
	prefix     string // in place of the report type's own; "" for that
}

// dialogTypes are the notification types about a dialog in the terminal. The value is
// true for a permission's dialog.
var dialogTypes = map[string]bool{
	"permission_prompt":        true,
	"worker_permission_prompt": true, // of a teammate, shown in its leader's terminal (2.1.332)
	"agent_needs_input":        false,
	"elicitation_dialog":       false, // an MCP server's form
	"elicitation_url_dialog":   false,
}

// noticeFormats are the formats by notification type. A type that is not in it is
// suppressed unless a rule names it. That is above all for idle and idle_prompt: sessions
// are idle after every turn.
var noticeFormats = map[string]noticeFormat{
	"subagent_complete":        {"subagent_done", state.ReportProgressUpdate, "[Subagent Done]"},
	"background_task_complete": {"task_done", state.ReportProgressUpdate, "[Task Done]"},
	// for a background session, from 2.1.198 on
	"agent_completed": {"task_done", state.ReportProgressUpdate, "[Task Done]"},
	"error":           {"", state.ReportFailure, "[Error]"},

	// These types exist in 2.1.332. The first three are about a usage limit: whether it
	// is over, and whether the session goes on by itself.
	"quota_auto_resume_fired":    {"", state.ReportProgressUpdate, "[Notification]"},
	"quota_auto_resume_stale":    {"", state.ReportPlain, "[Notification]"},
	"quota_auto_resume_disabled": {"", state.ReportPlain, "[Notification]"},
	"model_refusal_fallback":     {"", state.ReportPlain, "[Notification]"},
	"auth_storage_failure":       {"", state.ReportFailure, "[Error]"},
	// Claude's own message to its person.
	"push_notification":   {"", state.ReportPlain, "[Notification]"},
	"plugin_notification": {"", state.ReportPlain, "[Notification]"},
}

// notice is a notification in our form. Scripts that are older than notification_type
// send it with these members.
type notice struct {
	Type      LooseText `json:"type"` // Claude Code's notification type
	Title     LooseText `json:"title"`
	Body      LooseText `json:"body"`
	AgentName LooseText `json:"agent_name"`

	TaskID string `json:"-"` // the id of a task that has ended; "" if it is not known
	// the usage limit that stopped the session; nil for none
	Limit *inject.UsageLimit `json:"-"`
}

// readNotice returns the notification that an event is about. Its Type is "" if the event
// is about none.
func readNotice(e *Event) (n notice) {
	lastText := shorten(string(e.LastAssistantMessage), maxTextBytes, maxTextLines)
	switch e.HookEventName {
	case "Notification":
		if e.NotificationType != "" {
			return notice{Type: e.NotificationType, Title: e.Title, Body: e.Message}
		}
		// A notification that is missing or has an unknown form has no type.
		_ = json.Unmarshal(e.OldNotification, &n)
	case "UserPromptSubmit":
		return readTaskEnd(string(e.Prompt))
	case "SubagentStop":
		if e.PermissionMode == "auto" {
			report, hasHandbackTool := readHandback(e)
			if hasHandbackTool && report == "" && (lastText == "" || !e.IsStopHookActive()) {
				return notice{} // Claude Code sends the agent back for its report
			}
			lastText = cmp.Or(shorten(report, maxTextBytes, maxTextLines), lastText)
		}
		if e.AgentType != "" || lastText != "" { // otherwise it is a helper of Claude Code's own
			return notice{
				Type:      "subagent_complete",
				Title:     "Subagent completed task",
				AgentName: e.AgentType,
				Body:      LooseText(lastText),
			}
		}
	case "StopFailure":
		if limit, ok := inject.ReadUsageLimit(string(e.LastAssistantMessage), time.Now()); ok {
			return notice{Type: "error", Limit: &limit}
		}
		what := cmp.Or(shorten(string(e.ErrorDetails), maxTextBytes, maxTextLines), lastText)
		return notice{
			Type: "error",
			Body: LooseText(strings.Join(nonEmpty(string(e.Error), what), ": ")),
		}
	}
	return n
}

// readTaskEnd reads the prompt by which Claude Code tells Claude that a background task
// has ended. It comes at once on 2.1.332, and only at the beginning of a turn on 2.1.197.
// An agent's end is reported by SubagentStop instead. Without a status, the task goes on,
// or a hook wakes the session.
func readTaskEnd(prompt string) notice {
	if !strings.HasPrefix(prompt, "<task-notification>") {
		return notice{}
	}
	element := func(name string) string {
		_, after, _ := strings.Cut(prompt, "<"+name+">")
		text, _, _ := strings.Cut(after, "</"+name+">")
		return html.UnescapeString(text)
	}
	summary := shorten(element("summary"), maxTextBytes, maxTextLines)
	if element("status") == "" || strings.HasPrefix(summary, `Agent "`) {
		return notice{}
	}
	return notice{
		Type:   "background_task_complete",
		Title:  LooseText(summary),
		TaskID: element("task-id"),
	}
}

// runNotification is gchat-notification-dispatch: it reports notifications in the
// session's thread. It prints nothing. A suppressed notification costs no more than
// reading the configuration.
func (h *Hook) runNotification(_ context.Context, e *Event) error {
	n := readNotice(e)
	if n.Type == "" {
		return nil
	}
	if isPermission, isDialog := dialogTypes[string(n.Type)]; isDialog {
		return h.notifyDialog(e,
			state.NewDialog(isPermission, cmp.Or(string(n.Body), string(n.Title))))
	}
	if n.Limit != nil {
		h.recordUsageLimit(e, n.Limit)
	}
	cfg := h.config()
	format, isReported := noticeFormats[string(n.Type)]
	if !isReported {
		format = noticeFormat{string(n.Type), state.ReportPlain, "[Notification]"}
		isReported = cfg.ReportRule(format.ruleKind) != ""
	}
	if !isReported || !cfg.CanSend() ||
		cfg.ReportRule(format.ruleKind, string(format.reportType)) == config.ReportOff {
		return nil
	}
	about, text := noticeTexts(n, format)
	if n.Limit != nil {
		about, text = "A usage limit stopped Claude.", h.limitText(e, n.Limit)
	}
	message := &state.Message{Report: &state.Report{
		Type:        format.reportType,
		RuleKind:    format.ruleKind,
		Prefix:      format.prefix,
		SessionName: h.Env("CLAUDE_SESSION_ID"),
		About:       about,
		Text:        text,
	}}
	if n.TaskID != "" { // so that another task with the same text is reported, too
		message.Key = state.MessageID("task", e.SessionID, n.TaskID)
	}
	return h.enqueueMessage(e, message, config.ReportOn)
}

// limitLineTimeout is how long a hook waits for the line of the transcript in which
// Claude Code says that it continues by itself. 2.1.332 writes that line within 0.1 s
// after it started the hooks.
const limitLineTimeout = 500 * time.Millisecond

// recordUsageLimit records until when nothing may be typed into a session.
func (h *Hook) recordUsageLimit(e *Event, limit *inject.UsageLimit) {
	if e.SessionID == "" || limit.EndsAt.IsZero() {
		return
	}
	h.ensureSession(e)
	_, err := h.sessions().Change(e.SessionID, func(s *state.Session) {
		s.UsageLimitUntil = limit.EndsAt
	})
	h.logFailed(err, "usage limit not recorded")
}

// limitText says until when a usage limit lasts, and what happens then.
func (h *Hook) limitText(e *Event, limit *inject.UsageLimit) string {
	text := "You have hit your " + markdownLine(limit.Name) +
		". It ends at " + markdownLine(limit.Ends) + "."
	continues := false
	for end := time.Now().Add(limitLineTimeout); !continues && time.Now().Before(end); {
		continues = inject.ContinuesByItself(string(e.TranscriptPath))
		if !continues {
			time.Sleep(limitLineTimeout / 10)
		}
	}
	session := h.ensureSession(e)
	canType := session.AcceptsCommands && session.TmuxPane != ""
	switch {
	case continues:
		text += " Claude Code then continues automatically."
	case canType:
		text += " To go on after that, write for example `continue` here."
	default:
		text += " After that, go on in the terminal."
	}
	if canType {
		text += " What you write earlier is kept, and typed then."
	}
	return text
}

// notifyDialog records a dialog in the terminal that no question of ours asks, and
// reports it in the session's thread. The session then counts as waiting. The hook of
// another registration reports nothing more. The poller sees when the dialog is over.
func (h *Hook) notifyDialog(e *Event, dialog *state.Dialog) error {
	rule := h.config().ReportRule(string(state.KindPermission), string(state.ReportPlain))
	if !h.config().CanSend() || rule == config.ReportOff {
		return nil
	}
	if slices.ContainsFunc(h.openQuestions(e), (*state.Question).MayExplainDialog) {
		return nil // the question's own message says it better
	}
	session := h.ensureSession(e)
	if drawn, _ := inject.DialogOf(session); drawn != nil {
		dialog.WaitsSince = drawn.WaitsSince
	}
	isRepeated := false
	_, err := h.sessions().Change(e.SessionID, func(s *state.Session) {
		isRepeated = s.Dialog.IsSame(dialog) && !s.Dialog.IsOver
		if !isRepeated {
			s.Dialog = dialog
		}
	})
	h.StartPoller() // it reports the dialog if a hook was killed before it did
	if isRepeated || err != nil {
		return err
	}
	return enqueueDialogReport(h.Env, h.config(), session, dialog)
}

// EnqueueDialogReport reports in a session's thread what waits in its terminal. The
// poller calls it for a dialog that no hook reported.
func EnqueueDialogReport(env state.Getenv, session *state.Session) error {
	return enqueueDialogReport(env, loadProjectConfig(env, session), session, session.Dialog)
}

// loadProjectConfig returns the configuration of a session's project.
func loadProjectConfig(env state.Getenv, session *state.Session) *config.Config {
	projectEnv := state.ProjectEnv(env, session.ProjectDir, session.IsTrusted)
	return config.Load(projectEnv, session.ProjectDir)
}

func enqueueDialogReport(
	env state.Getenv, cfg *config.Config, session *state.Session, dialog *state.Dialog,
) error {
	message := &state.Message{
		Report: &state.Report{
			Type:        state.ReportPlain,
			RuleKind:    string(state.KindPermission),
			Prefix:      "[Permission]",
			SessionName: session.Name,
			About:       dialog.Text,
			Text:        pendingCallsText(session.TranscriptPath),
		},
		SessionID:  session.ID,
		ProjectDir: session.ProjectDir,
		IsTrusted:  session.IsTrusted,
		Key:        dialog.MessageKey(session.ID),
	}
	result, err := config.EnqueueReport(env, cfg, message, "")
	if err != nil || result.IsOff {
		return err
	}
	_, err = state.SessionsIn(state.UserStateDir(env)).Change(session.ID, func(s *state.Session) {
		if s.Dialog.IsSame(dialog) {
			s.Dialog.IsNoteEnqueued = true
		}
	})
	return err
}

// enqueueMessage enqueues a report about this event's session; see config.EnqueueReport.
func (h *Hook) enqueueMessage(
	e *Event, message *state.Message, defaultRule config.ReportRule,
) error {
	if message.Report.SessionName == "" && e.SessionID != "" {
		message.Report.SessionName = h.ensureSession(e).Name
	}
	message.SessionID, message.ProjectDir = e.SessionID, state.ProjectDir(h.Env)
	result, err := config.EnqueueReport(h.Env, h.config(), message, defaultRule)
	if err == nil && !result.IsOff {
		h.StartPoller() // even if another hook enqueued it: that one may have been killed
	}
	return err
}

// EnqueueReport enqueues a report about this event's session. The setting reports
// has rules for each kind. It
// returns config.ErrNoWebhook or an error of the disk.
func (h *Hook) EnqueueReport(e *Event, kind string, report state.Report) error {
	report.RuleKind = kind
	return h.enqueueMessage(e, &state.Message{
		Report: &report,
		Key:    uuid.NewString(),
	}, config.ReportOn)
}

// noticeTexts are the texts of a notification below the report's header.
func noticeTexts(n notice, format noticeFormat) (about, text string) {
	title, body := string(n.Title), string(n.Body)
	switch {
	case format.ruleKind == "subagent_done", format.ruleKind == "task_done":
		if n.AgentName != "" {
			return string(n.AgentName) + " completed task", body
		}
		return title, body
	case n.Type == "error":
		return "An error occurred that requires attention.", body
	case strings.Contains(body, "\n"): // the body needs several lines, below the title
	case title == "":
		return body, ""
	}
	return title, body
}

// pendingCallsText lists, in Markdown, the calls that Claude wants to make. The
// notification itself says only that Claude wants something. The calls of a subagent are
// in a transcript of their own and are not listed.
func pendingCallsText(transcript string) string {
	tail, _, _ := inject.TranscriptEnd(transcript, tailBytes)
	var lines []string
	for _, call := range lastPendingCalls(tail) {
		if call.Name == "Agent" || call.Name == "Task" {
			continue
		}
		line := escapeMarkdown(shortenToLine(call.Name, 100))
		if call.Name != questionTool && call.Name != planTool {
			// Questions and plans have kinds of their own, which a policy may keep in the
			// terminal.
			what := state.MaskKeys(previewCall(call.Name, call.Input).ruleTexts[0])
			line += ":" + markdownCode(shorten(what, maxTextBytes, 2*maxTextLines))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
