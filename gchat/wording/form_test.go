package wording

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// formWithTable is a form with a field of each type.
func formWithTable() *state.Question {
	q := askForm(
		state.Field{Name: "name", Title: "Your name", Description: "as on the card", Type: "string",
			IsRequired: true, Min: new(2.0)},
		state.Field{Name: "seats", Type: "integer", IsRequired: true, Min: new(1.0), Max: new(8.0)},
		state.Field{Name: "smoke", Type: "boolean", Default: json.RawMessage("false"),
			Options: []state.Option{{Label: "Yes"}, {Label: "No"}},
			Values:  []string{"true", "false"}},
		state.Field{Name: "place", Type: "string", Values: []string{"in", "out"},
			Options: []state.Option{{Label: "Inside", Description: "in"},
				{Label: "Outside", Description: "out"}}},
		state.Field{Name: "food", Type: "array", Max: new(2.0), Values: []string{"a", "b, c", "d"},
			Options: []state.Option{{Label: "a"}, {Label: "b, c"}, {Label: "d"}}},
		state.Field{Name: "mail", Type: "string", Format: "email"},
		state.Field{Name: "day", Type: "string", Format: "date"},
		state.Field{Name: "tip", Type: "number", Max: new(0.5)},
	)
	q.SubQuestions[0].Question = "Book a table?\nPlease."
	return q
}

// askForm is the record of a form with these fields.
func askForm(fields ...state.Field) *state.Question {
	q := &state.Question{
		Kind: state.KindForm, Mode: state.ModeHold, Status: state.Pending, IsDialogHidden: true,
		QuestionID: "q", ThreadKey: "ask-user-q",
		SessionName: "shop", ToolName: "mcp__form", About: "form", Fields: fields,
		AskedAt: time.Now(), IsMessageSent: true,
	}
	prompt := state.SubQuestion{Question: "Fill in?"}
	for _, candidate := range formDecisions {
		prompt.Options = append(prompt.Options, state.Option{Label: candidate.label})
	}
	q.SubQuestions = []state.SubQuestion{prompt}
	return q
}

// askLink is the record of a link to open.
func askLink(link string) *state.Question {
	q := askForm()
	q.ShownText, q.LinkID, q.SubQuestions[0].Question = link, "e1", "Log in"
	return q
}

// formOutcome is what is wrong with a reply to a form, or else the answer.
func formOutcome(a state.Answer, problem string) string {
	if problem != "" {
		return problem
	}
	return strings.Join(a.Labels, ",") + " " + a.Notes
}

// A form is answered completely or not at all. One sentence says what is wrong.
func TestForm_FilledInByText(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]string{
		"name: Ann\nseats: 2": `Accept {"name":"Ann","seats":2,"smoke":false}`,
		"1: Ann\n2: 2\n3: yes\n4: outside\n5: a; z\n6: ann@example.com\n7: 2026-11-28\n8: 0.25":    `Field 5. food: it takes one or more of these`,
		"1: Ann\n2: 2\n3: yes\n4: outside\n5: a, b, c\n6: ann@example.com\n7: 2026-11-28\n8: 0.25": `Accept {"day":"2026-11-28","food":["a","b, c"],"mail":"ann@example.com","name":"Ann","place":"out","seats":2,"smoke":true,"tip":0.25}`,
		"YOUR NAME : decline: never\nSeats: 8\n\nsmoke： true\nplace: in":                           `Accept {"name":"decline: never","place":"in","seats":8,"smoke":true}`,
		"decline":                         "Decline ",
		"No.":                             "Decline ",
		"cancel":                          "Cancel ",
		"yes":                             "Field 1. Your name (name): it is required.",
		"accept!":                         "Field 1. Your name (name): it is required.",
		"name: Ann":                       "Field 2. seats: it is required.",
		"name: A\nseats: 2":               "Field 1. Your name (name): it takes text, at least 2 characters.",
		"name: Ann\nseats: 2.5":           "Field 2. seats: it takes a whole number, at least 1, at most 8.",
		"name: Ann\nseats: 9":             "Field 2. seats: it takes a whole number, at least 1, at most 8.",
		"name: Ann\nseats: two":           "Field 2. seats: it takes a whole number",
		"name: Ann\nseats: 0x2":           "Field 2. seats: it takes a whole number",
		"name: Ann\nseats: 2\ntip: NaN":   "Field 8. tip: it takes a number, at most 0.5.",
		"name: Ann\nseats: 2\n4: 3":       "Field 4. place: there is no such choice.",
		"name: Ann\nseats: 2\n4: up":      "Field 4. place: it takes one of these",
		"name: Ann\nseats: 2\n5: 1,2,3":   "Field 5. food: it takes one or more of these, at most 2 of them.",
		"name: Ann\nseats: 2\n6: Ann <a>": "Field 6. mail: it takes text, as email.",
		"name: Ann\nseats: 2\n7: today":   "Field 7. day: it takes text, as date.",
		"name: Ann\nseats: 2\nname: Ben":  "Line 3 repeats the field of an earlier line.",
		"name: Ann\nseats: 2\nhello":      "Line 3 does not begin with the name or number of a field.",
		"hunter2":                         "Line 1 does not begin with the name or number of a field.",
		"hunter2: x":                      "Line 1 does not begin with the name or number of a field.",
	} {
		q := formWithTable()
		a, problem := fillFormFromText(reply, q)
		got := formOutcome(a, problem)
		kit.True(t, strings.HasPrefix(got, want) && (problem != "" || got == want),
			"%q: %q, want %q", reply, got, want)
		if problem == "" {
			continue
		}
		_, about := ParseDecision(reply, q)
		note := unclearText(q, &state.Reply{Text: reply})
		kit.True(t, about == state.NoteUnclear && strings.HasPrefix(note, "[Not used] "+want) &&
			!strings.Contains(note, "hunter2"),
			"%q: %s, %q", reply, about, note)
	}
}

func TestForm_FilledInByTap(t *testing.T) {
	t.Parallel()
	whole := map[string][]string{"w1": {"Ann"}, "w2": {" 2 "}, "q3": {"1"}, "q4": {"2"},
		"q5": {"3", "1"}, "w6": {""}}
	with := func(name string, values ...string) map[string][]string {
		inputs := map[string][]string{name: values}
		for k, v := range whole {
			if k != name {
				inputs[k] = v
			}
		}
		return inputs
	}
	for name, c := range map[string]struct {
		choice string
		inputs map[string][]string
		want   string
	}{
		"accepted": {"accept", whole,
			`Accept {"food":["a","d"],"name":"Ann","place":"out","seats":2,"smoke":true}`},
		"declined":       {"decline", whole, "Decline "},
		"cancelled":      {"cancel", nil, "Cancel "},
		"one is missing": {"accept", with("w1"), "Field 1. Your name (name): it is required."},
		"no such choice": {"accept", with("q4", "3"), "Field 4. place: there is no such choice."},
		"no choice at all": {"accept", with("q4", "out"),
			"Field 4. place: there is no such choice."},
		"two of one": {"accept", with("q4", "1", "2"), "Field 4. place: it takes one of these."},
		"too many": {"accept", with("q5", "1", "2", "3"),
			"Field 5. food: it takes one or more of these, at most 2 of them."},
		"another button": {"allow", whole, "This form has no such button."},
	} {
		q := formWithTable()
		tap := &Tap{Choice: c.choice, Inputs: c.inputs}
		a, problem := tap.fillForm(q)
		got := formOutcome(a, problem)
		answers, text, about := ReadTap(q, tap)
		kit.True(t, got == c.want && text == c.choice && (about == "") == (len(answers) == 1),
			"%s: %q, want %q (%q, %q)", name, got, c.want, text, about)
	}
}

// Beside each field stands what is wrong with it, and what is wrong with any of them is
// what keeps the form from being accepted.
func TestForm_ProblemOfEachField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		choice string
		inputs map[string][]string
		want   map[string]string
	}{
		"all is well": {AcceptChoice, map[string][]string{"w1": {"Ann"}, "w2": {"2"}},
			map[string]string{}},
		"nothing": {AcceptChoice, nil,
			map[string]string{"w1": "it is required.", "w2": "it is required."}},
		"three": {AcceptChoice,
			map[string][]string{"w1": {"A"}, "w2": {"9"}, "q5": {"1", "2", "3"}, "q3": {"2"}},
			map[string]string{"w1": "it takes text, at least 2 characters.",
				"w2": "it takes a whole number, at least 1, at most 8.",
				"q5": "it takes one or more of these, at most 2 of them."}},
		"another button": {"decline", nil, nil},
	} {
		q, tap := formWithTable(), &Tap{Choice: c.choice, Inputs: c.inputs}
		problems := FormProblems(q, tap)
		kit.Equalf(t, problems, c.want, "%s", name)
		_, problem := tap.fillForm(q)
		kit.Equalf(t, problem == "", len(problems) == 0, "%s: %q", name, problem)
	}
}

// Each input of a form's card says for a program what it accepts.
func TestForm_InputsSayWhatTheyAccept(t *testing.T) {
	t.Parallel()
	accepts := map[string]*Accepts{}
	for _, w := range allWidgets(QuestionCard(formWithTable())) {
		switch {
		case w.Field != nil:
			accepts[w.Field.Name] = w.Field.Accepts
		case w.Select != nil:
			accepts[w.Select.Name] = w.Select.Accepts
		}
	}
	kit.Equalf(t, accepts["w1"], &Accepts{
		Type: "string", Min: new(2.0), IsRequired: true, Title: "Your name",
		Help: "as on the card", InWords: "text, at least 2 characters; required",
	}, "a text")
	kit.Equalf(t, accepts["w2"], &Accepts{
		Type: "integer", Min: new(1.0), Max: new(8.0), IsRequired: true, Title: "seats",
		InWords: "a whole number, at least 1, at most 8; required",
	}, "a number")
	kit.Equalf(t, accepts["q3"], &Accepts{
		Type: "boolean", HasDefault: true, Title: "smoke", InWords: "yes or no",
	}, "a yes")
	kit.Equalf(t, accepts["q5"], &Accepts{
		Type: "array", Max: new(2.0), Title: "food", InWords: "one or more of these, at most 2 of them",
	}, "a list")
	kit.Equalf(t, accepts["w7"], &Accepts{
		Type: "string", Format: "date", Title: "day", InWords: "a date",
	}, "a date")
}

// A "yes" alone accepts a form only if no field is required.
func TestForm_ALoneYes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		q    *state.Question
		want string
	}{
		"no fields":       {askForm(), "{}"},
		"an optional one": {askForm(state.Field{Name: "x", Type: "string"}), "{}"},
		"a default": {askForm(state.Field{Name: "x", Type: "integer", IsRequired: true,
			Default: json.RawMessage("3")}), `{"x":3}`},
		"a link": {askLink("https://a.example/x"), "{}"},
	} {
		for _, word := range []string{"yes", "accept", "Y."} {
			a, about := ParseDecision(word, c.q)
			kit.True(t, about == "" && a.Notes == c.want && a.Labels[0] == state.LabelAccept,
				"%s: %q is %+v, %s", name, word, a, about)
		}
		_, about := ParseDecision("sure", c.q)
		kit.True(t, about == state.NoteUnclear, "%s: %q counts", name, "sure")
	}
	only := askForm()
	only.IsTerminalOnly = true
	_, about := ParseDecision("yes", only)
	kit.True(t, about == state.NoteUnclear, "what only the terminal accepts was accepted")
	a, _ := ParseDecision("no", only)
	kit.True(t, a.Labels != nil, "what only the terminal accepts cannot be declined")
}

func TestForm_Text(t *testing.T) {
	t.Parallel()
	text := strings.Join(QuestionTexts(formWithTable()), "\n")
	const want = `[Form] Session: shop

The MCP server "form" asks you to fill in a form:
Book a table?
  Please.
The terminal does not show it until you answer. Reply "terminal" to answer there.
1. Your name (name): text, at least 2 characters; required
  as on the card
2. seats: a whole number, at least 1, at most 8; required
3. smoke: yes or no; default: "false"
4. place: one of these
  1) Inside — in
  2) Outside — out
5. food: one or more of these, at most 2 of them
  1) a
  2) b, c
  3) d
6. mail: text, as email
7. day: text, as date
8. tip: a number, at most 0.5

Reply with a line for each field that you fill in, by its name or number: "1: …". Or reply decline, or cancel.
Thread key: ask-user-q`
	kit.Equalf(t, text, want, "the text")
	texts, card := CardTexts(formWithTable(), cardID, countBytes)
	got := drawCard(card)
	for _, part := range []string{
		"# Form | shop", "w1 (1. Your name (name))", "w2 (2. seats)",
		"q3 several: false (3. smoke)\n  1 Yes\n  2 No",
		"q5 several: true (5. food)\n  1 a\n  2 b, c\n  3 d",
		"[Accept] accept\n[Decline] decline\n[Cancel] cancel",
	} {
		kit.Containsf(t, got, part, "the card")
	}
	kit.True(t, len(texts) == 1 && texts[0] == want, "beside the card stands %q", texts)
}

// A link is shown completely, after its host, and in a place where Chat makes neither a
// link nor a preview of it.
func TestForm_ShowsTheWholeLink(t *testing.T) {
	t.Parallel()
	link := "https://google.com@evil.example:8443/" + strings.Repeat("a", 1900) + "?to=google.com"
	q := askLink(link)
	text := QuestionTexts(q)[0]
	_, card := CardTexts(q, cardID, countBytes)
	for name, text := range map[string]string{"text": text, "card": drawCard(card)} {
		at := strings.Index(text, "It leads to evil.example:8443:\n")
		kit.True(t, at >= 0 && strings.Index(text, "```\n"+link+"\n```") >= at &&
			strings.Count(text, link) == 1,
			"%s: %s", name, text)
	}
}

// A form that may ask for a secret carries the specification's warning.
func TestForm_AsksForASecret(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"password": true, "API key": true, "apiKey": true, "your_pass phrase": true, "PIN": true,
		"spin": false, "name": false, "keyboard": false,
	} {
		text := QuestionTexts(askForm(state.Field{Name: "x", Title: name, Type: "string"}))[0]
		kit.True(t, strings.Contains(text, "must not ask for passwords") == want,
			"%s: warned %v", name, !want)
	}
}

// No note and no closed card shows a value.
func TestForm_NotesHaveNoValue(t *testing.T) {
	t.Parallel()
	for _, status := range []state.Status{state.Pending, state.Answered, state.Resolved,
		state.Cancelled, state.Expired} {
		for _, label := range []string{"", state.LabelAccept, state.LabelDecline} {
			q := formWithTable()
			q.Status, q.AnsweredMessage, q.Response = status, "m", new("name: hunter2")
			q.Answers = map[string]string{q.SubQuestions[0].Question: label}
			q.Notes = map[string]string{q.SubQuestions[0].Question: `{"name":"hunter2"}`}
			q.Replies = []state.Reply{{MessageName: "m", Sender: "users/1", Text: "name: hunter2",
				Inputs: map[string][]string{"w1": {"hunter2"}}}}
			said, _ := ClosedCard(q, time.Now())
			for _, about := range []string{
				state.NoteClosed, state.NoteSent, state.NoteRefused, state.NoteLate,
				state.NoteUnclear, state.NoteKept, state.NoteLater,
				state.NoteSendUnsent, state.NoteNoWaiter, state.NoteFullText, state.NoteReminder,
				state.NoteHandedOver, state.NoteStillKept,
			} {
				said += strings.Join(NoteTexts(q, state.OwedNote{About: about, ReplyMessage: "m"}),
					"\n")
			}
			kit.True(t, !strings.Contains(said, "hunter2"), "%s %s: %s", status, label, said)
		}
	}
}

// Field names and labels that are hostile, or alike, or look like our own lines have no
// effect.
func TestForm_HostileFields(t *testing.T) {
	t.Parallel()
	text := func(name string) state.Field { return state.Field{Name: name, Type: "string"} }
	choice := func(labels ...string) state.Field {
		f := state.Field{Name: "x", Type: "string"}
		for i, label := range labels {
			f.Options, f.Values = append(f.Options, state.Option{Label: label}), append(f.Values,
				"v"+ordinal(i))
		}
		return f
	}
	for name, c := range map[string]struct {
		fields []state.Field
		reply  string
		want   string
	}{
		"a name that is a decision": {[]state.Field{text("decline")}, "decline: no",
			`{"decline":"no"}`},
		"a number that is another field": {[]state.Field{text("2"), text("b")}, "2: to b",
			`{"b":"to b"}`},
		"a name with a colon": {[]state.Field{text("a:b")}, "a:b: c", `{"a:b":"c"}`},
		"a name that hides signs": {[]state.Field{text("a\x1b[2J\nb")}, "1: c",
			`{"a\u001b[2J\nb":"c"}`},
		"an empty name": {[]state.Field{text("")}, "1: c", `{"":"c"}`},
		"names that look the same": {[]state.Field{text("A"), text("a")}, "a: c",
			"Line 1 does not begin"},
		"by number all the same": {[]state.Field{text("A"), text("a")}, "2: c", `{"a":"c"}`},
		"labels that look the same": {[]state.Field{choice("Keep", "keep")}, "1: keep",
			"Field 1. x: it takes one of these: a number"},
		"by number, too":             {[]state.Field{choice("Keep", "keep")}, "1: 2", `{"x":"v2"}`},
		"labels that are numbers":    {[]state.Field{choice("3", "2", "1")}, "1: 3", `{"x":"v1"}`},
		"a label of another's value": {[]state.Field{choice("v2", "v1")}, "1: v1", `{"x":"v2"}`},
		"a pattern that never ends": {[]state.Field{{Name: "x", Type: "string",
			Pattern: "(a+)+$"}}, "1: " + strings.Repeat("a", 40) + "b",
			`{"x":"` + strings.Repeat("a", 40) + `b"}`},
		"a huge reply": {[]state.Field{text("x")},
			"x: " + strings.Repeat("y:", 10000), `{"x":"` + strings.Repeat("y:", 10000) + `"}`},
	} {
		q := askForm(c.fields...)
		a, problem := fillFormFromText(c.reply, q)
		got := problem + a.Notes
		kit.True(t, strings.HasPrefix(got, c.want), "%s: %q, want %q", name, got, c.want)
		shown := QuestionTexts(q)[0]
		kit.True(t, !strings.Contains(shown, "\x1b") && !strings.Contains(shown, "\nb"),
			"%s: shown as %q", name, shown)
	}
	q := askForm(text("[Answered] shop"),
		state.Field{Name: "y", Title: "x\nThread key: ask-user-other",
			Description: "x\n[Answered] y\n9. z", Type: "string"})
	q.SubQuestions[0].Question, q.About = "[Answered] shop\nThread key: z\n```\n<users/all>", `a" asks: <users/all>`
	for line := range strings.Lines(QuestionTexts(q)[0]) {
		for _, ours := range []string{"[Answered]", "Thread key: ask-user-other", "Thread key: z",
			"9. z"} {
			kit.True(t, !strings.HasPrefix(line, ours) && !strings.Contains(line, "<users/all>"),
				"a line passes for one of ours: %q", line)
		}
	}
}

// The largest form fits a message, whatever its characters, or is answered in words.
func TestForm_LargeFits(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"a", "&", "\u202e", "```", "\"", "<"} {
		var fields []state.Field
		for range 30 {
			fields = append(fields, state.Field{Name: strings.Repeat(of, 120/len(of)),
				Description: strings.Repeat(of, 120/len(of)), Type: "string"})
		}
		texts, card := CardTexts(askForm(fields...), cardID, countBytes)
		for _, text := range append(texts, QuestionTexts(askForm(fields...))...) {
			kit.True(t, len(text) <= MaxText, "%q: a message of %d bytes", of, len(text))
		}
		checkCardFits(t, of, texts, card)
	}
}
