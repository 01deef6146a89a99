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

// A form of an MCP server is answered as a whole, or not at all: a reply that has
// something wrong in it counts for nothing. Values stand in Notes, beside the label, as
// the JSON that the server gets. No note repeats anything of them.

// formDecisions are the answers to a form, what a button carries for each, and the words
// for it.
var formDecisions = []decision{
	{state.LabelAccept, state.LabelAccept, "accept", []string{"accept", "yes", "y"}},
	{state.LabelDecline, state.LabelDecline, "decline", []string{"decline", "no", "n"}},
	{state.LabelCancel, state.LabelCancel, "cancel", []string{"cancel"}},
}

// secretPattern finds what a form may not ask for: the MCP specification forbids servers
// to ask for passwords, keys and the like in a form.
var secretPattern = state.LazyPattern(
	`(?i)pass ?(?:word|phrase|code|wd)|passwd|secret|credential|token|` +
		`\b(?:api|access|private|ssh|encryption)[ _-]?key|\b(?:pin|otp|cvv|cvc|ssn|2fa|mfa)\b|card[ _-]?number`,
)

const secretWarning = "Careful: this may ask for a secret. MCP servers must not ask for passwords " +
	"or keys in a form (MCP specification). What you write here stays in this chat. Decline if you are not sure."

// isLink reports whether a form is a link to open.
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

// formIntro say whose form it is, what it is for, and at their end where a link leads.
func formIntro(q *state.Question) []string {
	request := "you to fill in a form:"
	switch {
	case isLink(q):
		request = "you to open a link:"
	case q.IsTerminalOnly:
		request = "for something that only the terminal shows."
	}
	parts := []string{"The MCP server " + quotedName(q.About) + " asks " + request}
	if message := SafeBlock(state.CleanForReview(state.ForReview, q.SubQuestions[0].Question)); message != "" {
		parts = append(parts, disarm(message))
	}
	if mayAskSecret(q) {
		parts = append(parts, secretWarning)
	}
	if !q.IsDialogDrawn() {
		parts = append(parts,
			`The terminal does not show it until you answer. Reply "terminal" to answer there.`)
	}
	if link, err := url.Parse(q.ShownText); err == nil && isLink(q) {
		parts = append(parts, "It leads to "+safeField(link.Host)+":")
	}
	return parts
}

func mayAskSecret(q *state.Question) bool {
	texts := q.SubQuestions[0].Question
	for _, f := range q.Fields {
		texts = strings.Join([]string{texts, f.Name, f.Title, f.Description, f.Format}, "\n")
	}
	return len(q.Fields) > 0 && secretPattern().MatchString(texts)
}

// quotedName is a name that a server gave, of which nothing is hidden.
func quotedName(name string) string {
	return `"` + neutraliseLastAngle(safeField(state.CleanForReview(state.ForReview, name))) + `"`
}

// fieldName is what people call a field: its number goes for it, too.
func fieldName(q *state.Question, i int) string {
	f := q.Fields[i]
	name := safeField(state.CleanForReview(state.ForReview, f.Name))
	if title := safeField(state.CleanForReview(state.ForReview, f.Title)); title != "" &&
		title != name {
		name = title + " (" + neutraliseLastAngle(name) + ")"
	}
	return fmt.Sprintf("%d. %s", i+1, name)
}

// fieldText is a field with what it takes.
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
	if about := safeField(state.CleanForReview(state.ForReview, formField.Description)); about != "" {
		text += "\n  " + about
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
		"number": "a number", "integer": "a whole number", "boolean": "yes or no",
		"array": "one or more of these",
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
	if formField.Pattern != "" { // it is the server's to check
		text += ", of the pattern " + quotedName(formField.Pattern)
	}
	return text
}

// isDefault reports whether an empty field means this value of an option.
func isDefault(f state.Field, value string) bool {
	var several []string
	_ = json.Unmarshal(f.Default, &several)
	return slices.Contains(several, value) || f.Default != nil && defaultText(f) == value
}

// defaultText is what an empty field means, as a person writes it.
func defaultText(f state.Field) string {
	var text string
	if json.Unmarshal(f.Default, &text) == nil {
		return text
	}
	return string(f.Default)
}

func howToFill(q *state.Question) string {
	const linesHint = `Reply with a line for each field that you fill in, by its name or number: "1: …"`
	const declineHint = " Or reply decline, or cancel."
	switch {
	case q.HandedOverAt != nil:
		return inTerminalText(q)
	case !isOffered(q, state.LabelAccept):
		return "Only the terminal can accept this. Reply decline, or cancel."
	case isLink(q):
		return "gchat-hooks does not open it. If you trust the place, open it yourself. " +
			"Reply accept to tell the server that you agreed to." + declineHint
	case slices.ContainsFunc(q.Fields, func(f state.Field) bool { return f.IsRequired }):
		return linesHint + "." + declineHint
	case len(q.Fields) > 0:
		return linesHint + "; or with yes to leave all out." + declineHint
	}
	return "Reply yes to accept it." + declineHint
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
			card.addField(i, label, defaultText(f))
			continue
		}
		list := &Select{Name: "q" + ordinal(i), Label: label, AllowsSeveral: f.Type == "array"}
		for n, o := range f.Options {
			list.Items = append(
				list.Items,
				Item{optionText(o), ordinal(n), isDefault(f, f.Values[n])},
			)
		}
		card.addWidget(Widget{Select: list})
	}
	var buttons []Button
	for _, candidate := range formDecisions {
		if isOffered(q, candidate.label) {
			buttons = append(buttons, Button{candidate.buttonText, candidate.choice})
		}
	}
	if len(buttons) < len(formDecisions) || isLink(q) {
		card.addText(howToFill(q))
	}
	card.addButtons(buttons...)
	if text = header + "\n\n" + text + instructions; cardSize(card)+len(text) > MaxText {
		return tooLargeCard(q, header)
	}
	return []string{text}, card
}

// readForm reads a tap on a form. Its words are those of its button: they tell no value.
func (t *Tap) readForm(q *state.Question) (answers map[int]state.Answer, text, note string) {
	a, problem := t.fillForm(q)
	if problem != "" {
		return nil, t.Choice, state.NoteUnclear
	}
	return map[int]state.Answer{0: a}, t.Choice, ""
}

func (t *Tap) fillForm(q *state.Question) (answer state.Answer, problem string) {
	i := slices.IndexFunc(formDecisions, func(candidate decision) bool {
		return candidate.choice == t.Choice && isOffered(q, candidate.label)
	})
	if i < 0 {
		return answer, "This form has no such button."
	}
	return formAnswer(q, formDecisions[i].label, func(i int) (value any, problem string) {
		f := q.Fields[i]
		if len(f.Options) == 0 {
			return readValue(f, t.ownText(i))
		}
		return readTickedValue(f, t.Inputs["q"+ordinal(i)])
	})
}

// readForm reads the words of a reply to a form.
func readForm(text string, q *state.Question) (a state.Answer, note string) {
	a, problem := fillFormFromText(text, q)
	if problem != "" {
		note = state.NoteUnclear
	}
	return a, note
}

func fillFormFromText(text string, q *state.Question) (a state.Answer, problem string) {
	valueTexts := map[int]string{}
	label := state.LabelAccept
	i := slices.IndexFunc(
		formDecisions,
		func(candidate decision) bool { return candidate.matches(text) },
	)
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
	return formAnswer(
		q,
		label,
		func(i int) (value any, problem string) { return readValue(q.Fields[i], valueTexts[i]) },
	)
}

// splitFieldLines cuts a reply into what it says of each field. A note must not repeat
// any of it: a value may stand where a name should.
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
			return nil, fmt.Sprintf(
				"Line %d does not begin with the name or number of a field.",
				lineNumber,
			)
		case isRepeated:
			return nil, fmt.Sprintf(
				"Line %d is about a field that an earlier line has.",
				lineNumber,
			)
		}
		valueTexts[fieldIndex] = strings.TrimSpace(value)
	}
	return valueTexts, ""
}

// findField is the one field of that number, name or title; -1 for none, and for
// several.
func findField(q *state.Question, name string) int {
	if n, _ := readNumber(name); n > 0 && n <= len(q.Fields) {
		return n - 1
	}
	name = normalise(name)
	matches := func(f state.Field) bool { return name == normalise(f.Name) || name == normalise(f.Title) }
	first := slices.IndexFunc(q.Fields, matches)
	if name == "" || first < 0 || slices.ContainsFunc(q.Fields[first+1:], matches) {
		return -1
	}
	return first
}

// formAnswer is the answer to a form with this label, and with these values where that
// accepts it. A field without one is left out, or what it is then.
func formAnswer(q *state.Question, label string,
	valueOf func(i int) (value any, problem string)) (a state.Answer, problem string) {
	switch {
	case !isOffered(q, label):
		return a, "This form cannot be answered that way here."
	case label != state.LabelAccept:
		return state.Answer{Labels: []string{label}}, ""
	}
	values := map[string]any{}
	for i, f := range q.Fields {
		value, problem := valueOf(i)
		switch {
		case problem != "":
			return a, "Field " + fieldName(q, i) + ": " + problem
		case value != nil:
			values[f.Name] = value
		case f.Default != nil:
			values[f.Name] = f.Default
		case f.IsRequired:
			return a, "Field " + fieldName(q, i) + ": it is required."
		}
	}
	b, err := json.Marshal(values)
	if err != nil {
		return a, "Its default value is not valid."
	}
	return state.Answer{Labels: []string{label}, Notes: string(b)}, ""
}

// readTickedValue is the value of the boxes that are ticked, nil for none.
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

// readValue is the value of words, nil for none.
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

// isOutOfRange reports whether a number, of whatever a field counts, is none that it
// takes.
func isOutOfRange(f state.Field, n float64) bool {
	return f.Min != nil && n < *f.Min || f.Max != nil && n > *f.Max
}

func textProblem(f state.Field, text string) string {
	length := float64(utf8.RuneCountInString(text))
	err := error(nil)
	switch f.Format {
	case "email":
		var address *mail.Address
		address, err = mail.ParseAddress(text)
		if err == nil && address.Address != text {
			err = fmt.Errorf("more than an address")
		}
	case "uri":
		var link *url.URL
		link, err = url.Parse(text)
		if err == nil && link.Scheme == "" {
			err = fmt.Errorf("no scheme")
		}
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	}
	if err != nil || isOutOfRange(f, length) {
		return "it takes " + acceptedText(f) + "."
	}
	return ""
}

// readChosenValue reads numbers and labels. A label that several options have needs a
// number.
func readChosenValue(f state.Field, text string) (value any, problem string) {
	matcher := newOptionMatcher(
		state.SubQuestion{Options: f.Options, MultiSelect: f.Type == "array"},
	)
	matcher.prefersLabels = true
	labels := slices.Clone(matcher.labels)
	for i, label := range labels {
		isUnique := slices.Index(labels, label) == i && !slices.Contains(labels[i+1:], label)
		if !isUnique || label == "" {
			matcher.labels[i] = "\x00" + ordinal(i) // what nobody writes
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

// chosenValue is the value of the chosen options, nil for none.
func chosenValue(f state.Field, numbers []int) (value any, problem string) {
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	var values []string
	for _, n := range numbers {
		values = append(values, f.Values[n-1])
	}
	isList := f.Type == "array"
	isWrong := isList && isOutOfRange(f, float64(len(values))) || !isList && len(values) > 1
	switch {
	case len(values) == 0:
		return nil, ""
	case isWrong:
		return nil, "it takes " + acceptedText(f) + "."
	case isList:
		return values, ""
	case f.Type == "boolean":
		return values[0] == "true", ""
	}
	return values[0], ""
}

// formClosingText says how a form ended, and none of its values.
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
		state.LabelAccept: "Accepted.", state.LabelDecline: "Declined.",
		state.LabelCancel: "Cancelled.", "": "It is over.",
	}[label]
	text := "[Answered] " + safeField(q.SessionName) + "\n\n" + outcome
	if where := answeredWhereText(q); where != "" {
		text += "\n\n" + where
	}
	return text
}

// formUnclearText says what is wrong with a reply, and quotes nothing of it.
func formUnclearText(q *state.Question, r *state.Reply) string {
	problem := ""
	switch {
	case r == nil || q.HandedOverAt != nil:
	case r.Choice != "":
		_, problem = (&Tap{Choice: r.Choice, Inputs: r.Inputs}).fillForm(q)
	default:
		_, problem = fillFormFromText(strings.TrimSpace(state.Clean(state.ForAgent, r.Text)), q)
	}
	return strings.TrimSpace(
		"[Not used] " + cmp.Or(problem, "That is not an answer to the form.") + " " + howToFill(q),
	)
}
