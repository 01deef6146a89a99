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

// asksSecret finds what a form may not ask for: the MCP specification forbids servers to
// ask for passwords, keys and the like in a form.
var asksSecret = state.LazyPattern(
	`(?i)pass ?(?:word|phrase|code|wd)|passwd|secret|credential|token|` +
		`\b(?:api|access|private|ssh|encryption)[ _-]?key|\b(?:pin|otp|cvv|cvc|ssn|2fa|mfa)\b|card[ _-]?number`,
)

const secretWarning = "Careful: this may ask for a secret. MCP servers must not ask for passwords " +
	"or keys in a form (MCP specification). What you write here stays in this chat. Decline if you are not sure."

// isLink reports whether a form is a link to open.
func isLink(q *state.Question) bool { return q.ShownText != "" }

func formPieces(q *state.Question, _, _ int) (header, text, how string) {
	parts := formParts(q)
	if isLink(q) {
		parts = append(parts, block(q.ShownText))
	}
	for i := range q.Fields {
		parts = append(parts, fieldText(q, i))
	}
	return decisionHeader(q), strings.Join(parts, "\n"), howToFill(q)
}

// formParts say whose form it is, what it is for, and at their end where a link leads.
func formParts(q *state.Question) []string {
	asks := "you to fill in a form:"
	switch {
	case isLink(q):
		asks = "you to open a link:"
	case q.IsTerminalOnly:
		asks = "for something that only the terminal shows."
	}
	parts := []string{"The MCP server " + quoted(q.About) + " asks " + asks}
	if words := Block(state.CleanForReview(state.ForReview, q.SubQuestions[0].Question)); words != "" {
		parts = append(parts, disarm(words))
	}
	if mayAskSecret(q) {
		parts = append(parts, secretWarning)
	}
	if !q.IsDialogDrawn() {
		parts = append(parts,
			`The terminal does not show it until you answer. Reply "terminal" to answer there.`)
	}
	if to, err := url.Parse(q.ShownText); err == nil && isLink(q) {
		parts = append(parts, "It leads to "+field(to.Host)+":")
	}
	return parts
}

func mayAskSecret(q *state.Question) bool {
	texts := q.SubQuestions[0].Question
	for _, f := range q.Fields {
		texts = strings.Join([]string{texts, f.Name, f.Title, f.Description, f.Format}, "\n")
	}
	return len(q.Fields) > 0 && asksSecret().MatchString(texts)
}

// quoted is a name that a server gave, of which nothing is hidden.
func quoted(name string) string {
	return `"` + closed(field(state.CleanForReview(state.ForReview, name))) + `"`
}

// fieldName is what people call a field: its number goes for it, too.
func fieldName(q *state.Question, i int) string {
	f := q.Fields[i]
	name := field(state.CleanForReview(state.ForReview, f.Name))
	if title := field(state.CleanForReview(state.ForReview, f.Title)); title != "" &&
		title != name {
		name = title + " (" + closed(name) + ")"
	}
	return fmt.Sprintf("%d. %s", i+1, name)
}

// fieldText is a field with what it takes.
func fieldText(q *state.Question, i int) string {
	f := q.Fields[i]
	takes := []string{takesText(f)}
	if f.IsRequired {
		takes = append(takes, "required")
	}
	if f.Default != nil {
		takes = append(takes, "default: "+quoted(defaultText(f)))
	}
	text := fieldName(q, i) + ": " + strings.Join(takes, "; ")
	if about := field(state.CleanForReview(state.ForReview, f.Description)); about != "" {
		text += "\n  " + about
	}
	if f.Type != "boolean" {
		for n, o := range f.Options {
			text += fmt.Sprintf("\n  %d) %s", n+1, optionText(o))
		}
	}
	return text
}

// takesText says what may be written into a field.
func takesText(f state.Field) string {
	kinds := map[string]string{
		"number": "a number", "integer": "a whole number", "boolean": "yes or no",
		"array": "one or more of these",
	}
	text := kinds[f.Type]
	switch {
	case text == "" && len(f.Options) > 0:
		text = "one of these"
	case text == "":
		text = "text"
	}
	unit := map[string]string{"string": " characters", "array": " of them"}[f.Type]
	if f.Min != nil {
		text += fmt.Sprintf(", at least %v%s", *f.Min, unit)
	}
	if f.Max != nil {
		text += fmt.Sprintf(", at most %v%s", *f.Max, unit)
	}
	if f.Format != "" {
		text += ", as " + clause(f.Format)
	}
	if f.Pattern != "" { // it is the server's to check
		text += ", of the pattern " + quoted(f.Pattern)
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
	const lines = `Reply with a line for each field that you fill in, by its name or number: "1: …"`
	const no = " Or reply decline, or cancel."
	switch {
	case q.HandedOverAt != nil:
		return answerThere(q)
	case !offers(q, state.LabelAccept):
		return "Only the terminal can accept this. Reply decline, or cancel."
	case isLink(q):
		return "gchat-hooks does not open it. If you trust the place, open it yourself. " +
			"Reply accept to tell the server that you agreed to." + no
	case slices.ContainsFunc(q.Fields, func(f state.Field) bool { return f.IsRequired }):
		return lines + "." + no
	case len(q.Fields) > 0:
		return lines + "; or with yes to leave all out." + no
	}
	return "Reply yes to accept it." + no
}

func formCard(q *state.Question, id string, size func(*Card) int) ([]string, *Card) {
	header, text, how := pieces(q, 0, 0)
	card := newCard(q, id, "")
	card.text(strings.Join(formParts(q), "\n"))
	if isLink(q) {
		card.code(block(q.ShownText))
	}
	for i, f := range q.Fields {
		card.text(fieldText(q, i))
		label := Brief(fieldName(q, i), 100)
		if len(f.Options) == 0 {
			card.field(i, label, defaultText(f))
			continue
		}
		list := &Select{Name: "q" + number1(i), Label: label, Several: f.Type == "array"}
		for n, o := range f.Options {
			list.Items = append(
				list.Items,
				Item{optionText(o), number1(n), isDefault(f, f.Values[n])},
			)
		}
		card.add(Widget{Select: list})
	}
	var buttons []Button
	for _, one := range formDecisions {
		if offers(q, one.label) {
			buttons = append(buttons, Button{one.called, one.choice})
		}
	}
	if len(buttons) < len(formDecisions) || isLink(q) {
		card.text(howToFill(q))
	}
	card.buttons(buttons...)
	if text = header + "\n\n" + text + how; size(card)+len(text) > MaxText {
		return wordsCard(q, header)
	}
	return []string{text}, card
}

// form reads a tap on a form. Its words are those of its button: they tell no value.
func (t *Tap) form(q *state.Question) (answers map[int]state.Answer, text, about string) {
	a, wrong := t.fill(q)
	if wrong != "" {
		return nil, t.Choice, state.NoteUnclear
	}
	return map[int]state.Answer{0: a}, t.Choice, ""
}

func (t *Tap) fill(q *state.Question) (a state.Answer, wrong string) {
	i := slices.IndexFunc(formDecisions, func(one decision) bool {
		return one.choice == t.Choice && offers(q, one.label)
	})
	if i < 0 {
		return a, "This form has no such button."
	}
	return decide(q, formDecisions[i].label, func(i int) (value any, wrong string) {
		f := q.Fields[i]
		if len(f.Options) == 0 {
			return read(f, t.words(i))
		}
		return tapped(f, t.Inputs["q"+number1(i)])
	})
}

// readForm reads the words of a reply to a form.
func readForm(text string, q *state.Question) (a state.Answer, about string) {
	a, wrong := fillByWords(text, q)
	if wrong != "" {
		about = state.NoteUnclear
	}
	return a, about
}

func fillByWords(text string, q *state.Question) (a state.Answer, wrong string) {
	said := map[int]string{}
	label := state.LabelAccept
	i := slices.IndexFunc(formDecisions, func(one decision) bool { return one.isSaid(text) })
	switch {
	case i >= 0:
		label = formDecisions[i].label
	case isLink(q) || len(q.Fields) == 0:
		return a, "That is not an answer to the form."
	default:
		said, wrong = linesOf(text, q)
	}
	if wrong != "" {
		return a, wrong
	}
	return decide(
		q,
		label,
		func(i int) (value any, wrong string) { return read(q.Fields[i], said[i]) },
	)
}

// linesOf cuts a reply into what it says of each field. A note must not repeat any of it:
// a value may stand where a name should.
func linesOf(text string, q *state.Question) (said map[int]string, wrong string) {
	said = map[int]string{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		at, value := -1, ""
		for end, r := range head(line, longestField) {
			if r == ':' || r == '：' {
				at, value = fieldNamed(q, line[:end]), line[end+utf8.RuneLen(r):]
			}
			if at >= 0 {
				break
			}
		}
		_, again := said[at]
		switch {
		case at < 0:
			return nil, fmt.Sprintf(
				"Line %d does not begin with the name or number of a field.",
				n,
			)
		case again:
			return nil, fmt.Sprintf("Line %d is about a field that an earlier line has.", n)
		}
		said[at] = strings.TrimSpace(value)
	}
	return said, ""
}

// fieldNamed is the one field of that number, name or title; -1 for none, and for
// several.
func fieldNamed(q *state.Question, name string) int {
	if n, _ := number(name); n > 0 && n <= len(q.Fields) {
		return n - 1
	}
	name = normal(name)
	is := func(f state.Field) bool { return name == normal(f.Name) || name == normal(f.Title) }
	first := slices.IndexFunc(q.Fields, is)
	if name == "" || first < 0 || slices.ContainsFunc(q.Fields[first+1:], is) {
		return -1
	}
	return first
}

// decide is the answer to a form with this label, and with these values where that
// accepts it. A field without one is left out, or what it is then.
func decide(q *state.Question, label string,
	valueOf func(i int) (value any, wrong string)) (a state.Answer, wrong string) {
	switch {
	case !offers(q, label):
		return a, "This form cannot be answered that way here."
	case label != state.LabelAccept:
		return state.Answer{Labels: []string{label}}, ""
	}
	values := map[string]any{}
	for i, f := range q.Fields {
		value, wrong := valueOf(i)
		switch {
		case wrong != "":
			return a, "Field " + fieldName(q, i) + ": " + wrong
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

// tapped is the value of the boxes that are ticked, nil for none.
func tapped(f state.Field, boxes []string) (value any, wrong string) {
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

// read is the value of words, nil for none.
func read(f state.Field, words string) (value any, wrong string) {
	switch {
	case words == "":
		return nil, ""
	case len(f.Options) > 0:
		return readChoice(f, words)
	case f.Type == "string":
		return words, wrongText(f, words)
	}
	n, err := strconv.ParseFloat(words, 64)
	isWhole := n == float64(int64(n))
	isNumber := err == nil && json.Valid([]byte(words)) && (isWhole || f.Type != "integer")
	if !isNumber || isOutside(f, n) {
		return nil, "it takes " + takesText(f) + "."
	}
	return json.Number(words), ""
}

// isOutside reports whether a number, of whatever a field counts, is none that it takes.
func isOutside(f state.Field, n float64) bool {
	return f.Min != nil && n < *f.Min || f.Max != nil && n > *f.Max
}

func wrongText(f state.Field, words string) string {
	length := float64(utf8.RuneCountInString(words))
	err := error(nil)
	switch f.Format {
	case "email":
		var address *mail.Address
		address, err = mail.ParseAddress(words)
		if err == nil && address.Address != words {
			err = fmt.Errorf("more than an address")
		}
	case "uri":
		var to *url.URL
		to, err = url.Parse(words)
		if err == nil && to.Scheme == "" {
			err = fmt.Errorf("no scheme")
		}
	case "date":
		_, err = time.Parse(time.DateOnly, words)
	case "date-time":
		_, err = time.Parse(time.RFC3339, words)
	}
	if err != nil || isOutside(f, length) {
		return "it takes " + takesText(f) + "."
	}
	return ""
}

// readChoice reads numbers and labels. A label that several options have needs a number.
func readChoice(f state.Field, words string) (value any, wrong string) {
	c := newChoices(state.SubQuestion{Options: f.Options, MultiSelect: f.Type == "array"})
	c.labelFirst = true
	labels := slices.Clone(c.labels)
	for i, label := range labels {
		isOne := slices.Index(labels, label) == i && !slices.Contains(labels[i+1:], label)
		if !isOne || label == "" {
			c.labels[i] = "\x00" + number1(i) // what nobody writes
		}
	}
	if picked := c.pick(words, true); picked != nil {
		if slices.ContainsFunc(picked, func(n int) bool { return !c.has(n) }) {
			return nil, "there is no such choice."
		}
		return chosenValue(f, picked)
	}
	if i := slices.Index(f.Values, words); i >= 0 {
		return chosenValue(f, []int{i + 1})
	}
	return nil, "it takes " + takesText(f) + ": a number, or a label that only one choice has."
}

// chosenValue is the value of the chosen options, nil for none.
func chosenValue(f state.Field, numbers []int) (value any, wrong string) {
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	var values []string
	for _, n := range numbers {
		values = append(values, f.Values[n-1])
	}
	isList := f.Type == "array"
	isWrong := isList && isOutside(f, float64(len(values))) || !isList && len(values) > 1
	switch {
	case len(values) == 0:
		return nil, ""
	case isWrong:
		return nil, "it takes " + takesText(f) + "."
	case isList:
		return values, ""
	case f.Type == "boolean":
		return values[0] == "true", ""
	}
	return values[0], ""
}

// formClosed says how a form ended, and none of its values.
func formClosed(q *state.Question) string {
	switch {
	case q.ResolvedBy == "tool_end":
		return "[Cancelled] " + field(
			q.SessionName,
		) + "\n\nThe server no longer waits: its call has ended."
	case q.Status != state.Resolved:
		return decisionClosed(q)
	}
	label, _ := q.Decision()
	ended := map[string]string{
		state.LabelAccept: "Accepted.", state.LabelDecline: "Declined.",
		state.LabelCancel: "Cancelled.", "": "It is over.",
	}[label]
	text := "[Answered] " + field(q.SessionName) + "\n\n" + ended
	if where := answeredWhere(q); where != "" {
		text += "\n\n" + where
	}
	return text
}

// formUnclear says what is wrong with a reply, and quotes nothing of it.
func formUnclear(q *state.Question, r *state.Reply) string {
	wrong := ""
	switch {
	case r == nil || q.HandedOverAt != nil:
	case r.Choice != "":
		_, wrong = (&Tap{Choice: r.Choice, Inputs: r.Inputs}).fill(q)
	default:
		_, wrong = fillByWords(strings.TrimSpace(state.Clean(state.ForAgent, r.Text)), q)
	}
	return strings.TrimSpace(
		"[Not used] " + cmp.Or(wrong, "That is not an answer to the form.") + " " + howToFill(q),
	)
}
