package hooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// An MCP server asks its user to fill in a form, or to open a link: Claude Code calls that
// elicitation. It draws the dialog when the hook of formEvent has ended. Where the hook answers,
// no event tells of it: formResult tells of the dialog alone (2.1.197 and 2.1.332).
const formEvent, formResult = "Elicitation", "ElicitationResult"

// What is larger is answered in the terminal.
const (
	mostForm    = 8000 // bytes of a form
	mostFields  = 30
	mostOptions = 50 // of a field
	mostLink    = 2000
)

// actions are what Claude Code calls the answers to a form.
var actions = map[string]string{
	state.LabelAccept: "accept", state.LabelDecline: "decline", state.LabelCancel: cancelForm,
}

// cancelForm closes a form. Where its turn was broken off and the hook prints nothing, Claude Code
// draws the form's dialog, though its call is over (2.1.197 and 2.1.332).
const cancelForm = "cancel"

// serverTools begins the names of an MCP server's tools. It is also the rule that names them all.
func serverTools(server string) string {
	return "mcp__" + strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-') {
			return r
		}
		return '_'
	}, server)
}

// describeForm completes the record of a form or a link. What cannot be shown whole, or may not
// be, is the terminal's from the beginning.
func (h *Hook) describeForm(q *state.Question, e *Event, own *config.Config) {
	server := string(e.Server)
	q.Mode, q.Hidden = state.Hold, !h.unattended()
	q.Tool, q.LinkID = serverTools(server), string(e.LinkID)
	what := strings.Join([]string{formEvent, server, string(e.Message), string(e.URL), q.LinkID}, "\x00")
	q.InputHash = callHash(what, e.Schema)
	err := error(nil)
	if e.Form == "url" {
		q.Shown, err = readLink(string(e.URL))
		q.Call = []string{q.Shown}
	} else {
		q.Fields, err = readSchema(keepSurrogates(e.Schema))
	}
	if size := len(e.Message) + len(server) + len(e.Schema); size > mostForm {
		err = fmt.Errorf("it has %d bytes", size)
	}
	prompt := state.Prompt{Header: "Form", Question: string(e.Message)}
	for _, label := range []string{state.LabelAccept, state.LabelDecline, state.LabelCancel} {
		prompt.Options = append(prompt.Options, state.Option{Label: label})
	}
	q.About, prompt.OptionCount = server, len(prompt.Options)
	terms := own.Terms(q.Kind, q.Tool, q.Call...)
	if err != nil || !own.Unread && !terms.Allowed {
		h.log.Info().Err(err).Str("server", server).Msg("a form is left to the terminal")
		q.TerminalOnly, q.HandedOver = true, new(time.Now().UTC())
		q.Fields, q.Shown, q.Call, prompt.Question = nil, "", nil, ""
	}
	if !terms.Shown {
		q.TitleOnly()
	}
	q.Questions = []state.Prompt{prompt}
}

// readLink checks that a link can be shown whole, and that a reader sees where it leads.
func readLink(link string) (string, error) {
	isOdd := func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }
	isPlain := len(link) <= mostLink && !strings.ContainsFunc(link, isOdd)
	to, err := url.Parse(link)
	if err != nil || !isPlain || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" {
		return "", errors.New("its link is no plain web address")
	}
	return link, nil
}

// schema is what a field of a form may say of itself. A field that says more stays in the
// terminal: what we do not know, we cannot hold to.
type schema struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Format      string          `json:"format"`
	Pattern     string          `json:"pattern"`
	Default     json.RawMessage `json:"default"`
	Enum        []string        `json:"enum"`
	EnumNames   []string        `json:"enumNames"`
	OneOf       []choice        `json:"oneOf"`
	AnyOf       []choice        `json:"anyOf"`
	Items       *schema         `json:"items"`
	Minimum     *float64        `json:"minimum"`
	Maximum     *float64        `json:"maximum"`
	MinLength   *float64        `json:"minLength"`
	MaxLength   *float64        `json:"maxLength"`
	MinItems    *float64        `json:"minItems"`
	MaxItems    *float64        `json:"maxItems"`
	UniqueItems bool            `json:"uniqueItems"`
}

type choice struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// readSchema reads the fields of a form, in their order. It fails for what is not understood.
func readSchema(raw json.RawMessage) (fields []state.Field, err error) {
	var form struct {
		Type       string          `json:"type"`
		Title      string          `json:"title"`
		About      string          `json:"description"`
		Dialect    string          `json:"$schema"`
		More       json.RawMessage `json:"additionalProperties"`
		Required   []string        `json:"required"`
		Properties json.RawMessage `json:"properties"`
	}
	if err := strictly(raw, &form); err != nil {
		return nil, err
	}
	members := json.NewDecoder(bytes.NewReader(form.Properties))
	if begin, _ := members.Token(); begin != json.Delim('{') || form.Type != "object" {
		return nil, errors.New("its schema is no object")
	}
	for members.More() {
		name, _ := members.Token()
		f := state.Field{Name: fmt.Sprint(name)}
		isTwice := slices.ContainsFunc(fields, func(o state.Field) bool { return o.Name == f.Name })
		var raw json.RawMessage
		var says schema
		err := members.Decode(&raw)
		if err == nil {
			err = strictly(raw, &says)
		}
		if err != nil || isTwice || len(fields) == mostFields || !fillField(&f, &says) {
			return nil, cmp.Or(err, errors.New("a field cannot be shown"))
		}
		fields = append(fields, f)
	}
	for _, name := range form.Required {
		i := slices.IndexFunc(fields, func(f state.Field) bool { return f.Name == name })
		if i < 0 {
			return nil, errors.New("a field that it requires is not in it")
		}
		fields[i].Required = true
	}
	return fields, nil
}

// strictly reads JSON that has no member that we do not know.
func strictly(raw json.RawMessage, into any) error {
	members := json.NewDecoder(bytes.NewReader(raw))
	members.DisallowUnknownFields()
	return members.Decode(into)
}

// fillField takes over what a schema says of a field; false where that is not understood.
func fillField(f *state.Field, says *schema) bool {
	f.Type, f.Title, f.About = says.Type, says.Title, says.Description
	f.Format, f.Pattern, f.Default = says.Format, says.Pattern, says.Default
	f.Min = cmp.Or(says.Minimum, says.MinLength, says.MinItems)
	f.Max = cmp.Or(says.Maximum, says.MaxLength, says.MaxItems)
	from, isList := says, f.Type == "array"
	if isList && says.Items != nil {
		from = says.Items
	}
	options := append(from.OneOf, from.AnyOf...)
	for i, value := range from.Enum {
		one := choice{value, ""}
		if i < len(from.EnumNames) {
			one.Title = from.EnumNames[i]
		}
		options = append(options, one)
	}
	if f.Type == "boolean" {
		options = append(options, choice{"true", "Yes"}, choice{"false", "No"})
	}
	for _, one := range options {
		option := state.Option{Label: cmp.Or(one.Title, one.Const)}
		if option.Label != one.Const && f.Type != "boolean" {
			option.Description = one.Const
		}
		f.Options, f.Values = append(f.Options, option), append(f.Values, one.Const)
	}
	known := map[string]any{
		"string": "", "number": 0.0, "integer": 0.0, "boolean": false, "array": []any{},
	}[f.Type]
	var byDefault any
	_ = json.Unmarshal(f.Default, &byDefault)
	fits := f.Default == nil || fmt.Sprintf("%T", byDefault) == fmt.Sprintf("%T", known)
	isNumber := f.Type == "number" || f.Type == "integer"
	hasChoice := len(options) > 0
	ofTexts := from == says || from.Type == "string" || from.Type == "" // titled ones have no type
	isOfType := known != nil && fits && isList == (says.Items != nil) && ofTexts
	return isOfType && len(options) <= mostOptions && !(isNumber && hasChoice) && !(isList && !hasChoice)
}

// answerForm is what Claude Code takes for the answer to a form. The values go to Claude Code
// alone.
func answerForm(_ *Event, q *state.Question) (members map[string]any, told any, err error) {
	label, values := q.Decision()
	action := actions[label]
	if action == "" {
		return nil, nil, nil
	}
	members = map[string]any{"action": action}
	if label == state.LabelAccept && q.Shown == "" {
		members["content"] = json.RawMessage(values)
	}
	return members, map[string]any{"action": action}, nil
}

// formAnswered closes a form that was answered in its dialog. What was filled in there is not
// kept.
func (h *Hook) formAnswered(e *Event) error {
	var open *state.Question // of several, the one whose dialog was drawn first
	tools := serverTools(string(e.Server))
	for _, q := range h.ofSession(e, h.own(), state.TextsOpen...) {
		isOpen := q.Kind.Row().Values && q.Status.Open()
		isThis := isOpen && q.Tool == tools && q.LinkID == string(e.LinkID)
		if isThis && (open == nil || q.HandedOver != nil || open.HandedOver == nil) {
			open = q
		}
	}
	if open == nil {
		return nil
	}
	ended, err := state.CloseQuestion(open.Path, state.Resolved, "terminal", func(q *state.Question) {
		q.Answers = map[string]string{}
		for label, action := range actions {
			if action == string(e.Action) {
				q.Answers[q.Questions[0].Question] = label
			}
		}
	})
	if ended {
		h.StartPoller()
	}
	return err
}

// endForms closes the forms whose calls have ended, with an answer or without one.
func (h *Hook) endForms(e *Event, open []*state.Question) {
	for _, q := range open {
		isOver := slices.ContainsFunc(e.Calls, func(call batchCall) bool {
			return strings.HasPrefix(call.Name, q.Tool+"__")
		})
		switch {
		case !isOver || !q.Kind.Row().Values || !q.Status.Open():
		case q.Printed:
			h.close(q.Path, state.Resolved, "chat")
		default:
			h.close(q.Path, state.Cancelled, "tool_end")
		}
	}
}
