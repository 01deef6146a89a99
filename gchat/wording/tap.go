package wording

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gchat-hooks/state"
)

// Tap is what a card tells of a tap on it. All of it is what the sender's program sent:
// it says what was tapped, and not who may.
type Tap struct {
	Question string // what the card carries for its question: see state.CardID
	// which machine's card it is: see App.CardID; "" of an earlier version's card
	Machine string
	Choice  string              // which button it was
	Inputs  map[string][]string // what its fields and boxes held, by name
	// the card still had that button when Chat told of the tap, as far as that is known
	Stands bool
}

// What people are told in a note.
const (
	OldCardText = "[Not used] This card is closed, or its machine is not running."
	UnboundText = "[Not used] Nothing here is waiting for that. To answer, tap a button, or reply to the message itself."
)

// What the buttons of a card say beside the numbers of options and the choices of
// decisions.
const (
	ChoiceSend = "send" // what its fields and boxes hold
	choiceMore = "more" // all of a permission is to be shown
)

// number1 is an index as the names and values in a card count it.
func number1(index int) string { return strconv.Itoa(index + 1) }

// ReadTap says what a tap answers, by index into the question's prompts, without what was
// answered before; and text, how a person types the same. A tap that turns a question
// down has a text alone. Where it answers nothing else, about is the note for that. A tap
// is not to be trusted: labels come from the record, and a number that no option has is
// refused.
func ReadTap(q *state.Question, t *Tap) (answers map[int]state.Answer, text, about string) {
	return mannerOf(q.Kind).tap(t, q)
}

func (t *Tap) instruction(q *state.Question) (answers map[int]state.Answer, text, about string) {
	words := t.words(0)
	switch {
	case t.Choice != ChoiceSend:
		return nil, "", state.NoteUnclear
	case words == "":
		return nil, "", state.NoteNoText
	}
	a, about := ParseDecision(words, q)
	if about != "" {
		return nil, words, about
	}
	return map[int]state.Answer{0: a}, a.Text, ""
}

// decision reads a tap on a permission or a plan. A "no" takes the person's words as its
// reason.
func (t *Tap) decision(q *state.Question) (answers map[int]state.Answer, text, about string) {
	if t.Choice == choiceMore && q.Kind == state.KindPermission {
		return nil, choiceMore, state.NoteFullText
	}
	for _, one := range decisions {
		if one.choice != t.Choice || !offers(q, one.label) {
			continue
		}
		a := state.Answer{Labels: []string{one.label}}
		if state.IsRefusal(one.label) {
			a.Notes = t.words(0)
			said, _ := ParseDecision(a.Notes, q)
			if slices.Equal(said.Labels, a.Labels) { // "no, use git mv" beside Deny
				a.Notes = said.Notes
			}
		}
		text = one.words[0]
		if a.Notes != "" {
			text += ", " + a.Notes
		}
		return map[int]state.Answer{0: a}, text, ""
	}
	return nil, "", state.NoteUnclear
}

// answers reads a tap on a question: the button of an option, one that turns it down, or
// Send with what was chosen and written for each prompt.
func (t *Tap) answers(q *state.Question) (answers map[int]state.Answer, text, about string) {
	switch t.Choice {
	case state.DeclinedChat:
		_, words, _ := ReadTap(q, &Tap{Choice: ChoiceSend, Inputs: t.Inputs})
		return nil, strings.TrimSuffix("chat about this: "+words, ": "), ""
	case state.DeclinedSkip:
		return nil, t.Choice, ""
	}
	several := len(q.SubQuestions) != 1
	if t.Choice != ChoiceSend && (several || q.SubQuestions[0].MultiSelect) {
		return nil, "", state.NoteUnclear // its card has no such button
	}
	answers = map[int]state.Answer{}
	beside, remark := map[int]string{}, ""
	for _, part := range newReply(t.said(besideAll), q.SubQuestions, q.PartialAnswers).parts() {
		beside[part.question] = part.text
		remark += part.remark
	}
	var typed []string
	for i, p := range q.SubQuestions {
		values := t.Inputs["q"+number1(i)]
		if t.Choice != ChoiceSend {
			values = []string{t.Choice}
		}
		options, words := newChoices(p), t.words(i)
		a, said, ok := options.tapped(values, cmp.Or(words, beside[i]))
		if len(values) == 0 && words == "" && beside[i] != "" {
			a, _ = options.answer(beside[i])
			said = beside[i]
		}
		switch {
		case !ok:
			return nil, "", state.NoteUnclear
		case a.IsEmpty():
			continue
		case several:
			said = fmt.Sprintf("Q%d: %s", i+1, said)
		case len(a.Labels) == 0:
			said = a.Text
		}
		answers[i], typed = a, append(typed, said)
	}
	if len(answers) == 0 {
		return nil, "", state.NoteNoText
	}
	if remark != "" { // it is on the first answer, as in a reply
		first := slices.Min(slices.Collect(maps.Keys(answers)))
		a := answers[first]
		a.Notes = strings.TrimSpace(a.Notes + "\n" + remark)
		answers[first] = a
		typed = append([]string{remark}, typed...)
	}
	return answers, head(strings.Join(typed, "\n"), MaxText), ""
}

// tapped reads the values of a prompt's boxes, and the words beside them: a remark where
// an option is chosen. Ok is false where no option has a number, or too many are chosen.
func (c *choices) tapped(values []string, words string) (a state.Answer, typed string, ok bool) {
	var numbers []int
	for _, value := range values {
		n, err := strconv.Atoi(value)
		if err != nil || !c.has(n) || len(numbers) == MostWidgets ||
			len(numbers) == 1 && !c.MultiSelect {
			return a, "", false
		}
		numbers = append(numbers, n)
	}
	if len(numbers) == 0 {
		return state.Answer{Text: words}, "other: " + words, true
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	labels := chosen(c.SubQuestion, numbers)
	again, _ := c.answer(words)
	if slices.Equal(again.Labels, labels) { // the words choose the same
		words = cmp.Or(again.Text, again.Notes)
	}
	for _, n := range numbers {
		typed += "," + strconv.Itoa(n)
	}
	typed = typed[1:]
	if words != "" {
		typed += " - " + words
	}
	return state.Answer{Labels: labels, Notes: words}, typed, true
}

// besideAll is the field for words beside a whole card: they are read as a reply is.
const besideAll = "w"

func (t *Tap) words(prompt int) string { return t.said("w" + number1(prompt)) }

func (t *Tap) said(field string) string {
	said := t.Inputs[field]
	if len(said) == 0 {
		return ""
	}
	return strings.TrimSpace(head(state.Clean(state.ForAgent, head(said[0], MaxText)), MaxText))
}
