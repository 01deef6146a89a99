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

type route struct {
	kind   string // as rules name it; "" is the type
	typ    state.ReportType
	prefix string // in place of the type's; "" for the type's
}

// waits are the notification types that tell of a dialog in the terminal; true are those of a permission.
var waits = map[string]bool{
	"permission_prompt":        true,
	"worker_permission_prompt": true, // a teammate's, which its leader's terminal asks (2.1.332)
	"agent_needs_input":        false,
	"elicitation_dialog":       false, // an MCP server's form
	"elicitation_url_dialog":   false,
}

// routes are those of notification types. What is not here is suppressed, where reports do not name it: idle and idle_prompt
// above all, since sessions are idle after every turn.
var routes = map[string]route{
	"subagent_complete":        {"subagent_done", state.ProgressUpdate, "[Subagent Done]"},
	"background_task_complete": {"task_done", state.ProgressUpdate, "[Task Done]"},
	"agent_completed":          {"task_done", state.ProgressUpdate, "[Task Done]"}, // a background session, from 2.1.198 on
	"error":                    {"", state.Failure, "[Error]"},

	// Of 2.1.332. A usage limit is over, or is not: the session goes on by itself, or it does not.
	"quota_auto_resume_fired":    {"", state.ProgressUpdate, "[Notification]"},
	"quota_auto_resume_stale":    {"", state.Plain, "[Notification]"},
	"quota_auto_resume_disabled": {"", state.Plain, "[Notification]"},
	"model_refusal_fallback":     {"", state.Plain, "[Notification]"},
	"auth_storage_failure":       {"", state.Failure, "[Error]"},
	"push_notification":          {"", state.Plain, "[Notification]"}, // Claude's own words for its person
	"plugin_notification":        {"", state.Plain, "[Notification]"},
}

// notice is a notification in our words. Scripts that were written before notification_type send it with these members.
type notice struct {
	Type  Words `json:"type"` // Claude Code's notification type
	Title Words `json:"title"`
	Body  Words `json:"body"`
	Agent Words `json:"agent_name"`

	Task string `json:"-"` // the id of a task that has ended; "" where none is told
}

// readNotice reads the events that something is told by; Type is "" when this one tells nothing.
func readNotice(e *Event) (n notice) {
	last := shorten(string(e.LastWords), shownBytes, shownLines)
	switch e.HookEventName {
	case "Notification":
		if e.Notification != "" {
			return notice{Type: e.Notification, Title: e.Title, Body: e.Message}
		}
		_ = json.Unmarshal(e.Old, &n) // what is absent, or in an unknown form, has no type
	case "UserPromptSubmit":
		return readTaskEnd(string(e.Prompt))
	case "SubagentStop":
		if e.Mode == "auto" {
			report, handsBack := handedBack(e)
			if handsBack && report == "" && (last == "" || !e.SentBack()) {
				return notice{} // Claude Code sends it back for its report
			}
			last = cmp.Or(shorten(report, shownBytes, shownLines), last)
		}
		if e.AgentType != "" || last != "" { // else a helper of Claude Code's own
			return notice{Type: "subagent_complete", Title: "Subagent completed task", Agent: e.AgentType, Body: Words(last)}
		}
	case "StopFailure":
		what := cmp.Or(shorten(string(e.Details), shownBytes, shownLines), last)
		return notice{Type: "error", Body: Words(strings.Join(nonEmpty(string(e.Error), what), ": "))}
	}
	return n
}

// readTaskEnd reads what Claude is told of a background task that has ended: Claude Code gives it as a prompt. It does so
// at once on 2.1.332; on 2.1.197 only where it begins a turn. SubagentStop tells of an agent. What has no status goes on,
// or is a hook that wakes the session.
func readTaskEnd(prompt string) notice {
	if !strings.HasPrefix(prompt, "<task-notification>") {
		return notice{}
	}
	member := func(name string) string {
		_, after, _ := strings.Cut(prompt, "<"+name+">")
		text, _, _ := strings.Cut(after, "</"+name+">")
		return html.UnescapeString(text)
	}
	summary := shorten(member("summary"), shownBytes, shownLines)
	if member("status") == "" || strings.HasPrefix(summary, `Agent "`) {
		return notice{}
	}
	return notice{Type: "background_task_complete", Title: Words(summary), Task: member("task-id")}
}

// notification is gchat-notification-dispatch: what a session has to tell goes to its thread. It prints nothing, and a
// suppressed notification costs no more than reading the configuration.
func (h *Hook) notification(_ context.Context, e *Event) error {
	n := readNotice(e)
	if n.Type == "" {
		return nil
	}
	if permission, dialog := waits[string(n.Type)]; dialog {
		return h.noteDialog(e, state.NewDialog(permission, cmp.Or(string(n.Body), string(n.Title))))
	}
	cfg := h.config()
	to, ok := routes[string(n.Type)]
	if !ok {
		to = route{string(n.Type), state.Plain, "[Notification]"}
		ok = cfg.ReportRule(to.kind) != ""
	}
	if !ok || !cfg.Sends() || cfg.ReportRule(to.kind, string(to.typ)) == config.ReportOff {
		return nil
	}
	about, text := noticeText(n, to)
	m := &state.Message{Report: &state.Report{
		Type: to.typ, Kind: to.kind, Prefix: to.prefix, Session: h.Env("CLAUDE_SESSION_ID"), About: about, Text: text,
	}}
	if n.Task != "" { // another task may end with the same words
		m.Key = state.MessageID("task", e.SessionID, n.Task)
	}
	return h.put(e, m, config.ReportOn)
}

// noteDialog is for what waits in the terminal, and is asked by no record of ours: it counts as waiting, and the session's thread is
// told. Another registration's hook tells nothing more. The poller sees when it is over.
func (h *Hook) noteDialog(e *Event, d *state.Dialog) error {
	rule := h.config().ReportRule(string(state.AskedPermission), string(state.Plain))
	if !h.config().Sends() || rule == config.ReportOff {
		return nil
	}
	if slices.ContainsFunc(h.openQuestions(e), (*state.Question).ExplainsDialog) {
		return nil // the question itself says it already, and better
	}
	one := h.session(e)
	if stands, _ := inject.DialogOf(one); stands != nil {
		d.At = stands.At
	}
	again := false
	_, err := state.SessionsIn(state.UserState(h.Env)).Change(e.SessionID, func(s *state.Session) {
		again = s.Dialog.Same(d) && !s.Dialog.Over
		if !again {
			s.Dialog = d
		}
	})
	h.StartPoller() // also where a hook was killed before it told: the poller does
	if again || err != nil {
		return err
	}
	return putDialog(h.Env, h.config(), one, d)
}

// PutDialog tells a session's thread what waits in its terminal. The poller calls it for what no hook told of.
func PutDialog(env state.Getenv, one *state.Session) error {
	cfg := config.Load(state.ForProject(env, one.ProjectDir, one.Trusted), one.ProjectDir)
	return putDialog(env, cfg, one, one.Dialog)
}

func putDialog(env state.Getenv, cfg *config.Config, one *state.Session, d *state.Dialog) error {
	report := &state.Report{
		Type: state.Plain, Kind: string(state.AskedPermission), Prefix: "[Permission]", Session: one.Name,
		About: d.Says, Text: pendingText(one.TranscriptPath),
	}
	m := &state.Message{
		Report: report, SessionID: one.ID, ProjectDir: one.ProjectDir, Trusted: one.Trusted, Key: d.Key(one.ID),
	}
	out, err := config.PutReport(env, cfg, m, "")
	if err != nil || out.Off {
		return err
	}
	_, err = state.SessionsIn(state.UserState(env)).Change(one.ID, func(s *state.Session) {
		if s.Dialog.Same(d) {
			s.Dialog.Told = true
		}
	})
	return err
}

// put puts a report of this event's session into the outbox; see config.PutReport.
func (h *Hook) put(e *Event, m *state.Message, otherwise config.ReportRule) error {
	if m.Report.Session == "" && e.SessionID != "" {
		m.Report.Session = h.session(e).Name
	}
	m.SessionID, m.ProjectDir = e.SessionID, state.ProjectDir(h.Env)
	out, err := config.PutReport(h.Env, h.config(), m, otherwise)
	if err == nil && !out.Off {
		h.StartPoller() // also after a repetition: the hook that said it first may have been killed
	}
	return err
}

// Tell has a report of this event's session sent; rules know it by kind. Errors are config.ErrNoWebhook and the disk's.
func (h *Hook) Tell(e *Event, kind string, r state.Report) error {
	r.Kind = kind
	return h.put(e, &state.Message{Report: &r, Key: uuid.NewString()}, config.ReportOn)
}

// noticeText is what stands below the header.
func noticeText(n notice, to route) (about, text string) {
	title, body := string(n.Title), string(n.Body)
	switch {
	case to.kind == "subagent_done", to.kind == "task_done":
		if n.Agent != "" {
			return string(n.Agent) + " completed task", body
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

// pendingText tells, in Markdown, what Claude wants to do: the notification itself says only that it wants to. What a subagent
// wants is in a transcript of its own, and not told.
func pendingText(transcript string) string {
	tail, _, _ := inject.TranscriptEnd(transcript, tailBytes)
	var lines []string
	for _, c := range pendingIn(tail) {
		if c.Name == "Agent" || c.Name == "Task" {
			continue
		}
		line := noMarkup(flat(c.Name, 100))
		if c.Name != askTool && c.Name != planTool { // which have kinds of their own, and may be kept in the terminal
			what := state.MaskKeys(permissionShown(c.Name, c.Input).call[0])
			line += ":" + code(shorten(what, shownBytes, 2*shownLines))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
