package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// route is how a kind of notice is sent.
type route struct {
	kind   string // as rules name it; "" is the type
	typ    gchat.ReportType
	prefix string
}

// routes are the usual ones, by notification type. What is not here is suppressed: idle and idle_prompt above all, since
// sessions are idle after every turn.
var routes = map[string]route{
	"subagent_complete":        {"subagent_done", gchat.ProgressUpdate, "[Subagent Done]"},
	"background_task_complete": {"task_done", gchat.ProgressUpdate, "[Task Done]"},
	"agent_completed":          {"task_done", gchat.ProgressUpdate, "[Task Done]"}, // a background session, from 2.1.198 on
	"error":                    {"", gchat.Failure, "[Error]"},
	"permission_prompt":        {"permission", gchat.Plain, "[Permission]"},
	"agent_needs_input":        {"permission", gchat.Plain, "[Permission]"},
	"elicitation_dialog":       {"permission", gchat.Plain, "[Permission]"}, // an MCP server's form
}

// routeOf is how a notification type is sent; ok is false for what is suppressed.
func routeOf(cfg *state.Config, kind string) (r route, ok bool) {
	r, ok = routes[kind]
	set, isSet := cfg.Notifications[kind]
	switch {
	case !isSet:
		return r, ok
	case set.Off:
		return route{}, false
	case !ok:
		r = route{"", gchat.Plain, "[Notification]"}
	}
	if t := gchat.ReportType(set.Type); t.Known() {
		r.typ, r.prefix = t, cmp.Or(t.Prefix(), r.prefix)
	}
	r.prefix = cmp.Or(set.Prefix, r.prefix)
	return r, true
}

// notice is a notification in our words, whichever event it came as.
type notice struct {
	kind       string // Claude Code's notification type
	title      string
	body       string
	agent      string
	transcript string
	session    string // as the first design calls it: its id is a readable name
}

// readNotice reads the events that something is told by; kind is "" when this one tells nothing.
func readNotice(e *Event) (n notice, err error) {
	var in struct {
		Kind         words           `json:"notification_type"`
		Title        words           `json:"title"`
		Message      words           `json:"message"`
		Notification json.RawMessage `json:"notification"` // as the first design has it
		Transcript   words           `json:"transcript_path"`
		Agent        words           `json:"agent_type"`
		LastWords    words           `json:"last_assistant_message"`
		Error        words           `json:"error"`
		Details      words           `json:"error_details"`
	}
	if err := e.Read(&in); err != nil {
		return n, err
	}
	last := shorten(string(in.LastWords), shownBytes, shownLines)
	switch e.HookEventName {
	case "Notification":
		n = notice{kind: string(in.Kind), title: string(in.Title), body: string(in.Message), transcript: string(in.Transcript)}
		if n.kind == "" {
			var first struct {
				Kind  words `json:"type"`
				Title words `json:"title"`
				Body  words `json:"body"`
				Agent words `json:"agent_name"`
			}
			_ = json.Unmarshal(in.Notification, &first) // absent, or in an unknown form: no kind
			n.kind, n.title, n.body, n.agent = string(first.Kind), string(first.Title), string(first.Body), string(first.Agent)
			if uuid.Validate(e.SessionID) != nil { // Claude Code's own ids are no names
				n.session = e.SessionID
			}
		}
	case "SubagentStop":
		if in.Agent == "" && last == "" { // a helper of Claude Code's own
			return n, nil
		}
		n = notice{kind: "subagent_complete", title: "Subagent completed task", agent: string(in.Agent), body: last}
	case "StopFailure":
		what := cmp.Or(shorten(string(in.Details), shownBytes, shownLines), last)
		n = notice{kind: "error", body: strings.Join(nonEmpty(string(in.Error), what), ": ")}
	}
	return n, nil
}

// nonEmpty are those of the texts that say something.
func nonEmpty(texts ...string) (said []string) {
	for _, t := range texts {
		if t != "" {
			said = append(said, t)
		}
	}
	return said
}

// notification is gchat-notification-dispatch: what a session has to tell goes to its thread. It prints nothing, and a
// suppressed notification costs no more than reading the configuration.
func (h *Hook) notification(_ context.Context, e *Event) error {
	n, err := readNotice(e)
	if err != nil || n.kind == "" {
		return err
	}
	cfg := state.LoadConfig(h.Env, state.ProjectDir(h.Env))
	to, ok := routeOf(cfg, n.kind)
	if !ok || cfg.ReportRule(to.kind, string(to.typ)) == state.ReportOff {
		return nil
	}
	h.logProblems(cfg)
	if cfg.WebhookURL == "" && cfg.WebhookCommand == "" {
		return nil
	}
	if n.kind == "permission_prompt" && h.asks(e) {
		return nil // the question itself says it already, and better
	}
	about, text := h.noticeText(n, to)
	name := cmp.Or(h.Env("CLAUDE_SESSION_ID"), n.session)
	report := gchat.Report{Type: to.typ, Prefix: to.prefix, Session: name, About: about, Text: text}
	return h.put(e, poller.Report{Report: report, Kind: to.kind})
}

func (h *Hook) logProblems(cfg *state.Config) {
	for _, err := range cfg.Problems {
		h.log.Error().Err(err).Str("hint", "gchat-hooks doctor says what to do").Msg("configuration")
	}
}

// put has a report of this event's session sent.
func (h *Hook) put(e *Event, r poller.Report) error {
	if r.Session == "" {
		r.Session = h.sessionName(e)
	}
	r.SessionID, r.ProjectDir = e.SessionID, absolute(state.ProjectDir(h.Env))
	out, err := h.poller.PutReport(r)
	if out.Put {
		h.wake()
	}
	return err
}

// Tell has a report of this event's session sent; kind is the name that rules know it by. It does not touch the network.
// Errors are state.ErrNoWebhook, gchat.ErrNotWebhook, and the disk's.
func (h *Hook) Tell(e *Event, kind string, r gchat.Report) error {
	return h.put(e, poller.Report{Report: r, Kind: kind, Once: uuid.NewString()})
}

// sessionName is what people call the session. Its ledger knows it from the start; else tmux is asked, which takes as long
// as all the rest of a report.
func (h *Hook) sessionName(e *Event) string {
	if name := h.Env("CLAUDE_SESSION_ID"); name != "" {
		return name
	}
	if l, err := h.ledgers().Load(e.SessionID); err == nil && l.SessionName != "" {
		return l.SessionName
	}
	return h.asker(e).Name
}

// asks says whether the session has a question open.
func (h *Hook) asks(e *Event) bool {
	for _, dir := range h.stateDirs() {
		qs, _, err := state.QuestionsIn(dir).OfSession(e.SessionID)
		if err != nil {
			h.log.Error().Err(err).Msg("questions not read")
		}
		for _, q := range qs {
			if q.Status.Open() {
				return true
			}
		}
	}
	return false
}

// noticeText is what stands below the header.
func (h *Hook) noticeText(n notice, to route) (about, text string) {
	switch {
	case to.kind == "subagent_done", to.kind == "task_done":
		if n.agent != "" {
			return n.agent + " completed task", n.body
		}
		return n.title, n.body
	case n.kind == "error":
		return "An error occurred that requires attention.", n.body
	case n.kind == "permission_prompt":
		return cmp.Or(n.body, n.title), h.pendingText(n.transcript)
	case strings.Contains(n.body, "\n"): // no line of its own
	case to.kind == "permission", n.title == "":
		return cmp.Or(n.body, n.title), ""
	}
	return n.title, n.body
}

// pendingText tells what Claude wants to do: the notification itself says only that it wants to.
func (h *Hook) pendingText(transcript string) string {
	if transcript == "" {
		return ""
	}
	calls, err := pendingCalls(transcript)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Error().Err(err).Msg("transcript not read; the message does not say what is asked")
	}
	var lines []string
	for _, c := range calls {
		lines = append(lines, c.text())
	}
	return strings.Join(lines, "\n")
}
