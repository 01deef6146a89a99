package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"html"
	"slices"
	"strings"

	"github.com/google/uuid"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

type noticeFormat struct {
	ruleKind   string // as rules name it; "" is the type
	reportType state.ReportType
	prefix     string // in place of the type's; "" for the type's
}

// dialogTypes are the notification types that tell of a dialog in the terminal; true are
// those of a permission.
var dialogTypes = map[string]bool{
	"permission_prompt":        true,
	"worker_permission_prompt": true, // a teammate's, which its leader's terminal asks (2.1.332)
	"agent_needs_input":        false,
	"elicitation_dialog":       false, // an MCP server's form
	"elicitation_url_dialog":   false,
}

// noticeFormats are those of notification types. What is not here is suppressed, where
// reports do not name it: idle and idle_prompt above all, since sessions are idle after
// every turn.
var noticeFormats = map[string]noticeFormat{
	"subagent_complete":        {"subagent_done", state.ReportProgressUpdate, "[Subagent Done]"},
	"background_task_complete": {"task_done", state.ReportProgressUpdate, "[Task Done]"},
	// a background session, from 2.1.198 on
	"agent_completed": {"task_done", state.ReportProgressUpdate, "[Task Done]"},
	"error":           {"", state.ReportFailure, "[Error]"},

	// Of 2.1.332. A usage limit is over, or is not: the session goes on by itself, or it
	// does not.
	"quota_auto_resume_fired":    {"", state.ReportProgressUpdate, "[Notification]"},
	"quota_auto_resume_stale":    {"", state.ReportPlain, "[Notification]"},
	"quota_auto_resume_disabled": {"", state.ReportPlain, "[Notification]"},
	"model_refusal_fallback":     {"", state.ReportPlain, "[Notification]"},
	"auth_storage_failure":       {"", state.ReportFailure, "[Error]"},
	// Claude's own words for its person
	"push_notification":   {"", state.ReportPlain, "[Notification]"},
	"plugin_notification": {"", state.ReportPlain, "[Notification]"},
}

// notice is a notification in our words. Scripts that were written before
// notification_type send it with these members.
type notice struct {
	Type      LooseText `json:"type"` // Claude Code's notification type
	Title     LooseText `json:"title"`
	Body      LooseText `json:"body"`
	AgentName LooseText `json:"agent_name"`

	TaskID string `json:"-"` // the id of a task that has ended; "" where none is told
}

// readNotice reads the events that something is told by; Type is "" when this one tells
// nothing.
func readNotice(e *Event) (n notice) {
	lastText := shorten(string(e.LastAssistantMessage), maxTextBytes, maxTextLines)
	switch e.HookEventName {
	case "Notification":
		if e.NotificationType != "" {
			return notice{Type: e.NotificationType, Title: e.Title, Body: e.Message}
		}
		// what is absent, or in an unknown form, has no type
		_ = json.Unmarshal(e.OldNotification, &n)
	case "UserPromptSubmit":
		return readTaskEnd(string(e.Prompt))
	case "SubagentStop":
		if e.PermissionMode == "auto" {
			report, hasHandbackTool := readHandback(e)
			if hasHandbackTool && report == "" && (lastText == "" || !e.IsStopHookActive()) {
				return notice{} // Claude Code sends it back for its report
			}
			lastText = cmp.Or(shorten(report, maxTextBytes, maxTextLines), lastText)
		}
		if e.AgentType != "" || lastText != "" { // else a helper of Claude Code's own
			return notice{
				Type:      "subagent_complete",
				Title:     "Subagent completed task",
				AgentName: e.AgentType,
				Body:      LooseText(lastText),
			}
		}
	case "StopFailure":
		what := cmp.Or(shorten(string(e.ErrorDetails), maxTextBytes, maxTextLines), lastText)
		return notice{
			Type: "error",
			Body: LooseText(strings.Join(nonEmpty(string(e.Error), what), ": ")),
		}
	}
	return n
}

// readTaskEnd reads what Claude is told of a background task that has ended: Claude Code
// gives it as a prompt. It does so at once on 2.1.332; on 2.1.197 only where it begins a
// turn. SubagentStop tells of an agent. What has no status goes on, or is a hook that
// wakes the session.
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

// runNotification is gchat-notification-dispatch: what a session has to tell goes to its
// thread. It prints nothing, and a suppressed notification costs no more than reading the
// configuration.
func (h *Hook) runNotification(_ context.Context, e *Event) error {
	n := readNotice(e)
	if n.Type == "" {
		return nil
	}
	if isPermission, isDialog := dialogTypes[string(n.Type)]; isDialog {
		return h.notifyDialog(
			e,
			state.NewDialog(isPermission, cmp.Or(string(n.Body), string(n.Title))),
		)
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
	message := &state.Message{Report: &state.Report{
		Type: format.reportType, RuleKind: format.ruleKind, Prefix: format.prefix, SessionName: h.Env("CLAUDE_SESSION_ID"), About: about, Text: text,
	}}
	if n.TaskID != "" { // another task may end with the same words
		message.Key = state.MessageID("task", e.SessionID, n.TaskID)
	}
	return h.enqueueMessage(e, message, config.ReportOn)
}

// notifyDialog is for what waits in the terminal, and is asked by no record of ours: it
// counts as waiting, and the session's thread is told. Another registration's hook tells
// nothing more. The poller sees when it is over.
func (h *Hook) notifyDialog(e *Event, dialog *state.Dialog) error {
	rule := h.config().ReportRule(string(state.KindPermission), string(state.ReportPlain))
	if !h.config().CanSend() || rule == config.ReportOff {
		return nil
	}
	if slices.ContainsFunc(h.openQuestions(e), (*state.Question).MayExplainDialog) {
		return nil // the question itself says it already, and better
	}
	session := h.ensureSession(e)
	if drawn, _ := inject.DialogOf(session); drawn != nil {
		dialog.WaitsSince = drawn.WaitsSince
	}
	isRepeated := false
	_, err := state.SessionsIn(state.UserStateDir(h.Env)).
		Change(e.SessionID, func(s *state.Session) {
			isRepeated = s.Dialog.IsSame(dialog) && !s.Dialog.IsOver
			if !isRepeated {
				s.Dialog = dialog
			}
		})
	h.StartPoller() // also where a hook was killed before it told: the poller does
	if isRepeated || err != nil {
		return err
	}
	return enqueueDialogReport(h.Env, h.config(), session, dialog)
}

// EnqueueDialogReport tells a session's thread what waits in its terminal. The poller
// calls it for what no hook told of.
func EnqueueDialogReport(env state.Getenv, session *state.Session) error {
	projectConfig := config.Load(
		state.ProjectEnv(env, session.ProjectDir, session.IsTrusted),
		session.ProjectDir,
	)
	return enqueueDialogReport(env, projectConfig, session, session.Dialog)
}

func enqueueDialogReport(
	env state.Getenv,
	cfg *config.Config,
	session *state.Session,
	dialog *state.Dialog,
) error {
	report := &state.Report{
		Type: state.ReportPlain, RuleKind: string(state.KindPermission), Prefix: "[Permission]", SessionName: session.Name,
		About: dialog.Text, Text: pendingCallsText(session.TranscriptPath),
	}
	message := &state.Message{
		Report: report, SessionID: session.ID, ProjectDir: session.ProjectDir, IsTrusted: session.IsTrusted, Key: dialog.MessageKey(session.ID),
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

// enqueueMessage puts a report of this event's session into the outbox; see
// config.EnqueueReport.
func (h *Hook) enqueueMessage(
	e *Event,
	message *state.Message,
	defaultRule config.ReportRule,
) error {
	if message.Report.SessionName == "" && e.SessionID != "" {
		message.Report.SessionName = h.ensureSession(e).Name
	}
	message.SessionID, message.ProjectDir = e.SessionID, state.ProjectDir(h.Env)
	result, err := config.EnqueueReport(h.Env, h.config(), message, defaultRule)
	if err == nil && !result.IsOff {
		h.StartPoller() // also after a repetition: the hook that said it first may have been killed
	}
	return err
}

// EnqueueReport has a report of this event's session sent; rules know it by kind. Errors
// are config.ErrNoWebhook and the disk's.
func (h *Hook) EnqueueReport(e *Event, kind string, report state.Report) error {
	report.RuleKind = kind
	return h.enqueueMessage(
		e,
		&state.Message{Report: &report, Key: uuid.NewString()},
		config.ReportOn,
	)
}

// noticeTexts is what stands below the header.
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
	case strings.Contains(body, "\n"): // no line of its own
	case title == "":
		return body, ""
	}
	return title, body
}

// pendingCallsText tells, in Markdown, what Claude wants to do: the notification itself
// says only that it wants to. What a subagent wants is in a transcript of its own, and
// not told.
func pendingCallsText(transcript string) string {
	tail, _, _ := inject.TranscriptEnd(transcript, tailBytes)
	var lines []string
	for _, call := range lastPendingCalls(tail) {
		if call.Name == "Agent" || call.Name == "Task" {
			continue
		}
		line := escapeMarkdown(shortenToLine(call.Name, 100))
		if call.Name != questionTool && call.Name != planTool {
			// which have kinds of their own, and may be kept in the terminal
			what := state.MaskKeys(previewCall(call.Name, call.Input).ruleTexts[0])
			line += ":" + markdownCode(shorten(what, maxTextBytes, 2*maxTextLines))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
