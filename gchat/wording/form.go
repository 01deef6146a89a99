package wording

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gchat-hooks/state"
)

// A person answers a form of an MCP server as a whole. A reply with one invalid value is
// not used at all. The answer's label is the decision, and its Notes hold the values as
// the JSON that the server gets. No note in the thread repeats a value.

// AcceptChoice is the choice of the button that sends a form.
const AcceptChoice = "accept"

// formDecisions are the decisions that a person can make about a form.
var formDecisions = []decision{
	{state.LabelAccept, state.LabelAccept, AcceptChoice, []string{"accept", "yes", "y"}},
	{state.LabelDecline, state.LabelDecline, "decline", []string{"decline", "no", "n"}},
	{state.LabelCancel, state.LabelCancel, "cancel", []string{"cancel"}},
}

// secretPattern matches what a form may not ask for. The MCP specification forbids
// servers to ask for passwords, keys and the like in a form.
var secretPattern = state.LazyPattern(
	`(?i)pass ?(?:word|phrase|code|wd)|passwd|secret|credential|token|` +
		`\b(?:api|access|private|ssh|encryption)[ _-]?key|` +
		`\b(?:pin|otp|cvv|cvc|ssn|2fa|mfa)\b|card[ _-]?number`)

const secretWarning = "Careful: this may ask for a secret. MCP servers must not ask for " +
	"passwords or keys in a form (MCP specification). What you write here stays in this chat. " +
	"Decline if you are not sure."

// isLink reports whether a form asks the person to open a link, instead of filling in
// fields.
func isLink(q *state.Question) bool { return q.ShownText != "" }

func formParts(q *state.Question, _, _ int) (header, text, instructions string) {
	parts := formIntro(q)
	if isLink(q) {
		parts = append(parts, codeBlock(q.ShownText))
	}
	for i := range q.Fields {
		parts = append(parts, fieldText(q, i))
	}
	return decisionHeader(q), strings.Join(parts, "\n"), howToFill(q)
}

// formIntro returns the lines above a form's fields or link: which server asks, its
// message, a warning about secrets, and the host of a link.
func formIntro(q *state.Question) []string {
	request := "you to fill in a form:"
	switch {
	case isLink(q):
		request = "you to open a link:"
	case q.IsTerminalOnly:
		request = "for something that only the terminal shows."
	}
	parts := []string{"The MCP server " + quotedName(q.About) + " asks " + request}
	message := SafeBlock(state.CleanForReview(state.ForReview, q.SubQuestions[0].Question))
	if message != "" {
		parts = append(parts, disarm(message))
	}
	if mayAskSecret(q) {
		parts = append(parts, secretWarning)
	}
	if !q.IsDialogDrawn() {
		parts = append(parts, "The terminal does not show it until you answer. "+
			`Reply "terminal" to answer there.`)
	}
	if link, err := url.Parse(q.ShownText); err == nil && isLink(q) {
		parts = append(parts, "It leads to "+safeField(link.Host)+":")
	}
	return parts
}

// mayAskSecret reports whether a form's message or one of its fields seems to ask for a
// password, a key or the like.
func mayAskSecret(q *state.Question) bool {
	texts := q.SubQuestions[0].Question
	for _, f := range q.Fields {
		texts = strings.Join([]string{texts, f.Name, f.Title, f.Description, f.Format}, "\n")
	}
	return len(q.Fields) > 0 && secretPattern().MatchString(texts)
}

// quotedName returns a name that a server chose, in quotes. Characters that would be
// invisible in it are shown.
func quotedName(name string) string {
	return `"` + neutraliseLastAngle(reviewField(name)) + `"`
}

// reviewField is safeField for a text that a person has to judge: it shows characters
// that would be invisible.
func reviewField(text string) string {
	return safeField(state.CleanForReview(state.ForReview, text))
}

// fieldName returns a field's number with its title and name. A reply may use any of the
// three.
func fieldName(q *state.Question, i int) string {
	name, title := reviewField(q.Fields[i].Name), reviewField(q.Fields[i].Title)
	if title != "" && title != name {
		name = title + " (" + neutraliseLastAngle(name) + ")"
	}
	return fmt.Sprintf("%d. %s", i+1, name)
}

// fieldText returns a field's name, what it accepts, its description and its options.
func fieldText(q *state.Question, i int) string {
	formField := q.Fields[i]
	accepted := []string{acceptedText(formField)}
	if formField.IsRequired {
		accepted = append(accepted, "required")
	}
	if formField.Default != nil {
		accepted = append(accepted, "default: "+quotedName(defaultText(formField)))
	}
	text := fieldName(q, i) + ": " + strings.Join(accepted, "; ")
	if description := reviewField(formField.Description); description != "" {
		text += "\n  " + description
	}
	if formField.Type != "boolean" {
		for n, o := range formField.Options {
			text += fmt.Sprintf("\n  %d) %s", n+1, optionText(o))
		}
	}
	return text
}

// acceptedText says what may be written into a field.
func acceptedText(formField state.Field) string {
	kinds := map[string]string{
		"number":  "a number",
		"integer": "a whole number",
		"boolean": "yes or no",
		"array":   "one or more of these",
	}
	text := kinds[formField.Type]
	switch {
	case text == "" && len(formField.Options) > 0:
		text = "one of these"
	case text == "":
		text = "text"
	}
	unit := map[string]string{"string": " characters", "array": " of them"}[formField.Type]
	if formField.Min != nil {
		text += fmt.Sprintf(", at least %v%s", *formField.Min, unit)
	}
	if formField.Max != nil {
		text += fmt.Sprintf(", at most %v%s", *formField.Max, unit)
	}
	if formField.Format != "" {
		text += ", as " + safeClause(formField.Format)
	}
	if formField.Pattern != "" { // only the server checks it
		text += ", of the pattern " + quotedName(formField.Pattern)
	}
	return text
}

// isDefault reports whether this option's value is the field's default, or is in it.
func isDefault(f state.Field, value string) bool {
	var several []string
	_ = json.Unmarshal(f.Default, &several)
	return slices.Contains(several, value) || f.Default != nil && defaultText(f) == value
}

// defaultText returns a field's default value as a person would write it.
func defaultText(f state.Field) string {
	var text string
	if json.Unmarshal(f.Default, &text) == nil {
		return text
	}
	return string(f.Default)
}

// howToFill returns the instructions for a reply to a form.
func howToFill(q *state.Question) string {
	const linesHint = "Reply with a line for each field that you fill in, " +
		`by its name or number: "1: …"`
	const declineHint = " Or reply decline, or cancel."
	switch {
	case q.HandedOverAt != nil:
		return inTerminalText(q)
	case !isOffered(q, state.LabelAccept):
		return "Only the terminal can accept this. Reply decline, or cancel."
	case isLink(q):
		return "gchat-hooks does not open it. If you trust the site, open it yourself. " +
			"Reply accept to tell the server that you agreed to open it." + declineHint
	case slices.ContainsFunc(q.Fields, func(f state.Field) bool { return f.IsRequired }):
		return linesHint + "." + declineHint
	case len(q.Fields) > 0:
		return linesHint + "; or with yes to leave all out." + declineHint
	}
	return "Reply yes to accept it." + declineHint
}

// inputName returns the name of a field's input in a card.
func inputName(q *state.Question, i int) string {
	if len(q.Fields[i].Options) == 0 {
		return "w" + ordinal(i)
	}
	return "q" + ordinal(i)
}

// formatWords are the formats of a text that MCP servers may ask for.
var formatWords = map[string]string{
	"email": "an e-mail address", "uri": "an address such as https://…",
	"date": "a date", "date-time": "a date and a time",
}

// acceptedBy returns what a field accepts, for a program.
func acceptedBy(q *state.Question, i int) *Accepts {
	f := q.Fields[i]
	format := f.Format
	if formatWords[format] != "" {
		f.Format = ""
	}
	inWords := acceptedText(f)
	if formatWords[format] != "" {
		inWords = strings.Replace(inWords, "text", formatWords[format], 1)
	}
	if f.IsRequired {
		inWords += "; required"
	}
	return &Accepts{
		Type:       f.Type,
		Format:     format,
		Min:        f.Min,
		Max:        f.Max,
		IsRequired: f.IsRequired,
		HasDefault: f.Default != nil,
		Title:      Truncate(cmp.Or(reviewField(f.Title), reviewField(f.Name)), 100),
		Help:       reviewField(f.Description),
		InWords:    inWords,
	}
}

func formCard(q *state.Question, id string, cardSize func(*Card) int) ([]string, *Card) {
	header, text, instructions := messageParts(q, 0, 0)
	card := newCard(q, id, "")
	card.addText(strings.Join(formIntro(q), "\n"))
	if isLink(q) {
		card.addCode(codeBlock(q.ShownText))
	}
	for i, f := range q.Fields {
		card.addText(fieldText(q, i))
		label := Truncate(fieldName(q, i), 100)
		if len(f.Options) == 0 {
			card.addWidget(Widget{Field: &Field{
				Name: inputName(q, i), Label: label, Value: defaultText(f), Accepts: acceptedBy(q, i),
			}})
			continue
		}
		list := &Select{
			Name:          inputName(q, i),
			Label:         label,
			AllowsSeveral: f.Type == "array",
			Accepts:       acceptedBy(q, i),
		}
		for n, o := range f.Options {
			list.Items = append(list.Items, Item{
				Text:     optionText(o),
				Value:    ordinal(n),
				IsChosen: isDefault(f, f.Values[n]),
			})
		}
		card.addWidget(Widget{Select: list})
	}
	buttons := decisionButtons(q, formDecisions)
	if len(buttons) < len(formDecisions) || isLink(q) {
		card.addText(howToFill(q))
	}
	card.addButtons(buttons...)
	text = header + "\n\n" + text + instructions
	if cardSize(card)+len(text) > MaxText { // its texts say the same for a person
		card.forgetAccepts()
	}
	if cardSize(card)+len(text) > MaxText {
		return tooLargeCard(q, header)
	}
	return []string{text}, card
}

func (c *Card) forgetAccepts() {
	for _, section := range c.Sections {
		for _, widget := range section.Widgets {
			switch {
			case widget.Field != nil:
				widget.Field.Accepts = nil
			case widget.Select != nil:
				widget.Select.Accepts = nil
			}
		}
	}
}

// readForm reads a tap on a form. The text that stands for the tap names the button, and
// holds no value of the form.
func (t *Tap) readForm(q *state.Question) (answers map[int]state.Answer, text, note string) {
	a, problem := t.fillForm(q)
	if problem != "" {
		return nil, t.Choice, state.NoteUnclear
	}
	return map[int]state.Answer{0: a}, t.Choice, ""
}

// fillForm returns the answer that a tap gives to a form, or what is wrong with the tap.
func (t *Tap) fillForm(q *state.Question) (answer state.Answer, problem string) {
	i := slices.IndexFunc(formDecisions, func(candidate decision) bool {
		return candidate.choice == t.Choice && isOffered(q, candidate.label)
	})
	if i < 0 {
		return answer, "This form has no such button."
	}
	return formAnswer(q, formDecisions[i].label, func(i int) (value any, problem string) {
		return t.readField(q, i)
	})
}

// readForm reads a written reply to a form.
func readForm(text string, q *state.Question) (a state.Answer, note string) {
	a, problem := fillFormFromText(text, q)
	if problem != "" {
		note = state.NoteUnclear
	}
	return a, note
}

// fillFormFromText returns the answer that a written reply gives to a form, or what is
// wrong with the reply.
func fillFormFromText(text string, q *state.Question) (a state.Answer, problem string) {
	valueTexts := map[int]string{}
	label := state.LabelAccept
	i := slices.IndexFunc(formDecisions, func(d decision) bool { return d.matches(text) })
	switch {
	case i >= 0:
		label = formDecisions[i].label
	case isLink(q) || len(q.Fields) == 0:
		return a, "That is not an answer to the form."
	default:
		valueTexts, problem = splitFieldLines(text, q)
	}
	if problem != "" {
		return a, problem
	}
	return formAnswer(q, label, func(i int) (value any, problem string) {
		return readValue(q.Fields[i], valueTexts[i])
	})
}

// splitFieldLines splits a reply into the texts of the fields, by their index. A problem
// does not quote the reply: a value may be where a field's name should be.
func splitFieldLines(text string, q *state.Question) (valueTexts map[int]string, problem string) {
	valueTexts = map[int]string{}
	lineNumber := 0
	for line := range strings.Lines(text) {
		lineNumber++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		fieldIndex, value := -1, ""
		for end, r := range firstBytes(line, maxFieldBytes) {
			if r == ':' || r == '：' {
				fieldIndex, value = findField(q, line[:end]), line[end+utf8.RuneLen(r):]
			}
			if fieldIndex >= 0 {
				break
			}
		}
		_, isRepeated := valueTexts[fieldIndex]
		switch {
		case fieldIndex < 0:
			return nil, fmt.Sprintf("Line %d", lineNumber) +
				" does not begin with the name or number of a field."
		case isRepeated:
			return nil, fmt.Sprintf("Line %d repeats the field of an earlier line.", lineNumber)
		}
		valueTexts[fieldIndex] = strings.TrimSpace(value)
	}
	return valueTexts, ""
}

// findField returns the index of the field with that number, name or title. It returns -1
// if there is no such field, or more than one.
func findField(q *state.Question, name string) int {
	if n, _ := readNumber(name); n > 0 && n <= len(q.Fields) {
		return n - 1
	}
	name = normalise(name)
	matches := func(f state.Field) bool {
		return name == normalise(f.Name) || name == normalise(f.Title)
	}
	first := slices.IndexFunc(q.Fields, matches)
	if name == "" || first < 0 || slices.ContainsFunc(q.Fields[first+1:], matches) {
		return -1
	}
	return first
}

// formAnswer returns the answer to a form. If label accepts the form, the answer contains
// a value for each field. valueOf returns the value of the field with that index, or nil
// if the person gave none: the field then has its default, or is left out.
func formAnswer(
	q *state.Question,
	label string,
	valueOf func(i int) (value any, problem string),
) (a state.Answer, problem string) {
	switch {
	case !isOffered(q, label):
		return a, "This form cannot be answered that way here."
	case label != state.LabelAccept:
		return state.Answer{Labels: []string{label}}, ""
	}
	values := map[string]any{}
	for i, f := range q.Fields {
		value, problem := orDefault(f, valueOf, i)
		if problem != "" {
			return a, "Field " + fieldName(q, i) + ": " + problem
		}
		if value != nil {
			values[f.Name] = value
		}
	}
	b, err := json.Marshal(values)
	if err != nil {
		return a, "Its default value is not valid."
	}
	return state.Answer{Labels: []string{label}, Notes: string(b)}, ""
}

// orDefault returns the value that a person gave to a field, or else its default.
func orDefault(
	f state.Field, valueOf func(i int) (value any, problem string), i int,
) (value any, problem string) {
	value, problem = valueOf(i)
	switch {
	case problem != "" || value != nil:
		return value, problem
	case f.Default != nil:
		return f.Default, ""
	case f.IsRequired:
		return nil, "it is required."
	}
	return nil, ""
}

// FormProblems returns what is wrong with each field of a tap that accepts a form, by the
// name of the field's input. It returns none if the form can be accepted like that, and if
// the tap does something else.
func FormProblems(q *state.Question, t *Tap) (problems map[string]string) {
	if q.Kind != state.KindForm || t.Choice != AcceptChoice {
		return nil
	}
	problems = map[string]string{}
	for i, f := range q.Fields {
		_, problem := orDefault(f, func(i int) (any, string) { return t.readField(q, i) }, i)
		if problem != "" {
			problems[inputName(q, i)] = problem
		}
	}
	return problems
}

// readField reads the value of a field from a tap.
func (t *Tap) readField(q *state.Question, i int) (value any, problem string) {
	f := q.Fields[i]
	if len(f.Options) == 0 {
		return readValue(f, t.ownText(i))
	}
	return readTickedValue(f, t.Inputs[inputName(q, i)])
}

// readTickedValue returns the value of a field whose options are chosen from a list.
// boxes holds the numbers of the chosen options. Without any, the value is nil.
func readTickedValue(f state.Field, boxes []string) (value any, problem string) {
	var numbers []int
	for _, box := range boxes {
		n, err := strconv.Atoi(box)
		if err != nil || n < 1 || n > len(f.Options) {
			return nil, "there is no such choice."
		}
		numbers = append(numbers, n)
	}
	return chosenValue(f, numbers)
}

// readValue reads a field's value from what a person wrote. For "" the value is nil.
func readValue(f state.Field, text string) (value any, problem string) {
	switch {
	case text == "":
		return nil, ""
	case len(f.Options) > 0:
		return readChosenValue(f, text)
	case f.Type == "string":
		return text, textProblem(f, text)
	}
	n, err := strconv.ParseFloat(text, 64)
	isWhole := n == float64(int64(n))
	isNumber := err == nil && json.Valid([]byte(text)) && (isWhole || f.Type != "integer")
	if !isNumber || isOutOfRange(f, n) {
		return nil, "it takes " + acceptedText(f) + "."
	}
	return json.Number(text), ""
}

// isOutOfRange reports whether n exceeds a field's limits. n is the field's number, the
// length of its text, or how many of its options are chosen.
func isOutOfRange(f state.Field, n float64) bool {
	return f.Min != nil && n < *f.Min || f.Max != nil && n > *f.Max
}

// textProblem returns what is wrong with the text of a field, or "" if it is valid.
func textProblem(f state.Field, text string) string {
	isValid := true
	switch f.Format {
	case "email":
		address, err := mail.ParseAddress(text)
		isValid = err == nil && address.Address == text // without a name
	case "uri":
		link, err := url.Parse(text)
		isValid = err == nil && link.Scheme != ""
	case "date":
		_, err := time.Parse(time.DateOnly, text)
		isValid = err == nil
	case "date-time":
		_, err := time.Parse(time.RFC3339, text)
		isValid = err == nil
	}
	if !isValid || isOutOfRange(f, float64(utf8.RuneCountInString(text))) {
		return "it takes " + acceptedText(f) + "."
	}
	return ""
}

// readChosenValue reads the numbers or labels of the options that a person chose. If
// several options have the same label, it accepts only their numbers.
func readChosenValue(f state.Field, text string) (value any, problem string) {
	matcher := newOptionMatcher(state.SubQuestion{
		Options:     f.Options,
		MultiSelect: f.Type == "array",
	})
	matcher.prefersLabels = true
	labels := slices.Clone(matcher.labels)
	for i, label := range labels {
		isUnique := slices.Index(labels, label) == i && !slices.Contains(labels[i+1:], label)
		if !isUnique || label == "" {
			matcher.labels[i] = "\x00" + ordinal(i) // matches nothing that a person writes
		}
	}
	if picked := matcher.pickOptions(text, true); picked != nil {
		if slices.ContainsFunc(picked, func(n int) bool { return !matcher.hasOption(n) }) {
			return nil, "there is no such choice."
		}
		return chosenValue(f, picked)
	}
	if i := slices.Index(f.Values, text); i >= 0 {
		return chosenValue(f, []int{i + 1})
	}
	return nil, "it takes " + acceptedText(f) + ": a number, or a label that only one choice has."
}

// chosenValue returns the value of the options with these numbers. Without any, the value
// is nil.
func chosenValue(f state.Field, numbers []int) (value any, problem string) {
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	var values []string
	for _, n := range numbers {
		values = append(values, f.Values[n-1])
	}
	isList := f.Type == "array"
	switch {
	case len(values) == 0:
		return nil, ""
	case isList && isOutOfRange(f, float64(len(values))), !isList && len(values) > 1:
		return nil, "it takes " + acceptedText(f) + "."
	case isList:
		return values, ""
	case f.Type == "boolean":
		return values[0] == "true", ""
	}
	return values[0], ""
}

// formClosingText says how a form ended. It does not show the form's values.
func formClosingText(q *state.Question) string {
	switch {
	case q.ResolvedBy == "tool_end":
		return "[Cancelled] " + safeField(q.SessionName) +
			"\n\nThe server no longer waits: its call has ended."
	case q.Status != state.Resolved:
		return decisionClosingText(q)
	}
	label, _ := q.Decision()
	outcome := map[string]string{
		state.LabelAccept:  "Accepted.",
		state.LabelDecline: "Declined.",
		state.LabelCancel:  "Cancelled.",
		"":                 "It is over.",
	}[label]
	text := "[Answered] " + safeField(q.SessionName) + "\n\n" + outcome
	return strings.TrimSuffix(text+"\n\n"+answeredWhereText(q), "\n\n")
}

// formUnclearText says what is wrong with a reply to a form. It does not quote the reply.
func formUnclearText(q *state.Question, r *state.Reply) string {
	problem := ""
	switch {
	case r == nil, q.HandedOverAt != nil:
	case r.Choice != "":
		_, problem = (&Tap{Choice: r.Choice, Inputs: r.Inputs}).fillForm(q)
	default:
		_, problem = fillFormFromText(strings.TrimSpace(state.Clean(state.ForAgent, r.Text)), q)
	}
	problem = cmp.Or(problem, "That is not an answer to the form.")
	return "[Not used] " + problem + " " + howToFill(q)
}
