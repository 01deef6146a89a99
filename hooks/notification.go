package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/uuid"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// route is how a kind of notice is sent.
type route struct {
	kind   string // as rules name it; "" is the type
	typ    state.ReportType
	prefix string // in place of the type's; "" for the type's
}

// routes are the usual ones, by notification type. What is not here is suppressed: idle and idle_prompt above all, since
// sessions are idle after every turn.
var routes = map[string]route{
	"subagent_complete":        {"subagent_done", state.ProgressUpdate, "[Subagent Done]"},
	"background_task_complete": {"task_done", state.ProgressUpdate, "[Task Done]"},
	"agent_completed":          {"task_done", state.ProgressUpdate, "[Task Done]"}, // a background session, from 2.1.198 on
	"error":                    {"", state.Failure, "[Error]"},
	"permission_prompt":        {"permission", state.Plain, "[Permission]"},
	"agent_needs_input":        {"permission", state.Plain, "[Permission]"},
	"elicitation_dialog":       {"permission", state.Plain, "[Permission]"}, // an MCP server's form
}

// routeOf is how a notification type is sent; ok is false for what is suppressed.
func routeOf(cfg *config.Config, kind string) (r route, ok bool) {
	r, ok = routes[kind]
	set, isSet := cfg.Notifications[kind]
	switch {
	case !isSet:
		return r, ok
	case set.Off:
		return route{}, false
	case !ok:
		r = route{"", state.Plain, "[Notification]"}
	}
	if t := state.ReportType(set.Type); slices.Contains(state.ReportTypes(), t) {
		if r.typ = t; t != state.Plain {
			r.prefix = ""
		}
	}
	r.prefix = cmp.Or(set.Prefix, r.prefix)
	return r, true
}

// notice is a notification in our words, whichever event it came as.
type notice struct {
	kind  string // Claude Code's notification type
	title string
	body  string
	agent string
}

// readNotice reads the events that something is told by; kind is "" when this one tells nothing.
func readNotice(e *Event) notice {
	last := shorten(string(e.LastWords), shownBytes, shownLines)
	switch e.HookEventName {
	case "Notification":
		if e.Kind != "" {
			return notice{kind: string(e.Kind), title: string(e.Title), body: string(e.Message)}
		}
		var old struct {
			Kind  words `json:"type"`
			Title words `json:"title"`
			Body  words `json:"body"`
			Agent words `json:"agent_name"`
		}
		_ = json.Unmarshal(e.Old, &old) // what is absent, or in an unknown form, has no kind
		return notice{string(old.Kind), string(old.Title), string(old.Body), string(old.Agent)}
	case "SubagentStop":
		if e.AgentType != "" || last != "" { // else a helper of Claude Code's own
			return notice{kind: "subagent_complete", title: "Subagent completed task", agent: string(e.AgentType), body: last}
		}
	case "StopFailure":
		what := cmp.Or(shorten(string(e.Details), shownBytes, shownLines), last)
		return notice{kind: "error", body: strings.Join(nonEmpty(string(e.Error), what), ": ")}
	}
	return notice{}
}

// nonEmpty are those of the texts that say something.
func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(t string) bool { return t == "" })
}

// notification is gchat-notification-dispatch: what a session has to tell goes to its thread. It prints nothing, and a
// suppressed notification costs no more than reading the configuration.
func (h *Hook) notification(_ context.Context, e *Event) error {
	n := readNotice(e)
	if n.kind == "" {
		return nil
	}
	cfg := config.Load(h.Env, state.ProjectDir(h.Env))
	to, ok := routeOf(cfg, n.kind)
	if !ok || cfg.ReportRule(to.kind, string(to.typ)) == config.ReportOff {
		return nil
	}
	h.logProblems(cfg)
	if !hasSpace(cfg) {
		return nil
	}
	if n.kind == "permission_prompt" && h.asks(e) {
		return nil // the question itself says it already, and better
	}
	about, text := h.noticeText(e, n, to)
	return h.put(e, cfg, &state.Message{Report: &state.Report{
		Type: to.typ, Kind: to.kind, Prefix: to.prefix, Session: h.Env("CLAUDE_SESSION_ID"), About: about, Text: text,
	}}, config.ReportOn)
}

// hasSpace says whether there is a space to report to.
func hasSpace(cfg *config.Config) bool { return cfg.WebhookURL != "" || cfg.WebhookCommand != "" }

// put puts a report of this event's session into the outbox; see state.PutReport.
func (h *Hook) put(e *Event, cfg *config.Config, m *state.Message, otherwise config.ReportRule) error {
	if m.Report.Session == "" && e.SessionID != "" {
		m.Report.Session = h.session(e).Name
	}
	m.SessionID, m.ProjectDir = e.SessionID, absolute(state.ProjectDir(h.Env))
	out, err := config.PutReport(h.Env, cfg, m, otherwise)
	if err == nil && !out.Off {
		h.startPoller() // also after a repetition: the hook that said it first may have been killed
	}
	return err
}

// Tell has a report of this event's session sent; kind is the name that rules know it by. Errors are state.ErrNoWebhook and
// the disk's.
func (h *Hook) Tell(e *Event, kind string, r state.Report) error {
	r.Kind = kind
	cfg := config.Load(h.Env, state.ProjectDir(h.Env))
	return h.put(e, cfg, &state.Message{Report: &r, Key: uuid.NewString()}, config.ReportOn)
}

// asks says whether the session has a question open.
func (h *Hook) asks(e *Event) bool {
	return slices.ContainsFunc(h.ofSession(e, state.QuestionsIn), func(q *state.Question) bool { return q.Status.Open() })
}

// noticeText is what stands below the header.
func (h *Hook) noticeText(e *Event, n notice, to route) (about, text string) {
	switch {
	case to.kind == "subagent_done", to.kind == "task_done":
		if n.agent != "" {
			return n.agent + " completed task", n.body
		}
		return n.title, n.body
	case n.kind == "error":
		return "An error occurred that requires attention.", n.body
	case n.kind == "permission_prompt":
		return cmp.Or(n.body, n.title), h.pendingText(string(e.Transcript))
	case strings.Contains(n.body, "\n"): // no line of its own
	case to.kind == "permission", n.title == "":
		return cmp.Or(n.body, n.title), ""
	}
	return n.title, n.body
}

// pendingText tells what Claude wants to do: the notification itself says only that it wants to.
func (h *Hook) pendingText(transcript string) string {
	tail, _ := tailOf(transcript)
	var lines []string
	for _, c := range pendingIn(tail) {
		lines = append(lines, c.text())
	}
	return strings.Join(lines, "\n")
}
