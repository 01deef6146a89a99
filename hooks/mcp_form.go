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

// An MCP server can ask its user to fill in a form or to open a link. Claude Code calls
// that elicitation. It draws the dialog when the hook of formEvent has ended. If that
// hook answers, no event follows: formResultEvent comes only after the dialog (2.1.197
// and 2.1.332).
const formEvent, formResultEvent = "Elicitation", "ElicitationResult"

// These bound a form that is asked in Chat. A larger one is answered in the terminal.
const (
	maxFormBytes    = 8000
	maxFormFields   = 30
	maxFieldOptions = 50
	maxLinkBytes    = 2000
)

// formActions are Claude Code's names for the answers to a form.
var formActions = map[string]string{
	state.LabelAccept: "accept", state.LabelDecline: "decline", state.LabelCancel: cancelAction,
}

// cancelAction closes a form whose turn was interrupted. If the hook printed nothing,
// Claude Code would draw the form's dialog though its call is over (2.1.197 and 2.1.332).
const cancelAction = "cancel"

// serverToolPrefix is what the names of an MCP server's tools begin with. As a rule it
// names all of them.
func serverToolPrefix(server string) string {
	return "mcp__" + strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-') {
			return r
		}
		return '_'
	}, server)
}

// completeForm fills in the record of a form or a link. A form that cannot be shown in
// full, or may not be shown, is left to the terminal from the beginning.
func (h *Hook) completeForm(q *state.Question, e *Event, personal *config.Config) {
	server := string(e.MCPServer)
	q.Mode, q.IsDialogHidden = state.ModeHold, !h.isUnattended()
	q.ToolName, q.LinkID = serverToolPrefix(server), string(e.ElicitationID)
	identity := strings.Join(
		[]string{formEvent, server, string(e.Message), string(e.FormURL), q.LinkID}, "\x00")
	q.InputHash = callHash(identity, e.FormSchema)
	var err error
	if e.FormMode == "url" {
		q.ShownText, err = checkLink(string(e.FormURL))
		q.CallTexts = []string{q.ShownText}
	} else {
		q.Fields, err = readFormSchema(keepSurrogates(e.FormSchema))
	}
	if size := len(e.Message) + len(server) + len(e.FormSchema); size > maxFormBytes {
		err = fmt.Errorf("the form has %d bytes, more than %d", size, maxFormBytes)
	}
	subQuestion := state.SubQuestion{Header: "Form", Question: string(e.Message)}
	for _, label := range []string{state.LabelAccept, state.LabelDecline, state.LabelCancel} {
		subQuestion.Options = append(subQuestion.Options, state.Option{Label: label})
	}
	q.About = server
	subQuestion.OptionCount = len(subQuestion.Options)
	access := personal.AccessTo(q.Kind, q.ToolName, q.CallTexts...)
	if err != nil || !personal.HasUnreadFile && !access.CanAllow {
		h.log.Info().Err(err).Str("server", server).Msg("form left to the terminal")
		q.IsTerminalOnly, q.HandedOverAt = true, new(time.Now().UTC())
		q.Fields, q.ShownText, q.CallTexts = nil, "", nil
		subQuestion.Question = ""
	}
	if !access.CanShow {
		q.ReduceToTitle()
	}
	q.SubQuestions = []state.SubQuestion{subQuestion}
}

// checkLink returns an error unless a link can be shown in full and a reader sees where
// it leads.
func checkLink(link string) (string, error) {
	isUnsafe := func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }
	isPlain := len(link) <= maxLinkBytes && !strings.ContainsFunc(link, isUnsafe)
	parsed, err := url.Parse(link)
	isWeb := err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http")
	if !isWeb || !isPlain || parsed.Host == "" {
		return "", errors.New("the form's link is not a plain web address")
	}
	return link, nil
}

// fieldSchema is what a form's schema may say about a field. A form with any other member
// is left to the terminal: we cannot check what we do not know.
type fieldSchema struct {
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
	Items       *fieldSchema    `json:"items"`
	Minimum     *float64        `json:"minimum"`
	Maximum     *float64        `json:"maximum"`
	MinLength   *float64        `json:"minLength"`
	MaxLength   *float64        `json:"maxLength"`
	MinItems    *float64        `json:"minItems"`
	MaxItems    *float64        `json:"maxItems"`
	UniqueItems bool            `json:"uniqueItems"`
}

// choice is a choice of a field with its title.
type choice struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// readFormSchema reads the fields of a form, in their order. It fails if any of it is not
// understood.
func readFormSchema(raw json.RawMessage) (fields []state.Field, err error) {
	var form struct {
		Type       string          `json:"type"`
		Title      string          `json:"title"`
		About      string          `json:"description"`
		Dialect    string          `json:"$schema"`
		More       json.RawMessage `json:"additionalProperties"`
		Required   []string        `json:"required"`
		Properties json.RawMessage `json:"properties"`
	}
	if err := decodeStrictly(raw, &form); err != nil {
		return nil, err
	}
	members := json.NewDecoder(bytes.NewReader(form.Properties))
	if begin, _ := members.Token(); begin != json.Delim('{') || form.Type != "object" {
		return nil, errors.New("the form's schema is not an object")
	}
	for members.More() {
		name, _ := members.Token()
		field := state.Field{Name: fmt.Sprint(name)}
		isDuplicate := slices.ContainsFunc(fields, func(other state.Field) bool {
			return other.Name == field.Name
		})
		var raw json.RawMessage
		var schema fieldSchema
		err := members.Decode(&raw)
		if err == nil {
			err = decodeStrictly(raw, &schema)
		}
		canAdd := !isDuplicate && len(fields) < maxFormFields
		if err != nil || !canAdd || !fillField(&field, &schema) {
			return nil, cmp.Or(err, errors.New("the form has a field that cannot be shown"))
		}
		fields = append(fields, field)
	}
	for _, name := range form.Required {
		i := slices.IndexFunc(fields, func(field state.Field) bool { return field.Name == name })
		if i < 0 {
			return nil, errors.New("the form requires a field that it does not have")
		}
		fields[i].IsRequired = true
	}
	return fields, nil
}

// decodeStrictly decodes JSON. It fails if there is a member that we do not know.
func decodeStrictly(raw json.RawMessage, target any) error {
	members := json.NewDecoder(bytes.NewReader(raw))
	members.DisallowUnknownFields()
	return members.Decode(target)
}

// fillField fills in a field from its schema. It returns false if the schema is not
// understood.
func fillField(field *state.Field, schema *fieldSchema) bool {
	field.Type, field.Title, field.Description = schema.Type, schema.Title, schema.Description
	field.Format, field.Pattern, field.Default = schema.Format, schema.Pattern, schema.Default
	field.Min = cmp.Or(schema.Minimum, schema.MinLength, schema.MinItems)
	field.Max = cmp.Or(schema.Maximum, schema.MaxLength, schema.MaxItems)
	optionSchema, isList := schema, field.Type == "array"
	if isList && schema.Items != nil {
		optionSchema = schema.Items
	}
	options := append(optionSchema.OneOf, optionSchema.AnyOf...)
	for i, value := range optionSchema.Enum {
		schemaOption := choice{value, ""}
		if i < len(optionSchema.EnumNames) {
			schemaOption.Title = optionSchema.EnumNames[i]
		}
		options = append(options, schemaOption)
	}
	if field.Type == "boolean" {
		options = append(options, choice{"true", "Yes"}, choice{"false", "No"})
	}
	for _, schemaOption := range options {
		option := state.Option{Label: cmp.Or(schemaOption.Title, schemaOption.Const)}
		if option.Label != schemaOption.Const && field.Type != "boolean" {
			option.Description = schemaOption.Const
		}
		field.Options = append(field.Options, option)
		field.Values = append(field.Values, schemaOption.Const)
	}
	zeroValue := map[string]any{
		"string": "", "number": 0.0, "integer": 0.0, "boolean": false, "array": []any{},
	}[field.Type]
	var defaultValue any
	_ = json.Unmarshal(field.Default, &defaultValue)
	isDefaultTyped := field.Default == nil ||
		fmt.Sprintf("%T", defaultValue) == fmt.Sprintf("%T", zeroValue)
	isNumber := field.Type == "number" || field.Type == "integer"
	hasChoice := len(options) > 0
	// Options with titles have no type.
	hasTextOptions := optionSchema == schema ||
		optionSchema.Type == "string" || optionSchema.Type == ""
	isKnownType := zeroValue != nil && isDefaultTyped && isList == (schema.Items != nil) &&
		hasTextOptions
	return isKnownType && len(options) <= maxFieldOptions && !(isNumber && hasChoice) &&
		!(isList && !hasChoice)
}

// formOutput returns what Claude Code accepts as the answer to a form. The values go to
// Claude Code only.
func formOutput(_ *Event, q *state.Question) (members map[string]any, auditDetail any, err error) {
	label, values := q.Decision()
	action := formActions[label]
	if action == "" {
		return nil, nil, nil
	}
	members = map[string]any{"action": action}
	if label == state.LabelAccept && q.ShownText == "" {
		members["content"] = json.RawMessage(values)
	}
	return members, map[string]any{"action": action}, nil
}

// confirmForm closes a form that was answered in its dialog. The values that were filled
// in there are not kept.
func (h *Hook) confirmForm(e *Event) error {
	var form *state.Question // of several, the one whose dialog was drawn first
	toolPrefix := serverToolPrefix(string(e.MCPServer))
	for _, q := range h.questionsOfSession(e, h.personalFolders(), state.OpenStatusTexts...) {
		isOpen := q.Kind.Traits().AsksForValues && q.Status.IsOpen()
		isMatch := isOpen && q.ToolName == toolPrefix && q.LinkID == string(e.ElicitationID)
		if isMatch && (form == nil || q.HandedOverAt != nil || form.HandedOverAt == nil) {
			form = q
		}
	}
	if form == nil {
		return nil
	}
	setAction := func(q *state.Question) {
		q.Answers = map[string]string{}
		for label, action := range formActions {
			if action == string(e.FormAction) {
				q.Answers[q.SubQuestions[0].Question] = label
			}
		}
	}
	isClosedNow, err := state.CloseQuestion(form.Path, state.Resolved, "terminal", setAction)
	if isClosedNow {
		h.StartPoller()
	}
	return err
}

// closeEndedForms closes the forms whose calls have ended, with or without an answer.
func (h *Hook) closeEndedForms(e *Event, openQuestions []*state.Question) {
	for _, q := range openQuestions {
		isOver := slices.ContainsFunc(e.ToolCalls, func(call batchToolCall) bool {
			return strings.HasPrefix(call.Name, q.ToolName+"__")
		})
		switch {
		case !isOver || !q.Kind.Traits().AsksForValues || !q.Status.IsOpen():
		case q.IsPrinted:
			h.closeQuestion(q.Path, state.Resolved, "chat")
		default:
			h.closeQuestion(q.Path, state.Cancelled, "tool_end")
		}
	}
}
