package hooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// formEvents is the event of a form with this schema.
func formEvents(t testing.TB, schema string, kv ...any) []byte {
	members := []any{"mcp_server_name", "form", "message", "Who are you?", "mode", "form",
		"requested_schema", json.RawMessage(schema),
		"tool_use_id", ""}
	return namedEvent(t, "Elicitation", "s-1", append(members, kv...)...)
}

// nameSchema is a form with one field.
const nameSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

// answerInText enters a reply of a person in Chat to a form.
func (w *world) answerInText(q *state.Question, text string) {
	w.Helper()
	cfg := config.LoadPersonal(w.getenv)
	w.changeQuestion(q, func(q *state.Question) {
		q.Replies = append(q.Replies, state.Reply{MessageName: fmt.Sprint("m", len(q.Replies)),
			Sender: ann.Name, Text: text, CreatedAt: time.Now()})
		judge.JudgeReply(cfg, q, &q.Replies[len(q.Replies)-1], time.Now())
	})
}

// readFormAnswer reads what a hook printed for a form.
func readFormAnswer(out string) string {
	var d struct {
		Out struct {
			Event   string `json:"hookEventName"`
			Action  string
			Content json.RawMessage
		} `json:"hookSpecificOutput"`
	}
	if json.Unmarshal([]byte(out), &d) != nil || d.Out.Event != "Elicitation" {
		return out
	}
	return strings.TrimSpace(d.Out.Action + " " + string(d.Out.Content))
}

// These cases go from a server's schema to what Claude Code gets. The values have the
// schema's types. A reply with an error in it does not count at all.
func TestForm_SchemaToAnswer(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","required":["seats"],"properties":{
		"seats":{"type":"integer","minimum":1},"tip":{"type":"number"},"smoke":{"type":"boolean"},
		"old":{"type":"string","enum":["in","out"],"enumNames":["Inside","Outside"]},
		"one":{"type":"string","oneOf":[{"const":"a","title":"An A"},{"const":"b","title":"A B"}]},
		"many":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"},{"const":"y","title":"Y"}]},"minItems":1},
		"half \ud83d":{"type":"string","default":"d"}}}`
	for _, c := range [][]string{
		{`accept {"half \ud83d":"d","many":["x","y"],"old":"out","one":"b","seats":2,"smoke":true,"tip":0.5}`,
			"seats: 1.5", "seats: 2\ntip: 0.5\nsmoke: yes\nold: Outside\none: a b\nmany: 1, 2"},
		{"decline", "maybe", "decline"},
		{"cancel", "seats: 2\nnone: 1", "cancel"},
	} {
		w := newPermissionWorld(t)
		p, q := w.startWaiting(formEvents(w, schema))
		kit.True(t, q.IsDialogHidden && q.Mode == state.ModeHold && q.ToolName == "mcp__form" &&
			strings.HasPrefix(q.Path, state.SpareStateDir(w.getenv)), "the record is %+v", q)
		for _, text := range c[1:] {
			w.answerInText(q, text)
		}
		kit.Equalf(t, readFormAnswer(p.awaitOutput()), c[0], "%q", c[1:])
		current := w.reload(q)
		kit.True(t, current.IsPrinted && current.Replies[0].Verdict == state.VerdictAskedBack &&
			current.Replies[1].Verdict == state.VerdictUsed, "%q: printed %v, %+v", c[1:],
			current.IsPrinted, current.Replies)
	}
}

// A form that cannot be shown in full is left to the terminal at once. Its hook ends, and
// its thread says so.
func TestForm_OnlyTheTerminalShowsIt(t *testing.T) {
	t.Parallel()
	field := func(says string) string { return `{"type":"object","properties":{"x":` + says + `}}` }
	many := strings.Builder{}
	for i := range 10_000 {
		fmt.Fprintf(&many, `,"f%d":{"type":"string"}`, i)
	}
	for name, event := range map[string][]byte{
		"10,000 fields":      formEvents(t, `{"type":"object","properties":{`+many.String()[1:]+`}}`),
		"31 fields":          formEvents(t, `{"type":"object","properties":{`+strings.Join(strings.SplitN(many.String(), ",", 33)[1:32], ",")+`}}`),
		"a nested object":    formEvents(t, field(`{"type":"object","properties":{}}`)),
		"an unknown member":  formEvents(t, field(`{"type":"string","if":{}}`)),
		"an unknown type":    formEvents(t, field(`{"type":["string","null"]}`)),
		"a list of anything": formEvents(t, field(`{"type":"array","items":{"type":"string"}}`)),
		"a list of numbers":  formEvents(t, field(`{"type":"array","items":{"type":"integer","enum":["1"]}}`)),
		"a default object":   formEvents(t, field(`{"type":"string","default":{}}`)),
		"a name twice":       formEvents(t, `{"type":"object","properties":{"x":{"type":"string"},"x":{"type":"boolean"}}}`),
		"what is not there":  formEvents(t, `{"type":"object","properties":{},"required":["x"]}`),
		"a huge message":     formEvents(t, nameSchema, "message", strings.Repeat("x", 8000)),
		"no schema":          formEvents(t, `null`),
		"another mode":       formEvents(t, `null`, "mode", "voice"),
		"a script":           formEvents(t, `null`, "mode", "url", "url", "javascript:alert(1)"),
		"an odd scheme":      formEvents(t, `null`, "mode", "url", "url", "httpx://a.example/"),
		"a link of two": formEvents(t, `null`, "mode", "url", "url",
			`https://a.example\@b.example/`),
		"a link of signs": formEvents(t, `null`, "mode", "url", "url", "https://ex\u0430mple.com/"),
		"never_remote":    formEvents(t, nameSchema),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPermissionWorld(t)
			if name == "never_remote" {
				w.writePolicy(`{"never_remote":["mcp__form"]}`)
			}
			kit.Equalf(t, w.runHook(forwardHook, event), "", "it printed")
			q := w.onlyOne(w.indexed)
			text := strings.Join(wording.QuestionTexts(q), "\n")
			kit.True(t, q.HandedOverAt != nil &&
				strings.Contains(text, "only the terminal shows") &&
				strings.Contains(text, "answer it there"), "handed over %v: %s",
				q.HandedOverAt, text)
			kit.True(t, len(q.Fields) == 0 && !strings.Contains(text, "xxx") &&
				!strings.Contains(text, "example"), "it shows %s", text)
			w.answerInText(q, "yes")
			w.wantEnd(q, state.Pending, "")
		})
	}
}

// These cases show what ends a form and what does not. The record keeps none of its
// values, whoever replied and when.
func TestForm_EventsThatEndIt(t *testing.T) {
	t.Parallel()
	result := func(action string) []byte {
		return namedEvent(t, "ElicitationResult", "s-1", "mcp_server_name", "form", "mode", "form",
			"action", action, "content", map[string]any{"name": "hunter2"})
	}
	called := func(tool, id string) []byte {
		call := map[string]any{"tool_name": tool, "tool_use_id": id, "tool_input": map[string]any{}}
		return namedEvent(t, "PostToolBatch", "s-1", "tool_calls", []any{call})
	}
	plain := func(name string) []byte {
		return namedEvent(t, name, "s-1", "prompt", "go on", "reason", "prompt_input_exit")
	}
	for name, c := range map[string]struct {
		event  []byte
		status state.Status
		by     string
		label  string
	}{
		"accepted in the terminal": {result("accept"), state.Resolved, "terminal", "Accept"},
		"declined in the terminal": {result("decline"), state.Resolved, "terminal", "Decline"},
		"Esc in its dialog":        {result("cancel"), state.Resolved, "terminal", "Cancel"},
		"its call has ended": {called("mcp__form__ask", "toolu_1"), state.Cancelled,
			"tool_end", ""},
		"a call of another server": {called("mcp__formal__ask", "toolu_2"), state.Pending, "", ""},
		"a turn's end":             {plain("Stop"), state.Pending, "", ""},
		"a prompt":                 {plain("UserPromptSubmit"), state.Pending, "", ""},
		"the session's end":        {plain("SessionEnd"), state.Cancelled, "session_end", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPermissionWorld(t)
			p, q := w.startWaiting(formEvents(w, nameSchema))
			w.answerInText(q, "name; hunter2")
			w.runHook(answeredHook, c.event)
			w.wantDecided(q, c.status, c.by, c.label)
			if c.status == state.Pending {
				return
			}
			kit.Equalf(t, p.awaitOutput(), "", "the hook printed")
			w.answerInText(q, "name: hunter2")
			kit.True(t, !strings.Contains(kit.ReadFile(t, q.Path), "hunter2"), "a value is left")
		})
	}
}

// Esc interrupts the turn in which a form is asked. If the hook then prints nothing,
// Claude Code draws the form's dialog though its call is over (2.1.197 and 2.1.332).
func TestForm_BrokenTurnCancelsIt(t *testing.T) {
	t.Parallel()
	closes := func(status state.Status, resolvedBy string) func(*world, *hookProcess,
		*state.Question) {
		return func(w *world, _ *hookProcess, q *state.Question) {
			w.closeQuestion(q, status, resolvedBy, nil)
		}
	}
	for name, c := range map[string]struct {
		end     func(*world, *hookProcess, *state.Question)
		printed string
	}{
		"its turn was broken off": {closes(state.Cancelled, state.EndedDismissed), "cancel"},
		"its time is up":          {closes(state.Expired, "age"), ""},
		"its hook is told to end": {func(_ *world, p *hookProcess,
			_ *state.Question) {
			terminate(p)
		}, ""},
		"it is the terminal's": {func(w *world, _ *hookProcess, q *state.Question) {
			w.changeQuestion(q, func(q *state.Question) { q.HandOver(time.Now()) })
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPermissionWorld(t)
			p, q := w.startWaiting(formEvents(w, nameSchema))
			c.end(w, p, q)
			kit.Equalf(t, readFormAnswer(p.awaitOutput()), c.printed, "it printed")
		})
	}
}

// A form that was answered in Chat is closed with its call. No value is left in its
// record or in a log.
func TestForm_LeavesNoValue(t *testing.T) {
	t.Parallel()
	w := newPermissionWorld(t)
	p, q := w.startWaiting(formEvents(w, nameSchema))
	w.answerInText(q, "name: hunter2")
	kit.Equal(t, readFormAnswer(p.awaitOutput()), `accept {"name":"hunter2"}`)
	w.runHook(answeredHook, namedEvent(w, "PostToolBatch", "s-1", "tool_calls",
		[]map[string]any{{"tool_name": "mcp__form__ask", "tool_use_id": "x"}}))
	w.wantEnd(q, state.Resolved, "chat")
	audit := kit.ReadFile(t, state.AuditPath(w.getenv))
	all := kit.ReadFile(t, q.Path) + audit + w.log()
	kit.True(t, !strings.Contains(all, "hunter2"), "a value is left: %s", all)
	kit.Contains(t, audit, `"kind":"form"`)
	kit.Contains(t, audit, `accept`)
}

// A form is asked once, however many registrations of ours there are. It is asked only if
// the person's own configuration sends and no policy keeps it in the terminal.
func TestForm_WhereItIsAsked(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(w *world){
		"no space": func(w *world) { delete(w.env, "GOOGLE_CHAT_WEBHOOK_URL") },
		"mode off": func(w *world) { w.env["GCHAT_ASK_MODE"] = "off" },
		"terminal_only": func(w *world) {
			w.writePolicy(`{"terminal_only":["form"]}`)
		},
	} {
		w := newPermissionWorld(t)
		set(w)
		kit.Equalf(t, w.runHook(forwardHook, formEvents(w, nameSchema)), "", "%s: printed", name)
		kit.Equalf(t, len(w.indexed()), 0, "%s: records", name)
	}
	w := newPermissionWorld(t)
	w.writePolicy(`{"titles_only":true}`)
	w.runHook(forwardHook, formEvents(w, nameSchema))
	if q := w.onlyOne(w.indexed); q.HandedOverAt == nil ||
		strings.Contains(strings.Join(wording.QuestionTexts(q), ""), "Who are you") {
		t.Errorf("titles_only: %+v", q)
	}
}
